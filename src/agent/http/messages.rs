//! A prompt as the messages of a chat.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::models::Format;

/// What is put between two messages that become one.
const MESSAGE_SEPARATOR: &str = "\n\n";

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChatMessage {
    pub(super) role: ChatRole,
    pub(super) content: String,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChatRole {
    System,
    User,
    Assistant,
}

/// Returns the messages of a prompt: those of a chat, or the whole of it as one message of the user.
///
/// Several in a row of the same role are one, as many models take no others.
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
            "the prompt is no list of messages",
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

/// Returns what the system says, and the other messages, for dialects in which it speaks apart.
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
