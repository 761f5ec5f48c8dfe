//! `artifact.write`: writes fields of an artifact, merged with the edits of the user.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::state_step::{StateEffect, record_change, run_state_step};
use crate::error::Result;
use crate::models::{ArtifactRecord, ArtifactSpec, OperationId, StepResult};
use crate::ops::artifact_file::{field_text, read_artifact, write_artifact};
use crate::ops::fs::{read_project_text, write_text};
use crate::ops::{Act, Operation, Site, Step};

/// Writes fields of an artifact into its file.
///
/// The merge is three-way and per field: the base is the text that the ledger has, the two sides are the file and the
/// request. A text that the user wrote, now or before an earlier turn, is kept, and the request is reported as a conflict.
pub(crate) struct ArtifactWrite;

/// Input of the operation.
#[derive(Debug, Deserialize)]
struct WriteInput {
    artifact: String,
    content: Map<String, Value>,
}

impl Operation for ArtifactWrite {
    fn id(&self) -> OperationId {
        OperationId::ArtifactWrite
    }
}

impl Act for ArtifactWrite {
    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        Ok(run_state_step(
            step,
            |input: &WriteInput| &input.artifact,
            |input| write_fields(site, &input),
        ))
    }
}

fn write_fields(site: &Site<'_>, input: &WriteInput) -> std::result::Result<StateEffect, String> {
    let document = site.document()?;
    let key = &input.artifact;
    let spec = find_artifact(site, key)?;
    let Some(path) = &spec.file else {
        return Err(format!("artifact `{key}` has no file"));
    };
    let requested = requested_texts(spec, &input.content)?;

    let mut record = document.artifacts.get(key).cloned().unwrap_or_default();
    let current = read_project_text(site.root, path).map_err(|error| format!("{error:#}"))?;
    let in_file = read_artifact(spec, current.as_deref().unwrap_or_default());
    let merged = merge_fields(&record, &in_file, requested.texts);
    if merged.accepted.is_empty() {
        return Err(format!(
            "kept the user's text of {} in {path}; nothing was written",
            merged.conflicts.join(", ")
        ));
    }

    let file = write_artifact(key, spec, current.as_deref(), &merged.accepted)?;
    if current.as_deref() != Some(file.as_str()) {
        write_text(site.root, path, &file).map_err(|error| format!("{error:#}"))?;
    }

    let names: Vec<&str> = merged.accepted.keys().map(String::as_str).collect();
    let mut detail = format!("wrote {} in {path}", names.join(", "));
    if !merged.conflicts.is_empty() {
        let kept = merged.conflicts.join(", ");
        detail.push_str(&format!("; kept the user's text of {kept}"));
    }
    if !requested.unknown.is_empty() {
        let unknown = requested.unknown.join(", ");
        detail.push_str(&format!("; no such field: {unknown}"));
    }

    // Other fields are recorded when the next turn reads the file, without the user's secrets.
    record.fields.extend(merged.accepted);
    Ok(StateEffect {
        detail,
        change: record_change(document, key, &record),
    })
}

/// Returns an artifact of the pack.
pub(super) fn find_artifact<'a>(
    site: &Site<'a>,
    key: &str,
) -> std::result::Result<&'a ArtifactSpec, String> {
    let artifacts = site.artifacts()?;
    artifacts.get(key).ok_or_else(|| {
        let known: Vec<&str> = artifacts.keys().map(String::as_str).collect();
        format!("unknown artifact `{key}`; expected {}", known.join(", "))
    })
}

/// Requested fields: the values of known ones, and the names of others.
struct RequestedFields {
    texts: IndexMap<String, String>,
    unknown: Vec<String>,
}

/// Returns the requested fields. At least one of them must exist.
fn requested_texts(
    spec: &ArtifactSpec,
    content: &Map<String, Value>,
) -> std::result::Result<RequestedFields, String> {
    let mut requested = RequestedFields {
        texts: IndexMap::new(),
        unknown: Vec::new(),
    };
    for (name, value) in content {
        let Some(field) = spec.fields.get(name) else {
            requested.unknown.push(name.clone());
            continue;
        };
        let text =
            field_text(field, value).map_err(|message| format!("field `{name}`: {message}"))?;
        if text.is_empty() {
            return Err(format!("field `{name}` is empty"));
        }
        requested.texts.insert(name.clone(), text);
    }

    if requested.texts.is_empty() {
        let known: Vec<&str> = spec.fields.keys().map(String::as_str).collect();
        return Err(match requested.unknown.first() {
            Some(name) => format!("unknown field `{name}`; expected {}", known.join(", ")),
            None => format!("no field is given; expected {}", known.join(", ")),
        });
    }
    Ok(requested)
}

/// Requested fields, divided into those to write and those that the user has edited.
struct MergedFields {
    accepted: IndexMap<String, String>,
    conflicts: Vec<String>,
}

/// Merges the requested values with the file. `record` is the content at the last turn.
fn merge_fields(
    record: &ArtifactRecord,
    in_file: &IndexMap<String, String>,
    requested: IndexMap<String, String>,
) -> MergedFields {
    let mut merged = MergedFields {
        accepted: IndexMap::new(),
        conflicts: Vec::new(),
    };
    for (name, text) in requested {
        let base = record.fields.get(&name);
        let current = in_file.get(&name);
        let is_same = current == Some(&text);
        let is_of_the_user = record.edited.contains(&name) || current != base;
        if is_same || !is_of_the_user {
            merged.accepted.insert(name, text);
        } else {
            merged.conflicts.push(name);
        }
    }
    merged
}
