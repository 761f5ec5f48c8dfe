//! Recorded outputs of real agents, and how to read them.

use std::fs;

use agentd::ErrorKind;
use agentd::agent::{CommandExit, ExitCause, Limits, OutputReader};
use agentd::config::{AgentSpec, Agents};
use agentd::models::{CallOutcome, Reply, UsageMetrics};
use agentd::pack::{AGENTS, SECRET_NAMES};
use agentd::secret::Secrets;
use agentd::text::yaml;
use serde::Deserialize;

use super::{read_data, repository};

pub(crate) fn shipped() -> Agents {
    Agents::read(AGENTS, "built-in:data/agents.yaml")
        .unwrap()
        .with_secrets(SECRET_NAMES)
}

pub(crate) fn vendors() -> Agents {
    shipped()
        .overlaid(&read_data("agents/vendors.yaml"), "vendors.yaml")
        .unwrap()
}

pub(crate) fn exited(code: i32) -> CommandExit {
    // The recordings write a signal as a negative code.
    let (code, signal) = if code < 0 {
        (None, Some(-code))
    } else {
        (Some(code), None)
    };
    CommandExit {
        code,
        signal,
        cause: ExitCause::Ended,
        left_behind: 0,
        milliseconds: 1,
    }
}

pub(crate) fn read(
    agents: &Agents,
    agent: &str,
    stdout: &[u8],
    stderr: &[u8],
    exit: &CommandExit,
) -> Reply {
    read_as(agents.find(agent).unwrap(), agents, stdout, stderr, exit)
}

pub(crate) fn read_as(
    spec: &AgentSpec,
    agents: &Agents,
    stdout: &[u8],
    stderr: &[u8],
    exit: &CommandExit,
) -> Reply {
    let secrets = Secrets::default();
    let failures = agents.failures();
    OutputReader {
        spec,
        failures,
        secrets: &secrets,
        limits: Limits::default(),
    }
    .read(stdout, stderr, exit)
}

/// A recorded run of a real agent and its expected reply: a row of `tests/data/agents/recordings.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recording {
    pub(crate) cli: String,
    pub(crate) case: String,
    format: String,
    pub(crate) exit: i32,
    pub(crate) end: CallOutcome,
    #[serde(default)]
    pub(crate) text: String,
    #[serde(default)]
    raw: bool,
    #[serde(default)]
    usage: [Option<u64>; 6],
    /// `None` where the row does not check it.
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
    pub(crate) fn all() -> Vec<Self> {
        let written = read_data("agents/recordings.yaml");
        let table: Recordings =
            yaml::read(&written, "recordings.yaml", 1, ErrorKind::ConfigInvalid).unwrap();
        table.recordings
    }

    /// Returns the recorded stdout and stderr.
    fn recorded_streams(&self) -> (Vec<u8>, Vec<u8>) {
        let folder = repository().join("tests/cases/agents").join(&self.cli);
        let part = |name: &str| fs::read(folder.join(format!("{}.{name}", self.case)));
        (part("stdout").unwrap(), part("stderr").unwrap_or_default())
    }

    /// Returns the definition that reads the recording's format: the shipped one if it requests that format.
    fn definition(&self, agents: &Agents) -> AgentSpec {
        let shipped = agents.find(&self.cli).unwrap();
        let asked = [self.format.clone(), format!("--{}", self.format)];
        if shipped
            .argv
            .iter()
            .flat_map(|argument| &argument.0)
            .any(|word| asked.contains(word))
        {
            return shipped.clone();
        }

        let other = agents
            .find(&format!("{}-{}", self.cli, self.format))
            .unwrap();
        AgentSpec {
            ends: shipped.ends.clone(),
            ..other.clone()
        }
    }

    /// Returns the differences between the recorded output as read and its row.
    pub(crate) fn faults(&self, agents: &Agents) -> Vec<String> {
        let ((stdout, stderr), exit) = (self.recorded_streams(), exited(self.exit));
        let reply = read_as(&self.definition(agents), agents, &stdout, &stderr, &exit);
        let [
            input,
            cache_read,
            cache_write,
            output,
            reasoning,
            micro_dollars,
        ] = self.usage;
        let expected = Reply {
            text: if self.raw {
                String::from_utf8(stdout.clone()).unwrap()
            } else {
                self.text.clone()
            },
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
        let lacks = self
            .detail
            .iter()
            .any(|words| !reply.detail.contains(words.as_str()));
        if lacks || reply.detail.is_empty() != self.detail.is_empty() {
            faults.push(format!(
                "has the detail {:?}, not {:?}",
                reply.detail, self.detail
            ));
        }

        let shipped = read(agents, &self.cli, &stdout, &stderr, &exit);
        if !self.end.is_ok() && shipped.end.is_ok() {
            faults.push("is a failure that the shipped definition takes for a reply".to_owned());
        }

        // Where stdout has one event or nothing, a failure looks the same in every format.
        let shipped = Reply {
            tool_calls: reply.tool_calls,
            ..shipped
        };
        if !self.end.is_ok() && !stdout.trim_ascii().contains(&b'\n') && shipped != reply {
            faults.push(format!("is {shipped:?} by the shipped definition"));
        }
        faults
            .iter()
            .map(|fault| format!("{} {} {fault} ({})", self.cli, self.case, self.note))
            .collect()
    }
}
