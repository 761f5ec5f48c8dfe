//! Time and output limits of an agent.

use std::fs;
use std::process::{Command, Stdio};

use agentd::agent::{ExitCause, GuardedProcess, Limits};

use super::{Call, HANG, milliseconds, seconds, supported_kinds};
use crate::support::waiting::{GROWING_LIMITS, until, until_written};
use crate::support::{program, write_program};

/// Maximum memory of a guard or of agentd, regardless of the output of the agent.
const MAX_MEMORY_BYTES: u64 = 64 << 20;

/// Idle timeouts in milliseconds. On a busy machine an agent may exceed the first one before it
/// prints anything; the test then tries the next.
const IDLE_TIMES: [u64; 4] = [300, 2_000, 10_000, 60_000];

#[test]
fn silent_agent_is_killed_after_the_idle_timeout() {
    for containment in supported_kinds("silent_agent_is_killed_after_the_idle_timeout") {
        let has_spoken = |idle: &u64| {
            let limits = Limits {
                idle: milliseconds(*idle),
                grace: HANG,
                ..Limits::default()
            };
            let call = Call {
                containment,
                ..Call::within(limits)
            };
            let exit = call.run_agent(&["out words", "hang"]);
            assert_eq!((exit.signal, exit.cause), (Some(15), ExitCause::Idle));
            assert!(exit.milliseconds >= *idle);
            call.stdout_text() == "words\n"
        };

        assert!(
            IDLE_TIMES.iter().any(has_spoken),
            "earlier output is not kept"
        );
    }
}

#[test]
fn output_on_either_stream_resets_the_idle_timeout() {
    for speak in ["out words", "err words"] {
        let is_left_alone = |idle: &u64| {
            let call = Call::within(Limits {
                idle: milliseconds(*idle),
                ..Limits::default()
            });
            // In total longer than the idle timeout.
            let pause = format!("sleep {}", idle / 4);
            let exit = call.run_agent(&[speak, pause.as_str()].repeat(6));
            exit.cause == ExitCause::Ended && exit.milliseconds > *idle
        };
        assert!(IDLE_TIMES.iter().any(is_left_alone), "{speak}");
    }
}

#[test]
fn talking_agent_is_killed_at_the_time_limit() {
    for containment in supported_kinds("talking_agent_is_killed_at_the_time_limit") {
        let limits = Limits {
            wall: milliseconds(500),
            grace: HANG,
            ..Limits::default()
        };
        let call = Call {
            containment,
            ..Call::within(limits)
        };
        let exit = call.run_agent(&["out words", "sleep 50"].repeat(1000));
        assert_eq!((exit.signal, exit.cause), (Some(15), ExitCause::Wall));
        assert!(exit.milliseconds >= 500);
    }
}

#[test]
fn limits_kill_an_agent_that_stopped_its_guard() {
    let has_stopped_it = |limit: u64| {
        let limits = Limits {
            wall: seconds(limit),
            grace: HANG,
            ..Limits::default()
        };
        let call = Call::within(limits);
        let exit = call.run_agent(&["stop-guard", "out begun", "hang"]);
        assert_eq!((exit.signal, exit.cause), (Some(15), ExitCause::Wall));
        call.stdout_text() == "begun\n"
    };
    assert!(
        GROWING_LIMITS.into_iter().any(has_stopped_it),
        "the agent does not stop its guard"
    );
}

#[test]
fn stopping_the_run_kills_an_agent_that_stopped_its_guard() {
    for at_once in [false, true] {
        let call = Call::new();
        let mut contained = call.start_agent(&["stop-guard", "out begun", "hang"]);
        call.wait_for("begun");
        contained.stop(at_once);
        assert_eq!(call.end_of(contained).cause, ExitCause::Stopped);
    }
}

#[test]
fn unresponsive_guard_is_killed_with_its_agent() {
    let script = "#!/bin/sh\necho ready\nsh -c 'trap \"\" TERM; echo begun >begun; sleep 600; :'\n";
    let limits = Limits {
        wall: milliseconds(100),
        grace: milliseconds(100),
        ..Limits::default()
    };

    for stop in [None, Some(true)] {
        let call = Call::within(limits);
        let guard = call.parent.path().join("guard");
        write_program(&guard, script);
        let mut contained = call.start_under(&guard, &["unused"]).unwrap();
        until_written(&call.parent.path().join("begun"), "begun");
        if let Some(at_once) = stop {
            contained.stop(at_once);
        }
        let exit = call.end_of(contained);

        let cause = if stop.is_some() {
            ExitCause::Stopped
        } else {
            ExitCause::Wall
        };
        assert_eq!((exit.code, exit.signal, exit.cause), (None, None, cause));
        assert!(
            exit.left_behind >= 2,
            "the shell and its child: {}",
            exit.left_behind
        );
    }
}

#[test]
fn gigabyte_of_output_is_stopped_at_the_limit() {
    for containment in supported_kinds("gigabyte_of_output_is_stopped_at_the_limit") {
        let limits = Limits {
            output: 8 << 20,
            grace: seconds(3600),
            ..Limits::default()
        };
        let call = Call {
            containment,
            ..Call::within(limits)
        };

        // The agent writes without end and ignores SIGTERM.
        let contained =
            call.start_agent(&["trap-term", "setsid 600000", "bytes 1073741824", "hang"]);
        let (cause, memory) = cause_and_memory(contained);
        assert_eq!(cause, ExitCause::Output);
        assert!(memory < MAX_MEMORY_BYTES, "{memory} bytes");
        assert_eq!(
            fs::metadata(call.folder().join("stdout")).unwrap().len(),
            8 << 20
        );
    }
}

/// Runs a call until it exits, and returns the peak memory of its guard.
fn cause_and_memory(mut contained: GuardedProcess) -> (ExitCause, u64) {
    let pid = contained.process().pid;
    let (mut exit, mut memory) = (None, 0);
    until("the agent is not killed", || {
        memory = peak_memory(pid).unwrap_or(memory);
        exit = contained.wait(milliseconds(5)).unwrap();
        exit.is_some()
    });
    assert!(memory > 0);
    (exit.unwrap().cause, memory)
}

/// Returns the peak memory of a living process so far.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Some(peak?.parse::<u64>().unwrap() << 10)
}

#[test]
fn gigabyte_of_output_is_not_held_in_memory() {
    let call = Call::new();
    let mut command = Command::new(program("contained"));
    command
        .arg(call.folder())
        .args([&call.marker(), "guard"])
        .arg(program("fake_agent"));
    let mut program = command
        .arg("bytes 1073741824")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut memory = 0;
    until("the program hangs", || {
        memory = peak_memory(program.id()).unwrap_or(memory);
        program.try_wait().unwrap().is_some()
    });

    let said = std::io::read_to_string(program.stdout.take().unwrap()).unwrap();
    assert!(said.contains("cause: Output"), "{said}");
    assert!(memory > 0 && memory < MAX_MEMORY_BYTES, "{memory} bytes");
    assert_eq!(
        fs::metadata(call.folder().join("stdout")).unwrap().len(),
        Limits::default().output
    );
}

#[test]
fn stderr_counts_towards_the_output_limit() {
    let call = Call::within(Limits {
        output: 1 << 20,
        ..Limits::default()
    });
    let exit = call.run(&[
        "sh",
        "-c",
        "echo words; head -c 100000000 /dev/zero >&2; sleep 600",
    ]);
    assert_eq!(exit.cause, ExitCause::Output);
    assert_eq!(
        fs::metadata(call.folder().join("stderr")).unwrap().len(),
        1 << 20
    );
    assert_eq!(call.stdout_text(), "words\n");
}

#[test]
fn exit_right_after_too_much_output_is_over_the_limit() {
    let call = Call::within(Limits {
        output: 1000,
        ..Limits::default()
    });
    assert_eq!(call.run_agent(&["bytes 1000"]).cause, ExitCause::Ended);
    assert_eq!(call.stdout().len(), 1000);
    assert_eq!(call.run_agent(&["bytes 1001"]).cause, ExitCause::Output);
    assert_eq!(call.stdout().len(), 1000);
}
