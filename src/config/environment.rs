//! The variables of the environment: a value like any other, and patterns for their names.

use std::ffi::OsString;
use std::fmt;

use serde::{Deserialize, Deserializer, de};

use crate::text::glob::matches_name;

/// The variables of the environment, by name; its values are never printed.
#[derive(Clone, Default)]
pub struct Environment(pub Vec<(OsString, OsString)>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// A pattern for the names of variables, in which `*` stands for anything and case does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(String);

impl NamePattern {
    /// Returns the pattern that a text writes.
    #[must_use]
    pub fn new(written: &str) -> Self {
        Self(written.to_ascii_uppercase())
    }

    /// Returns true if a name matches.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        matches_name(&self.0, &name.to_ascii_uppercase())
    }
}

impl<'de> Deserialize<'de> for NamePattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = String::deserialize(deserializer)?;
        let usable =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '*' | '(' | ')' | '.' | '-');
        if written.is_empty() || !written.chars().all(usable) {
            return Err(de::Error::custom(format!(
                "{written:?} is not a variable's name, or a pattern of one"
            )));
        }
        Ok(Self::new(&written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_and_case_does_not_matter() {
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
        for (pattern, name, fits) in cases {
            assert_eq!(
                NamePattern(pattern.to_owned()).fits(name),
                fits,
                "{pattern} {name}"
            );
        }
    }
}
