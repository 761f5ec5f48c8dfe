//! What the program can do by name: the operations that packs call, and the doors to project files.

mod census;
mod change;
mod files;
mod private;
mod survey;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;

pub use census::{Census, Counted};
pub use change::{OpenTasks, artifacts, has_change, open_tasks, targets, task_ids};
pub use files::{create_new, read_project_text, read_reply, read_text, sweep};
pub use private::{private_names, write_private};
pub use survey::{Survey, survey};
pub use tree::{structure, visible_path};

use crate::error::{Error, ErrorKind, Result};
use crate::models::{BlobId, Effect, Intent, SessionId, Settlement};
use crate::store::blob_id;

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

    /// Checks, before a turn, that it can be taken.
    ///
    /// # Errors
    ///
    /// Whatever keeps the turn from being taken.
    fn check(&self, _site: &Site<'_>) -> Result<()> {
        Ok(())
    }

    /// Returns the hash of what a target holds now; `None` if it holds nothing.
    fn before(&self, _site: &Site<'_>, _target: &str) -> Option<BlobId> {
        None
    }

    /// Carries out an effect, once: one that was carried out already is left as it is.
    ///
    /// # Errors
    ///
    /// Whatever keeps the turn from going on.
    fn carry_out(&self, site: &Site<'_>, planned: &Planned) -> Result<Settlement>;
}

/// An effect, and what its target held when it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What is to be done.
    pub effect: Effect,
    /// The hash of what the target held then; `None` if it held nothing.
    pub before: Option<BlobId>,
}

impl Planned {
    /// Returns it as the ledger keeps it.
    #[must_use]
    pub fn intent(&self) -> Intent {
        Intent {
            operation: self.effect.operation.clone(),
            target: self.effect.target.clone(),
            content: blob_id(self.effect.content.as_bytes()),
            before: self.before.clone(),
        }
    }

    /// Returns what became of it.
    #[must_use]
    pub fn settled(&self, done: bool, detail: String) -> Settlement {
        let Effect { operation, target, .. } = self.effect.clone();
        Settlement { operation, target, done, detail }
    }
}

/// Notes for each effect what its target holds before it: what it held when the prompt was made, if that is known, or
/// what is there now; or what an earlier effect puts there.
///
/// # Errors
///
/// `UnknownOperation`.
pub fn plan(
    site: &Site<'_>,
    effects: Vec<Effect>,
    targets: Option<&BTreeMap<String, BlobId>>,
) -> Result<Vec<Planned>> {
    let mut planned: Vec<Planned> = Vec::new();
    for effect in effects {
        let same = |other: &&Planned| {
            (&other.effect.operation, &other.effect.target) == (&effect.operation, &effect.target)
        };
        let before = match (planned.iter().rev().find(same), targets) {
            (Some(earlier), _) => Some(blob_id(earlier.effect.content.as_bytes())),
            (None, Some(targets)) => targets.get(&effect.target).cloned(),
            (None, None) => operation(&effect.operation)?.before(site, &effect.target),
        };
        planned.push(Planned { effect, before });
    }
    Ok(planned)
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
