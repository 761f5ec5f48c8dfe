//! The gate of a mode as a checklist.

use std::fmt;

use serde::Serialize;

use super::gate_facts;
use crate::error::Result;
use crate::models::{ArtifactProgress, ArtifactStatus, Event, Mode, State};
use crate::pack::{CommandSpec, Pack, RequiredValue, Rule};

/// Fact with the status of an artifact.
const STATUS_FACT: &str = "status";

/// Fact with the value of a field of the state.
const STATE_FACT: &str = "state";

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
    /// Command of the user that meets the condition, without `/`; `None` if the condition holds or the mode has no such
    /// command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Field of the state that the condition is about, if it is about one.
    #[serde(skip)]
    field: Option<RequiredField>,
}

/// A field of the state, and the value that it must have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequiredField {
    path: String,
    value: String,
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
        let required = rule.required_value();
        GateCondition {
            rule: rule.to_string(),
            command: required
                .filter(|_| !holds)
                .and_then(|required| find_command(pack, mode, required)),
            field: required.and_then(required_field),
            artifact: artifact.map(|artifact| artifact.name.clone()),
            holds,
            missing: missing.unwrap_or_default(),
        }
    });
    Ok(Some(GateChecklist {
        conditions: conditions.collect(),
    }))
}

/// Returns the closed gates between two modes in the pack's order, with the modes that they belong to. There are none on
/// the way back.
///
/// # Errors
///
/// `UnknownMode`.
pub fn closed_gates(
    pack: &Pack,
    state: &State,
    from: &Mode,
    to: &Mode,
) -> Result<Vec<(Mode, GateChecklist)>> {
    let left = pack.mode_index(from)..pack.mode_index(to);
    let mut closed = Vec::new();
    for mode in pack.modes.keys() {
        if left.contains(&pack.mode_index(mode))
            && let Some(gate) = gate_checklist(pack, state, mode)?
            && !gate.is_open()
        {
            closed.push((mode.clone(), gate));
        }
    }
    Ok(closed)
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

/// Returns the field of the state that a condition is about; `None` if it is about something else.
fn required_field(required: RequiredValue<'_>) -> Option<RequiredField> {
    let path = required
        .argument
        .filter(|_| required.fact == STATE_FACT && !required.value.is_empty())?;
    Some(RequiredField {
        path: path.to_owned(),
        value: required.value.to_owned(),
    })
}

/// Returns the name of the first command in a mode that gives a fact the required value.
fn find_command(pack: &Pack, mode: &Mode, required: RequiredValue<'_>) -> Option<String> {
    let argument = required.argument?;
    let meets = |command: &CommandSpec| match required.fact {
        STATE_FACT => command.sets_field(argument, required.value),
        STATUS_FACT => ArtifactStatus::from_name(required.value)
            .is_some_and(|status| command.declares_status(argument, status)),
        _ => false,
    };
    let mut commands = pack.commands_of(mode);
    let (name, _) = commands.find(|(_, command)| meets(command))?;
    Some(name.clone())
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
    /// Returns the event of leaving a mode although its gate is closed.
    #[must_use]
    pub fn skipped(&self, mode: Mode) -> Event {
        let unmet = self.summarize_unmet();
        Event::GateSkipped {
            risk: format!("left {mode} before its gate was open: {unmet}"),
            mode,
        }
    }

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
    fn title(&self) -> String {
        match (&self.artifact, &self.field) {
            (Some(artifact), _) => artifact.clone(),
            (None, Some(field)) => format!("{} is {}", field.path, field.value),
            (None, None) => self.rule.clone(),
        }
    }

    /// Returns a condition that does not hold, in short.
    fn summarize(&self) -> String {
        match (&self.field, self.missing.len()) {
            (Some(field), _) => format!("{} is not {}", field.path, field.value),
            (None, 0) => self.title(),
            (None, count) => format!("{} ({count} missing)", self.title()),
        }
    }
}

impl fmt::Display for GateChecklist {
    /// Writes one line for each condition: `[x] Impact`, `[ ] Timeline: missing Start`, `[ ] Report: use /sign-off`.
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
        f.write_str(&self.title())?;
        if self.missing.is_empty() {
            return match &self.command {
                Some(command) => write!(f, ": use /{command}"),
                None => Ok(()),
            };
        }

        let named: Vec<&str> = self.missing.iter().map(String::as_str).collect();
        let rest = named.len().saturating_sub(MAX_NAMED_FIELDS);
        let named = &named[..named.len() - rest];
        write!(f, ": missing {}", named.join(", "))?;
        if rest > 0 {
            write!(f, " and {rest} more")?;
        }
        match &self.command {
            Some(command) => write!(f, "; then use /{command}"),
            None => Ok(()),
        }
    }
}
