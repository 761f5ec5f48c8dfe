//! Ids of sessions. A session is a task that follows the process of a pack, such as a change.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::{Error, ErrorKind, Result};

/// Id of a session, such as the change `add-login`. Unrelated to the session ids of agents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SessionId(String);

impl SessionId {
    /// Validates an id: at most 64 letters, digits, `-`, `_` and `.`, starting with a letter or digit, without `..`.
    ///
    /// # Errors
    ///
    /// `NameInvalid` for any other text.
    pub fn new(id: impl Into<String>) -> Result<Self> {
        let id = id.into();
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let is_valid = id.len() <= 64
            && id.starts_with(|c: char| c.is_ascii_alphanumeric())
            && id.bytes().all(is_plain)
            && !id.contains("..");
        if is_valid {
            return Ok(Self(id));
        }
        Err(
            Error::new(ErrorKind::NameInvalid, format!("invalid session id {id:?}")).with_hint(
                "use up to 64 letters, digits, `-`, `_` and single `.`, first a letter or digit",
            ),
        )
    }

    #[expect(missing_docs, reason = "the name says it all")]
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
