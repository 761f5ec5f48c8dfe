//! `agentd doctor` reports the containment and verifies the whole ledger.

use std::fs;

use serde_json::json;

use crate::support::TestProject;

/// Takes a turn whose reply repeats one word.
fn project() -> TestProject {
    let project = TestProject::new();
    project.write(
        "script.yaml",
        "format: 1\nturns:\n  - reply: marked-by-the-test <review>PASS</review>\n",
    );
    let turn = [
        "turn",
        "plan",
        "Go",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
        "--session",
        "s",
    ];
    project.run(&turn).ok();
    project
}

#[test]
fn intact_ledger_is_reported_with_its_events() {
    let none = TestProject::new();
    assert_eq!(
        none.run(&["doctor", "--json"]).json()["ledger"],
        json!(null)
    );
    assert!(none.run(&["doctor"]).ok().contains("none yet"));

    let project = project();
    let events = project
        .run(&["export", "s"])
        .ok()
        .lines()
        .filter(|line| line.contains("\"event\""))
        .count();
    assert_eq!(
        project.run(&["doctor", "--json"]).json()["ledger"],
        json!({"events": events, "faults": []})
    );

    let words = format!("ok: {events} events verified");
    assert!(project.run(&["doctor"]).ok().contains(&words));
}

#[test]
fn changed_byte_of_a_reply_is_detected() {
    let project = project();
    let path = project.root().join(".agentd/ledger.db");
    let mut bytes = fs::read(&path).unwrap();
    let word = b"marked-by-the-test";
    let at = bytes
        .windows(word.len())
        .position(|found| found == word)
        .expect("a short text is stored uncompressed");
    bytes[at] = b'M';
    fs::write(&path, bytes).unwrap();

    let run = project.run(&["doctor"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stdout.contains("no: blob ")
            && run
                .stdout
                .contains("is damaged: its content does not match its hash"),
        "{}",
        run.stdout
    );

    let run = project.run(&["doctor", "--json"]);
    assert_eq!(run.code, 1);

    let facts: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(
        !facts["ledger"]["faults"].as_array().unwrap().is_empty(),
        "{facts}"
    );
}

#[test]
fn unopenable_ledger_is_reported() {
    let project = project();
    project.write(".agentd/ledger.db", "no database");
    let run = project.run(&["doctor"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stdout.contains("no: .agentd/ledger.db"),
        "{}",
        run.stdout
    );
}

#[test]
fn doctor_reports_the_containment() {
    let project = TestProject::new();
    let facts = project.run(&["doctor", "--json"]).json();
    assert_eq!(facts["guard"], json!({"works": true, "why_not": null}));
    assert_eq!(
        facts["namespace"]["works"].as_bool(),
        Some(facts["namespace"]["why_not"].is_null())
    );
    assert!(
        facts["when_agentd_is_killed"]
            .as_str()
            .unwrap()
            .contains("are killed within a second"),
        "{facts}"
    );

    let printed = project.run(&["doctor"]).ok();
    let heads = printed
        .lines()
        .filter_map(|line| line.get(..10))
        .map(str::trim)
        .filter(|head| !head.is_empty());
    assert_eq!(
        heads.collect::<Vec<_>>(),
        [
            "agents",
            "mode",
            "mode",
            "mode",
            "mode",
            "mode",
            "guard",
            "namespace",
            "killed",
            "ledger"
        ],
        "{printed}"
    );
    assert!(
        printed.contains(
            "\nguard      yes: all processes of an agent are killed when its call ends\n"
        ),
        "{printed}"
    );
}
