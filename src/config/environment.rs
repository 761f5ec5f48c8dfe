//! Environment variables as a value, and patterns for their names.

use std::ffi::OsString;
use std::fmt;

use serde::{Deserialize, Deserializer, de};

use crate::text::glob::matches_name;

/// Environment variables by name. Their values are never printed.
#[derive(Clone, Default)]
pub struct Environment(pub Vec<(OsString, OsString)>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// A case-insensitive pattern for names of variables, in which `*` matches any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// Creates a pattern without checking its characters.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self(pattern.to_ascii_uppercase())
    }

    /// Returns true if a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        matches_name(&self.0, &name.to_ascii_uppercase())
    }
}

impl<'de> Deserialize<'de> for NamePattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pattern = String::deserialize(deserializer)?;
        let is_usable =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '*' | '(' | ')' | '.' | '-');
        if pattern.is_empty() || !pattern.chars().all(is_usable) {
            return Err(de::Error::custom(format!(
                "invalid variable name or pattern {pattern:?}: expected letters, digits and `_*().-`"
            )));
        }
        Ok(Self::new(&pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text_and_case_is_ignored() {
        let cases = [
            ("HOME", "HOME", true),
            ("HOME", "HOME2", false),
            ("LC_*", "LC_ALL", true),
            ("LC_*", "XLC_ALL", false),
            ("*_TOKEN", "GITHUB_TOKEN", true),
            ("*_TOKEN", "MAX_TOKENS", false),
            ("*PASSWORD*", "db_password_2", true),
            ("*PASSWORD*", "PASSWORD", true),
            ("A*B*C", "AxBxBC", true),
            ("A*A", "A", false),
            ("*", "anything", true),
        ];
        for (pattern, name, is_match) in cases {
            assert_eq!(
                NamePattern(pattern.to_owned()).matches(name),
                is_match,
                "{pattern} {name}"
            );
        }
    }
}
