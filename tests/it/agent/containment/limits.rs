//! How long an agent may take, and how much it may write.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use agentd::agent::{Cause, Contained, Limits};

use super::{Call, HANG, kinds, milliseconds, seconds};
use crate::support::program;

/// The most memory that a guard or agentd may need, whatever an agent writes.
const MOST_MEMORY: u64 = 64 << 20;

#[test]
fn a_silent_agent_is_ended_after_the_idle_time() {
    for containment in kinds("a_silent_agent_is_ended_after_the_idle_time") {
        let call =
            Call { containment, ..Call::within(Limits { idle: milliseconds(300), ..Limits::default() }) };
        let exit = call.run_agent(&["out words", "hang"]);
        assert_eq!((exit.signal, exit.cause), (Some(15), Cause::Idle));
        assert!(exit.milliseconds >= 300);
        assert_eq!(call.stdout_text(), "words\n", "what it said before is kept");
    }
}

#[test]
fn an_agent_that_speaks_now_and_then_is_not_idle_whichever_way_it_speaks() {
    let call = Call::within(Limits { idle: milliseconds(1500), ..Limits::default() });
    let mut steps = Vec::new();
    for _ in 0..6 {
        steps.extend(["out words", "sleep 200", "err words", "sleep 200"]);
    }
    assert_eq!(call.run_agent(&steps).cause, Cause::Ended);
}

#[test]
fn an_agent_that_takes_too_long_is_ended_though_it_speaks() {
    for containment in kinds("an_agent_that_takes_too_long_is_ended_though_it_speaks") {
        let call =
            Call { containment, ..Call::within(Limits { wall: milliseconds(500), ..Limits::default() }) };
        let exit = call.run_agent(&["out words", "sleep 50"].repeat(1000));
        assert_eq!((exit.signal, exit.cause), (Some(15), Cause::Wall));
        assert!(exit.milliseconds >= 500);
    }
}

#[test]
fn an_agent_that_writes_a_gigabyte_is_ended_at_the_limit_and_needs_no_memory() {
    for containment in kinds("an_agent_that_writes_a_gigabyte_is_ended_at_the_limit_and_needs_no_memory") {
        let limits = Limits { output: 8 << 20, grace: seconds(3600), ..Limits::default() };
        let call = Call { containment, ..Call::within(limits) };
        // What it writes without end it writes without listening.
        let contained = call.start_agent(&["trap-term", "setsid 60000", "bytes 1073741824", "hang"]);
        let (cause, memory) = cause_and_memory(contained);
        assert_eq!(cause, Cause::Output);
        assert!(memory < MOST_MEMORY, "{memory} bytes");
        assert_eq!(fs::metadata(call.folder().join("stdout")).unwrap().len(), 8 << 20);
    }
}

/// Runs a call to its end, and returns the most memory that its guard has needed.
fn cause_and_memory(mut contained: Contained) -> (Cause, u64) {
    let pid = contained.process().pid;
    let begun = Instant::now();
    let mut memory = 0;
    while begun.elapsed() < HANG {
        memory = peak_memory(pid).unwrap_or(memory);
        if let Some(exit) = contained.wait(milliseconds(5)).unwrap() {
            assert!(memory > 0);
            return (exit.cause, memory);
        }
    }
    panic!("it hangs");
}

/// Returns the most memory that a living process has needed so far.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Some(peak?.parse::<u64>().unwrap() << 10)
}

#[test]
fn a_program_whose_agent_writes_a_gigabyte_needs_no_memory_for_it() {
    let call = Call::new();
    let mut command = Command::new(program("contained"));
    command.arg(call.folder()).args([&call.marker(), "guard"]).arg(program("fake_agent"));
    let mut program =
        command.arg("bytes 1073741824").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut memory = 0;
    while program.try_wait().unwrap().is_none() {
        memory = peak_memory(program.id()).unwrap_or(memory);
        thread::sleep(milliseconds(2));
    }
    let said = std::io::read_to_string(program.stdout.take().unwrap()).unwrap();
    assert!(said.contains("cause: Output"), "{said}");
    assert!(memory > 0 && memory < MOST_MEMORY, "{memory} bytes");
    assert_eq!(fs::metadata(call.folder().join("stdout")).unwrap().len(), Limits::default().output);
}

#[test]
fn too_much_on_stderr_is_too_much_output() {
    let call = Call::within(Limits { output: 1 << 20, ..Limits::default() });
    let exit = call.run(&["sh", "-c", "echo words; head -c 100000000 /dev/zero >&2; sleep 60"]);
    assert_eq!(exit.cause, Cause::Output);
    assert_eq!(fs::metadata(call.folder().join("stderr")).unwrap().len(), 1 << 20);
    assert_eq!(call.stdout_text(), "words\n");
}

#[test]
fn an_agent_that_ends_by_itself_right_after_too_much_output_is_still_over_the_limit() {
    let call = Call::within(Limits { output: 1000, ..Limits::default() });
    assert_eq!(call.run_agent(&["bytes 1000"]).cause, Cause::Ended);
    assert_eq!(call.stdout().len(), 1000);
    assert_eq!(call.run_agent(&["bytes 1001"]).cause, Cause::Output);
    assert_eq!(call.stdout().len(), 1000);
}
