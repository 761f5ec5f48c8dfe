//! Grammar of the replies of a mode.

use indexmap::IndexMap;

use super::{ActionSpec, Marker, ReviewResult};

/// Tags of thoughts. A closing tag of any of them closes a thought.
pub const THOUGHT_TAGS: [&str; 9] = [
    "thought",
    "thoughts",
    "thinking",
    "think",
    "reasoning",
    "reasoning_content",
    "analysis",
    "scratchpad",
    "antthinking",
];

/// Elements that a mode allows in replies, as defined by the pack.
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    /// Allowed verdicts.
    pub verdicts: Vec<ReviewResult>,
    /// True if a reply without a verdict is an error.
    pub verdict_required: bool,
    /// True if replies report the status of tasks with `<task_status>`.
    pub task_status: bool,
    /// Actions that replies may request, by name.
    pub actions: IndexMap<String, ActionSpec>,
    /// Actions of other modes, which are refused.
    pub forbidden: Vec<String>,
    /// Markers that the pack defines.
    pub markers: Vec<MarkerSpec>,
    /// Aliases of tags, such as `mensaje` for `message`.
    pub tags: IndexMap<String, String>,
    /// Names of the speakers in the history of the prompt. A line that starts with `NAME:` ends the agent's reply.
    pub speakers: Vec<String>,
}

/// A marker that a pack defines.
#[derive(Clone, Debug)]
pub struct MarkerSpec {
    /// Name of the marker and of its tag.
    pub name: String,
    /// Allowed values, from mild to severe.
    pub values: Vec<String>,
    /// True if a reply without the marker is an error.
    pub required: bool,
}

impl MarkerSpec {
    /// Returns the index in `values` of the value in the body of a tag, ignoring case; `None` for an unknown value.
    #[must_use]
    pub fn rank(&self, body: &str) -> Option<usize> {
        self.values
            .iter()
            .position(|value| value.eq_ignore_ascii_case(body.trim()))
    }

    /// Returns the marker with the value at an index of `values`.
    #[must_use]
    pub fn marker(&self, rank: usize) -> Option<Marker> {
        let value = self.values.get(rank)?.clone();
        Some(Marker::Named {
            name: self.name.clone(),
            value,
        })
    }
}

impl Grammar {
    /// Returns a grammar that allows all verdicts and requires one.
    #[must_use]
    pub fn any_review() -> Self {
        Self {
            verdicts: ReviewResult::ALL.to_vec(),
            verdict_required: true,
            ..Self::default()
        }
    }

    /// Returns true if the pack defines any actions.
    #[must_use]
    pub fn knows_actions(&self) -> bool {
        !self.actions.is_empty() || !self.forbidden.is_empty()
    }
}
