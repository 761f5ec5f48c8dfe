//! `findings.note`: what a reviewer has found, held against the tree.

use super::files::read_project_text;
use super::{Operation, Planned, Site};
use crate::error::Result;
use crate::models::{Finding, Settlement};

/// The operation's name.
pub(super) const NAME: &str = "findings.note";

/// `findings.note`: keeps a finding, and tells whether the place that it names is there.
pub(super) struct Note;

impl Operation for Note {
    fn name(&self) -> &'static str {
        NAME
    }

    fn carry_out(&self, site: &Site<'_>, planned: &Planned) -> Result<Settlement> {
        let content = planned.content.as_deref().unwrap_or_default();
        let Ok(finding) = serde_json::from_str::<Finding>(content) else {
            return Ok(planned.settled(false, "it is not a finding".to_owned()));
        };
        let place = finding.place();
        let text = read_project_text(site.root, &finding.file).ok().flatten();
        let is_there = match (&text, finding.line) {
            (Some(text), Some(line)) => line >= 1 && text.lines().count() as u64 >= line,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let detail = if is_there { place } else { format!("{place}, which is not there") };
        Ok(planned.settled(true, detail).found(if is_there { "FOUND" } else { "NOWHERE" }, None))
    }
}
