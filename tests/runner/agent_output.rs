//! Agent output as a reply: recorded runs of real agents (`agents/`), and single outputs (`output/`).

use agentd::ErrorKind;
use agentd::agent::{CommandExit, ExitCause};
use agentd::models::{CallOutcome, Reply, UsageMetrics};
use agentd::text::yaml;
use libtest_mimic::Trial;
use serde::Deserialize;

use crate::support::agent_output::{Recording, exited, read, vendors};
use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    let recordings = Recording::all().into_iter().map(recording_trial);
    recordings
        .chain(trials_of("output", check_output))
        .collect()
}

fn recording_trial(recording: Recording) -> Trial {
    let name = format!("agents/{}/{}", recording.cli, recording.case);
    Trial::test(name, move || {
        let faults = recording.faults(&vendors());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        Ok(())
    })
}

/// The output of an agent, its exit, and the expected reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputCase {
    /// Name of a definition in `vendors.yaml` or in `definition`.
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
    cause: Option<ExitCause>,
    end: CallOutcome,
    #[serde(default)]
    text: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    usage: UsageMetrics,
    /// `None` where the case does not check it.
    #[serde(default)]
    tool_calls: Option<u64>,
}

fn check_output(text: &str) {
    let case: OutputCase = yaml::read(text, "case", 1, ErrorKind::ConfigInvalid).unwrap();
    let mut agents = vendors();
    if let Some(definition) = &case.definition {
        agents = agents.overlaid(definition, "case").unwrap();
    }

    let exit = CommandExit {
        cause: case.cause.unwrap_or(ExitCause::Ended),
        ..exited(case.code)
    };
    let reply = read(
        &agents,
        &case.agent,
        case.stdout.as_bytes(),
        case.stderr.as_bytes(),
        &exit,
    );
    let expected = Reply {
        text: case.text,
        usage: case.usage,
        end: case.end,
        detail: case.detail,
        left_behind: 0,
        tool_calls: case.tool_calls.or(reply.tool_calls),
    };
    assert_eq!(reply, expected);
}
