//! Processes that are still running when their agent exits.

use std::fs;

use agentd::agent::ExitCause;

use super::{Call, HANG, supported_kinds};
use crate::support::waiting::{Holders, until};
use crate::support::{did_not_run, program};

#[test]
fn leftover_child_is_counted_and_killed() {
    let test = "leftover_child_is_counted_and_killed";
    for containment in supported_kinds(test) {
        for step in [
            "fork",
            "silent-fork",
            "deaf-fork",
            "setsid",
            "double-fork",
            "bare-fork",
        ] {
            let call = Call {
                containment,
                ..Call::new()
            };
            let exit = call.run_agent(&[
                "out <review>PASS</review>",
                &format!("{step} 600000"),
                "exit 0",
            ]);
            assert_eq!(
                (exit.code, &exit.cause),
                (Some(0), &ExitCause::Ended),
                "{step}"
            );

            // The intermediate process of a double fork may still exist.
            assert!(
                (1..=2).contains(&exit.left_behind),
                "{step}: {}",
                exit.left_behind
            );
            assert_eq!(call.stdout_text(), "<review>PASS</review>\n");
        }
    }
}

#[test]
fn leftover_child_without_marker_is_killed() {
    for containment in supported_kinds("leftover_child_without_marker_is_killed") {
        let call = Call {
            containment,
            ..Call::new()
        };
        let mut holders = Holders::new(call.parent.path().join("fifo"));
        let script = format!(
            "env -i setsid sh -c 'exec 9> {}; touch begun; sleep 600' & until [ -e begun ]; do sleep 0.01; done",
            holders.path().display()
        );
        let left = call.run(&["sh", "-c", &script]).left_behind;
        assert!((1..=2).contains(&left), "the shell and its sleep: {left}");
        assert!(holders.are_gone());
    }
}

#[test]
fn child_that_exits_after_its_agent_is_not_counted() {
    // A guard waits 100 ms for the child. On a busy machine the child may need longer, so the test
    // retries.
    until("a child that exits is counted as leftover", || {
        Call::new().run_agent(&["setsid 20"]).left_behind == 0
    });
}

/// Number of processes that a fork loop starts in sequence: more than can start while a guard kills
/// them.
const GENERATIONS: usize = 20_000;

#[test]
fn respawning_process_is_killed() {
    for containment in supported_kinds("respawning_process_is_killed") {
        let call = Call {
            containment,
            ..Call::new()
        };
        let log = call.parent.path().join("log");
        let mut holders = Holders::new(call.parent.path().join("fifo"));
        let agent = format!("exec 9> {}; exec \"$0\" \"$@\"", holders.path().display());
        let endless = format!("fork-loop {GENERATIONS} {}", log.display());
        let wait = format!("await {}", log.display());
        let fake_agent = program("fake_agent").display().to_string();

        let exit = call.run(&["sh", "-c", &agent, &fake_agent, &endless, &endless, &wait]);
        assert_eq!(exit.cause, ExitCause::Ended);

        // A generation may exit before it is seen, but its line is in the log.
        let count = fs::read_to_string(&log).unwrap().lines().count();
        assert!((1..2 * GENERATIONS).contains(&count), "{count} generations");
        assert!(holders.are_gone(), "a generation is alive");
    }
}

/// A process held by a debugger stays in its parent's list of children after SIGKILL, like a
/// process that is stuck in the kernel.
#[cfg(target_os = "linux")]
#[test]
fn unkillable_process_does_not_block_the_end() {
    use nix::sys::ptrace;
    use nix::unistd::Pid;

    let call = Call::new();
    let (child, go) = (
        call.parent.path().join("child"),
        call.parent.path().join("go"),
    );
    let script = format!(
        "sleep 600 & echo $! > {child}.part; mv {child}.part {child}; \
         while [ ! -e {go} ]; do sleep 0.05; done; echo said",
        child = child.display(),
        go = go.display()
    );

    let mut contained = call.start(&["sh", "-c", &script]).unwrap();
    until("the child is not started", || child.exists());

    let pid = Pid::from_raw(fs::read_to_string(&child).unwrap().trim().parse().unwrap());

    // Traced by this thread, which does not continue it.
    if ptrace::seize(pid, ptrace::Options::empty()).is_err() {
        let test = "unkillable_process_does_not_block_the_end";
        return did_not_run(test, "ptrace is not permitted");
    }

    fs::write(&go, "").unwrap();
    let exit = contained.wait(HANG).unwrap().expect("the guard hangs");
    assert_eq!(
        (exit.code, exit.cause, exit.left_behind),
        (Some(0), ExitCause::Ended, 1)
    );
    assert_eq!(call.stdout_text(), "said\n");
}
