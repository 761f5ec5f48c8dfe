//! Waiting for processes and files in a way that does not depend on the speed of the machine.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};

/// Upper bound for every wait of a test. Only a hang reaches it.
pub(crate) const HANG: Duration = Duration::from_secs(300);

/// Time limits in seconds, for tests in which one process must exceed a limit and another must not.
///
/// On a busy machine both may exceed the first limit. Such a test then tries the next one.
pub(crate) const GROWING_LIMITS: [u64; 3] = [1, 10, 100];

/// Poll interval of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until a condition holds.
///
/// # Panics
///
/// Panics with `failure` if the condition does not hold within [`HANG`].
pub(crate) fn until(failure: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < HANG, "{failure}");
        thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until a file contains a text.
pub(crate) fn until_written(path: &Path, text: &str) {
    let is_written = || fs::read(path).is_ok_and(|bytes| contains(&bytes, text.as_bytes()));
    until(
        &format!("{text:?} is not written to {}", path.display()),
        is_written,
    );
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|found| found == wanted)
}

/// Returns the pids of living processes by the entries of their environment, such as `HOME=/root`.
///
/// A process that has exited and was not reaped has an empty environment.
pub(crate) fn processes_by_environment(is_wanted: impl Fn(&[&[u8]]) -> bool) -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let has_wanted_environment = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let entries: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
        is_wanted(&entries)
    };
    pids.filter(has_wanted_environment).collect()
}

/// Returns the pids of the agents and checks that programs with this home folder have started.
pub(crate) fn processes_of_calls(home: &Path) -> BTreeSet<u32> {
    let home = format!("HOME={}", home.display());
    processes_by_environment(|entries| {
        entries.contains(&home.as_bytes())
            && entries
                .iter()
                .any(|entry| entry.starts_with(b"AGENTD_CALL="))
    })
}

/// Stops a process with SIGSTOP, and returns once it no longer runs.
pub(crate) fn suspend(pid: Pid) {
    kill(pid, Signal::SIGSTOP).unwrap();
    until("the process is not stopped", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')')
            .next()
            .unwrap()
            .trim_start()
            .starts_with('T')
    });
}

/// Returns true if a process has received SIGTERM and blocks it, like the step `trap-term` of the
/// fake agent.
pub(crate) fn blocks_received_sigterm(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let pending = pending.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    pending & (1 << (Signal::SIGTERM as i32 - 1)) != 0
}

/// A FIFO that shows whether any process that holds its write end is alive.
///
/// A process opens [`Self::path`] for writing, for example with `exec 9> PATH` in a shell. Its
/// children inherit the file descriptor, regardless of changes to their environment, session or
/// parent.
pub(crate) struct Holders {
    path: PathBuf,
    read_end: File,
}

impl Holders {
    /// Creates the FIFO.
    pub(crate) fn new(path: PathBuf) -> Self {
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let read_end = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(&path);
        Self {
            path,
            read_end: read_end.unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if no process holds the write end, so that reading reports the end of the file.
    pub(crate) fn are_gone(&mut self) -> bool {
        match self.read_end.read(&mut [0]) {
            Ok(count) => {
                assert_eq!(count, 0, "nothing is written to the FIFO");
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                false
            }
        }
    }
}
