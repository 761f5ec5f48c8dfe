//! S2 with the real agents: each call is complete in itself, and verdicts are parsed as intended.

use agentd::orchestrator::parse_review_marker;
use agentd::{ErrorKind, ReviewResult, UnifiedPrompt};
use serde_json::json;

use super::{Stage, for_each_agent};
use crate::support::recording_agent::RecordedCall;

/// No argument makes the agent resume a session, or gives it instructions besides the prompt.
fn is_complete_in_itself(called: &RecordedCall) {
    for argument in &called.argv {
        for flag in [
            "--resume",
            "resume",
            "--session",
            "--continue",
            "--system",
            "--append-system",
            "-r",
        ] {
            let same = argument == flag || flag.starts_with("--") && argument.starts_with(flag);
            assert!(!same, "{argument}");
        }
    }

    for name in called.variables() {
        for part in ["SYSTEM", "SESSION_ID", "RESUME", "PROMPT"] {
            assert!(!name.contains(part), "{name}");
        }
    }
}

#[test]
fn scenario_executing_a_proposal_without_session_resume() {
    for_each_agent(|cli| {
        let text = "<content_update target=\"proposal.md\">\n# X\n</content_update>\nProposed.\n";
        let Some(mut stage) = Stage::set(cli, |_| json!([{"text": text}])) else {
            return;
        };

        // Files that would give the agent a session or other instructions exist, and must not reach
        // it.
        let system = stage.project.home().join("system.md");
        std::fs::write(&system, "Say canary.").unwrap();
        for name in [
            "GEMINI_SYSTEM_MD",
            "ANTHROPIC_SESSION_ID",
            "CODEX_SESSION_ID",
            "CLAUDE_CODE_RESUME_PROMPT",
        ] {
            stage
                .variables
                .insert(name.to_owned(), system.clone().into());
        }

        for number in [1, 2] {
            stage.turn("plan", &["--change", "feature-x"]).ok();
            let called = stage.recorded_call(number);
            is_complete_in_itself(&called);

            // The recorded input is the XML of the prompt and nothing else.
            assert_eq!(called.stdin, stage.sent_prompt(), "{cli:?}");

            let prompt = UnifiedPrompt::from_xml(&called.stdin).unwrap();
            assert_eq!(prompt.instructions(), super::REQUEST);
            assert_eq!(
                stage.server.requests()[number - 1]["prompt"],
                "whole",
                "{cli:?}"
            );
            assert!(
                !stage.server.body(number).contains("canary"),
                "{cli:?}: other instructions were sent"
            );
        }

        assert_eq!(
            stage.recorded_call(1).argv,
            stage.recorded_call(2).argv,
            "the second call is equal to the first"
        );
        assert_eq!(
            stage.project.read("agentd/changes/feature-x/proposal.md"),
            "# X\n"
        );
    });
}

#[test]
fn scenario_transitioning_system_prompts_to_xml() {
    for_each_agent(|cli| {
        let Some(stage) = Stage::set(cli, |_| json!([{"text": "Done.\n"}])) else {
            return;
        };
        stage.turn("implement", &["--change", "add-login"]).ok();
        let called = stage.recorded_call(1);
        is_complete_in_itself(&called);
        let document = roxmltree::Document::parse(&called.stdin).unwrap();
        let part = document.root_element().first_element_child().unwrap();
        assert_eq!(part.tag_name().name(), "system_prompt");

        let system: String = part.children().filter_map(|child| child.text()).collect();
        let template = stage
            .run(&["template", "show", "implement", "--agent", cli.name()])
            .ok();
        let body = template.rsplit("---\n").next().unwrap();

        let (start, _) = body.split_once("{{").unwrap();
        assert!(
            start.len() > 500 && system.contains(start.trim()),
            "{cli:?}: {system}\n{start}"
        );

        // It reaches the model unchanged, as text of the user.
        assert_eq!(stage.server.requests()[0]["prompt"], "whole", "{cli:?}");
    });
}

#[test]
fn scenario_parsing_markers_from_structured_xml_response() {
    // A review with NEEDS_CHANGES needs an opened change: see `change.rs`.
    for_each_agent(|cli| {
        let text = "Two gaps.\n<review>NEEDS_REVISION</review>\n";
        let Some(stage) = Stage::set(cli, |_| json!([{"text": text}])) else {
            return;
        };
        // The source document has no nonce.
        stage.settings("verdict_nonce = \"off\"");
        let turn = stage.turn("challenge", &["--change", "add-login"]);
        assert_eq!(turn.ok()["verdict"], "NEEDS_REVISION", "{cli:?}");
        let reply = stage.run(&["show", "last", "--reply"]).ok();
        assert_eq!(
            parse_review_marker(&reply).unwrap(),
            ReviewResult::NeedsRevision,
            "{cli:?}"
        );
    });
}

#[test]
fn scenario_handling_missing_or_conflicting_review_markers() {
    for_each_agent(|cli| {
        let both = "<review>PASS</review>\nOr rather:\n<review>NEEDS_REVISION</review>\n";
        let Some(stage) = Stage::set(
            cli,
            |_| json!([{"text": "It looks good.\n"}, {"text": both}]),
        ) else {
            return;
        };
        stage.settings("verdict_nonce = \"off\"");

        let missing = stage.turn("challenge", &["--change", "add-login"]);
        assert_eq!(
            (missing.code, &missing.report["fault"]["kind"]),
            (6, &json!("MissingReviewMarker")),
            "{cli:?}"
        );

        let reply = stage.run(&["show", "last", "--reply"]).ok();
        assert_eq!(
            parse_review_marker(&reply).unwrap_err().kind(),
            ErrorKind::MissingReviewMarker
        );

        let turn = stage.turn("challenge", &["--change", "add-login"]);
        assert_eq!(
            turn.report["report"]["verdict"], "NEEDS_REVISION",
            "{cli:?}: {}",
            turn.report
        );

        let reply = stage.run(&["show", "last", "--reply"]).ok();
        assert_eq!(
            parse_review_marker(&reply).unwrap(),
            ReviewResult::NeedsRevision,
            "{cli:?}"
        );
    });
}
