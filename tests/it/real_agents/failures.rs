//! What goes wrong at the model is told by its kind.

use std::net::TcpListener;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Cli, Stage, each};

/// Takes a plan with each of them, with a model that always answers the same, and checks the kind of the error.
/// Nothing of a reply that failed counts.
fn all_fail(reply: &Value, kinds: [&str; 3]) {
    each(|cli| {
        let Some(stage) = Stage::set(cli, |_| json!([reply])) else { return };
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
fn a_key_that_is_not_good() {
    all_fail(&json!({"status": 401, "message": "the key is not good"}), ["AgentAuth"; 3]);
}

#[test]
fn a_rate_limit() {
    let reply = json!({"status": 429, "message": "slow down", "headers": {"retry-after": "3"}});
    all_fail(&reply, ["AgentRateLimited"; 3]);
}

/// What the model says of the time to wait is kept to; codex does not hand it on.
#[test]
fn a_rate_limit_that_passes() {
    each(|cli| {
        let replies = json!([
            {"status": 429, "message": "Slow down. Please try again in 2s.", "headers": {"retry-after": "2"}},
            {"text": "A plan.\n"},
        ]);
        if cli == Cli::Codex {
            return;
        }
        let Some(stage) = Stage::set(cli, |_| replies) else { return };
        stage.settings("[limits]\nmax_wait_seconds = 9");
        let before = Instant::now();
        let turn = stage.turn("plan", &[]);
        assert_eq!(turn.ok()["calls"], 2, "{cli:?}");
        assert!(before.elapsed().as_secs() >= 2, "{cli:?}");
        assert_eq!(stage.called(1).stdin, stage.called(2).stdin, "{cli:?}: the same prompt once more");
    });
}

/// Codex calls every such failure a high demand, and so it is waited for.
#[test]
fn a_server_that_fails() {
    let kinds = ["AgentCrashed", "AgentCrashed", "AgentRateLimited"];
    all_fail(&json!({"status": 500, "message": "out of order"}), kinds);
    let body = json!({"status": 502, "content_type": "text/html", "body": "<html>Bad gateway</html>"});
    all_fail(&json!({"raw": body}), ["AgentCrashed"; 3]);
}

#[test]
fn a_stream_that_breaks() {
    let reply = json!({"text": "<review>PASS</review> and the rest", "chunk": 8, "cut_after": 3});
    all_fail(&reply, ["AgentCutOff"; 3]);
}

#[test]
fn a_refusal() {
    all_fail(&json!({"stop": "refusal"}), ["AgentRefused"; 3]);
}

#[test]
fn an_empty_answer() {
    all_fail(&json!({"text": ""}), ["AgentEmpty"; 3]);
}

#[test]
fn a_server_that_is_silent() {
    each(|cli| {
        let Some(stage) = Stage::set(cli, |_| json!([{"hang": true}])) else { return };
        stage.settings("[limits]\nidle_seconds = 15");
        stage.turn("plan", &[]).fails("AgentTimedOut");
        assert_eq!(stage.server.requests().len(), 1, "{cli:?}");
    });
}

#[test]
fn a_server_that_falls_silent() {
    each(|cli| {
        let reply = json!({"text": "<review>PASS</review> and the rest", "chunk": 8, "stall_after": 3});
        let Some(stage) = Stage::set(cli, |_| json!([reply])) else { return };
        stage.settings("[limits]\nwall_seconds = 15");
        stage.turn("plan", &[]).fails("AgentTimedOut");
        assert_eq!(stage.server.requests().len(), 1, "{cli:?}");
    });
}

#[test]
fn a_server_that_is_not_there() {
    each(|cli| {
        let Some(mut stage) = Stage::set(cli, |_| json!([{"text": "never"}])) else { return };
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        stage.point(&format!("http://{nobody}"));
        stage.settings("[limits]\nwall_seconds = 60");
        stage.turn("plan", &[]).fails("AgentCrashed");
        assert_eq!(stage.server.requests().len(), 0, "{cli:?}");
    });
}

/// Returns a text of so many characters that does not repeat itself.
fn long(length: usize) -> String {
    let lines = (1..)
        .flat_map(|number: u32| format!("Line {number} — é of a long text.\n").chars().collect::<Vec<_>>());
    lines.take(length).collect()
}

#[test]
fn an_answer_of_a_megabyte() {
    each(|cli| {
        let text = format!("{}\n<review>PASS</review>\n", long(1 << 20));
        let Some(stage) = Stage::set(cli, |_| json!([{"text": text, "chunk": 5000}])) else { return };
        assert_eq!(stage.turn("plan", &[]).ok()["verdict"], "PASS", "{cli:?}");
        let reply = stage.run(&["show", "last", "--reply"]).ok();
        assert!(reply.trim_end() == text.trim_end(), "{cli:?}: {} of {}", reply.len(), text.len());
    });
}

#[test]
fn a_prompt_of_a_megabyte() {
    each(|cli| {
        if cli == Cli::Codex {
            return;
        }
        let Some(stage) = Stage::set(cli, |_| json!([{"text": "Read.\n"}])) else { return };
        stage.project.write("long.txt", long(1 << 20));
        stage.turn("plan", &["--file", "long.txt"]).ok();
        assert!(stage.sent().len() > 1 << 20, "{cli:?}");
        stage.prompt_arrived_whole();
    });
}

/// Codex takes 1,048,576 characters, however many bytes they are, and no more.
#[test]
fn the_longest_prompt_of_codex() {
    let Some(stage) = Stage::set(Cli::Codex, |_| json!([{"text": "Read.\n"}])) else { return };
    stage.settings("verdict_nonce = \"off\"");
    stage.project.write("long.txt", "");
    let args = ["prompt", "plan", super::REQUEST, "--agent", "codex", "--file", "long.txt"];
    let rest = (1 << 20) - stage.run(&args).ok().chars().count();
    stage.project.write("long.txt", long(rest));
    stage.turn("plan", &["--file", "long.txt"]).ok();
    assert_eq!(stage.sent().chars().count(), 1 << 20);
    stage.prompt_arrived_whole();

    stage.project.write("long.txt", long(rest + 1));
    let run =
        stage.run(&["turn", "plan", super::REQUEST, "--agent", "codex", "--file", "long.txt", "--json"]);
    assert_eq!(run.code, 5, "{}", run.stderr);
    assert!(run.stderr.contains("\"AgentTooLarge\"") && run.stderr.contains("1048577"), "{}", run.stderr);
    assert_eq!(stage.server.requests().len(), 1, "nothing more was sent");
}
