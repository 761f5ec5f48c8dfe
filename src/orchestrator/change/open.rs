//! Opens changes and determines their status.

use std::path::{Path, PathBuf};

use crate::apply::{self, NextStep};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{ChangeOrigin, Event, OperationId, SessionId, State, paths};
use crate::ops::{self, Worktree};
use crate::orchestrator::turn::recover::{recover, with_lease};
use crate::orchestrator::turn::{Session, TurnContext};
use crate::orchestrator::workspace::Workspace;
use crate::spec;

/// Prefix of the branch names of changes.
const BRANCH_PREFIX: &str = "agentd/";

/// Status of a change, and its next step.
#[derive(Debug)]
pub struct ChangeStatus {
    /// Name of the change.
    pub change: SessionId,
    #[expect(missing_docs, reason = "the name says it all")]
    pub state: State,
    /// Next step of the change, and what it waits for.
    pub next: NextStep,
    /// Path of the worktree. It may not exist if the change is done or abandoned.
    pub tree: PathBuf,
}

impl ChangeStatus {
    /// Returns the questions of the agent, if the change waits for answers: the questions in its reply, or else those
    /// in the document that the pack uses for questions.
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

/// Opens a change: creates a branch at the current commit, and a worktree outside the project. For a change that is
/// already open, returns its status.
///
/// # Errors
///
/// `ChangeNotFound` if there is no such change and no request; `ChangeExists` if the change was opened with another
/// request, or if its session or branch already exists; `NotARepository` or `NoCommits` if a branch cannot be created.
/// Also fails if a git command fails.
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
                "change `{change}` already exists with the request {:?}",
                opened.request
            );
            return Err(Error::new(ErrorKind::ChangeExists, message).with_hint(format!(
                "continue it with `agentd run {change}`, or change it with `agentd revise {change} --note \"…\"`"
            )));
        }
        find_status(session)
    })
}

/// Returns the status of a change. Creates its worktree if it is missing, and commits edits that the user made in it.
pub(super) fn find_status(session: Session<'_>) -> Result<ChangeStatus> {
    let context = session.context;
    let workspace = context.workspace;
    let change = session.lease.session.clone();
    let state = session.state;
    let next = apply::next_step(&workspace.pack, &state, workspace.rounds())?;
    let tree = workspace.worktree_path(&change)?;

    if !matches!(next, NextStep::Over { .. }) {
        let worktree = ensure_worktree(context, &change, &state)?;
        // Notes are not written if the change is archived, or if it has no folder for its documents.
        let is_archived = state.done.contains_key(&OperationId::ChangeArchive);
        if ops::has_change(&tree, &change) && !is_archived {
            write_notes(&tree, &change, &state)?;
        }
        // Edits of an interrupted call are left uncommitted: they belong to the next call of the turn.
        let is_between_turns = state.mode_turns == 0 || state.progress.replied;
        if is_between_turns && (context.run.is_first_look_at(&change) || !state.notes.is_empty()) {
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

/// Returns the message for a commit of edits that the user made.
pub(super) fn commit_message_for_edits(change: &SessionId) -> String {
    format!("agentd({change}): manual edits")
}

/// Refuses a chat pack, whose modes answer messages of the user and cannot run a change by themselves.
///
/// # Errors
///
/// `OtherPack` if the pack of the workspace is a chat pack.
pub fn check_change_pack(workspace: &Workspace) -> Result<()> {
    let pack = &workspace.pack;
    if !pack.is_chat() {
        return Ok(());
    }
    let message = format!(
        "pack `{}` is for conversations and cannot run a change",
        pack.name
    );
    Err(Error::new(ErrorKind::OtherPack, message).with_hint(format!(
        "start a conversation with `agentd chat --pack {}`",
        pack.name
    )))
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
        return Err(Error::new(ErrorKind::NameInvalid, message)
            .with_hint("choose another name for the change"));
    }
    if state.turns > 0 {
        let message = format!("session `{change}` already exists and is not a change");
        return Err(Error::new(ErrorKind::ChangeExists, message)
            .with_hint("choose another name for the change"));
    }

    let workspace = context.workspace;
    check_change_pack(workspace)?;
    let repository = workspace.repository(&context.run.git)?;
    let resolve_path = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if resolve_path(&workspace.root) != resolve_path(&repository.root) {
        let top = repository.root.display().to_string();
        let shown = workspace.root.display().to_string();
        let message = format!(
            "cannot open a change in `{}`: it is not the root of its git repository",
            shown.escape_debug()
        );
        return Err(Error::new(ErrorKind::NotARepository, message)
            .with_hint(format!("run the command with `-C {}`", top.escape_debug())));
    }
    let head = repository.head()?;
    let branch = format!("{BRANCH_PREFIX}{change}");
    if repository.branch_exists(&branch)? {
        let message = format!("branch `{branch}` already exists but does not belong to a change");
        let hint =
            format!("choose another name, or delete the branch with `git branch -D {branch}`");
        return Err(Error::new(ErrorKind::ChangeExists, message).with_hint(hint));
    }

    // Created here so that an error is reported before anything is recorded.
    if let Some(folder) = workspace.worktree_path(change)?.parent() {
        ops::make_folder(folder)?;
    }
    let uncommitted = repository.uncommitted()?;
    match uncommitted.as_slice() {
        [] => {}
        [file] => log::warn!("1 uncommitted file is not part of the change: {file:?}"),
        [first, ..] => log::warn!(
            "{} uncommitted files are not part of the change: {first:?}, …",
            uncommitted.len()
        ),
    }
    Ok(ChangeOrigin {
        pack: workspace.pack.name.clone(),
        request: workspace.secrets.redact(request).into_owned(),
        base: head.commit,
        onto: head.branch,
        branch,
    })
}

/// Returns the worktree of a change. Creates it if it is missing.
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

/// Writes the notes of the user to a file in the folder of the change, for readers of the archive. Agents get the notes
/// in their prompts.
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
