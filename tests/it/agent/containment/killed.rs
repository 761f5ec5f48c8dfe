//! Processes that remain when agentd, its guard, or both are killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use agentd::agent::{Containment, ExitCause, exit_record, reap};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Call, living_pids, supported_kinds};
use crate::support::program;
use crate::support::waiting::{Holders, suspend, until};

/// Steps of an agent that must not survive: children of every kind, some output, then silence.
const STEPS: [&str; 6] = [
    "fork 600000",
    "setsid 600000",
    "double-fork 600000",
    "deaf-fork 600000",
    "out begun",
    "hang",
];

/// A program that runs an agent through the library and gets killed.
struct Victim {
    program: Child,
    /// Kept open because the program later prints how the agent ended.
    _said: BufReader<ChildStdout>,
    guard: Pid,
}

impl Victim {
    fn start(call: &Call, steps: &[&str]) -> Self {
        let kind = match call.containment {
            Containment::Guard => "guard",
            Containment::Namespace => "namespace",
        };
        let mut command = Command::new(program("contained"));
        command
            .arg(call.folder())
            .args([&call.marker(), kind])
            .arg(program("fake_agent"))
            .args(steps);
        let mut program = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(program.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let guard = line.trim().strip_prefix("guard ").unwrap().parse().unwrap();
        Self {
            program,
            _said: said,
            guard: Pid::from_raw(guard),
        }
    }

    fn kill_program(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }

    fn kill_guard(&self) {
        kill(self.guard, Signal::SIGKILL).unwrap();
    }
}

/// Waits until no process of a call is alive. Without cleanup the children would run for minutes.
fn until_nothing_is_alive(call: &Call) {
    until("a process of the call is alive", || {
        living_pids(&call.marker()).is_empty()
    });
}

/// Waits until the agent of [`STEPS`] and its four children carry the marker. The environment of a process is empty while
/// it starts its program.
fn until_children_run(call: &Call) {
    until("not all children of the agent are running", || {
        living_pids(&call.marker()).len() >= 5
    });
}

/// Returns true if any process has a file open.
fn is_open(path: &Path) -> bool {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|process| fs::read_dir(process.ok()?.path().join("fd")).ok());
    let mut files = processes
        .flatten()
        .filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    files.any(|file| file == path)
}

#[test]
fn no_process_survives_a_killed_agentd() {
    for containment in supported_kinds("no_process_survives_a_killed_agentd") {
        let call = Call {
            containment,
            ..Call::new()
        };
        let mut victim = Victim::start(&call, &STEPS);
        call.wait_for("begun");

        until_children_run(&call);

        victim.kill_program();
        until_nothing_is_alive(&call);
        assert_eq!(
            exit_record(&call.folder()).unwrap().unwrap().cause,
            ExitCause::Abandoned
        );
        assert_eq!(call.stdout_text(), "begun\n", "the output is kept");
    }
}

#[test]
fn no_process_survives_agentd_killed_at_start() {
    for containment in supported_kinds("no_process_survives_agentd_killed_at_start") {
        for _ in 0..10 {
            let call = Call {
                containment,
                ..Call::new()
            };
            Victim::start(&call, &STEPS).kill_program();
            until_nothing_is_alive(&call);
        }
    }
}

#[test]
fn no_process_survives_agentd_killed_while_streaming() {
    let call = Call::new();
    let mut victim = Victim::start(&call, &["out begun", "bytes 20000000", "hang"]);
    call.wait_for("begun");
    victim.kill_program();
    until_nothing_is_alive(&call);
    assert_eq!(
        exit_record(&call.folder()).unwrap().unwrap().cause,
        ExitCause::Abandoned
    );
    assert!(
        !is_open(&call.folder().join("stdout").canonicalize().unwrap()),
        "a process still writes"
    );
}

#[test]
fn agent_that_exited_before_the_kill_has_an_exit_record() {
    let call = Call::new();
    let mut victim = Victim::start(&call, &["out whole"]);
    until("there is no exit record", || {
        exit_record(&call.folder()).unwrap().is_some()
    });
    victim.kill_program();
    let exit = exit_record(&call.folder()).unwrap().unwrap();
    assert_eq!((exit.code, exit.cause), (Some(0), ExitCause::Ended));
}

#[test]
fn namespace_contains_when_agentd_and_guard_are_killed() {
    let test = "namespace_contains_when_agentd_and_guard_are_killed";
    if !supported_kinds(test).contains(&Containment::Namespace) {
        return;
    }
    for guard_first in [true, false] {
        let call = Call {
            containment: Containment::Namespace,
            ..Call::new()
        };
        let mut victim = Victim::start(&call, &STEPS);
        call.wait_for("begun");

        // Stopped, so that it cannot react to the death of the other process.
        suspend(victim.guard);
        if guard_first {
            victim.kill_guard();
            victim.kill_program();
        } else {
            victim.kill_program();
            victim.kill_guard();
        }

        until_nothing_is_alive(&call);
    }
}

#[test]
fn survivors_of_a_killed_guard_are_found_by_marker() {
    let call = Call::new();
    let mut victim = Victim::start(&call, &STEPS);
    call.wait_for("begun");
    until_children_run(&call);
    let other = Call::new();
    let mut bystander = other.start_agent(&["out begun", "hang"]);
    other.wait_for("begun");

    suspend(victim.guard);
    victim.kill_program();
    victim.kill_guard();
    let left = living_pids(&call.marker());
    assert!(left.len() >= 5, "the agent and its four children: {left:?}");
    assert!(reap(&call.marker(), None).unwrap() > 0);
    assert_eq!(living_pids(&call.marker()), BTreeSet::new());
    assert_eq!(reap(&call.marker(), None).unwrap(), 0);
    assert_eq!(exit_record(&call.folder()).unwrap(), None);

    assert!(
        bystander.wait(Duration::ZERO).unwrap().is_none(),
        "another call was killed"
    );
    bystander.stop(true);
    other.end_of(bystander);
}

#[test]
fn agentd_cleans_up_after_a_killed_guard() {
    for containment in supported_kinds("agentd_cleans_up_after_a_killed_guard") {
        let call = Call {
            containment,
            ..Call::new()
        };
        let contained = call.start_agent(&STEPS);
        call.wait_for("begun");
        kill(
            Pid::from_raw(contained.process().pid.cast_signed()),
            Signal::SIGKILL,
        )
        .unwrap();

        let exit = call.end_of(contained);
        assert_eq!(
            (exit.code, exit.signal, exit.cause),
            (None, Some(9), ExitCause::Abandoned)
        );
    }
}

#[test]
fn agent_that_stopped_its_guard_does_not_survive_agentd() {
    let call = Call::new();
    let steps: Vec<&str> = ["stop-guard"].into_iter().chain(STEPS).collect();
    let mut victim = Victim::start(&call, &steps);
    call.wait_for("begun");
    victim.kill_program();
    until_nothing_is_alive(&call);
    assert_eq!(
        exit_record(&call.folder()).unwrap().unwrap().cause,
        ExitCause::Abandoned
    );
}

#[test]
fn agent_that_holds_the_guards_lifeline_does_not_survive_agentd() {
    let call = Call::new();
    let steps: Vec<&str> = ["hold-guard"].into_iter().chain(STEPS).collect();
    let mut victim = Victim::start(&call, &steps);
    call.wait_for("begun");
    victim.kill_program();
    until_nothing_is_alive(&call);
}

#[test]
fn processes_of_a_stopped_guard_are_found_by_its_pid() {
    let call = Call::new();
    let mut holders = Holders::new(call.parent.path().join("fifo"));

    // The child has no environment, and its only ancestor with the marker is the guard.
    let agent = program("fake_agent");
    let script = format!(
        "exec 9>{}; exec {} 'bare-fork 600000' stop-guard 'out begun'",
        holders.path().display(),
        agent.display()
    );
    let contained = call.start(&["sh", "-c", &script]).unwrap();
    let guard = contained.process();

    call.wait_for("begun");
    until("the agent still runs", || {
        living_pids(&call.marker()).is_subset(&BTreeSet::from([guard.pid]))
    });

    assert_eq!(
        reap("another-marker", Some(guard)).unwrap(),
        2,
        "the guard and the child"
    );
    until("the child is alive", || holders.are_gone());
}

#[test]
fn dropped_call_is_killed() {
    for containment in supported_kinds("dropped_call_is_killed") {
        let call = Call {
            containment,
            ..Call::new()
        };
        let contained = call.start_agent(&STEPS);
        call.wait_for("begun");
        drop(contained);
        until_nothing_is_alive(&call);
    }
}
