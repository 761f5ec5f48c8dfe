//! Signals that stop a run: the first one gracefully, the second one at once.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use agentd::orchestrator::StopFlag;
use nix::sys::signal::{SigSet, Signal};

use crate::{exit, terminal};

/// Time that a run has to finish after the second signal. It is safe to exit then: the agent ends with this process, and
/// the ledger has all that recovery needs.
const MAX_SHUTDOWN: Duration = Duration::from_secs(10);

/// Time to print the result after the run has finished. The reader of the output may be blocked.
const MAX_FINAL_OUTPUT: Duration = Duration::from_secs(1);

/// Poll interval while waiting for the run to finish.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Set while a question is open on the terminal.
static IS_ASKING: AtomicBool = AtomicBool::new(false);

/// Runs `ask`, which reads an answer from the terminal. Meanwhile a signal ends the program at once.
pub(crate) fn while_asking<T>(ask: impl FnOnce() -> T) -> T {
    IS_ASKING.store(true, Ordering::SeqCst);
    let answer = ask();
    IS_ASKING.store(false, Ordering::SeqCst);
    answer
}

/// Flag that is set once a run has finished and only its result has to be printed.
#[derive(Clone, Default)]
pub(crate) struct RunFinished(Arc<AtomicBool>);

impl RunFinished {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Waits until the flag is set, at most for `timeout`.
    fn wait(&self, timeout: Duration) {
        let started = Instant::now();
        while !self.0.load(Ordering::SeqCst) && started.elapsed() < timeout {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Makes SIGINT, SIGTERM and SIGHUP stop a run instead of ending the program. After the second signal the program ends
/// even if its output is blocked. Must be called before any thread is started.
pub(crate) fn stop_on_signals(stop: &StopFlag) -> RunFinished {
    let finished = RunFinished::default();

    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        set.add(signal);
    }
    if set.thread_block().is_err() {
        return finished;
    }

    let stop = stop.clone();
    let run = finished.clone();
    thread::spawn(move || {
        while let Ok(signal) = set.wait() {
            if IS_ASKING.load(Ordering::SeqCst) {
                // Nothing runs while a question is open, and everything is recorded.
                exit_now();
            }

            stop.ask();
            match stop.asked() {
                // In its own thread: blocked output must not delay the second signal.
                1 => drop(thread::spawn(move || {
                    terminal::note(format_args!(
                        "{signal}: stopping the agent; press Ctrl-C again to kill it"
                    ));
                })),
                2 => {
                    let run = run.clone();
                    thread::spawn(move || exit_after(&run));
                }
                _ => {}
            }
        }
    });

    finished
}

/// Exits some time after the run has finished, unless the program has ended by itself.
#[expect(
    clippy::exit,
    reason = "other threads may be blocked on output that is not read"
)]
fn exit_after(run: &RunFinished) {
    run.wait(MAX_SHUTDOWN);
    thread::sleep(MAX_FINAL_OUTPUT);
    process::exit(i32::from(exit::STOPPED));
}

/// Exits while a question is open.
#[expect(clippy::exit, reason = "the main thread is blocked on stdin")]
fn exit_now() -> ! {
    process::exit(i32::from(exit::STOPPED));
}
