//! Failures around a turn: its folder, its reader, its memory, the size of its input.

use std::fs;
use std::process::Stdio;

use super::{Stage, TARGET, TURN, UNDISTURBED, WRITTEN, names, until};
use crate::support::Run;

/// Maximum memory of the program, regardless of the output of an agent.
const MAX_MEMORY_BYTES: u64 = 96 << 20;

/// F9: a turn that cannot be recorded does not start.
#[test]
fn unrecordable_turn_calls_no_agent() {
    let stage = Stage::new();
    stage.project.write(".agentd", "in the way");
    stage.run(&TURN).fails(7, &["LedgerUnusable", ".agentd"]);
    assert_eq!(stage.calls(), 0);
    fs::remove_file(stage.project.root().join(".agentd")).unwrap();
    stage.run(&TURN).ok();
    stage.check_end(1, WRITTEN);
}

#[test]
fn call_without_a_folder_costs_nothing() {
    let stage = Stage::new();
    stage.project.write(".agentd/calls", "in the way");
    stage.run(&TURN).fails(5, &["AgentUnusable", "calls"]);
    assert_eq!(stage.calls(), 0);
    let row = stage.last_row();
    assert_eq!(
        (&row["result"], &row["tokens"]),
        (&"crashed".into(), &0.into())
    );
    fs::remove_file(stage.project.root().join(".agentd/calls")).unwrap();
    stage.finish();
    stage.check(&[], &[Some(WRITTEN)]);
    stage.check_end(1, WRITTEN);
    assert_eq!(stage.calls(), 1);
}

/// F11: a closed reader does not end a turn.
#[test]
fn turn_continues_with_closed_stdout() {
    for json in [&["--json"][..], &[]] {
        let stage = Stage::new();
        stage.steps(&["out early", &stage.await_release(), "reply"]);
        let mut command = stage.command(&[&TURN[..], json].concat(), "");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        stage.release();

        let run = Run::from(child.wait_with_output().unwrap());
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(
            !run.stderr.contains("panicked") && !run.stderr.contains("error"),
            "{}",
            run.stderr
        );
        assert_eq!(names(&stage.events()), UNDISTURBED);

        stage.check(&[], &[Some(WRITTEN)]);
        stage.check_end(1, WRITTEN);
    }
}

#[test]
fn turn_continues_with_closed_stderr() {
    let stage = Stage::new();
    let mut child = stage
        .command(&TURN, "")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert!(child.wait().unwrap().success());
    stage.check_end(1, WRITTEN);
}

/// F12.
#[test]
fn gigabyte_of_output_is_stopped_in_constant_memory() {
    for (step, more) in [
        ("bytes 1073741824", &["--json"][..]),
        ("line 1073741824", &[]),
    ] {
        check_gigabyte(step, more);
    }
}

#[expect(
    clippy::print_stdout,
    reason = "the figure is printed for manual inspection"
)]
fn check_gigabyte(step: &str, more: &[&str]) {
    let stage = Stage::with(&["out <review>PASS</review>", step]);
    let mut command = stage.command(&[&TURN[..], more].concat(), "");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut memory = 0;
    until("the program hangs", || {
        memory = peak_memory(child.id()).unwrap_or(memory);
        child.try_wait().unwrap().is_some()
    });

    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, 5, "{}", run.stderr);
    assert!(run.stderr.contains("AgentOutputTooLarge"), "{}", run.stderr);

    println!("1 GB of output: {} KiB at most", memory >> 10);
    assert!(memory > 0 && memory < MAX_MEMORY_BYTES, "{memory} bytes");

    let row = stage.last_row();
    assert_eq!(
        (&row["result"], &row["verdict"]),
        (&"output too large".into(), &serde_json::Value::Null)
    );

    let kept = stage.run(&["show", "s/1", "--reply"]).ok();
    assert!(
        kept.starts_with("<review>PASS</review>\nxxx") && kept.ends_with('x'),
        "both ends are kept"
    );

    stage.check(&[], &[None]);
}

/// Returns the peak memory of a living process so far.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Some(peak?.parse::<u64>().unwrap() << 10)
}

/// F24: the prompt is passed whole at any size, and an agent that prints before reading all of it
/// does not block.
#[test]
fn prompt_of_50_mb_reaches_the_agent_whole() {
    let stage = Stage::with(&["out begun", "read-stdin", "reply"]);
    stage.settings("[prompt]\nmax_bytes = 60000000\n[budget.session]\ntokens = 100000000");
    let line = "some words of a long file, again and again and again\n";
    let file = line.repeat(10_000_000 / line.len());
    let mut args: Vec<String> = TURN.iter().map(|&arg| arg.to_owned()).collect();
    for number in 1..=5 {
        stage.project.write(&format!("long/{number}.txt"), &file);
        args.extend(["--file".to_owned(), format!("long/{number}.txt")]);
    }

    let args: Vec<&str> = args.iter().map(String::as_str).chain(["--json"]).collect();
    let report = stage.run(&args).report();
    let bytes = report["report"]["prompt_bytes"].as_u64().unwrap();
    assert!(bytes > 49_000_000, "{bytes}");

    let said = stage.run(&["show", "s/1", "--reply"]).ok();
    assert!(said.contains(&format!("read {bytes} bytes\n")), "{said}");

    stage.check_end(1, WRITTEN);
}

/// F10: an agent need not read its whole prompt.
#[test]
fn agent_that_closes_stdin_early_is_judged_by_its_reply() {
    let stage = Stage::with(&["read-stdin 1024", "close-stdin", "reply"]);
    stage.project.write("long.txt", "words ".repeat(200_000));
    let run = stage.run(&[&TURN[..], &["--file", "long.txt"]].concat());
    run.ok();
    stage.check_end(1, WRITTEN);
}

/// The user's own edits win over the update of an agent.
#[test]
fn target_changed_meanwhile_is_kept() {
    let stage = Stage::new();
    stage.run_with(&TURN, "committed=abort");
    stage.project.write(TARGET, "mine\n");
    stage.run(&["resume"]).ok();
    assert_eq!(stage.project.read(TARGET), "mine\n");
    let shown = stage.run(&["show", "s/1"]).ok();
    let words =
        format!("not done   cannot write {TARGET}: the file changed after the prompt was created");
    assert!(shown.contains(&words), "{shown}");
    stage.run(&TURN).ok();
    stage.check_end(2, WRITTEN);
}

/// F3: the partial reply of an agent is kept and shown after a kill, but has no effect.
#[test]
fn partial_reply_after_a_kill_is_never_a_verdict() {
    let stage = Stage::with(&["bytes 65536", "reply", "hang"]);
    let mut child = stage.start(&TURN, "");
    let stdout = stage.project.root().join(".agentd/calls/s.1.1/stdout");
    super::until_written(&stdout, "</review>");
    child.kill().unwrap();
    child.wait().unwrap();
    stage.is_alone_soon();
    let before = stage.events();

    let said = stage.run(&["resume"]).stderr;
    assert!(
        said.contains("the call of s/1 is lost; 65") && said.contains("are kept"),
        "{said}"
    );

    let row = stage.last_row();
    assert_eq!(
        (&row["result"], &row["verdict"]),
        (&"lost".into(), &serde_json::Value::Null)
    );

    let kept = stage.run(&["show", "s/1", "--reply"]).ok();
    assert!(kept.starts_with("xxx") && kept.ends_with("<review>PASS</review>\n"));

    stage.check(&before, &[None]);
    stage.steps(&["reply"]);
    stage.finish();
    stage.check(&before, &[Some(WRITTEN)]);
    stage.check_end(1, WRITTEN);
    assert_eq!(stage.calls(), 2);
}

/// F4: a reply without its exit record is not complete, whatever its content.
#[test]
fn reply_without_exit_record_is_requested_again() {
    let stage = Stage::new();
    stage.run_with(&TURN, "replied=abort");
    fs::remove_file(stage.project.root().join(".agentd/calls/s.1.1/exit")).unwrap();
    stage.run(&["resume"]).ok();
    assert_eq!(super::call_outcomes(&stage.events()), ["lost"]);
    let spent = super::answers(&stage.events())[0].spent.tokens;
    assert!(
        spent > 8_000,
        "the possible cost of a lost call counts: {spent}"
    );
    stage.finish();
    stage.check(&[], &[Some(WRITTEN)]);
    stage.check_end(1, WRITTEN);
    assert_eq!(stage.calls(), 2);
}

/// F1, F2: no call is made twice, and no process outlives its program.
#[test]
fn kill_at_agent_start_leaves_no_process() {
    let stage = Stage::with(&["setsid 600000", "double-fork 600000", "hang"]);
    for (point, calls) in [("called", 0), ("launched", 1), ("recorded", 1)] {
        stage.run_with(&TURN, &format!("{point}=abort"));
        stage.is_alone_soon();
        stage.run(&["resume"]).ok();
        assert_eq!(stage.last_row()["result"], "lost");
        assert!(stage.calls() <= calls, "{point}");
        stage.check(&[], &[None]);
        let _none = fs::remove_file(stage.outside("calls"));
    }
}
