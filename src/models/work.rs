//! Subject of a session: its project, artifacts, knowledge and history.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Mode;

use crate::error::{ErrorKind, Result};
use crate::text::yaml;

/// What a session works on, as a state file gives it. Any other key is an error. In a prompt it becomes
/// `<session_state>`, with `<current_mode>`, `<completion_pct>` and an element for each key that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Work {
    /// The mode the session is in; the caller may name another.
    #[schemars(with = "Option<String>")]
    pub mode: Option<Mode>,
    /// The project: title, protagonist, genre, tone. In XML: `<project>` with an element for each.
    #[schemars(schema_with = "named_values")]
    pub project: IndexMap<String, String>,
    /// What is in focus: file, beat, chapter, scene. In XML: `<active_context>` with an element for each.
    #[schemars(schema_with = "named_values")]
    pub active_context: IndexMap<String, String>,
    /// The artifacts and how far they have come. In XML: `<work_order>` with a `<template name status>` for each.
    pub work_order: Vec<ArtifactStatus>,
    /// The narrative voice. In XML: `<voice_context>`.
    pub voice_context: VoiceContext,
    /// The scene at hand: scaffold_id, beat_alignment, pov_character, word_target, callbacks, foreshadowing. In
    /// XML: `<scene_context>` with an element for each.
    #[schemars(schema_with = "named_values")]
    pub scene_context: IndexMap<String, String>,
    /// What is known, the most relevant first. In XML: `<knowledge_context>` with an `<entry category key>` for each.
    pub knowledge: Vec<KnowledgeEntry>,
    /// Registered sources. In XML: `<notebooks>` with a `<notebook id role>` for each.
    pub notebooks: Vec<Notebook>,
    /// What the agent was told to remember. In XML: `<agent_memory>`.
    pub agent_memory: AgentMemory,
    /// What was said, the oldest first. It is no part of the XML: it stands in a layer of its own.
    pub history: Vec<Turn>,
}

/// An artifact and how far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactStatus {
    /// Its name, such as `Beat Sheet`.
    pub name: String,
    /// How far it has come.
    pub status: Status,
    /// How many fields it must have.
    #[serde(default)]
    pub required: Option<u32>,
    /// Fields that are filled.
    #[serde(default)]
    pub completed: Vec<String>,
    /// Fields that are missing.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// How far an artifact has come.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing is there.
    #[default]
    NotStarted,
    /// Some of it is there.
    InProgress,
    /// A draft is there.
    DraftReady,
    /// It is done.
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
    /// Whether the voice is settled.
    pub locked: Option<bool>,
    /// Who wrote the winning passage.
    pub winning_agent: Option<String>,
    /// How it was written.
    pub winning_strategy: Option<String>,
    /// The voice's mood now.
    pub voice_state: Option<String>,
    /// What the voice never does.
    pub antipatterns: Vec<AntiPattern>,
}

/// Something that a voice never does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AntiPattern {
    /// How bad it is, such as zero_tolerance.
    pub severity: String,
    /// What it is.
    pub pattern: String,
}

/// Something that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnowledgeEntry {
    /// What it is about, such as character.
    pub category: String,
    /// Its name.
    pub key: String,
    /// What is known.
    pub value: String,
}

/// A registered source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notebook {
    /// Its identifier.
    pub id: String,
    /// What it is for.
    pub role: String,
    /// Its title.
    #[serde(default)]
    pub title: String,
}

/// What the agent was told to remember.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentMemory {
    /// How the user likes things.
    pub preferences: Vec<String>,
    /// What was put right.
    pub corrections: Vec<String>,
}

/// A message and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// What the user said.
    pub user: String,
    /// What the agent answered.
    #[serde(default)]
    pub assistant: String,
}

/// Named values: a number or a boolean is as good as a text.
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
