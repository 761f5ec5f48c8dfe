//! Assembling the sandwich, and fitting a long history into windows.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use agentd::compose::{AssemblyConfig, PromptAssembler};
use agentd::models::{Catalogue, ConversationTurn, KnowledgeEntry, Mode, ModelSpec, StateDocument};
use agentd::{Pack, SearchPath};

use super::{least, row};

/// Prose of about so many bytes, different for every seed.
fn prose(seed: usize, bytes: usize) -> String {
    const WORDS: [&str; 16] = [
        "trust", "the", "harbour", "was", "quiet", "and", "she", "counted", "every", "lantern",
        "before", "opening", "letter", "again", "slowly", "because",
    ];
    let mut state = seed as u64 + 1;
    let mut out = String::with_capacity(bytes + 16);
    while out.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        out.push_str(WORDS[(state >> 60) as usize]);
        out.push(' ');
    }
    out
}

fn turns(count: usize) -> Vec<ConversationTurn> {
    (0..count)
        .map(|turn| ConversationTurn {
            user: prose(turn, 120),
            assistant: prose(turn + 7, 380),
        })
        .collect()
}

fn entries(count: usize) -> Vec<KnowledgeEntry> {
    let entry = |index: usize| KnowledgeEntry {
        source: None,
        category: "character".to_owned(),
        key: format!("key_{index}"),
        value: prose(index, 120),
    };
    (0..count).map(entry).collect()
}

/// The shipped pack without caps, so that the window alone decides.
fn pack(folder: &Path) -> Pack {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/foreman/pack.yaml");
    let manifest = fs::read_to_string(shipped).unwrap();
    let without = |line: &&str| {
        !["    cap: ", "    items: ", "hysteresis: "]
            .iter()
            .any(|key| line.starts_with(key))
    };
    let manifest: Vec<&str> = manifest.lines().filter(without).collect();
    let path = folder.join("agentd/packs/foreman/pack.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, manifest.join("\n")).unwrap();
    Pack::load(
        "foreman",
        &SearchPath::new(Some(folder.to_path_buf()), None),
    )
    .unwrap()
}

fn model(window: u64) -> ModelSpec {
    let catalogue = Catalogue::built_in().unwrap();
    ModelSpec {
        id: "bench".to_owned(),
        aliases: Vec::new(),
        window,
        ..catalogue.find("gpt-4o").unwrap().clone()
    }
}

pub(crate) fn run() {
    let folder = tempfile::tempdir().unwrap();
    let pack = pack(folder.path());
    assemble(&pack);
    fit(&pack);
}

fn config() -> AssemblyConfig {
    AssemblyConfig {
        max_kb_entries: usize::MAX,
        max_conversation_turns: usize::MAX,
        ..AssemblyConfig::new("bench", Mode::new("architect").unwrap())
    }
}

/// The reference: the same layers put together by hand, values escaped, into one string.
fn by_hand(layers: &[&str], entries: &[KnowledgeEntry], turns: &[ConversationTurn]) -> String {
    let mut out = String::new();
    for layer in layers {
        out.push_str(layer);
        out.push_str("\n\n---\n\n");
    }
    let escape = |out: &mut String, text: &str| {
        let mut written = 0;
        for (at, byte) in text.bytes().enumerate() {
            let reference = match byte {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                _ => continue,
            };
            out.push_str(&text[written..at]);
            out.push_str(reference);
            written = at + 1;
        }
        out.push_str(&text[written..]);
    };
    out.push_str("<knowledge_context>\n");
    for entry in entries {
        out.push_str("<entry category=\"");
        escape(&mut out, &entry.category);
        out.push_str("\" key=\"");
        escape(&mut out, &entry.key);
        out.push_str("\">\n");
        escape(&mut out, &entry.value);
        out.push_str("\n</entry>\n");
    }
    out.push_str("</knowledge_context>\n");
    for turn in turns {
        out.push_str("USER: ");
        out.push_str(&turn.user);
        out.push_str("\n\nASSISTANT: ");
        out.push_str(&turn.assistant);
        out.push_str("\n\n");
    }
    out
}

fn assemble(pack: &Pack) {
    let names = [
        "identity.md",
        "process_map.md",
        "modes/architect.md",
        "protocols.md",
    ];
    let layers: Vec<&str> = names.iter().map(|name| pack.texts[*name].body()).collect();
    let mut ours_before = None;
    for (name, count, samples) in [("S", 10, 3_000), ("L", 1_000, 200), ("XL", 10_000, 20)] {
        let (turns, known) = (turns(count), entries(count.min(1_000)));
        let mut catalogue = Catalogue::built_in().unwrap().clone();
        catalogue.add(model(1 << 40)).unwrap();
        let assembler = PromptAssembler::new(pack.clone(), known.clone())
            .unwrap()
            .with_catalogue(catalogue);
        let config = config();
        let work = StateDocument::default();
        let ours = || {
            assembler
                .assemble(&config, &work, &turns, "Go on", None)
                .unwrap()
        };
        let text = ours();
        let time = least(samples, || drop(black_box(ours())));
        let hand = least(samples, || {
            drop(black_box(by_hand(&layers, &known, &turns)))
        });
        let copy = least(samples, || drop(black_box(text.clone())));
        row(
            &format!("assemble {name}, {} KB: to by hand", text.len() / 1_024),
            time,
            hand,
        );
        row(
            &format!(
                "assemble {name}, {} KB: to a fresh copy",
                text.len() / 1_024
            ),
            time,
            copy,
        );
        if let Some((before, bytes)) = ours_before {
            let steps = (text.len() as f64 / bytes as f64).ln();
            let exponent = (time.as_secs_f64() / Duration::as_secs_f64(&before)).ln() / steps;
            println!(
                "{:<44} {exponent:>12.2}",
                format!("assemble {name}: growth exponent")
            );
        }
        ours_before = Some((time, text.len()));
        if name == "XL" {
            memory(text.len());
            let two = least(samples, || {
                std::thread::scope(|scope| {
                    scope.spawn(|| drop(black_box(ours())));
                    scope.spawn(|| drop(black_box(ours())));
                });
            });
            row("assemble XL twice on two threads: to once", two, time);
        }
    }
}

/// Returns the most memory that this process has had, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

/// Prints what assembling adds to the peak of a process that has done nothing else: freed memory would hide it.
fn memory(bytes: usize) {
    let program = std::env::current_exe().unwrap();
    let output = std::process::Command::new(program)
        .args(["--bench", "memory"])
        .output()
        .unwrap();
    let added: f64 = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .last()
        .unwrap()
        .parse()
        .unwrap();
    let times = added * 1_024.0 / bytes as f64;
    println!(
        "{:<44} {:>12} {:>21.2}x",
        "assemble XL: memory added, to the text",
        format!("{added} KiB"),
        times
    );
}

/// The process that is measured: it prints what assembling added to its peak.
pub(crate) fn measure_memory() {
    let folder = tempfile::tempdir().unwrap();
    let pack = pack(folder.path());
    let (turns, known) = (turns(10_000), entries(1_000));
    let mut catalogue = Catalogue::built_in().unwrap().clone();
    catalogue.add(model(1 << 40)).unwrap();
    let assembler = PromptAssembler::new(pack, known)
        .unwrap()
        .with_catalogue(catalogue);
    let (config, work) = (config(), StateDocument::default());
    let ours = |turns| {
        assembler
            .assemble(&config, &work, turns, "Go on", None)
            .unwrap()
    };
    drop(ours(&turns[..1]));
    let before = peak();
    let text = ours(&turns);
    println!("{}", peak() - before);
    drop(black_box(text));
}

#[expect(clippy::too_many_lines, reason = "one measurement after the other")]
fn fit(pack: &Pack) {
    let all = turns(10_000);
    let count = |text: &str| bpe_openai::o200k_base().count(text) as u64;
    let cost = |turn: &ConversationTurn| {
        count(&format!("\n\nUSER: {}", turn.user))
            + count(&format!("\n\nASSISTANT: {}", turn.assistant))
    };
    let costs: Vec<u64> = all.iter().map(cost).collect();
    let work = StateDocument::default();
    let make = |window: u64| {
        let mut catalogue = Catalogue::built_in().unwrap().clone();
        catalogue.add(model(window)).unwrap();
        PromptAssembler::new(pack.clone(), Vec::new())
            .unwrap()
            .with_catalogue(catalogue)
    };
    let config = config();
    for (name, window, samples) in [
        ("8K", 8_192, 30),
        ("32K", 32_768, 20),
        ("200K", 200_000, 6),
        ("1M", 1_000_000, 4),
    ] {
        let assembler = make(window);
        let ours = || {
            assembler
                .assemble(&config, &work, &all, "Go on", None)
                .unwrap()
        };
        let text = ours();
        let kept = text.matches("\n\nUSER: ").count();
        let newest = &all[all.len() - kept..];
        // What counting alone takes: the text that is kept, and no more.
        let limit = least(samples, || {
            let turns: u64 = newest
                .iter()
                .map(|turn| count(&turn.user) + count(&turn.assistant))
                .sum();
            black_box(turns + count(text.split("\n\nUSER: ").next().unwrap()));
        });
        let mut cold = Duration::MAX;
        for _ in 0..samples {
            let fresh = make(window);
            cold = cold.min(least(1, || {
                drop(black_box(
                    fresh.assemble(&config, &work, &all, "Go on", None).unwrap(),
                ));
            }));
        }
        row(
            &format!("fit {name} of 10,000 turns, cold: to counting"),
            cold,
            limit,
        );
        let cached = least(samples * 5, || drop(black_box(ours())));
        let known = least(samples * 5, || {
            let (mut used, mut out) = (0, String::new());
            for (turn, cost) in all.iter().zip(&costs).rev() {
                used += cost;
                if used > window - 7_500 {
                    break;
                }
                out.push_str(&turn.user);
                out.push_str(&turn.assistant);
            }
            black_box(out);
        });
        row(
            &format!("fit {name} of 10,000 turns, cached: to known"),
            cached,
            known,
        );
    }
    for (name, count_of, samples) in [("1,000", 1_000, 60), ("10,000", 10_000, 60)] {
        let assembler = make(32_768);
        let mut said = all[..count_of].to_vec();
        drop(
            assembler
                .assemble(&config, &work, &said, "Go on", None)
                .unwrap(),
        );
        let mut number = 20_000;
        let again = least(samples, || {
            number += 1;
            said.push(ConversationTurn {
                user: prose(number, 120),
                assistant: prose(number, 380),
            });
            drop(black_box(
                assembler
                    .assemble(&config, &work, &said, "Go on", None)
                    .unwrap(),
            ));
        });
        let one = least(samples, || {
            number += 1;
            black_box(count(&prose(number, 120)) + count(&prose(number, 380)));
        });
        row(
            &format!("one more turn on {name}, 32K: to counting it"),
            again,
            one,
        );
    }
}
