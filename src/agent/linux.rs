//! Containment on Linux: child subreaper, signalfd, `/proc` and PID namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{self, Child, Command};

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::statfs::statfs;
use nix::unistd::{Pid, getegid, geteuid};

use super::process::{MarkedProcesses, SignalCount};
use crate::models::ProcessIdentity;

/// Path of the running program, valid even if the program's file was replaced.
pub(super) const SELF: &str = "/proc/self/exe";

/// Maximum number of scans for new descendants before the known ones are killed.
const MAX_SCANS: u32 = 100;

/// Fields of `/proc/PID/stat`.
struct ProcessStat {
    pid: i32,
    parent: i32,
    state: u8,
    /// Start time in clock ticks since boot.
    started: u64,
    /// Virtual memory in bytes; 0 for kernel threads.
    size: u64,
}

impl ProcessStat {
    fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Returns true if this entry describes `process`, and not a later process with the same pid.
    fn is_process(&self, process: &ProcessIdentity) -> bool {
        self.pid.cast_unsigned() == process.pid && self.started == process.started
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "containment needs the list of processes"
)]
fn read_proc_file(path: &str) -> Option<Vec<u8>> {
    fs::read(path).ok()
}

fn read_process(pid: &str) -> Option<ProcessStat> {
    parse_stat(&read_proc_file(&format!("/proc/{pid}/stat"))?)
}

fn parse_stat(line: &[u8]) -> Option<ProcessStat> {
    // The second field is the name in parentheses, which may contain spaces and parentheses; later fields do not.
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let pid = str::from_utf8(&line[..line.iter().position(|byte| *byte == b' ')?]).ok()?;
    let fields: Vec<&str> = str::from_utf8(&line[end + 1..])
        .ok()?
        .split_ascii_whitespace()
        .collect();
    Some(ProcessStat {
        pid: pid.parse().ok()?,
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        size: fields.get(20)?.parse().ok()?,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "containment needs the list of processes"
)]
fn list_processes() -> impl Iterator<Item = ProcessStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|name| read_process(&name))
}

/// Returns the processes `roots` and all of their living descendants.
fn with_descendants(list: &[ProcessStat], roots: impl IntoIterator<Item = i32>) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in list.iter().filter(|process| process.is_alive()) {
        children
            .entry(process.parent)
            .or_default()
            .push(process.pid);
    }
    let mut found: BTreeSet<i32> = roots.into_iter().collect();
    let mut waiting: Vec<i32> = found.iter().copied().collect();
    while let Some(parent) = waiting.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if found.insert(*child) {
                waiting.push(*child);
            }
        }
    }
    found
}

/// Returns the pid of this process in `/proc`. In a new PID namespace it differs from `getpid`, because `/proc` still
/// belongs to the outer namespace.
fn own_proc_pid() -> Option<i32> {
    fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

/// Returns the start time of a process in clock ticks since boot.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    read_process(&pid.to_string()).map(|process| process.started)
}

/// Returns the start time of a process; `None` if it does not exist or is a zombie.
pub(super) fn start_time_if_alive(pid: u32) -> Option<u64> {
    read_process(&pid.to_string())
        .filter(ProcessStat::is_alive)
        .map(|process| process.started)
}

/// Returns the id of the current boot.
pub(super) fn boot_id() -> String {
    let id = read_proc_file("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    String::from_utf8_lossy(&id).trim().to_owned()
}

/// Returns the id of this process's PID namespace.
pub(super) fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// Returns the values of a variable in the environments of all processes; `None` if one of them is in `exec` and its
/// environment cannot be read.
pub(super) fn find_markers(variable: &str) -> Option<BTreeSet<String>> {
    let start = format!("{variable}=");
    let mut found = BTreeSet::new();
    for process in list_processes().filter(|process| process.is_alive() && process.size > 0) {
        let Some(environment) = read_proc_file(&format!("/proc/{}/environ", process.pid)) else {
            continue;
        };
        if environment.is_empty() {
            return None;
        }
        let entries = environment.split(|byte| *byte == 0);
        let values = entries.filter_map(|entry| entry.strip_prefix(start.as_bytes()));
        found.extend(values.map(|value| String::from_utf8_lossy(value).into_owned()));
    }
    Some(found)
}

/// Kills the processes that have a variable with this value in their environment, the guard, and all descendants of
/// these.
pub(super) fn kill_marked(
    variable: &str,
    value: &str,
    guard: Option<&ProcessIdentity>,
) -> MarkedProcesses {
    let wanted = format!("{variable}={value}");
    let own_pid = process::id().cast_signed();
    let mut marked = MarkedProcesses::default();
    let mut seen = Vec::new();
    for process in list_processes() {
        // Kernel threads have no memory and no environment.
        if process.is_alive() && process.size > 0 && process.pid != own_pid {
            // `None` for processes of other users.
            let environment = read_proc_file(&format!("/proc/{}/environ", process.pid));
            marked.is_incomplete |= environment.as_ref().is_some_and(Vec::is_empty);
            let mut entries = environment
                .iter()
                .flat_map(|bytes| bytes.split(|byte| *byte == 0));
            let is_guard = guard.is_some_and(|guard| process.is_process(guard));
            if is_guard || entries.any(|entry| entry == wanted.as_bytes()) {
                // The process is stopped at once, because it may fork and exit a moment later. It is not killed yet,
                // because its children would then get another parent and could not be recognized.
                let _gone = kill(Pid::from_raw(process.pid), Signal::SIGSTOP);
                marked.killed.push(process.pid);
            }
        }
        seen.push(process);
    }
    let mut found = with_descendants(&seen, marked.killed.iter().copied());
    found.remove(&own_pid);
    for pid in &found {
        let _gone = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    }
    marked.killed = found.into_iter().collect();
    marked
}

/// Makes this process the parent of orphaned descendants.
pub(super) fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// Blocked signals of a guard, which are read from a signalfd.
pub(super) struct Signals {
    blocked: SigSet,
    file: SignalFd,
}

impl Signals {
    /// Blocks the signals.
    pub(super) fn block() -> io::Result<Self> {
        let blocked: SigSet = [
            Signal::SIGTERM,
            Signal::SIGINT,
            Signal::SIGHUP,
            Signal::SIGCHLD,
        ]
        .into_iter()
        .collect();
        blocked.thread_set_mask()?;
        let file = SignalFd::with_flags(&blocked, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { blocked, file })
    }

    /// Returns a descriptor that becomes readable when a signal is pending.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    /// Reads all pending signals. Returns true if one of them asks the guard to end.
    pub(super) fn has_stop_request(&self) -> bool {
        let mut end = false;
        while let Ok(Some(signal)) = self.file.read_signal() {
            end |= signal.ssi_signo != Signal::SIGCHLD as u32;
        }
        end
    }

    /// Starts a program with no signals blocked, because a child inherits the signal mask.
    ///
    /// A signal that arrives in this moment kills the guard; agentd then finds the agent's processes by the marker.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        SigSet::empty().thread_set_mask()?;
        let started = command.spawn();
        self.blocked.thread_set_mask()?;
        started
    }
}

/// An agent and all of its descendants.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProcessTree {
    /// All descendants of the guard, which is the parent of orphans.
    Descendants,
    /// All processes in the PID namespace whose first process is the guard.
    Namespace,
}

impl ProcessTree {
    pub(super) fn new(_leader: Pid, in_namespace: bool) -> Self {
        if in_namespace {
            Self::Namespace
        } else {
            Self::Descendants
        }
    }

    /// Returns the number of living processes.
    pub(super) fn count(self) -> u64 {
        descendants().len() as u64
    }

    /// Sends a signal to all processes.
    pub(super) fn signal(self, signal: Signal) -> SignalCount {
        let targets = match self {
            Self::Descendants if signal == Signal::SIGKILL => stop_descendants(),
            Self::Descendants => descendants(),
            // The kernel signals all processes of the namespace. The pids in `/proc` belong to the outer namespace.
            Self::Namespace => vec![-1],
        };
        let mut reach = SignalCount::default();
        for target in targets {
            match kill(Pid::from_raw(target), signal) {
                Ok(()) => reach.reached += 1,
                Err(Errno::EPERM) => reach.refused += 1,
                Err(_) => {}
            }
        }
        reach
    }

    /// Returns true if no process is left. The guard is the parent of all orphans, so without children it has no
    /// descendants.
    pub(super) fn is_gone(self, childless: bool) -> bool {
        childless
    }
}

/// Sends SIGSTOP to all descendants until no new one is found, and returns them. Killing them one by one would lose
/// against a fork bomb; stopped processes cannot fork.
fn stop_descendants() -> Vec<i32> {
    let mut halted = BTreeSet::new();
    for _ in 0..MAX_SCANS {
        let found = descendants();
        let new: Vec<i32> = found
            .into_iter()
            .filter(|pid| halted.insert(*pid))
            .collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            let _gone = kill(Pid::from_raw(pid), Signal::SIGSTOP);
        }
    }
    halted.into_iter().collect()
}

fn descendants() -> Vec<i32> {
    let Some(own_pid) = own_proc_pid() else {
        return Vec::new();
    };
    let mut found = with_descendants(&list_processes().collect::<Vec<_>>(), [own_pid]);
    found.remove(&own_pid);
    found.into_iter().collect()
}

/// Makes the next child of this process the first process of a new PID namespace, with the same user and group.
pub(super) fn enter_namespace() -> io::Result<()> {
    let user = geteuid();
    let group = getegid();
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)?;

    // The kernel requires this before a group id is mapped.
    write_proc_file("/proc/self/setgroups", "deny")?;
    write_proc_file("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write_proc_file("/proc/self/gid_map", &format!("{group} {group} 1"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "these files map the user and group ids of a namespace"
)]
fn write_proc_file(path: &str, content: &str) -> io::Result<()> {
    fs::write(path, content)
}

/// Prevents other processes of this user from reading the memory, the environment and the open files of this process.
pub(super) fn forbid_inspection() -> io::Result<()> {
    Ok(prctl::set_dumpable(false)?)
}

/// Sends SIGCONT to this process when its parent ends.
pub(super) fn wake_with_parent() -> io::Result<()> {
    Ok(prctl::set_pdeathsig(Signal::SIGCONT)?)
}

/// Sends SIGKILL to this process when its parent ends.
pub(super) fn end_with_parent() -> io::Result<()> {
    Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
}

/// Magic numbers of network file systems.
const NETWORK: [(u32, &str); 10] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
];

/// Returns the name of the network file system of a path; `None` if it is local or unknown.
pub(super) fn network_filesystem(path: &Path) -> Option<&'static str> {
    let kind = statfs(path).ok()?.filesystem_type().0;
    NETWORK
        .iter()
        .find(|(number, _)| i64::from(*number) == kind as i64 & 0xffff_ffff)
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let line =
            b"42 (a) R 1 (b c)) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 98765 4096 10 1";
        let process = parse_stat(line).unwrap();
        assert_eq!(
            (
                process.pid,
                process.state,
                process.parent,
                process.started,
                process.size
            ),
            (42, b'S', 7, 98765, 4096)
        );
    }

    #[test]
    fn descendants_are_found_through_every_generation_and_dead_ones_are_not() {
        let process = |pid, parent, state| ProcessStat {
            pid,
            parent,
            state,
            started: 0,
            size: 1,
        };
        let list = [
            process(9, 5, b'S'),
            process(5, 2, b'R'),
            process(2, 1, b'S'),
            process(3, 1, b'S'),
            process(6, 2, b'Z'),
        ];
        assert_eq!(with_descendants(&list, [2]), BTreeSet::from([2, 5, 9]));
    }
}
