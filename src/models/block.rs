//! Segments: the pieces of a prompt as bytes, each with its place, its class and its zone.

use serde::{Deserialize, Serialize};

use super::ContextKind;

/// How hard a block holds its place when room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Always there, whole; not fitting is an error.
    Pinned,
    /// Always there, perhaps shorter.
    Required,
    /// There if room is left.
    Optional,
    /// Takes what is left, up to a cap.
    Elastic,
}

/// How often a block's text changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Zone {
    /// Never, while the pack stays the same.
    Stable,
    /// From session to session.
    Session,
    /// From turn to turn.
    Turn,
}

/// The part of the prompt that a block fills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "part", rename_all = "lowercase")]
pub enum Part {
    /// The system prompt.
    System,
    /// A context item.
    Context {
        /// What kind of item.
        kind: ContextKind,
        /// Its name: a path or a title.
        name: String,
    },
    /// A message of an earlier turn, or of an example turn.
    History {
        /// Who said it.
        role: Role,
    },
    /// The instructions.
    Instructions,
}

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The agent.
    Assistant,
}

impl Role {
    /// Returns the role's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

impl Part {
    /// Returns the part's name, as reports show it.
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

/// A block as rendered bytes, tags and separators included. All segments in order are the prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// The block's id.
    pub block: String,
    /// The part it fills.
    #[serde(flatten)]
    pub part: Part,
    /// How hard it holds its place.
    pub class: Class,
    /// How often it changes.
    pub zone: Zone,
    /// Where its content came from, in words.
    pub source: String,
    /// The rendered bytes.
    pub text: String,
}
