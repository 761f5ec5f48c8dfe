//! Documents of a change: specs, tasks, proposals and findings. Parsed, checked and merged without files, git or a clock.
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

mod design;
mod document;
mod filler;
mod findings;
mod head;
mod merge;
mod new_head;
mod parts;
mod plan;
mod proposal;
mod questions;
mod tasks;

use serde::Serialize;

pub use document::{Requirement, Scenario, Spec, check_spec};
pub use findings::{read_findings, rename_finding, write_finding};
pub use merge::{Conflict, merge, touched};
pub use plan::{check_file, check_plan};
pub use proposal::check_proposal;
pub use questions::{asked_questions, open_questions};
pub use tasks::{Task, Tasks, check_tasks, tick};

/// A fault of a document: where and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, in words.
    pub message: String,
    /// The way out, if one is known.
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

/// Tells whether a text can be the id of a spec, and so the name of its file.
#[must_use]
pub fn is_spec_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.len() <= 64 && !text.starts_with('-') && text.bytes().all(plain)
}

/// Tells whether a text is the id of a requirement, such as `R1`.
fn is_requirement_id(text: &str) -> bool {
    text.strip_prefix('R').is_some_and(|number| {
        !number.starts_with('0') && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}
