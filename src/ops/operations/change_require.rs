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
            return Err(
                Error::new(ErrorKind::ChangeNotFound, "this mode needs a change").with_hint(
                    "pass one with --change; to review your working tree, run `agentd review`",
                ),
            );
        };

        if artifacts(site.root, session, &[PROPOSAL_FILE.to_owned()])?.is_empty() {
            let message = format!("change `{session}` has no {PROPOSAL_FILE}");
            return Err(Error::new(ErrorKind::ChangeNotFound, message)
                .with_hint(format!("plan it first: `agentd plan {session}`")));
        }
        Ok(Inspection::default())
    }
}
