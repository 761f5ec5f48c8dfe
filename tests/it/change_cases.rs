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
    /// The turns of the scripted agent in this step, as in a script, or the name of one that all have, or such a name as
    /// `like` with words to put in place of others as `with`, and keys of its own.
    #[serde(default)]
    turns: Vec<serde_json::Value>,
    /// Whether the settings say who is asked; otherwise it is the scripted agent.
    #[serde(default)]
    by_settings: bool,
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
    /// What the JSON on stdout, or on its last line, holds at pointers such as `/findings/0/file`.
    #[serde(default)]
    find: BTreeMap<String, serde_json::Value>,
}

/// What all cases have: the files of a small project, and turns by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Common {
    pub(crate) files: BTreeMap<String, String>,
    turns: BTreeMap<String, serde_json::Value>,
}

impl Common {
    pub(crate) fn read() -> Self {
        serde_saphyr::from_str(include_str!("../cases/change_common.yaml")).unwrap()
    }

    /// Returns a turn as a script has it.
    pub(crate) fn turn(&self, turn: &serde_json::Value) -> serde_json::Value {
        let named =
            |name: &str| self.turns.get(name).unwrap_or_else(|| panic!("there is no turn {name}")).clone();
        let (name, own) = match turn {
            serde_json::Value::String(name) => return named(name),
            turn => (turn["like"].as_str(), turn.as_object().unwrap()),
        };
        let mut like = name.map_or_else(|| serde_json::json!({}), named);
        for (from, to) in own.get("with").into_iter().flat_map(|with| with.as_object().unwrap()) {
            let reply = like["reply"].as_str().unwrap();
            assert!(reply.contains(from), "{name:?} does not say {from:?}");
            like["reply"] = reply.replace(from, to.as_str().unwrap()).into();
        }
        for (key, value) in own.iter().filter(|(key, _)| !["like", "with"].contains(&key.as_str())) {
            like[key] = value.clone();
        }
        like
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
        for (pointer, value) in &step.find {
            let json = serde_json::from_str(&done.stdout)
                .or_else(|_| serde_json::from_str(done.stdout.lines().last().unwrap_or_default()));
            let json: serde_json::Value = json.unwrap_or_else(|error| panic!("{at}: {error}:\n{said}"));
            assert_eq!(json.pointer(pointer), Some(value), "{at}: {pointer} of {json:#}");
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
        let mut shell = Command::new("sh");
        shell.args(["-euc", line]).current_dir(project.root()).env("TREES", trees(project));
        for role in ["AUTHOR", "COMMITTER"] {
            shell.env(format!("GIT_{role}_NAME"), "Test");
            shell.env(format!("GIT_{role}_EMAIL"), "test@example.invalid");
        }
        let output = shell.output().unwrap();
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
        args.extend(["--script", &path.display().to_string()].map(str::to_owned));
        if !step.by_settings {
            args.extend(["--agent", "scripted"].map(str::to_owned));
        }
    }
    project.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the folder of the work trees, if there is one.
fn trees(project: &TestProject) -> PathBuf {
    let all = project.home().join(".local/state/agentd/worktrees");
    let project = fs::read_dir(&all).ok().and_then(|mut all| all.next());
    project.map_or(all, |project| project.unwrap().path())
}

/// Returns the one work tree that a change has of its own.
fn tree(project: &TestProject) -> PathBuf {
    let mut trees: Vec<PathBuf> =
        fs::read_dir(trees(project)).unwrap().map(|tree| tree.unwrap().path()).collect();
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

pub(crate) fn git(root: &Path, words: &str) {
    let status = Command::new("git").args(words.split(' ')).current_dir(root).status().unwrap();
    assert!(status.success(), "git {words}");
}

/// With `AGENTD_CASE`, only those whose name holds it.
#[test]
fn every_path_of_a_change_comes_to_its_end() {
    let common = Common::read();
    let only = std::env::var("AGENTD_CASE").unwrap_or_default();
    let cases: Vec<_> = cases("change").into_iter().filter(|(name, _)| name.contains(&only)).collect();
    let mut failed = Vec::new();
    // Most of a case is waiting for processes.
    for some in cases.chunks(4) {
        std::thread::scope(|scope| {
            let common = &common;
            let start = |(name, text)| (name, scope.spawn(move || run(name, text, common)));
            let running: Vec<_> = some.iter().map(|(name, text)| start((name, text))).collect();
            failed.extend(running.into_iter().filter_map(|(name, case)| case.join().err().map(|_| name)));
        });
    }
    assert!(failed.is_empty(), "{failed:?}");
}
