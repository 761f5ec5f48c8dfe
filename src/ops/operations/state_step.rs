//! Input and changes of the operations that change the state document.

use serde::de::DeserializeOwned;

use crate::models::{ArtifactRecord, StateChange, StateDocument};
use crate::ops::Step;

/// Parses the input of a step: the parameters of the operation as JSON.
pub(super) fn parse_input<T: DeserializeOwned>(step: &Step) -> Result<T, String> {
    let content = step.content.as_deref().unwrap_or_default();
    serde_json::from_str(content).map_err(|error| format!("invalid parameters: {error}"))
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
