//! `findings.show`: shows open findings to the next agent.

use crate::error::Result;
use crate::models::{ContextItem, ContextKind, OperationId};
use crate::ops::{Inspect, Inspection, Operation, Site};
use crate::spec;

/// Shows the findings of the mode's last round if the mode runs `findings.note`, or else the findings of all modes.
pub(crate) struct FindingsShow;

impl Operation for FindingsShow {
    fn id(&self) -> OperationId {
        OperationId::FindingsShow
    }
}

impl Inspect for FindingsShow {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let findings = site.change.map_or(&[][..], |change| change.findings);
        if findings.is_empty() {
            return Ok(Inspection::default());
        }

        let list: Vec<String> = findings.iter().map(spec::write_finding).collect();
        let item = ContextItem::new(ContextKind::Artifact, "findings.md", list.join("\n"));
        Ok(Inspection {
            items: vec![(item, "open findings".to_owned())],
            result: None,
        })
    }

    fn preview(&self, site: &Site<'_>) -> Result<Inspection> {
        self.inspect(site)
    }
}
