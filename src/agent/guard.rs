//! The guard: a second process of this program, between agentd and an agent.
//!
//! The guard becomes the parent of the agent's orphaned processes, enforces the limits, and kills everything when the agent
//! ends, on request, or when the lifeline to agentd closes. Finally it writes the exit record.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};

use super::contain::{
    CommandExit, Containment, ExitCause, ExitRecord, GuardOrder, create, milliseconds, open,
    read_json, rename,
};
use super::http;
use super::system::{self, ProcessTree, Signals};
use super::watcher;

/// First argument of a program that is started as a guard.
pub(super) const GUARD_ARGUMENT: &str = "__guard";
/// Second argument: guards a call.
pub(super) const ROLE_CALL: &str = "call";
/// Second argument: guards a call as the first process of a PID namespace.
const ROLE_NAMESPACE: &str = "namespace";
/// Second argument: sends a request to a model server.
pub(super) const ROLE_SEND: &str = "send";
/// Second argument: kills the children of agentd when agentd is killed.
pub(super) const ROLE_WATCH: &str = "watch";
/// Second argument: exits at once, for a trial of containment.
pub(super) const ROLE_NOTHING: &str = "nothing";

/// First line that a guard writes, before it starts the agent.
pub(super) const READY_LINE: &str = "ready\n";
/// Start of the first line of a guard that cannot create its namespaces.
pub(super) const NO_NAMESPACES: &str = "namespaces are not available";
/// Byte on the lifeline: send SIGTERM to the agent.
pub(super) const END_BYTE: u8 = b'e';
/// Byte on the lifeline: send SIGKILL to the agent.
pub(super) const KILL_BYTE: u8 = b'k';

/// Interval at which the limits are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval at which leftover processes are checked after the agent has ended.
const SHORT_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time in which processes may end by themselves after the agent, without counting as leftover.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Time between SIGTERM and SIGKILL for leftover processes.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);
/// Maximum time for processes to end after SIGKILL. A process that hangs in the kernel may never end; the guard then gives
/// up on it.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum interval between two attempts to kill processes.
const MAX_KILL_INTERVAL: Duration = Duration::from_millis(500);
/// Disk space in bytes that is reserved for the exit record, so that it can be written on a full disk.
const RECORD_BYTES: usize = 1024;

/// Runs the guard and exits if the program was started as a guard; otherwise returns at once.
///
/// A program that starts agents calls this first in its `main`, and passes its own path as the guard.
#[expect(
    clippy::disallowed_methods,
    reason = "the guard reads its role from its arguments"
)]
#[expect(clippy::exit, reason = "a guard does not return to `main`")]
pub fn guard_main() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(GUARD_ARGUMENT)) {
        return;
    }
    let role = arguments.next().unwrap_or_default();
    let mut folder = || PathBuf::from(arguments.next().unwrap_or_default());
    let result = match role.to_str() {
        Some(ROLE_CALL) => call(&folder()),
        Some(ROLE_NAMESPACE) => system::end_with_parent()
            .and_then(|()| system::forbid_inspection())
            .and_then(|()| guard(&folder(), Lifeline::take()?, true)),
        Some(ROLE_WATCH) => watcher::watch(),
        Some(ROLE_SEND) => system::forbid_inspection().and_then(|()| http::send(arguments)),
        _ => Ok(()),
    };
    let code = result.map_or_else(
        |cause| {
            write_line(&format!("{cause}\n"));
            1
        },
        |()| 0,
    );
    process::exit(code);
}

/// Returns true in a process that was started as a guard.
#[expect(
    clippy::disallowed_methods,
    reason = "the guard reads its role from its arguments"
)]
pub(super) fn is_guard() -> bool {
    env::args_os().nth(1).as_deref() == Some(OsStr::new(GUARD_ARGUMENT))
}

/// Writes a line to agentd. Errors are ignored: agentd may have been killed.
#[expect(
    clippy::disallowed_methods,
    reason = "the stdout of a guard is a socket to agentd"
)]
fn write_line(line: &str) {
    let mut out = io::stdout();
    let _gone = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

fn call(folder: &Path) -> io::Result<()> {
    let lifeline = Lifeline::take()?;
    // A new session, so that the agent cannot read from or write to the user's terminal, and gets no signals from it.
    setsid()?;
    // The agent may SIGSTOP this process, which then could not notice that agentd has exited.
    system::wake_with_parent()?;
    match read_json::<GuardOrder>(&folder.join("job"))?.containment {
        Containment::Guard => {
            system::forbid_inspection()?;
            guard(folder, lifeline, false)
        }
        Containment::Namespace => run_namespace(folder, lifeline),
    }
}

/// Starts the actual guard as the first process of a PID namespace, and forwards requests to it.
#[expect(
    clippy::disallowed_methods,
    reason = "the guard is how this room starts agents"
)]
fn run_namespace(folder: &Path, mut lifeline: Lifeline) -> io::Result<()> {
    let refused = |cause: io::Error| io::Error::other(format!("{NO_NAMESPACES} ({cause})"));
    system::enter_namespace().map_err(refused)?;
    // After `enter_namespace`, because the kernel does not let a process that cannot be inspected write its user map.
    system::forbid_inspection()?;

    let (inner_lifeline, inner_stdin) = UnixStream::pair()?;
    let mut inner_lifeline = Some(inner_lifeline);
    let mut command = Command::new(system::SELF);
    command
        .args([GUARD_ARGUMENT, ROLE_NAMESPACE])
        .arg(folder)
        .stdin(OwnedFd::from(inner_stdin))
        .stderr(Stdio::null());
    let mut inner = lifeline.signals.spawn(&mut command).map_err(refused)?;
    while inner.try_wait()?.is_none() {
        let request = lifeline.listen(POLL_INTERVAL);
        let byte = if request.kill {
            Some(KILL_BYTE)
        } else {
            request.end.then_some(END_BYTE)
        };
        if let (Some(inner_lifeline), Some(byte)) = (&mut inner_lifeline, byte) {
            let _gone = inner_lifeline.write_all(&[byte]);
        }
        if request.gone {
            inner_lifeline = None;
        }
    }
    Ok(())
}

/// Connection to agentd: it transmits requests, and closes when agentd exits or is killed.
struct Lifeline {
    /// `None` after it was closed.
    socket: Option<File>,
    signals: Signals,
}

/// Requests since the last poll.
#[derive(Default)]
struct GuardRequest {
    /// Send SIGTERM to the agent.
    end: bool,
    /// Send SIGKILL to the agent.
    kill: bool,
    /// The lifeline has closed.
    gone: bool,
}

impl Lifeline {
    #[expect(
        clippy::disallowed_methods,
        reason = "the stdin of a guard is its lifeline"
    )]
    fn take() -> io::Result<Self> {
        let signals = Signals::block()?;
        Ok(Self {
            socket: Some(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
            signals,
        })
    }

    /// Waits for requests for at most `patience`.
    fn listen(&mut self, patience: Duration) -> GuardRequest {
        let files = [self.socket.as_ref().map(AsFd::as_fd), self.signals.fd()];
        let mut polled: Vec<PollFd<'_>> = files
            .into_iter()
            .flatten()
            .map(|file| PollFd::new(file, PollFlags::POLLIN))
            .collect();
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        let is_ready = poll(&mut polled, timeout).is_ok_and(|count| count > 0);
        // The socket, if it is open, is the first entry.
        let has_input = is_ready && self.socket.is_some() && polled[0].any() == Some(true);
        drop(polled);

        let mut request = GuardRequest {
            end: self.signals.has_stop_request(),
            ..GuardRequest::default()
        };
        if let (true, Some(socket)) = (has_input, &mut self.socket) {
            let mut bytes = [0; 16];
            let count = socket.read(&mut bytes).unwrap_or(0);
            request.end |= bytes[..count].contains(&END_BYTE);
            request.kill = bytes[..count].contains(&KILL_BYTE);
            request.gone = count == 0;
        }
        if request.gone {
            self.socket = None;
        }
        request
    }
}

/// Guards an agent from its start to its exit record.
fn guard(folder: &Path, lifeline: Lifeline, in_namespace: bool) -> io::Result<()> {
    let order: GuardOrder = read_json(&folder.join("job"))?;
    system::become_subreaper()?;
    let record = folder.join("exit.part");
    let mut file = create_record(&record)?;
    let outputs = [
        create(&folder.join("stdout"))?,
        create(&folder.join("stderr"))?,
    ];
    let prompt = open(&folder.join("prompt"))?;
    write_line(READY_LINE);

    let started = Instant::now();
    let exit = match start(&order, prompt, &outputs, &lifeline.signals) {
        Ok(leader) => {
            let tree = ProcessTree::new(leader, in_namespace);
            let agent = GuardedAgent {
                lifeline,
                leader,
                tree,
                order,
                outputs,
                started,
                sizes: [0; 2],
                grown: started,
                ended: None,
                cause: None,
                ending: None,
                kill: false,
                killed: None,
            };
            agent.wait_for_end()?
        }
        Err(cause) => CommandExit {
            code: None,
            signal: None,
            cause,
            left_behind: 0,
            milliseconds: milliseconds(started.elapsed()),
        },
    };

    let bytes = serde_json::to_vec(&ExitRecord {
        boot: system::boot_id(),
        exit,
    })?;
    file.write_all(&bytes)?;
    rename(&record, &folder.join("exit"))
}

/// Creates the file of the exit record, filled with spaces to reserve its disk space. The record overwrites some of them;
/// the rest is valid after a JSON value.
#[expect(
    clippy::disallowed_methods,
    reason = "the files of a call belong to this room"
)]
fn create_record(path: &Path) -> io::Result<File> {
    create(path)?.write_all(&[b' '; RECORD_BYTES])?;
    let mut file = File::options().write(true).open(path)?;
    file.rewind()?;
    Ok(file)
}

/// Starts the agent as the leader of a process group.
#[expect(
    clippy::disallowed_methods,
    reason = "this is where agents are started"
)]
fn start(
    order: &GuardOrder,
    prompt: File,
    outputs: &[File; 2],
    signals: &Signals,
) -> Result<Pid, ExitCause> {
    let Some((name, arguments)) = order.argv.split_first() else {
        return Err(ExitCause::NotInstalled);
    };
    let not_started = |cause: io::Error| ExitCause::NotStarted(cause.to_string());
    let [out, err] = outputs;
    let stdout = out.try_clone().map_err(not_started)?;
    let stderr = err.try_clone().map_err(not_started)?;

    let mut command = Command::new(name);
    command
        .args(arguments)
        .stdin(prompt)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    match signals.spawn(&mut command) {
        // The child is reaped together with all other children, not through this handle.
        Ok(child) => Ok(Pid::from_raw(child.id().cast_signed())),
        Err(_) if !is_installed(name) => Err(ExitCause::NotInstalled),
        Err(cause) if cause.raw_os_error() == Some(Errno::E2BIG as i32) => {
            let why = "the arguments and the environment are too large (E2BIG)";
            Err(ExitCause::NotStarted(why.to_owned()))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(ExitCause::NotStarted(
            format!("the interpreter of {name} is missing"),
        )),
        Err(cause) => Err(ExitCause::NotStarted(format!("{name}: {cause}"))),
    }
}

/// Returns true if `name` is the path of a file, or the name of a file in a folder of `PATH`.
#[expect(
    clippy::disallowed_methods,
    reason = "a guard has the environment of its agent"
)]
fn is_installed(name: &str) -> bool {
    if name.contains('/') {
        return Path::new(name).is_file();
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    folders
        .as_bytes()
        .split(|byte| *byte == b':')
        .any(|folder| {
            let folder = if folder.is_empty() {
                Path::new(".")
            } else {
                Path::new(OsStr::from_bytes(folder))
            };
            folder.join(name).is_file()
        })
}

/// A running agent and the state of its guard.
struct GuardedAgent {
    lifeline: Lifeline,
    leader: Pid,
    tree: ProcessTree,
    order: GuardOrder,
    outputs: [File; 2],
    started: Instant,
    /// Sizes of stdout and stderr at the last check.
    sizes: [u64; 2],
    /// Time of the last check at which an output had grown.
    grown: Instant,
    /// Exit code and signal of the leader; `None` while the leader runs.
    ended: Option<(Option<i32>, Option<i32>)>,
    /// Reason for which the guard ends the agent; `None` if the agent may run.
    cause: Option<ExitCause>,
    /// Time of the last SIGTERM.
    ending: Option<Instant>,
    /// True if the agent must be killed with SIGKILL.
    kill: bool,
    /// Time of the first SIGKILL.
    killed: Option<Instant>,
}

impl GuardedAgent {
    /// Waits until no process of the agent is alive, and enforces limits and requests meanwhile.
    fn wait_for_end(mut self) -> io::Result<CommandExit> {
        // Signals were not blocked while the agent was started, so a SIGCHLD may be lost.
        self.reap_children();
        while self.ended.is_none() {
            let request = self.lifeline.listen(POLL_INTERVAL);
            self.reap_children();
            if self.ended.is_some() {
                break;
            }
            self.handle_request(&request);
            self.check_limits()?;
            if self.kill && !self.kill_all() {
                break;
            }
        }

        let left_behind = self.kill_leftovers();
        self.truncate_outputs()?;
        let (code, signal) = self.ended.unwrap_or_default();
        Ok(CommandExit {
            code,
            signal,
            cause: self.cause.unwrap_or(ExitCause::Ended),
            left_behind,
            milliseconds: milliseconds(self.started.elapsed()),
        })
    }

    /// Reaps the processes that have ended. Returns true if no child is left.
    fn reap_children(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.leader => {
                    self.ended = Some((Some(code), None));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.leader => {
                    self.ended = Some((None, Some(signal as i32)));
                }
                Ok(WaitStatus::StillAlive) => return false,
                Ok(_) | Err(Errno::EINTR) => {}
                // A process was killed by a signal that nix does not know, such as a real-time signal.
                Err(Errno::EINVAL) => {
                    if kill(self.leader, None) == Err(Errno::ESRCH) {
                        self.ended.get_or_insert_default();
                    }
                }
                // No children are left, so the leader has also ended.
                Err(_) => {
                    self.ended.get_or_insert_default();
                    return true;
                }
            }
        }
    }

    fn handle_request(&mut self, request: &GuardRequest) {
        if request.gone {
            self.request_kill(ExitCause::Abandoned);
        } else if request.kill || (request.end && self.cause.is_some()) {
            self.request_kill(ExitCause::Stopped);
        } else if request.end {
            self.terminate(ExitCause::Stopped);
        }
    }

    /// Ends the agent if it exceeds a limit, and kills it after its grace period.
    fn check_limits(&mut self) -> io::Result<()> {
        let sizes = self.sizes()?;
        if sizes != self.sizes {
            self.sizes = sizes;
            self.grown = Instant::now();
        }
        if sizes.iter().any(|size| *size > self.order.output) {
            // No grace period: the agent would go on writing.
            self.request_kill(ExitCause::Output);
        } else if self.cause.is_none() && self.started.elapsed() >= self.order.wall {
            self.terminate(ExitCause::Wall);
        } else if self.cause.is_none() && self.grown.elapsed() >= self.order.idle {
            self.terminate(ExitCause::Idle);
        } else if self
            .ending
            .is_some_and(|since| since.elapsed() >= self.order.grace)
        {
            self.kill = true;
        }
        Ok(())
    }

    fn sizes(&self) -> io::Result<[u64; 2]> {
        Ok([
            self.outputs[0].metadata()?.len(),
            self.outputs[1].metadata()?.len(),
        ])
    }

    fn terminate(&mut self, cause: ExitCause) {
        self.cause.get_or_insert(cause);
        self.ending = Some(Instant::now());
        self.tree.signal(Signal::SIGTERM);
    }

    fn request_kill(&mut self, cause: ExitCause) {
        self.cause.get_or_insert(cause);
        self.kill = true;
    }

    /// Kills the processes that outlive the leader. Returns the number of leftover processes.
    fn kill_leftovers(&mut self) -> u64 {
        let mut left_behind = 0;
        if !self.kill && !self.is_gone_within(SETTLE_TIME) {
            left_behind = self.tree.count();
            self.tree.signal(Signal::SIGTERM);
            self.is_gone_within(LEFTOVER_GRACE);
        }

        // A process may fork while others are killed, so killing is repeated until no process is left.
        let mut pause = SHORT_POLL_INTERVAL;
        while !self.is_gone_within(Duration::ZERO) {
            if !self.kill_all() {
                return left_behind.max(self.tree.count());
            }
            self.is_gone_within(pause);
            pause = (2 * pause).min(MAX_KILL_INTERVAL);
        }
        left_behind
    }

    /// Sends SIGKILL to all processes. Returns false if that is useless: the remaining processes belong to another user,
    /// for example because of sudo, or have not ended within [`KILL_TIMEOUT`].
    fn kill_all(&mut self) -> bool {
        if self.killed.get_or_insert_with(Instant::now).elapsed() > KILL_TIMEOUT {
            return false;
        }
        let reach = self.tree.signal(Signal::SIGKILL);
        reach.reached > 0 || reach.refused == 0
    }

    /// Returns true if all processes of the agent end within `patience`. Returns early if agentd requests a kill or has
    /// exited.
    fn is_gone_within(&mut self, patience: Duration) -> bool {
        let begun = Instant::now();
        loop {
            let childless = self.reap_children();
            if self.tree.is_gone(childless) {
                return true;
            }
            if begun.elapsed() >= patience {
                return false;
            }
            let request = self.lifeline.listen(SHORT_POLL_INTERVAL);
            if request.gone || request.kill {
                return false;
            }
        }
    }

    /// Truncates outputs that are over the limit.
    fn truncate_outputs(&mut self) -> io::Result<()> {
        for (output, size) in self.outputs.iter().zip(self.sizes()?) {
            if size > self.order.output {
                output.set_len(self.order.output)?;
                self.cause.get_or_insert(ExitCause::Output);
            }
        }
        Ok(())
    }
}
