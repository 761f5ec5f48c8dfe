//! Runs the operations before a turn, which can refuse the turn or add context items to its prompt.

use super::context::TurnContext;
use super::request::TurnRequest;
use super::resolved::ResolvedTurn;
use super::site::TurnSite;
use crate::error::Result;
use crate::models::{ContextItem, OperationId, State, StepResult};
use crate::ops::Site;

/// Results of the operations before a turn.
pub(crate) struct InspectionResults {
    /// Context items for the prompt, each with its source.
    pub(crate) items: Vec<(ContextItem, String)>,
    pub(crate) results: Vec<StepResult>,
    /// Warning about operations that will be skipped after the turn; `None` if none will be.
    pub(crate) warning: Option<String>,
}

/// Runs the operations in `before` of the turn's mode.
///
/// # Errors
///
/// `NotTrusted` if the mode runs checks that the user does not trust, and the error of an operation that refuses the
/// turn.
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

    let warning = skipped_warning(context, turn, &operation_site)?;
    Ok(InspectionResults {
        items,
        results,
        warning,
    })
}

/// Returns a warning about operations that are skipped after the turn, because they need a change and the session is
/// not one. There is no warning for a turn without a session.
fn skipped_warning(
    context: &TurnContext<'_>,
    turn: &ResolvedTurn<'_>,
    site: &Site<'_>,
) -> Result<Option<String>> {
    let (None, Some(session)) = (&site.change, site.session) else {
        return Ok(None);
    };
    let spec = turn.spec;
    let after = spec.after.iter().chain(&spec.finish);
    let skipped = context
        .operations
        .needing_change(after.map(OperationId::as_str))?;
    if skipped.is_empty() {
        return Ok(None);
    }

    let skipped = skipped.join(", ");
    let warning = format!("session `{session}` is not a change, skipping {skipped}");
    log::warn!("{warning}");
    Ok(Some(warning))
}

/// Returns the context items that the operations before a turn would add to its prompt, as far as they are known
/// without running commands or writing files.
///
/// # Errors
///
/// Fails if an operation cannot be found, or cannot read its files.
pub fn preview(
    context: &TurnContext<'_>,
    state: &State,
    request: &TurnRequest,
) -> Result<Vec<(ContextItem, String)>> {
    // An unknown mode is reported when the prompt is assembled.
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
