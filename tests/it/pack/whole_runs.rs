//! Packs in real turns: each turn is a separate process, and only the ledger carries the state.

use std::fs;

use serde_json::{Value, json};

use crate::support::recording_agent::{answer, call, calls, define_agents};
use crate::support::{Run, TestProject, files_below, repository, write};

/// Returns a project with the pack of `tests/data/packs` in the user's folder, where it needs no
/// trust.
fn bakery() -> TestProject {
    let project = TestProject::new();
    let folder = repository().join("tests/data/packs/bakery");
    for file in files_below(&folder) {
        let text = fs::read(folder.join(&file)).unwrap();
        write(
            &project.user_folder().join("packs/bakery").join(&file),
            text,
        );
    }
    project
}

/// Takes a turn of a session with a command agent that answers with a text.
fn turn(project: &TestProject, base: &[&str], reply: &str) -> Run {
    let reply = answer(project, "reply", reply);
    define_agents(project, &[("baker", &[&reply], "")]);
    let run = project.run(&[&["turn"], base, &["--agent", "baker", "--json"]].concat());
    assert!(run.code == 0 || run.code == 6, "{}", run.stderr);
    run
}

fn bake(project: &TestProject, mode: &str, reply: &str) -> Value {
    let args = [
        mode,
        "Two loaves",
        "--pack",
        "bakery",
        "--session",
        "monday",
    ];
    turn(project, &args, reply).last_line()["report"].clone()
}

const RECIPE: &str = "<content_update target=\"recipe.md\">\nFlour\n</content_update>\n";
const WEIGHED: &str = "<action type=\"note_weight\">\n<target>weights.md</target>\n<content>500 g</content>\n</action>\n";

#[test]
fn custom_pack_completes_a_run_with_marker_action_and_gate() {
    let project = bakery();
    let report = bake(&project, "mix", &format!("{RECIPE}Mixed.\n"));
    assert_eq!(
        (&report["turn"], &report["state"]["mode"]),
        (&json!(1), &json!("mix"))
    );
    assert_eq!(
        report["closed_gate"], "done(\"files.write\") >= 2",
        "one of two"
    );
    assert_eq!(report["state"]["done"], json!({"files.write": 1}));

    // The next process knows the results of the previous one.
    let report = bake(&project, "mix", &format!("{WEIGHED}Weighed.\n"));
    assert_eq!(
        (&report["turn"], &report["closed_gate"]),
        (&json!(2), &Value::Null)
    );
    assert_eq!(report["state"]["mode"], "bake", "the gate is open");
    assert_eq!(report["state"]["done"], json!({}), "a new mode, a new page");
    assert_eq!(project.read("agentd/changes/monday/recipe.md"), "Flour\n");
    assert_eq!(project.read("agentd/changes/monday/weights.md"), "500 g");

    // A marker with a wrong value, then none: the gate opens only after more than three turns.
    let gate = json!("marker(\"crust\") == \"GOLDEN\" or mode_turns > 3");

    for (turns, reply) in [
        (1, "<crust>PALE</crust>\n"),
        (2, "Looks good.\n"),
        (3, "<crust>BURNT</crust>\n"),
    ] {
        let report = bake(&project, "bake", reply);
        assert_eq!(
            (&report["state"]["mode"], &report["state"]["mode_turns"]),
            (&json!("bake"), &json!(turns))
        );
        assert_eq!(report["closed_gate"], gate, "{reply}");
    }

    let report = bake(&project, "bake", "<crust>PALE</crust>\n");
    assert_eq!(
        (&report["turn"], &report["state"]["mode"]),
        (&json!(6), &json!("sell"))
    );

    let report = bake(
        &project,
        "sell",
        "<action type=\"ring_bell\"><times>2</times></action>\nSold.\n",
    );
    assert_eq!(
        report["proposals"][0]["what"], "action ring_bell",
        "it has no operation, so it is listed"
    );
    assert_eq!(report["state"]["ended"], true, "{report:#}");

    assert_eq!(calls(&project, "baker"), 7, "each turn has cost one call");

    let log = project.run(&["log", "monday", "--json"]).json();
    let rows: Vec<_> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["mode"].as_str().unwrap())
        .collect();
    assert_eq!(rows, ["mix", "mix", "bake", "bake", "bake", "bake", "sell"]);
    assert_eq!(log[3]["result"], "unclear", "the turn without the marker");

    let shown = project.run(&["show", "monday"]).ok();
    assert!(shown.contains("next       done"), "{shown}");
}

#[test]
fn fact_in_the_first_reply_opens_the_gate() {
    let project = bakery();
    bake(&project, "mix", &format!("{RECIPE}{WEIGHED}Ready.\n"));
    let report = bake(&project, "bake", "<crust>GOLDEN</crust>\n");
    assert_eq!(
        (&report["turn"], &report["state"]["mode"]),
        (&json!(2), &json!("sell"))
    );
}

/// A finished session can be continued, and then behaves like any other.
#[test]
fn finished_session_continues_when_a_mode_is_entered() {
    let project = bakery();
    bake(&project, "sell", "Sold.\n");

    let report = bake(&project, "mix", &format!("{RECIPE}{WEIGHED}Ready.\n"));
    assert_eq!(
        (&report["state"]["ended"], &report["state"]["mode"]),
        (&Value::Null, &json!("bake"))
    );

    bake(&project, "sell", "Sold.\n");
    let report = bake(&project, "sell", "Sold once more.\n");
    assert_eq!(
        (&report["turn"], &report["state"]["ended"]),
        (&json!(4), &json!(true))
    );

    let shown = project.run(&["show", "monday/1"]).ok();
    assert!(
        shown.contains("next       done") && !shown.contains("next       mix"),
        "{shown}"
    );
}

#[test]
fn queue_identities_take_turns_with_a_command() {
    let project = TestProject::new();
    project.write("CLAUDE.md", "Use tabs.\n");
    let queue = ["--pack", "taskqueue", "--session", "q"];
    let identities: [(&str, &[&str], &str, &str); 3] = [
        ("supervisor", &[], "Make three tasks of it", "Queued.\n"),
        (
            "task-agent",
            &[
                "--set",
                "depth=0",
                "--set",
                "max_steps=5",
                "--set",
                "max_depth=2",
            ],
            "Fix it",
            "Fixed.\n",
        ),
        ("hook-executor", &[], "Look after it", "Looked.\n"),
    ];

    for (number, (mode, more, text, reply)) in identities.into_iter().enumerate() {
        let base = [&[mode, text][..], &queue, more].concat();
        let shown = project.run(&[&["prompt"], &base[..]].concat()).ok();

        let report = turn(&project, &base, reply).report()["report"].clone();
        assert_eq!(
            (&report["turn"], &report["mode"]),
            (&json!(number + 1), &json!(mode))
        );
        assert_eq!(
            report["response"]["message"].as_str().unwrap().trim(),
            reply.trim()
        );
        assert_eq!(report["state"]["ended"], true);

        let called = call(&project, "baker", number + 1);
        assert_eq!(
            called.stdin, shown,
            "{mode}: flat text, without a verdict to mark"
        );
        assert!(
            called.stdin.contains("Use tabs.") && called.stdin.ends_with(text),
            "{mode}"
        );
    }

    let log = project.run(&["log", "q", "--json"]).json();
    let modes: Vec<_> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["mode"])
        .collect();
    assert_eq!(modes, ["supervisor", "task-agent", "hook-executor"]);

    let starts: Vec<String> = (1..4)
        .map(|number| {
            call(&project, "baker", number)
                .stdin
                .lines()
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert!(
        starts[0] != starts[1] && starts[1] != starts[2],
        "three identities: {starts:?}"
    );
}

/// Returns a state file with this number of turns of history.
fn state(project: &TestProject, turns: usize) -> String {
    let history: Vec<_> = (0..turns)
        .map(|turn| json!({"user": format!("q{turn}."), "assistant": "a"}))
        .collect();
    let state = json!({"mode": "architect", "project": {"title": "Big Brain"}, "history": history});
    let path = project.home().join("state.json");
    write(&path, state.to_string());
    path.display().to_string()
}

/// The pack shows ten turns and cuts to 85 %, so the history keeps the same start between turns.
/// The ledger records that start and the last state. A history from a state file replaces that of the ledger.
#[test]
fn second_turn_keeps_the_state_and_the_history_of_its_file() {
    let project = TestProject::new();
    let base = [
        "architect",
        "What next?",
        "--pack",
        "foreman",
        "--session",
        "book",
    ];
    let mut first = Vec::new();

    for turns in [12, 13, 14] {
        let path = state(&project, turns);
        let args = [&base[..], &["--state", &path]].concat();
        let shown = project.run(&[&["prompt"], &args[..]].concat()).ok();
        let report = turn(&project, &args, "Yes.\n").report()["report"].clone();
        first.push(report["state"]["first_turn"].as_u64().unwrap());
        let number = calls(&project, "baker");
        assert_eq!(
            call(&project, "baker", number).stdin,
            shown,
            "it was shown before"
        );
    }

    assert_eq!(first, [2, 5, 5]);

    // A new session starts from the beginning.
    let path = state(&project, 14);
    let fresh = [
        "architect",
        "What next?",
        "--pack",
        "foreman",
        "--session",
        "other",
        "--state",
        &path,
    ];
    assert_eq!(
        turn(&project, &fresh, "Yes.\n").report()["report"]["state"]["first_turn"],
        4
    );

    let shown = project.run(&[&["prompt"], &base[..]].concat()).ok();
    assert!(
        shown.contains("Big Brain") && shown.contains("q13.") && !shown.contains("q4."),
        "{shown}"
    );
    assert!(
        !shown.contains("ASSISTANT: Yes."),
        "the history of the state file is shown, not that of the ledger: {shown}"
    );

    turn(&project, &base, "Yes.\n");
    assert_eq!(
        call(&project, "baker", 5).stdin,
        shown,
        "without a state file, the state in the ledger counts"
    );
}
