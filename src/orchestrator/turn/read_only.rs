//! An agent that may only read is not taken at its word: the work tree is compared before and after.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::call::CALLS;
use crate::error::Result;
use crate::models::{CallOutcome, Permission, Reply, SessionId};
use crate::ops::{SnapshotScope, TreeSnapshot};
use crate::orchestrator::workspace::names_secrets;

/// How many changed files are told by name.
const TOLD: usize = 5;

/// The call of an agent in a work tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOnlyGuard<'a> {
    /// The project's root, where what is known of calls is kept.
    pub(crate) home: &'a Path,
    /// The tree that the agent works in.
    pub(crate) root: &'a Path,
    pub(crate) session: &'a SessionId,
    pub(crate) turn: u64,
    pub(crate) call: u64,
    /// What the reply may update.
    pub(crate) updates: &'a [String],
}

impl ReadOnlyGuard<'_> {
    /// Looks at the work tree before a call, and keeps what is there in case we do not see its end.
    pub(crate) fn before(&self, permission: Permission) -> Result<Option<TreeSnapshot>> {
        if permission != Permission::ReadOnly {
            return Ok(None);
        }
        let census = self.look()?;
        // Where nothing can be kept, the call cannot be started either, which tells it.
        let _told_later = census.keep(&self.home.join(CALLS), &self.name());
        Ok(Some(census))
    }

    /// Returns a reply as it counts after a look at the work tree. What was touched after a moment is someone else's.
    pub(crate) fn after(
        &self,
        census: Option<&TreeSnapshot>,
        reply: Reply,
        until: Option<SystemTime>,
    ) -> Result<Reply> {
        let Some(census) = census else {
            return Ok(reply);
        };
        let changes = census.changes(&self.look()?, until);
        if changes.is_empty() {
            return Ok(reply);
        }
        let edited = CallOutcome::Edited {
            files: changes.len() as u64,
            first: changes.into_iter().take(TOLD).collect(),
        };
        Ok(Reply {
            end: edited,
            ..reply
        })
    }

    /// Returns what was kept before a call whose end nobody saw.
    pub(crate) fn kept(&self) -> Option<TreeSnapshot> {
        TreeSnapshot::kept(self.home, &self.path())
    }

    /// Removes what was kept.
    pub(crate) fn forget(&self) {
        TreeSnapshot::forget(&self.path());
    }

    fn look(&self) -> Result<TreeSnapshot> {
        let Self {
            root,
            session,
            updates,
            ..
        } = *self;
        TreeSnapshot::take(&SnapshotScope {
            root,
            session,
            updates,
            always: names_secrets,
        })
    }

    fn path(&self) -> PathBuf {
        self.home.join(CALLS).join(self.name())
    }

    fn name(&self) -> String {
        let Self {
            session,
            turn,
            call,
            ..
        } = self;
        format!("{session}.{turn}.{call}.tree")
    }
}
