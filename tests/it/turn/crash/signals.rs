//! Signals to the program: a graceful stop, an immediate one, and their record in the ledger.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::{Stage, TURN, WRITTEN, call_outcomes, code_of, send, until, until_written};
use crate::support::waiting::blocks_received_sigterm;
use crate::support::{Run, write};

/// Starts a turn whose agent has printed something and keeps running.
fn start_turn(stage: &Stage) -> Child {
    let child = stage.start(&TURN, "");
    until_written(
        &stage.project.root().join(".agentd/calls/s.1.1/stdout"),
        "PASS",
    );
    child
}

/// Checks that a turn was stopped: its output is kept without effect, and it can be taken again.
fn check_stopped(stage: &Stage) {
    assert!(stage.alive().is_empty(), "the agent is gone");
    assert_eq!(call_outcomes(&stage.events()), ["stopped"]);

    let row = stage.last_row();
    assert_eq!(
        (&row["result"], &row["verdict"]),
        (&"stopped".into(), &serde_json::Value::Null)
    );
    assert!(
        stage
            .run(&["show", "s/1", "--reply"])
            .ok()
            .contains("<review>PASS</review>")
    );

    stage.check(&[], &[None]);
    stage.steps(&["reply"]);
    stage.run(&["resume", "s"]).ok();
    stage.check_end(1, WRITTEN);
}

/// agentd blocks the signals that stop it. Its agent must not inherit the mask, or SIGTERM would
/// not reach it.
#[cfg(target_os = "linux")]
#[test]
fn stop_signals_are_not_blocked_in_the_agent() {
    let stage = Stage::new();
    let definition = "format: 1\nagents:\n  fake: {argv: [grep, SigBlk, /proc/self/status]}\n";
    write(&stage.project.user_folder().join("agents.yaml"), definition);
    stage.run(&TURN).ok();

    let reply = stage.run(&["show", "s/1", "--reply"]).ok();
    let blocked = u64::from_str_radix(reply.trim().strip_prefix("SigBlk:\t").unwrap(), 16).unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        assert_eq!(
            blocked & (1 << (signal as u64 - 1)),
            0,
            "{signal} is blocked: {reply}"
        );
    }
}

#[test]
fn first_signal_stops_a_turn_gracefully() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let stage = Stage::with(&["reply", "hang"]);
        let child = start_turn(&stage);
        send(&child, signal);
        assert_eq!(code_of(child), Some(130), "{signal}");
        check_stopped(&stage);
    }
}

/// F20, F25: an agent that ignores SIGTERM has a grace period, which the second signal ends.
#[test]
fn second_signal_kills_an_agent_that_ignores_signals() {
    let stage = Stage::with(&["trap-term", "reply", "hang"]);
    stage.settings("[limits]\ngrace_seconds = 3600");
    let mut child = start_turn(&stage);
    send(&child, Signal::SIGINT);
    until("the agent does not get SIGTERM", || {
        stage.alive().into_iter().any(blocks_received_sigterm)
    });
    assert!(
        child.try_wait().unwrap().is_none(),
        "the agent has its grace period"
    );
    send(&child, Signal::SIGINT);
    assert_eq!(code_of(child), Some(130));
    check_stopped(&stage);
}

/// A reader that does not read blocks all output to it.
#[test]
fn second_signal_ends_a_program_with_a_stalled_reader() {
    let stage = Stage::with(&["reply", "bytes 2000000", "out all-is-said", "hang"]);
    let mut command = stage.command(&[&TURN[..], &["--json"]].concat(), "");

    // A reader that stalls on both streams, as with `2>&1 | less`.
    let (reader, writer) = std::io::pipe().unwrap();
    command
        .stdout(writer.try_clone().unwrap())
        .stderr(writer.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    drop(command);
    until_written(
        &stage.project.root().join(".agentd/calls/s.1.1/stdout"),
        "all-is-said",
    );

    // From here on the program is blocked, because its output exceeds the pipe buffer.
    until("the pipe is not full", || !has_room(&writer));

    send(&child, Signal::SIGTERM);
    until("the agent is not killed", || {
        call_outcomes(&stage.events()) == ["stopped"]
    });
    assert!(
        child.try_wait().unwrap().is_none(),
        "the program is not blocked, so this test proves nothing"
    );

    send(&child, Signal::SIGTERM);
    assert_eq!(code_of(child), Some(130));

    drop(reader);
    check_stopped(&stage);
}

/// Returns true if a write to the pipe would not block.
fn has_room(pipe: &impl AsFd) -> bool {
    let mut ends = [PollFd::new(pipe.as_fd(), PollFlags::POLLOUT)];
    poll(&mut ends, PollTimeout::ZERO).unwrap() > 0
}

#[test]
fn agent_that_ignores_signals_is_killed_after_the_grace_period() {
    let stage = Stage::with(&["trap-term", "reply", "setsid 600000", "hang"]);
    stage.settings("[limits]\ngrace_seconds = 1");
    let child = start_turn(&stage);
    let asked = Instant::now();
    send(&child, Signal::SIGTERM);
    assert_eq!(code_of(child), Some(130));
    assert!(
        asked.elapsed() >= Duration::from_secs(1),
        "there was no grace period"
    );
    check_stopped(&stage);
}

#[test]
fn signal_ends_the_wait_for_a_rate_limit() {
    let stage = Stage::with(&["err rate limit exceeded, retry-after: 300", "exit 1"]);
    let mut command = stage.command(&TURN, "");

    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("agentd does not wait for the rate limit", || {
        call_outcomes(&stage.events()) == ["rate limited"]
    });

    send(&child, Signal::SIGINT);
    Run::from(child.wait_with_output().unwrap()).fails(
        130,
        &[
            "AgentStopped",
            "it was waiting for its rate limit to end",
            "resume",
        ],
    );
    // Otherwise the agent would have been called once more when the wait was over.
    assert_eq!(
        (call_outcomes(&stage.events()), stage.calls()),
        (vec!["rate limited"], 1)
    );

    stage.check(&[], &[None]);
    stage.steps(&["reply"]);
    stage.run(&["resume", "s"]).ok();
    stage.check_end(1, WRITTEN);
}

#[test]
fn signal_before_the_call_prevents_the_call() {
    let stage = Stage::new();
    let stderr = stage.outside("stderr");
    let mut command = stage.command(&TURN, &stage.hold_at("prepared"));
    let child = command
        .stdout(Stdio::null())
        .stderr(File::create(&stderr).unwrap())
        .spawn()
        .unwrap();
    until_written(&stage.trace_file(), "prepared\n");
    send(&child, Signal::SIGTERM);

    // The program prints this once it has received the signal.
    until_written(&stderr, "SIGTERM");
    stage.release();
    assert_eq!(code_of(child), Some(130));
    assert_eq!((stage.calls(), stage.events().len()), (0, 0));

    stage.run(&TURN).ok();
    stage.check_end(1, WRITTEN);
}
