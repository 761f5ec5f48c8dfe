//! Opening a change, and finding where it is.

use std::path::{Path, PathBuf};

use crate::apply::{self, NextStep};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{ChangeOrigin, Event, OperationId, SessionId, State, paths};
use crate::ops::{self, Worktree};
use crate::orchestrator::turn::recover::{recover, with_lease};
use crate::orchestrator::turn::{Session, TurnContext};
use crate::spec;

/// Prefix of the branch of a change.
const BRANCH_PREFIX: &str = "agentd/";

/// A change, and what may happen to it next.
#[derive(Debug)]
pub struct ChangeStatus {
    /// Name of the change.
    pub change: SessionId,
    /// Its state.
    pub state: State,
    /// Next step of the change.
    pub next: NextStep,
    /// Its worktree.
    pub tree: PathBuf,
}

impl ChangeStatus {
    /// Returns the questions of the agent, if the change waits for answers: those of its reply, or those of the document
    /// that the pack names for them.
    #[must_use]
    pub fn questions(&self) -> Vec<String> {
        let NextStep::Answers { file, .. } = &self.next else {
            return Vec::new();
        };
        if !self.state.progress.questions.is_empty() {
            return self.state.progress.questions.clone();
        }
        let path = paths::change_file(&self.change, file);
        let text = ops::read_project_text(&self.tree, &path);
        match text {
            Ok(Some(text)) => spec::open_questions(&text),
            _ => Vec::new(),
        }
    }
}

/// Opens a change: creates its branch at the current commit, and its worktree outside the project. A change that exists
/// is returned as it is.
///
/// # Errors
///
/// `ChangeNotFound` without a request if there is no such change; `ChangeExists` if it was opened with another request;
/// `NotARepository`, `NoCommits` and those of git.
pub fn open_change(
    context: &TurnContext<'_>,
    change: &SessionId,
    request: Option<&str>,
) -> Result<ChangeStatus> {
    with_lease(context, change, |lease| {
        let mut session = recover(context, lease)?;
        let Some(opened) = &session.state.change else {
            let request = request.map(str::trim).filter(|request| !request.is_empty());
            let Some(request) = request else {
                return Err(not_opened(change));
            };
            let opened = new_change(context, change, request, &session.state)?;
            let mode = context.workspace.pack.start.clone();
            session.commit(
                &[Event::Opened(Box::new(opened)), Event::Entered { mode }],
                &[],
            )?;
            fail::point("opened")?;
            return find_status(session);
        };

        if request.is_some_and(|request| request.trim() != opened.request) {
            let message = format!(
                "change `{change}` exists already, with the request {:?}",
                opened.request
            );
            return Err(Error::new(ErrorKind::ChangeExists, message).with_hint(format!(
                "continue it with `agentd run {change}`, or change it with `agentd revise {change} --note \"…\"`"
            )));
        }
        find_status(session)
    })
}

/// Returns the status of a change, with its worktree in place and edits made by hand committed.
pub(super) fn find_status(session: Session<'_>) -> Result<ChangeStatus> {
    let context = session.context;
    let workspace = context.workspace;
    let change = session.lease.session.clone();
    let state = session.state;
    let next = apply::next_step(&workspace.pack, &state, workspace.rounds())?;
    let tree = workspace.worktree_path(&change)?;

    if !matches!(next, NextStep::Over { .. }) {
        let worktree = ensure_worktree(context, &change, &state)?;
        // Archived files are not written again, and a change without a folder gets none for its notes.
        let is_archived = state.done.contains_key(&OperationId::ChangeArchive);
        if ops::has_change(&tree, &change) && !is_archived {
            write_notes(&tree, &change, &state)?;
        }
        // Edits of an interrupted call belong to the next call of the turn.
        let is_at_rest = state.mode_turns == 0 || state.progress.replied;
        if is_at_rest && (context.run.is_first_look_at(&change) || !state.notes.is_empty()) {
            worktree.commit(&commit_message_for_edits(&change))?;
        }
    }
    Ok(ChangeStatus {
        change,
        state,
        next,
        tree,
    })
}

/// Returns the message of a commit that holds edits made by hand.
pub(super) fn commit_message_for_edits(change: &SessionId) -> String {
    format!("agentd({change}): manual edits")
}

fn new_change(
    context: &TurnContext<'_>,
    change: &SessionId,
    request: &str,
    state: &State,
) -> Result<ChangeOrigin> {
    if change.as_str() == paths::ARCHIVE_NAME {
        let message = format!(
            "a change cannot be named `{change}`: the name is reserved for archived changes"
        );
        return Err(Error::new(ErrorKind::NameInvalid, message).with_hint("choose another name"));
    }
    if state.turns > 0 {
        let message = format!("session `{change}` exists already and is not a change");
        return Err(Error::new(ErrorKind::ChangeExists, message).with_hint("choose another name"));
    }

    let workspace = context.workspace;
    let repository = workspace.repository(&context.run.git)?;
    let full = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if full(&workspace.root) != full(&repository.root) {
        let top = repository.root.display().to_string();
        let message = "the project is a folder of a larger repository; changes need the top folder";
        return Err(Error::new(ErrorKind::NotARepository, message)
            .with_hint(format!("use `-C {}`", top.escape_debug())));
    }
    let head = repository.head()?;
    let branch = format!("{BRANCH_PREFIX}{change}");
    if repository.branch_exists(&branch)? {
        let message = format!("branch `{branch}` exists already and belongs to no change");
        let hint = format!("choose another name, or remove it with `git branch -D {branch}`");
        return Err(Error::new(ErrorKind::ChangeExists, message).with_hint(hint));
    }

    // A folder that cannot be made is reported before anything is recorded.
    if let Some(folder) = workspace.worktree_path(change)?.parent() {
        ops::make_folder(folder)?;
    }
    let uncommitted = repository.uncommitted()?;
    if let Some(first) = uncommitted.first() {
        log::warn!(
            "uncommitted files are not part of the change: {} files, such as {first:?}",
            uncommitted.len()
        );
    }
    Ok(ChangeOrigin {
        pack: workspace.pack.name.clone(),
        request: workspace.secrets.redact(request).into_owned(),
        base: head.commit,
        onto: head.branch,
        branch,
    })
}

/// Returns the worktree of a change, and creates it if it is missing.
pub(super) fn ensure_worktree(
    context: &TurnContext<'_>,
    change: &SessionId,
    state: &State,
) -> Result<Worktree> {
    let opened = state.change.as_ref().ok_or_else(|| not_opened(change))?;
    let repository = context.workspace.repository(&context.run.git)?;
    let path = context.workspace.worktree_path(change)?;
    repository.add_worktree(&opened.branch, &path, &opened.base)
}

pub(super) fn not_opened(change: &SessionId) -> Error {
    let message = format!("unknown change `{change}`");
    Error::new(ErrorKind::ChangeNotFound, message).with_hint(format!(
        "list changes with `agentd status`, or open one with `agentd run {change} \"REQUEST\"`"
    ))
}

/// Writes the notes of people into the folder of a change, for people to read.
fn write_notes(tree: &Path, change: &SessionId, state: &State) -> Result<()> {
    let Some(text) = ops::notes_text(&state.notes) else {
        return Ok(());
    };
    let path = paths::change_file(change, paths::NOTES_FILE);
    if ops::read_project_text(tree, &path)?.as_deref() == Some(text.as_str()) {
        return Ok(());
    }
    ops::write_text(tree, &path, &text)
}
