//! One message of a conversation, and its reply.

use super::reply::ChatReply;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, SessionId, State};
use crate::orchestrator::change::no_agent;
use crate::orchestrator::turn::recover::{recover, with_lease};
use crate::orchestrator::turn::{TurnContext, TurnRequest, find_driver, take_turn};
use crate::pack::Pack;

/// Agent and model of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatOptions {
    /// Agent; `None` for the mode's from the settings, or an installed one.
    pub agent: Option<AgentName>,
    /// Model that the prompt is written for; `None` for the agent's own.
    pub model: Option<String>,
    /// Number of times that the agent may be asked again for missing parts of its reply.
    pub repairs: u8,
}

/// Sends a message in the session's current mode, carries out what the reply asks for, and returns the reply.
///
/// A session that does not exist starts in the first mode of the pack. Everything is recorded, so that any agent can
/// take the next turn.
///
/// # Errors
///
/// `OtherPack` for a pack without a history, `UnknownAgent`, a failed call, and anything that prevents a turn from being
/// taken.
pub fn chat_turn(
    context: &TurnContext<'_>,
    session: &SessionId,
    message: &str,
    options: &ChatOptions,
) -> Result<ChatReply> {
    let pack = &context.workspace.pack;
    check_chat_pack(pack)?;
    // An interrupted turn may change the mode when it is finished.
    with_lease(context, session, |lease| recover(context, lease).map(drop))?;
    let state = context.store.state(session)?;
    let request = chat_request(pack, &state, session, message, options);

    let agent = context.workspace.agent(&request)?;
    let agent = agent.ok_or_else(|| no_agent(&request.mode))?;
    let driver = find_driver(context.drivers, context.store, &agent)?;
    let request = TurnRequest {
        agent: Some(agent),
        ..request
    };
    let report = take_turn(context, driver.as_ref(), &request)?;

    ChatReply::from_report(pack, report)
}

/// Returns the request for a message in the current mode of a session.
pub(super) fn chat_request(
    pack: &Pack,
    state: &State,
    session: &SessionId,
    message: &str,
    options: &ChatOptions,
) -> TurnRequest {
    let mode = state.mode.clone().unwrap_or_else(|| pack.start.clone());
    TurnRequest {
        session: Some(session.clone()),
        agent: options.agent.clone(),
        model: options.model.clone(),
        repairs: options.repairs,
        ..TurnRequest::new(mode, message)
    }
}

/// Refuses a pack whose prompts do not show earlier turns.
///
/// # Errors
///
/// `OtherPack`.
pub fn check_chat_pack(pack: &Pack) -> Result<()> {
    if pack.is_chat() {
        return Ok(());
    }
    let message = format!(
        "pack `{}` is not for conversations: it has no layer for earlier turns",
        pack.name
    );
    Err(Error::new(ErrorKind::OtherPack, message)
        .with_hint("use --pack foreman, or run a change with `agentd run`"))
}
