//! Formats of prompts.

use serde::{Deserialize, Serialize};

/// Format of a rendered prompt.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The XML of [`UnifiedPrompt::to_xml`](super::UnifiedPrompt::to_xml).
    #[default]
    Xml,
    /// Plain text with headings.
    Flat,
    /// Chat messages as JSON.
    Chat,
    /// JSON with the system prompt, the tools as JSON Schema, and the messages.
    Tools,
}

impl Format {
    /// Returns the name of the format in settings and on the command line.
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
