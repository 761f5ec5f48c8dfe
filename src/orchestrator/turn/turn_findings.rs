//! Findings of a turn in progress.

use super::active_turn::ActiveTurn;
use super::findings::{
    extract_findings, notes_findings, open_findings_in_mode, open_findings_of_change, whole_updates,
};
use crate::error::Result;
use crate::models::{Finding, Response};
use crate::ops::{self, Site, Step};

/// Returns the findings of a turn; `None` if the mode does not record findings.
pub(crate) fn find_findings(
    turn: &ActiveTurn<'_>,
    response: &Response,
    steps: &[Step],
) -> Result<Option<Vec<Finding>>> {
    let context = turn.session.context;
    let pack = &context.workspace.pack;
    let started = turn.started();
    if !notes_findings(pack, &started.mode) {
        return Ok(None);
    }

    let earlier = match &started.for_change {
        Some(change) => open_findings_of_change(context.store, change, &started.mode)?,
        None => open_findings_in_mode(context.store, &turn.session.state, &started.mode)?,
    };
    let reports: Vec<&str> = match started.for_change {
        // No steps are planned for a reviewer's opinion, so its report is taken from the reply.
        Some(_) => whole_updates(response).collect(),
        None => steps
            .iter()
            .filter_map(|step| step.content.as_deref())
            .collect(),
    };
    let findings = extract_findings(pack, &started.mode, response, &reports, &earlier);
    Ok(Some(findings))
}

/// Sets `place_found` of each finding: true if its file and line exist in the tree.
pub(crate) fn find_places(turn: &ActiveTurn<'_>, findings: &mut [Finding]) {
    let site = turn.operation_site(&turn.session.state);
    let session = turn.started().for_change.as_ref().or(site.session);
    ops::find_places(&Site { session, ..site }, findings);
}
