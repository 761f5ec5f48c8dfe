//! What a server's answer tells, whatever its dialect.

use serde::Serialize;
use serde_json::Value;

/// What an answer has told so far.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    /// What of the reply has come since it was last taken.
    pub(super) text: String,
    /// Whether the model has thought since that was last asked.
    pub(super) thought: bool,
    /// What was used.
    pub(super) usage: TokenUsage,
    /// Why the model has stopped, once it has.
    pub(super) stop: Option<StopReason>,
    /// Whether nothing follows.
    pub(super) done: bool,
}

/// The reason that a server gives for the end of its answer, before it is judged as a [`CallOutcome`].
///
/// [`CallOutcome`]: crate::models::CallOutcome
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// It has said it all.
    End,
    /// It may say no more.
    Length,
    /// It does not want to, or is kept from it.
    Refusal(String),
    /// Something else, in the server's words.
    Other(String),
}

/// Tokens, each counted once but for thoughts, which are part of the output as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct TokenUsage {
    pub(super) input: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) reasoning: Option<u64>,
}

impl StreamState {
    /// Adds to the reply, if there is a text.
    pub(super) fn say(&mut self, text: &Value) {
        self.text.push_str(text.as_str().unwrap_or_default());
    }

    /// Notes a thought, which is no part of the reply.
    pub(super) fn think(&mut self, thought: &Value) {
        self.thought |= thought.as_str().is_some_and(|thought| !thought.is_empty());
    }
}
