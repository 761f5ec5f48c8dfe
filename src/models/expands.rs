//! What an agent makes of a prompt by itself, instead of taking it for text.

use serde::Deserialize;

/// Something in a prompt that an agent does not take for text.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expands {
    /// `@name` is replaced by a file of that name.
    AtSigns,
    /// `/name` at the start is a command of its own.
    Slashes,
}
