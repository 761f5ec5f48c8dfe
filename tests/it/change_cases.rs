//! Changes from request to archive, each path a file: what is in the project, what the agents say, what is asked for,
//! and what must come of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::support::{Run, TestProject, cases, files_below};

/// A path as a file tells it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What is shown, for people.
    #[serde(rename = "case")]
    _case: String,
    /// Files of the project beside those that all have, committed before the first step; an empty one is left out.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Whether nothing is committed at all.
    #[serde(default)]
    no_commit: bool,
    /// What happens, in order.
    steps: Vec<Step>,
}

/// One step: a command of agentd, or of a shell.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The arguments of agentd.
    #[serde(default)]
    agentd: Vec<String>,
    /// Or a line for `sh`, in the project.
    sh: Option<String>,
    /// The turns of the scripted agent in this step, as in a script, or the name of one that all have.
    #[serde(default)]
    turns: Vec<serde_json::Value>,
    /// The exit code.
    #[serde(default)]
    exit: i32,
    /// What stdout and stderr must hold.
    #[serde(default)]
    says: Vec<String>,
    /// What they must not hold.
    #[serde(default)]
    never: Vec<String>,
    /// What files of the project must hold afterwards; `null` for one that must not be there.
    #[serde(default)]
    then: BTreeMap<String, Option<Vec<String>>>,
    /// The same for the change's own work tree.
    #[serde(default)]
    tree: BTreeMap<String, Option<Vec<String>>>,
}

/// What all cases have: the files of a small project, and turns by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    files: BTreeMap<String, String>,
    turns: BTreeMap<String, serde_json::Value>,
}

impl Common {
    fn read() -> Self {
        serde_saphyr::from_str(include_str!("../cases/change_common.yaml")).unwrap()
    }

    /// Returns a turn as a script has it.
    fn turn(&self, turn: &serde_json::Value) -> serde_json::Value {
        match turn.as_str() {
            Some(name) => self.turns.get(name).unwrap_or_else(|| panic!("there is no turn {name}")).clone(),
            None => turn.clone(),
        }
    }
}

/// Runs one case.
fn run(name: &str, text: &str, common: &Common) {
    let case: Case = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let project = TestProject::new();
    git(&project.root(), "symbolic-ref HEAD refs/heads/main");
    let files: BTreeMap<&String, &String> = common.files.iter().chain(&case.files).collect();
    for (path, content) in files.into_iter().filter(|(_, content)| !content.is_empty()) {
        project.write(path, content);
    }
    if !case.no_commit {
        git(&project.root(), "add -A");
        git(
            &project.root(),
            "-c user.name=Test -c user.email=test@example.invalid commit -q --allow-empty -m start",
        );
    }
    for (index, step) in case.steps.iter().enumerate() {
        let at = format!("{name}, step {}", index + 1);
        let done = take(&project, step, common, &at);
        assert_eq!(done.code, step.exit, "{at}: {}\n{}", done.stdout, done.stderr);
        let said = format!("{}\n{}", done.stdout, done.stderr);
        for words in &step.says {
            assert!(said.contains(words), "{at}: nothing says {words:?}:\n{said}");
        }
        for words in &step.never {
            assert!(!said.contains(words), "{at}: something says {words:?}:\n{said}");
        }
        check(&project.root(), &step.then, &at);
        if !step.tree.is_empty() {
            check(&tree(&project), &step.tree, &at);
        }
    }
}

/// Carries out a step.
fn take(project: &TestProject, step: &Step, common: &Common, at: &str) -> Run {
    if let Some(line) = &step.sh {
        let output = Command::new("sh").args(["-euc", line]).current_dir(project.root()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        return Run { code, stdout: text(&output.stdout), stderr: text(&output.stderr) };
    }
    let mut args: Vec<String> = step.agentd.clone();
    if !step.turns.is_empty() {
        let turns: Vec<_> = step.turns.iter().map(|turn| common.turn(turn)).collect();
        let script = serde_json::json!({"format": 1, "turns": turns});
        let path = project.home().join("script.yaml");
        fs::write(&path, script.to_string()).unwrap_or_else(|error| panic!("{at}: {error}"));
        args.extend(["--agent", "scripted", "--script", &path.display().to_string()].map(str::to_owned));
    }
    project.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the one work tree that a change has of its own.
fn tree(project: &TestProject) -> PathBuf {
    let all = project.home().join(".local/state/agentd/worktrees");
    let project = fs::read_dir(all).unwrap().next().unwrap().unwrap().path();
    let mut trees: Vec<PathBuf> = fs::read_dir(project).unwrap().map(|tree| tree.unwrap().path()).collect();
    assert_eq!(trees.len(), 1, "{trees:?}");
    trees.remove(0)
}

fn check(root: &Path, expected: &BTreeMap<String, Option<Vec<String>>>, at: &str) {
    for (path, words) in expected {
        let text = fs::read_to_string(root.join(path)).ok();
        match (words, text) {
            (None, None) => {}
            (None, Some(_)) => panic!("{at}: {path} is there"),
            (Some(_), None) => panic!("{at}: {path} is not there: {:?}", files_below(root)),
            (Some(words), Some(text)) => {
                for words in words {
                    assert!(text.contains(words.as_str()), "{at}: {path} does not hold {words:?}:\n{text}");
                }
            }
        }
    }
}

fn git(root: &Path, words: &str) {
    let status = Command::new("git").args(words.split(' ')).current_dir(root).status().unwrap();
    assert!(status.success(), "git {words}");
}

#[test]
fn every_path_of_a_change_comes_to_its_end() {
    let common = Common::read();
    for (name, text) in cases("change") {
        run(&name, &text, &common);
    }
}
