//! A command that an agent may run, as the settings name it.

use serde::Deserialize;

/// The longest command.
const LONGEST: usize = 200;

/// The words with which a command begins, such as `cargo test`.
///
/// Agents take them as part of a pattern of their own, so nothing that could be read as one may stand in them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct CommandWords(pub(super) String);

impl TryFrom<String> for CommandWords {
    type Error = String;

    fn try_from(words: String) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || " ._/-:=+@".contains(c);
        let starts = words.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/');
        if starts && words.len() <= LONGEST && words.chars().all(plain) && words.trim_end() == words
        {
            return Ok(Self(words));
        }
        Err(format!(
            "{words:?} is not how a command begins, such as \"cargo test\""
        ))
    }
}
