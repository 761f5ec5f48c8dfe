//! Failures of the model are classified.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Cli, Stage, for_each_agent, long_text};

/// Plans with each agent and a model that always gives the same answer, and checks the kind of the
/// error. Nothing of a failed reply counts.
fn all_fail(reply: &Value, kinds: [&str; 3]) {
    for_each_agent(|cli| {
        let Some(stage) = Stage::set(cli, |_| json!([reply])) else {
            return;
        };
        let before = stage.tree();
        let turn = stage.turn("plan", &[]);
        let kind = kinds[cli as usize];
        turn.fails(kind);
        assert_eq!(turn.report["report"]["verdict"], Value::Null, "{cli:?}");
        assert_eq!(stage.tree(), before, "{cli:?}");
        stage.prompt_arrived_whole();
    });
}

#[test]
fn bad_key() {
    all_fail(
        &json!({"status": 401, "message": "the key is not good"}),
        ["AgentAuth"; 3],
    );
}

#[test]
fn rate_limit() {
    let reply = json!({"status": 429, "message": "slow down", "headers": {"retry-after": "3"}});
    all_fail(&reply, ["AgentRateLimited"; 3]);
}

/// The retry delay of the model is respected. codex does not pass it on.
#[test]
fn rate_limit_that_passes() {
    for_each_agent(|cli| {
        let replies = json!([
            {"status": 429, "message": "Slow down. Please try again in 2s.", "headers": {"retry-after": "2"}},
            {"text": "A plan.\n"},
        ]);
        if cli == Cli::Codex {
            return;
        }
        let Some(stage) = Stage::set(cli, |_| replies) else {
            return;
        };
        stage.settings("[limits]\nmax_wait_seconds = 9");
        let before = Instant::now();

        let turn = stage.turn("plan", &[]);
        assert_eq!(turn.ok()["calls"], 2, "{cli:?}");
        assert!(before.elapsed().as_secs() >= 2, "{cli:?}");
        assert_eq!(
            stage.recorded_call(1).stdin,
            stage.recorded_call(2).stdin,
            "{cli:?}: the same prompt again"
        );
    });
}

/// codex reports every such failure as high demand, so agentd waits.
#[test]
fn server_error() {
    let kinds = ["AgentCrashed", "AgentCrashed", "AgentRateLimited"];
    all_fail(&json!({"status": 500, "message": "out of order"}), kinds);
    let body =
        json!({"status": 502, "content_type": "text/html", "body": "<html>Bad gateway</html>"});
    all_fail(&json!({"raw": body}), ["AgentCrashed"; 3]);
}

#[test]
fn broken_stream() {
    let reply = json!({"text": "<review>PASS</review> and the rest", "chunk": 8, "cut_after": 3});
    all_fail(&reply, ["AgentCutOff"; 3]);
}

/// gemini does not report that its model reached the length limit. The missing parts of the reply
/// show it.
#[test]
fn reply_truncated_by_length() {
    for_each_agent(|cli| {
        let reply = json!({"text": "Good, but <review>PA", "stop": "length"});
        let Some(stage) = Stage::set(cli, |_| json!([reply])) else {
            return;
        };
        let turn = stage.turn("challenge", &["--change", "add-login"]);
        if cli == Cli::Gemini {
            assert_eq!(
                (turn.code, &turn.report["fault"]["kind"]),
                (6, &json!("MissingReviewMarker"))
            );
        } else {
            turn.fails("AgentCutOff");
        }
    });
}

#[test]
fn refused_reply() {
    all_fail(&json!({"stop": "refusal"}), ["AgentRefused"; 3]);
}

#[test]
fn empty_answer() {
    all_fail(&json!({"text": ""}), ["AgentEmpty"; 3]);
}

#[test]
fn prompt_of_a_megabyte() {
    for_each_agent(|cli| {
        if cli == Cli::Codex {
            return;
        }
        let Some(stage) = Stage::set(cli, |_| json!([{"text": "Read.\n"}])) else {
            return;
        };
        stage.project.write("long.txt", long_text(1 << 20));
        stage.turn("plan", &["--file", "long.txt"]).ok();
        assert!(stage.sent_prompt().len() > 1 << 20, "{cli:?}");
        stage.prompt_arrived_whole();
    });
}
