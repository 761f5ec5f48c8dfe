//! From a reply's text to a response. Text is salvaged from anything; an effect must be clearly meant.

mod action;
mod line;
mod scan;
mod tag;
mod verdict;

use crate::models::{Marker, Response, ReviewResult};

pub use verdict::{required_markers, verdict};

/// What a mode's replies may hold, as a value made from the pack.
#[derive(Clone, Debug)]
pub struct Grammar {
    /// The verdicts of the mode.
    pub verdicts: Vec<ReviewResult>,
    /// Whether a reply must hold one.
    pub verdict_required: bool,
    /// Whether a reply reports on tasks.
    pub task_status: bool,
    /// Whether a reply may ask for actions.
    pub actions: bool,
    /// Markers of the pack's own.
    pub markers: Vec<MarkerSpec>,
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
    fn rank(&self, body: &str) -> Option<usize> {
        self.values.iter().position(|value| value.eq_ignore_ascii_case(body.trim()))
    }

    /// Returns the marker with the value that a body holds, in any case; `None` if it holds none.
    fn read(&self, body: &str) -> Option<Marker> {
        let value = self.values[self.rank(body)?].clone();
        Some(Marker::Named { name: self.name.clone(), value })
    }
}

impl Grammar {
    /// Returns the grammar that knows all verdicts and requires one.
    #[must_use]
    pub fn any_review() -> Self {
        Self {
            verdicts: ReviewResult::ALL.to_vec(),
            verdict_required: true,
            task_status: false,
            actions: false,
            markers: Vec::new(),
        }
    }
}

/// Reads a reply. It returns for every input.
#[must_use]
pub fn parse(reply: &str, grammar: &Grammar) -> Response {
    scan::scan(reply, grammar)
}
