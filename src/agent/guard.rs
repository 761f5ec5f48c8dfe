//! The guard: the program once more, as a process between agentd and an agent.
//!
//! It adopts whatever the agent's processes leave behind, watches the limits, and ends everything when the agent ends,
//! when it is asked to, or when the lifeline to agentd closes. Its last act is the record of how the agent ended.

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
    Containment, Exit, ExitCause, ExitRecord, GuardOrder, create, milliseconds, open, put,
    read_json,
};
use super::http;
use super::system::{self, ProcessTree, Signals};
use super::watcher;

/// The first argument of a program that is started as a guard.
pub(super) const GUARD_ARGUMENT: &str = "__guard";
/// The second one, when it guards a call.
pub(super) const ROLE_CALL: &str = "call";
/// The second one, when it is the first process of a namespace.
const ROLE_NAMESPACE: &str = "namespace";
/// The second one, when it sends a request to a server of models.
pub(super) const ROLE_SEND: &str = "send";
/// The second one, when it ends children of agentd that are left when agentd is killed.
pub(super) const ROLE_WATCH: &str = "watch";
/// The second one, when there is nothing to do but to have been started.
pub(super) const ROLE_NOTHING: &str = "nothing";

/// What a guard says when it is about to start the agent.
pub(super) const READY_LINE: &str = "ready\n";
/// What a guard is told through its lifeline to ask the agent to end.
pub(super) const END_BYTE: u8 = b'e';
/// What a guard is told through its lifeline to end the agent by force.
pub(super) const KILL_BYTE: u8 = b'k';

/// How often the limits are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often is looked at what is left, once the agent has ended.
const SHORT_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// What ends by itself within this time after its agent was not left behind.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// How long what was left behind has between the request to end and the end by force.
const LEFTOVER_GRACE: Duration = Duration::from_millis(200);
/// How long what was killed may take to end. What is stuck in the kernel may never, and is then left behind.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time between two attempts to kill what does not end.
const MAX_KILL_INTERVAL: Duration = Duration::from_millis(500);
/// The room that is kept for the record, so that a full disk cannot keep it from being written.
const RECORD_BYTES: usize = 1024;

/// Runs the guard and ends the process, if the program was started as one; otherwise returns at once.
///
/// A program that runs agents calls it first in its `main` and names itself as the guard.
#[expect(
    clippy::disallowed_methods,
    reason = "the guard reads its role from its arguments"
)]
#[expect(clippy::exit, reason = "a guard is a whole program")]
pub fn guard_main() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(GUARD_ARGUMENT)) {
        return;
    }
    let role = arguments.next().unwrap_or_default();
    let mut folder = || PathBuf::from(arguments.next().unwrap_or_default());
    let done = match role.to_str() {
        Some(ROLE_CALL) => call(&folder()),
        Some(ROLE_NAMESPACE) => system::end_with_parent()
            .and_then(|()| system::forbid_inspection())
            .and_then(|()| guard(&folder(), Lifeline::take()?, true)),
        Some(ROLE_WATCH) => watcher::watch(),
        Some(ROLE_SEND) => system::forbid_inspection().and_then(|()| http::send(arguments)),
        _ => Ok(()),
    };
    let code = done.map_or_else(
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

/// Says a line to agentd, which may be gone.
#[expect(
    clippy::disallowed_methods,
    reason = "the stdout of a guard is a pipe to agentd"
)]
fn write_line(line: &str) {
    let mut out = io::stdout();
    let _gone = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

fn call(folder: &Path) -> io::Result<()> {
    let lifeline = Lifeline::take()?;
    // A session of its own, so that no agent reads from the user's terminal, writes to it or gets its signals.
    setsid()?;
    // The agent may stop this process, which then could not see that agentd is gone.
    system::wake_with_parent()?;
    match read_json::<GuardOrder>(&folder.join("job"))?.containment {
        Containment::Guard => {
            system::forbid_inspection()?;
            guard(folder, lifeline, false)
        }
        Containment::Namespace => run_namespace(folder, lifeline),
    }
}

/// Starts the guard proper as the first process of a namespace, and hands on what it is told.
#[expect(
    clippy::disallowed_methods,
    reason = "the guard is how this room starts agents"
)]
fn run_namespace(folder: &Path, mut lifeline: Lifeline) -> io::Result<()> {
    let refused =
        |cause: io::Error| io::Error::other(format!("namespaces are not granted ({cause})"));
    system::enter_namespace().map_err(refused)?;
    // Not before: the kernel lets nobody but root map the users of such a process.
    system::forbid_inspection()?;
    let (words, inner_stdin) = UnixStream::pair()?;
    let mut words = Some(words);
    let mut command = Command::new(system::SELF);
    command
        .args([GUARD_ARGUMENT, ROLE_NAMESPACE])
        .arg(folder)
        .stdin(OwnedFd::from(inner_stdin))
        .stderr(Stdio::null());
    let mut inner = lifeline.signals.spawn(&mut command).map_err(refused)?;
    while inner.try_wait()?.is_none() {
        let request = lifeline.listen(POLL_INTERVAL);
        let word = if request.kill {
            Some(KILL_BYTE)
        } else {
            request.end.then_some(END_BYTE)
        };
        if let (Some(words), Some(word)) = (&mut words, word) {
            let _gone = words.write_all(&[word]);
        }
        if request.gone {
            words = None;
        }
    }
    Ok(())
}

/// The way by which agentd speaks to its guard, and by which the guard knows that agentd is alive.
struct Lifeline {
    pipe: Option<File>,
    signals: Signals,
}

/// What was request since the last time.
#[derive(Default)]
struct GuardRequest {
    end: bool,
    kill: bool,
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
            pipe: Some(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
            signals,
        })
    }

    /// Waits until something is request, for so long at most.
    fn listen(&mut self, patience: Duration) -> GuardRequest {
        let ends = [self.pipe.as_ref().map(AsFd::as_fd), self.signals.fd()];
        let mut ends: Vec<PollFd<'_>> = ends
            .into_iter()
            .flatten()
            .map(|end| PollFd::new(end, PollFlags::POLLIN))
            .collect();
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        let came = poll(&mut ends, patience).is_ok_and(|count| count > 0);
        // If there is a pipe, it is the first of them.
        let spoken = came && self.pipe.is_some() && ends[0].any() == Some(true);
        drop(ends);

        let mut request = GuardRequest {
            end: self.signals.has_stop_request(),
            ..GuardRequest::default()
        };
        if let (true, Some(pipe)) = (spoken, &mut self.pipe) {
            let mut words = [0; 16];
            let count = pipe.read(&mut words).unwrap_or(0);
            request.end |= words[..count].contains(&END_BYTE);
            request.kill = words[..count].contains(&KILL_BYTE);
            request.gone = count == 0;
        }
        if request.gone {
            self.pipe = None;
        }
        request
    }
}

/// Guards an agent from its start to its record.
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
            let watch = GuardedAgent {
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
            watch.watch()?
        }
        Err(cause) => Exit {
            code: None,
            signal: None,
            cause,
            left_behind: 0,
            milliseconds: milliseconds(started.elapsed()),
        },
    };

    let written = serde_json::to_vec(&ExitRecord {
        boot: system::boot_id(),
        exit,
    })?;
    file.write_all(&written)?;
    put(&record, &folder.join("exit"))
}

/// Makes the file of the record with room for it: blanks, which may follow a JSON value.
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
    let (out, err) = (
        out.try_clone().map_err(not_started)?,
        err.try_clone().map_err(not_started)?,
    );
    let mut command = Command::new(name);
    command
        .args(arguments)
        .stdin(prompt)
        .stdout(out)
        .stderr(err)
        .process_group(0);
    match signals.spawn(&mut command) {
        // Collected with everything else, never through this handle.
        Ok(child) => Ok(Pid::from_raw(child.id().cast_signed())),
        Err(_) if !is_installed(name) => Err(ExitCause::NotInstalled),
        Err(cause) if cause.raw_os_error() == Some(Errno::E2BIG as i32) => {
            let why = "its arguments and its environment together are too long (E2BIG)";
            Err(ExitCause::NotStarted(why.to_owned()))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(ExitCause::NotStarted(
            format!("{name} is there, and the program that runs it is not"),
        )),
        Err(cause) => Err(ExitCause::NotStarted(format!("{name}: {cause}"))),
    }
}

/// Tells whether a path leads to a command, or whether a folder of `PATH` holds it.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment of a guard is the one that its agent is given"
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

/// A guard at work.
struct GuardedAgent {
    lifeline: Lifeline,
    leader: Pid,
    tree: ProcessTree,
    order: GuardOrder,
    outputs: [File; 2],
    started: Instant,
    /// How large the outputs were when last looked at, and when one of them was last seen to have grown.
    sizes: [u64; 2],
    grown: Instant,
    /// The exit code or the signal of the leader, once it has ended.
    ended: Option<(Option<i32>, Option<i32>)>,
    /// Why the agent is made to end, if it is.
    cause: Option<ExitCause>,
    /// Since when it has been asked to end.
    ending: Option<Instant>,
    /// Whether it is to be ended by force.
    kill: bool,
    /// Since when that is done.
    killed: Option<Instant>,
}

impl GuardedAgent {
    /// Stays until nothing of the agent is alive.
    fn watch(mut self) -> io::Result<Exit> {
        // Looked at before anything is waited for: what ended while signals were not held back sent none.
        self.collect();
        while self.ended.is_none() {
            let request = self.lifeline.listen(POLL_INTERVAL);
            self.collect();
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
        Ok(Exit {
            code,
            signal,
            cause: self.cause.unwrap_or(ExitCause::Ended),
            left_behind,
            milliseconds: milliseconds(self.started.elapsed()),
        })
    }

    /// Collects the processes that have ended, and tells whether no child is left.
    fn collect(&mut self) -> bool {
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
                // Something has ended by a signal without a name.
                Err(Errno::EINVAL) => {
                    if kill(self.leader, None) == Err(Errno::ESRCH) {
                        self.ended.get_or_insert_default();
                    }
                }
                // Without a child there is no leader either, whoever has collected it.
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

    /// Looks at the limits.
    fn check_limits(&mut self) -> io::Result<()> {
        let sizes = self.sizes()?;
        if sizes != self.sizes {
            self.sizes = sizes;
            self.grown = Instant::now();
        }
        if sizes.iter().any(|size| *size > self.order.output) {
            // What writes without end is not asked: it would go on writing.
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

    /// Ends what is alive after the leader, and returns how many it left behind.
    fn kill_leftovers(&mut self) -> u64 {
        let mut left_behind = 0;
        if !self.kill && !self.is_gone_within(SETTLE_TIME) {
            left_behind = self.tree.count();
            self.tree.signal(Signal::SIGTERM);
            self.is_gone_within(LEFTOVER_GRACE);
        }
        // Killed ones cannot start others, and what others have started in the meantime is found the next time.
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

    /// Ends everything by force, and tells whether that can be done: what has become another user's, such as through
    /// sudo, is out of reach, and so is what does not end for long.
    fn kill_all(&mut self) -> bool {
        if self.killed.get_or_insert_with(Instant::now).elapsed() > KILL_TIMEOUT {
            return false;
        }
        let reach = self.tree.signal(Signal::SIGKILL);
        reach.reached > 0 || reach.refused == 0
    }

    /// Tells whether nothing of the agent is left within a time, which is cut short when there is to be none.
    fn is_gone_within(&mut self, patience: Duration) -> bool {
        let begun = Instant::now();
        loop {
            let childless = self.collect();
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

    /// Cuts what is over the limit of the outputs.
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
