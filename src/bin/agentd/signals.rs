//! Signals that stop a run: the first gracefully, the second at once.

use std::thread;

use agentd::orchestrator::Stop;
use nix::sys::signal::{SigSet, Signal};

use crate::out;

/// Lets SIGINT, SIGTERM and SIGHUP stop a run instead of ending the program. Call it before any thread is started.
pub(crate) fn stop_on(stop: &Stop) {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        set.add(signal);
    }
    if set.thread_block().is_err() {
        return;
    }
    let stop = stop.clone();
    thread::spawn(move || {
        while let Ok(signal) = set.wait() {
            stop.ask();
            if stop.asked() == 1 {
                out::note(format_args!("{signal}: the agent is asked to end; once more ends it at once"));
            }
        }
    });
}
