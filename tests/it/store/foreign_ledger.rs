//! A ledger that comes with a repository is not trusted: neither are its prompts sent nor its
//! effects applied.

use std::fs;
use std::path::Path;

use agentd::ErrorKind;
use agentd::orchestrator::{AcceptNow, Workspace, WorkspaceOptions, open_ledger};

use crate::support::{TestProject, files_below, program, write};

/// A project whose user has an agent that logs each of its calls.
fn project() -> TestProject {
    let project = TestProject::new();
    let (agent, calls) = (program("fake_agent"), project.home().join("calls"));
    let definition = format!(
        "format: 1\nagents:\n  fake:\n    argv: [{}, \"call-log {}\", \"out <review>PASS</review>\"]\n",
        agent.display(),
        calls.display()
    );
    write(&project.user_folder().join("agents.yaml"), definition);
    project
}

fn calls(project: &TestProject) -> usize {
    fs::read_to_string(project.home().join("calls"))
        .unwrap_or_default()
        .lines()
        .count()
}

const TURN: [&str; 7] = [
    "turn",
    "plan",
    "Do evil",
    "--agent",
    "fake",
    "--session",
    "evil",
];

/// Copies the ledger of a project whose last turn was killed before the call of its agent.
fn bring_along(from: &TestProject, to: &Path) {
    let killed = from
        .command(&TURN)
        .env("AGENTD_FAIL", "called=abort")
        .output()
        .unwrap();
    assert!(!killed.status.success());
    for file in files_below(&from.root().join(".agentd")) {
        let content = fs::read(from.root().join(".agentd").join(&file)).unwrap();
        write(&to.join(".agentd").join(&file), content);
    }
}

#[test]
fn cloned_ledger_is_shown_but_unused_until_trusted() {
    let (evil, victim) = (project(), project());
    bring_along(&evil, &victim.root());
    let words = [
        "NotTrusted",
        "untrusted ledger",
        "`agentd trust`",
        "--trust",
        "moved",
    ];
    for args in [
        &["resume", "evil"][..],
        &["resume"],
        &["replay", "evil/1", "--agent", "fake"],
        &TURN,
        &[
            "turn",
            "plan",
            "Good",
            "--agent",
            "fake",
            "--session",
            "good",
        ],
    ] {
        victim.run(args).fails(4, &words);
    }

    assert_eq!(calls(&victim), 0, "nothing was sent");
    for args in [
        &["log"][..],
        &["show", "evil/1", "--prompt"],
        &["usage"],
        &["export"],
    ] {
        let run = victim.run(args);
        assert!(
            run.stderr.contains("created elsewhere"),
            "{args:?}: {}",
            run.stderr
        );
        assert!(run.ok().contains("evil"), "{args:?}");
    }

    let shown = victim.run(&["trust", "--show"]);
    assert_eq!(
        (shown.code, shown.stdout.as_str()),
        (1, "new       .agentd/ledger.db\n")
    );

    // Every file of a copy has a new identity, so all of them count as changed.
    victim
        .run(&["resume", "evil", "--trust"])
        .fails(8, &["files were changed", "--again"]);

    victim.run(&["resume", "evil", "--trust", "--again"]).ok();
    assert_eq!(calls(&victim), 1, "trusted for one run");
    victim.run(&["resume", "evil"]).fails(4, &words);
    assert_eq!(
        victim.run(&["trust"]).ok(),
        "trusted   .agentd/ledger.db (new)\n"
    );

    victim
        .run(&[
            "turn",
            "plan",
            "Good",
            "--agent",
            "fake",
            "--session",
            "good",
        ])
        .ok();
    assert_eq!(calls(&victim), 2);
}

#[test]
fn own_ledger_needs_no_trust_until_replaced() {
    let (evil, victim) = (project(), project());
    for _ in 0..2 {
        victim
            .run(&[
                "turn",
                "plan",
                "Good",
                "--agent",
                "fake",
                "--session",
                "good",
            ])
            .ok();
    }

    assert_eq!(victim.run(&["log"]).stderr, "");
    assert_eq!(
        victim.run(&["trust", "--show"]).ok(),
        "trusted   .agentd/ledger.db\n"
    );

    fs::remove_dir_all(victim.root().join(".agentd")).unwrap();
    bring_along(&evil, &victim.root());
    victim.run(&["resume", "evil"]).fails(4, &["NotTrusted"]);
    assert_eq!(
        victim.run(&["trust", "--show"]).stdout,
        "changed   .agentd/ledger.db\n"
    );
    assert_eq!(calls(&victim), 2);
}

#[test]
fn ledger_moved_with_its_project_needs_trust_again() {
    let project = project();
    let turn = [
        "turn",
        "plan",
        "Good",
        "--agent",
        "fake",
        "--session",
        "good",
    ];
    project.run(&turn).ok();
    let moved = project.home().join("moved");
    fs::rename(project.root(), &moved).unwrap();
    fs::create_dir(project.root()).unwrap();
    let there = ["-C", moved.to_str().unwrap()];
    project
        .run(&[&there[..], &turn].concat())
        .fails(4, &["NotTrusted", "the project was moved"]);

    project.run(&[&there[..], &["trust"]].concat()).ok();
    project.run(&[&there[..], &turn].concat()).ok();
}

#[test]
fn ledger_without_a_home_folder_lasts_for_one_run() {
    let project = project();
    let workspace = Workspace::open(project.root(), WorkspaceOptions::default()).unwrap();
    let refused = open_ledger(&workspace, AcceptNow::Nothing).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::FileUnusable);
    assert!(refused.hint().unwrap().contains("--trust"), "{refused:#}");
    assert!(!project.root().join(".agentd").exists());
    open_ledger(&workspace, AcceptNow::Everything).unwrap();
    assert_eq!(
        open_ledger(&workspace, AcceptNow::Nothing)
            .unwrap_err()
            .kind(),
        ErrorKind::NotTrusted
    );
}
