//! Leading a change: opening it on a branch of its own, what is asked for next, what people decide, and its end.

mod review;
mod reviewers;
mod status;

pub use review::{ReviewBase, Reviewed, review_tree};
pub use reviewers::judge;
pub use status::{ChangeRow, changes};

use std::path::PathBuf;

use crate::agent::Echo;
use crate::apply::{self, NextStep};
use crate::config::TaskPace;
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{Decision, Event, Mode, Opened, OperationId, SessionId, State, StepResult};
use crate::ops::{self, Leftover, Worktree};
use crate::orchestrator::clock;
use crate::orchestrator::turn::TurnRequest;
use crate::orchestrator::turn::record::TurnRecord;
use crate::orchestrator::turn::recover;
use crate::orchestrator::turn::reply_reader::MOST_REPAIRS;
use crate::orchestrator::turn::site::TurnSite;
use crate::orchestrator::turn::{ActiveTurn, TurnContext};
use crate::orchestrator::workspace::Workspace;
use crate::orchestrator::workspace::names_secrets;
use crate::pack::{ModeSpec, UNANSWERED_NOTICE};
use crate::spec::Tasks;
use crate::store::{Entry, Lease};

/// What stands before the name of a change in the name of its branch.
const BRANCH: &str = "agentd/";

/// The folder of archived changes, next to those of the others.
const ARCHIVE_FOLDER: &str = "archive";

/// A change as it stands.
#[derive(Debug)]
pub struct ChangeStatus {
    /// What is true of it.
    pub state: State,
    /// What may happen next.
    pub standing: NextStep,
    /// The work tree of its own.
    pub tree: PathBuf,
}

impl Workspace {
    /// Returns how often a mode may be entered, and how many turns of it may bring nothing, before a person is asked.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.settings
            .change
            .rounds
            .map_or(self.pack.rounds, u64::from)
    }

    /// Returns where a session has a work tree of its own.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if there is no folder for work trees.
    pub fn own_tree(&self, session: &SessionId) -> Result<PathBuf> {
        let folder = self.worktrees.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::FileUnusable,
                "there is no home folder for the work trees of changes",
            )
            .with_hint("set HOME or XDG_STATE_HOME")
        })?;
        Ok(folder.join(session.as_str()))
    }
}

/// Opens a change: gives it a branch from where the user's tree is, and a work tree outside of the project.
///
/// # Errors
///
/// `ChangeExists` if it is there and something else was asked for; `NotARepository`, `NoCommits` and those of git.
pub fn open_change(
    context: &TurnContext<'_>,
    session: &SessionId,
    request: Option<&str>,
) -> Result<ChangeStatus> {
    recover::holding(context, session, |lease| {
        let (_, mut state) = recover::recover(context, lease)?;
        if state.change.is_none() {
            let Some(request) = request.map(str::trim).filter(|request| !request.is_empty()) else {
                return Err(not_opened(session));
            };
            let opened = new_change(context, session, request, &state)?;
            let mode = context.workspace.pack.start.clone();
            let events = [Event::Opened(Box::new(opened)), Event::Entered { mode }];
            state = record(context, lease, state, &events)?;
            fail::point("opened")?;
        } else if let Some(opened) = &state.change
            && request.is_some_and(|request| request.trim() != opened.request)
        {
            let message = format!(
                "`{session}` is there already, and was asked for as {:?}",
                opened.request
            );
            return Err(Error::new(ErrorKind::ChangeExists, message).with_hint(format!(
                "`agentd run {session}` goes on with it; `agentd revise {session} --note \"…\"` changes it"
            )));
        }
        lead(context, session, state)
    })
}

/// Returns a change as it stands, with its work tree in place.
fn lead(context: &TurnContext<'_>, session: &SessionId, state: State) -> Result<ChangeStatus> {
    let standing = apply::standing(&context.workspace.pack, &state, context.workspace.rounds())?;
    let tree = context.workspace.own_tree(session)?;
    if !matches!(standing, NextStep::Over { .. }) {
        let worktree = ensure_tree(context, session, &state)?;
        // Archived files are not written again, and a change without a folder gets none for its notes.
        if ops::has_change(&tree, session) && !state.done.contains_key(&OperationId::ChangeArchive)
        {
            write_notes(&tree, session, &state)?;
        }
        // What a call has left that came to no end is the work of the next one.
        let is_at_rest = state.mode_turns == 0 || state.progress.replied;
        if is_at_rest && (context.run.tends(session) || !state.notes.is_empty()) {
            worktree.commit(&format!("agentd({session}): what was changed by hand"))?;
        }
    }
    Ok(ChangeStatus {
        state,
        standing,
        tree,
    })
}

fn new_change(
    context: &TurnContext<'_>,
    session: &SessionId,
    request: &str,
    state: &State,
) -> Result<Opened> {
    if session.as_str() == ARCHIVE_FOLDER {
        let message = format!(
            "a change cannot be named `{session}`: archived changes are kept under that name"
        );
        return Err(Error::new(ErrorKind::NameInvalid, message).with_hint("choose another name"));
    }
    if state.turns > 0 {
        let message = format!("`{session}` is a session without a branch of its own");
        return Err(Error::new(ErrorKind::ChangeExists, message).with_hint("choose another name"));
    }
    let repository = context.workspace.repository(&context.run.git)?;
    let root = context
        .workspace
        .root
        .canonicalize()
        .unwrap_or_else(|_| context.workspace.root.clone());
    if root
        != repository
            .root
            .canonicalize()
            .unwrap_or_else(|_| repository.root.clone())
    {
        let top = repository.root.display().to_string();
        let message =
            "the project is a folder of a larger repository, and changes are led at its top";
        return Err(Error::new(ErrorKind::NotARepository, message)
            .with_hint(format!("work with `-C {}`", top.escape_debug())));
    }
    let head = repository.head()?;
    let branch = format!("{BRANCH}{session}");
    if repository.branch_exists(&branch)? {
        let message =
            format!("there is a branch `{branch}`, and no change of this ledger has made it");
        return Err(
            Error::new(ErrorKind::ChangeExists, message).with_hint(format!(
                "choose another name, or remove it with `git branch -D {branch}`"
            )),
        );
    }
    // Told before anything is recorded.
    if let Some(above) = context.workspace.own_tree(session)?.parent() {
        ops::make_folder(above)?;
    }
    let dirty = repository.uncommitted()?;
    if let Some(first) = dirty.first() {
        log::warn!(
            "what is in no commit is not part of the change: {} files, such as {first:?}",
            dirty.len()
        );
    }
    let request = context.workspace.secrets.redact(request).into_owned();
    let pack = context.workspace.pack.name.clone();
    Ok(Opened {
        pack,
        request,
        base: head.commit,
        onto: head.branch,
        branch,
    })
}

/// Makes sure that a change has its work tree.
fn ensure_tree(context: &TurnContext<'_>, session: &SessionId, state: &State) -> Result<Worktree> {
    let opened = state.change.as_ref().ok_or_else(|| not_opened(session))?;
    let repository = context.workspace.repository(&context.run.git)?;
    let path = context.workspace.own_tree(session)?;
    repository.add_worktree(&opened.branch, &path, &opened.base)
}

fn not_opened(session: &SessionId) -> Error {
    Error::new(
        ErrorKind::ChangeNotFound,
        format!("there is no change `{session}`"),
    )
    .with_hint(format!(
        "`agentd status` lists them; `agentd run {session} \"what shall change\"` opens one"
    ))
}

/// Writes what people said to a change into its folder, for people to read.
fn write_notes(tree: &std::path::Path, session: &SessionId, state: &State) -> Result<()> {
    let Some(text) = ops::notes_text(&state.notes) else {
        return Ok(());
    };
    let path = format!("{}/{}", ops::change_folder(session), ops::NOTES);
    if ops::read_project_text(tree, &path)?.as_deref() == Some(text.as_str()) {
        return Ok(());
    }
    ops::write_text(tree, &path, &text)
}

fn record(
    context: &TurnContext<'_>,
    lease: &Lease,
    state: State,
    events: &[Event],
) -> Result<State> {
    context.store.commit(
        lease,
        &Entry {
            events,
            ..Entry::default()
        },
        clock::now(),
    )?;
    Ok(state.after(events))
}

/// Records what a person decides about a change, and what follows from that.
///
/// # Errors
///
/// `ChangeNotFound`; `NotWaiting` if there is nothing to approve.
pub fn decide(
    context: &TurnContext<'_>,
    session: &SessionId,
    decision: Decision,
    note: Option<&str>,
) -> Result<ChangeStatus> {
    recover::holding(context, session, |lease| {
        // Who gives a change up does not want what is left of it to be done first.
        let gives_up = matches!(decision, Decision::Reject | Decision::Cancel);
        let recover = if gives_up {
            recover::look_after
        } else {
            recover::recover
        };
        let (_, state) = recover(context, lease)?;
        if state.change.is_none() {
            return Err(not_opened(session));
        }
        let standing =
            apply::standing(&context.workspace.pack, &state, context.workspace.rounds())?;
        if let Some(why) = refused(decision, &standing) {
            let next = match standing {
                NextStep::Ready { .. } => format!("`agentd run {session}` goes on with it"),
                _ => format!("`agentd change show {session}` tells how it stands"),
            };
            return Err(
                Error::new(ErrorKind::NotWaiting, format!("`{session}` {why}")).with_hint(next),
            );
        }
        let note = if gives_up {
            note.map(str::to_owned)
        } else {
            with_questions(&state, note)
        };
        let note = note.map(|note| context.workspace.secrets.redact(&note).into_owned());
        let mut events: Vec<Event> = apply::decided(&context.workspace.pack, &state, decision)?
            .into_iter()
            .collect();
        events.push(Event::Decided { decision, note });
        if gives_up {
            recover::give_up(context, lease)?;
        } else {
            // What keeps the change from being led on is told before anything is recorded.
            let message = format!("agentd({session}): what was changed by hand");
            ensure_tree(context, session, &state)?.commit(&message)?;
        }
        let state = record(context, lease, state, &events)?;
        let lead = lead(context, session, state)?;
        if gives_up && let Err(error) = leave(context, session, &lead.state) {
            log::warn!("its work tree stays: {error}");
        }
        Ok(lead)
    })
}

/// Returns a person's note together with the questions that it answers. Without a note, the text says that nobody
/// answers them.
fn with_questions(state: &State, note: Option<&str>) -> Option<String> {
    let questions = &state.progress.questions;
    let repeats_them = |note: &str| {
        questions
            .iter()
            .all(|question| note.contains(question.as_str()))
    };
    if questions.is_empty() || note.is_some_and(repeats_them) {
        return note.map(str::to_owned);
    }
    let asked: Vec<String> = questions
        .iter()
        .map(|question| format!("> {question}"))
        .collect();
    Some(format!(
        "{}\n\n{}",
        asked.join("\n"),
        note.unwrap_or(UNANSWERED_NOTICE.trim_end())
    ))
}

/// Tells why a decision cannot be made now.
fn refused(decision: Decision, standing: &NextStep) -> Option<&'static str> {
    match (decision, standing) {
        (_, NextStep::Over { done: true }) => Some("is archived"),
        (Decision::Approve | Decision::Waive, NextStep::Over { .. }) => {
            Some("is given up; only `revise` takes it up again")
        }
        (Decision::Reject | Decision::Cancel, NextStep::Over { .. }) => Some("is given up already"),
        (Decision::Waive, NextStep::Person { .. }) => Some("waits for a person"),
        (Decision::Approve | Decision::Waive | Decision::Reject, NextStep::Ready { .. }) => {
            Some("does not wait for anyone")
        }
        _ => None,
    }
}

/// Returns what is asked for next in a change; the turn adds the request and what people have said.
///
/// # Errors
///
/// Those of files that cannot be read.
pub fn next_ask(
    workspace: &Workspace,
    session: &SessionId,
    state: &State,
    mode: &Mode,
) -> Result<TurnRequest> {
    let spec = workspace.pack.mode(mode)?;
    let request = state
        .change
        .as_ref()
        .map(|opened| opened.request.as_str())
        .unwrap_or_default();
    let instructions = spec.request.as_deref().unwrap_or(request);
    let mut ask = TurnRequest {
        session: Some(session.clone()),
        repairs: MOST_REPAIRS,
        ..TurnRequest::new(mode.clone(), instructions)
    };
    if let Some(task) = next_task(workspace, session, spec)? {
        ask.variables.insert("TASKS".to_owned(), task);
    }
    Ok(ask)
}

/// Returns what is asked for with files of the project shown as they are in the session's own tree: those that are
/// named, and for an agent that cannot open files itself those that the open tasks name.
///
/// # Errors
///
/// Those of files that cannot be read.
pub fn with_files(
    workspace: &Workspace,
    named: &[PathBuf],
    ask: TurnRequest,
) -> Result<TurnRequest> {
    let tree = workspace.tree(ask.session.as_ref());
    let in_tree = |path: &PathBuf| {
        let (root, full) = (
            workspace.root.canonicalize().ok()?,
            path.canonicalize().ok()?,
        );
        full.strip_prefix(root).ok().map(|path| tree.join(path))
    };
    let mut files: Vec<PathBuf> = named
        .iter()
        .map(|path| in_tree(path).unwrap_or_else(|| path.clone()))
        .collect();
    let edits = workspace.pack.mode(&ask.mode)?.edits.is_some();
    if let Some(session) = ask.session.as_ref().filter(|_| edits)
        && !workspace.has_tools(&ask)?
    {
        let path = format!("{}/tasks.md", ops::change_folder(session));
        let text = ops::read_project_text(&tree, &path)?.unwrap_or_default();
        for file in Tasks::read(&text)
            .open()
            .into_iter()
            .flat_map(|task| &task.files)
        {
            let path = tree.join(file);
            if !names_secrets(file.as_ref()) && path.is_file() && !files.contains(&path) {
                files.push(path);
            }
        }
    }
    Ok(TurnRequest { files, ..ask })
}

/// Returns the task that is next, if they are done one by one.
fn next_task(
    workspace: &Workspace,
    session: &SessionId,
    spec: &ModeSpec,
) -> Result<Option<String>> {
    if !spec.by_task || workspace.settings.change.tasks != TaskPace::Each {
        return Ok(None);
    }
    let path = format!("{}/tasks.md", ops::change_folder(session));
    let text = ops::read_project_text(&workspace.tree(Some(session)), &path)?.unwrap_or_default();
    let tasks = Tasks::read(&text);
    let order = tasks
        .order()
        .map_err(|fault| Error::new(ErrorKind::SpecInvalid, fault.message))?;
    Ok(order
        .into_iter()
        .find(|task| !task.done)
        .map(|task| task.block.clone()))
}

/// Tries again what could not be done after the last turn of a change; its agent is not asked again. `None` if there is
/// nothing of that kind.
///
/// # Errors
///
/// Whatever keeps it from being tried.
pub fn retry(context: &TurnContext<'_>, session: &SessionId) -> Result<Option<Vec<StepResult>>> {
    recover::holding(context, session, |lease| {
        let (_, state) = recover::recover(context, lease)?;
        let events = context.store.events(session)?;
        let Some(turn) = TurnRecord::last(session, &events).filter(|_| state.change.is_some())
        else {
            return Ok(None);
        };
        if state.progress.fault.is_some() || state.progress.undone == 0 || state.ended.is_some() {
            return Ok(None);
        }
        let Some(planned) = unsettled(context, &turn)? else {
            return Ok(None);
        };
        ensure_tree(context, session, &state)?;
        let prepared = turn.prepared(context.store)?;
        let grounds = TurnSite::of(context, Some(session), &state)?;
        let mut turning = ActiveTurn::new(context, &Echo, lease, state, &prepared, &grounds);
        // Whoever has settled a conflict by hand has changed what was judged.
        if let Some(why) = turning.stale(&planned)? {
            let hint = format!("`agentd review {session}` reviews it as it is now");
            return Err(Error::new(ErrorKind::VerdictStale, why).with_hint(hint));
        }
        let number = prepared.started.turn;
        let again = planned.iter().map(|planned| Event::Intended {
            turn: number,
            intent: planned.intent(),
        });
        turning.commit(&again.collect::<Vec<_>>(), &[])?;
        turning.settle(&planned).map(Some)
    })
}

/// Returns all that is always done after a turn, if some of it was not done, and what its reply asks for was. It begins
/// anew: what went well before may come to something else by now.
fn unsettled(context: &TurnContext<'_>, turn: &TurnRecord) -> Result<Option<Vec<ops::Step>>> {
    let mut closing: Vec<(ops::Step, bool)> = Vec::new();
    let settled = turn.settlements.iter().map(|settlement| settlement.done);
    for (planned, done) in recover::planned(context.store, &turn.intents)?
        .into_iter()
        .zip(settled)
    {
        if !planned.is_closing() && !done {
            return Ok(None);
        }
        match closing.iter_mut().find(|(known, _)| *known == planned) {
            Some((_, last)) => *last = done,
            None if planned.is_closing() => closing.push((planned, done)),
            None => {}
        }
    }
    let failed = closing.iter().any(|(_, done)| !done);
    Ok(failed.then(|| closing.into_iter().map(|(planned, _)| planned).collect()))
}

/// Brings a change to its end that is over: what is left is committed, and its work tree removed; its branch, too, if it
/// is merged.
///
/// # Errors
///
/// Those of git.
pub fn leave(context: &TurnContext<'_>, session: &SessionId, state: &State) -> Result<()> {
    let Some(opened) = &state.change else {
        return Ok(());
    };
    let repository = context.workspace.repository(&context.run.git)?;
    let path = context.workspace.own_tree(session)?;
    if let Some(worktree) = repository
        .worktree(&opened.branch, &path)?
        .filter(|_| path.is_dir())
    {
        worktree.commit(&format!("agentd({session}): what was left"))?;
        repository.remove_worktree(&worktree, Leftover::Kept)?;
    }
    if let Some(onto) = opened.onto.as_ref().filter(|_| state.ended == Some(true)) {
        // One that is not merged stays, for a pull request or for its owner.
        let _stays = repository.delete_branch(&opened.branch, onto);
    }
    Ok(())
}
