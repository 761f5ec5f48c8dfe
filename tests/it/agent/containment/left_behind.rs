//! What an agent leaves behind when it ends.

use std::fs;
use std::thread;
use std::time::Instant;

use agentd::agent::Cause;

use super::{Call, HANG, kinds, milliseconds, seconds};
use crate::support::did_not_run;

#[test]
fn a_child_that_is_left_behind_is_counted_and_ended_however_it_was_left() {
    let test = "a_child_that_is_left_behind_is_counted_and_ended_however_it_was_left";
    for containment in kinds(test) {
        for step in ["fork", "silent-fork", "deaf-fork", "setsid", "double-fork", "bare-fork"] {
            let call = Call { containment, ..Call::new() };
            let begun = Instant::now();
            let exit = call.run_agent(&["out <review>PASS</review>", &format!("{step} 60000"), "exit 0"]);
            assert_eq!((exit.code, &exit.cause), (Some(0), &Cause::Ended), "{step}");
            // Of a child that was forked twice the one in the middle may still be there.
            assert!((1..=2).contains(&exit.left_behind), "{step}: {}", exit.left_behind);
            assert!(begun.elapsed() < seconds(5), "{step}");
            assert_eq!(call.stdout_text(), "<review>PASS</review>\n");
        }
    }
}

#[test]
fn a_child_without_a_marker_is_ended_too() {
    for containment in kinds("a_child_without_a_marker_is_ended_too") {
        let call = Call { containment, ..Call::new() };
        let late = call.parent.path().join("late");
        // It would write a file if it were still alive after its agent.
        let script = format!("env -i setsid sh -c 'sleep 1; echo late > {}' & sleep 0.2", late.display());
        let left = call.run(&["sh", "-c", &script]).left_behind;
        assert!((1..=3).contains(&left), "the shell and its sleep: {left}");
        thread::sleep(seconds(2));
        assert!(!late.exists());
    }
}

#[test]
fn a_child_that_ends_right_after_its_agent_was_not_left_behind() {
    // It has a tenth of a second for it, which a machine with much else to do may not give it every time.
    assert!((0..20).any(|_| Call::new().run_agent(&["setsid 20"]).left_behind == 0));
}

#[test]
fn what_starts_itself_over_and_over_is_caught() {
    for containment in kinds("what_starts_itself_over_and_over_is_caught") {
        let call = Call { containment, ..Call::new() };
        let log = call.parent.path().join("log");
        let endless = format!("fork-loop 2000 {}", log.display());
        assert_eq!(call.run_agent(&[&endless, &endless, "sleep 50"]).cause, Cause::Ended);
        // Each generation is gone before it could be seen, but for the line that it has written.
        let count = fs::read_to_string(&log).unwrap().lines().count();
        assert!((1..4000).contains(&count), "{count} generations");
        thread::sleep(milliseconds(300));
        assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), count);
    }
}

/// A process that a debugger holds stays in the list of its parent's children after it was killed, as one does that is
/// stuck in the kernel.
#[cfg(target_os = "linux")]
#[test]
fn what_does_not_go_away_when_it_is_killed_is_left_behind_and_does_not_hold_up_the_end_for_ever() {
    use nix::sys::ptrace;
    use nix::unistd::Pid;

    let call = Call::new();
    let (child, go) = (call.parent.path().join("child"), call.parent.path().join("go"));
    let script = format!(
        "sleep 600 & echo $! > {child}.part; mv {child}.part {child}; \
         while [ ! -e {go} ]; do sleep 0.05; done; echo said",
        child = child.display(),
        go = go.display()
    );
    let mut contained = call.start(&["sh", "-c", &script]).unwrap();
    let begun = Instant::now();
    while !child.exists() {
        assert!(begun.elapsed() < HANG);
        thread::sleep(milliseconds(5));
    }
    let pid = Pid::from_raw(fs::read_to_string(&child).unwrap().trim().parse().unwrap());
    // Held by this thread, which does not look after it.
    if ptrace::seize(pid, ptrace::Options::empty()).is_err() {
        let test =
            "what_does_not_go_away_when_it_is_killed_is_left_behind_and_does_not_hold_up_the_end_for_ever";
        return did_not_run(test, "debuggers are not granted");
    }
    fs::write(&go, "").unwrap();
    let exit = contained.wait(HANG).unwrap().expect("the guard waits for ever");
    assert_eq!((exit.code, exit.cause, exit.left_behind), (Some(0), Cause::Ended, 1));
    assert_eq!(call.stdout_text(), "said\n");
}
