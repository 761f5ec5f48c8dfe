//! An agent that reviews its own work: the run warns once, however the agent was chosen.

use crate::support::change_project::Stage;

const OWN_WORK: &str = "reviews its own work";

#[test]
fn single_agent_for_all_phases_is_warned_about_once() {
    let stage = Stage::new();
    let run = stage.run_change("one", "Say one");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stderr.matches(OWN_WORK).count(), 1, "{}", run.stderr);
    assert!(
        run.stderr
            .contains("warning: challenge: fake reviews its own work (plan)"),
        "{}",
        run.stderr
    );
}

#[test]
fn agent_given_for_the_run_is_warned_about() {
    let stage = Stage::new();
    let plan = stage
        .project
        .run(&["plan", "two", "Say two", "--agent", "fake", "--trust"]);
    assert_eq!(
        (plan.code, plan.stderr.contains(OWN_WORK)),
        (0, false),
        "{}",
        plan.stderr
    );

    let challenge = stage
        .project
        .run(&["challenge", "two", "--agent", "fake", "--trust"]);
    assert_eq!(
        challenge.stderr.matches(OWN_WORK).count(),
        1,
        "{}",
        challenge.stderr
    );
}

/// The author recorded in the ledger counts, not the one in the current settings.
#[test]
fn author_is_the_agent_that_took_the_turn() {
    let stage = Stage::new();
    let other = stage
        .project
        .read("agentd/agents.yaml")
        .replace("  fake:\n", "  other:\n");
    let other = other.trim_start_matches("format: 1\nagents:\n").to_owned();
    stage.define(&other);
    stage
        .project
        .run(&["plan", "three", "Say three", "--agent", "other", "--trust"])
        .ok();

    let challenge = stage.project.run(&["challenge", "three", "--trust"]);
    assert_eq!(
        (challenge.code, challenge.stderr.contains(OWN_WORK)),
        (0, false),
        "{}",
        challenge.stderr
    );
}
