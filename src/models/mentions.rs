//! Syntax in prompts that agents expand or execute themselves.

use serde::Deserialize;

/// Syntax in a prompt that an agent does not treat as text.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptExpansion {
    /// `@name` is replaced by a file of that name.
    AtSigns,
    /// `/name` at the start of the prompt is executed as a command.
    Slashes,
}
