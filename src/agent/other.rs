//! Containment on systems other than Linux: process groups only.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::Pid;

use super::process::{MarkedProcesses, SignalCount};
use crate::models::ProcessIdentity;

/// Placeholder for the path of the running program, which only a guard in a namespace needs.
pub(super) const SELF: &str = "/dev/null";

/// Returns 0: a process cannot be distinguished from a later one with the same pid.
pub(super) fn start_time(_pid: u32) -> Option<u64> {
    Some(0)
}

/// Returns 0 if a process with this pid exists.
pub(super) fn start_time_if_alive(pid: u32) -> Option<u64> {
    kill(Pid::from_raw(pid.cast_signed()), None)
        .is_ok()
        .then_some(0)
}

/// Returns an empty id: boots cannot be distinguished.
pub(super) fn boot_id() -> String {
    String::new()
}

/// Returns an empty id: pids are valid in the whole system.
pub(super) fn pid_namespace() -> String {
    String::new()
}

/// Returns no markers: the environment of other processes cannot be read.
#[expect(
    clippy::unnecessary_wraps,
    reason = "on Linux, /proc may be unreadable"
)]
pub(super) fn find_markers(_variable: &str) -> Option<BTreeSet<String>> {
    Some(BTreeSet::new())
}

/// Kills no process: the environment of other processes cannot be read.
pub(super) fn kill_marked(
    _variable: &str,
    _value: &str,
    _guard: Option<&ProcessIdentity>,
) -> MarkedProcesses {
    MarkedProcesses::default()
}

/// Does nothing: orphans cannot be adopted.
#[expect(clippy::unnecessary_wraps, reason = "Linux can refuse it")]
pub(super) fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// Signals of a guard. There is no signalfd, so they are not blocked.
pub(super) struct Signals;

impl Signals {
    /// Does nothing.
    #[expect(clippy::unnecessary_wraps, reason = "Linux can refuse it")]
    pub(super) fn block() -> io::Result<Self> {
        Ok(Self)
    }

    /// Returns `None`: there is no signalfd.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns false.
    pub(super) fn has_stop_request(&self) -> bool {
        false
    }

    /// Starts a program with no signals blocked: agentd blocks those that stop a run, and the guard and the agent would
    /// inherit the signal mask.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let held = SigSet::thread_get_mask()?;
        SigSet::empty().thread_set_mask()?;
        let started = command.spawn();
        held.thread_set_mask()?;
        started
    }
}

/// Process group of an agent, with the methods that the guard needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessTree(Pid);

impl ProcessTree {
    pub(super) fn new(leader: Pid, _in_namespace: bool) -> Self {
        Self(leader)
    }

    /// Returns 1 if any process is alive: the group cannot be counted.
    pub(super) fn count(self) -> u64 {
        u64::from(!self.is_gone(true))
    }

    /// Sends a signal to all processes.
    pub(super) fn signal(self, signal: Signal) -> SignalCount {
        match killpg(self.0, signal) {
            Ok(()) => SignalCount {
                reached: 1,
                refused: 0,
            },
            Err(Errno::EPERM) => SignalCount {
                reached: 0,
                refused: 1,
            },
            Err(_) => SignalCount::default(),
        }
    }

    /// Returns true if no process is left.
    pub(super) fn is_gone(self, _childless: bool) -> bool {
        killpg(self.0, None) == Err(Errno::ESRCH)
    }
}

/// Fails: there are no PID namespaces.
pub(super) fn enter_namespace() -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Does nothing: this would need unsafe code.
#[expect(clippy::unnecessary_wraps, reason = "Linux can refuse it")]
pub(super) fn forbid_inspection() -> io::Result<()> {
    Ok(())
}

/// Does nothing: a stopped guard stays stopped when agentd is killed.
#[expect(clippy::unnecessary_wraps, reason = "Linux can refuse it")]
pub(super) fn wake_with_parent() -> io::Result<()> {
    Ok(())
}

/// Fails: only a guard in a namespace calls this.
pub(super) fn end_with_parent() -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Returns `None`: network file systems are not detected.
pub(super) fn network_filesystem(_path: &Path) -> Option<&'static str> {
    None
}
