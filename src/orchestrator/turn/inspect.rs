//! Operations before a turn: they can refuse it, and add context items to its prompt.

use super::context::TurnContext;
use super::request::TurnRequest;
use super::resolved::ResolvedTurn;
use super::site::TurnSite;
use crate::error::Result;
use crate::models::{ContextItem, OperationId, State, StepResult};
use crate::ops::Site;

/// Results of the operations before a turn.
pub(crate) struct InspectionResults {
    /// Items for the prompt, each with its source.
    pub(crate) items: Vec<(ContextItem, String)>,
    pub(crate) results: Vec<StepResult>,
    /// Names the operations that are left out after the turn, if there are some.
    pub(crate) warning: Option<String>,
}

/// Runs the operations that a mode names under `before`.
///
/// # Errors
///
/// `NotTrusted` for checks that the user has not accepted, and whatever an operation refuses the turn for.
pub(crate) fn inspect(
    context: &TurnContext<'_>,
    turn: &ResolvedTurn<'_>,
    site: &TurnSite,
    state: &State,
) -> Result<InspectionResults> {
    site.check_trust(context, &turn.request.mode)?;
    let operation_site = site.operation_site(context, turn.request.works_on(), state);

    let mut items = Vec::new();
    let mut results = Vec::new();
    for name in &turn.spec.before {
        let operation = context.operations.find_inspect(name.as_str())?;
        let inspection = operation.inspect(&operation_site)?;
        items.extend(inspection.items);
        results.extend(inspection.result);
    }

    let warning = left_out_warning(context, turn, &operation_site)?;
    Ok(InspectionResults {
        items,
        results,
        warning,
    })
}

/// Returns a warning that names the operations after the turn which need a change, in a session that is not one. A turn
/// without a session has nothing to commit, so nothing is left out.
fn left_out_warning(
    context: &TurnContext<'_>,
    turn: &ResolvedTurn<'_>,
    site: &Site<'_>,
) -> Result<Option<String>> {
    let (None, Some(session)) = (&site.change, site.session) else {
        return Ok(None);
    };
    let spec = turn.spec;
    let after = spec.after.iter().chain(&spec.finish);
    let left_out = context
        .operations
        .needing_change(after.map(OperationId::as_str))?;
    if left_out.is_empty() {
        return Ok(None);
    }

    let left_out = left_out.join(", ");
    let warning = format!("`{session}` is not a change; left out: {left_out}");
    log::warn!("{warning}");
    Ok(Some(warning))
}

/// Returns the items that operations would add to the prompt of a turn, as far as they are known without running or
/// writing anything.
///
/// # Errors
///
/// Those of the operations.
pub fn preview(
    context: &TurnContext<'_>,
    state: &State,
    request: &TurnRequest,
) -> Result<Vec<(ContextItem, String)>> {
    // An unknown mode is an error of the prompt itself.
    let Some(spec) = context.workspace.pack.modes.get(&request.mode) else {
        return Ok(Vec::new());
    };
    let site = TurnSite::open(context, request, state)?;
    let operation_site = site.operation_site(context, request.works_on(), state);

    let mut items = Vec::new();
    for name in &spec.before {
        let operation = context.operations.find_inspect(name.as_str())?;
        items.extend(operation.preview(&operation_site)?.items);
    }
    Ok(items)
}
