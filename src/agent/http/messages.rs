//! A prompt as the messages of a chat.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::models::Format;

/// What is put between two messages that become one.
const BETWEEN: &str = "\n\n";

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) content: String,
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    System,
    User,
    Assistant,
}

/// Returns the messages of a prompt: those of a chat, or the whole of it as one message of the user.
///
/// Several in a row of the same role are one, as many models take no others.
pub(super) fn read(prompt: &str, format: Format) -> Result<Vec<Message>> {
    if format != Format::Chat {
        return Ok(vec![Message {
            role: Role::User,
            content: prompt.to_owned(),
        }]);
    }
    let written: Vec<Message> = serde_json::from_str(prompt).map_err(|cause| {
        Error::new(
            ErrorKind::AgentUnusable,
            "the prompt is no list of messages",
        )
        .with_source(cause)
    })?;
    let mut messages: Vec<Message> = Vec::new();
    for message in written
        .into_iter()
        .filter(|message| !message.content.is_empty())
    {
        match messages.last_mut() {
            Some(last) if last.role == message.role => {
                last.content.push_str(BETWEEN);
                last.content.push_str(&message.content);
            }
            _ => messages.push(message),
        }
    }
    Ok(messages)
}

/// Returns what the system says, and the other messages, for dialects in which it speaks apart.
pub(super) fn apart(messages: &[Message]) -> (String, Vec<&Message>) {
    let (system, rest): (Vec<&Message>, Vec<&Message>) = messages
        .iter()
        .partition(|message| message.role == Role::System);
    let system: Vec<&str> = system
        .iter()
        .map(|message| message.content.as_str())
        .collect();
    (system.join(BETWEEN), rest)
}
