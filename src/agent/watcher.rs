//! The watcher: a process that ends the children of agentd if agentd is killed.
//!
//! git runs without a guard: it starts many times in a turn, and has no limits to be held to but its time. agentd sends
//! one watcher which of its children run. If agentd is gone, its end of the socket closes, and the watcher ends them.

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

/// Interval between two looks at processes that were sent SIGTERM.
const PAUSE: Duration = Duration::from_millis(10);

/// A watcher, which is started with the first child. Clones share it; it ends with the last of them.
#[derive(Clone, Debug)]
pub struct ChildWatcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    guard: PathBuf,
    /// Socket to the watcher; `None` if it could not be started.
    socket: OnceLock<Option<Mutex<UnixStream>>>,
}

impl ChildWatcher {
    /// Returns a watcher that is not started yet. `guard` is the path of an agentd, or of a program whose `main` begins
    /// with `guard_main`.
    #[must_use]
    pub fn new(guard: PathBuf) -> Self {
        Self(Arc::new(Inner {
            guard,
            socket: OnceLock::new(),
        }))
    }

    /// Has a process group ended if this process is killed before the returned value is dropped. The group is that of a
    /// child, which leads it.
    #[must_use]
    pub fn watch(&self, leader: u32) -> WatchedChild<'_> {
        let started = system::started(leader).unwrap_or_default();
        self.send(&format!("+{leader} {started}\n"));
        WatchedChild {
            watcher: self,
            leader,
        }
    }

    fn send(&self, line: &str) {
        let socket = self.0.socket.get_or_init(|| {
            let started = start(&self.0.guard);
            started
                .inspect_err(|error| log::warn!("git is not watched: {error}"))
                .ok()
                .map(Mutex::new)
        });
        if let Some(Ok(mut socket)) = socket.as_ref().map(Mutex::lock) {
            // Without a watcher, what runs is not ended; it runs all the same.
            let _gone = socket.write_all(line.as_bytes());
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the watcher belongs to containment"
)]
fn start(guard: &Path) -> io::Result<UnixStream> {
    let (socket, watcher_stdin) = UnixStream::pair()?;
    let mut command = Command::new(absolute(guard)?);
    command
        .args([guard::WORD, guard::WATCH])
        .env_clear()
        .current_dir("/");
    command
        .stdin(OwnedFd::from(watcher_stdin))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Signals of the terminal are for agentd, which the watcher must outlive.
    command.process_group(0).spawn()?;
    Ok(socket)
}

/// A child that is watched until this is dropped.
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

/// Runs the watcher: remembers what is written to its standard input, and ends what is left when that closes.
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
    end(&running);
    Ok(())
}

/// Ends process groups whose leaders are alive, and still the same processes.
fn end(running: &BTreeMap<u32, u64>) {
    let alive = || {
        let is_same =
            |(leader, started): &(&u32, &u64)| system::alive_since(**leader) == Some(**started);
        running
            .iter()
            .filter(is_same)
            .map(|(leader, _)| Pid::from_raw(leader.cast_signed()))
            .collect::<Vec<_>>()
    };
    for group in alive() {
        let _gone = killpg(group, Signal::SIGTERM);
    }

    let begun = Instant::now();
    while begun.elapsed() < GRACE && !alive().is_empty() {
        thread::sleep(PAUSE);
    }
    for group in alive() {
        let _gone = killpg(group, Signal::SIGKILL);
    }
}
