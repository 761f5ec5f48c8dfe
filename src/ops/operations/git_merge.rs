//! `git.merge` and `git.squash`: merge the change's branch into the branch that it was created from.

use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{OperationId, StepResult};
use crate::ops::git::{MergeOutcome, MergeRequest, short_commit};
use crate::ops::{Act, ChangeSite, Operation, Site, Step, TurnEnd};
use crate::store::blob_id;

/// Maximum length of the request in the first line of a commit message, in characters.
const MAX_TITLE_CHARS: usize = 70;

/// Merges only if the change is configured to be merged; otherwise the user merges the branch.
pub(crate) struct GitMerge {
    /// True for `git.squash`, which merges the branch as one commit.
    pub(crate) squash: bool,
}

impl Operation for GitMerge {
    fn id(&self) -> OperationId {
        if self.squash {
            OperationId::GitSquash
        } else {
            OperationId::GitMerge
        }
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Act for GitMerge {
    fn can_be_requested(&self) -> bool {
        false
    }

    fn plan_always(&self, site: &Site<'_>, end: &TurnEnd<'_>) -> Option<Step> {
        let change = site.change?;
        let session = site.session?;

        let request = change.opened.request.lines().next().unwrap_or_default();
        let title: String = request.trim().chars().take(MAX_TITLE_CHARS).collect();
        let turn = format!("{session}/{}", end.started.turn);
        let message = if self.squash {
            format!("{title}\n\nAgentd-Turn: {turn}\n")
        } else {
            let branch = &change.opened.branch;
            format!("Merge {branch}: {title}\n\nAgentd-Turn: {turn}\n")
        };

        let target = change.opened.onto.clone().unwrap_or_default();
        Some(Step::always(self.id(), target, message))
    }

    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        let Some(change) = &site.change else {
            return Ok(step.without_change());
        };

        let merged = self.merge(change, step);
        fail::point("landed")?;
        Ok(match merged {
            Ok(detail) => step.done(detail),
            Err(error) => step.failed(&error),
        })
    }
}

impl GitMerge {
    /// Merges the branch and returns a description of the result. A branch that is already merged is not changed.
    fn merge(&self, change: &ChangeSite<'_>, step: &Step) -> Result<String> {
        let branch = &change.opened.branch;
        let Some(target) = change.opened.onto.as_deref().filter(|_| change.merges) else {
            return Ok(format!("branch {branch} is ready for you to merge"));
        };

        let request = MergeRequest {
            branch,
            into: target,
            message: step.content.as_deref().unwrap_or_default(),
            squash: self.squash,
            // A squashed change was only reviewed on top of its base, so the target must not have newer commits.
            expected_tip: Some(change.opened.base.as_str()).filter(|_| self.squash),
            check_tip: &|tip| self.check_tip(change, tip),
        };
        match change.repository.merge_checked(&request) {
            Ok(MergeOutcome::Already) => Ok(format!("{branch} was already merged into {target}")),
            Ok(_) => Ok(format!("merged {branch} into {target}")),
            Err(error) if error.kind() == ErrorKind::MergeConflict => Err(error.with_hint(
                format!("all work is on branch {branch}; try again, or merge the branch manually"),
            )),
            Err(error) => Err(error),
        }
    }

    /// Fails if the tip of the branch is not the expected commit: the one that was reviewed for `git.squash`, the one
    /// that `git.commit` created for `git.merge`.
    fn check_tip(&self, change: &ChangeSite<'_>, tip: &str) -> Result<()> {
        let results = &change.state.results;
        let is_expected = if self.squash {
            results
                .get(&OperationId::GitDiff)
                .is_some_and(|reviewed| reviewed.target == tip)
        } else {
            results
                .get(&OperationId::GitCommit)
                .is_some_and(|created| created.report == Some(blob_id(tip.as_bytes())))
        };
        if is_expected {
            return Ok(());
        }

        let message = format!(
            "branch `{}` changed since the review: its tip is now {}",
            change.opened.branch,
            short_commit(tip)
        );
        Err(Error::new(ErrorKind::VerdictStale, message))
    }
}
