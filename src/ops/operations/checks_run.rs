//! `checks.run`: runs the project's checks, before a turn or after it.

use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    Check, CheckEnd, ContextItem, ContextKind, OperationId, SessionId, StepOutcome, StepResult,
    all_passed,
};
use crate::ops::checks::{CheckJob, checks_report, run_checks};
use crate::ops::{Act, Inspect, Inspection, Operation, Site, Step, TurnEnd};

/// Hint if the checks of a review were stopped.
const REVIEW_AGAIN: &str = "run them again with `agentd review`";

pub(crate) struct ChecksRun;

impl Operation for ChecksRun {
    fn id(&self) -> OperationId {
        OperationId::ChecksRun
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Inspect for ChecksRun {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let step = Step::always(self.id(), "", "");
        let result = match &site.review {
            Some(review) => match &review.checks {
                Some(job) => run_step(job, &step, REVIEW_AGAIN)?,
                None => return Ok(Inspection::default()),
            },
            None => {
                let (change, session) = site.require_change(&self.id())?;
                run_step(&change.checks, &step, &run_again_hint(session))?
            }
        };

        let report = result.text.clone().unwrap_or_default();
        Ok(Inspection {
            items: vec![checks_item(&report)],
            result: Some(result),
        })
    }
}

impl Act for ChecksRun {
    fn can_be_requested(&self) -> bool {
        false
    }

    fn plan_always(&self, site: &Site<'_>, _end: &TurnEnd<'_>) -> Option<Step> {
        site.change.map(|_| Step::always(self.id(), "", ""))
    }

    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        match (&site.change, site.session) {
            (Some(change), Some(session)) => {
                run_step(&change.checks, step, &run_again_hint(session))
            }
            _ => Ok(step.without_change()),
        }
    }
}

/// Returns the hint for a change whose checks were stopped.
pub(super) fn run_again_hint(session: &SessionId) -> String {
    format!("run them again with `agentd run {session}`")
}

/// Runs checks and returns the result of the step: `PASSED`, `FAILED` or `NONE`, with the report of the checks.
///
/// # Errors
///
/// `AgentStopped`, with the hint, if the user stopped the checks; errors of [`run_checks`].
pub(super) fn run_step(job: &CheckJob<'_>, step: &Step, hint: &str) -> Result<StepResult> {
    let checks = run_checks(job)?;
    if checks.iter().any(|check| check.end == CheckEnd::Stopped) {
        let stopped = Error::new(ErrorKind::AgentStopped, "the checks were stopped");
        return Err(stopped.with_hint(hint));
    }

    let outcome = match checks.as_slice() {
        [] => StepOutcome::None,
        checks if all_passed(checks) => StepOutcome::Passed,
        _ => StepOutcome::Failed,
    };
    Ok(step
        .done(summary(&checks))
        .with_outcome(outcome, Some(checks_report(&checks))))
}

/// Returns the report of checks as an item of a prompt.
pub(super) fn checks_item(report: &str) -> (ContextItem, String) {
    let item = ContextItem::new(ContextKind::Artifact, "checks.md", report);
    (item, "checks that were run".to_owned())
}

/// Returns the number of checks that passed, and the names of those that failed.
fn summary(checks: &[Check]) -> String {
    if checks.is_empty() {
        return "no checks configured".to_owned();
    }

    let passed = checks.iter().filter(|check| check.passed()).count();
    let count = format!("{passed} of {} checks passed", checks.len());

    let failed: Vec<String> = checks
        .iter()
        .filter(|check| !all_passed(std::slice::from_ref(check)))
        .map(|check| format!("`{}`", check.name))
        .collect();
    match failed.as_slice() {
        [] => count,
        names => format!("{} failed; {count}", names.join(", ")),
    }
}
