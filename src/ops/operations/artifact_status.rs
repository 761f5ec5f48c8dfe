//! `artifact.status`: declares the status of an artifact. Completion is computed, never believed.

use serde::Deserialize;

use super::artifact_write::find_artifact;
use super::state_step::{parse_input, record_change};
use crate::error::Result;
use crate::models::{ArtifactStatus, OperationId, StepResult};
use crate::ops::{Act, Operation, Site, Step};

/// Declares the status of an artifact.
pub(crate) struct ArtifactStatusSet;

/// Input of the operation. Other parameters, such as a list of missing fields, are ignored: agentd computes them.
#[derive(Debug, Deserialize)]
struct StatusInput {
    artifact: String,
    status: String,
}

impl Operation for ArtifactStatusSet {
    fn id(&self) -> OperationId {
        OperationId::ArtifactStatus
    }
}

impl Act for ArtifactStatusSet {
    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        Ok(match declare_status(site, step) {
            Ok(result) => result,
            Err(reason) => step.not_done(reason),
        })
    }
}

fn declare_status(site: &Site<'_>, step: &Step) -> std::result::Result<StepResult, String> {
    let input: StatusInput = parse_input(step)?;
    let document = site.document()?;
    let key = &input.artifact;
    let spec = find_artifact(site, key)?;
    let Some(status) = ArtifactStatus::from_name(&input.status) else {
        return Err(format!("unknown status `{}`", input.status));
    };
    if spec.fields.is_empty() {
        return Err(format!("only the user can declare `{key}` complete"));
    }

    let mut record = document.artifacts.get(key).cloned().unwrap_or_default();
    let missing = spec.progress(&record).missing;
    if status == ArtifactStatus::Complete && !missing.is_empty() {
        return Err(format!(
            "`{key}` is not complete: missing {}",
            missing.join(", ")
        ));
    }

    record.declared = Some(status);
    let computed = spec.progress(&record).status;
    let change = record_change(document, key, &record);
    let mut result = step
        .done(format!("{key} is {}", computed.name()))
        .with_changes(vec![change]);
    result.target = key.clone();
    Ok(result)
}
