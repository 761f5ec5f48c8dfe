//! Runs the program git with fixed settings and environment, so that its behaviour does not depend on the user or the repository.

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

use super::pipes::PipeSearch;
use super::wait::{WaitEnd, wait_for_exit};
use crate::agent::ChildWatcher;
use crate::error::{Error, ErrorKind, Result};
use crate::file;

/// The way git is run.
#[derive(Clone, Debug)]
pub struct Git {
    /// Variables for the environment of every command, such as an identity and dates.
    pub env: Vec<(String, String)>,
    /// Timeout of one command.
    pub limit: Duration,
    /// Ends a running command if this process is killed; without one, the command continues.
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

/// Settings of every command: git runs no other program, fetches nothing, and skips no check to save time.
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

/// Variables that would redirect git or make it run a program. The caller may have set them, as hooks do.
/// `GIT_CONFIG_COUNT` is kept, because it holds settings of the user, such as `safe.directory`.
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

/// Variables of every command. Replaced objects are switched off, because they would show another history.
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

/// Maximum length of git's own message in an error, in bytes.
const MAX_MESSAGE_BYTES: usize = 2000;

/// The folders of a repository and of a working tree, which git would otherwise search for.
#[derive(Clone, Debug)]
pub(super) struct RepositoryFolders {
    pub(super) git: Git,
    pub(super) common: PathBuf,
    pub(super) git_dir: PathBuf,
    pub(super) work_tree: PathBuf,
    /// Object folders of other repositories that the commands read, too.
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
    pub(super) fn call(&self, words: &[&str]) -> GitCall {
        let mut call = GitCall::new(&self.git, &self.work_tree, words);
        call.place = [
            join("--git-dir=", &self.git_dir),
            join("--work-tree=", &self.work_tree),
        ]
        .to_vec();
        call.git_dirs = vec![self.git_dir.clone(), self.common.clone()];
        call.git_dirs.extend(self.borrows_from.iter().cloned());
        call.settings.clone_from(&self.settings);
        call
    }

    /// Returns a copy with a setting for all its commands.
    pub(super) fn with_setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.into());
        self
    }

    /// Returns a copy without the filters that the repository's own configuration names.
    ///
    /// Every command that uses an index may read files, and would run these filters, which an agent could have
    /// configured. Filters of the user's configuration are run: without them, git would commit content that must not
    /// be seen.
    ///
    /// # Errors
    ///
    /// `GitFailed` if the configuration cannot be read, or names a filter that cannot be switched off.
    pub(super) fn guarded(&self) -> Result<Self> {
        let mut guarded = self.clone();
        let own = self.git_dir.join("config.worktree");
        for config in [
            self.common.join("config"),
            self.common.join("config.worktree"),
            own,
        ] {
            if !may_name_filter(&config) {
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
                        "the repository's configuration has a filter `{shown}`"
                    ))
                    .with_hint("a filter with `=` in its name cannot be disabled; rename it"));
                }
                guarded.settings.push(join_bytes(name, b"="));
            }
        }
        Ok(guarded)
    }
}

/// Longest configuration that is searched here; a longer one is left to git.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Returns true if a configuration file could name a filter, itself or through a file that it includes.
///
/// Git's configuration has no way to write `filter` or `include` but these letters: no escape, no continued line and
/// no other encoding is allowed in the name of a section. A file without both words therefore names no filter, and git
/// need not be started to ask. A file that cannot be read, or is too large, is left to git.
fn may_name_filter(config: &Path) -> bool {
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

/// One command.
#[derive(Debug)]
pub(super) struct GitCall {
    git: Git,
    folder: PathBuf,
    place: Vec<OsString>,
    /// Folders in which git reads; empty if it looks for the repository itself.
    git_dirs: Vec<PathBuf>,
    settings: Vec<OsString>,
    words: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    input: Vec<u8>,
}

impl GitCall {
    /// Returns a command for which git searches the repository of a folder itself.
    pub(super) fn new(git: &Git, folder: &Path, words: &[&str]) -> Self {
        Self {
            git: git.clone(),
            folder: folder.to_path_buf(),
            place: Vec::new(),
            git_dirs: Vec::new(),
            settings: Vec::new(),
            words: words.iter().map(OsString::from).collect(),
            env: Vec::new(),
            input: Vec::new(),
        }
    }

    pub(super) fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.words.push(word.as_ref().to_owned());
        self
    }

    pub(super) fn args<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.words
            .extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    pub(super) fn env(mut self, env: &[(&'static str, PathBuf)]) -> Self {
        self.env.extend(
            env.iter()
                .map(|(name, value)| (*name, value.clone().into_os_string())),
        );
        self
    }

    /// Takes every path as it is written.
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

    /// Runs it and returns its output.
    pub(super) fn ok(self) -> Result<Vec<u8>> {
        let name = self.words.first().cloned().unwrap_or_default();
        let output = self.output()?;
        match output.code {
            Some(0) => Ok(output.stdout),
            _ => Err(output.failure(&name.to_string_lossy())),
        }
    }

    /// Runs it and returns its output without the line end.
    pub(super) fn line(self) -> Result<Vec<u8>> {
        self.ok().map(without_newline)
    }

    /// Runs it and returns its output as text, without the line end.
    pub(super) fn text(self) -> Result<String> {
        self.line()
            .map(|line| String::from_utf8_lossy(&line).into_owned())
    }

    /// Runs it and returns its line of output; `None` if its exit code is 1.
    pub(super) fn find(self) -> Result<Option<String>> {
        let name = self.words.first().cloned().unwrap_or_default();
        let output = self.output()?;
        match output.code {
            Some(0) => Ok(Some(
                String::from_utf8_lossy(&without_newline(output.stdout)).into_owned(),
            )),
            Some(1) => Ok(None),
            _ => Err(output.failure(&name.to_string_lossy())),
        }
    }

    /// Runs it, and retries for a while if another git process holds a lock.
    pub(super) fn output(self) -> Result<GitOutput> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            let output = self.run_once()?;
            if output.code == Some(0) || !output.met_a_lock() || begun.elapsed() > MAX_LOCK_WAIT {
                return Ok(output);
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door to git")]
    fn command(&self) -> Command {
        let mut command = Command::new("git");
        // With `-C` instead of the working directory, in which a relative PATH would search for the program.
        command.arg("-C").arg(&self.folder);
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.args(&self.place).args(&self.words);
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
            .words
            .first()
            .map(|word| word.to_string_lossy().into_owned())
            .unwrap_or_default();
        self.run().map_err(|stopped| match stopped {
            WaitEnd::TimedOut => {
                let seconds = self.git.limit.as_secs_f32();
                failed(format!("git {name} was killed after {seconds} s"))
                    .with_hint("check for a hanging hook, a filter or a slow disk")
            }
            WaitEnd::TooMuchOutput => failed(format!(
                "git {name} was killed: it printed more than {}",
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
                let message = format!("`{}` is too large", shown.escape_debug());
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
        // Files instead of pipes: a leftover process of a hook could hold a pipe open.
        let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
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
                end(&mut child);
                return Err(stopped);
            }
        };
        let stdout = read_from_start(&mut stdout, MAX_OUTPUT_BYTES)?;
        let stderr = read_from_start(&mut stderr, 64 * 1024)?;
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
        let mut input = tempfile::tempfile()?;
        input.write_all(&self.input)?;
        input.rewind()?;
        Ok(input.into())
    }
}

/// Ends a command and its child processes, after a grace period in which git removes its locks.
fn end(child: &mut Child) {
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

fn read_from_start(file: &mut File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(super) struct GitOutput {
    /// Exit code; `None` if it was ended by a signal.
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl GitOutput {
    /// Returns true if another git process was in the way: by a lock, or by a worktree that it was creating.
    fn met_a_lock(&self) -> bool {
        let said = |words: &str| self.stderr.contains(words);
        (said(".lock'") && (said("File exists") || said("Unable to create")))
            || said("could not lock")
            || (said("failed to read") && said("worktrees/"))
    }

    /// Returns the error for a failed command, with git's own message.
    pub(super) fn failure(&self, name: &str) -> Error {
        let words: String = self.stderr.trim().chars().take(MAX_MESSAGE_BYTES).collect();
        let end = match (self.code, words.is_empty()) {
            (Some(_), false) => words,
            (Some(code), true) => format!("exit code {code}"),
            (None, _) => format!("killed by a signal {words}"),
        };
        let error = failed(format!("git {name} failed")).with_source(end);
        if self.met_a_lock() {
            return error.with_hint(
                "if no other git process is running, remove the lock file that git names",
            );
        }
        if self.stderr.contains("dubious ownership") {
            return error.with_hint(
                "if you trust the repository: `git config --global --add safe.directory PATH`",
            );
        }
        if self.stderr.contains(" filter '") {
            return error
                .with_hint("define the filter in your own configuration: `git config --global`");
        }
        error
    }
}

/// Returns a `GitFailed` error.
pub(super) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::GitFailed, message)
}

/// Returns the parts of an output that are terminated by NUL bytes.
pub(super) fn fields(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output
        .split(|&byte| byte == 0)
        .filter(|field| !field.is_empty())
}

/// Returns a path from bytes that git prints.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

fn join(start: &str, path: &Path) -> OsString {
    join_bytes(start.as_bytes(), path.as_os_str().as_bytes())
}

/// Returns an argument made of two parts.
pub(super) fn join_bytes(start: &[u8], rest: &[u8]) -> OsString {
    OsString::from_vec([start, rest].concat())
}

fn without_newline(mut line: Vec<u8>) -> Vec<u8> {
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    line
}
