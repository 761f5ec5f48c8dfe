//! Detects changes to the working tree during a read-only call.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::Result;
use crate::models::paths::CALLS_FOLDER;
use crate::models::{CallOutcome, Permission, Reply, SessionId};
use crate::ops::{SnapshotScope, TreeSnapshot};
use crate::orchestrator::workspace::is_secret_file;

/// Maximum number of changed files that an outcome lists.
const MAX_NAMED_FILES: usize = 5;

/// Compares the working tree before and after a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOnlyGuard<'a> {
    /// Root of the project, where snapshots are stored.
    pub(crate) home: &'a Path,
    /// The tree that the agent works in.
    pub(crate) root: &'a Path,
    pub(crate) session: &'a SessionId,
    pub(crate) turn: u64,
    pub(crate) call: u64,
    /// Patterns of files that the reply may update.
    pub(crate) updates: &'a [String],
}

impl ReadOnlyGuard<'_> {
    /// Takes a snapshot before a read-only call; returns `None` for other calls. The snapshot is also stored in a file,
    /// for recovery in case this process is killed during the call.
    pub(crate) fn before(&self, permission: Permission) -> Result<Option<TreeSnapshot>> {
        if permission != Permission::ReadOnly {
            return Ok(None);
        }
        let snapshot = self.take_snapshot()?;
        // If the snapshot cannot be written, the files of the call cannot be either, which is reported as an error.
        let _reported_later = snapshot.keep(&self.home.join(CALLS_FOLDER), &self.name());
        Ok(Some(snapshot))
    }

    /// Returns the reply, with the outcome `Edited` if files have changed since the snapshot. Changes after `until` are
    /// ignored, because the agent had ended by then.
    pub(crate) fn after(
        &self,
        snapshot: Option<&TreeSnapshot>,
        reply: Reply,
        until: Option<SystemTime>,
    ) -> Result<Reply> {
        let Some(snapshot) = snapshot else {
            return Ok(reply);
        };
        let changes = snapshot.changes(&self.take_snapshot()?, until);
        if changes.is_empty() {
            return Ok(reply);
        }
        let edited = CallOutcome::Edited {
            files: changes.len() as u64,
            first: changes.into_iter().take(MAX_NAMED_FILES).collect(),
        };
        Ok(Reply {
            end: edited,
            ..reply
        })
    }

    /// Returns the stored snapshot of an interrupted call; `None` if there is none.
    pub(crate) fn kept(&self) -> Option<TreeSnapshot> {
        TreeSnapshot::kept(self.home, &self.path())
    }

    /// Removes the stored snapshot.
    pub(crate) fn forget(&self) {
        TreeSnapshot::forget(&self.path());
    }

    fn take_snapshot(&self) -> Result<TreeSnapshot> {
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
            always: is_secret_file,
        })
    }

    fn path(&self) -> PathBuf {
        self.home.join(CALLS_FOLDER).join(self.name())
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
