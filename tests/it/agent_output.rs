//! What an agent wrote and how it ended, read as a reply: recorded outputs of real agents, and one file per odd case.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use agentd::ErrorKind;
use agentd::agent::{Cause, Exit, Limits, OutputReader};
use agentd::config::{AgentSpec, Agents};
use agentd::models::yaml;
use agentd::models::{End, Reply, UsageMetrics};
use agentd::orchestrator::parse_review_marker;
use agentd::pack::{AGENTS, SECRET_NAMES};
use agentd::secret::Secrets;
use serde::Deserialize;

use crate::support::{files_below, repository};

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
    read_as(agents.find(agent).unwrap(), agents, stdout, stderr, exit)
}

fn read_as(spec: &AgentSpec, agents: &Agents, stdout: &[u8], stderr: &[u8], exit: &Exit) -> Reply {
    let secrets = Secrets::default();
    let failures = agents.failures();
    OutputReader { spec, failures, secrets: &secrets, limits: Limits::default() }.read(stdout, stderr, exit)
}

/// A run of a real agent, and the reply that must come of it: a row of `recordings.yaml`, which says what is what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    cli: String,
    case: String,
    format: String,
    exit: i32,
    end: End,
    #[serde(default)]
    text: String,
    #[serde(default)]
    raw: bool,
    #[serde(default)]
    usage: [Option<u64>; 6],
    /// Said by the rows that are about it.
    tool_calls: Option<u64>,
    #[serde(default)]
    detail: Vec<String>,
    #[serde(default)]
    note: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recordings {
    recordings: Vec<Recording>,
}

impl Recording {
    fn all() -> Vec<Self> {
        let path = repository().join("tests/cases/agents/recordings.yaml");
        let written = fs::read_to_string(path).unwrap();
        let table: Recordings = yaml::read(&written, "recordings.yaml", 1, ErrorKind::ConfigInvalid).unwrap();
        table.recordings
    }

    /// Returns what it wrote to stdout and to stderr.
    fn written(&self) -> (Vec<u8>, Vec<u8>) {
        let folder = repository().join("tests/cases/agents").join(&self.cli);
        let part = |name: &str| fs::read(folder.join(format!("{}.{name}", self.case)));
        (part("stdout").unwrap(), part("stderr").unwrap_or_default())
    }

    /// Returns the definition that reads its format: the shipped one if that asks for it.
    fn definition(&self, agents: &Agents) -> AgentSpec {
        let shipped = agents.find(&self.cli).unwrap();
        let asked = [self.format.clone(), format!("--{}", self.format)];
        if shipped.argv.iter().flat_map(|argument| &argument.0).any(|word| asked.contains(word)) {
            return shipped.clone();
        }
        let other = agents.find(&format!("{}-{}", self.cli, self.format)).unwrap();
        AgentSpec { ends: shipped.ends.clone(), ..other.clone() }
    }

    /// Returns what is wrong with how it is read, in words.
    fn faults(&self, agents: &Agents) -> Vec<String> {
        let ((stdout, stderr), exit) = (self.written(), exited(self.exit));
        let reply = read_as(&self.definition(agents), agents, &stdout, &stderr, &exit);
        let [input, cache_read, cache_write, output, reasoning, micro_dollars] = self.usage;
        let expected = Reply {
            text: if self.raw { String::from_utf8(stdout.clone()).unwrap() } else { self.text.clone() },
            usage: UsageMetrics {
                input_tokens: input,
                cache_read_tokens: cache_read,
                cache_write_tokens: cache_write,
                output_tokens: output,
                reasoning_tokens: reasoning,
                micro_dollars,
            },
            end: self.end.clone(),
            detail: reply.detail.clone(),
            left_behind: 0,
            tool_calls: self.tool_calls.map_or(reply.tool_calls, Some),
        };
        let mut faults = Vec::new();
        if reply != expected {
            faults.push(format!("is {reply:?}, not {expected:?}"));
        }
        let lacks = self.detail.iter().any(|words| !reply.detail.contains(words.as_str()));
        if lacks || reply.detail.is_empty() != self.detail.is_empty() {
            faults.push(format!("has the detail {:?}, not {:?}", reply.detail, self.detail));
        }
        let shipped = read(agents, &self.cli, &stdout, &stderr, &exit);
        if !self.end.is_ok() && shipped.end.is_ok() {
            faults.push("is a failure that the shipped definition takes for a reply".to_owned());
        }
        // Where stdout has one event or nothing, a failure looks the same in every format.
        let shipped = Reply { tool_calls: reply.tool_calls, ..shipped };
        if !self.end.is_ok() && !stdout.trim_ascii().contains(&b'\n') && shipped != reply {
            faults.push(format!("is {shipped:?} by the shipped definition"));
        }
        faults.iter().map(|fault| format!("{} {} {fault} ({})", self.cli, self.case, self.note)).collect()
    }
}

#[test]
fn every_recorded_run_is_read_as_its_row_says() {
    let agents = vendors();
    let faults: Vec<String> = Recording::all().iter().flat_map(|row| row.faults(&agents)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_recording_has_one_row_and_every_row_a_recording() {
    let folder = repository().join("tests/cases/agents");
    let tables = ["vendors.yaml", "recordings.yaml"].map(PathBuf::from);
    let files = files_below(&folder).into_iter().filter(|file| !tables.contains(file));
    let recorded: BTreeSet<PathBuf> = files.map(|file| file.with_extension("")).collect();
    let rows: Vec<PathBuf> =
        Recording::all().iter().map(|row| PathBuf::from(&row.cli).join(&row.case)).collect();
    let named: BTreeSet<PathBuf> = rows.iter().cloned().collect();
    let alone: Vec<&PathBuf> = named.symmetric_difference(&recorded).collect();
    assert!(alone.is_empty(), "these lack their row, or their recording: {alone:?}");
    assert_eq!(rows.len(), recorded.len(), "a row stands twice");
    assert_eq!(rows.len(), 133);
}

/// Its exit code is the status of HTTP modulo 256, and has to do where its words are not known.
#[test]
fn a_status_of_gemini_is_told_by_its_exit_code_alone() {
    let agents = vendors();
    let all = Recording::all();
    let rows: Vec<&Recording> = all.iter().filter(|row| row.cli == "gemini" && row.exit > 128).collect();
    let codes: BTreeSet<i32> = rows.iter().map(|row| row.exit).collect();
    assert_eq!(codes, [400, 401, 403, 413, 429, 500, 503].map(|status| status % 256).into());
    for row in rows {
        assert_eq!(read(&agents, "gemini", b"", b"", &exited(row.exit)).end, row.end, "{}", row.case);
    }
}

/// Where an output does not tell that a reply was cut, the verdict that it lacks does.
#[test]
fn a_reply_that_was_cut_has_no_verdict() {
    let rows: Vec<Recording> = Recording::all().into_iter().filter(|row| row.case == "stop-length").collect();
    assert_eq!(rows.iter().filter(|row| row.end.is_ok()).count(), 2);
    for row in rows {
        let error = parse_review_marker(&row.text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MissingReviewMarker, "{}", row.cli);
    }
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
    /// Said by the cases that are about it.
    #[serde(default)]
    tool_calls: Option<u64>,
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
        let expected = Reply {
            text: case.text,
            usage: case.usage,
            end: case.end,
            detail: case.detail,
            left_behind: 0,
            tool_calls: case.tool_calls.or(reply.tool_calls),
        };
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
