//! Syntax in prompts that agents expand or execute.

use serde::Deserialize;

/// Syntax in a prompt that an agent does not treat as plain text.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptExpansion {
    /// `@name` is replaced by the content of a file.
    AtSigns,
    /// `/name` at the start of the prompt is executed as a command.
    Slashes,
}
