//! The place where an operation works: a project, and in it a session, a change or a review.

use std::path::Path;

use indexmap::IndexMap;

use super::{CheckJob, Diff, Repository, Worktree};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    ArtifactSpec, ChangeOrigin, Finding, OperationId, SessionId, State, StateDocument, StateSpec,
};

/// The place where an operation works.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Folder of the project: the change's worktree if there is a change, else the user's working tree.
    pub root: &'a Path,
    /// Session of the turn, if the request names one.
    pub session: Option<&'a SessionId>,
    /// The change, if the session was opened as one.
    pub change: Option<ChangeSite<'a>>,
    /// State of the session, and the pack's description of it; `None` where no operation may change it.
    pub chat: Option<ChatSite<'a>>,
    /// The comparison under review, if the turn reviews the user's working tree instead of a change.
    pub review: Option<ReviewSite<'a>>,
}

/// State document of a session, with the description of its sections and artifacts.
#[derive(Clone, Copy, Debug)]
pub struct ChatSite<'a> {
    #[expect(missing_docs, reason = "the type says it all")]
    pub document: &'a StateDocument,
    /// Sections that the pack declares.
    pub spec: &'a StateSpec,
    /// Artifacts that the pack declares, by key.
    pub artifacts: &'a IndexMap<String, ArtifactSpec>,
}

impl<'a> Site<'a> {
    /// Returns the state document.
    ///
    /// # Errors
    ///
    /// Fails with a message if the session has no state document.
    pub(super) fn document(&self) -> std::result::Result<&'a StateDocument, String> {
        self.chat().map(|chat| chat.document)
    }

    /// Returns the description of the state's sections.
    pub(super) fn state_spec(&self) -> std::result::Result<&'a StateSpec, String> {
        self.chat().map(|chat| chat.spec)
    }

    /// Returns the artifacts of the pack.
    pub(super) fn artifacts(
        &self,
    ) -> std::result::Result<&'a IndexMap<String, ArtifactSpec>, String> {
        self.chat().map(|chat| chat.artifacts)
    }

    fn chat(&self) -> std::result::Result<ChatSite<'a>, String> {
        self.chat
            .ok_or_else(|| "the session has no state document".to_owned())
    }

    /// Returns the change that an operation needs, and its session.
    ///
    /// # Errors
    ///
    /// `ChangeNotFound` if the session was not opened as a change. The operation must return this error: otherwise an
    /// operation that a mode declares would be skipped silently.
    pub fn require_change(
        &self,
        operation: &OperationId,
    ) -> Result<(&ChangeSite<'a>, &'a SessionId)> {
        if let (Some(change), Some(session)) = (&self.change, self.session) {
            return Ok((change, session));
        }

        let (why, name) = match self.session {
            Some(session) => (format!("`{session}` is not a change"), session.as_str()),
            None => ("no session was passed".to_owned(), "NAME"),
        };
        let message = format!("{operation} needs the branch of a change: {why}");
        let hint = format!(
            "review your working tree with `agentd review`, or open a change with `agentd run {name} \"…\"`"
        );
        Err(Error::new(ErrorKind::ChangeNotFound, message).with_hint(hint))
    }
}

/// A session that was opened as a change: it has a branch and a worktree.
#[derive(Clone, Copy, Debug)]
pub struct ChangeSite<'a> {
    /// The user's repository.
    pub repository: &'a Repository,
    /// Worktree of the change.
    pub worktree: &'a Worktree,
    /// Request, branch and base commit that the change was opened with.
    pub opened: &'a ChangeOrigin,
    /// Current state of the session.
    pub state: &'a State,
    /// Patterns of files in the change's folder that the prompt already shows.
    pub artifacts: &'a [String],
    /// Report of the last checks, if they failed.
    pub failed: Option<&'a str>,
    /// Open findings that concern the mode.
    pub findings: &'a [Finding],
    /// The project's checks, with their environment and limits.
    pub checks: CheckJob<'a>,
    /// Returns true for the path of a file whose name suggests secrets.
    pub holds_secrets: fn(&str) -> bool,
    /// Patterns of files that a review may pass without seeing them.
    pub accept_unshown: &'a [String],
    /// True if the branch is merged when the change ends.
    pub merges: bool,
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
    /// The project's checks, with their environment and limits; `None` for a review without checks.
    pub checks: Option<CheckJob<'a>>,
    /// Patterns of files that a review may pass without seeing them.
    pub accept_unshown: &'a [String],
}
