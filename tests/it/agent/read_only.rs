//! Edits by an agent that may only read: the work tree is compared before and after its call.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::waiting::{until, until_written};
use crate::support::{Run, TestProject};

const REPLY: &str = "<message>Looked at it.</message> <content_update target=\"proposal.md\"># Plan\n</content_update>";

/// A git project with an agent that runs a script before it answers.
fn project(script: &str) -> TestProject {
    let project = TestProject::new();
    fs::create_dir_all(project.root().join(".git/hooks")).unwrap();
    project
        .write(".git/HEAD", "ref: refs/heads/main\n")
        .write(".git/config", "[core]\n")
        .write(".gitignore", "target/\n*.log\n.env\n")
        .write("src/lib.rs", "fn main() {}\n")
        .write("src/old.rs", "old\n")
        .write("target/built", "x")
        .write(".env", "TOKEN=1\n")
        .write("agentd/changes/other/tasks.md", "- [ ] 1.1 x\n")
        .write("reply.txt", REPLY);
    let definition = serde_json::json!({
        "format": 1,
        "agents": {"hand": {"argv": ["sh", "-c", format!("cat >/dev/null; {script}; cat reply.txt")]}}
    });
    crate::support::write(
        &project.user_folder().join("agents.yaml"),
        definition.to_string(),
    );
    project
}

fn plan(project: &TestProject) -> Run {
    project.run(&[
        "turn",
        "plan",
        "Add login",
        "--agent",
        "hand",
        "--change",
        "a",
        "--json",
    ])
}

#[test]
fn edit_in_a_read_only_phase_fails_the_turn() {
    for (script, path) in [
        ("echo x >> src/lib.rs", "src/lib.rs"),
        ("echo x > src/new.rs", "src/new.rs"),
        ("rm src/old.rs", "src/old.rs"),
        ("chmod +x src/old.rs", "src/old.rs"),
        // The same number of bytes, and the old modification time restored.
        (
            "cp src/old.rs x; cat x > src/old.rs; touch -d 2001-01-01 src/old.rs; rm x",
            "src/old.rs",
        ),
        ("ln -sf /etc/hostname src/old.rs", "src/old.rs"),
        ("echo TOKEN=2 > .env", ".env"),
        ("echo evil > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ("echo x >> .git/config", ".git/config"),
        (
            "mkdir .claude; echo '*' > .claude/.gitignore; echo evil > .claude/settings.json",
            ".claude/.gitignore",
        ),
        ("mkdir -p sub/.git; echo x > sub/.git/HEAD", "sub/.git/HEAD"),
        (
            "mkdir -p agentd/changes/a && echo x > agentd/changes/a/notes.md",
            "agentd/changes/a/notes.md",
        ),
    ] {
        let project = project(script);
        let run = plan(&project);
        assert_eq!(run.code, 5, "{script}: {}", run.stderr);

        let report = run.last_line();
        assert_eq!(report["fault"]["kind"], "AgentEdited", "{script}");

        let message = report["fault"]["message"].as_str().unwrap();
        assert!(
            message.contains("1 file was changed") && message.contains(path),
            "{script}: {message}"
        );
        assert_eq!(report["report"]["verdict"], Value::Null);
        assert_eq!(
            report["report"]["settlements"],
            serde_json::json!([]),
            "nothing of the reply counts"
        );
        assert_eq!(report["report"]["end"]["end"], "edited");
    }
}

#[test]
fn ignored_and_agentd_files_may_change() {
    for script in [
        "true",
        "echo x > target/built; echo x > target/new",
        "echo x > run.log",
        "echo x > agentd/changes/other/tasks.md",
        "echo x > .agentd/note; rm .agentd/note",
        "mkdir empty; rmdir empty; echo x > x; rm x",
        "cat src/lib.rs > /dev/null",
    ] {
        let project = project(script);
        let run = plan(&project);
        assert_eq!(run.code, 0, "{script}: {}", run.stderr);
        assert_eq!(project.read("agentd/changes/a/proposal.md"), "# Plan\n");
        let left: Vec<_> = fs::read_dir(project.root().join(".agentd/calls"))
            .unwrap()
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn editing_phase_is_not_checked_for_changes() {
    let project = project("echo x >> src/lib.rs");
    project
        .write("agentd/changes/a/proposal.md", "# A\n")
        .write("agentd/changes/a/tasks.md", "- [ ] 1.1 x\n");
    project.write("reply.txt", "<message>Done.</message>");

    let run = project.run(&[
        "turn",
        "implement",
        "Go",
        "--agent",
        "hand",
        "--change",
        "a",
        "--json",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// Waits until a newly written file has a later modification time than another. File system clocks
/// have a resolution of a few milliseconds.
fn until_files_are_newer_than(project: &TestProject, path: &str) {
    let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let (old, new) = (
        time(&project.root().join(path)),
        project.home().join("clock"),
    );
    until("the clock of the file system does not advance", || {
        fs::write(&new, "").unwrap();
        time(&new) > old
    });
}

/// Edits that the agent made before it exited are distinguished from edits that the user makes
/// before the reply is read.
#[test]
fn reply_recovered_after_a_crash_is_checked_for_edits() {
    for (script, code, files) in [("true", 0, 1), ("echo x >> src/lib.rs", 8, 0)] {
        let project = project(script);
        let killed = project
            .command(&[
                "turn",
                "plan",
                "Add login",
                "--agent",
                "hand",
                "--change",
                "a",
                "--json",
            ])
            .env("AGENTD_FAIL", "replied=abort")
            .output()
            .unwrap();
        assert_ne!(killed.status.code(), Some(0));

        until_files_are_newer_than(&project, ".agentd/calls/a.1.1/exit");
        project.write("src/mine.rs", "mine\n");

        let run = project.run(&["log", "--json"]);
        assert_eq!(run.code, 0);

        let resumed = project.run(&["resume", "a"]);

        // An agent that broke its permission is not retried unasked.
        assert_eq!(resumed.code, code, "{}", resumed.stderr);

        let row = project.run(&["show", "a/1", "--json"]).json();
        let end = row["turn"]["calls"][0]["answered"]["end"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert_eq!(end, if code == 0 { "ok" } else { "edited" }, "{row}");

        let written = project.root().join("agentd/changes/a/proposal.md").exists();
        assert_eq!(usize::from(written), files, "{script}");
        assert_eq!(project.read("src/mine.rs"), "mine\n");
    }
}

#[test]
fn git_folder_of_a_worktree_is_checked() {
    for (script, path) in [
        ("echo gitdir: /elsewhere > .git", ".git"),
        ("echo x >> ../main/hooks/post-commit", "post-commit"),
    ] {
        let project = project(script);
        fs::remove_dir_all(project.root().join(".git")).unwrap();
        let main = project.root().join("../main");
        fs::create_dir_all(main.join("worktrees/w")).unwrap();
        fs::create_dir_all(main.join("hooks")).unwrap();
        fs::write(main.join("worktrees/w/HEAD"), "ref: refs/heads/w\n").unwrap();
        fs::write(main.join("worktrees/w/commondir"), "../..\n").unwrap();
        project.write(".git", "gitdir: ../main/worktrees/w\n");
        let report = plan(&project).last_line();
        assert_eq!(report["fault"]["kind"], "AgentEdited", "{script}");
        assert!(
            report["fault"]["message"].as_str().unwrap().contains(path),
            "{report}"
        );
    }
}

/// A failure of another kind does not hide the edit, and a retried call does not accept it.
#[test]
fn edit_before_a_rate_limit_or_in_a_repair_fails_the_turn() {
    let project =
        project("echo x >> src/lib.rs; echo 'rate limit exceeded, retry-after: 1' >&2; exit 1");
    let report = plan(&project).last_line();
    assert_eq!(
        (&report["fault"]["kind"], &report["report"]["calls"]),
        (&"AgentEdited".into(), &1.into())
    );

    let repaired =
        self::project("if [ -e .agentd/once ]; then echo x >> src/lib.rs; fi; touch .agentd/once");
    repaired
        .write("agentd/changes/a/proposal.md", "# A\n")
        .write("agentd/changes/a/tasks.md", "- [ ] 1.1 x\n");
    repaired.write("reply.txt", "<message>Fine.</message>");

    let run = repaired.run(&[
        "turn",
        "challenge",
        "Look",
        "--agent",
        "hand",
        "--change",
        "a",
        "--repairs",
        "1",
        "--json",
    ]);
    assert_eq!(
        run.last_line()["fault"]["kind"],
        "AgentEdited",
        "{}",
        run.stderr
    );
}

/// Edits of a lost call do not become the baseline of the next one.
#[test]
fn lost_call_with_edits_is_not_retried_unasked() {
    let project = project("echo x >> src/lib.rs; sleep 600");
    let mut command = project.command(&[
        "turn",
        "plan",
        "Add login",
        "--agent",
        "hand",
        "--change",
        "a",
        "--json",
    ]);
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    until_written(&project.root().join("src/lib.rs"), "x\n");
    child.kill().unwrap();
    child.wait().unwrap();

    let refused = project.run(&["resume", "a"]);
    assert_eq!(refused.code, 8, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("files were changed") && refused.stderr.contains("--again"),
        "{}",
        refused.stderr
    );
}
