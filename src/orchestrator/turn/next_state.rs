//! The state with which the next turn of a session starts.

use super::history::load_history;
use super::opening::open_turn;
use super::request::TurnRequest;
use crate::error::Result;
use crate::models::State;
use crate::orchestrator::redacted::redacted_request;
use crate::orchestrator::workspace::Workspace;
use crate::store::Store;

/// Returns the state with which the next turn of a session starts: what the ledger has, and what the request adds.
///
/// # Errors
///
/// Those of the ledger.
pub fn next_state(
    workspace: &Workspace,
    store: Option<&dyn Store>,
    request: &TurnRequest,
) -> Result<State> {
    let state = match (store, &request.session) {
        (Some(store), Some(session)) => store.state(session)?,
        _ => State::default(),
    };
    let request = redacted_request(request, &workspace.secrets);
    let opening = open_turn(workspace, &state, &request)?;
    let mut state = state.after(&opening);
    if let (Some(store), Some(session)) = (store, &request.session) {
        load_history(workspace, store, session, &mut state)?;
    }
    Ok(state)
}
