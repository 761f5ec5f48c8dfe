//! An agent that edits the ledger during its call: its turn fails, and nothing of its reply counts.

use std::fs;

use crate::support::recording_agent::{answer, define_agents};
use crate::support::{TestProject, write};

/// Defines an agent of the user that runs a line of `sh` in the project before it answers with
/// PASS.
fn describe_editor(project: &TestProject, line: &str) {
    let answer = "printf 'Planned.\\n<review>PASS</review>\\n'";
    let argv = serde_json::to_string(&["sh", "-c", &format!("cat > /dev/null; {line}; {answer}")])
        .unwrap();
    write(
        &project.user_folder().join("agents.yaml"),
        format!("format: 1\nagents:\n  editor:\n    argv: {argv}\n"),
    );
}

#[test]
fn agent_that_restores_an_older_ledger_fails_its_turn() {
    let project = TestProject::new();
    let plan = answer(&project, "plan", "Planned.\n<review>PASS</review>\n");
    define_agents(&project, &[("agent", &[&plan], "")]);
    let turn = |session: &str, agent: &str| {
        project.run(&["turn", "plan", "Go", "--session", session, "--agent", agent])
    };
    turn("a", "agent").ok();
    let older = project.home().join("older.db");
    fs::copy(project.root().join(".agentd/ledger.db"), &older).unwrap();
    turn("b", "agent").ok();

    describe_editor(
        &project,
        &format!(
            "rm .agentd/ledger.db*; cp '{}' .agentd/ledger.db",
            older.display()
        ),
    );
    turn("c", "editor").fails(
        7,
        &[
            "LedgerChanged",
            "was changed while an agent was running",
            "the call's result is discarded",
        ],
    );

    let log = project.run(&["log"]).ok();
    assert!(
        !log.contains("PASS  ") || !log.contains("c/1"),
        "the reply counts: {log}"
    );

    let calls = project.root().join(".agentd/calls");
    let left = fs::read_dir(calls).map_or(0, Iterator::count);
    assert_eq!(left, 0, "recovery could use the reply");
}

/// The edited ledger passes every check by itself, so the run that saw the edit makes later runs
/// refuse it.
#[test]
fn ledger_edited_during_a_call_needs_trust_again() {
    let project = TestProject::new();
    let plan = answer(&project, "plan", "Planned.\n<review>PASS</review>\n");
    define_agents(&project, &[("agent", &[&plan], "")]);
    let turn = |session: &str, agent: &str, more: &[&str]| {
        let args = ["turn", "plan", "Go", "--session", session, "--agent", agent];
        project.run(&[&args, more].concat())
    };
    turn("a", "agent", &[]).ok();
    let older = project.home().join("older.db");
    fs::copy(project.root().join(".agentd/ledger.db"), &older).unwrap();
    turn("b", "agent", &[]).ok();
    let replace = format!(
        "rm .agentd/ledger.db*; cp '{}' .agentd/ledger.db",
        older.display()
    );

    describe_editor(&project, &replace);
    turn("c", "editor", &[]).fails(7, &["LedgerChanged"]);

    define_agents(&project, &[("agent", &[&plan], "")]);
    for more in [&[][..], &["--trust"]] {
        turn("d", "agent", more).fails(
            7,
            &[
                "error[LedgerChanged]: .agentd/ledger.db was changed while an agent was running",
                "`agentd trust`",
            ],
        );
    }

    project.run(&["log"]).ok();
    let shown = project.run(&["trust", "--show"]);
    assert!(
        shown.stdout.contains("changed   .agentd/ledger.db"),
        "{shown:?}"
    );

    project.run(&["trust"]).ok();
    turn("d", "agent", &[]).ok();
}

#[test]
fn agent_that_leaves_the_ledger_alone_passes() {
    let project = TestProject::new();
    project.disable_nonce();
    describe_editor(&project, "true");
    project
        .run(&["turn", "plan", "Go", "--session", "a", "--agent", "editor"])
        .ok();
    assert!(project.run(&["log"]).ok().contains("PASS"));
}
