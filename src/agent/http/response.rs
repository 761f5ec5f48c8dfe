//! State of a server's response, independent of the dialect.

use serde::Serialize;
use serde_json::Value;

/// Content of a response so far.
#[derive(Debug, Default)]
pub(super) struct EventStreamState {
    /// New text of the reply; the reader clears it.
    pub(super) text: String,
    /// True if a new thought has arrived; the reader resets it.
    pub(super) has_thought: bool,
    /// Last reported token counts.
    pub(super) usage: TokenUsage,
    /// Reason for the end of the reply; `None` until the server reports one.
    pub(super) stop: Option<StopReason>,
    /// True if the stream is complete.
    pub(super) is_done: bool,
}

/// Reason that a server gives for the end of its reply, before it is classified as a [`CallOutcome`].
///
/// [`CallOutcome`]: crate::models::CallOutcome
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The reply is complete.
    End,
    /// The limit of output tokens was reached.
    Length,
    /// The model refused, or a filter blocked the reply.
    Refusal(String),
    /// Another reason, in the words of the server.
    Other(String),
}

/// Token counts. `reasoning` is part of `output`; the others do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct TokenUsage {
    pub(super) input: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) reasoning: Option<u64>,
}

impl EventStreamState {
    /// Appends a JSON string to the reply; ignores other values.
    pub(super) fn push_text(&mut self, text: &Value) {
        self.text.push_str(text.as_str().unwrap_or_default());
    }

    /// Records that a thought has arrived. Thoughts are not part of the reply.
    pub(super) fn note_thought(&mut self, thought: &Value) {
        self.has_thought |= thought.as_str().is_some_and(|thought| !thought.is_empty());
    }
}
