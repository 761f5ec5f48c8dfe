//! Something that a reviewer has found.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that a reviewer has found, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The file, from the root of the project.
    pub file: String,
    /// The line in it.
    #[serde(default)]
    pub line: Option<u64>,
    /// How bad it is: critical, major or minor.
    pub severity: String,
    /// What goes wrong.
    pub problem: String,
    /// What would settle it.
    #[serde(default)]
    pub remedy: Option<String>,
}

impl Finding {
    /// Returns its place, as compilers write places.
    #[must_use]
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}", self.file),
            None => self.file.clone(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place(), self.severity, self.problem)
    }
}
