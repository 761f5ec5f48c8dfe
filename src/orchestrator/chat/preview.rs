//! Preview of the prompt for a chat message, without sending it.

use super::send::{ChatOptions, chat_request, check_chat_pack};
use crate::error::Result;
use crate::models::{Nonce, SessionId, State};
use crate::orchestrator::prompts::{Assembly, assemble};
use crate::orchestrator::turn::{TurnContext, TurnRequest, measured, next_state, preview};
use crate::pack::LayerContent;

/// Start of the state in a prompt.
const STATE_TAG: &str = "<session_state>";

/// A composed prompt that is not sent.
#[derive(Debug)]
pub struct ChatPreview {
    /// The prompt.
    pub assembly: Assembly,
    /// State of the session that the prompt was composed from.
    pub state: State,
    /// The part of the prompt that shows the session state; empty if the pack has no layer for it.
    pub state_text: String,
}

/// Composes the prompt for a message in the session's current mode. Nothing is sent or recorded.
///
/// # Errors
///
/// `OtherPack` for a pack without a history, and anything that prevents a complete prompt.
pub fn preview_chat(
    context: &TurnContext<'_>,
    session: &SessionId,
    message: &str,
    options: &ChatOptions,
) -> Result<ChatPreview> {
    let workspace = context.workspace;
    let pack = &workspace.pack;
    check_chat_pack(pack)?;
    let recorded = context.store.state(session)?;
    let mut request = TurnRequest {
        nonce: Some(Nonce::preview()),
        ..chat_request(pack, &recorded, session, message, options)
    };
    request.measured = measured(workspace, context.store, &request)?;

    let state = next_state(workspace, Some(context.store), &request)?;
    request.found = preview(context, &state, &request)?;
    let assembly = assemble(workspace, &state, &request)?;

    let is_state = |block: &str| {
        let id = block.split('/').next().unwrap_or_default();
        let mut layers = pack.layers.iter();
        layers.any(|layer| {
            layer.id == id && matches!(layer.holds, LayerContent::State | LayerContent::Knowledge)
        })
    };
    let segments = assembly.draft.segments.iter();
    let shown: String = segments
        .filter(|segment| is_state(&segment.block))
        .map(|segment| segment.text.as_str())
        .collect();
    // The separator of the layers is before the element.
    let start = shown.find(STATE_TAG).unwrap_or_default();
    Ok(ChatPreview {
        state_text: shown[start..].trim().to_owned(),
        assembly,
        state,
    })
}
