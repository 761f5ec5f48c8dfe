//! Processes that can be told apart, found again by the marker they carry, and ended.

use std::collections::BTreeSet;
use std::io;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use super::system;
use crate::error::{Error, ErrorKind, Result};
use crate::models::Process;

/// The variable that holds a call's marker in the environment of its processes.
pub(super) const MARKER: &str = "AGENTD_CALL";

/// How long processes may take to end after they were killed.
const LONGEST_END: Duration = Duration::from_secs(10);

/// How often nothing must be found before nothing is there: a process that is just starting a program cannot be told
/// by its environment, and one that starts others and ends may be missed.
const LOOKS: u32 = 5;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Keeps other processes of this user from reading the memory and the environment of this one. Root can still read them.
///
/// Does nothing on systems other than Linux. A program that is started is readable again, unless it calls this too.
///
/// # Errors
///
/// Whatever the system reports.
pub fn forbid_inspection() -> io::Result<()> {
    system::forbid_inspection()
}

/// Returns this process.
#[must_use]
pub fn this_process() -> Process {
    identity(process::id())
}

/// Returns a process by its number, to be told from a later one with the same number.
pub(super) fn identity(pid: u32) -> Process {
    let started = system::started(pid).unwrap_or_default();
    Process {
        pid,
        started,
        boot: system::boot(),
        namespace: system::namespace(),
    }
}

/// Tells whether a process is alive; one that has ended and was not yet collected is not.
#[must_use]
pub fn is_alive(process: &Process) -> bool {
    process.boot == system::boot() && system::alive_since(process.pid) == Some(process.started)
}

/// How many processes a signal has reached, and how many refused it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    pub(super) reached: u64,
    pub(super) refused: u64,
}

/// What a look for a call's processes has found.
#[derive(Debug, Default)]
pub(super) struct Marked {
    /// Those that carry the marker, and those that they have started. They were killed.
    pub(super) killed: Vec<i32>,
    /// Whether one of the others could not be told, as it was just starting a program.
    pub(super) unsure: bool,
}

/// Returns the markers that processes of this user carry; `None` if one of them could not be told.
#[must_use]
pub fn marked_calls() -> Option<BTreeSet<String>> {
    system::markers(MARKER)
}

/// Ends every process of this user that carries a call's marker, its guard and all that descends from either, and
/// returns how many there were. The guard is found by its pid and start time, because it may have no environment that
/// this user can read.
///
/// On systems other than Linux none can be found.
///
/// # Errors
///
/// `AgentUnusable` if one of them cannot be ended.
pub fn reap(marker: &str, guard: Option<&Process>) -> Result<u64> {
    let guard = guard.filter(|guard| guard.namespace == system::namespace() && is_alive(guard));
    let begun = Instant::now();
    let mut ended = BTreeSet::new();
    let mut looks = 0;
    loop {
        let Marked { killed, unsure } = system::kill_marked(MARKER, marker, guard);
        looks = if killed.is_empty() { looks + 1 } else { 0 };
        if looks >= LOOKS || (looks > 0 && ended.is_empty() && !unsure) {
            return Ok(ended.len() as u64);
        }
        ended.extend(killed);
        if begun.elapsed() > LONGEST_END {
            let message = format!("processes of the call {marker} cannot be ended");
            let hint =
                format!("end those whose environment holds {MARKER}={marker}, and try again");
            return Err(Error::new(ErrorKind::AgentUnusable, message).with_hint(hint));
        }
        thread::sleep(PAUSE);
    }
}
