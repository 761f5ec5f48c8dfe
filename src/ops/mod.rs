//! What the program can do by name: the operations that packs call, and the doors to project files.

mod change;
mod files;
mod survey;
mod tree;

use std::path::Path;

pub use change::{OpenTasks, artifacts, has_change, open_tasks, task_ids};
pub use files::{create_new, read_project_text, read_reply, read_text};
pub use survey::{Survey, survey};
pub use tree::{structure, visible_path};

use crate::error::{Error, ErrorKind, Result};
use crate::models::{Effect, SessionId, Settlement};

/// Where an operation works.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The project's root.
    pub root: &'a Path,
    /// The session, if one was named.
    pub session: Option<&'a SessionId>,
}

/// Something the program can do by name.
///
/// Implementers do what the effects ask for and nothing else; what cannot be done is a settlement that says why, and
/// an error only if the turn cannot go on at all.
pub trait Operation {
    /// Returns the name by which packs call it.
    fn name(&self) -> &'static str;

    /// Carries out the effects that name this operation; before a turn there are none.
    ///
    /// # Errors
    ///
    /// Whatever keeps the turn from going on.
    fn run(&self, site: &Site<'_>, effects: &[&Effect]) -> Result<Vec<Settlement>>;
}

/// The operations that there are.
const OPERATIONS: [&dyn Operation; 2] = [&change::Require, &files::Write];

/// Returns the operation with a name.
///
/// # Errors
///
/// `UnknownOperation` naming those there are.
pub fn operation(name: &str) -> Result<&'static dyn Operation> {
    OPERATIONS.into_iter().find(|operation| operation.name() == name).ok_or_else(|| {
        let known: Vec<_> = OPERATIONS.iter().map(|operation| operation.name()).collect();
        Error::new(ErrorKind::UnknownOperation, format!("there is no operation `{name}`"))
            .with_hint(format!("there are {}", known.join(", ")))
    })
}
