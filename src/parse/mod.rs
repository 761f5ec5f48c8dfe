//! From a reply's text to a response. Text is salvaged from anything; an effect must be clearly meant.

mod line;
mod scan;
mod tag;
mod verdict;

use crate::models::{Response, ReviewResult};

pub use verdict::verdict;

/// What a mode's replies may hold, as a value made from the pack.
#[derive(Clone, Debug)]
pub struct Grammar {
    /// The verdicts of the mode.
    pub verdicts: Vec<ReviewResult>,
    /// Whether a reply must hold one.
    pub verdict_required: bool,
    /// Whether a reply reports on tasks.
    pub task_status: bool,
}

impl Grammar {
    /// Returns the grammar that knows all verdicts and requires one.
    #[must_use]
    pub fn any_review() -> Self {
        Self { verdicts: ReviewResult::ALL.to_vec(), verdict_required: true, task_status: false }
    }
}

/// Reads a reply. It returns for every input.
#[must_use]
pub fn parse(reply: &str, grammar: &Grammar) -> Response {
    scan::scan(reply, grammar)
}
