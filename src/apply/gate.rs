//! The gate of a mode as a checklist.

use std::fmt;

use serde::Serialize;

use super::gate_facts;
use crate::error::Result;
use crate::models::{ArtifactProgress, Mode, State};
use crate::pack::{Pack, Rule};

/// Fact with the status of an artifact.
const STATUS_FACT: &str = "status";

/// Maximum number of missing fields that a line of the checklist names.
const MAX_NAMED_FIELDS: usize = 6;

/// Conditions for leaving a mode, each with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the name says it all")]
pub struct GateChecklist {
    pub conditions: Vec<GateCondition>,
}

/// A condition for leaving a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GateCondition {
    /// The condition as a rule of the pack.
    pub rule: String,
    /// Title of the artifact that the condition is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// True if the condition holds.
    pub holds: bool,
    /// Fields that the artifact lacks; empty if the condition holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Returns the gate of a mode, condition by condition; `None` for a mode without a gate.
///
/// # Errors
///
/// `UnknownMode`.
pub fn gate_checklist(pack: &Pack, state: &State, mode: &Mode) -> Result<Option<GateChecklist>> {
    let Some(gate) = &pack.mode(mode)?.gate else {
        return Ok(None);
    };

    let facts = gate_facts(pack, state);
    let artifacts = pack.artifact_progress(&state.document);
    let conditions = gate.conjuncts().into_iter().map(|rule| {
        let holds = rule.holds(&facts);
        let artifact = find_artifact(&rule, &artifacts);
        let missing = artifact
            .filter(|_| !holds)
            .map(|artifact| missing_fields(pack, artifact));
        GateCondition {
            rule: rule.to_string(),
            artifact: artifact.map(|artifact| artifact.name.clone()),
            holds,
            missing: missing.unwrap_or_default(),
        }
    });
    Ok(Some(GateChecklist {
        conditions: conditions.collect(),
    }))
}

/// Returns the artifact whose status a condition tests; `None` if it tests anything else, too.
fn find_artifact<'a>(
    rule: &Rule,
    artifacts: &'a [ArtifactProgress],
) -> Option<&'a ArtifactProgress> {
    let names = rule.names();
    let [(STATUS_FACT, Some(key))] = names[..] else {
        return None;
    };
    artifacts.iter().find(|artifact| artifact.key() == key)
}

/// Returns the fields that an artifact lacks: all required ones if the state lists none.
fn missing_fields(pack: &Pack, artifact: &ArtifactProgress) -> Vec<String> {
    let mut specs = pack.artifacts.values();
    let Some(spec) = specs.find(|spec| spec.title == artifact.name) else {
        return artifact.missing.clone();
    };
    let lists_fields = !artifact.missing.is_empty() || !artifact.completed.is_empty();
    spec.fields
        .iter()
        .filter(|(name, _)| !lists_fields || artifact.missing.contains(name))
        .map(|(_, field)| field.title.clone())
        .collect()
}

impl GateChecklist {
    /// Returns true if all conditions hold.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.conditions.iter().all(|condition| condition.holds)
    }

    /// Returns the conditions that do not hold, in short: `Impact (2 missing), Timeline`.
    #[must_use]
    pub fn summarize_unmet(&self) -> String {
        let unmet = self.conditions.iter().filter(|condition| !condition.holds);
        let short: Vec<String> = unmet.map(GateCondition::summarize).collect();
        short.join(", ")
    }
}

impl GateCondition {
    fn title(&self) -> &str {
        self.artifact.as_deref().unwrap_or(&self.rule)
    }

    fn summarize(&self) -> String {
        match self.missing.len() {
            0 => self.title().to_owned(),
            count => format!("{} ({count} missing)", self.title()),
        }
    }
}

impl fmt::Display for GateChecklist {
    /// Writes one line for each condition: `[x] Impact`, `[ ] Timeline: missing Start`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, condition) in self.conditions.iter().enumerate() {
            let line_break = if index > 0 { "\n" } else { "" };
            let mark = if condition.holds { 'x' } else { ' ' };
            write!(f, "{line_break}[{mark}] {condition}")?;
        }
        Ok(())
    }
}

impl fmt::Display for GateCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())?;
        if self.missing.is_empty() {
            return Ok(());
        }

        let named: Vec<&str> = self.missing.iter().map(String::as_str).collect();
        let rest = named.len().saturating_sub(MAX_NAMED_FIELDS);
        let named = &named[..named.len() - rest];
        write!(f, ": missing {}", named.join(", "))?;
        match rest {
            0 => Ok(()),
            rest => write!(f, " and {rest} more"),
        }
    }
}
