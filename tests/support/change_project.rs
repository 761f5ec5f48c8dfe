//! A project whose agent is a shell script that logs its calls outside of the project.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agentd::models::{Event, SessionId};
use agentd::store::{SqliteStore, Store};

use crate::support::waiting::processes_of_calls;
use crate::support::{Run, TestProject, files_below, write};

/// A project with an agent for every mode.
pub(crate) struct Stage {
    pub(crate) project: TestProject,
}

impl Stage {
    /// Creates a project with a first commit.
    pub(crate) fn new() -> Self {
        let stage = Self::without_commit();
        stage.commit("start");
        stage
    }

    /// Creates a project without a commit.
    pub(crate) fn without_commit() -> Self {
        let stage = Self {
            project: TestProject::new(),
        };
        stage.git("symbolic-ref HEAD refs/heads/main");
        let modes: String = ["plan", "challenge", "implement", "review", "archive"]
            .map(|mode| format!("[modes.{mode}]\nagent = \"fake\"\n"))
            .concat();
        let config = format!("format = 1\n{modes}[review]\ncommands = [\"sh check.sh\"]\n");
        stage
            .project
            .write("agentd/config.toml", config)
            .write("check.sh", "true\n");
        stage.project.write("CHANGELOG.md", "# Changelog\n");
        stage.define("");
        write(
            &stage.outside("agent.sh"),
            include_str!("../data/change/agent.sh"),
        );
        stage
    }

    /// Sets further keys of the agent's definition, besides its command.
    pub(crate) fn define(&self, more: &str) {
        let (script, home) = (self.outside("agent.sh"), self.project.home());
        let argv = format!("[sh, {}, {}]", script.display(), home.display());
        let definition = format!("format: 1\nagents:\n  fake:\n    argv: {argv}\n{more}");
        self.project.write("agentd/agents.yaml", definition);
    }

    /// Returns a path outside of the project.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.project.home().join(name)
    }

    /// Sets the commands that the agent runs in a mode before it answers.
    pub(crate) fn set_script(&self, mode: &str, script: &str) {
        write(&self.outside(&format!("{mode}.sh")), script);
    }

    /// Runs git in the project.
    pub(crate) fn git(&self, words: &str) -> String {
        git(&self.project.root(), words)
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git("add -A");
        self.git(&format!("commit -q --allow-empty -m {message}"));
    }

    /// Runs a change until it ends.
    pub(crate) fn run_change(&self, change: &str, request: &str) -> Run {
        self.project
            .run(&["run", change, request, "--auto", "--trust"])
    }

    /// Starts a change.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.project.command(args);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Returns each call of the agent: the change and the mode.
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.outside("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// Returns the events of a change in the ledger.
    pub(crate) fn events(&self, change: &str) -> Vec<Event> {
        let store = SqliteStore::open_existing(&self.project.root()).unwrap();
        let events = store.map(|store| store.events(&SessionId::new(change).unwrap()).unwrap());
        events
            .unwrap_or_default()
            .into_iter()
            .map(|(_, event)| event)
            .collect()
    }

    /// Returns the current worktrees of changes.
    pub(crate) fn worktrees(&self) -> Vec<PathBuf> {
        let all = self.outside(".local/state/agentd/worktrees");
        let list = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder)
                .into_iter()
                .flatten()
                .map(|entry| entry.unwrap().path())
                .collect()
        };
        list(&all)
            .iter()
            .flat_map(|project| list(project))
            .collect()
    }

    /// Returns the only worktree.
    pub(crate) fn tree(&self) -> PathBuf {
        let mut trees = self.worktrees();
        assert_eq!(trees.len(), 1, "{trees:?}");
        trees.remove(0)
    }

    /// Returns the files committed on the main branch, each path with its text, without the date of
    /// the archive and without the definition of the agent, which contains the path of this
    /// project.
    pub(crate) fn committed_files(&self) -> BTreeMap<String, String> {
        let names = self.git("ls-tree -r -z --name-only main");
        let text = |name: &str| {
            let plain = match name.strip_prefix("agentd/changes/archive/") {
                Some(rest) => format!(
                    "agentd/changes/archive/{}",
                    rest.get(11..).unwrap_or_default()
                ),
                None => name.to_owned(),
            };
            (
                plain,
                git_words(&self.project.root(), &["show", &format!("main:{name}")]),
            )
        };

        names
            .split('\0')
            .filter(|name| !name.is_empty() && *name != "agentd/agents.yaml")
            .map(text)
            .collect()
    }

    /// Returns the first lines of all commits of the main branch, sorted.
    pub(crate) fn subjects(&self) -> Vec<String> {
        let mut subjects: Vec<String> = self
            .git("log --format=%s main")
            .lines()
            .map(str::to_owned)
            .collect();
        subjects.sort();
        subjects
    }

    /// Returns the living processes of calls and checks.
    pub(crate) fn alive(&self) -> BTreeSet<u32> {
        processes_of_calls(&self.project.home())
    }

    /// Returns every file of the user's tree except those of git and the ledger, with its bytes.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let root = self.project.root();
        let own = |path: &PathBuf| !path.starts_with(".git") && !path.starts_with(".agentd");
        let read = |path: PathBuf| (path.clone(), fs::read(root.join(path)).unwrap_or_default());
        files_below(&root)
            .into_iter()
            .filter(own)
            .map(read)
            .collect()
    }
}

/// Runs git in a folder with arguments that contain no spaces.
pub(crate) fn git(folder: &Path, words: &str) -> String {
    git_words(folder, &words.split(' ').collect::<Vec<_>>())
}

/// Runs git in a folder.
pub(crate) fn git_words(folder: &Path, words: &[&str]) -> String {
    let identity = [
        "-c",
        "user.name=Test",
        "-c",
        "user.email=test@example.invalid",
    ];
    let output = Command::new("git")
        .args(identity)
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );

    String::from_utf8_lossy(&output.stdout).into_owned()
}
