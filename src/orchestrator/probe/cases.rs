//! The cases of a probe: what is asked, and what of a reply is right. Both are data.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::models::{ReviewResult, Task};
use crate::orchestrator::turn::TurnReport;
use crate::pack::{PROBE_PACK, Places};
use crate::text::yaml::{self, Placed};

/// The file of the cases, beside the pack.
const CASES: &str = "cases.yaml";

/// A request of which it is known what a right reply is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Its name.
    pub(crate) name: String,
    /// What the agent is asked.
    pub(crate) ask: String,
    expect: Expected,
}

/// What a right reply holds: one of these.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// Words of a message, in any case.
    message: Option<Vec<String>>,
    /// An action.
    action: Option<ExpectedAction>,
    /// A verdict.
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
struct Written {
    format: Placed<u64>,
    cases: Vec<Placed<Case>>,
}

/// Reads the cases of the probe.
pub(crate) fn cases(places: &Places) -> Result<Vec<Case>> {
    let name = format!("packs/{PROBE_PACK}/{CASES}");
    let Some(prose) = places.find(&name)? else {
        return Err(Error::new(
            ErrorKind::PackInvalid,
            format!("there is no {name}"),
        ));
    };
    let (text, origin) = (prose.text.as_ref(), prose.origin.as_str());
    let written: Written = yaml::read(text, origin, 1, ErrorKind::PackInvalid)?;
    let invalid = |location, message: String| {
        Error::new(ErrorKind::PackInvalid, message)
            .with_place(yaml::place(text, origin, 1, location))
    };
    if written.format.value != 1 {
        return Err(invalid(
            written.format.referenced,
            "only cases of format 1 are understood".to_owned(),
        ));
    }
    let mut names = BTreeSet::new();
    for case in &written.cases {
        if case.value.expect.task().is_none() {
            let message = "a case expects one of `message`, `action` and `verdict`".to_owned();
            return Err(invalid(case.referenced, message));
        }
        if !names.insert(case.value.name.clone()) {
            let message = format!("the name `{}` stands twice", case.value.name);
            return Err(invalid(case.referenced, message));
        }
    }
    if names.is_empty() {
        return Err(invalid(
            written.format.referenced,
            "there are no cases".to_owned(),
        ));
    }
    Ok(written.cases.into_iter().map(|case| case.value).collect())
}

impl Expected {
    fn task(&self) -> Option<Task> {
        match (&self.message, &self.action, &self.verdict) {
            (Some(_), None, None) => Some(Task::Message),
            (None, Some(_), None) => Some(Task::Action),
            (None, None, Some(_)) => Some(Task::Verdict),
            _ => None,
        }
    }
}

impl Case {
    /// Returns what it asks for.
    pub(crate) fn task(&self) -> Task {
        // Reading has refused a case without one.
        self.expect.task().unwrap_or(Task::Message)
    }

    /// Tells whether a reply is right, by what the program would take from it.
    pub(crate) fn is_right(&self, report: &TurnReport) -> bool {
        let response = &report.response;
        let Expected {
            message,
            action,
            verdict,
        } = &self.expect;
        if let Some(words) = message {
            let said = response.message.to_lowercase();
            let alone = response.actions.is_empty()
                && response.updates.is_empty()
                && response.markers.is_empty()
                && response.proposals.is_empty()
                && response.stray.is_empty();
            return response.messages == 1
                && alone
                && response.complete
                && response.problems.is_empty()
                && words.iter().all(|word| said.contains(&word.to_lowercase()));
        }
        if let Some(expected) = action {
            let asked = match &response.actions[..] {
                [asked] => asked.name == expected.name && asked.values == expected.values,
                _ => false,
            };
            // What was asked for and not clearly enough would have been asked for beside it.
            return asked && response.proposals.is_empty() && response.complete;
        }
        report.verdict.is_some() && report.verdict == *verdict
    }
}
