//! Artifacts that a pack declares in its `artifacts.yaml`: documents with required fields.

use indexmap::IndexMap;
use serde::Deserialize;

use super::{ArtifactProgress, ArtifactStatus, Mode};

/// A document that a session produces, with the fields that it must have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactSpec {
    #[expect(missing_docs, reason = "the name says it all")]
    pub title: String,
    /// Markdown file in the project, with `/`. `None` if only a person can declare the artifact complete.
    #[serde(default)]
    pub file: Option<String>,
    /// Modes whose prompts list the artifact; all if there are none.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// Required fields, in their order in the file.
    #[serde(default)]
    pub fields: IndexMap<String, ArtifactField>,
}

/// A required field of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactField {
    /// Heading in the file.
    pub title: String,
    /// Meaning of the field.
    #[serde(default)]
    pub description: String,
    /// Minimum number of items, for a field that is a list.
    #[serde(default)]
    pub at_least: Option<u32>,
    /// Position in the whole work in percent, for fields that have one.
    #[serde(default)]
    pub percent: Option<u8>,
}

impl ArtifactSpec {
    /// Returns true if the prompts of a mode list the artifact.
    #[must_use]
    pub fn is_listed_in(&self, mode: &Mode) -> bool {
        self.modes.is_empty() || self.modes.contains(mode)
    }

    /// Returns the progress of an artifact of which nothing exists.
    #[must_use]
    pub fn not_started(&self) -> ArtifactProgress {
        ArtifactProgress {
            name: self.title.clone(),
            status: ArtifactStatus::NotStarted,
            required: u32::try_from(self.fields.len())
                .ok()
                .filter(|count| *count > 0),
            completed: Vec::new(),
            missing: Vec::new(),
        }
    }
}
