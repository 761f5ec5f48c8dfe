//! Where both ends meet: prompts are assembled, turns are taken.

mod context;
mod init;
mod project;
mod prompts;
mod reading;
mod turn;

pub use init::{Created, init};
pub use project::ProjectFiles;
pub use prompts::{Ask, Assembly, Workspace, assemble, catalogue, settings};
pub use reading::MOST_REPAIRS;
pub use turn::{TurnReport, take};

use crate::error::{Error, ErrorKind, Result};
use crate::models::ReviewResult;
use crate::parse::{self, Context, Grammar};

/// Returns the verdict of an agent's output, of all five the most severe. Verdicts in thoughts, quotes and code do
/// not count.
///
/// # Errors
///
/// `MissingReviewMarker` if no valid marker is found.
pub fn parse_review_marker(output: &str) -> Result<ReviewResult> {
    let grammar = Grammar::any_review();
    parse::verdict(&parse::parse(output, &grammar, &Context::default()), &grammar)?
        .ok_or_else(|| Error::new(ErrorKind::MissingReviewMarker, "the reply holds no <review> verdict"))
}
