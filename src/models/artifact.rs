//! Artifacts that a pack declares in its `artifacts.yaml`: documents with required fields.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Mode;

/// A document that a session produces, with the fields that it must have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactSpec {
    #[expect(missing_docs, reason = "the name says it all")]
    pub title: String,
    /// Path of the Markdown file in the project, with `/`. `None` if only the user can declare the artifact complete.
    #[serde(default)]
    pub file: Option<String>,
    /// Modes whose prompts list the artifact; empty for all modes.
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
    /// Heading of the field in the file.
    pub title: String,
    /// Description of the field.
    #[serde(default)]
    pub description: String,
    /// Minimum number of items, if the field is a list.
    #[serde(default)]
    pub at_least: Option<u32>,
    /// Position in the whole work in percent, for fields that have one.
    #[serde(default)]
    pub percent: Option<u8>,
}

/// Known content of an artifact: the fields of its file, and the status that was declared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// Texts of the fields; items of a list are lines that start with `- `.
    #[serde(default)]
    pub fields: IndexMap<String, String>,
    /// Fields whose text the user wrote. A reply does not replace it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub edited: BTreeSet<String>,
    /// Last status that the agent or the user declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<ArtifactStatus>,
}

/// Returns a heading for comparison: in lower case, without a percentage at its end.
#[must_use]
pub fn heading_key(title: &str) -> String {
    let title = title.trim();
    let without_percent = title
        .strip_suffix("%)")
        .and_then(|rest| rest.rfind('(').map(|at| &rest[..at]))
        .unwrap_or(title);
    without_percent.trim().to_lowercase()
}

impl ArtifactField {
    /// Returns true if a value fills the field: it is not empty, not a placeholder, and a list has enough items.
    #[must_use]
    pub fn is_filled_by(&self, text: &str) -> bool {
        match self.at_least {
            Some(minimum) => count_items(text) >= minimum,
            None => !is_placeholder(text),
        }
    }

    /// Returns the reason why a value does not fill the field.
    fn missing_reason(&self, text: &str) -> String {
        match self.at_least {
            Some(minimum) => format!("{} of {minimum} items", count_items(text)),
            None => "a placeholder".to_owned(),
        }
    }
}

/// Returns the number of list items that are not placeholders.
fn count_items(text: &str) -> u32 {
    let items = text
        .lines()
        .filter_map(list_item)
        .filter(|item| !is_placeholder(item));
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

/// Returns the text of a Markdown list item; `None` for any other line.
#[must_use]
pub fn list_item(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("- ")
        .or_else(|| line.strip_prefix("* "))
        .or_else(|| {
            let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
            digits
                .strip_prefix(". ")
                .filter(|_| digits.len() < line.len())
        })
}

/// Returns true for a string that says that something is still to be written.
fn is_placeholder(text: &str) -> bool {
    let word: String = text
        .chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect();
    matches!(
        word.as_str(),
        "" | "tbd" | "tba" | "todo" | "tobedetermined" | "tobedecided" | "placeholder" | "na"
    )
}

impl ArtifactSpec {
    /// Returns true if the prompts of a mode list the artifact.
    #[must_use]
    pub fn is_listed_in(&self, mode: &Mode) -> bool {
        self.modes.is_empty() || self.modes.contains(mode)
    }

    /// Returns the progress of an artifact. It is complete only if it was declared so and every field is filled.
    #[must_use]
    pub fn progress(&self, record: &ArtifactRecord) -> ArtifactProgress {
        let is_filled = |name: &String, field: &ArtifactField| {
            record
                .fields
                .get(name)
                .is_some_and(|text| field.is_filled_by(text))
        };
        let (completed, missing): (Vec<_>, Vec<_>) = self
            .fields
            .iter()
            .partition(|(name, field)| is_filled(name, field));
        let names = |fields: Vec<(&String, &ArtifactField)>| {
            fields
                .into_iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };

        let status = match (completed.len(), missing.len(), record.declared) {
            (0, _, Some(ArtifactStatus::InProgress)) => ArtifactStatus::InProgress,
            (0, 0, Some(declared)) => declared,
            (0, _, _) if record.fields.is_empty() => ArtifactStatus::NotStarted,
            (_, 0, Some(ArtifactStatus::Complete)) => ArtifactStatus::Complete,
            (_, 0, Some(ArtifactStatus::InProgress)) => ArtifactStatus::InProgress,
            (_, 0, _) => ArtifactStatus::DraftReady,
            (_, _, Some(ArtifactStatus::DraftReady)) => ArtifactStatus::DraftReady,
            _ => ArtifactStatus::InProgress,
        };
        ArtifactProgress {
            status,
            completed: names(completed),
            missing: names(missing),
            ..self.not_started()
        }
    }

    /// Returns the names of the fields that are not filled, with the reason if they have a value: `rules (2 of 3 items)`.
    #[must_use]
    pub fn describe_missing(&self, record: &ArtifactRecord) -> Vec<String> {
        let describe = |(name, field): (&String, &ArtifactField)| match record.fields.get(name) {
            Some(text) if field.is_filled_by(text) => None,
            Some(text) => Some(format!("{name} ({})", field.missing_reason(text))),
            None => Some(name.clone()),
        };
        self.fields.iter().filter_map(describe).collect()
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

/// An artifact and its completion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactProgress {
    /// Title, such as `Release Notes`.
    pub name: String,
    #[expect(missing_docs, reason = "the type says it all")]
    pub status: ArtifactStatus,
    /// Number of required fields.
    #[serde(default)]
    pub required: Option<u32>,
    /// Fields that are filled.
    #[serde(default)]
    pub completed: Vec<String>,
    /// Fields that are missing.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// Completion of an artifact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactStatus {
    /// No field is filled.
    #[default]
    NotStarted,
    /// Some fields are filled.
    InProgress,
    /// Ready to be read, and not declared complete.
    DraftReady,
    /// Declared complete, with every required field filled.
    Complete,
}

impl ArtifactStatus {
    /// Every status, from the first to the last.
    pub const ALL: [Self; 4] = [
        Self::NotStarted,
        Self::InProgress,
        Self::DraftReady,
        Self::Complete,
    ];

    /// Returns the status as it is spelt in data.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::InProgress => "in_progress",
            Self::DraftReady => "draft_ready",
            Self::Complete => "complete",
        }
    }

    /// Returns the status with this name; `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// Returns the mean completion of all artifacts in percent: the ratio of filled to required fields; 100 for a complete
/// artifact, 0 for one that is not started.
#[must_use]
pub fn mean_completion(artifacts: &[ArtifactProgress]) -> u32 {
    if artifacts.is_empty() {
        return 0;
    }
    let sum: u64 = artifacts.iter().map(ArtifactProgress::per_mille).sum();
    u32::try_from((sum / artifacts.len() as u64 + 5) / 10).unwrap_or(100)
}

impl ArtifactProgress {
    /// Returns the key of the artifact in rules: its name in lower case, with `_` for everything but letters and digits.
    #[must_use]
    pub fn key(&self) -> String {
        let key_character = |c: char| {
            if c.is_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        self.name.chars().map(key_character).collect()
    }

    fn per_mille(&self) -> u64 {
        let filled = self.completed.len() as u64;
        let missing = self.missing.len() as u64;
        let required = self.required.map_or(filled + missing, u64::from);
        match (self.status, required) {
            (ArtifactStatus::Complete, _) => 1_000,
            (ArtifactStatus::NotStarted, _) | (_, 0) => 0,
            _ if missing > 0 => 1_000 * required.saturating_sub(missing) / required,
            _ => 1_000 * filled.min(required) / required,
        }
    }
}
