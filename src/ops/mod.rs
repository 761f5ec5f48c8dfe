//! What the program can do by name: the operations that packs call, and the doors to project files and to git.

mod archive;
mod beneath;
mod census;
mod change;
mod checks;
mod detect;
mod diff;
mod edit;
mod evidence;
mod files;
mod findings;
mod git;
mod landing;
mod listing;
mod private;
mod registry;
mod spec_merge;
mod specs;
mod survey;
mod tasks;
mod tree;

use std::path::Path;

pub use archive::ARCHIVE;
pub use census::{SnapshotScope, TreeSnapshot};
pub use change::{
    NOTES, OpenTasks, artifacts, folder as change_folder, has_change, notes_text, open_tasks,
    targets, task_ids,
};
pub use checks::{CheckJob, checks_report, run_checks};
pub use detect::{check_commands, check_commands_in, detected};
pub use evidence::{DIFF_LIMITS, short, some_left_out};
pub use files::{
    create_new, make_folder, read_project_text, read_reply, read_text, sweep, temporary_folder,
    write_text,
};
pub use findings::{find_places, noted};
pub use git::{
    Changed, CommitListing, Diff, DiffLimits, Git, Head, LandRequest, Landed, LeftOut, LeftOutKind,
    Leftover, Merged, Repository, Snapshot, Status, Worktree, WorktreeCommit,
};
pub use landing::MergeLock;
pub use listing::ProjectListing;
pub use private::{check_own, private_names, write_private};
pub use registry::Operations;
pub use spec_merge::SPECS;
pub use specs::{specs, wanted_specs};
pub use survey::{Survey, survey};
pub use tree::{structure, visible_path};

use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    BlobId, ContextItem, Effect, Finding, Intent, Marker, Opened, OperationId, ReviewResult,
    SessionId, Started, State, StepResult, UpdateFormat,
};
use crate::store::blob_id;

/// Where an operation works.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The project's root.
    pub root: &'a Path,
    /// The session, if one was named.
    pub session: Option<&'a SessionId>,
    /// The branch and work tree of the session's own, if it has some: the root is that tree then.
    pub change: Option<ChangeSite<'a>>,
    /// The comparison under review, if the turn reviews the user's working tree instead of a change.
    pub review: Option<ReviewSite<'a>>,
}

/// The user's working tree compared with a commit: the subject of a review without a change.
#[derive(Clone, Copy, Debug)]
pub struct ReviewSite<'a> {
    /// Commit that is checked out.
    pub head: &'a str,
    /// Commit that the working tree is compared with.
    pub base: &'a str,
    /// The differences, taken before any check ran: a check runs project code, which may edit files.
    pub diff: &'a Diff,
    /// How the project's own checks are run; `None` if the user asked for a review without them.
    pub checks: Option<CheckJob<'a>>,
    /// Patterns of files that a review may pass without having been shown them.
    pub accept_unshown: &'a [String],
}

impl<'a> Site<'a> {
    /// Returns the change that an operation works on.
    ///
    /// # Errors
    ///
    /// `ChangeNotFound` if the session was not opened as a change: the operation must not be skipped then.
    pub(super) fn opened(
        &self,
        operation: &dyn Operation,
    ) -> Result<(&ChangeSite<'a>, &'a SessionId)> {
        if let (Some(change), Some(session)) = (&self.change, self.session) {
            return Ok((change, session));
        }
        let (why, name) = match self.session {
            Some(session) => (
                format!("`{session}` was not opened as one"),
                session.as_str(),
            ),
            None => ("none was named".to_owned(), "NAME"),
        };
        let message = format!("{} needs the branch of a change, and {why}", operation.id());
        Err(
            Error::new(ErrorKind::ChangeNotFound, message).with_hint(format!(
                "`agentd review` judges your working tree; `agentd run {name} \"…\"` opens a change"
            )),
        )
    }
}

/// What an operation knows of a session that has a branch and a work tree of its own.
#[derive(Clone, Copy, Debug)]
pub struct ChangeSite<'a> {
    /// The user's own repository.
    pub repository: &'a Repository,
    /// The session's work tree.
    pub worktree: &'a Worktree,
    /// What it was opened with.
    pub opened: &'a Opened,
    /// What is true of it now.
    pub state: &'a State,
    /// What of the session's folder agents are shown anyway, as patterns.
    pub artifacts: &'a [String],
    /// What failed when the checks were run last.
    pub failed: Option<&'a str>,
    /// Open findings that concern the mode.
    pub findings: &'a [Finding],
    /// How the project's own checks are run.
    pub checks: CheckJob<'a>,
    /// Tells files that hold secrets by their name.
    pub holds_secrets: fn(&str) -> bool,
    /// Patterns of files that a review may pass without having been shown them.
    pub accept_unshown: &'a [String],
    /// Whether the branch is merged at the end.
    pub merges: bool,
}

/// What an operation found before a turn.
#[derive(Debug, Default)]
pub struct Inspection {
    /// What the prompt shall show of it, each with where it came from.
    pub items: Vec<(ContextItem, String)>,
    /// What it came to.
    pub settlement: Option<StepResult>,
}

/// What operations may know of a turn after which they are carried out.
#[derive(Clone, Copy, Debug)]
pub struct TurnEnd<'a> {
    /// The turn as it began.
    pub started: &'a Started,
    /// The markers that count.
    pub markers: &'a [Marker],
    /// The verdict, if the reply holds one.
    pub verdict: Option<ReviewResult>,
    /// Findings of the turn; `None` in a mode that notes none.
    pub findings: Option<&'a [Finding]>,
    /// The day, as in 2026-01-31.
    pub today: &'a str,
}

/// Something the program can do by name.
///
/// Implementers do what the effects ask for and nothing else; what cannot be done is a settlement that says why, and
/// an error only if the turn cannot go on at all.
pub trait Operation {
    /// Returns the name by which packs call it.
    fn id(&self) -> OperationId;

    /// Returns whether it can only be carried out for a session that was opened as a change.
    fn needs_change(&self) -> bool {
        false
    }

    /// Looks, before a turn, whether it can be taken, and at what it shall rest on.
    ///
    /// # Errors
    ///
    /// Whatever keeps the turn from being taken.
    fn before(&self, _site: &Site<'_>) -> Result<Inspection> {
        Ok(Inspection::default())
    }

    /// Returns what it would show before a turn, as far as that can be told without running or writing anything.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being told.
    fn preview(&self, _site: &Site<'_>) -> Result<Inspection> {
        Ok(Inspection::default())
    }

    /// Returns what is always to be done after a turn; `None` if it is done only when a reply asks for it.
    fn closing(&self, _site: &Site<'_>, _closing: &TurnEnd<'_>) -> Option<Step> {
        None
    }

    /// Decides what an effect comes to. `earlier` is what comes to the same target before it.
    fn plan(
        &self,
        _site: &Site<'_>,
        effect: Effect,
        _started: &Started,
        _earlier: Option<&Step>,
    ) -> Step {
        Step::whole(effect, None)
    }

    /// Carries out what is planned, once: what was carried out already is left as it is.
    ///
    /// # Errors
    ///
    /// Whatever keeps the turn from going on.
    fn carry_out(&self, site: &Site<'_>, planned: &Step) -> Result<StepResult>;
}

/// What an effect comes to, and what its target held when that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The operation that does it.
    pub operation: OperationId,
    /// What it is done to.
    pub target: String,
    /// What the target shall hold; `None` if it shall be gone.
    pub content: Option<String>,
    /// The hash of what the target held then; `None` if it held nothing.
    pub before: Option<BlobId>,
    /// Why it is not done, if that is known already; then the content is what was asked for.
    pub refused: Option<String>,
}

impl Step {
    /// Makes one of an operation that is always carried out after a turn.
    fn always(
        operation: &dyn Operation,
        target: impl Into<String>,
        content: impl Into<String>,
    ) -> Self {
        let (operation, target) = (operation.id(), target.into());
        Self {
            operation,
            target,
            content: Some(content.into()),
            before: None,
            refused: None,
        }
    }

    /// Makes one of an effect whose content is what the target shall hold.
    fn whole(effect: Effect, before: Option<BlobId>) -> Self {
        let Effect {
            operation,
            target,
            content,
            ..
        } = effect;
        Self {
            operation,
            target,
            content: Some(content),
            before,
            refused: None,
        }
    }

    /// Makes one of an effect, of what its target holds now, and of what it must hold for that.
    fn on(effect: Effect, now: Option<&str>, before: Option<BlobId>) -> Self {
        if now.map(|text| blob_id(text.as_bytes())) != before {
            return Self::whole(effect, before).refuse(CHANGED);
        }
        let content = match (effect.format, now) {
            (UpdateFormat::Diff, _) => diff::apply(&effect.target, now, &effect.content),
            (UpdateFormat::Whole, Some(now)) => {
                Ok(Some(diff::with_line_ends_of(now, &effect.content)))
            }
            (UpdateFormat::Whole, None) => Ok(Some(effect.content.clone())),
        };
        match content {
            Ok(content) => Self {
                content,
                ..Self::whole(effect, before)
            },
            Err(reason) => Self::whole(effect, before).refuse(reason),
        }
    }

    /// The same of bytes, which must be a text.
    fn on_bytes(effect: Effect, now: Option<Vec<u8>>, before: Option<BlobId>) -> Self {
        match now.map(String::from_utf8).transpose() {
            Ok(now) => Self::on(effect, now.as_deref(), before),
            Err(_) => Self::whole(effect, before).refuse("it is not a text"),
        }
    }

    fn refuse(self, reason: impl Into<String>) -> Self {
        Self {
            refused: Some(reason.into()),
            ..self
        }
    }

    /// Tells whether it is done whatever the reply asks for.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        !matches!(
            self.operation,
            OperationId::FilesWrite | OperationId::FilesEdit
        )
    }

    /// Returns the hash of what the target shall hold.
    fn after(&self) -> Option<BlobId> {
        self.content
            .as_ref()
            .map(|content| blob_id(content.as_bytes()))
    }

    /// Returns it as the ledger keeps it.
    #[must_use]
    pub fn intent(&self) -> Intent {
        Intent {
            operation: self.operation.clone(),
            target: self.target.clone(),
            content: self.after(),
            before: self.before.clone(),
            refused: self.refused.clone(),
        }
    }

    /// Returns what became of it.
    #[must_use]
    pub fn settled(&self, done: bool, detail: String) -> StepResult {
        let (operation, target) = (self.operation.clone(), self.target.clone());
        StepResult {
            operation,
            target,
            done,
            detail,
            result: None,
            report: None,
            text: None,
        }
    }
}

/// Why something is not done to a target that holds something else by now.
const CHANGED: &str = "it has changed since the prompt was made";
