//! Changes from request to archive: each case is a project, scripted agents, commands and their expected results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::change_script::{CommonScript, git};
use crate::support::{Run, TestProject, files_below};
use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    trials_of("change", check)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeCase {
    /// One sentence for the reader of the file.
    #[serde(rename = "case")]
    _case: String,
    /// Files committed before the first step, added to those of `common.yaml`. An empty one is not created.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Starts with a repository that has no commit.
    #[serde(default)]
    no_commit: bool,
    steps: Vec<Step>,
}

/// A command of agentd or a line for the shell, and its expected results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// Arguments of agentd.
    #[serde(default)]
    agentd: Vec<String>,
    /// Or a line for `sh`, run in the project.
    sh: Option<String>,
    /// Turns of the scripted agent: a whole turn, the name of one in `common.yaml`, or such a name as `like` with
    /// replacements as `with` and further keys.
    #[serde(default)]
    turns: Vec<Value>,
    /// Lets the settings choose the agent. By default every step uses the scripted one.
    #[serde(default)]
    by_settings: bool,
    /// Expected exit code.
    #[serde(default)]
    exit: i32,
    /// Texts that stdout or stderr must contain.
    #[serde(default)]
    says: Vec<String>,
    /// Texts that neither may contain.
    #[serde(default)]
    never: Vec<String>,
    /// Texts that files of the project must contain afterwards; `null` for a file that must not exist.
    #[serde(default)]
    then: BTreeMap<String, Option<Vec<String>>>,
    /// The same for files of the change's worktree.
    #[serde(default)]
    tree: BTreeMap<String, Option<Vec<String>>>,
    /// Values in the JSON on stdout, or on its last line, by pointers such as `/findings/0/file`.
    #[serde(default)]
    find: BTreeMap<String, Value>,
}

fn check(text: &str) {
    let case: ChangeCase = serde_saphyr::from_str(text).unwrap();
    let common = CommonScript::read();
    let project = start_project(&case, &common);

    for (index, step) in case.steps.iter().enumerate() {
        let run = run_step(&project, step, &common);
        check_step(&project, step, &run, &format!("step {}", index + 1));
    }
}

fn start_project(case: &ChangeCase, common: &CommonScript) -> TestProject {
    let project = TestProject::new();
    let files: BTreeMap<&String, &String> = common.files.iter().chain(&case.files).collect();
    for (path, content) in files.into_iter().filter(|(_, content)| !content.is_empty()) {
        project.write(path, content);
    }
    if !case.no_commit {
        git(&project.root(), "add -A");
        let identity = "-c user.name=Test -c user.email=test@example.invalid";
        git(
            &project.root(),
            &format!("{identity} commit -q --allow-empty -m start"),
        );
    }
    project
}

fn run_step(project: &TestProject, step: &Step, common: &CommonScript) -> Run {
    if let Some(line) = &step.sh {
        return run_shell(project, line);
    }

    let mut args: Vec<String> = step.agentd.clone();
    if !step.turns.is_empty() {
        let turns: Vec<_> = step.turns.iter().map(|turn| common.turn(turn)).collect();
        let script = project.home().join("script.yaml");
        fs::write(&script, json!({"format": 1, "turns": turns}).to_string()).unwrap();
        args.extend(["--script", &script.display().to_string()].map(str::to_owned));
        if !step.by_settings {
            args.extend(["--agent", "scripted"].map(str::to_owned));
        }
    }
    project.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn run_shell(project: &TestProject, line: &str) -> Run {
    let mut shell = Command::new("sh");
    shell
        .args(["-euc", line])
        .current_dir(project.root())
        .env("TREES", worktrees_folder(project));
    for role in ["AUTHOR", "COMMITTER"] {
        shell.env(format!("GIT_{role}_NAME"), "Test");
        shell.env(format!("GIT_{role}_EMAIL"), "test@example.invalid");
    }

    let output = shell.output().unwrap();

    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Run {
        code,
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

fn check_step(project: &TestProject, step: &Step, run: &Run, at: &str) {
    let output = format!("{}\n{}", run.stdout, run.stderr);
    assert_eq!(run.code, step.exit, "{at}: {output}");

    for words in &step.says {
        assert!(
            output.contains(words),
            "{at}: {words:?} is missing from:\n{output}"
        );
    }

    for words in &step.never {
        assert!(
            !output.contains(words),
            "{at}: {words:?} must not be in:\n{output}"
        );
    }

    for (pointer, value) in &step.find {
        let json: Value = serde_json::from_str(&run.stdout)
            .or_else(|_| serde_json::from_str(run.stdout.lines().last().unwrap_or_default()))
            .unwrap_or_else(|error| panic!("{at}: {error}:\n{output}"));
        assert_eq!(
            json.pointer(pointer),
            Some(value),
            "{at}: {pointer} of {json:#}"
        );
    }

    check_files(&project.root(), &step.then, at);

    if !step.tree.is_empty() {
        check_files(&only_worktree(project), &step.tree, at);
    }
}

fn check_files(root: &Path, expected: &BTreeMap<String, Option<Vec<String>>>, at: &str) {
    for (path, words) in expected {
        let text = fs::read_to_string(root.join(path)).ok();
        let (words, text) = match (words, text) {
            (None, None) => continue,
            (None, Some(_)) => panic!("{at}: {path} exists"),
            (Some(_), None) => panic!("{at}: {path} does not exist: {:?}", files_below(root)),
            (Some(words), Some(text)) => (words, text),
        };
        for words in words {
            assert!(
                text.contains(words.as_str()),
                "{at}: {words:?} is missing from {path}:\n{text}"
            );
        }
    }
}

/// Returns the folder that holds the worktrees of the project's changes.
fn worktrees_folder(project: &TestProject) -> PathBuf {
    let all = project.home().join(".local/state/agentd/worktrees");
    let first = fs::read_dir(&all)
        .ok()
        .and_then(|mut entries| entries.next());
    first.map_or(all, |entry| entry.unwrap().path())
}

fn only_worktree(project: &TestProject) -> PathBuf {
    let entries = fs::read_dir(worktrees_folder(project)).unwrap();
    let mut worktrees: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(worktrees.len(), 1, "{worktrees:?}");
    worktrees.remove(0)
}
