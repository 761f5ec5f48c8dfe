//! Containment: starts an agent so that none of its processes outlives the call.
//!
//! agentd does not start the agent itself. It starts a guard, which is this program again, connected by two sockets. The
//! guard starts the agent, enforces the limits, kills all of the agent's processes at the end and writes an exit record.
//! The lifeline socket closes when agentd exits or is killed, and the guard then kills everything. If the guard is killed,
//! agentd finds the agent's processes by the marker in their environment.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf, absolute};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::Limits;
use super::guard;
use super::process::{MARKER_VARIABLE, identity, reap};
use super::system;
pub use crate::config::Containment;
use crate::error::{Error, ErrorKind, Result};
use crate::models::ProcessIdentity;

/// Maximum size of an argument, and of an environment variable with its name, on Linux.
const MAX_STRING_BYTES: usize = 131_071;

/// Timeout for a guard's first line. A guard needs milliseconds; a program that is not a guard never writes the line.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Time that a dropped call waits for its guard to kill everything.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

/// Time beyond the limits of a call after which agentd ends the call without the guard. The guard itself gives up on
/// processes that cannot be killed after 10 s.
const GUARD_MARGIN: Duration = Duration::from_secs(12);

/// Time that a guard has to kill everything on request, before agentd does it.
const KILL_MARGIN: Duration = Duration::from_secs(2);

/// Interval at which a guard is sent SIGCONT, in case the agent has stopped it.
const WAKE_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of bytes that are read from a job, an exit record or a captured stdout.
const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;

/// A command to run under a guard.
#[derive(Clone, Copy, Debug)]
pub struct GuardedCommand<'a> {
    /// Path of an agentd binary, or of a program whose `main` calls `guard_main` first.
    pub guard: &'a Path,
    /// Command and arguments.
    pub argv: &'a [String],
    /// Complete environment of the command. The command is searched for in its `PATH`.
    pub env: &'a [(OsString, OsString)],
    /// Working directory.
    pub cwd: &'a Path,
    /// Folder of the call, created by [`prepare`].
    pub folder: &'a Path,
    /// Value in the environment of the call's processes, which identifies them.
    pub marker: &'a str,
    /// Timeouts, and the size limit of stdout and of stderr.
    pub limits: Limits,
    /// Mechanism that keeps the processes of the command together.
    pub containment: Containment,
}

/// Exit of a command that ran under a guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandExit {
    /// Exit code; `None` if the command was killed by a signal or did not start.
    pub code: Option<i32>,
    /// Signal that killed the command.
    pub signal: Option<i32>,
    /// Cause of the end.
    pub cause: ExitCause,
    /// Number of leftover processes that had to be killed after the command had ended.
    pub left_behind: u64,
    /// Time until all processes of the command had ended, in milliseconds.
    pub milliseconds: u64,
}

/// Cause of the end of a command.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitCause {
    /// The command ended by itself, or was killed by something other than its guard.
    Ended,
    /// The command does not exist.
    NotInstalled,
    /// The command exists, but cannot be started for this reason.
    NotStarted(String),
    /// The time from start to end exceeded its limit.
    Wall,
    /// The time without output exceeded its limit.
    Idle,
    /// The size of the output exceeded its limit.
    Output,
    /// The command was stopped on request.
    Stopped,
    /// The calling program or the guard was killed before the command ended.
    Abandoned,
    /// The folder of the call was removed while the command ran, and with it the output and the exit record.
    Removed,
}

/// Exit record of a guard. Neither the record nor the agent's output is synced to disk, so the record is valid only during
/// the boot in which it was written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExitRecord {
    pub(super) boot: String,
    pub(super) exit: CommandExit,
}

/// Order for a guard, written to the file `job`. It does not contain the environment, which may hold secrets.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GuardOrder {
    pub(super) marker: String,
    pub(super) argv: Vec<String>,
    pub(super) wall: Duration,
    pub(super) idle: Duration,
    pub(super) grace: Duration,
    pub(super) output: u64,
    pub(super) containment: Containment,
}

/// Creates the folder of a call with the prompt in it, readable by this user only. Removes an existing folder.
///
/// # Errors
///
/// `StorageFull` if the disk is full, `AgentUnusable` if the folder cannot be written for another reason.
pub fn prepare(folder: &Path, prompt: &[u8]) -> Result<()> {
    let write = || {
        let parent = folder.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        // An existing parent may be a symlink to any folder.
        if parent.symlink_metadata()?.is_symlink() {
            let message = format!("{} is a symlink", parent.display());
            return Err(io::Error::other(message));
        }
        remove_call_folder(folder)?;
        DirBuilder::new().mode(0o700).create(folder)?;
        let mut file = create(&folder.join("prompt"))?;
        file.write_all(prompt)
    };
    write().map_err(|cause| unwritable(folder, cause))
}

/// Removes the folder of a call. Errors are ignored: a leftover folder does no harm.
pub fn discard(folder: &Path) {
    let _stays = remove_call_folder(folder);
}

/// Removes the folder of a call, or a file or symlink in its place. Symlinks are not followed.
#[expect(
    clippy::disallowed_methods,
    reason = "the files of a call belong to this room"
)]
fn remove_call_folder(folder: &Path) -> io::Result<()> {
    let removed = match folder.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(folder),
        Ok(_) => fs::remove_file(folder),
        Err(cause) => Err(cause),
    };
    removed.or_else(|cause| {
        if cause.kind() == io::ErrorKind::NotFound {
            Ok(())
        } else {
            Err(cause)
        }
    })
}

pub(super) fn unwritable(folder: &Path, cause: io::Error) -> Error {
    let (kind, hint) = match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::StorageFull, "free disk space and try again")
        }
        _ => (ErrorKind::AgentUnusable, "make the folder writable"),
    };
    let message = format!("cannot write the call folder {}", folder.display());
    Error::new(kind, message).with_hint(hint).with_source(cause)
}

/// Starts a command under a guard, and waits until the guard is ready.
///
/// # Errors
///
/// `AgentUnusable` if the guard cannot be started or cannot contain an agent here, or if the arguments are too long;
/// `StorageFull` if the disk is full.
pub fn launch(job: &GuardedCommand<'_>) -> Result<GuardedProcess> {
    if guard::is_guard() {
        // Without this check, the program would start itself as a guard endlessly.
        let message =
            "this program was started as a guard, and its `main` did not call `agent::guard_main`";
        return Err(Error::new(ErrorKind::AgentUnusable, message).with_hint(
            "call `agent::guard_main()` first in `main`, or use an agentd binary as the guard",
        ));
    }

    check_string_lengths(job)?;
    if !job.cwd.is_dir() {
        let message = format!(
            "the agent's working directory `{}` does not exist or is not a folder",
            job.cwd.display()
        );
        return Err(Error::new(ErrorKind::AgentUnusable, message));
    }

    let folder = absolute(job.folder).map_err(|cause| unwritable(job.folder, cause))?;
    let order = GuardOrder {
        marker: job.marker.to_owned(),
        argv: job.argv.to_vec(),
        wall: job.limits.wall,
        idle: job.limits.idle,
        grace: job.limits.grace,
        output: job.limits.output,
        containment: job.containment,
    };
    write_json(&folder.join("job"), &order).map_err(|cause| unwritable(&folder, cause))?;

    let started = Instant::now();
    let GuardProcess {
        child,
        lifeline,
        ended,
    } = start_guard(job, &folder)?;
    let process = identity(child.id());
    let mut contained = GuardedProcess {
        child,
        lifeline: Some(lifeline),
        ended,
        process,
        folder,
        marker: job.marker.to_owned(),
        started,
        grace: job.limits.grace,
        deadline: started.checked_add(job.limits.wall + job.limits.grace + GUARD_MARGIN),
        overdue: ExitCause::Wall,
        exit: None,
    };

    match contained.read_first_line() {
        Ok(line) if line == guard::READY_LINE => Ok(contained),
        Ok(line) => Err(contained.into_refusal(job, line.trim())),
        Err(cause) => Err(contained.into_refusal(job, &cause.to_string())),
    }
}

/// Fails if an argument or an environment variable is longer than the system accepts.
fn check_string_lengths(job: &GuardedCommand<'_>) -> Result<()> {
    if job.argv.is_empty() {
        return Err(Error::new(
            ErrorKind::AgentUnusable,
            "the agent's command is empty",
        ));
    }
    if let Some(at) = job
        .argv
        .iter()
        .position(|argument| argument.len() > MAX_STRING_BYTES)
    {
        let length = job.argv[at].len();
        let what = format!("argument {at} of the agent's command has {length} bytes");
        return Err(too_long(&what).with_hint(
            "pass the prompt on stdin or as a file: set `prompt` of the agent in agents.yaml",
        ));
    }
    let is_too_long =
        |(name, value): &&(OsString, OsString)| name.len() + 1 + value.len() > MAX_STRING_BYTES;
    match job.env.iter().find(is_too_long) {
        Some((name, _)) => {
            let name = name.display();
            Err(
                too_long(&format!("environment variable {name} is too long"))
                    .with_hint(format!("shorten or unset {name}")),
            )
        }
        None => Ok(()),
    }
}

fn too_long(what: &str) -> Error {
    let message =
        format!("{what}: the system limit is {MAX_STRING_BYTES} bytes per string (E2BIG)");
    Error::new(ErrorKind::AgentUnusable, message)
}

/// A started guard and the two sockets to it.
struct GuardProcess {
    child: Child,
    lifeline: UnixStream,
    ended: UnixStream,
}

/// Starts a guard. It is connected by sockets and not by pipes, because the agent could open a pipe through
/// `/proc/PID/fd`, and then hold it open or write orders to it.
#[expect(
    clippy::disallowed_methods,
    reason = "the guard is how this room starts agents"
)]
fn start_guard(job: &GuardedCommand<'_>, folder: &Path) -> Result<GuardProcess> {
    let not_connected = |cause| guard_error(job, "cannot create a socket").with_source(cause);
    let (lifeline, guard_stdin) = UnixStream::pair().map_err(not_connected)?;
    let (ended, guard_stdout) = UnixStream::pair().map_err(not_connected)?;

    let program = absolute(job.guard).unwrap_or_else(|_| job.guard.to_path_buf());
    let mut command = Command::new(&program);
    command
        .args([guard::GUARD_ARGUMENT, guard::ROLE_CALL])
        .arg(folder);
    command
        .env_clear()
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .env(MARKER_VARIABLE, job.marker);
    command.current_dir(job.cwd);
    command
        .stdin(OwnedFd::from(guard_stdin))
        .stdout(OwnedFd::from(guard_stdout))
        .stderr(Stdio::null());

    let child = command
        .spawn()
        .map_err(|cause| match cause.raw_os_error() {
            Some(code) if code == Errno::E2BIG as i32 => {
                let message = "the environment is too large to start a process (E2BIG)";
                Error::new(ErrorKind::AgentUnusable, message)
                    .with_hint("unset environment variables that agents do not need")
            }
            _ if !program.is_file() => guard_error(job, "the program does not exist")
                .with_hint(GUARD_HINT)
                .with_source(cause),
            _ => guard_error(job, "cannot start the program").with_source(cause),
        })?;
    Ok(GuardProcess {
        child,
        lifeline,
        ended,
    })
}

/// Hint for a guard that does not exist or does not act as a guard.
const GUARD_HINT: &str =
    "the guard must be agentd, or a program that calls `agent::guard_main` first";

/// Returns the error for a guard that cannot be started or does not report that it is ready.
fn guard_error(job: &GuardedCommand<'_>, why: &str) -> Error {
    let message = format!(
        "the guard {} cannot contain an agent: {why}",
        job.guard.display()
    );
    Error::new(ErrorKind::AgentUnusable, message)
}

/// A command under its guard. Dropping it kills the command.
#[derive(Debug)]
pub struct GuardedProcess {
    child: Child,
    /// Open as long as the agent may live. When it closes, for whatever reason, the guard kills the agent's processes.
    lifeline: Option<UnixStream>,
    /// Stdout of the guard: its first line, then end of file when the guard has exited.
    ended: UnixStream,
    process: ProcessIdentity,
    folder: PathBuf,
    marker: String,
    started: Instant,
    /// Time between SIGTERM and SIGKILL.
    grace: Duration,
    /// Time at which agentd ends the call without the guard; `None` if the limits are too long for the clock.
    deadline: Option<Instant>,
    /// Cause of the end if the deadline passes.
    overdue: ExitCause,
    exit: Option<CommandExit>,
}

impl GuardedProcess {
    /// Returns the process of the guard.
    #[must_use]
    pub fn process(&self) -> &ProcessIdentity {
        &self.process
    }

    /// Waits at most `patience` for the command to end; `None` if it still runs. After the end, no process of the command
    /// is alive.
    ///
    /// # Errors
    ///
    /// `AgentUnusable` if the guard was killed and the agent's processes cannot be killed; `FileUnusable` if the exit
    /// record cannot be read.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<CommandExit>> {
        if self.exit.is_some() {
            return Ok(self.exit.clone());
        }

        let left = self
            .deadline
            .map_or(patience, |at| at.saturating_duration_since(Instant::now()));
        if self.has_guard_output_within(patience.min(left)) {
            let status = self.child.wait().ok();
            self.exit = Some(match exit_record(&self.folder)? {
                Some(exit) => exit,
                None => CommandExit {
                    code: None,
                    signal: status.and_then(|status| status.signal()),
                    cause: if self.folder.is_dir() {
                        ExitCause::Abandoned
                    } else {
                        ExitCause::Removed
                    },
                    left_behind: reap(&self.marker, None)?,
                    milliseconds: milliseconds(self.started.elapsed()),
                },
            });
        } else if self.deadline.is_some_and(|at| at <= Instant::now()) {
            self.exit = Some(self.end_without_guard()?);
        }
        Ok(self.exit.clone())
    }

    /// Kills a guard that does not respond, and all processes of its call.
    fn end_without_guard(&mut self) -> Result<CommandExit> {
        let killed = reap(&self.marker, Some(&self.process))?;
        // On systems that cannot list processes, only the guard can be killed.
        let _gone = self.child.kill();
        let _status = self.child.wait();

        Ok(CommandExit {
            code: None,
            signal: None,
            cause: self.overdue.clone(),
            left_behind: killed.saturating_sub(1),
            milliseconds: milliseconds(self.started.elapsed()),
        })
    }

    /// Asks the agent to exit, or kills it if `at_once`; `wait` then returns the exit. A guard that does not react in time
    /// is killed together with the agent.
    pub fn stop(&mut self, at_once: bool) {
        let (byte, margin) = if at_once {
            (guard::KILL_BYTE, KILL_MARGIN)
        } else {
            (guard::END_BYTE, self.grace + GUARD_MARGIN)
        };
        // If the guard has exited, there is nothing left to stop.
        let _gone = self
            .lifeline
            .as_mut()
            .map(|lifeline| lifeline.write_all(&[byte]));

        let latest = Instant::now().checked_add(margin);
        if self
            .deadline
            .is_none_or(|deadline| latest.is_some_and(|latest| latest < deadline))
        {
            self.deadline = latest;
            self.overdue = ExitCause::Stopped;
        }
    }

    /// Returns true if the guard writes or exits within `patience`. After its first line the guard writes nothing.
    ///
    /// Meanwhile the guard is sent SIGCONT, because the agent runs as the same user and may have stopped the guard. A
    /// process that is not stopped ignores that signal.
    fn has_guard_output_within(&self, patience: Duration) -> bool {
        let begun = Instant::now();
        // The guard is not reaped yet, so its pid is not used by another process.
        let guard = Pid::from_raw(self.child.id().cast_signed());
        loop {
            let _gone = kill(guard, Signal::SIGCONT);
            let left = patience.saturating_sub(begun.elapsed()).min(WAKE_INTERVAL);
            // Rounded up to milliseconds, so that the last millisecond is not a busy loop.
            let timeout = PollTimeout::try_from(left + Duration::from_micros(999))
                .unwrap_or(PollTimeout::MAX);
            let mut polled = [PollFd::new(self.ended.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, timeout) {
                Ok(0) | Err(Errno::EINTR) if begun.elapsed() < patience => {}
                Ok(0) | Err(Errno::EINTR) => return false,
                Ok(_) | Err(_) => return true,
            }
        }
    }

    /// Reads the first line of a guard.
    fn read_first_line(&mut self) -> io::Result<String> {
        let begun = Instant::now();
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            if !self.has_guard_output_within(READY_TIMEOUT.saturating_sub(begun.elapsed())) {
                let message = format!("no response within {} s", READY_TIMEOUT.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            let mut bytes = [0; 512];
            match self.ended.read(&mut bytes)? {
                0 => break,
                count => line.extend_from_slice(&bytes[..count]),
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Kills a guard that cannot start the agent, and returns the error for `reason`.
    fn into_refusal(mut self, job: &GuardedCommand<'_>, reason: &str) -> Error {
        let _gone = self.child.kill();
        if reason.is_empty() {
            return guard_error(job, "the program exited at once").with_hint(GUARD_HINT);
        }

        let hint = if reason.starts_with(guard::NO_NAMESPACES) {
            "set `containment = \"guard\"`, or enable user and PID namespaces on this system"
        } else {
            GUARD_HINT
        };
        guard_error(job, reason).with_hint(hint)
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        self.lifeline = None;
        if self.exit.is_some() {
            return;
        }
        if self.has_guard_output_within(DROP_TIMEOUT) {
            // Reaped, so that no zombie remains.
            let _status = self.child.wait();
        } else {
            let _stays = self.end_without_guard();
        }
    }
}

/// Reads the exit record of a call; `None` if the guard has not written one during this boot.
///
/// # Errors
///
/// `FileUnusable` if the record cannot be read.
pub fn exit_record(folder: &Path) -> Result<Option<CommandExit>> {
    let path = folder.join("exit");
    match read_json::<ExitRecord>(&path) {
        Ok(record) => Ok(Some(record.exit).filter(|_| record.boot == system::boot_id())),
        // The record is incomplete if the power failed while it was written.
        Err(cause)
            if matches!(
                cause.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::InvalidData
            ) =>
        {
            Ok(None)
        }
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(cause) => {
            let message = format!("cannot read the guard's exit record {}", path.display());
            Err(Error::new(ErrorKind::FileUnusable, message).with_source(cause))
        }
    }
}

/// Returns the marker of the call whose files are in a folder; `None` if the folder has no readable job file.
pub(super) fn marker_of(folder: &Path) -> Option<String> {
    read_json::<GuardOrder>(&folder.join("job"))
        .ok()
        .map(|order| order.marker)
}

/// Creates a file that only this user may read, in append mode. Fails if the file already exists.
#[expect(
    clippy::disallowed_methods,
    reason = "the files of a call belong to this room"
)]
pub(super) fn create(path: &Path) -> io::Result<File> {
    // An agent may open the file again, for example through /dev/stderr. Without append mode, the two file handles would
    // overwrite each other's output.
    let append = OFlag::O_APPEND.bits();
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(append)
        .open(path)
}

/// Opens a file of a call for reading. An agent can replace the file with a named pipe, which must not block.
#[expect(
    clippy::disallowed_methods,
    reason = "the files of a call belong to this room"
)]
pub(super) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        let message = format!("{} is not a regular file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(file)
}

/// Returns the stdout of a call; empty if it cannot be read.
pub(super) fn read_stdout(folder: &Path) -> String {
    let mut bytes = Vec::new();
    let read = open(&folder.join("stdout"))
        .and_then(|file| file.take(MAX_RECORD_BYTES).read_to_end(&mut bytes));
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// Returns the time at which the guard of a call wrote its exit record; `None` if there is no record.
#[must_use]
pub fn ended_at(folder: &Path) -> Option<SystemTime> {
    folder
        .join("exit")
        .metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
}

/// Renames a file of a call atomically.
#[expect(
    clippy::disallowed_methods,
    reason = "the files of a call belong to this room"
)]
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    create(path)?.write_all(&serde_json::to_vec(value)?)
}

pub(super) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<T> {
    let mut bytes = Vec::new();
    open(path)?.take(MAX_RECORD_BYTES).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
