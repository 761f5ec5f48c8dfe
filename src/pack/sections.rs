//! Sections of the session state, and their visibility in a mode.

use serde::Deserialize;

use crate::models::Tier;

/// A section of the session state.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Identity of the project.
    Project,
    /// Items in focus.
    ActiveContext,
    /// Artifacts and their status.
    WorkOrder,
    /// The narrative voice.
    VoiceContext,
    /// The current scene.
    SceneContext,
    /// Knowledge entries.
    KnowledgeContext,
    /// Registered sources.
    Notebooks,
    /// Preferences and corrections that the agent remembers.
    AgentMemory,
}

impl Section {
    /// All sections, in their order in the XML.
    pub const ALL: [Self; 8] = [
        Self::Project,
        Self::ActiveContext,
        Self::WorkOrder,
        Self::VoiceContext,
        Self::SceneContext,
        Self::KnowledgeContext,
        Self::Notebooks,
        Self::AgentMemory,
    ];
}

/// Visibility of sections in a mode. Sections in no list are shown at the full tier only; empty ones are never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateSections {
    /// Shown at every tier except the minimal one, which has a fixed short form.
    pub shown: Vec<Section>,
    /// Shown as a summary; only the work order has one.
    pub summarized: Vec<Section>,
    /// Never shown.
    pub omit: Vec<Section>,
}

impl StateSections {
    /// Returns true if a section is shown at a tier.
    #[must_use]
    pub fn shows(&self, section: Section, tier: Tier) -> bool {
        let listed = self.shown.contains(&section) || self.summarized.contains(&section);
        !self.omit.contains(&section) && (listed || tier == Tier::Full)
    }

    /// Returns true if a section is shown as a summary.
    #[must_use]
    pub fn summarizes(&self, section: Section) -> bool {
        self.summarized.contains(&section)
    }
}
