//! Identity of processes, and search for the processes of a call by the marker in their environment.

use std::collections::BTreeSet;
use std::io;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use super::system;
use crate::error::{Error, ErrorKind, Result};
use crate::models::ProcessIdentity;

/// Environment variable that holds a call's marker in its processes.
pub(super) const MARKER_VARIABLE: &str = "AGENTD_CALL";

/// Maximum time for processes to end after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of scans in a row that must find nothing. One is not enough: during `exec` the environment of a process cannot
/// be read, and a scan can miss a process that forks and exits.
const REQUIRED_EMPTY_SCANS: u32 = 5;

const SCAN_INTERVAL: Duration = Duration::from_millis(2);

/// Prevents other processes of this user from reading the memory and the environment of this process. Root can still
/// read them.
///
/// Does nothing on systems other than Linux. Child processes are readable unless they also call this.
///
/// # Errors
///
/// Fails if the system call fails.
pub fn forbid_inspection() -> io::Result<()> {
    system::forbid_inspection()
}

/// Returns the identity of this process.
#[must_use]
pub fn this_process() -> ProcessIdentity {
    identity(process::id())
}

/// Returns the identity of a process: its pid, and the start time that distinguishes it from later processes with the
/// same pid.
pub(super) fn identity(pid: u32) -> ProcessIdentity {
    let started = system::start_time(pid).unwrap_or_default();
    ProcessIdentity {
        pid,
        started,
        boot: system::boot_id(),
        namespace: system::pid_namespace(),
    }
}

/// Returns true if a process is alive. A zombie is not.
#[must_use]
pub fn is_alive(process: &ProcessIdentity) -> bool {
    process.boot == system::boot_id()
        && system::start_time_if_alive(process.pid) == Some(process.started)
}

/// Number of processes that received a signal, and of those that could not be signalled (EPERM).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SignalCount {
    pub(super) reached: u64,
    pub(super) refused: u64,
}

/// Result of a scan for a call's processes.
#[derive(Debug, Default)]
pub(super) struct MarkedProcesses {
    /// Killed processes: those with the marker and their descendants.
    pub(super) killed: Vec<i32>,
    /// True if the environment of another process could not be read because it was in `exec`.
    pub(super) is_incomplete: bool,
}

/// Returns the markers of all processes of this user; `None` if an environment could not be read.
#[must_use]
pub fn marked_calls() -> Option<BTreeSet<String>> {
    system::find_markers(MARKER_VARIABLE)
}

/// Kills every process of this user that has a call's marker, the guard of the call, and all descendants of these.
/// Returns the number of killed processes. The guard is found by its pid and start time, because its environment may not
/// be readable.
///
/// On systems other than Linux no processes can be found.
///
/// Killing races with processes that fork, so the scan is repeated until several scans in a row find nothing. If the
/// first scan finds nothing and could read every environment, there was nothing to kill, and one scan is enough.
///
/// # Errors
///
/// `AgentUnusable` if a process is still alive after 10 s.
pub fn reap(marker: &str, guard: Option<&ProcessIdentity>) -> Result<u64> {
    let guard = guard.filter(|guard| guard.namespace == system::pid_namespace() && is_alive(guard));
    let begun = Instant::now();
    let mut all_killed = BTreeSet::new();
    let mut empty_scans = 0;
    loop {
        let scan = system::kill_marked(MARKER_VARIABLE, marker, guard);
        empty_scans = if scan.killed.is_empty() {
            empty_scans + 1
        } else {
            0
        };
        let had_nothing = empty_scans > 0 && all_killed.is_empty() && !scan.is_incomplete;
        if empty_scans >= REQUIRED_EMPTY_SCANS || had_nothing {
            return Ok(all_killed.len() as u64);
        }

        all_killed.extend(scan.killed);
        if begun.elapsed() > KILL_TIMEOUT {
            let message = format!("cannot kill the processes of call {marker}");
            let hint = format!(
                "kill the processes with {MARKER_VARIABLE}={marker} in their environment, and try again"
            );
            return Err(Error::new(ErrorKind::AgentUnusable, message).with_hint(hint));
        }
        thread::sleep(SCAN_INTERVAL);
    }
}
