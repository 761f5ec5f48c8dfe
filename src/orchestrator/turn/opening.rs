//! Events that are recorded before a turn.

use super::artifacts::observe_artifacts;
use super::request::TurnRequest;
use super::resolved::opening_events;
use crate::apply;
use crate::error::Result;
use crate::models::{Event, State};
use crate::orchestrator::workspace::Workspace;

/// Returns the events that are recorded before the turn of a request: closed gates that it skips, entering its mode, its
/// state document, and edits of artifact files.
pub(crate) fn open_turn(
    workspace: &Workspace,
    state: &State,
    request: &TurnRequest,
) -> Result<Vec<Event>> {
    let pack = &workspace.pack;
    let mut events = opening_events(state, request);
    let described = state.clone().after(&events);
    events.extend(observe_artifacts(workspace, &described)?);

    let Some(mode) = state.mode.as_ref().filter(|_| pack.is_chat()) else {
        return Ok(events);
    };
    let opened = state.clone().after(&events);
    let closed = apply::closed_gates(pack, &opened, mode, &request.mode)?;
    let skipped = closed.into_iter().map(|(mode, gate)| gate.skipped(mode));
    Ok(skipped.chain(events).collect())
}
