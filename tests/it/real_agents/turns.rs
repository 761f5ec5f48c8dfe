//! A plan and an implementation with each real agent.

use serde_json::{Value, json};

use super::{Cli, Stage};

const USAGE: [(&str, u64); 4] = [
    ("input", 1000),
    ("cache_read", 200),
    ("output", 50),
    ("reasoning", 7),
];

fn usage() -> Value {
    USAGE
        .into_iter()
        .map(|(name, tokens)| (name.to_owned(), tokens.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The usage that an agent reports. gemini does not count thoughts in its events.
fn reported_usage(cli: Cli) -> [Option<u64>; 4] {
    match cli {
        Cli::Claude | Cli::Codex => [Some(1000), Some(200), Some(50), Some(7)],
        Cli::Gemini => [Some(1000), Some(200), Some(43), None],
    }
}

/// A plan: the agent may read but not edit, regardless of the tool calls of its model.
fn plan(cli: Cli) {
    let replies = |root: &std::path::Path| {
        json!([
            {"tools": [cli.edit_call(root)], "usage": {"input": 0, "output": 0}},
            {"text": "A plan.\n<review run=\"{{NONCE}}\">PASS</review>\n", "thinking": "Hm.", "usage": usage()},
        ])
    };

    let Some(stage) = Stage::set(cli, replies) else {
        return;
    };
    let before = stage.tree();
    let turn = stage.turn("plan", &[]);
    let report = turn.ok();
    assert_eq!(stage.tree(), before, "a plan changes no file");

    stage.prompt_arrived_whole();
    assert_eq!(report["response"]["message"], "A plan.");
    assert_eq!(report["verdict"], "PASS");

    let names = [
        "input_tokens",
        "cache_read_tokens",
        "output_tokens",
        "reasoning_tokens",
    ];
    assert_eq!(
        names.map(|name| report["usage"][name].as_u64()),
        reported_usage(cli),
        "{}",
        report["usage"]
    );
    assert_eq!(
        stage.server.requests().len(),
        2,
        "the second request reports the refused tool"
    );
}

/// An implementation: the agent edits with its own tools.
fn implement(cli: Cli) {
    let replies = |root: &std::path::Path| {
        json!([
            {"text": "I look.", "tools": [cli.read_call(root)]},
            {"tools": [cli.edit_call(root)]},
            {"text": "Done.\n"},
        ])
    };

    let Some(stage) = Stage::set(cli, replies) else {
        return;
    };
    let mut expected = stage.tree();
    let turn = stage.turn(
        "implement",
        &["--change", "add-login", "--model", cli.model()],
    );
    let report = turn.ok();

    expected.insert("hello.txt".into(), b"alpha\nGAMMA\n".to_vec());
    assert_eq!(
        stage.tree(),
        expected,
        "one file is changed, and no other is created"
    );

    stage.prompt_arrived_whole();
    let message = report["response"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("I look.") && message.ends_with("Done."),
        "{message:?}"
    );

    let requests = stage.server.requests();
    assert_eq!(requests.len(), 3);
    assert!(
        requests
            .iter()
            .all(|request| request["model"] == cli.model())
    );
}

#[test]
fn claude_plans() {
    plan(Cli::Claude);
}

#[test]
fn claude_implements() {
    implement(Cli::Claude);
}

#[test]
fn gemini_plans() {
    plan(Cli::Gemini);
}

#[test]
fn gemini_implements() {
    implement(Cli::Gemini);
}

#[test]
fn codex_plans() {
    plan(Cli::Codex);
}

#[test]
fn codex_implements() {
    implement(Cli::Codex);
}
