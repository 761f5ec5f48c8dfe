//! `checks.show`: shows the report of the last checks, if they failed.

use super::checks_run::checks_item;
use crate::error::Result;
use crate::models::OperationId;
use crate::ops::{Inspect, Inspection, Operation, Site};

pub(crate) struct ChecksShow;

impl Operation for ChecksShow {
    fn id(&self) -> OperationId {
        OperationId::ChecksShow
    }
}

impl Inspect for ChecksShow {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let report = site.change.and_then(|change| change.failed);
        Ok(Inspection {
            items: report.map(checks_item).into_iter().collect(),
            result: None,
        })
    }

    fn preview(&self, site: &Site<'_>) -> Result<Inspection> {
        self.inspect(site)
    }
}
