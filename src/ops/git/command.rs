//! Runs git with fixed settings and environment, so that its behaviour does not depend on the user or the repository.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use memchr::memmem;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::pipes::{MAX_READ_BYTES, PipeSearch};
use super::wait::{WaitEnd, wait_for_exit};
use crate::agent::ChildWatcher;
use crate::error::{Error, ErrorKind, Result};
use crate::file;

/// Options for running git.
#[derive(Clone, Debug)]
pub struct Git {
    /// Variables for the environment of every command, such as an identity and dates.
    pub env: Vec<(String, String)>,
    /// Timeout of one command.
    pub limit: Duration,
    /// Kills a running command if this process is killed; `None` to let the command continue.
    pub watcher: Option<ChildWatcher>,
}

impl Default for Git {
    fn default() -> Self {
        Self {
            env: Vec::new(),
            limit: Duration::from_secs(120),
            watcher: None,
        }
    }
}

/// Settings of every command: git runs no other program, fetches nothing, and checks every file instead of trusting
/// cached results.
const SETTINGS: [&str; 21] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.ignoreStat=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.splitIndex=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "merge.autoStash=false",
    "merge.verifySignatures=false",
    "rerere.enabled=false",
    "i18n.commitEncoding=UTF-8",
    "worktree.useRelativePaths=false",
    "worktree.guessRemote=false",
    "advice.detachedHead=false",
    "advice.addEmbeddedRepo=false",
    "advice.resolveConflict=false",
];

/// Variables that would redirect git or make it run a program. They may be set in the environment of agentd, for
/// example if a git hook runs it. `GIT_CONFIG_COUNT` is kept, because it holds settings of the user, such as
/// `safe.directory`.
const REMOVED_VARIABLES: [&str; 45] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INDEX_VERSION",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_PREFIX",
    "GIT_SUPER_PREFIX",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_QUARANTINE_PATH",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_ATTR_SOURCE",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
    "GIT_PAGER",
    "GIT_PAGER_IN_USE",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_PROXY_COMMAND",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_REFLOG_ACTION",
    "GIT_DEFAULT_HASH",
    "GIT_TEMPLATE_DIR",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_DATE",
    "GIT_REF_PARANOIA",
    "GIT_TRACE",
    "GIT_TRACE_SETUP",
    "GIT_TRACE2",
];

/// Variables of every command. Replace refs are disabled, because they would show another history.
const ADDED_VARIABLES: [(&str, &str); 7] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // Takes precedence over `protocol.NAME.allow` of a repository.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_MERGE_VERBOSITY", "0"),
];

/// Maximum size of the output of a command, in bytes.
const MAX_OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// Maximum time to wait for a lock that another git process holds.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(3);

/// Maximum size of a command's stderr that is kept, in bytes.
const MAX_STDERR_BYTES: u64 = 64 * 1024;

/// Maximum length of git's own message in an error, in characters.
const MAX_MESSAGE_CHARS: usize = 2000;

/// The folders of a repository and of a working tree, which git would otherwise search for.
#[derive(Clone, Debug)]
pub(super) struct RepositoryFolders {
    pub(super) git: Git,
    pub(super) common: PathBuf,
    pub(super) git_dir: PathBuf,
    pub(super) work_tree: PathBuf,
    /// Git folders of other repositories whose objects the commands read.
    pub(super) borrows_from: Vec<PathBuf>,
    settings: Vec<OsString>,
}

impl RepositoryFolders {
    pub(super) fn new(git: &Git, common: &Path, git_dir: &Path, work_tree: &Path) -> Self {
        Self {
            git: git.clone(),
            common: common.to_path_buf(),
            git_dir: git_dir.to_path_buf(),
            work_tree: work_tree.to_path_buf(),
            borrows_from: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// Returns a command for this repository and working tree.
    pub(super) fn call(&self, args: &[&str]) -> GitCall {
        let mut call = GitCall::new(&self.git, &self.work_tree, args);
        call.repository_args = [
            join("--git-dir=", &self.git_dir),
            join("--work-tree=", &self.work_tree),
        ]
        .to_vec();
        call.git_dirs = vec![self.git_dir.clone(), self.common.clone()];
        call.git_dirs.extend(self.borrows_from.iter().cloned());
        call.settings.clone_from(&self.settings);
        call
    }

    /// Adds a setting for all commands.
    pub(super) fn with_setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.into());
        self
    }

    /// Returns a copy that disables the filters in the repository's own configuration.
    ///
    /// Every command that uses an index may read files and run these filters, and an agent could have configured them.
    /// Filters in the user's configuration are run: without a filter that encrypts files, for example, git would commit
    /// them unencrypted.
    ///
    /// # Errors
    ///
    /// `GitFailed` if the configuration cannot be read, or defines a filter that cannot be disabled.
    pub(super) fn guarded(&self) -> Result<Self> {
        let mut guarded = self.clone();
        for config in [
            self.common.join("config"),
            self.common.join("config.worktree"),
            self.git_dir.join("config.worktree"),
        ] {
            if !may_define_filter(&config) {
                continue;
            }
            let list = self
                .call(&["config", "--includes", "--null", "--name-only", "--file"])
                .arg(&config);
            let output = list
                .args(["--get-regexp", r"^filter\..*\.(clean|smudge|process)$"])
                .output()?;
            if !matches!(output.code, Some(0 | 1)) {
                return Err(output.failure("config"));
            }
            for name in fields(&output.stdout) {
                if name.contains(&b'=') {
                    let shown = String::from_utf8_lossy(name).escape_debug().to_string();
                    return Err(failed(format!(
                        "cannot disable `{shown}` in the repository's configuration: the name contains `=`"
                    ))
                    .with_hint("rename the filter in the git configuration and in .gitattributes"));
                }
                guarded.settings.push(join_bytes(name, b"="));
            }
        }
        Ok(guarded)
    }
}

/// Maximum size of a configuration file that is searched for filters here, in bytes; a larger one is left to git.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Returns true if a configuration file could define a filter, itself or through a file that it includes.
///
/// The section names `filter` and `include` can only be written with these letters: git allows no escape, line
/// continuation or other encoding in a section name. A file that contains neither word therefore defines no filter, and
/// git need not be started. Returns true for a file that cannot be read or is too large, so that git reads it.
fn may_define_filter(config: &Path) -> bool {
    if config.symlink_metadata().is_err() {
        return false;
    }
    let Ok(Some(mut bytes)) = file::read_bytes(config, MAX_CONFIG_BYTES) else {
        return true;
    };
    bytes.make_ascii_lowercase();
    ["filter", "include"]
        .iter()
        .any(|word| memmem::find(&bytes, word.as_bytes()).is_some())
}

/// A git command to run.
#[derive(Debug)]
pub(super) struct GitCall {
    git: Git,
    folder: PathBuf,
    /// `--git-dir` and `--work-tree`; empty if git searches for the repository itself.
    repository_args: Vec<OsString>,
    /// Folders that git reads; empty if git searches for the repository itself.
    git_dirs: Vec<PathBuf>,
    settings: Vec<OsString>,
    /// Name of the subcommand and its arguments.
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    input: Vec<u8>,
}

impl GitCall {
    /// Returns a command for which git searches for the repository of a folder itself.
    pub(super) fn new(git: &Git, folder: &Path, args: &[&str]) -> Self {
        Self {
            git: git.clone(),
            folder: folder.to_path_buf(),
            repository_args: Vec::new(),
            git_dirs: Vec::new(),
            settings: Vec::new(),
            args: args.iter().map(OsString::from).collect(),
            env: Vec::new(),
            input: Vec::new(),
        }
    }

    pub(super) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(super) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(super) fn env(mut self, env: &[(&'static str, PathBuf)]) -> Self {
        self.env.extend(
            env.iter()
                .map(|(name, value)| (*name, value.clone().into_os_string())),
        );
        self
    }

    /// Treats every pathspec as a literal path.
    pub(super) fn literal(mut self) -> Self {
        self.env.push(("GIT_LITERAL_PATHSPECS", "1".into()));
        self
    }

    pub(super) fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.into());
        self
    }

    pub(super) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Runs the command and returns its stdout; fails unless the exit code is 0.
    pub(super) fn ok(self) -> Result<Vec<u8>> {
        let name = self.args.first().cloned().unwrap_or_default();
        let output = self.output()?;
        match output.code {
            Some(0) => Ok(output.stdout),
            _ => Err(output.failure(&name.to_string_lossy())),
        }
    }

    /// Runs the command and returns its stdout without the trailing newline.
    pub(super) fn line(self) -> Result<Vec<u8>> {
        self.ok().map(without_newline)
    }

    /// Runs the command and returns its stdout as text, without the trailing newline.
    pub(super) fn text(self) -> Result<String> {
        self.line()
            .map(|line| String::from_utf8_lossy(&line).into_owned())
    }

    /// Runs the command and returns its stdout as text, without the trailing newline; `None` if the exit code is 1.
    pub(super) fn find(self) -> Result<Option<String>> {
        let name = self.args.first().cloned().unwrap_or_default();
        let output = self.output()?;
        match output.code {
            Some(0) => Ok(Some(
                String::from_utf8_lossy(&without_newline(output.stdout)).into_owned(),
            )),
            Some(1) => Ok(None),
            _ => Err(output.failure(&name.to_string_lossy())),
        }
    }

    /// Runs the command; retries for up to [`MAX_LOCK_WAIT`] while another git process holds a lock.
    pub(super) fn output(self) -> Result<GitOutput> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            let output = self.run_once()?;
            if output.code == Some(0)
                || !output.is_lock_conflict()
                || begun.elapsed() > MAX_LOCK_WAIT
            {
                return Ok(output);
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door to git")]
    fn command(&self) -> Command {
        let mut command = Command::new("git");
        // `-C` does not change the working directory, in which a relative entry of PATH would be looked up.
        command.arg("-C").arg(&self.folder);
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.args(&self.repository_args).args(&self.args);
        for name in REMOVED_VARIABLES {
            command.env_remove(name);
        }
        command
            .envs(ADDED_VARIABLES)
            .envs(self.git.env.iter().map(|(name, value)| (name, value)));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        // Ctrl-C in the terminal must not end git in the middle of a write.
        command.process_group(0);
        command
    }

    fn run_once(&self) -> Result<GitOutput> {
        let name = self
            .args
            .first()
            .map(|arg| arg.to_string_lossy().into_owned())
            .unwrap_or_default();
        self.run().map_err(|stopped| match stopped {
            WaitEnd::TimedOut => {
                let seconds = self.git.limit.as_secs_f32();
                failed(format!("git {name} timed out after {seconds} s"))
                    .with_hint("check for a hanging filter or a slow disk")
            }
            WaitEnd::TooMuchOutput => failed(format!(
                "git {name} was killed: its output exceeds {}",
                file::in_units(MAX_OUTPUT_BYTES)
            )),
            WaitEnd::Pipe(path) => {
                let shown = path.display().to_string();
                let message = format!("`{}` is not a regular file", shown.escape_debug());
                Error::new(ErrorKind::FileUnusable, message)
                    .with_hint(format!("remove it: git {name} would block on it"))
            }
            WaitEnd::LargeFile(path) => {
                let shown = path.display().to_string();
                let message = format!(
                    "`{}` is larger than {}",
                    shown.escape_debug(),
                    file::in_units(MAX_READ_BYTES)
                );
                Error::new(ErrorKind::FileUnusable, message)
                    .with_hint(format!("remove it: git {name} would read all of it"))
            }
            WaitEnd::Failed(error) if error.kind() == io::ErrorKind::NotFound => {
                failed("git is not installed").with_hint("install git 2.25 or newer")
            }
            WaitEnd::Failed(error) => failed(format!("cannot run git {name}")).with_source(error),
        })
    }

    fn run(&self) -> Result<GitOutput, WaitEnd> {
        // Files instead of pipes: a leftover child process of git could hold a pipe open.
        let mut stdout = temporary_file()?;
        let mut stderr = temporary_file()?;
        let mut command = self.command();
        command
            .stdin(self.stdin()?)
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?);

        let mut child = command.spawn()?;
        let _watched = self
            .git
            .watcher
            .as_ref()
            .map(|watcher| watcher.watch(child.id()));

        let mut pipes = PipeSearch::new(&self.folder, &self.git_dirs);
        let check = || {
            if stdout.metadata()?.len() > MAX_OUTPUT_BYTES {
                return Err(WaitEnd::TooMuchOutput);
            }
            pipes.advance()
        };

        let status = match wait_for_exit(&mut child, self.git.limit, check) {
            Ok(status) => status,
            Err(stopped) => {
                terminate(&mut child);
                return Err(stopped);
            }
        };

        let stdout = read_from_start(&mut stdout, MAX_OUTPUT_BYTES)?;
        let stderr = read_from_start(&mut stderr, MAX_STDERR_BYTES)?;
        Ok(GitOutput {
            code: status.code(),
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        })
    }

    fn stdin(&self) -> io::Result<Stdio> {
        if self.input.is_empty() {
            return Ok(Stdio::null());
        }
        let mut input = temporary_file()?;
        input.write_all(&self.input)?;
        input.rewind()?;
        Ok(input.into())
    }
}

/// Sends SIGTERM to a command and its child processes, so that git can remove its locks, and SIGKILL after
/// [`KILL_GRACE`].
fn terminate(child: &mut Child) {
    let Ok(group) = i32::try_from(child.id()).map(Pid::from_raw) else {
        return;
    };
    let _gone = killpg(group, Signal::SIGTERM);
    let begun = Instant::now();
    while begun.elapsed() < KILL_GRACE && matches!(child.try_wait(), Ok(None)) {
        sleep(Duration::from_millis(10));
    }
    let _gone = killpg(group, Signal::SIGKILL);
    let _reaped = child.wait();
}

/// Time between SIGTERM and SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// Creates a temporary file. Its error never has the kind `NotFound`, by which a missing git program is recognized.
fn temporary_file() -> io::Result<File> {
    tempfile::tempfile()
        .map_err(|error| io::Error::other(format!("cannot create a temporary file: {error}")))
}

fn read_from_start(file: &mut File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(super) struct GitOutput {
    /// Exit code; `None` if the command was killed by a signal.
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl GitOutput {
    /// Returns true if the command failed because another git process held a lock or was creating a worktree.
    fn is_lock_conflict(&self) -> bool {
        let has_message = |part: &str| self.stderr.contains(part);
        (has_message(".lock'") && (has_message("File exists") || has_message("Unable to create")))
            || has_message("could not lock")
            || (has_message("failed to read") && has_message("worktrees/"))
    }

    /// Returns the error for a failed command, with git's own message.
    pub(super) fn failure(&self, name: &str) -> Error {
        let message: String = self.stderr.trim().chars().take(MAX_MESSAGE_CHARS).collect();
        let cause = match (self.code, message.is_empty()) {
            (Some(_), false) => message,
            (Some(code), true) => format!("exit code {code}"),
            (None, false) => format!("killed by a signal: {message}"),
            (None, true) => "killed by a signal".to_owned(),
        };
        let error = failed(format!("git {name} failed")).with_source(cause);
        if self.is_lock_conflict() {
            return error.with_hint(
                "if no other git process is running, remove the lock file named in the message",
            );
        }
        if self.stderr.contains("dubious ownership") {
            return error.with_hint(
                "if you trust the repository, run `git config --global --add safe.directory PATH`",
            );
        }
        if self.stderr.contains(" filter '") {
            return error.with_hint(
                "define the filter in your own configuration with `git config --global`",
            );
        }
        error
    }
}

/// Returns a `GitFailed` error.
pub(super) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::GitFailed, message)
}

/// Returns the NUL-terminated fields of an output, without empty ones.
pub(super) fn fields(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output
        .split(|&byte| byte == 0)
        .filter(|field| !field.is_empty())
}

/// Returns a path from the bytes that git prints.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn join(start: &str, path: &Path) -> OsString {
    join_bytes(start.as_bytes(), path.as_os_str().as_bytes())
}

/// Returns an argument from two concatenated parts.
pub(super) fn join_bytes(start: &[u8], rest: &[u8]) -> OsString {
    OsString::from_vec([start, rest].concat())
}

fn without_newline(mut line: Vec<u8>) -> Vec<u8> {
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    line
}
