//! Finds the driver of an agent by name.

use std::sync::Arc;

use super::record::TurnRecord;
use crate::agent::{Driver, Drivers, REPLAY_PREFIX, Replay};
use crate::error::Result;
use crate::models::{AgentName, Reply};
use crate::store::Store;

/// Returns the driver of an agent. For `replay:TURN`, the driver returns the recorded reply of that turn; for other
/// names, see [`Drivers::find`].
///
/// # Errors
///
/// Those of [`Drivers::find`]; `TurnNotFound` if the ledger does not have the turn to replay.
pub fn find_driver(
    drivers: &Drivers,
    store: &dyn Store,
    agent: &AgentName,
) -> Result<Arc<dyn Driver>> {
    let Some(turn) = agent.as_str().strip_prefix(REPLAY_PREFIX) else {
        return drivers.find(agent.as_str());
    };
    let (text, end) = TurnRecord::find(store, turn)?.reply(store)?;
    let reply = Reply {
        end,
        ..Reply::from_text(text)
    };
    Ok(Arc::new(Replay::new(reply)))
}
