//! `checks.again`: runs the project's checks once more if the target branch was merged into the change.

use super::checks_run::{run_again_hint, run_step};
use crate::error::Result;
use crate::models::{OperationId, StepOutcome, StepResult};
use crate::ops::{Act, Operation, Site, Step, TurnEnd};

/// The review saw the change without the commits that `specs.merge` brings in from the target branch, so the checks
/// are run on the result. If they fail, the step is not done, and the change is not merged.
pub(crate) struct ChecksAgain;

impl Operation for ChecksAgain {
    fn id(&self) -> OperationId {
        OperationId::ChecksAgain
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for ChecksAgain {
    fn can_be_requested(&self) -> bool {
        false
    }

    fn plan_always(&self, site: &Site<'_>, _end: &TurnEnd<'_>) -> Option<Step> {
        site.change.map(|_| Step::always(self.id(), "", ""))
    }

    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        let (Some(change), Some(session)) = (&site.change, site.session) else {
            return Ok(step.without_change());
        };
        let merged = change.state.results.get(&OperationId::SpecsMerge);
        if merged.is_none_or(|merged| merged.result != Some(StepOutcome::Moved)) {
            return Ok(step.done("nothing has changed since the review"));
        }

        let result = run_step(&change.checks, step, &run_again_hint(session))?;
        if result.result != Some(StepOutcome::Failed) {
            return Ok(result);
        }
        let detail = format!("after merging the target branch: {}", result.detail);
        Ok(StepResult {
            done: false,
            detail,
            ..result
        })
    }
}
