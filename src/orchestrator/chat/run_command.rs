//! Commands of the user that the pack declares.

use serde::Serialize;
use serde_json::Value;

use super::send::check_chat_pack;
use crate::apply::{self, GateChecklist};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{ChangeCause, Event, Mode, SessionId, State, StateChange};
use crate::ops::{ChatSite, Site, Step};
use crate::orchestrator::turn::TurnContext;
use crate::orchestrator::turn::artifacts::observe_artifacts;
use crate::orchestrator::turn::recover::{recover, with_lease};
use crate::pack::{CommandSpec, Pack};

/// Result of a command.
#[derive(Debug, Serialize)]
pub struct CommandReport {
    #[expect(missing_docs, reason = "the name says it all")]
    pub session: SessionId,
    /// Name of the command, without `/`.
    pub command: String,
    /// Effect of each step, in order.
    pub details: Vec<String>,
    /// Mode in which the command was given.
    pub command_mode: Mode,
    /// Mode of the session after the command.
    pub mode: Mode,
    /// Conditions for leaving that mode; `None` for a mode without a gate.
    pub gate: Option<GateChecklist>,
    /// True if the session has ended.
    pub ended: bool,
}

/// Runs a command that the pack declares, with the authority of the user.
///
/// All steps take effect, or none does. If the gate of the mode is open afterwards, the session enters the next mode or
/// ends. Nothing is recorded if nothing changes.
///
/// # Errors
///
/// `CommandRefused` if the mode does not allow the command or a step is refused, `NameInvalid` for a command that the pack
/// does not declare, `OtherPack`, and those of the ledger.
pub fn run_command(
    context: &TurnContext<'_>,
    session: &SessionId,
    name: &str,
) -> Result<CommandReport> {
    let pack = &context.workspace.pack;
    check_chat_pack(pack)?;
    let command = find_command(pack, name)?;

    with_lease(context, session, |lease| {
        let mut session = recover(context, lease)?;
        session.require_pack()?;
        let command_mode = session.state.mode.as_ref().unwrap_or(&pack.start).clone();
        if !command.is_allowed_in(&command_mode) {
            return Err(not_allowed(name, command, &command_mode));
        }

        let edits = observe_artifacts(context.workspace, &session.state)?;
        let mut events: Vec<Event> = edits.into_iter().collect();
        let edited = session.state.clone().after(&events);
        let effects = run_steps(context, &lease.session, &edited, name, command)?;
        if !effects.changes.is_empty() {
            events.push(Event::StateChanged {
                changes: effects.changes,
                cause: ChangeCause::User,
            });
        }

        let changed = session.state.clone().after(&events);
        events.extend(apply::advance_after_command(pack, &changed)?);
        if !events.is_empty() {
            session.commit(&events, &[])?;
        }

        let state = session.state;
        let mode = state.mode.clone().unwrap_or_else(|| command_mode.clone());
        Ok(CommandReport {
            session: lease.session.clone(),
            command: name.to_owned(),
            details: effects.details,
            gate: apply::gate_checklist(pack, &state, &mode)?,
            command_mode,
            mode,
            ended: state.ended.is_some(),
        })
    })
}

/// Effects of all steps of a command.
struct CommandEffects {
    details: Vec<String>,
    changes: Vec<StateChange>,
}

/// Runs the steps of a command on a copy of the state document, so that a refused step leaves no trace.
fn run_steps(
    context: &TurnContext<'_>,
    session: &SessionId,
    state: &State,
    name: &str,
    command: &CommandSpec,
) -> Result<CommandEffects> {
    let pack = &context.workspace.pack;
    let mut document = state.document.clone();
    let mut effects = CommandEffects {
        details: Vec::new(),
        changes: Vec::new(),
    };

    for step in &command.steps {
        let input = Value::Object(step.with.clone()).to_string();
        let planned = Step::on_command(step.operation.clone(), input);
        let site = Site {
            root: &context.workspace.root,
            session: Some(session),
            change: None,
            chat: Some(ChatSite {
                document: &document,
                spec: &pack.state,
                artifacts: &pack.artifacts,
            }),
            review: None,
        };
        let result = context.operations.run(&site, &planned)?;
        if !result.done {
            let message = format!("`/{name}` was refused: {}", result.detail);
            return Err(
                Error::new(ErrorKind::CommandRefused, message).with_hint("nothing was changed")
            );
        }

        effects.details.push(result.detail);
        for change in result.changes {
            document.apply_change(&change);
            if change.from != change.to {
                effects.changes.push(change);
            }
        }
    }
    Ok(effects)
}

fn find_command<'p>(pack: &'p Pack, name: &str) -> Result<&'p CommandSpec> {
    pack.commands.get(name).ok_or_else(|| {
        let message = format!("pack `{}` has no command `{name}`", pack.name);
        let error = Error::new(ErrorKind::NameInvalid, message);
        let known: Vec<String> = pack
            .commands
            .keys()
            .map(|name| format!("/{name}"))
            .collect();
        match known.as_slice() {
            [] => error,
            known => error.with_hint(format!("commands of the pack: {}", known.join(", "))),
        }
    })
}

fn not_allowed(name: &str, command: &CommandSpec, mode: &Mode) -> Error {
    let modes: Vec<&str> = command.modes.iter().map(Mode::as_str).collect();
    let message = format!("`/{name}` is not allowed in mode `{mode}`");
    Error::new(ErrorKind::CommandRefused, message)
        .with_hint(format!("modes that allow it: {}", modes.join(", ")))
}
