//! Agents that misbehave: the error, the ledger, and the absence of effects.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Stage, TARGET, TURN, WRITTEN, answers, call_outcomes};

/// The expected result of a failed call.
struct Failure {
    steps: &'static [&'static str],
    kind: &'static str,
    /// Words of the error.
    words: &'static [&'static str],
    /// The result in the log.
    result: &'static str,
}

/// Takes a turn that fails. It must have no effects, and it can be taken again.
fn check_failure(stage: &Stage, failure: &Failure) {
    let run = stage.turn();
    assert_eq!(run.code, 5, "{}: {}", failure.kind, run.stderr);

    let report = run.last_line();
    assert_eq!(report["fault"]["kind"], failure.kind, "{}", run.stderr);

    let message = report["fault"].to_string();
    for words in failure.words {
        assert!(message.contains(words), "{words} is not in {message}");
    }
    assert!(
        report["fault"]["hint"].is_string(),
        "{} has a hint",
        failure.kind
    );
    assert_eq!(
        (
            &report["report"]["verdict"],
            &report["report"]["state"]["mode"]
        ),
        (&Value::Null, &"plan".into())
    );

    let row = stage.last_row();
    assert_eq!(
        (&row["result"], &row["verdict"]),
        (&failure.result.into(), &Value::Null)
    );

    stage.check(&[], &[None]);
    if failure.kind == "AgentTimedOut" {
        // On a busy machine the time limit may end before the agent logs its call.
        assert!(stage.calls() <= 1, "{}", failure.kind);
    } else {
        assert_eq!(stage.calls(), 1, "{}", failure.kind);
    }

    stage.steps(&["reply"]);

    // A limit that caused the failure would apply to this turn as well.
    stage.settings("");
    stage.run(&["resume", "s"]).ok();
    stage.check_end(1, WRITTEN);
}

/// F15, F17, F18, F22, F23: exit code 0 alone is not a success, and a failure wins over the reply.
#[test]
fn failed_call_is_classified_and_its_reply_ignored() {
    let failures = [
        Failure {
            steps: &["exit 0"],
            kind: "AgentEmpty",
            words: &["sent an empty reply"],
            result: "empty",
        },
        Failure {
            steps: &["out   "],
            kind: "AgentEmpty",
            words: &["fake"],
            result: "empty",
        },
        Failure {
            steps: &["reply", "err went wrong", "exit 3"],
            kind: "AgentCrashed",
            words: &["exit code 3", "went wrong"],
            result: "crashed",
        },
        Failure {
            steps: &["reply", "raise 9"],
            kind: "AgentCrashed",
            words: &["signal 9", "memory"],
            result: "crashed",
        },
        Failure {
            steps: &["reply", "raise 11"],
            kind: "AgentCrashed",
            words: &["signal 11"],
            result: "crashed",
        },
        Failure {
            steps: &["reply", "err 401 Unauthorized", "exit 1"],
            kind: "AgentAuth",
            words: &["log in"],
            result: "auth",
        },
        Failure {
            steps: &["reply", "err usage limit reached, resets at 3pm", "exit 1"],
            kind: "AgentQuota",
            words: &["3pm"],
            result: "quota",
        },
        Failure {
            steps: &["err prompt is too long", "exit 1"],
            kind: "AgentTooLarge",
            words: &["--model"],
            result: "too large",
        },
    ];
    for failure in failures {
        check_failure(&Stage::with(failure.steps), &failure);
    }
}

#[test]
fn missing_agent_is_reported() {
    let stage = Stage::new();
    let definition = "format: 1\nagents:\n  fake: {argv: [no-such-agent-anywhere]}\n";
    crate::support::write(&stage.project.user_folder().join("agents.yaml"), definition);
    stage
        .run(&TURN)
        .fails(5, &["AgentNotInstalled", "install the agent"]);
    assert_eq!(stage.last_row()["result"], "not installed");
}

/// F16.
#[test]
fn reply_without_required_verdict_keeps_the_mode() {
    let stage = Stage::with(&["out I see no problem."]);
    stage.project.write(TARGET, WRITTEN);
    let mut args = TURN;
    args[1] = "challenge";

    let run = stage.run(&args);
    assert_eq!((run.code, run.stdout.as_str()), (6, "I see no problem.\n"));
    assert!(
        run.stderr.contains("error[MissingReviewMarker]"),
        "{}",
        run.stderr
    );

    let row = stage.last_row();
    assert_eq!(
        (&row["result"], &row["verdict"], &row["mode"]),
        (&"unclear".into(), &Value::Null, &"challenge".into())
    );

    let resumed = stage.run(&["resume", "s"]);
    assert!(
        resumed.stderr.contains("nothing to resume"),
        "{}",
        resumed.stderr
    );
    assert_eq!(
        stage.calls(),
        1,
        "there is no retry unless the user wants it"
    );
}

/// F13: more than the maximum line length of events, in plain text.
#[test]
fn reply_of_one_long_line_is_kept_whole() {
    let stage = Stage::with(&["line 9000000"]);
    stage.turn().report();
    let kept = stage.run(&["show", "s/1", "--reply"]).ok();
    assert_eq!(kept.len(), 9_000_000);
    assert!(kept.bytes().all(|byte| byte == b'x'));
}

#[test]
fn overlong_line_is_not_an_event() {
    let stage = Stage::with(&[
        "line 9000000",
        "out ",
        "out {\"say\":\"<review>PASS</review>\"}",
        "out {\"end\":true}",
    ]);
    stage.define("    output: {kind: jsonl, text: [{path: say}], final: {end: true}}\n");
    let report = stage.turn().report();
    assert_eq!(report["report"]["verdict"], "PASS", "the next line is read");
    assert_eq!(
        stage.run(&["show", "s/1", "--reply"]).ok(),
        "<review>PASS</review>"
    );
}

/// F14.
#[test]
fn invalid_utf8_does_not_hide_the_reply() {
    let stage = Stage::with(&[
        "hex efbbbf",
        "hex 00ff80c30d0a",
        "split 1 Grün \u{1f600}",
        "reply",
    ]);
    stage.turn().report();
    let kept = stage.run(&["show", "s/1", "--reply"]).ok();
    assert!(
        kept.contains("\u{0}\u{fffd}\u{fffd}\u{fffd}\r\nGrün \u{1f600}"),
        "{kept:?}"
    );
    stage.check(&[], &[Some(WRITTEN)]);
    stage.check_end(1, WRITTEN);
}

/// F19: the reply counts, and leftover processes are killed and reported.
#[test]
fn leftover_processes_are_killed_and_counted() {
    for step in ["fork", "silent-fork", "deaf-fork", "setsid", "double-fork"] {
        let stage = Stage::with(&[&format!("{step} 600000"), "reply"]);
        let report = stage.turn().report();
        // The intermediate process of a double fork may still exist.
        let left = answers(&stage.events())[0].left_behind;
        assert!((1..=2).contains(&left), "{step}: {left}");
        assert_eq!(report["report"]["left_behind"], left, "{step}");
        stage.check(&[], &[Some(WRITTEN)]);
        stage.check_end(1, WRITTEN);
    }
}

/// F21.
#[test]
fn slow_agent_is_killed_by_the_configured_limits() {
    let steps = &["reply", "hang"];
    let stage = Stage::with(steps);
    stage.settings("[limits]\nidle_seconds = 1");
    let words = &["was stopped after 1 s without output", "idle_seconds"];
    check_failure(
        &stage,
        &Failure {
            steps,
            kind: "AgentTimedOut",
            words,
            result: "timed out",
        },
    );

    let speaks = ["reply"]
        .into_iter()
        .chain(["out more", "sleep 100"].into_iter().cycle().take(200));
    let speaks: Vec<&str> = speaks.collect();
    let stage = Stage::with(&speaks);
    stage.settings("[limits]\nwall_seconds = 1");
    let words = &["was stopped at its time limit of 1 s", "wall_seconds"];
    check_failure(
        &stage,
        &Failure {
            steps,
            kind: "AgentTimedOut",
            words,
            result: "timed out",
        },
    );
}

/// F22: agentd waits for a temporary limit, and it remains one turn.
#[test]
fn rate_limited_call_is_retried() {
    let stage = Stage::new();
    let calls = stage.outside("calls");

    // The second call can see that there was a first one.
    let script = format!(
        "if [ $(wc -l < {calls}) -lt 2 ]; then echo 'rate limit exceeded, retry-after: 1' >&2; exit 1; fi; cat {reply}",
        calls = calls.display(),
        reply = stage.outside("reply").display()
    );
    shell_agent(&stage, &script);
    let begun = Instant::now();

    let run = stage.turn();
    assert!(begun.elapsed() >= Duration::from_secs(1), "it did not wait");
    assert!(
        run.stdout.contains(
            r#"{"event":"waiting","seconds":1,"why":"rate limit exceeded, retry-after: 1"}"#
        ),
        "the wait is visible: {}",
        run.stdout
    );

    let report = run.report();
    assert_eq!(
        (&report["report"]["turn"], &report["report"]["calls"]),
        (&1.into(), &2.into())
    );
    assert_eq!(
        (call_outcomes(&stage.events()), stage.calls()),
        (vec!["rate limited", "ok"], 2)
    );

    stage.check(&[], &[Some(WRITTEN)]);
    stage.check_end(1, WRITTEN);
}

/// An agent can ask for any delay, any number of times.
#[test]
fn excessive_rate_limit_is_an_error_at_once() {
    let stage = Stage::new();
    let script = "format: 1\nturns:\n  - {end: rate-limited, retry_after: 1}\n\
                  \u{20}\u{20}- {end: rate-limited, retry_after: 18446744073709551615}\n";
    stage.project.write("script.yaml", script);
    let args = [
        "turn",
        "plan",
        "Go",
        "--session",
        "s",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ];
    let run = stage.run(&args);
    assert_eq!(run.code, 5, "{}", run.stderr);
    assert!(
        run.stderr.contains("error[AgentRateLimited]"),
        "{}",
        run.stderr
    );
    assert_eq!(
        call_outcomes(&stage.events()),
        ["rate limited", "rate limited"]
    );
}

/// Makes the agent a shell that logs its call and runs a script.
fn shell_agent(stage: &Stage, script: &str) {
    let script = format!(
        "echo called >> {}; {script}",
        stage.outside("calls").display()
    );
    let definition =
        serde_json::json!({"format": 1, "agents": {"fake": {"argv": ["sh", "-c", script]}}});
    crate::support::write(
        &stage.project.user_folder().join("agents.yaml"),
        definition.to_string(),
    );
}

#[test]
fn rate_limit_wait_respects_the_settings() {
    let stage = Stage::with(&["err rate limit exceeded, retry-after: 30", "exit 1"]);
    stage.settings("[limits]\nmax_wait_seconds = 29");
    let words = &["is rate limited for 30 s", "max_wait_seconds"];
    check_failure(
        &stage,
        &Failure {
            steps: &[],
            kind: "AgentRateLimited",
            words,
            result: "rate limited",
        },
    );

    let stage = Stage::with(&["err rate limit exceeded, retry-after: 1", "exit 1"]);
    stage.settings("[limits]\nmax_wait_seconds = 1");

    let run = stage.turn();
    assert_eq!(
        (run.code, stage.calls()),
        (5, 2),
        "exactly one wait of a second: {}",
        run.stderr
    );
    assert_eq!(call_outcomes(&stage.events()), ["rate limited"; 2]);

    stage.check(&[], &[None]);
}
