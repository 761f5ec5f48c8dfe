//! Named pipes in place of files on which git, SQLite or agentd would block.

use std::thread;

use super::canary::{commit, git, make_pipe, run};
use crate::support::{TestProject, write};

/// Creates a repository with uncommitted changes and a ledger.
fn project() -> TestProject {
    let project = TestProject::new();
    project
        .write("a.txt", "one\n")
        .write("sub/deep/b.txt", "one\n");
    git(&project, &["add", "-A"]);
    commit(&project, "start");
    run(&project, &["turn", "plan", "Go"], true);
    project
        .write("a.txt", "two\n")
        .write("sub/deep/b.txt", "two\n");
    project
}

/// Replaces a file with a named pipe.
fn replace_by_pipe(project: &TestProject, name: &str) {
    let path = project.root().join(name);
    let _missing = std::fs::remove_file(&path);
    make_pipe(&path);
}

/// Each of these made git block until its time limit of two minutes.
#[test]
fn named_pipe_does_not_block_a_command() {
    let names = [
        ".gitignore",
        "sub/deep/.gitignore",
        "sub/deep/.gitattributes",
        "sub/nested/.git/HEAD",
        ".agentd/.gitignore",
        ".git/HEAD",
        ".git/config",
        ".git/index",
        ".git/info/exclude",
        ".git/info/attributes",
    ];
    thread::scope(|scope| {
        for name in names {
            scope.spawn(move || {
                let project = project();
                if name.contains("nested") {
                    std::fs::create_dir_all(project.root().join("sub/nested/.git/refs")).unwrap();
                    std::fs::create_dir_all(project.root().join("sub/nested/.git/objects"))
                        .unwrap();
                }

                replace_by_pipe(&project, name);
                let reviewed = run(&project, &["review", "--trust"], true);
                assert!([3, 7].contains(&reviewed.code), "{name}: {reviewed:?}");
                assert!(
                    reviewed.stderr.contains(name),
                    "the pipe is not named: {reviewed:?}"
                );
                assert!(
                    reviewed.stderr.contains("is not a regular file"),
                    "{name}: {reviewed:?}"
                );

                for args in [
                    &["status"][..],
                    &["log"],
                    &["doctor"],
                    &["prompt", "plan", "Go"],
                ] {
                    let run = run(&project, args, false);
                    assert!((0..=3).contains(&run.code), "{name}: {args:?}: {run:?}");
                }
            });
        }
    });
}

#[test]
fn named_pipe_in_a_subfolder_does_not_block_a_change() {
    thread::scope(|scope| {
        for args in [
            &["run", "c", "Go", "--trust"][..],
            &["fix", "Go", "--trust"],
        ] {
            scope.spawn(move || {
                let project = project();
                replace_by_pipe(&project, "sub/deep/.gitignore");
                run(&project, args, true).fails(
                    3,
                    &[
                        "FileUnusable",
                        "sub/deep/.gitignore",
                        "is not a regular file",
                    ],
                );
            });
        }
    });
}

/// Defines an agent of the user that runs a line of `sh` before it answers.
fn describe_agent(project: &TestProject, line: &str, answer: &str) {
    let line = format!("cat > /dev/null; {line}; echo '{answer}'");
    let words = ["sh", "-c", &line];
    let argv = serde_json::to_string(&words).unwrap();
    write(
        &project.user_folder().join("agents.yaml"),
        format!("format: 1\nagents:\n  piper:\n    argv: {argv}\n"),
    );
}

#[test]
fn named_pipe_made_by_an_agent_fails_the_turn() {
    let project = project();
    describe_agent(
        &project,
        "mkdir -p sub/deep; mkfifo sub/deep/.gitignore",
        "Done.",
    );
    let args = ["fix", "Go", "--trust", "--agent", "piper"];

    let fixed = run(&project, &args, false);
    assert_eq!(fixed.code, 5, "{fixed:?}");
    assert!(
        fixed
            .stderr
            .contains("sub/deep/.gitignore` is not a regular file"),
        "{fixed:?}"
    );
    assert_eq!(project.read("a.txt"), "two\n");
}

/// The files of a call are in the project, so the agent can replace them.
#[test]
fn named_pipe_in_place_of_agent_output_fails_the_turn() {
    for name in ["stdout", "stderr"] {
        let project = project();
        let replace = format!("for f in .agentd/calls/*/{name}; do rm $f; mkfifo $f; done");
        describe_agent(&project, &replace, "<review>PASS</review>");
        let turn = run(&project, &["turn", "plan", "Go", "--agent", "piper"], false);
        // Output that the agent wrote to the removed file may have been read before.
        let is_refused = turn.stderr.contains("is not a regular file");
        assert!(
            is_refused || (turn.code == 0 && name == "stdout"),
            "{turn:?}"
        );
    }
}

/// SQLite opens these files together with the ledger, and would block on them without a limit.
#[test]
fn named_pipe_in_place_of_a_ledger_file_is_refused() {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let name = format!(".agentd/ledger.db{suffix}");
        let project = project();
        replace_by_pipe(&project, &name);
        for (args, answers) in [
            (&["status"][..], false),
            (&["log"], false),
            (&["review", "--trust"], true),
            (&["run", "c", "Go", "--trust"], true),
            (&["fix", "Go", "--trust"], true),
        ] {
            run(&project, args, answers).fails(
                7,
                &["LedgerUnusable", &format!("{name} is not a regular file")],
            );
        }

        let checked = run(&project, &["doctor"], false);
        assert_eq!(checked.code, 1, "{checked:?}");
        assert!(
            checked.stdout.contains("is not a regular file"),
            "{checked:?}"
        );

        run(&project, &["prompt", "plan", "Go"], false).ok();
    }
}
