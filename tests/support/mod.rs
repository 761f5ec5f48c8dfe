//! A project in a temporary folder, the program run in it, and the log of the library.

pub(crate) mod agent_output;
pub(crate) mod change_project;
pub(crate) mod change_script;
pub(crate) mod edit_project;
pub(crate) mod foreman_pack;
pub(crate) mod http_agent;
pub(crate) mod model_server_process;
pub(crate) mod recording_agent;
pub(crate) mod reply_case;
pub(crate) mod waiting;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, Once, OnceLock};

use agentd::agent::{Driver, Drivers};
use agentd::models::{Event, SessionId};
use agentd::ops::Operations;
use agentd::orchestrator::{self, TurnContext, TurnReport, TurnRequest, Workspace};
use agentd::store::Store;
use agentd::{Pack, SearchPath};
use log::{LevelFilter, Log, Metadata, Record};
use tempfile::TempDir;

/// The pack `sdd` without its steps on the branch of a change, so that a session without a branch
/// can use its phases.
pub(crate) fn sdd_without_branch() -> String {
    let pack = fs::read_to_string(repository().join("packs/sdd/pack.yaml")).unwrap();
    let replaced = [
        (
            "before: [change.require, checks.run, git.diff, specs.show, findings.show]",
            "before: [change.require, specs.show, findings.show]",
        ),
        (
            "before: [change.require, review.require, specs.merge]",
            "before: [change.require]",
        ),
        ("    needs_person: {git.diff: PARTLY_SHOWN}\n", ""),
        // A step that did not run is not evidence; `git.commit` never has this result.
        (
            "evidence: {checks.run: {FAILED:",
            "evidence: {git.commit: {FAILED:",
        ),
    ];
    replaced.into_iter().fold(pack, |pack, (with, without)| {
        assert_eq!(pack.matches(with).count(), 1, "{with}");
        pack.replace(with, without)
    })
}

/// Commits all files of a desk's project, opens a change on it, and writes files into the worktree
/// of the change.
pub(crate) fn open_change(
    context: &TurnContext<'_>,
    change: &str,
    request: &str,
    files: &[(&str, &str)],
) -> PathBuf {
    let root = &context.workspace.root;
    change_script::git(root, "add -A");
    change_script::git(
        root,
        "-c user.name=Test -c user.email=test@example.invalid commit -q -m start",
    );
    let session = SessionId::new(change).unwrap();
    let tree = orchestrator::open_change(context, &session, Some(request))
        .unwrap()
        .tree;
    for (path, content) in files {
        write(&tree.join(path), content);
    }
    tree
}

/// The repository of this program.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Environment variables of CI services, by which the program detects that its output goes to a CI
/// log.
pub(crate) const CI_VARIABLES: [&str; 3] = ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"];

/// Returns the program under test: the built one, or the one named by `AGENTD_BIN`. With an older
/// one, the tests show which attacks it was vulnerable to.
pub(crate) fn agentd_program() -> PathBuf {
    std::env::var_os("AGENTD_BIN").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_agentd")),
        PathBuf::from,
    )
}

/// A project in a temporary folder, with a separate home folder.
pub(crate) struct TestProject {
    folder: TempDir,
}

/// Result of a run of the program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TestProject {
    /// Creates an empty git repository.
    pub(crate) fn new() -> Self {
        let project = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(project.root()).unwrap();
        fs::create_dir_all(project.home()).unwrap();
        init_repository(&project.root());
        project
    }

    /// Creates a project whose prompts contain no nonce, so that their system prompt is the
    /// template alone.
    pub(crate) fn without_nonce() -> Self {
        let project = Self::new();
        // In the user's folder, because a file of the project would be part of the tree in prompts.
        write(
            &project.user_folder().join("config.toml"),
            "format = 1\nverdict_nonce = \"off\"\n",
        );
        project
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Disables the nonce, for agents that answer without reading their prompt.
    pub(crate) fn disable_nonce(&self) -> &Self {
        write(
            &self.user_folder().join("config.toml"),
            "format = 1\nverdict_nonce = \"off\"\n",
        );
        self
    }

    /// Returns the user's configuration folder of the program.
    pub(crate) fn user_folder(&self) -> PathBuf {
        self.home().join(".config/agentd")
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        write(&self.root().join(path), content);
        self
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Returns a command for the program in the project.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(agentd_program());
        command
            .args(args)
            .current_dir(self.root())
            .env("HOME", self.home())
            .env("PATH", path_without_agents())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("CLICOLOR_FORCE")
            .stdin(Stdio::null());
        for name in CI_VARIABLES {
            command.env_remove(name);
        }
        command
    }

    /// Runs the program.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        Run::from(self.command(args).output().unwrap())
    }

    /// Runs the program with a text on stdin.
    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &[u8]) -> Run {
        run_with_stdin(self.command(args), stdin)
    }
}

/// Runs a command with a text on stdin.
pub(crate) fn run_with_stdin(mut command: Command, stdin: &[u8]) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its input early may close the pipe.
    let _closed = child.stdin.take().unwrap().write_all(stdin);
    Run::from(child.wait_with_output().unwrap())
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Run {
    /// Returns stdout of a successful run.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// Checks that a run failed with a code, printed no data, and mentioned each of these texts.
    pub(crate) fn fails(self, code: i32, words: &[&str]) -> String {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "data was printed");
        for word in words {
            assert!(
                self.stderr.contains(word),
                "{word:?} is not in:\n{}",
                self.stderr
            );
        }
        self.stderr
    }

    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// Returns the last of the JSON lines that a turn prints: its report.
    pub(crate) fn last_line(&self) -> serde_json::Value {
        let last = self
            .stdout
            .lines()
            .last()
            .unwrap_or_else(|| panic!("{}", self.stderr));
        let report: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!(report["event"], "report");
        report
    }

    /// Returns the report of a successful turn.
    pub(crate) fn report(self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.last_line()
    }
}

/// Makes a folder an empty git repository with the branch `main`, like `git init` but without a
/// process.
fn init_repository(folder: &Path) {
    let git_dir = folder.join(".git");
    for name in [
        "info",
        "objects/info",
        "objects/pack",
        "refs/heads",
        "refs/tags",
    ] {
        fs::create_dir_all(git_dir.join(name)).unwrap();
    }
    fs::write(git_dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let config =
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = true\n";
    fs::write(git_dir.join("config"), config).unwrap();
}

pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Writes an executable script.
///
/// Another process writes it. If this one did, a thread that starts a process at the same time
/// could leak the open file to it, and a file that is open for writing cannot be executed
/// (`ETXTBSY`).
pub(crate) fn write_program(path: &Path, script: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    shell
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_ref())
        .unwrap();
    assert!(shell.wait().unwrap().success());
}

/// Returns the files below a folder, relative to it, sorted.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(here) = waiting.pop() {
        for entry in fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}

/// Returns the paths of the case files below a folder of `tests/cases`, relative to `tests/cases`, sorted.
pub(crate) fn case_names(folder: &str) -> Vec<String> {
    let files = files_below(&repository().join("tests/cases").join(folder));
    assert!(!files.is_empty(), "no case in {folder}");
    files
        .into_iter()
        .map(|file| format!("{folder}/{}", file.display()))
        .collect()
}

/// Returns the text of a case file.
pub(crate) fn read_case(name: &str) -> String {
    fs::read_to_string(repository().join("tests/cases").join(name)).unwrap()
}

/// Returns the text of a file below `tests/data`.
pub(crate) fn read_data(name: &str) -> String {
    fs::read_to_string(repository().join("tests/data").join(name)).unwrap()
}

/// Returns a shipped pack. It is loaded once per process, because parsing YAML is slow without
/// optimisation.
pub(crate) fn shipped_pack(name: &str) -> Pack {
    static PACKS: Mutex<BTreeMap<String, Pack>> = Mutex::new(BTreeMap::new());
    let mut packs = PACKS.lock().unwrap();
    let pack = packs
        .entry(name.to_owned())
        .or_insert_with(|| Pack::load(name, &SearchPath::default()).unwrap());
    pack.clone()
}

/// Returns the path of a program that tests start, such as `fake_agent`.
///
/// Cargo builds these programs with `cargo test`, but not with `cargo test --test NAME`, so they
/// are built here unless `AGENTD_TEST_PROGRAMS=built` states that they are up to date.
pub(crate) fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(build_programs).join(name)
}

fn build_programs() -> PathBuf {
    let profile = Path::new(env!("CARGO_BIN_EXE_agentd")).parent().unwrap();
    let folder = profile.join("examples");
    if std::env::var_os("AGENTD_TEST_PROGRAMS").is_some_and(|programs| programs == "built") {
        return folder;
    }

    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--offline",
        "--locked",
        "--quiet",
        "--examples",
        "--target-dir",
    ]);

    build
        .arg(profile.parent().unwrap())
        .current_dir(repository());
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }

    // Crates that read these variables would be rebuilt.
    for (name, _) in std::env::vars_os() {
        let set_by_cargo = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if set_by_cargo {
            build.env_remove(name);
        }
    }

    assert!(build.status().unwrap().success());

    folder
}

/// Returns the name of a test function in the test binary, to run that test in another process.
pub(crate) fn test_name(module_path: &str, function: &str) -> String {
    let (_binary, module) = module_path.split_once("::").unwrap();
    format!("{module}::{function}")
}

/// Records that a test did not run, for `test.sh` to count.
pub(crate) fn did_not_run(test: &str, why: &str) {
    let folder = repository().join("target/not-run");
    write(&folder.join(test), format!("{test}: {why}\n"));
}

thread_local! {
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct ThreadLog;

impl Log for ThreadLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = format!("{}: {}", record.level(), record.args());
        LOG.with_borrow_mut(|lines| lines.push(line));
    }

    fn flush(&self) {}
}

/// Returns the log output of the library on this thread while a function runs.
pub(crate) fn capture_log<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&ThreadLog).unwrap();
        log::set_max_level(LevelFilter::Debug);
    });
    LOG.take();
    let value = run();
    (value, LOG.take())
}

/// Takes a turn in a separate run.
pub(crate) fn take(
    workspace: &Workspace,
    store: &dyn Store,
    driver: &dyn Driver,
    ask: &TurnRequest,
) -> agentd::Result<TurnReport> {
    let (drivers, run) = (Drivers::default(), orchestrator::Run::new("test").unwrap());
    orchestrator::take_turn(
        &TurnContext {
            workspace,
            store,
            drivers: &drivers,
            operations: &Operations::shipped(),
            run: &run,
        },
        driver,
        ask,
    )
}

/// Returns the events of a session.
pub(crate) fn events(store: &dyn Store, session: &str) -> Vec<Event> {
    let events = store.events(&SessionId::new(session).unwrap()).unwrap();
    events.into_iter().map(|(_, event)| event).collect()
}

/// Returns PATH without folders that contain an agent, because installed agents must not affect a
/// test.
pub(crate) fn path_without_agents() -> OsString {
    let holds_one = |folder: &PathBuf| {
        agentd::pack::DEFAULT_AGENTS
            .lines()
            .any(|name| !name.starts_with('#') && folder.join(name).exists())
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&path).filter(|folder| !holds_one(folder))).unwrap()
}
