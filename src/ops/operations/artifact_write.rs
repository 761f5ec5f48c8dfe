//! `artifact.write`: writes fields of an artifact, merged with the edits of the user.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::state_step::{parse_input, record_change};
use crate::error::Result;
use crate::models::{ArtifactRecord, ArtifactSpec, OperationId, StepResult};
use crate::ops::artifact_file::{field_text, read_artifact, write_artifact};
use crate::ops::fs::{read_project_text, write_text};
use crate::ops::{Act, Operation, Site, Step};

/// Writes fields of an artifact into its file.
///
/// The merge is three-way and per field: the base is the text that the ledger has, the two sides are the file and the
/// request. A field that the user has edited since is kept, and the request's text is reported as a conflict.
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
        Ok(match write_fields(site, step) {
            Ok(result) => result,
            Err(reason) => step.not_done(reason),
        })
    }
}

fn write_fields(site: &Site<'_>, step: &Step) -> std::result::Result<StepResult, String> {
    let input: WriteInput = parse_input(step)?;
    let document = site.document()?;
    let key = &input.artifact;
    let spec = find_artifact(site, key)?;
    let Some(path) = &spec.file else {
        return Err(format!("artifact `{key}` has no file"));
    };
    let texts = requested_texts(spec, &input.content)?;

    let record = document.artifacts.get(key).cloned().unwrap_or_default();
    let current = read_project_text(site.root, path).map_err(|error| error.to_string())?;
    let in_file = read_artifact(spec, current.as_deref().unwrap_or_default());
    let merged = merge_fields(&record, &in_file, texts);
    if merged.accepted.is_empty() {
        return Err(format!(
            "you edited {} in {path}; the text of the reply was not written",
            merged.conflicts.join(", ")
        ));
    }

    let file = write_artifact(key, spec, current.as_deref(), &merged.accepted)?;
    if current.as_deref() != Some(file.as_str()) {
        write_text(site.root, path, &file).map_err(|error| error.to_string())?;
    }

    // Other fields are recorded when the next turn reads the file, without the user's secrets.
    let mut new = record;
    new.fields.extend(merged.accepted.clone());
    let names: Vec<&str> = merged.accepted.keys().map(String::as_str).collect();
    let mut detail = format!("wrote {} in {path}", names.join(", "));
    if !merged.conflicts.is_empty() {
        detail.push_str(&format!(
            "; kept your text of {}",
            merged.conflicts.join(", ")
        ));
    }

    let change = record_change(document, key, &new);
    let mut result = step.done(detail).with_changes(vec![change]);
    result.target = key.clone();
    Ok(result)
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

/// Returns the texts of the requested fields, all of which must exist.
fn requested_texts(
    spec: &ArtifactSpec,
    content: &Map<String, Value>,
) -> std::result::Result<IndexMap<String, String>, String> {
    let mut texts = IndexMap::new();
    for (name, value) in content {
        let Some(field) = spec.fields.get(name) else {
            let known: Vec<&str> = spec.fields.keys().map(String::as_str).collect();
            return Err(format!(
                "unknown field `{name}`; expected {}",
                known.join(", ")
            ));
        };
        let text =
            field_text(field, value).map_err(|message| format!("field `{name}`: {message}"))?;
        if text.is_empty() {
            return Err(format!("field `{name}` is empty"));
        }
        texts.insert(name.clone(), text);
    }

    if texts.is_empty() {
        return Err("no field is given".to_owned());
    }
    Ok(texts)
}

/// Requested fields, divided into those to write and those that the user has edited.
struct MergedFields {
    accepted: IndexMap<String, String>,
    conflicts: Vec<String>,
}

/// Merges the requested texts with the file. `record` is the content at the last turn.
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
        let is_unedited = current == base || current == Some(&text);
        if is_unedited {
            merged.accepted.insert(name, text);
        } else {
            merged.conflicts.push(name);
        }
    }
    merged
}
