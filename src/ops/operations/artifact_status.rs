//! `artifact.status`: declares the status of an artifact. Completion is computed, never believed.

use serde::Deserialize;

use super::artifact_write::find_artifact;
use super::state_step::{StateEffect, record_change, run_state_step};
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
        Ok(run_state_step(
            step,
            |input: &StatusInput| &input.artifact,
            |input| declare_status(site, &input, step.is_of_user()),
        ))
    }
}

fn declare_status(
    site: &Site<'_>,
    input: &StatusInput,
    is_user: bool,
) -> std::result::Result<StateEffect, String> {
    let document = site.document()?;
    let key = &input.artifact;
    let spec = find_artifact(site, key)?;
    let Some(status) = ArtifactStatus::from_name(&input.status) else {
        return Err(format!("unknown status `{}`", input.status));
    };
    // Without fields there is nothing to compute the status from, so an agent's claim does not count.
    if spec.fields.is_empty() && !is_user {
        return Err(format!("only the user can declare `{key}` complete"));
    }

    let mut record = document.artifacts.get(key).cloned().unwrap_or_default();
    record.declared = Some(status);
    let computed = spec.progress(&record).status;
    if computed != status {
        let missing = match spec.describe_missing(&record).as_slice() {
            [] => String::new(),
            missing => format!(": missing {}", missing.join(", ")),
        };
        return Err(format!(
            "`{key}` is {}, not {}{missing}",
            computed.name(),
            status.name()
        ));
    }

    Ok(StateEffect {
        detail: format!("{key} is {}", status.name()),
        change: record_change(document, key, &record),
    })
}
