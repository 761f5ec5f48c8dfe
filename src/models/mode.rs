//! Names of modes, and access of agents to the working tree.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::{Error, ErrorKind, Result};

/// Name of a mode: a step or role of a process, such as `plan` or `task-agent`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Mode(String);

impl Mode {
    /// Rule for names of modes, which also holds for names of packs, layers, blocks and skeletons.
    pub(crate) const RULE: &'static str =
        "at most 64 lower-case letters, digits, `-` and `_`, starting with a letter";

    /// Validates a name: at most 64 lower-case letters, digits, `-` and `_`, starting with a letter.
    ///
    /// # Errors
    ///
    /// `NameInvalid` for any other text.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        if is_name(&name) {
            return Ok(Self(name));
        }
        Err(Error::new(
            ErrorKind::NameInvalid,
            format!("invalid mode name {name:?}"),
        )
        .with_hint(format!("expected {}, such as `task-agent`", Self::RULE)))
    }

    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns true for `[a-z][a-z0-9_-]{0,63}`.
fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Access of an agent to the working tree.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// The agent may only read files; agentd applies the updates in its reply.
    ReadOnly,
    /// The agent may edit files.
    Edit,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_lower_case_names_are_modes() {
        for name in ["plan", "voice_calibration", "task-agent", "m2"] {
            assert!(Mode::new(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "Plan",
            "../plan",
            "plan.md",
            "2m",
            "рlan",
            "a b",
            &"m".repeat(65),
        ] {
            assert_eq!(
                Mode::new(name).unwrap_err().kind(),
                ErrorKind::NameInvalid,
                "{name}"
            );
        }
    }
}
