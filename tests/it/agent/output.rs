//! Agent output as a reply: recorded outputs of real agents. Single outputs are case files under `tests/cases`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use agentd::ErrorKind;
use agentd::agent::{CommandExit, ExitCause, Limits, OutputReader};
use agentd::models::CallOutcome;
use agentd::orchestrator::parse_review_marker;
use agentd::secret::Secrets;

use crate::support::agent_output::{Recording, exited, read, shipped, vendors};
use crate::support::{files_below, repository};

#[test]
fn every_recording_has_one_row_and_every_row_a_recording() {
    let folder = repository().join("tests/cases/agents");
    let files = files_below(&folder).into_iter();
    let recorded: BTreeSet<PathBuf> = files.map(|file| file.with_extension("")).collect();
    let rows: Vec<PathBuf> = Recording::all()
        .iter()
        .map(|row| PathBuf::from(&row.cli).join(&row.case))
        .collect();
    let named: BTreeSet<PathBuf> = rows.iter().cloned().collect();
    let alone: Vec<&PathBuf> = named.symmetric_difference(&recorded).collect();
    assert!(alone.is_empty(), "without a row or a recording: {alone:?}");
    assert_eq!(rows.len(), recorded.len(), "duplicate row");
    assert_eq!(rows.len(), 133);
}

/// The exit code is the HTTP status modulo 256. It decides where the message is unknown.
#[test]
fn gemini_exit_code_maps_to_http_status() {
    let agents = vendors();
    let all = Recording::all();
    let rows: Vec<&Recording> = all
        .iter()
        .filter(|row| row.cli == "gemini" && row.exit > 128)
        .collect();
    let codes: BTreeSet<i32> = rows.iter().map(|row| row.exit).collect();
    assert_eq!(
        codes,
        [400, 401, 403, 413, 429, 500, 503]
            .map(|status| status % 256)
            .into()
    );

    for row in rows {
        assert_eq!(
            read(&agents, "gemini", b"", b"", &exited(row.exit)).end,
            row.end,
            "{}",
            row.case
        );
    }
}

/// Some output formats do not report that a reply was cut off. In that case the verdict is missing.
#[test]
fn truncated_reply_has_no_verdict() {
    let rows: Vec<Recording> = Recording::all()
        .into_iter()
        .filter(|row| row.case == "stop-length")
        .collect();
    assert_eq!(rows.iter().filter(|row| row.end.is_ok()).count(), 2);
    for row in rows {
        let error = parse_review_marker(&row.text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingReviewMarker, "{}", row.cli);
    }
}

/// A recording of a successful run that is truncated at any point never counts as a success.
#[test]
fn truncated_recording_never_succeeds() {
    for (agent, case) in [
        ("claude", "ok-stream-json"),
        ("gemini", "ok-stream-json"),
        ("codex", "ok-json"),
    ] {
        let path = repository().join(format!("tests/cases/agents/{agent}/{case}.stdout"));
        let whole = fs::read(path).unwrap();
        let last = whole.trim_ascii_end().len();
        let agents = vendors();

        for cut in (0..last).rev().step_by(7).chain([last - 1]) {
            let reply = read(&agents, agent, &whole[..cut], b"", &exited(0));
            let fails = matches!(
                reply.end,
                CallOutcome::Cut | CallOutcome::Empty | CallOutcome::UnknownOutput
            );
            assert!(fails, "{agent} cut at {cut}: {:?}", reply.end);
        }

        assert_eq!(
            read(&agents, agent, &whole[..last], b"", &exited(0)).end,
            CallOutcome::Ok
        );
    }
}

#[test]
fn long_output_is_shortened_in_the_middle() {
    let agents = vendors();
    let noise = "not JSON\n".repeat(100_000);

    let reply = read(
        &agents,
        "codex",
        noise.as_bytes(),
        noise.as_bytes(),
        &exited(0),
    );
    assert_eq!(reply.end, CallOutcome::UnknownOutput);
    assert!(reply.text.len() < 200_000, "{}", reply.text.len());
    assert!(reply.text.starts_with("not JSON\n") && reply.text.ends_with("not JSON\n"));
    assert!(
        reply.text.contains(" bytes left out …]\n"),
        "the omitted size is reported"
    );
    assert!(
        reply.detail.len() <= 2048 && reply.detail.ends_with("not JSON"),
        "{}",
        reply.detail.len()
    );

    let plain = shipped()
        .overlaid("format: 1\nagents: {plain: {argv: [plain]}}", "plain.yaml")
        .unwrap();
    let reply = read(&plain, "plain", noise.as_bytes(), b"", &exited(0));
    assert_eq!(
        (reply.end, reply.text.len()),
        (CallOutcome::Ok, noise.len()),
        "a valid reply is kept whole"
    );

    let exit = CommandExit {
        cause: ExitCause::Output,
        ..exited(0)
    };
    assert!(
        read(&plain, "plain", noise.as_bytes(), b"", &exit)
            .text
            .len()
            < 200_000
    );
}

#[test]
fn overlong_line_is_skipped_and_the_next_is_read() {
    let agents = vendors();
    let long = "x".repeat(9 * 1024 * 1024);
    let event = |text: &str| {
        format!(
            "{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":\"{text}\"}}}}\n"
        )
    };
    let stdout = [
        event(&long),
        event("short"),
        "{\"type\":\"turn.completed\"}\n".to_owned(),
    ]
    .concat();
    let reply = read(&agents, "codex", stdout.as_bytes(), b"", &exited(0));
    assert_eq!((reply.end, reply.text.as_str()), (CallOutcome::Ok, "short"));
}

#[test]
fn invalid_utf8_is_replaced() {
    let plain = shipped()
        .overlaid("format: 1\nagents: {plain: {argv: [plain]}}", "plain.yaml")
        .unwrap();
    let reply = read(
        &plain,
        "plain",
        b"\xEF\xBB\xBFa\xFF\xC3\xBC\0\r\nb\xE2\x82",
        b"",
        &exited(0),
    );
    assert_eq!(reply.text, "\u{FEFF}a\u{FFFD}ü\0\r\nb\u{FFFD}");

    let line = b"\xEF\xBB\xBF{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"a\xFFb\"}}\r\n{\"type\":\"turn.completed\"}";
    let reply = read(&vendors(), "codex", line, b"", &exited(0));
    assert_eq!(
        (reply.end, reply.text.as_str()),
        (CallOutcome::Ok, "a\u{FFFD}b")
    );
}

#[test]
fn secrets_are_redacted_in_every_part_of_a_reply() {
    let agents = vendors();
    let secrets = Secrets::new([("OPENAI_API_KEY".to_owned(), b"sk-canary\"12345".to_vec())]);
    let reader = OutputReader {
        spec: agents.find("codex").unwrap(),
        failures: agents.failures(),
        secrets: &secrets,
        limits: Limits::default(),
    };
    let event = |text: &str| {
        format!(
            "{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":\"{text}\"}}}}\n"
        )
    };

    let ok = [
        event("key: sk-canary\\\"12345."),
        "{\"type\":\"turn.completed\"}".to_owned(),
    ]
    .concat();
    assert_eq!(
        reader.read(ok.as_bytes(), b"", &exited(0)).text,
        "key: [secret OPENAI_API_KEY]."
    );

    let failed =
        "{\"type\":\"turn.failed\",\"error\":{\"message\":\"bad key sk-canary\\\"12345\"}}";
    assert_eq!(
        reader.read(failed.as_bytes(), b"", &exited(1)).detail,
        "bad key [secret OPENAI_API_KEY]"
    );

    for (stdout, stderr) in [
        ("", "a sk-canary\"12345 b"),
        ("raw sk-canary\\\"12345", ""),
        ("{\"k\":\"sk-canary\\\"12345\"}", ""),
    ] {
        let reply = reader.read(stdout.as_bytes(), stderr.as_bytes(), &exited(1));
        let all = format!("{}{}", reply.text, reply.detail);
        assert!(
            !all.contains("canary") && all.contains("[secret OPENAI_API_KEY]"),
            "{all}"
        );
    }
}
