//! `change.require`: refuses a turn on a change that has not been planned.

use crate::error::{Error, ErrorKind, Result};
use crate::models::OperationId;
use crate::models::paths::PROPOSAL_FILE;
use crate::ops::fs::artifacts;
use crate::ops::{Inspect, Inspection, Operation, Site};

pub(crate) struct ChangeRequire;

impl Operation for ChangeRequire {
    fn id(&self) -> OperationId {
        OperationId::ChangeRequire
    }
}

impl Inspect for ChangeRequire {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        let Some(session) = site.session else {
            return Err(Error::new(
                ErrorKind::ChangeNotFound,
                "this mode works on a change, and none was named",
            )
            .with_hint("name one with --change; `agentd review` judges your working tree"));
        };

        if artifacts(site.root, session, &[PROPOSAL_FILE.to_owned()])?.is_empty() {
            let message = format!("the change `{session}` has no {PROPOSAL_FILE}");
            return Err(Error::new(ErrorKind::ChangeNotFound, message).with_hint("plan it first"));
        }
        Ok(Inspection::default())
    }
}
