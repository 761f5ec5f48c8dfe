//! Moving a session to another mode.

use super::send::check_chat_pack;
use crate::apply::{self, GateChecklist};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Event, Mode, SessionId, State};
use crate::orchestrator::turn::TurnContext;
use crate::orchestrator::turn::recover::{recover, with_lease};
use crate::pack::Pack;

/// Moves a session to a mode, and returns its state.
///
/// The gate of the current mode must be open to move forward in the pack's order of modes; with `insist` a closed one is
/// skipped, and later prompts show the risk. Going back needs no open gate. Nothing happens if the session is in that
/// mode already.
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

        let mut events = Vec::new();
        if is_forward(pack, &current, &mode)
            && let Some(gate) = apply::gate_checklist(pack, &session.state)?
            && !gate.is_open()
        {
            if !insist {
                return Err(gate_closed(&current, &mode, &gate));
            }
            let unmet = gate.summarize_unmet();
            events.push(Event::GateSkipped {
                risk: format!("left {current} before its gate was open: {unmet}"),
                mode: current,
            });
        }
        events.push(Event::Entered { mode });
        session.commit(&events, &[])?;
        Ok(session.state)
    })
}

/// Returns true if a mode comes after another in the pack.
fn is_forward(pack: &Pack, from: &Mode, to: &Mode) -> bool {
    let place = |mode: &Mode| pack.modes.keys().position(|known| known == mode);
    place(to) > place(from)
}

fn gate_closed(from: &Mode, to: &Mode, gate: &GateChecklist) -> Error {
    let message = format!("the gate of {from} is closed\n{gate}");
    Error::new(ErrorKind::GateClosed, message).with_hint(format!(
        "complete these first, or take the risk with `/mode {to} --insist`"
    ))
}
