//! Steps that change the state document.

use serde::de::DeserializeOwned;

use crate::models::{ArtifactRecord, StateChange, StateDocument, StepResult};
use crate::ops::Step;

/// Effect of a step on the state document.
pub(super) struct StateEffect {
    /// Summary of the result, for the user and the agent.
    pub(super) detail: String,
    /// Change to record and apply.
    pub(super) change: StateChange,
}

/// Parses the input of a step and runs it. `target` returns the part of the state that the input is about.
pub(super) fn run_state_step<I: DeserializeOwned>(
    step: &Step,
    target: impl Fn(&I) -> &str,
    run: impl FnOnce(I) -> Result<StateEffect, String>,
) -> StepResult {
    let content = step.content.as_deref().unwrap_or_default();
    let input: I = match serde_json::from_str(content) {
        Ok(input) => input,
        Err(error) => return step.not_done(format!("invalid parameters: {error}")),
    };

    let target = target(&input).to_owned();
    let result = match run(input) {
        Ok(effect) => step.done(effect.detail).with_changes(vec![effect.change]),
        Err(reason) => step.not_done(reason),
    };
    StepResult { target, ..result }
}

/// Returns the change that replaces the record of an artifact.
pub(super) fn record_change(
    document: &StateDocument,
    key: &str,
    record: &ArtifactRecord,
) -> StateChange {
    let value = |record: &ArtifactRecord| serde_json::to_value(record).ok();
    StateChange {
        path: format!("artifacts.{key}"),
        from: document.artifacts.get(key).and_then(value),
        to: value(record),
    }
}
