//! What containment asks of systems other than Linux: process groups are all there is.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::Pid;

use super::process::{MarkedProcesses, SignalCount};
use crate::models::Process;

/// The program that is running. Never started: it would be the guard in a namespace.
pub(super) const SELF: &str = "/dev/null";

/// Returns nothing that could tell a process from a later one with the same number.
pub(super) fn start_time(_pid: u32) -> Option<u64> {
    Some(0)
}

/// Tells whether there is a process with a number.
pub(super) fn start_time_if_alive(pid: u32) -> Option<u64> {
    kill(Pid::from_raw(pid.cast_signed()), None)
        .is_ok()
        .then_some(0)
}

/// Returns nothing that could tell one boot from another.
pub(super) fn boot_id() -> String {
    String::new()
}

/// Returns nothing: numbers of processes hold for the whole system.
pub(super) fn pid_namespace() -> String {
    String::new()
}

/// Returns none: the environment of other processes cannot be read.
#[expect(clippy::unnecessary_wraps, reason = "Linux may not be able to tell")]
pub(super) fn find_markers(_variable: &str) -> Option<BTreeSet<String>> {
    Some(BTreeSet::new())
}

/// Kills none: the environment of other processes cannot be read.
pub(super) fn kill_marked(
    _variable: &str,
    _value: &str,
    _guard: Option<&Process>,
) -> MarkedProcesses {
    MarkedProcesses::default()
}

/// Does nothing: orphans cannot be adopted.
#[expect(clippy::unnecessary_wraps, reason = "Linux can refuse it")]
pub(super) fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// The signals that a guard is sent. They cannot be read as a file.
pub(super) struct Signals;

impl Signals {
    /// Does nothing.
    #[expect(clippy::unnecessary_wraps, reason = "Linux can refuse it")]
    pub(super) fn block() -> io::Result<Self> {
        Ok(Self)
    }

    /// Returns none.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Tells of none.
    pub(super) fn has_stop_request(&self) -> bool {
        false
    }

    /// Starts a program to which no signal is blocked: agentd holds back those that stop a run, its guard inherits
    /// that, and the agent would too.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let held = SigSet::thread_get_mask()?;
        SigSet::empty().thread_set_mask()?;
        let started = command.spawn();
        held.thread_set_mask()?;
        started
    }
}

/// The process group of an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessTree(Pid);

impl ProcessTree {
    /// Returns the family of an agent, which leads its group.
    pub(super) fn new(leader: Pid, _in_namespace: bool) -> Self {
        Self(leader)
    }

    /// Returns 1 if any is alive.
    pub(super) fn count(self) -> u64 {
        u64::from(!self.is_gone(true))
    }

    /// Sends a signal to all.
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

    /// Tells whether none is left.
    pub(super) fn is_gone(self, _childless: bool) -> bool {
        killpg(self.0, None) == Err(Errno::ESRCH)
    }
}

/// Refuses: there are no PID namespaces.
pub(super) fn enter_namespace() -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Does nothing: there is no way without unsafe code.
#[expect(clippy::unnecessary_wraps, reason = "Linux can refuse it")]
pub(super) fn forbid_inspection() -> io::Result<()> {
    Ok(())
}

/// Does nothing: a stopped guard stays stopped when agentd is killed.
#[expect(clippy::unnecessary_wraps, reason = "Linux can refuse it")]
pub(super) fn wake_with_parent() -> io::Result<()> {
    Ok(())
}

/// Refuses, as nobody is in a namespace.
pub(super) fn end_with_parent() -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Knows none.
pub(super) fn network_filesystem(_path: &Path) -> Option<&'static str> {
    None
}
