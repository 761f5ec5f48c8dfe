//! What the replies of a mode may hold, as a value.

use indexmap::IndexMap;

use super::{ActionSpec, Marker, ReviewResult};

/// The spellings of thoughts; one closes another.
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

/// What a mode's replies may hold, as a value made from the pack.
#[derive(Clone, Debug, Default)]
pub struct Grammar {
    /// The verdicts of the mode.
    pub verdicts: Vec<ReviewResult>,
    /// Whether a reply must hold one.
    pub verdict_required: bool,
    /// Whether a reply reports on tasks.
    pub task_status: bool,
    /// The actions that the mode may use.
    pub actions: IndexMap<String, ActionSpec>,
    /// Actions that only other modes may use.
    pub forbidden: Vec<String>,
    /// Markers of the pack's own.
    pub markers: Vec<MarkerSpec>,
    /// Other names of tags, such as `mensaje` for `message`.
    pub tags: IndexMap<String, String>,
    /// Who speaks in the prompt's history: a line that starts with `NAME:` starts another's turn.
    pub speakers: Vec<String>,
}

/// A marker of a pack's own.
#[derive(Clone, Debug)]
pub struct MarkerSpec {
    /// Its name, which is its tag.
    pub name: String,
    /// Its values, from mild to severe.
    pub values: Vec<String>,
    /// Whether a reply must hold it.
    pub required: bool,
}

impl MarkerSpec {
    /// Returns how severe the value is that a body holds.
    #[must_use]
    pub fn rank(&self, body: &str) -> Option<usize> {
        self.values
            .iter()
            .position(|value| value.eq_ignore_ascii_case(body.trim()))
    }

    /// Returns the marker with a value, by how severe it is.
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
    /// Returns the grammar that knows all verdicts and requires one.
    #[must_use]
    pub fn any_review() -> Self {
        Self {
            verdicts: ReviewResult::ALL.to_vec(),
            verdict_required: true,
            ..Self::default()
        }
    }

    /// Tells whether replies may ask for actions at all.
    #[must_use]
    pub fn knows_actions(&self) -> bool {
        !self.actions.is_empty() || !self.forbidden.is_empty()
    }
}
