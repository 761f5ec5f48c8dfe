//! Figures next to their physical limits, taken in the same run. `cargo bench` prints them; docs/internals/speed.md explains them.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench sets up the world it measures and prints what it finds"
)]

mod ledger;
mod parse;
mod sandwich;
mod turn;

use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentd::config::StructureLimits;
use agentd::{UnifiedPrompt, inject_variables, ops};
use memchr::memchr3;

fn main() {
    // `cargo test` runs benches too, without this flag; there is nothing to test here.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    if std::env::args().any(|arg| arg == "memory") {
        sandwich::measure_memory();
        return;
    }
    println!("{:<44} {:>12} {:>12} {:>8}", "", "ours", "limit", "ratio");
    // `cargo bench -- sandwich` takes one part alone.
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let parts: [(&str, fn()); 9] = [
        ("xml", xml),
        ("template", template),
        ("structure", structure),
        ("sandwich", sandwich::run),
        ("parse", parse::run),
        ("ledger", ledger::run),
        ("turn", turn::run),
        ("recovery", turn::recover),
        ("start", start),
    ];
    for (name, part) in parts {
        if named.is_empty() || named.iter().any(|wanted| wanted == name) {
            part();
        }
    }
}

/// Returns the least time of several runs.
fn least(samples: usize, mut run: impl FnMut()) -> Duration {
    let sample = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..samples).map(sample).min().unwrap()
}

fn row(what: &str, ours: Duration, limit: Duration) {
    let ratio = ours.as_secs_f64() / limit.as_secs_f64();
    println!(
        "{what:<44} {:>12} {:>12} {ratio:>8.2}",
        shown(ours),
        shown(limit)
    );
}

fn shown(time: Duration) -> String {
    match time.as_nanos() {
        nanos @ 0..10_000 => format!("{nanos} ns"),
        nanos @ 10_000..10_000_000 => format!("{:.1} us", nanos as f64 / 1e3),
        nanos => format!("{:.1} ms", nanos as f64 / 1e6),
    }
}

/// Code with about one character in 25 that XML would have escaped.
fn code(bytes: usize) -> String {
    let line = "    let value: Vec<u8> = read(&path, limit)?; // keep the first lines only\n";
    line.repeat(bytes / line.len() + 1)[..bytes].to_owned()
}

/// The reference: every special character escaped, found by memchr3, into a kept buffer.
fn escape(prompt: &UnifiedPrompt, out: &mut Vec<u8>) {
    out.clear();
    for item in prompt.context() {
        out.extend_from_slice(b"<file path=\"");
        out.extend_from_slice(item.name().as_bytes());
        out.extend_from_slice(b"\">");
        let mut rest = item.content().as_bytes();
        while let Some(hit) = memchr3(b'<', b'&', b'>', rest) {
            out.extend_from_slice(&rest[..hit]);
            out.extend_from_slice(match rest[hit] {
                b'<' => b"&lt;",
                b'&' => b"&amp;",
                _ => b"&gt;",
            });
            rest = &rest[hit + 1..];
        }
        out.extend_from_slice(rest);
        out.extend_from_slice(b"</file>\n");
    }
}

fn xml() {
    for (files, bytes, samples) in [(10, 1_024, 2_000), (1_000, 10_240, 30), (10_000, 10_240, 6)] {
        let content = code(bytes);
        let prompt = (0..files).fold(
            UnifiedPrompt::new("Add login").unwrap(),
            |prompt, number| prompt.with_file(format!("src/file_{number}.rs"), content.as_str()),
        );
        let text = prompt.to_xml().into_bytes();
        let mut kept = text.clone();
        let copy = least(samples, || {
            kept.clear();
            kept.extend_from_slice(black_box(&text));
        });
        let reference = least(samples, || escape(black_box(&prompt), &mut kept));
        let streamed = least(samples, || {
            kept.clear();
            black_box(&prompt).write_xml(&mut kept).unwrap();
        });
        let fresh = least(samples, || drop(black_box(prompt.to_xml())));
        let fresh_copy = least(samples, || drop(black_box(text.clone())));
        let size = format!("{files} files of {} KiB", bytes / 1_024);
        row(
            &format!("write_xml, {size}: to memchr3 escape"),
            streamed,
            reference,
        );
        row(&format!("write_xml, {size}: to memcpy"), streamed, copy);
        row(
            &format!("to_xml, {size}: to a fresh copy"),
            fresh,
            fresh_copy,
        );
        let _since_start = peak();
        let before = peak();
        prompt.write_xml(io::sink()).unwrap();
        println!(
            "{:<44} {:>12}",
            format!("write_xml, {size}: memory added"),
            format!("{} KiB", peak() - before)
        );
    }
}

/// Returns the most memory that this process has had since it was last asked, in KiB.
fn peak() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    // Writing 5 resets the mark; where that is not allowed the figure is too high, never too low.
    let _not_allowed = fs::write("/proc/self/clear_refs", "5");
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

fn template() {
    let text = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/templates/system/BASE-plan.md"
    ))
    .unwrap();
    let names = [
        "PROJECT_CONTEXT",
        "PROJECT_STRUCTURE",
        "ARTIFACTS",
        "SKELETON",
    ];
    let values = names
        .iter()
        .map(|name| ((*name).to_owned(), code(8_192)))
        .collect();
    let filled = inject_variables(&text, &values);
    let ours = least(5_000, || {
        drop(black_box(inject_variables(black_box(&text), &values)))
    });
    let copy = least(5_000, || drop(black_box(black_box(&filled).clone())));
    row("template of 4 variables, 38 KB: to memcpy", ours, copy);
}

fn structure() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..12_000 {
        let path = folder.path().join(format!(
            "part{}/module{}/file{number}.rs",
            number % 20,
            number % 300
        ));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    fs::write(folder.path().join(".gitignore"), "*.log\n/target\n").unwrap();
    let walk = least(5, || {
        let walk = ignore::WalkBuilder::new(folder.path())
            .hidden(false)
            .require_git(false)
            .build();
        black_box(walk.flatten().count());
    });
    let tree = |limits| {
        least(5, || {
            drop(black_box(ops::structure(folder.path(), limits).unwrap()))
        })
    };
    let all = tree(StructureLimits {
        per_folder: usize::MAX,
        total: usize::MAX,
    });
    let capped = tree(StructureLimits {
        per_folder: 60,
        total: 400,
    });
    row("structure of 12,000 files, all: to a walk", all, walk);
    row("structure of 12,000 files, capped: to a walk", capped, walk);
}

/// Returns the CPU time of one run of a command, from a hundred: the kernel counts in ticks of 10 ms.
fn cpu(command: &mut Command) -> Duration {
    const RUNS: u32 = 200;
    let children = || {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        Duration::from_millis(
            10 * (fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap()),
        )
    };
    let before = children();
    for _ in 0..RUNS {
        assert!(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap()
                .success()
        );
    }
    (children() - before) / RUNS
}

fn start() {
    let folder = tempfile::tempdir().unwrap();
    let hello = build_hello(folder.path());
    let hello = cpu(&mut Command::new(hello));
    let agentd = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentd"));
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/notes"));
        command
    };
    row(
        "agentd --version: to hello world",
        cpu(agentd().arg("--version")),
        hello,
    );
    row(
        "agentd --help: to hello world",
        cpu(agentd().arg("--help")),
        hello,
    );
    row(
        "agentd prompt: to hello world",
        cpu(agentd().args(["prompt", "plan", "Add login"])),
        hello,
    );
}

fn build_hello(folder: &Path) -> std::path::PathBuf {
    let source = folder.join("hello.rs");
    fs::write(&source, "fn main() { println!(\"hello\"); }").unwrap();
    let program = folder.join("hello");
    let built = Command::new("rustc")
        .args(["-O", "-o"])
        .arg(&program)
        .arg(&source)
        .status()
        .unwrap();
    assert!(built.success());
    program
}
