//! Names of agents, and the file names of their templates.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// Name of an agent, such as `claude`, `qwen-code` or `ollama:llama3.2:3b`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentName(String);

const MAX_AGENT_NAME_BYTES: usize = 128;

impl AgentName {
    /// Validates a name.
    ///
    /// # Errors
    ///
    /// `NameInvalid` if the name is empty, longer than 128 bytes, contains control characters, or starts with `:`.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let is_valid = !name.is_empty()
            && name.len() <= MAX_AGENT_NAME_BYTES
            && !name.starts_with(':')
            && !name.chars().any(char::is_control);
        if is_valid {
            return Ok(Self(name));
        }
        Err(Error::new(
            ErrorKind::NameInvalid,
            format!("invalid agent name {name:?}"),
        )
        .with_hint(format!(
            "expected 1 to {MAX_AGENT_NAME_BYTES} bytes without control characters, not starting with `:`"
        )))
    }

    /// Returns the name of the fallback agent `BASE`, whose templates are used for agents that have none.
    #[must_use]
    pub fn base() -> Self {
        Self("BASE".to_owned())
    }

    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name for template files: the part before `:` in upper case, with every character except ASCII
    /// letters and digits replaced by `_`, so that no name leads out of the folder.
    #[must_use]
    pub fn file_stem(&self) -> String {
        let before_model = self.0.split(':').next().unwrap_or_default();
        before_model
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_uppercase()
                } else {
                    '_'
                }
            })
            .collect()
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_walk_the_disk() {
        let cases = [
            ("claude", "CLAUDE"),
            ("qwen-code", "QWEN_CODE"),
            ("ollama:llama3.2:3b", "OLLAMA"),
            ("../../etc/passwd", "______ETC_PASSWD"),
            ("größe", "GR__E"),
        ];
        for (name, stem) in cases {
            assert_eq!(AgentName::new(name).unwrap().file_stem(), stem);
        }
    }

    #[test]
    fn unusable_names_are_refused() {
        for name in ["", ":model", "a\nb", &"x".repeat(129)] {
            assert_eq!(
                AgentName::new(name).unwrap_err().kind(),
                ErrorKind::NameInvalid,
                "{name:?}"
            );
        }
    }
}
