//! What an agent wrote and how it ended, read as a reply: recorded outputs of real agents, and one file per odd case.

use std::fs;
use std::path::Path;

use agentd::ErrorKind;
use agentd::agent::{Cause, Exit, Limits, OutputReader};
use agentd::config::Agents;
use agentd::models::yaml;
use agentd::models::{End, Reply, UsageMetrics};
use agentd::pack::{AGENTS, SECRET_NAMES};
use agentd::secret::Secrets;
use serde::Deserialize;

use crate::support::{files_below, repository};

/// The answer that most recorded runs were given.
const ANSWER: &str = "<thought>short</thought>\nAll good.\n<review>PASS</review>\n<task_status id=\"1.1\">COMPLETED</task_status>";

pub(crate) fn shipped() -> Agents {
    Agents::read(AGENTS, "built-in:data/agents.yaml").unwrap().with_secrets(SECRET_NAMES)
}

fn vendors() -> Agents {
    let path = repository().join("tests/cases/agents/vendors.yaml");
    shipped().overlaid(&fs::read_to_string(path).unwrap(), "vendors.yaml").unwrap()
}

fn exited(code: i32) -> Exit {
    // The recordings write a signal as a negative code.
    let (code, signal) = if code < 0 { (None, Some(-code)) } else { (Some(code), None) };
    Exit { code, signal, cause: Cause::Ended, left_behind: 0, milliseconds: 1 }
}

fn read(agents: &Agents, agent: &str, stdout: &[u8], stderr: &[u8], exit: &Exit) -> Reply {
    let secrets = Secrets::default();
    let reader = OutputReader {
        spec: agents.find(agent).unwrap(),
        failures: agents.failures(),
        secrets: &secrets,
        limits: Limits::default(),
    };
    reader.read(stdout, stderr, exit)
}

/// Reads a recorded run of `agent`, as the definition of that name, or of another, reads it.
fn recorded(definition: &str, agent: &str, case: &str, code: i32) -> Reply {
    let folder = repository().join("tests/cases/agents").join(agent);
    let part = |name: &str| fs::read(folder.join(format!("{case}.{name}"))).unwrap_or_default();
    let (stdout, stderr) = (part("stdout"), part("stderr"));
    assert!(!stdout.is_empty() || !stderr.is_empty(), "{agent} {case} has no recording");
    read(&vendors(), definition, &stdout, &stderr, &exited(code))
}

fn crashed(code: i32) -> End {
    End::Crashed { code: Some(code), signal: None }
}

const WAIT: End = End::RateLimited { retry_after: None };

#[test]
fn recorded_runs_that_went_well_are_read_whole() {
    let claude = recorded("claude", "claude", "ok-stream-json", 0);
    assert_eq!((claude.end, claude.text.as_str(), claude.detail.as_str()), (End::Ok, ANSWER, ""));
    let used = |counts: [u64; 4]| UsageMetrics {
        input_tokens: Some(counts[0]),
        cache_read_tokens: Some(counts[1]),
        output_tokens: Some(counts[2]),
        reasoning_tokens: Some(counts[3]),
        ..UsageMetrics::default()
    };
    let paid = |usage, written, micros| UsageMetrics {
        cache_write_tokens: Some(written),
        micro_dollars: micros,
        ..usage
    };
    assert_eq!(claude.usage, paid(used([1200, 1000, 34, 0]), 50, Some(4598)));

    let gemini = recorded("gemini", "gemini", "ok-stream-json", 0);
    assert_eq!((gemini.end, gemini.text.as_str(), gemini.detail.as_str()), (End::Ok, ANSWER, ""));
    assert_eq!(gemini.usage, UsageMetrics { reasoning_tokens: None, ..used([200, 1000, 34, 0]) });

    let codex = recorded("codex", "codex", "ok-json", 0);
    assert_eq!((codex.end, codex.text.as_str()), (End::Ok, ANSWER));
    assert_eq!(codex.usage, paid(used([200, 1000, 34, 12]), 0, None));

    let list = recorded("claude-json", "claude", "ok-json-verbose", 0);
    assert_eq!((list.end, list.text.as_str()), (End::Ok, ANSWER));
    assert_eq!((list.usage.input_tokens, list.usage.output_tokens), (Some(1200), Some(34)));

    // The thoughts are counted apart there, and are part of the reply here.
    let object = recorded("gemini-json", "gemini", "ok-json", 0);
    assert_eq!((object.end, object.text.as_str()), (End::Ok, ANSWER));
    assert_eq!(object.usage, used([200, 1000, 46, 12]));

    for (agent, case, text) in [
        ("claude", "tool-edit-ro", "edited"),
        ("codex", "tool-patch-implement", "edited"),
        ("codex", "retry-once-then-ok-500", "recovered"),
    ] {
        let reply = recorded(agent, agent, case, 0);
        assert_eq!((reply.end, reply.text.as_str()), (End::Ok, text), "{agent} {case}");
    }
}

#[test]
fn recorded_failures_are_told_apart() {
    let table: Vec<(&str, &str, i32, End, &str)> = vec![
        ("claude", "error-400", 1, crashed(1), "API Error: 400 bad request"),
        ("claude", "error-401", 1, End::Auth, "Invalid API key"),
        ("claude", "error-403", 1, End::Auth, "403 forbidden"),
        ("claude", "error-413", 1, End::TooLarge, "Request too large"),
        ("claude", "error-429", 1, WAIT, "(429)"),
        ("claude", "error-500", 1, crashed(1), "API Error: 500 internal"),
        ("claude", "error-overload", 1, WAIT, "529 overloaded"),
        ("claude", "error-refused", 1, crashed(1), "ECONNREFUSED"),
        ("claude", "no-key", 1, End::Auth, "Not logged in"),
        ("claude", "empty-answer", 0, End::Empty, ""),
        ("claude", "stop-refusal", 1, End::Refused, "can't help with this"),
        ("claude", "max-turns", 1, crashed(1), "Reached maximum number of turns (2)"),
        ("claude", "signal-SIGINT", 0, End::Crashed { code: None, signal: None }, "ede_diagnostic"),
        ("claude", "unknown-flag", 1, crashed(1), "error: unknown option '--no-such-flag'"),
        ("claude", "blank-stdin", 1, crashed(1), "Input"),
        ("gemini", "error-400", 144, crashed(144), "bad request: scripted"),
        ("gemini", "error-401", 145, End::Auth, "invalid x-api-key"),
        ("gemini", "error-413", 157, End::TooLarge, "too large"),
        ("gemini", "error-429", 173, WAIT, "slow down"),
        ("gemini", "error-500", 244, crashed(244), "INTERNAL"),
        ("gemini", "error-overload", 247, WAIT, "overloaded"),
        ("gemini", "error-refused", 1, crashed(1), "fetch failed"),
        ("gemini", "no-key", 41, End::Auth, "GEMINI_API_KEY"),
        ("gemini", "no-skip-trust", 55, crashed(55), "not running in a trusted directory"),
        ("gemini", "signal-SIGTERM", 0, End::Empty, ""),
        ("gemini", "max-turns", 53, crashed(53), "Reached max session turns"),
        ("gemini", "unknown-flag", 1, crashed(1), "--help"),
        ("codex", "error-400", 1, crashed(1), "bad request: scripted"),
        ("codex", "error-401", 1, End::Auth, "401 Unauthorized"),
        ("codex", "error-413", 1, End::TooLarge, "413 Payload Too Large"),
        ("codex", "error-429", 1, WAIT, "429 Too Many Requests"),
        ("codex", "error-500", 1, WAIT, "high demand"),
        ("codex", "error-overload", 1, WAIT, "at capacity"),
        ("codex", "error-stream", 1, WAIT, "Overloaded mid stream"),
        ("codex", "empty-answer", 0, End::Empty, ""),
        ("codex", "stop-length", 1, End::Cut, "max_output_tokens"),
        ("codex", "no-key", 1, End::Auth, "OPENAI_API_KEY"),
        ("codex", "signal-SIGTERM", -15, End::Crashed { code: None, signal: Some(15) }, ""),
        ("codex", "unknown-flag", 2, crashed(2), "unexpected argument '--no-such-flag' found"),
        ("codex", "no-git-no-skip", 1, crashed(1), "Not inside a trusted directory"),
    ];
    for (agent, case, code, end, detail) in table {
        let reply = recorded(agent, agent, case, code);
        assert_eq!(reply.end, end, "{agent} {case}: {}", reply.detail);
        assert!(reply.detail.contains(detail), "{agent} {case}: {}", reply.detail);
    }
    assert_eq!(recorded("codex", "codex", "stop-length", 1).text, "cut off here");
    let refused = recorded("gemini-json", "gemini", "stop-refusal", 0);
    assert_eq!(refused.end, End::Refused, "an exit code of 0 does not hide it: {}", refused.detail);
    assert_eq!(refused.usage.input_tokens, Some(17_070), "what a failure used is counted");
    let empty = recorded("gemini-json", "gemini", "empty-answer", 0);
    assert_eq!(empty.end, End::Crashed { code: None, signal: None });
    assert!(empty.detail.contains("empty response"), "{}", empty.detail);
}

/// No recording of a run that went well becomes one when its end is missing, wherever it is cut.
#[test]
fn a_recording_that_is_cut_anywhere_is_no_success() {
    for (agent, case) in [("claude", "ok-stream-json"), ("gemini", "ok-stream-json"), ("codex", "ok-json")] {
        let path = repository().join(format!("tests/cases/agents/{agent}/{case}.stdout"));
        let whole = fs::read(path).unwrap();
        let last = whole.trim_ascii_end().len();
        let agents = vendors();
        for cut in (0..last).rev().step_by(7).chain([last - 1]) {
            let reply = read(&agents, agent, &whole[..cut], b"", &exited(0));
            let fails = matches!(reply.end, End::Cut | End::Empty | End::UnknownOutput);
            assert!(fails, "{agent} cut at {cut}: {:?}", reply.end);
        }
        assert_eq!(read(&agents, agent, &whole[..last], b"", &exited(0)).end, End::Ok);
    }
}

/// A case: what an agent is, what it wrote, how it ended, and the reply that must come of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The name of a definition of `vendors.yaml`, or of the one below.
    agent: String,
    #[serde(default)]
    definition: Option<String>,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    code: i32,
    #[serde(default)]
    cause: Option<Cause>,
    end: End,
    #[serde(default)]
    text: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    usage: UsageMetrics,
}

#[test]
fn each_case_gives_the_reply_that_is_written_beside_it() {
    let folder = repository().join("tests/cases/output");
    let files = files_below(&folder);
    assert!(files.len() >= 20);
    for file in files {
        let written = fs::read_to_string(folder.join(&file)).unwrap();
        let name = file.display().to_string();
        let case: Case = yaml::read(&written, &name, 1, ErrorKind::ConfigInvalid).unwrap();
        let mut agents = vendors();
        if let Some(definition) = &case.definition {
            agents = agents.overlaid(definition, &name).unwrap();
        }
        let exit = Exit { cause: case.cause.unwrap_or(Cause::Ended), ..exited(case.code) };
        let reply = read(&agents, &case.agent, case.stdout.as_bytes(), case.stderr.as_bytes(), &exit);
        let expected =
            Reply { text: case.text, usage: case.usage, end: case.end, detail: case.detail, left_behind: 0 };
        assert_eq!(reply, expected, "{name}");
    }
}

#[test]
fn what_is_long_is_kept_at_both_ends_and_details_are_short() {
    let agents = vendors();
    let noise = "not JSON\n".repeat(100_000);
    let reply = read(&agents, "codex", noise.as_bytes(), noise.as_bytes(), &exited(0));
    assert_eq!(reply.end, End::UnknownOutput);
    assert!(reply.text.len() < 200_000, "{}", reply.text.len());
    assert!(reply.text.starts_with("not JSON\n") && reply.text.ends_with("not JSON\n"));
    assert!(reply.text.contains(" bytes left out …]\n"), "what is left out is told");
    assert!(reply.detail.len() <= 2048 && reply.detail.ends_with("not JSON"), "{}", reply.detail.len());

    let plain = shipped().overlaid("format: 1\nagents: {plain: {argv: [plain]}}", "plain.yaml").unwrap();
    let reply = read(&plain, "plain", noise.as_bytes(), b"", &exited(0));
    assert_eq!((reply.end, reply.text.len()), (End::Ok, noise.len()), "a good reply is kept whole");
    let exit = Exit { cause: Cause::Output, ..exited(0) };
    assert!(read(&plain, "plain", noise.as_bytes(), b"", &exit).text.len() < 200_000);
}

#[test]
fn a_line_that_is_too_long_is_no_event_and_the_next_one_is() {
    let agents = vendors();
    let long = "x".repeat(9 * 1024 * 1024);
    let event = |text: &str| {
        format!(
            "{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":\"{text}\"}}}}\n"
        )
    };
    let stdout = [event(&long), event("short"), "{\"type\":\"turn.completed\"}\n".to_owned()].concat();
    let reply = read(&agents, "codex", stdout.as_bytes(), b"", &exited(0));
    assert_eq!((reply.end, reply.text.as_str()), (End::Ok, "short"));
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_nothing_else_is() {
    let plain = shipped().overlaid("format: 1\nagents: {plain: {argv: [plain]}}", "plain.yaml").unwrap();
    let reply = read(&plain, "plain", b"\xEF\xBB\xBFa\xFF\xC3\xBC\0\r\nb\xE2\x82", b"", &exited(0));
    assert_eq!(reply.text, "\u{FEFF}a\u{FFFD}ü\0\r\nb\u{FFFD}");
    let line = b"\xEF\xBB\xBF{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"a\xFFb\"}}\r\n{\"type\":\"turn.completed\"}";
    let reply = read(&vendors(), "codex", line, b"", &exited(0));
    assert_eq!((reply.end, reply.text.as_str()), (End::Ok, "a\u{FFFD}b"));
}

#[test]
fn secrets_get_into_no_part_of_a_reply() {
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
    let ok = [event("key: sk-canary\\\"12345."), "{\"type\":\"turn.completed\"}".to_owned()].concat();
    assert_eq!(reader.read(ok.as_bytes(), b"", &exited(0)).text, "key: [secret OPENAI_API_KEY].");
    let failed = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"bad key sk-canary\\\"12345\"}}";
    assert_eq!(reader.read(failed.as_bytes(), b"", &exited(1)).detail, "bad key [secret OPENAI_API_KEY]");
    for (stdout, stderr) in
        [("", "a sk-canary\"12345 b"), ("raw sk-canary\\\"12345", ""), ("{\"k\":\"sk-canary\\\"12345\"}", "")]
    {
        let reply = reader.read(stdout.as_bytes(), stderr.as_bytes(), &exited(1));
        let all = format!("{}{}", reply.text, reply.detail);
        assert!(!all.contains("canary") && all.contains("[secret OPENAI_API_KEY]"), "{all}");
    }
}

#[test]
fn every_recording_is_read_by_a_test() {
    let own = fs::read_to_string(repository().join("tests/it/agent_output.rs")).unwrap();
    for path in files_below(&repository().join("tests/cases/agents")) {
        let stem = Path::new(&path).file_stem().unwrap().to_str().unwrap();
        assert!(own.contains(&format!("\"{stem}\"")) || stem == "vendors", "{} is not read", path.display());
    }
}
