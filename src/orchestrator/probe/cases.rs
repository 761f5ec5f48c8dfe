//! Cases of a probe: requests with a known right reply, read from the pack of the probe.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::models::{ProbeTask, Response, ReviewResult};
use crate::orchestrator::turn::TurnReport;
use crate::pack::{PROBE_PACK, SearchPath};
use crate::text::yaml::{self, WithPlace};

/// File with the cases, in the folder of the pack.
const CASES_FILE: &str = "cases.yaml";

/// A request with a known right reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProbeCase {
    pub(crate) name: String,
    /// Instructions for the agent.
    pub(crate) ask: String,
    expect: ExpectedReply,
}

/// Content of the right reply. Exactly one field is set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedReply {
    /// Words that the message must contain, ignoring case.
    message: Option<Vec<String>>,
    action: Option<ExpectedAction>,
    verdict: Option<ReviewResult>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedAction {
    name: String,
    values: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CasesFile {
    format: WithPlace<u64>,
    cases: Vec<WithPlace<ProbeCase>>,
}

/// Reads the cases from `cases.yaml` in the pack of the probe.
///
/// # Errors
///
/// `PackInvalid` if the file is missing, is malformed, or has no cases.
pub(crate) fn load_cases(places: &SearchPath) -> Result<Vec<ProbeCase>> {
    let name = format!("packs/{PROBE_PACK}/{CASES_FILE}");
    let Some(prose) = places.find(&name)? else {
        let message = format!("pack `{PROBE_PACK}` has no file `{CASES_FILE}`");
        return Err(Error::new(ErrorKind::PackInvalid, message));
    };

    let text = prose.text.as_ref();
    let origin = prose.origin.as_str();
    let file: CasesFile = yaml::read(text, origin, 1, ErrorKind::PackInvalid)?;
    let invalid = |location, message: String| {
        Error::new(ErrorKind::PackInvalid, message)
            .with_place(yaml::place(text, origin, 1, location))
    };
    if file.format.value != 1 {
        let format = file.format.value;
        let message = format!("unsupported format {format} of probe cases; expected 1");
        return Err(invalid(file.format.referenced, message));
    }

    let mut names = BTreeSet::new();
    for case in &file.cases {
        if case.value.expect.task().is_none() {
            let message = format!(
                "case `{}` needs exactly one of `message`, `action` and `verdict`",
                case.value.name
            );
            return Err(invalid(case.referenced, message));
        }
        if !names.insert(case.value.name.clone()) {
            let message = format!("duplicate case `{}`", case.value.name);
            return Err(invalid(case.referenced, message));
        }
    }
    if names.is_empty() {
        let message = format!("{CASES_FILE} has no cases");
        return Err(invalid(file.format.referenced, message));
    }
    Ok(file.cases.into_iter().map(|case| case.value).collect())
}

impl ExpectedReply {
    /// Returns the task that the set field belongs to; `None` unless exactly one is set.
    fn task(&self) -> Option<ProbeTask> {
        match (&self.message, &self.action, &self.verdict) {
            (Some(_), None, None) => Some(ProbeTask::Message),
            (None, Some(_), None) => Some(ProbeTask::Action),
            (None, None, Some(_)) => Some(ProbeTask::Verdict),
            _ => None,
        }
    }
}

impl ProbeCase {
    /// Returns the kind of reply that the case asks for.
    pub(crate) fn task(&self) -> ProbeTask {
        // `load_cases` fails for a case without a task, so the default is never used.
        self.expect.task().unwrap_or(ProbeTask::Message)
    }

    /// Returns true if a reply is right.
    ///
    /// The rules differ by task: a message must be the only content of a complete reply without any tolerated
    /// deviation; an action must be the only action of a complete reply, but text and deviations are allowed; a verdict
    /// only has to be the expected one.
    pub(crate) fn is_right(&self, report: &TurnReport) -> bool {
        let response = &report.response;
        if let Some(words) = &self.expect.message {
            return has_only_message(response, words);
        }
        if let Some(expected) = &self.expect.action {
            return has_only_action(response, expected);
        }
        report.verdict.is_some() && report.verdict == self.expect.verdict
    }
}

/// Returns true if a response is complete, without tolerated deviations, and contains one message and nothing else but
/// thoughts. The message must contain all words, ignoring case.
fn has_only_message(response: &Response, words: &[String]) -> bool {
    let has_nothing_else = response.actions.is_empty()
        && response.updates.is_empty()
        && response.markers.is_empty()
        && response.proposals.is_empty()
        && response.stray.is_empty();
    let is_well_formed = response.complete && response.problems.is_empty();
    let message = response.message.to_lowercase();
    let has_words = words
        .iter()
        .all(|word| message.contains(&word.to_lowercase()));

    response.messages == 1 && has_nothing_else && is_well_formed && has_words
}

/// Returns true if a response is complete and contains the expected action, no other action, and no rejected
/// effect. Messages, updates and tolerated deviations are not checked.
fn has_only_action(response: &Response, expected: &ExpectedAction) -> bool {
    let is_expected = match &response.actions[..] {
        [action] => action.name == expected.name && action.values == expected.values,
        _ => false,
    };
    is_expected && response.proposals.is_empty() && response.complete
}
