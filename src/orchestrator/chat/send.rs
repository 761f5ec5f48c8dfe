//! One message of a conversation, and its reply.

use super::reply::ChatReply;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, SessionId, State};
use crate::orchestrator::change::no_agent;
use crate::orchestrator::turn::recover::{recover, with_lease};
use crate::orchestrator::turn::{TurnContext, TurnRecord, TurnRequest, find_driver, take_turn};
use crate::pack::Pack;
use crate::store::blob_id;

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

/// Maximum number of follow-up calls for a message.
const MAX_FOLLOW_UPS: u64 = 3;

/// Message of a follow-up call.
const FOLLOW_UP_MESSAGE: &str =
    "(No new message. The session state has the results of your actions. Continue your reply.)";

/// Sends a message in the session's current mode, carries out what the reply asks for, and returns the reply.
///
/// A session that does not exist starts in the first mode of the pack. Everything is recorded, so that any agent can
/// take the next turn. If the reply used an action that the pack marks with `answers`, the agent is called again and gets
/// the results, up to three times; the replies are joined. A failed follow-up call is a warning of the reply.
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

    let mut reply = send_message(context, session, message, options)?;
    while reply.follow_ups < MAX_FOLLOW_UPS && reply.awaits_answers(pack) {
        match send_message(context, session, FOLLOW_UP_MESSAGE, options) {
            Ok(next) => reply = reply.followed_by(next),
            Err(error) => {
                let warning = format!("the follow-up call failed: {error}");
                reply.warnings.push(warning);
                break;
            }
        }
    }
    Ok(reply)
}

/// Sends a message and returns its reply.
fn send_message(
    context: &TurnContext<'_>,
    session: &SessionId,
    message: &str,
    options: &ChatOptions,
) -> Result<ChatReply> {
    let pack = &context.workspace.pack;
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

/// Returns true if a turn is a follow-up call.
pub(super) fn is_follow_up(turn: &TurnRecord) -> bool {
    turn.started.message == Some(blob_id(FOLLOW_UP_MESSAGE.as_bytes()))
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
