//! `specs.show`: shows the project's specs.

use crate::error::Result;
use crate::models::paths::SPECS_FOLDER;
use crate::models::{ContextItem, ContextKind, OperationId};
use crate::ops::fs::specs;
use crate::ops::{Inspect, Inspection, Operation, Site};

/// Shows the specs of the commit at which the change was opened; without a change, those of the working tree.
pub(crate) struct SpecsShow;

impl Operation for SpecsShow {
    fn id(&self) -> OperationId {
        OperationId::SpecsShow
    }
}

impl Inspect for SpecsShow {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let specs = match &site.change {
            Some(change) => {
                let is_spec = |name: &str| name.ends_with(".md");
                change
                    .repository
                    .texts_in(&change.opened.base, SPECS_FOLDER, is_spec)?
            }
            None => specs(site.root)?.into_iter().collect(),
        };

        let mut inspection = Inspection::default();
        for (path, text) in specs {
            let item = ContextItem::new(ContextKind::File, path, text);
            inspection
                .items
                .push((item, "the project's specs".to_owned()));
        }
        Ok(inspection)
    }

    fn preview(&self, site: &Site<'_>) -> Result<Inspection> {
        self.inspect(site)
    }
}
