//! Documents of a change: specs, tasks, proposals and findings. Parses, checks and merges their text, without access
//! to files, git or the clock.
//!
//! ```
//! use agentd::spec::{Tasks, tick};
//!
//! let text = "# Tasks\n\n- [ ] 1.1 Add the form\n- [ ] 1.2 Check the password\n";
//! assert_eq!(Tasks::read(text).open().len(), 2);
//!
//! let ticked = tick(text, &["1.1"]);
//! let tasks = Tasks::read(&ticked);
//! assert_eq!(tasks.open()[0].text, "Check the password");
//! ```

mod code_blocks;
mod document;
mod filler;
mod findings;
mod front_matter;
mod merge;
mod new_front_matter;
mod plan;
mod proposal;
mod questions;
mod sections;
mod tasks;

use serde::Serialize;

pub use document::{Requirement, Scenario, Spec, check_spec};
pub use findings::{read_findings, rename_finding, write_finding};
pub use merge::{SpecConflict, merge, touched};
pub use plan::{check_file, check_plan};
pub use proposal::check_proposal;
pub use questions::{asked_questions, open_questions};
pub use tasks::{Task, Tasks, check_tasks, tick};

/// A fault of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Line number, from 1.
    pub line: usize,
    /// Description of the fault.
    pub message: String,
    /// Suggested fix, if one is known.
    pub hint: Option<String>,
}

impl Fault {
    fn new(line: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            message: message.into(),
            hint: None,
        }
    }

    fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns true if a string is a valid spec id, which is also the name of its file: 1 to 64 lower-case letters, digits
/// and `-`, not starting with `-`.
#[must_use]
pub fn is_spec_id(text: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.len() <= 64 && !text.starts_with('-') && text.bytes().all(is_allowed)
}

/// Returns true if a string is a requirement id, such as `R1`.
fn is_requirement_id(text: &str) -> bool {
    text.strip_prefix('R').is_some_and(|number| {
        !number.starts_with('0') && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}
