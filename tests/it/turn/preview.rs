//! `agentd prompt` shows exactly the prompt that the next turn of a session sends, including its
//! model.

use serde_json::json;

use crate::support::recording_agent::{answer, call, calls, define_agents, with_preview_nonce};
use crate::support::{TestProject, write};

/// Shows the prompt of a turn, takes the turn, and checks that the sent prompt is the shown one.
fn shown_and_sent(project: &TestProject, ask: &[&str]) -> String {
    let shown = project
        .run(&[&["prompt"], ask, &["--agent", "agent"]].concat())
        .ok();
    let before = calls(project, "agent");
    let run = project.run(&[&["turn"], ask, &["--agent", "agent"]].concat());
    assert!(run.code == 0 || run.code == 6, "{}", run.stderr);
    assert_eq!(
        with_preview_nonce(&call(project, "agent", before + 1).stdin),
        shown,
        "{ask:?}"
    );
    shown
}

#[test]
fn preview_equals_the_prompt_of_the_next_turn() {
    let project = TestProject::new();
    let reply = answer(
        &project,
        "reply",
        "<content_update target=\"proposal.md\">\n# P\n</content_update>\nPlanned.\n<review>PASS</review>\n",
    );
    define_agents(&project, &[("agent", &[&reply], "")]);
    let change = ["--change", "add-login"];
    shown_and_sent(&project, &[&["plan", "Add login"], &change[..]].concat());

    let second = shown_and_sent(&project, &[&["plan", "Add more"], &change[..]].concat());
    assert!(
        second.contains("<artifact name=\"proposal.md\">"),
        "{second}"
    );

    shown_and_sent(
        &project,
        &[&["challenge", "Look"], &change[..], &["--format", "chat"]].concat(),
    );
}

/// The content of a state file is kept in the ledger. Another file replaces it, in the prompt as in
/// the turn.
#[test]
fn state_is_shown_until_replaced() {
    let project = TestProject::new();
    define_agents(&project, &[("agent", &["out Yes."], "")]);
    let state = |title: &str| {
        let path = project.home().join("state.json");
        write(
            &path,
            json!({"project": {"title": title}, "notebooks": []}).to_string(),
        );
        path.display().to_string()
    };

    let book = ["--pack", "foreman", "--session", "book"];
    let path = state("First");
    let ask = |mode: &'static str, more: &[&str]| {
        shown_and_sent(&project, &[&[mode, "Go on"], &book[..], more].concat())
    };
    assert!(!ask("architect", &[]).contains("<title>"));
    assert!(ask("architect", &["--state", &path]).contains("<title>First</title>"));
    assert!(
        ask("architect", &[]).contains("<title>First</title>"),
        "the ledger contains it"
    );

    let director = ask("director", &[]);
    assert!(
        director.contains("<title>First</title>") && director.contains("<current_mode>DIRECTOR"),
        "{director}"
    );

    let path = state("Second");
    assert!(ask("director", &["--state", &path]).contains("<title>Second</title>"));
    assert!(ask("architect", &[]).contains("<title>Second</title>"));

    // Without its name it is not a turn of that session.
    let shown = project
        .run(&["prompt", "architect", "Go on", "--pack", "foreman"])
        .ok();
    assert!(!shown.contains("<title>"), "{shown}");
}

#[test]
fn model_of_a_definition_applies_to_prompt_and_turn() {
    let project = TestProject::new();
    let definition = "format: 1\nagents:\n  small: {argv: [sh, -c, 'echo \"$@\"', sh, [--model, '{model}']], model: \"llama3.2:3b\"}\n";
    write(&project.user_folder().join("agents.yaml"), definition);
    write(
        &project.user_folder().join("config.toml"),
        "format = 1\n[modes.architect]\nagent = \"small\"\n",
    );
    let prompt = |more: &[&str]| {
        let args = [
            "prompt",
            "architect",
            "Go on",
            "--pack",
            "foreman",
            "--json",
        ];
        project.run(&[&args[..], more].concat()).json()["fit"].clone()
    };

    for more in [&["--agent", "small"][..], &[]] {
        let fit = prompt(more);
        assert_eq!(
            (&fit["model"], &fit["tier"]),
            (&json!("llama3.2:3b"), &json!("minimal")),
            "{more:?}"
        );
    }

    assert_eq!(
        prompt(&["--model", "gpt-4o"])["tier"],
        "full",
        "a flag takes precedence"
    );
    assert_eq!(
        prompt(&["--agent", "other"])["model"],
        json!(null),
        "another agent has no model"
    );

    let turn = |more: &[&str]| {
        let args = [
            "turn",
            "architect",
            "Go on",
            "--pack",
            "foreman",
            "--session",
            "book",
        ];
        let said = project.run(&[&args[..], more].concat()).ok();
        let fit = project.run(&["show", "book", "--fit"]).json();

        let log = project.run(&["log", "book", "-n", "1", "--json"]).json();
        assert_eq!(fit["model"], log[0]["model"]);

        let argument = said.lines().last().unwrap().to_owned();
        assert_eq!(
            argument,
            format!("--model {}", log[0]["model"].as_str().unwrap())
        );

        fit
    };

    assert_eq!(turn(&[])["tier"], "minimal");
    assert_eq!(
        turn(&["--agent", "small", "--model", "gpt-4o"])["tier"],
        "full"
    );
}
