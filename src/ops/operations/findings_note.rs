//! `findings.note`: records the findings of a turn in the ledger.

use crate::error::Result;
use crate::models::paths::change_file;
use crate::models::{Finding, OperationId, StepResult, findings_result, findings_summary};
use crate::ops::fs::read_project_text;
use crate::ops::{Act, Operation, Site, Step, TurnEnd};

/// The result is `BLOCKING` if a critical or major finding is open, `OPEN` if only minor ones are, or `NONE`.
pub(crate) struct FindingsNote;

impl Operation for FindingsNote {
    fn id(&self) -> OperationId {
        OperationId::FindingsNote
    }
}

impl Act for FindingsNote {
    fn plan_always(&self, _site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        let list = serde_json::to_string(end.findings?).ok()?;
        Some(Step::always(self.id(), "", list))
    }

    fn run(&self, _site: &Site<'_>, step: &Step) -> Result<StepResult> {
        let content = step.content.as_deref().unwrap_or_default();
        Ok(match serde_json::from_str::<Vec<Finding>>(content) {
            Ok(findings) => noted(&findings),
            Err(error) => step.not_done(format!("cannot parse the recorded findings: {error}")),
        })
    }
}

/// Returns the result of recording findings.
#[must_use]
pub fn noted(findings: &[Finding]) -> StepResult {
    let text = serde_json::to_string(findings).ok();
    Step::always(FindingsNote.id(), "", "")
        .done(findings_summary(findings))
        .with_outcome(findings_result(findings), text)
}

/// Sets `place_found` of each finding that has a file: true if the project or the session's folder has that line.
pub fn find_places(site: &Site<'_>, findings: &mut [Finding]) {
    for finding in findings {
        let Some(file) = &finding.file else { continue };

        let in_session = site.session.map(|session| change_file(session, file));
        let text = std::iter::once(file.clone())
            .chain(in_session)
            .find_map(|path| read_project_text(site.root, &path).ok().flatten());

        let has_line = |text: &String| {
            finding
                .line
                .is_none_or(|line| line >= 1 && text.lines().count() as u64 >= line)
        };
        finding.place_found = Some(text.as_ref().is_some_and(has_line));
    }
}
