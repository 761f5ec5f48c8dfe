//! The renderings of a prompt.

use serde::{Deserialize, Serialize};

/// The renderings of a prompt.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `UnifiedPrompt::to_xml`.
    #[default]
    Xml,
    /// Plain text with headings.
    Flat,
    /// Chat messages.
    Chat,
    /// The system prompt, the tools as JSON Schema, and the messages.
    Tools,
}

impl Format {
    /// Returns the rendering's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xml => "xml",
            Self::Flat => "flat",
            Self::Chat => "chat",
            Self::Tools => "tools",
        }
    }
}
