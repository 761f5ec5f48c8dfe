//! Signals that stop a run: the first gracefully, the second at once.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use agentd::orchestrator::StopFlag;
use nix::sys::signal::{SigSet, Signal};

use crate::{exit, terminal};

/// How long a run may take to its end after it was stopped at once. Without us the agent ends too, and the ledger knows
/// how to go on.
const LONGEST_END: Duration = Duration::from_secs(10);

/// How long the rest may take to be told then: whoever reads it may have stopped reading.
const LONGEST_TALK: Duration = Duration::from_secs(1);

/// How often is looked whether the run is over.
const TICK: Duration = Duration::from_millis(20);

/// Set while a question waits for its answer on the terminal.
static IS_ASKING: AtomicBool = AtomicBool::new(false);

/// Runs something that waits for a person on the terminal; a signal ends the program at once meanwhile.
pub(crate) fn while_asking<T>(ask: impl FnOnce() -> T) -> T {
    IS_ASKING.store(true, Ordering::SeqCst);
    let answer = ask();
    IS_ASKING.store(false, Ordering::SeqCst);
    answer
}

/// Whether a run is over, so that all that is left is to tell of it.
#[derive(Clone, Default)]
pub(crate) struct Over(Arc<AtomicBool>);

impl Over {
    /// Says that it is.
    pub(crate) fn tell(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Waits until it is, for so long at most.
    fn wait(&self, patience: Duration) {
        let begun = Instant::now();
        while !self.0.load(Ordering::SeqCst) && begun.elapsed() < patience {
            thread::sleep(TICK);
        }
    }
}

/// Lets SIGINT, SIGTERM and SIGHUP stop a run instead of ending the program; after the second the program ends even if
/// nobody reads what it has to tell. Call it before any thread is started.
pub(crate) fn stop_on(stop: &StopFlag) -> Over {
    let over = Over::default();
    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        set.add(signal);
    }
    if set.thread_block().is_err() {
        return over;
    }
    let (stop, run) = (stop.clone(), over.clone());
    thread::spawn(move || {
        while let Ok(signal) = set.wait() {
            if IS_ASKING.load(Ordering::SeqCst) {
                // Nothing runs while a question waits for its answer, and everything is recorded.
                end_now();
            }
            stop.ask();
            match stop.asked() {
                // From a thread of its own, as it would hold up the second signal if nobody read it.
                1 => drop(thread::spawn(move || {
                    terminal::note(format_args!(
                        "{signal}: the agent is asked to end; once more ends it at once"
                    ));
                })),
                2 => {
                    let run = run.clone();
                    thread::spawn(move || end(&run));
                }
                _ => {}
            }
        }
    });
    over
}

/// Ends the program, if it has not come to its own end once the run is over.
#[expect(
    clippy::exit,
    reason = "the other threads may be held up by whoever does not read what they write"
)]
fn end(run: &Over) {
    run.wait(LONGEST_END);
    thread::sleep(LONGEST_TALK);
    process::exit(i32::from(exit::STOPPED));
}

/// Ends the program while it waits for an answer.
#[expect(clippy::exit, reason = "the main thread waits for a line on stdin")]
fn end_now() -> ! {
    process::exit(i32::from(exit::STOPPED));
}
