//! Converts a prompt to chat messages.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::models::Format;

/// Separator between two messages that are merged.
const MESSAGE_SEPARATOR: &str = "\n\n";

/// A chat message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChatMessage {
    pub(super) role: ChatRole,
    pub(super) content: String,
}

/// Author of a chat message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChatRole {
    System,
    User,
    Assistant,
}

/// Returns the messages of a prompt in the chat format, or one user message for other formats.
///
/// Consecutive messages of the same role are merged, because many models refuse them.
pub(super) fn parse_messages(prompt: &str, format: Format) -> Result<Vec<ChatMessage>> {
    if format != Format::Chat {
        return Ok(vec![ChatMessage {
            role: ChatRole::User,
            content: prompt.to_owned(),
        }]);
    }
    let written: Vec<ChatMessage> = serde_json::from_str(prompt).map_err(|cause| {
        Error::new(
            ErrorKind::AgentUnusable,
            "the chat prompt is not a JSON list of messages",
        )
        .with_source(cause)
    })?;
    let mut messages: Vec<ChatMessage> = Vec::new();
    for message in written
        .into_iter()
        .filter(|message| !message.content.is_empty())
    {
        match messages.last_mut() {
            Some(last) if last.role == message.role => {
                last.content.push_str(MESSAGE_SEPARATOR);
                last.content.push_str(&message.content);
            }
            _ => messages.push(message),
        }
    }
    Ok(messages)
}

/// Splits off the system messages, for dialects that send them in a separate field.
pub(super) fn split_system(messages: &[ChatMessage]) -> (String, Vec<&ChatMessage>) {
    let (system, rest): (Vec<&ChatMessage>, Vec<&ChatMessage>) = messages
        .iter()
        .partition(|message| message.role == ChatRole::System);
    let system: Vec<&str> = system
        .iter()
        .map(|message| message.content.as_str())
        .collect();
    (system.join(MESSAGE_SEPARATOR), rest)
}
