//! Commands in the settings that an agent may run.

use serde::Deserialize;

const MAX_COMMAND_BYTES: usize = 200;

/// Start of a command that an agent may run, such as `cargo test`.
///
/// The text is inserted into the agent's permission pattern, so characters with a special meaning in such patterns are
/// refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct AllowedCommand(pub(super) String);

impl TryFrom<String> for AllowedCommand {
    type Error = String;

    fn try_from(command: String) -> Result<Self, String> {
        if command.len() > MAX_COMMAND_BYTES {
            return Err(format!(
                "invalid command {command:?}: longer than {MAX_COMMAND_BYTES} bytes"
            ));
        }

        let is_plain = |c: char| c.is_ascii_alphanumeric() || " ._/-:=+@".contains(c);
        let has_valid_start =
            command.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/');
        if has_valid_start && command.chars().all(is_plain) && command.trim_end() == command {
            return Ok(Self(command));
        }
        Err(format!(
            "invalid command {command:?}: expected a name or path, then letters, digits, spaces and `._/-:=+@`"
        ))
    }
}
