//! Closes a change: removes its worktree, and its branch if it is merged.

use crate::error::Result;
use crate::models::{SessionId, State};
use crate::ops::Leftover;
use crate::orchestrator::turn::TurnContext;

/// Removes the worktree of a change that is done or abandoned. Uncommitted edits are committed first. The branch is
/// deleted if it is merged.
///
/// # Errors
///
/// Fails if a git command fails.
pub(super) fn close_change(
    context: &TurnContext<'_>,
    change: &SessionId,
    state: &State,
) -> Result<()> {
    let Some(opened) = &state.change else {
        return Ok(());
    };
    let repository = context.workspace.repository(&context.run.git)?;
    let path = context.workspace.worktree_path(change)?;

    let worktree = repository.worktree(&opened.branch, &path)?;
    if let Some(worktree) = worktree.filter(|_| path.is_dir()) {
        worktree.commit(&format!("agentd({change}): remaining edits"))?;
        repository.remove_worktree(&worktree, Leftover::Kept)?;
    }
    if let Some(onto) = opened.onto.as_ref().filter(|_| state.ended == Some(true)) {
        // Fails if the branch is not merged; it is then kept, for example for a pull request.
        let _unmerged = repository.delete_branch(&opened.branch, onto);
    }
    Ok(())
}
