//! `git.commit`: commits all changes that a turn has made in the change's worktree.

use crate::error::Result;
use crate::fail;
use crate::models::{BlobId, OperationId, StepOutcome, StepResult};
use crate::ops::git::{WorktreeCommit, short_commit};
use crate::ops::{Act, Operation, Site, Step, TurnEnd};

/// The result is `COMMITTED` if the branch has moved since the start of the turn, even if the agent itself has
/// committed; otherwise it is `NOTHING`.
pub(crate) struct GitCommit;

impl Operation for GitCommit {
    fn id(&self) -> OperationId {
        OperationId::GitCommit
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for GitCommit {
    fn can_be_requested(&self) -> bool {
        false
    }

    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        let change = site.change?;
        let session = site.session?;

        let mode = &end.started.mode;
        let verdict = end
            .verdict
            .map(|verdict| format!(": {}", verdict.name()))
            .unwrap_or_default();
        let turn = format!("{session}/{}", end.started.turn);
        let agent = &end.started.agent;
        let message = format!(
            "agentd({session}): {mode}{verdict}\n\nAgentd-Turn: {turn}\nAgentd-Agent: {agent}\n"
        );

        let start = end.started.commit.clone().unwrap_or_default();
        Some(Step {
            before: Some(BlobId(start)),
            ..Step::always(self.id(), change.opened.branch.clone(), message)
        })
    }

    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        let Some(change) = &site.change else {
            return Ok(step.without_change());
        };

        let message = step.content.as_deref().unwrap_or_default();
        let committed = change.worktree.commit_all(message);
        fail::point("git-committed")?;
        let WorktreeCommit { commit, is_new } = match committed {
            Ok(committed) => committed,
            Err(error) => return Ok(step.not_done(error.to_string())),
        };

        let is_at_start = step.before == Some(BlobId(commit.clone()));
        let (detail, outcome) = match (is_new, is_at_start) {
            (true, _) => (
                format!("committed {}", short_commit(&commit)),
                StepOutcome::Committed,
            ),
            (false, false) => (
                "already committed by the agent".to_owned(),
                StepOutcome::Committed,
            ),
            (false, true) => ("nothing to commit".to_owned(), StepOutcome::Nothing),
        };
        Ok(step.done(detail).with_outcome(outcome, Some(commit)))
    }
}
