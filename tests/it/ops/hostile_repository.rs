//! A repository whose configuration makes plain git run commands does not run them through agentd.

use std::fs;
use std::process::Command;

use crate::support::{TestProject, write_program};

/// Every command that works in a project. Commands that need an input find it in the project.
const COMMANDS: [&[&str]; 35] = [
    &["prompt", "plan", "Go", "--file", "a.txt", "--explain"],
    &["prompt", "implement", "Go", "--change", "x", "--json"],
    &[
        "prompt",
        "architect",
        "Go",
        "--pack",
        "foreman",
        "--model",
        "llama3.2:3b",
    ],
    &["prompt", "task-agent", "Go", "--pack", "taskqueue"],
    &["init"],
    &["template", "list"],
    &["template", "show", "plan"],
    &["template", "check"],
    &["pack", "list"],
    &["pack", "show", "sdd"],
    &["pack", "check"],
    &["pack", "new", "own"],
    &["spec", "check"],
    &["spec", "list"],
    &["spec", "show", "x"],
    &["trust", "--show"],
    &["trust"],
    &["parse", "reply.txt", "--mode", "review"],
    &["models", "list"],
    &["models", "show", "gpt-4o"],
    &["tokens", "a.txt"],
    &["schema", "prompt"],
    &["completions", "bash"],
    &[
        "turn",
        "plan",
        "Go",
        "--change",
        "x",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &["chat", "--agent", "echo"],
    &["probe", "echo", "--turns", "1"],
    &["doctor"],
    &["log"],
    &["show", "last"],
    &["diff", "last", "last"],
    &["replay", "last"],
    &["resume"],
    &["resume", "x"],
    &["usage"],
    &["export"],
];

/// Every command that runs or inspects a change, in an order in which each has something to do.
const CHANGE_COMMANDS: [&[&str]; 15] = [
    &[
        "run",
        "c",
        "Go",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &[
        "plan",
        "c",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &[
        "challenge",
        "c",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &[
        "implement",
        "c",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &[
        "review",
        "c",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &["review", "--agent", "scripted", "--script", "script.yaml"],
    &[
        "archive",
        "c",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &[
        "approve",
        "c",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &[
        "revise",
        "c",
        "--note",
        "More",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &["status"],
    &["change", "list"],
    &["reject", "c"],
    &["cancel", "c"],
    &[
        "fix",
        "Go",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ],
    &["demo"],
];

const SCRIPT: &str =
    "format: 1\nturns:\n  - reply: |\n      <review run=\"{{NONCE}}\">PASS</review>\n";

/// Creates a repository in which every command that git's configuration can name leaves a marker
/// file.
fn hostile_project() -> TestProject {
    let project = TestProject::new();
    let evil = project.home().join("evil");
    let mark = marker_file(&project);
    write_program(&evil, format!("#!/bin/sh\ntouch '{}'\n", mark.display()));
    let evil = evil.to_str().unwrap();
    let hooks = project.home().join("hooks");
    for hook in [
        "post-checkout",
        "post-index-change",
        "pre-commit",
        "reference-transaction",
    ] {
        fs::create_dir_all(&hooks).unwrap();
        fs::copy(evil, hooks.join(hook)).unwrap();
    }

    project
        .write("a.txt", "one\n")
        .write("reply.txt", "<review>PASS</review>\n")
        .write("script.yaml", SCRIPT);
    project
        .write("agentd/changes/x/proposal.md", "# X\n")
        .write("agentd/changes/x/tasks.md", "- [ ] 1.1 y\n")
        .write("agentd/specs/x.md", "# X\n");
    git(&project, &["add", "-A"]);
    git(
        &project,
        &[
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@example.invalid",
            "commit",
            "-qm",
            "start",
        ],
    );
    project
        .write(".gitattributes", "* filter=evil diff=evil\n")
        .write("a.txt", "two\n");
    let settings = [
        ("core.fsmonitor", evil),
        ("core.hooksPath", hooks.to_str().unwrap()),
        ("core.sshCommand", evil),
        ("core.pager", evil),
        ("core.editor", evil),
        ("core.askPass", evil),
        ("diff.external", evil),
        ("diff.evil.command", evil),
        ("diff.evil.textconv", evil),
        ("filter.evil.clean", evil),
        ("filter.evil.smudge", evil),
        ("filter.evil.process", evil),
        ("credential.helper", evil),
        ("gpg.program", evil),
    ];
    for (name, value) in settings {
        git(&project, &["config", name, value]);
    }
    let turn = [
        "turn",
        "plan",
        "Go",
        "--change",
        "x",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ];
    project.run(&turn).ok();
    let _unmarked = fs::remove_file(mark);
    project
}

fn marker_file(project: &TestProject) -> std::path::PathBuf {
    project.home().join("mark")
}

/// Runs plain git and ignores its result.
fn git(project: &TestProject, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(args)
        .current_dir(project.root())
        .env("HOME", project.home())
        .env("GIT_TERMINAL_PROMPT", "0");
    git.output().unwrap();
}

#[test]
fn commands_do_not_run_repository_settings() {
    for command in COMMANDS {
        let project = hostile_project();
        let run = project.run(command);
        assert!(run.code < 2, "{command:?} failed early: {}", run.stderr);
        assert!(
            !marker_file(&project).exists(),
            "{command:?} ran a command of the repository"
        );
    }
}

/// Proves that the traps in the test above work.
#[test]
fn plain_git_runs_the_trap() {
    for args in [&["status"][..], &["diff"], &["add", "a.txt"]] {
        let project = hostile_project();
        git(&project, args);
        assert!(
            marker_file(&project).exists(),
            "git {args:?} ran nothing: this repository proves nothing"
        );
    }

    // Each one alone, so that none hides that another has no effect.
    for name in ["core.fsmonitor", "diff.external", "filter.evil.clean"] {
        let project = TestProject::new();
        let evil = project.home().join("evil");
        write_program(
            &evil,
            format!("#!/bin/sh\ntouch '{}'\n", marker_file(&project).display()),
        );
        project.write("a.txt", "one\n");
        git(&project, &["add", "-A"]);
        project
            .write("a.txt", "two\n")
            .write(".gitattributes", "* filter=evil\n");
        git(&project, &["config", name, evil.to_str().unwrap()]);

        git(
            &project,
            &[if name == "core.fsmonitor" {
                "status"
            } else {
                "diff"
            }],
        );
        assert!(marker_file(&project).exists(), "{name} has no effect");
    }
}

#[test]
fn change_commands_do_not_run_repository_settings() {
    let project = hostile_project();
    for command in CHANGE_COMMANDS {
        let run = project.run(command);
        assert_ne!(run.code, 7, "{command:?}: {}", run.stderr);
        assert!(
            !marker_file(&project).exists(),
            "{command:?} ran a command of the repository"
        );
    }
}

#[test]
fn list_of_commands_is_complete() {
    let help = TestProject::new().run(&["--help"]).ok();
    let list = help
        .split("Commands:")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let names = list
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));

    for name in names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
    {
        let all = || COMMANDS.iter().chain(&CHANGE_COMMANDS);
        assert!(
            all().any(|command| command[0] == name),
            "{name} is not tested"
        );
    }
}
