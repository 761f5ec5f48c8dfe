//! Moving a session to another mode.

use super::send::check_chat_pack;
use crate::apply::{self, GateChecklist};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Event, Mode, SessionId, State};
use crate::orchestrator::turn::TurnContext;
use crate::orchestrator::turn::artifacts::observe_artifacts;
use crate::orchestrator::turn::recover::{recover, with_lease};

/// Moves a session to a mode, and returns its state.
///
/// The gates of all modes from the current one up to the new one must be open; with `insist` closed ones are skipped, and
/// later prompts show the risk. Going back needs no open gate, and the session then stays in the mode until the user
/// leaves it. Nothing happens if the session is in that mode already.
///
/// # Errors
///
/// `GateClosed` with the conditions, `UnknownMode`, `OtherPack`, and those of the ledger.
pub fn enter_mode(
    context: &TurnContext<'_>,
    session: &SessionId,
    mode: &Mode,
    insist: bool,
) -> Result<State> {
    let pack = &context.workspace.pack;
    check_chat_pack(pack)?;
    let mode = pack.resolved(mode);
    pack.mode(&mode)?;

    with_lease(context, session, |lease| {
        let mut session = recover(context, lease)?;
        session.require_pack()?;
        let current = session.state.mode.as_ref().unwrap_or(&pack.start).clone();
        if current == mode && session.state.ended.is_none() {
            return Ok(session.state);
        }

        let edits = observe_artifacts(context.workspace, &session.state)?;
        let mut events: Vec<Event> = edits.into_iter().collect();
        let state = session.state.clone().after(&events);
        for (left, gate) in apply::closed_gates(pack, &state, &current, &mode)? {
            if !insist {
                return Err(gate_closed(&left, &mode, &gate));
            }
            events.push(gate.skipped(left));
        }

        let is_back = pack.mode_index(&mode) < pack.mode_index(&current);
        events.push(match is_back {
            true => Event::Returned { mode },
            false => Event::Entered { mode },
        });
        session.commit(&events, &[])?;
        Ok(session.state)
    })
}

/// Returns the state of a session as the next prompt would show it: with edits of artifact files that are not recorded
/// yet.
///
/// # Errors
///
/// Those of the ledger, and those of reading the files.
pub fn chat_state(context: &TurnContext<'_>, session: &SessionId) -> Result<State> {
    let state = context.store.state(session)?;
    let edits = observe_artifacts(context.workspace, &state)?;
    Ok(state.after(&edits))
}

fn gate_closed(from: &Mode, to: &Mode, gate: &GateChecklist) -> Error {
    let message = format!("the gate of {from} is closed\n{gate}");
    Error::new(ErrorKind::GateClosed, message).with_hint(format!(
        "complete these first, or skip the gate with `/mode {to} --insist`"
    ))
}
