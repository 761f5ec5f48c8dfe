//! Segments of a rendered prompt, with their part, retention class and cache zone.

use serde::{Deserialize, Serialize};

use super::ContextKind;

/// Priority of a block when the prompt does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RetentionClass {
    /// Never shortened or dropped; composing fails if it does not fit.
    Pinned,
    /// May be shortened, but never dropped.
    Required,
    /// Dropped if there is no room.
    Optional,
    /// Fills the remaining room, up to a cap.
    Elastic,
}

/// Lifetime of a block's text, which determines how long a provider can cache it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheZone {
    /// Changes only with the pack.
    Stable,
    /// Changes from session to session.
    Session,
    /// Changes from turn to turn.
    Turn,
}

/// Part of the prompt that a block belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "part", rename_all = "lowercase")]
pub enum PromptPart {
    /// The system prompt.
    System,
    /// A context item.
    Context {
        #[expect(missing_docs, reason = "the name says it all")]
        kind: ContextKind,
        /// Path or title.
        name: String,
    },
    /// A message of an earlier turn, or of an example turn.
    History {
        #[expect(missing_docs, reason = "the name says it all")]
        role: MessageRole,
    },
    /// The instructions.
    Instructions,
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    #[expect(missing_docs, reason = "the name says it all")]
    User,
    #[expect(missing_docs, reason = "the name says it all")]
    Assistant,
}

impl MessageRole {
    /// Returns the name of the role.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl PromptPart {
    /// Returns the name of the part in reports.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::System => "system_prompt",
            Self::Context { kind, .. } => kind.element(),
            Self::History { .. } => "history",
            Self::Instructions => "instructions",
        }
    }
}

/// A rendered block, including its tags and separators. The concatenation of all segments is the text of the prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptSegment {
    /// Id of the block.
    pub block: String,
    #[expect(missing_docs, reason = "the name says it all")]
    #[serde(flatten)]
    pub part: PromptPart,
    #[expect(missing_docs, reason = "the name says it all")]
    pub class: RetentionClass,
    #[expect(missing_docs, reason = "the name says it all")]
    pub zone: CacheZone,
    /// Origin of the content, for reports.
    pub source: String,
    /// Rendered text.
    pub text: String,
}
