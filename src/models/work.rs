//! Subject of a session: its project, artifacts, knowledge and history.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Mode;

use crate::error::{ErrorKind, Result};
use crate::text::yaml;

/// Subject of a session, as written in a state file. Unknown keys are errors. In a prompt it becomes
/// `<session_state>`, with `<current_mode>`, `<completion_pct>` and an element for each key that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Work {
    /// Mode of the session; the caller may override it.
    #[schemars(with = "Option<String>")]
    pub mode: Option<Mode>,
    /// Project: title, protagonist, genre, tone. In XML: `<project>` with an element for each.
    #[schemars(schema_with = "named_values")]
    pub project: IndexMap<String, String>,
    /// Current focus: file, beat, chapter, scene. In XML: `<active_context>` with an element for each.
    #[schemars(schema_with = "named_values")]
    pub active_context: IndexMap<String, String>,
    /// Artifacts with their status. In XML: `<work_order>` with a `<template name status>` for each.
    pub work_order: Vec<ArtifactStatus>,
    /// Narrative voice. In XML: `<voice_context>`.
    pub voice_context: VoiceContext,
    /// Current scene: scaffold_id, beat_alignment, pov_character, word_target, callbacks, foreshadowing. In
    /// XML: `<scene_context>` with an element for each.
    #[schemars(schema_with = "named_values")]
    pub scene_context: IndexMap<String, String>,
    /// Knowledge entries, the most relevant first. In XML: `<knowledge_context>` with an `<entry category key>` for each.
    pub knowledge: Vec<KnowledgeEntry>,
    /// Registered sources. In XML: `<notebooks>` with a `<notebook id role>` for each.
    pub notebooks: Vec<Notebook>,
    /// Preferences and corrections for the agent to remember. In XML: `<agent_memory>`.
    pub agent_memory: AgentMemory,
    /// Conversation, the oldest turn first. It is not part of the XML, but a separate layer.
    pub history: Vec<Turn>,
}

/// An artifact with its status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactStatus {
    /// Name, such as `Beat Sheet`.
    pub name: String,
    /// Progress of the artifact.
    pub status: Status,
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

/// Progress of an artifact.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No content yet.
    #[default]
    NotStarted,
    /// Partly written.
    InProgress,
    /// A draft exists.
    DraftReady,
    /// Finished.
    Complete,
}

impl Status {
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
}

/// The narrative voice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VoiceContext {
    /// True if the voice is final.
    pub locked: Option<bool>,
    /// Agent that wrote the winning passage.
    pub winning_agent: Option<String>,
    /// Strategy of the winning passage.
    pub winning_strategy: Option<String>,
    /// Current mood of the voice.
    pub voice_state: Option<String>,
    /// Patterns that the voice avoids.
    pub antipatterns: Vec<AntiPattern>,
}

/// A pattern that a voice avoids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AntiPattern {
    /// Severity, such as zero_tolerance.
    pub severity: String,
    /// Description of the pattern.
    pub pattern: String,
}

/// A known fact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnowledgeEntry {
    /// Category, such as character.
    pub category: String,
    /// Name of the fact within its category.
    pub key: String,
    /// The fact.
    pub value: String,
}

/// A registered source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notebook {
    /// Identifier.
    pub id: String,
    /// Purpose of the source.
    pub role: String,
    /// Title of the source.
    #[serde(default)]
    pub title: String,
}

/// Preferences and corrections for the agent to remember.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentMemory {
    /// Preferences of the user.
    pub preferences: Vec<String>,
    /// Corrections by the user.
    pub corrections: Vec<String>,
}

/// A message and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Text of the user.
    pub user: String,
    /// Answer of the agent.
    #[serde(default)]
    pub assistant: String,
}

/// Named values: strings, numbers or booleans.
fn named_values(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    })
}

/// Maximum number of YAML nodes of a state file: room for a hundred thousand turns.
const MAX_STATE_NODES: usize = 1_000_000;

impl Work {
    /// Parses a state file: YAML, or JSON as a subset of it.
    ///
    /// # Errors
    ///
    /// `StateInvalid` with the place, for anything that is not in the schema.
    pub fn read(text: &str, origin: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        yaml::read_within(text, origin, 1, ErrorKind::StateInvalid, MAX_STATE_NODES)
            .map_err(|error| error.with_hint("`agentd schema state` describes a state file"))
    }

    /// Returns the JSON Schema of a state file.
    #[must_use]
    pub fn json_schema() -> schemars::Schema {
        schemars::generate::SchemaSettings::draft07()
            .into_generator()
            .into_root_schema_for::<Self>()
    }

    /// Returns the completion in percent: the mean of filled to required fields over all artifacts.
    #[must_use]
    pub fn completion_percent(&self) -> u32 {
        if self.work_order.is_empty() {
            return 0;
        }
        let sum: u64 = self.work_order.iter().map(ArtifactStatus::per_mille).sum();
        u32::try_from((sum / self.work_order.len() as u64 + 5) / 10).unwrap_or(100)
    }
}

impl ArtifactStatus {
    /// Returns the key of the artifact in rules: its name in lower case, with `_` for everything but letters and digits.
    #[must_use]
    pub fn key(&self) -> String {
        self.name
            .chars()
            .map(|c| {
                if c.is_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '_'
                }
            })
            .collect()
    }

    fn per_mille(&self) -> u64 {
        let filled = self.completed.len() as u64;
        let missing = self.missing.len() as u64;
        let required = self.required.map_or(filled + missing, u64::from);
        match (self.status, required) {
            (Status::Complete, _) => 1_000,
            (Status::NotStarted, _) | (_, 0) => 0,
            _ if missing > 0 => 1_000 * required.saturating_sub(missing) / required,
            _ => 1_000 * filled.min(required) / required,
        }
    }
}
