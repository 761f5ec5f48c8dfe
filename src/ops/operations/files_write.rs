//! `files.write`: writes files of the session's folder.

use super::file_step::{current_bytes, no_session, run_file_step};
use crate::error::Result;
use crate::models::paths::change_file;
use crate::models::{Effect, OperationId, StepResult, TurnStart, UpdateFormat};
use crate::ops::{Act, Operation, Site, Step};
use crate::store::blob_id;

pub(crate) struct FilesWrite;

impl Operation for FilesWrite {
    fn id(&self) -> OperationId {
        OperationId::FilesWrite
    }
}

impl Act for FilesWrite {
    fn plan_effect(
        &self,
        site: &Site<'_>,
        effect: Effect,
        started: &TurnStart,
        earlier: Option<&Step>,
    ) -> Step {
        let Some(session) = site.session else {
            return Step::on_request(effect, None);
        };

        // The error for a file that cannot be read is reported when the file is written.
        let path = change_file(session, &effect.target);
        let current = || current_bytes(site.root, &path).ok().flatten();
        let before = match (earlier, &started.targets) {
            (Some(earlier), _) => earlier.after(),
            (None, Some(targets)) => targets.get(&effect.target).cloned(),
            (None, None) => current().map(|bytes| blob_id(&bytes)),
        };

        match (effect.format, earlier) {
            (UpdateFormat::Whole, _) => Step::on_request(effect, before),
            (UpdateFormat::Diff, Some(earlier)) => {
                Step::updating(effect, earlier.content.as_deref(), before)
            }
            (UpdateFormat::Diff, None) => Step::updating_bytes(effect, current(), before),
        }
    }

    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        Ok(match site.session {
            Some(session) => {
                let path = change_file(session, &step.target);
                run_file_step(site.root, &path, session, step)
            }
            None => no_session(step),
        })
    }
}
