//! Which sections of the session state a mode shows.

use serde::Deserialize;

use crate::models::Tier;

/// A section of the session state.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// The project's identity.
    Project,
    /// What is in focus.
    ActiveContext,
    /// The artifacts and how far they have come.
    WorkOrder,
    /// The narrative voice.
    VoiceContext,
    /// The scene at hand.
    SceneContext,
    /// What is known.
    KnowledgeContext,
    /// Registered sources.
    Notebooks,
    /// What the agent was told to remember.
    AgentMemory,
}

impl Section {
    /// All sections, in the order in which they are written.
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

/// Which sections a mode shows. What is in no list is shown at the full tier only; what is empty is never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateSections {
    /// Shown at every tier but the minimal one, which has a form of its own.
    pub shown: Vec<Section>,
    /// Shown as a summary; the work order alone has one.
    pub summarized: Vec<Section>,
    /// Never shown.
    pub omit: Vec<Section>,
}

impl StateSections {
    /// Tells whether a section is shown at a tier.
    #[must_use]
    pub fn shows(&self, section: Section, tier: Tier) -> bool {
        let listed = self.shown.contains(&section) || self.summarized.contains(&section);
        !self.omit.contains(&section) && (listed || tier == Tier::Full)
    }

    /// Tells whether a section is shown as a summary.
    #[must_use]
    pub fn summarizes(&self, section: Section) -> bool {
        self.summarized.contains(&section)
    }
}
