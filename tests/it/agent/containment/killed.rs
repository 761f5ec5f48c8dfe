//! What is left when agentd, or its guard, or both are killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Instant;

use agentd::agent::{Cause, Containment, exit_record, reap};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Call, HANG, alive, kinds, milliseconds, seconds};
use crate::support::program;

/// What an agent does that is to be left alone: children of every kind, words, and then silence.
const STEPS: [&str; 6] =
    ["fork 60000", "setsid 60000", "double-fork 60000", "deaf-fork 60000", "out begun", "hang"];

/// A program that runs an agent through the library, to be killed.
struct Victim {
    program: Child,
    /// Kept open, as the program goes on to say how the agent ended.
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
        command.arg(call.folder()).args([&call.marker(), kind]).arg(program("fake_agent")).args(steps);
        let mut program = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(program.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let guard = line.trim().strip_prefix("guard ").unwrap().parse().unwrap();
        Self { program, _said: said, guard: Pid::from_raw(guard) }
    }

    fn kill_program(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }

    fn kill_guard(&self) {
        kill(self.guard, Signal::SIGKILL).unwrap();
    }
}

/// Checks the promise: nothing is alive after a second; after more on a machine that has much else to do.
#[expect(clippy::print_stdout, reason = "a figure to be looked at")]
fn nothing_is_alive_after_a_second(marker: &str) {
    let begun = Instant::now();
    while !alive(marker).is_empty() && begun.elapsed() < seconds(5) {
        thread::sleep(milliseconds(10));
    }
    assert_eq!(alive(marker), BTreeSet::new());
    println!("nothing is alive after {:?}", begun.elapsed());
}

#[test]
fn nothing_is_alive_a_second_after_agentd_was_killed() {
    for containment in kinds("nothing_is_alive_a_second_after_agentd_was_killed") {
        let call = Call { containment, ..Call::new() };
        let mut victim = Victim::start(&call, &STEPS);
        call.wait_for("begun");
        assert!(alive(&call.marker()).len() >= 6, "the guard, the agent and four that it started");
        victim.kill_program();
        nothing_is_alive_after_a_second(&call.marker());
        assert_eq!(exit_record(&call.folder()).unwrap().unwrap().cause, Cause::Abandoned);
        assert_eq!(call.stdout_text(), "begun\n", "what it said is kept");
    }
}

#[test]
fn nothing_is_alive_a_second_after_agentd_was_killed_right_after_the_start() {
    for containment in kinds("nothing_is_alive_a_second_after_agentd_was_killed_right_after_the_start") {
        for _ in 0..10 {
            let call = Call { containment, ..Call::new() };
            Victim::start(&call, &STEPS).kill_program();
            nothing_is_alive_after_a_second(&call.marker());
        }
    }
}

#[test]
fn nothing_is_alive_a_second_after_agentd_was_killed_amid_a_stream() {
    let call = Call::new();
    let mut victim = Victim::start(&call, &["out begun", "bytes 20000000", "sleep 60000"]);
    call.wait_for("begun");
    victim.kill_program();
    nothing_is_alive_after_a_second(&call.marker());
    assert_eq!(exit_record(&call.folder()).unwrap().unwrap().cause, Cause::Abandoned);
    let size = fs::metadata(call.folder().join("stdout")).unwrap().len();
    thread::sleep(milliseconds(200));
    assert_eq!(fs::metadata(call.folder().join("stdout")).unwrap().len(), size, "something still writes");
}

#[test]
fn an_agent_that_had_ended_before_agentd_was_killed_has_its_record() {
    let call = Call::new();
    let mut victim = Victim::start(&call, &["out whole"]);
    let begun = Instant::now();
    while exit_record(&call.folder()).unwrap().is_none() {
        assert!(begun.elapsed() < HANG);
    }
    victim.kill_program();
    let exit = exit_record(&call.folder()).unwrap().unwrap();
    assert_eq!((exit.code, exit.cause), (Some(0), Cause::Ended));
}

#[test]
fn a_namespace_holds_when_agentd_and_its_guard_are_killed() {
    let test = "a_namespace_holds_when_agentd_and_its_guard_are_killed";
    if !kinds(test).contains(&Containment::Namespace) {
        return;
    }
    for guard_first in [true, false] {
        let call = Call { containment: Containment::Namespace, ..Call::new() };
        let mut victim = Victim::start(&call, &STEPS);
        call.wait_for("begun");
        // Stopped, so that it cannot act on the death of the other.
        kill(victim.guard, Signal::SIGSTOP).unwrap();
        if guard_first {
            victim.kill_guard();
            victim.kill_program();
        } else {
            victim.kill_program();
            victim.kill_guard();
        }
        nothing_is_alive_after_a_second(&call.marker());
    }
}

#[test]
fn what_is_left_when_agentd_and_its_guard_are_killed_is_found_by_its_marker() {
    let call = Call::new();
    let mut victim = Victim::start(&call, &STEPS);
    call.wait_for("begun");
    let other = Call::new();
    let mut bystander = other.start_agent(&["out begun", "hang"]);
    other.wait_for("begun");

    kill(victim.guard, Signal::SIGSTOP).unwrap();
    victim.kill_program();
    victim.kill_guard();
    let left = alive(&call.marker());
    assert!(left.len() >= 5, "the agent and four that it started: {left:?}");
    assert!(reap(&call.marker()).unwrap() > 0);
    assert_eq!(alive(&call.marker()), BTreeSet::new());
    assert_eq!(reap(&call.marker()).unwrap(), 0);
    assert_eq!(exit_record(&call.folder()).unwrap(), None);

    assert!(bystander.wait(milliseconds(10)).unwrap().is_none(), "another call was ended");
    bystander.stop(true);
    other.end_of(bystander);
}

#[test]
fn agentd_cleans_up_after_a_guard_that_was_killed() {
    for containment in kinds("agentd_cleans_up_after_a_guard_that_was_killed") {
        let call = Call { containment, ..Call::new() };
        let contained = call.start_agent(&STEPS);
        call.wait_for("begun");
        kill(Pid::from_raw(contained.process().pid.cast_signed()), Signal::SIGKILL).unwrap();
        let exit = call.end_of(contained);
        assert_eq!((exit.code, exit.signal, exit.cause), (None, Some(9), Cause::Abandoned));
    }
}

#[test]
fn a_call_that_is_dropped_is_ended() {
    for containment in kinds("a_call_that_is_dropped_is_ended") {
        let call = Call { containment, ..Call::new() };
        let contained = call.start_agent(&STEPS);
        call.wait_for("begun");
        drop(contained);
        assert_eq!(alive(&call.marker()), BTreeSet::new());
    }
}
