//! `findings.note` and `findings.show`: the findings of a reviewer, kept in the ledger and shown to the next agent.

use super::files::read_project_text;
use super::{Act, Inspect, Inspection, Operation, Site, Step, TurnEnd, change};
use crate::error::Result;
use crate::models::{
    ContextItem, ContextKind, Finding, OperationId, StepResult, findings_result, findings_summary,
};
use crate::spec;

/// The name under which agents are shown open findings.
const FINDINGS: &str = "findings.md";

/// `findings.note`: keeps the findings of a turn. Its result is `BLOCKING` if a critical or major one is open.
pub(super) struct Note;

impl Operation for Note {
    fn id(&self) -> OperationId {
        OperationId::FindingsNote
    }
}

impl Act for Note {
    fn plan_always(&self, _site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        let list = serde_json::to_string(end.findings?).ok()?;
        Some(Step::always(self.id(), "", list))
    }

    fn run(&self, _site: &Site<'_>, planned: &Step) -> Result<StepResult> {
        let content = planned.content.as_deref().unwrap_or_default();
        Ok(match serde_json::from_str::<Vec<Finding>>(content) {
            Ok(findings) => noted(&findings),
            Err(_) => planned.settled(false, "this is not a list of findings".to_owned()),
        })
    }
}

/// Returns the result of noting findings.
#[must_use]
pub fn noted(findings: &[Finding]) -> StepResult {
    let text = serde_json::to_string(findings).ok();
    Step::always(Note.id(), "", "")
        .settled(true, findings_summary(findings))
        .with_outcome(findings_result(findings), text)
}

/// Records of each finding whether its place exists: in the project, or in the folder of the session.
pub fn find_places(site: &Site<'_>, findings: &mut [Finding]) {
    for finding in findings {
        let Some(file) = &finding.file else { continue };
        let own = site
            .session
            .map(|session| format!("{}/{file}", change::folder(session)));
        let text = std::iter::once(file.clone())
            .chain(own)
            .find_map(|path| read_project_text(site.root, &path).ok().flatten());
        let has_line = |text: &String| {
            finding
                .line
                .is_none_or(|line| line >= 1 && text.lines().count() as u64 >= line)
        };
        finding.place_found = Some(text.as_ref().is_some_and(has_line));
    }
}

/// `findings.show`: shows open findings: those of the same mode's last round where findings are noted, and else those
/// of all modes.
pub(super) struct Show;

impl Operation for Show {
    fn id(&self) -> OperationId {
        OperationId::FindingsShow
    }
}

impl Inspect for Show {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let findings = site.change.map_or(&[][..], |change| change.findings);
        if findings.is_empty() {
            return Ok(Inspection::default());
        }
        let list: Vec<String> = findings.iter().map(spec::write_finding).collect();
        let item = ContextItem::new(ContextKind::Artifact, FINDINGS, list.join("\n"));
        Ok(Inspection {
            items: vec![(item, "open findings".to_owned())],
            result: None,
        })
    }

    fn preview(&self, site: &Site<'_>) -> Result<Inspection> {
        self.inspect(site)
    }
}
