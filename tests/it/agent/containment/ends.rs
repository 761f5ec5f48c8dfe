//! Exits of an agent, stop requests, and the identification of its processes.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentd::agent::{
    Containment, ContainmentFacts, ExitCause, Limits, exit_record, is_alive, network_filesystem,
    this_process,
};
use agentd::models::ProcessIdentity;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Call, HANG, guard, living_pids, milliseconds, seconds, supported_kinds};
use crate::support::did_not_run;
use crate::support::waiting::{blocks_received_sigterm, until};

#[test]
fn exit_codes_and_signals_are_distinguished() {
    for containment in supported_kinds("exit_codes_and_signals_are_distinguished") {
        let call = Call {
            containment,
            ..Call::new()
        };

        for (step, code, signal) in [
            ("exit 0", Some(0), None),
            ("exit 7", Some(7), None),
            ("raise 9", None, Some(9)),
            ("raise 11", None, Some(11)),
        ] {
            let exit = call.run_agent(&[step]);
            assert_eq!(
                (exit.code, exit.signal, &exit.cause),
                (code, signal, &ExitCause::Ended),
                "{step}"
            );
            assert_eq!(call.stdout(), b"");
            assert_eq!(exit_record(&call.folder()).unwrap(), Some(exit));
        }
    }
}

#[test]
fn agent_cannot_send_commands_to_its_guard() {
    let call = Call::new();
    let exit = call.run(&["sh", "-c", "printf k >/proc/$PPID/fd/0 || echo refused"]);
    assert_eq!((exit.code, exit.cause), (Some(0), ExitCause::Ended));
    assert_eq!(call.stdout_text(), "refused\n");
}

#[test]
fn output_is_kept_byte_for_byte() {
    let call = Call::new();
    call.run_agent(&["hex 00ff80c3", "split 1 \u{1f600}é", "hex efbbbf0d0a"]);
    let expected = [
        b"\x00\xff\x80\xc3".as_slice(),
        "\u{1f600}é".as_bytes(),
        b"\xef\xbb\xbf\r\n",
    ]
    .concat();
    assert_eq!(call.stdout(), expected);
}

#[test]
fn line_of_100_mb_is_kept_whole() {
    let call = Call::within(Limits {
        output: 128 << 20,
        ..Limits::default()
    });
    assert_eq!(call.run_agent(&["line 104857600"]).cause, ExitCause::Ended);
    assert_eq!(
        fs::metadata(call.folder().join("stdout")).unwrap().len(),
        104_857_600
    );
}

#[test]
fn wait_timeout_leaves_the_agent_running() {
    let call = Call::new();
    let mut contained = call.start_agent(&["out begun", "hang"]);
    assert_eq!(contained.wait(Duration::ZERO).unwrap(), None);
    assert_eq!(contained.wait(milliseconds(30)).unwrap(), None);
    assert_eq!(exit_record(&call.folder()).unwrap(), None);
    call.wait_for("begun");
    contained.stop(false);
    let exit = contained.wait(HANG).unwrap().unwrap();
    assert_eq!((exit.signal, &exit.cause), (Some(15), &ExitCause::Stopped));
    assert_eq!(
        contained.wait(Duration::ZERO).unwrap(),
        Some(exit),
        "wait can be called again"
    );
}

#[test]
fn agent_that_ignores_sigterm_is_killed_after_the_grace_period() {
    for containment in
        supported_kinds("agent_that_ignores_sigterm_is_killed_after_the_grace_period")
    {
        let limits = Limits {
            grace: milliseconds(300),
            ..Limits::default()
        };
        let call = Call {
            containment,
            ..Call::within(limits)
        };
        let mut contained = call.start_agent(&["trap-term", "setsid 600000", "out deaf", "hang"]);
        call.wait_for("deaf");
        let asked = Instant::now();
        contained.stop(false);

        let exit = call.end_of(contained);
        assert_eq!((exit.signal, exit.cause), (Some(9), ExitCause::Stopped));
        assert!(
            asked.elapsed() >= milliseconds(300),
            "there was no grace period"
        );
    }
}

#[test]
fn child_that_ignores_sigterm_is_killed_after_its_agent_exits() {
    for containment in supported_kinds("child_that_ignores_sigterm_is_killed_after_its_agent_exits")
    {
        let call = Call {
            containment,
            ..Call::new()
        };
        let mut contained = call.start_agent(&["deaf-fork 600000", "out ready", "hang"]);
        call.wait_for("ready");
        contained.stop(false);
        let exit = call.end_of(contained);
        assert_eq!(
            (exit.signal, exit.cause, exit.left_behind),
            (Some(15), ExitCause::Stopped, 1)
        );
    }
}

#[test]
fn immediate_and_second_stop_skip_the_grace_period() {
    for containment in supported_kinds("immediate_and_second_stop_skip_the_grace_period") {
        for at_once in [true, false] {
            let limits = Limits {
                grace: seconds(3600),
                ..Limits::default()
            };
            let call = Call {
                containment,
                ..Call::within(limits)
            };
            let mut contained = call.start_agent(&["trap-term", "out deaf", "hang"]);
            call.wait_for("deaf");
            if !at_once {
                contained.stop(false);
                // Two requests in quick succession may be received as one.
                until("the agent does not get SIGTERM", || {
                    living_pids(&call.marker())
                        .into_iter()
                        .any(blocks_received_sigterm)
                });
            }

            contained.stop(at_once);
            let exit = call.end_of(contained);
            assert_eq!((exit.signal, exit.cause), (Some(9), ExitCause::Stopped));
        }
    }
}

#[test]
fn sigterm_to_the_guard_stops_the_agent() {
    for containment in supported_kinds("sigterm_to_the_guard_stops_the_agent") {
        let call = Call {
            containment,
            ..Call::new()
        };
        let contained = call.start_agent(&["out begun", "hang"]);
        call.wait_for("begun");
        let guard = contained.process().pid;
        // The guard blocks no signals while it starts the agent, so a signal would kill it.
        until("the guard does not block signals", || {
            let status = fs::read_to_string(format!("/proc/{guard}/status")).unwrap();
            status.contains("SigBlk:\t0000000000014003")
        });
        kill(Pid::from_raw(guard.cast_signed()), Signal::SIGTERM).unwrap();
        let exit = call.end_of(contained);
        assert_eq!((exit.signal, exit.cause), (Some(15), ExitCause::Stopped));
    }
}

#[test]
fn liveness_check_rejects_a_reused_pid() {
    let this = this_process();
    assert_eq!(this.pid, std::process::id());
    assert!(is_alive(&this));
    assert!(!is_alive(&ProcessIdentity {
        started: this.started + 1,
        ..this.clone()
    }));
    assert!(!is_alive(&ProcessIdentity {
        boot: "another".to_owned(),
        ..this.clone()
    }));

    let call = Call::new();
    let contained = call.start_agent(&["out begun", "hang"]);
    let guard = contained.process().clone();
    assert!(is_alive(&guard));

    drop(contained);
    until("the guard is alive", || !is_alive(&guard));
}

#[test]
fn zombie_is_not_alive() {
    let mut child = Command::new("sleep")
        .arg("600")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let started = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(19)
        .unwrap()
        .parse()
        .unwrap();
    let process = ProcessIdentity {
        pid: child.id(),
        started,
        ..this_process()
    };
    assert!(is_alive(&process));

    child.kill().unwrap();
    until("the process is alive", || !is_alive(&process));
    assert!(
        fs::exists(format!("/proc/{}", child.id())).unwrap(),
        "the zombie was reaped"
    );

    child.wait().unwrap();
}

#[test]
fn containment_facts_are_probed() {
    let facts = ContainmentFacts::find(guard());
    assert!(facts.guard.is_ok(), "{facts:?}");
    assert_eq!(
        facts.when_killed(),
        "all processes of an agent are killed within a second"
    );

    match &facts.namespace {
        Ok(()) => assert!(
            facts
                .when_guard_killed()
                .contains("the kernel kills all processes")
        ),
        Err(error) => {
            did_not_run(
                "containment_facts_are_probed (namespace)",
                "namespaces are not available",
            );
            assert!(error.hint().unwrap().contains("containment"), "{error:#}");
            assert!(facts.when_guard_killed().contains("marker"));
        }
    }

    let facts = ContainmentFacts::find("/bin/true".as_ref());
    assert!(facts.guard.is_err() && facts.namespace.is_err());
    assert_eq!(facts.when_killed(), "agents cannot be started");
}

#[test]
fn temporary_folder_is_not_on_a_network_file_system() {
    let call = Call::new();
    assert_eq!(network_filesystem(call.parent.path()), None);
    assert_eq!(
        network_filesystem(&call.parent.path().join("not/yet")),
        None
    );
}

#[test]
fn containment_levels_parse_from_settings() {
    let read = |word: &str| serde_json::from_str::<Containment>(word).ok();
    assert_eq!(read("\"guard\""), Some(Containment::default()));
    assert_eq!(read("\"namespace\""), Some(Containment::Namespace));
    assert_eq!(read("\"none\""), None);
}
