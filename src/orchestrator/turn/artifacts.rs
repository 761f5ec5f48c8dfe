//! Edits of artifact files by the user, recorded before the next prompt is composed.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use crate::error::Result;
use crate::models::{ArtifactRecord, ChangeCause, Event, State, StateChange};
use crate::ops::{read_artifact, read_project_text};
use crate::orchestrator::workspace::Workspace;

/// Returns the event that brings the state in line with the artifact files; `None` if no file was edited since.
pub(crate) fn observe_artifacts(workspace: &Workspace, state: &State) -> Result<Option<Event>> {
    let mut changes = Vec::new();
    for (key, spec) in &workspace.pack.artifacts {
        let Some(file) = &spec.file else { continue };
        let text = read_project_text(&workspace.root, file)?.unwrap_or_default();
        let fields = read_artifact(spec, &workspace.secrets.redact(&text));

        let known = state.document.artifacts.get(key);
        let known_fields = known.map(|record| &record.fields);
        let is_unchanged = match known_fields {
            Some(known) => *known == fields,
            None => fields.is_empty(),
        };
        if is_unchanged {
            continue;
        }

        let record = ArtifactRecord {
            edited: edited_fields(known, &fields),
            fields,
            declared: known.and_then(|record| record.declared),
        };
        changes.push(StateChange {
            path: format!("artifacts.{key}"),
            from: known.and_then(|record| serde_json::to_value(record).ok()),
            to: serde_json::to_value(&record).ok(),
        });
    }

    if changes.is_empty() {
        return Ok(None);
    }
    Ok(Some(Event::StateChanged {
        changes,
        cause: ChangeCause::Files,
    }))
}

/// Returns the fields whose text is the user's: those edited before, and those that differ from the recorded text.
fn edited_fields(
    known: Option<&ArtifactRecord>,
    in_file: &IndexMap<String, String>,
) -> BTreeSet<String> {
    in_file
        .iter()
        .filter(|(name, text)| {
            let is_known_text = known.is_some_and(|known| known.fields.get(*name) == Some(*text));
            let was_edited = known.is_some_and(|known| known.edited.contains(*name));
            was_edited || !is_known_text
        })
        .map(|(name, _)| name.clone())
        .collect()
}
