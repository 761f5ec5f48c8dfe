//! Cases of a probe: a request and the right reply. They are data of the probe's pack.

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
    /// Words that the message contains, ignoring case.
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

/// Loads the cases of the probe.
pub(crate) fn load_cases(places: &SearchPath) -> Result<Vec<ProbeCase>> {
    let name = format!("packs/{PROBE_PACK}/{CASES_FILE}");
    let Some(prose) = places.find(&name)? else {
        let message = format!("missing file {name}");
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
        let message = "unsupported format of probe cases; expected 1".to_owned();
        return Err(invalid(file.format.referenced, message));
    }

    let mut names = BTreeSet::new();
    for case in &file.cases {
        if case.value.expect.task().is_none() {
            let message =
                "a case needs exactly one of `message`, `action` and `verdict`".to_owned();
            return Err(invalid(case.referenced, message));
        }
        if !names.insert(case.value.name.clone()) {
            let message = format!("duplicate case `{}`", case.value.name);
            return Err(invalid(case.referenced, message));
        }
    }
    if names.is_empty() {
        let message = "no cases".to_owned();
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
    /// Returns the kind of reply that is requested.
    pub(crate) fn task(&self) -> ProbeTask {
        // `load_cases` refuses a case without one.
        self.expect.task().unwrap_or(ProbeTask::Message)
    }

    /// Returns true if agentd would take from the reply what the case expects, and nothing else.
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

/// Returns true if a response is one complete message that contains the words, ignoring case.
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

/// Returns true if a complete response contains the expected action, no other one, and no proposal: an action that was
/// not clear enough to be run.
fn has_only_action(response: &Response, expected: &ExpectedAction) -> bool {
    let is_expected = match &response.actions[..] {
        [action] => action.name == expected.name && action.values == expected.values,
        _ => false,
    };
    is_expected && response.proposals.is_empty() && response.complete
}
