//! The request for the next turn of a change.

use std::path::PathBuf;

use crate::config::TaskPace;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Mode, SessionId, State, paths};
use crate::ops;
use crate::orchestrator::turn::reply_reader::MAX_REPAIRS;
use crate::orchestrator::turn::request::TurnRequest;
use crate::orchestrator::workspace::{Workspace, is_secret_file};
use crate::pack::ModeSpec;
use crate::spec::Tasks;

/// Template variable with the tasks of a change.
const TASKS_VARIABLE: &str = "TASKS";

/// Returns the request for a turn of a change in a mode. Its instructions are the task of the mode;
/// [`take_turn`](crate::orchestrator::take_turn) adds the request of the change and the notes of the user.
///
/// # Errors
///
/// `UnknownMode`; `SpecInvalid` if the tasks depend on each other in a cycle; `FileUnusable` if the tasks cannot be
/// read.
pub(super) fn next_turn(
    workspace: &Workspace,
    change: &SessionId,
    state: &State,
    mode: &Mode,
) -> Result<TurnRequest> {
    let spec = workspace.pack.mode(mode)?;
    let opened = state.change.as_ref();
    let request = opened.map_or("", |opened| opened.request.as_str());
    let instructions = spec.request.as_deref().unwrap_or(request);

    let mut turn = TurnRequest {
        session: Some(change.clone()),
        repairs: MAX_REPAIRS,
        ..TurnRequest::new(mode.clone(), instructions)
    };
    if let Some(task) = next_task(workspace, change, spec)? {
        turn.variables.insert(TASKS_VARIABLE.to_owned(), task);
    }
    Ok(turn)
}

/// Returns the files that the prompt of a turn shows, as paths in the worktree of the change: the `requested` files,
/// and, if the agent has no tools to read files, the files that open tasks mention.
///
/// # Errors
///
/// `UnknownMode`; `FileUnusable` if the tasks cannot be read.
pub(super) fn files_to_show(
    workspace: &Workspace,
    requested: &[PathBuf],
    turn: &TurnRequest,
) -> Result<Vec<PathBuf>> {
    let tree = workspace.tree(turn.session.as_ref());
    let path_in_tree = |path: &PathBuf| {
        let root = workspace.root.canonicalize().ok()?;
        let full = path.canonicalize().ok()?;
        full.strip_prefix(root).ok().map(|path| tree.join(path))
    };
    let mut files: Vec<PathBuf> = requested
        .iter()
        .map(|path| path_in_tree(path).unwrap_or_else(|| path.clone()))
        .collect();

    let can_edit = workspace.pack.mode(&turn.mode)?.edits.is_some();
    if let Some(change) = turn.session.as_ref().filter(|_| can_edit)
        && !workspace.has_tools(turn)?
    {
        let tasks = read_tasks(workspace, change)?;
        for file in tasks.open().into_iter().flat_map(|task| &task.files) {
            let path = tree.join(file);
            if !is_secret_file(file.as_ref()) && path.is_file() && !files.contains(&path) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Returns the text of the next task, if the settings and the mode let the agent work on one task at a time.
fn next_task(workspace: &Workspace, change: &SessionId, spec: &ModeSpec) -> Result<Option<String>> {
    if !spec.by_task || workspace.settings.change.tasks != TaskPace::Each {
        return Ok(None);
    }
    let tasks = read_tasks(workspace, change)?;
    let order = tasks
        .order()
        .map_err(|fault| Error::new(ErrorKind::SpecInvalid, fault.message))?;
    let next = order.into_iter().find(|task| !task.done);
    Ok(next.map(|task| task.block.clone()))
}

fn read_tasks(workspace: &Workspace, change: &SessionId) -> Result<Tasks> {
    let tree = workspace.tree(Some(change));
    let path = paths::change_file(change, paths::TASKS_FILE);
    let text = ops::read_project_text(&tree, &path)?;
    Ok(Tasks::read(&text.unwrap_or_default()))
}
