//! The watcher: a process that kills the children of agentd if agentd is killed.
//!
//! git runs without a guard: it starts many times in a turn, and only its time is limited. Instead, agentd reports the
//! start and the end of each such child to one watcher, through a socket. The socket closes when agentd exits or is
//! killed. The watcher then kills the children that still run.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::guard;
use super::system;

/// Time between SIGTERM and SIGKILL, in which git removes its locks.
const GRACE: Duration = Duration::from_secs(2);

/// Poll interval while waiting for processes that were sent SIGTERM.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Handle of a watcher process, which starts with the first child. Clones share the process, which exits when the last
/// clone is dropped.
#[derive(Clone, Debug)]
pub struct ChildWatcher(Arc<WatcherState>);

#[derive(Debug)]
struct WatcherState {
    guard: PathBuf,
    /// Socket to the watcher; `None` if the watcher could not be started.
    socket: OnceLock<Option<Mutex<UnixStream>>>,
}

impl ChildWatcher {
    /// Returns a handle; the process is not started yet. `guard` is the path of an agentd binary, or of a program whose
    /// `main` calls `guard_main` first.
    #[must_use]
    pub fn new(guard: PathBuf) -> Self {
        Self(Arc::new(WatcherState {
            guard,
            socket: OnceLock::new(),
        }))
    }

    /// Watches the process group that a child leads: the group is killed if this process is killed before the returned
    /// value is dropped.
    #[must_use]
    pub fn watch(&self, leader: u32) -> WatchedChild<'_> {
        let started = system::start_time(leader).unwrap_or_default();
        self.send(&format!("+{leader} {started}\n"));
        WatchedChild {
            watcher: self,
            leader,
        }
    }

    fn send(&self, line: &str) {
        let socket = self.0.socket.get_or_init(|| {
            start_watcher(&self.0.guard)
                .inspect_err(|error| {
                    log::warn!("cannot start the watcher of git processes: {error}")
                })
                .ok()
                .map(Mutex::new)
        });
        if let Some(Ok(mut socket)) = socket.as_ref().map(Mutex::lock) {
            // Without the watcher, children still run, but are not killed together with agentd.
            let _gone = socket.write_all(line.as_bytes());
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the watcher belongs to containment"
)]
fn start_watcher(guard: &Path) -> io::Result<UnixStream> {
    let (socket, watcher_stdin) = UnixStream::pair()?;
    let mut command = Command::new(absolute(guard)?);
    command
        .args([guard::GUARD_ARGUMENT, guard::ROLE_WATCH])
        .env_clear()
        .current_dir("/");
    command
        .stdin(OwnedFd::from(watcher_stdin))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Its own process group, so that Ctrl-C in the terminal reaches agentd and not the watcher.
    command.process_group(0).spawn()?;
    Ok(socket)
}

/// A child that is watched until this value is dropped.
#[derive(Debug)]
pub struct WatchedChild<'a> {
    watcher: &'a ChildWatcher,
    leader: u32,
}

impl Drop for WatchedChild<'_> {
    fn drop(&mut self) {
        self.watcher.send(&format!("-{}\n", self.leader));
    }
}

/// Runs the watcher: reads `+PID START` and `-PID` lines from stdin, and kills the remaining process groups when stdin
/// closes.
#[expect(
    clippy::disallowed_methods,
    reason = "the stdin of a watcher is its socket to agentd"
)]
pub(super) fn watch() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut running: BTreeMap<u32, u64> = BTreeMap::new();
    for line in BufReader::new(socket).lines() {
        let Ok(line) = line else { break };
        if let Some((leader, started)) =
            line.strip_prefix('+').and_then(|rest| rest.split_once(' '))
            && let (Ok(leader), Ok(started)) = (leader.parse(), started.parse())
        {
            running.insert(leader, started);
        } else if let Some(Ok(leader)) = line.strip_prefix('-').map(str::parse) {
            running.remove(&leader);
        }
    }
    kill_groups(&running);
    Ok(())
}

/// Sends SIGTERM, then SIGKILL, to process groups whose leaders are alive. The start time excludes a later process with
/// the same pid.
fn kill_groups(running: &BTreeMap<u32, u64>) {
    let find_alive = || {
        let is_same = |(leader, started): &(&u32, &u64)| {
            system::start_time_if_alive(**leader) == Some(**started)
        };
        running
            .iter()
            .filter(is_same)
            .map(|(leader, _)| Pid::from_raw(leader.cast_signed()))
            .collect::<Vec<_>>()
    };
    for group in find_alive() {
        let _gone = killpg(group, Signal::SIGTERM);
    }

    let begun = Instant::now();
    while begun.elapsed() < GRACE && !find_alive().is_empty() {
        thread::sleep(POLL_INTERVAL);
    }
    for group in find_alive() {
        let _gone = killpg(group, Signal::SIGKILL);
    }
}
