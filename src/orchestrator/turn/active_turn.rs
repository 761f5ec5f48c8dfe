//! A turn in progress: its session, its prompt, and where it works.

use super::call_files;
use super::prepare::PreparedTurn;
use super::read_only::ReadOnlyGuard;
use super::session::Session;
use super::site::TurnSite;
use crate::agent;
use crate::error::Result;
use crate::fail;
use crate::models::{Event, State, TurnStart};
use crate::ops::Site;
use crate::pack::ModeSpec;

/// A turn in progress.
///
/// It can call no agent: [`AgentCalls`](super::call::AgentCalls) adds that. So recovery, retries and panels, which
/// finish turns without a call, need no driver.
pub(crate) struct ActiveTurn<'a> {
    pub(crate) session: Session<'a>,
    pub(crate) prepared: &'a PreparedTurn,
    pub(crate) site: &'a TurnSite,
    /// Number of calls that were made for the turn.
    pub(crate) calls: u64,
    /// Number of calls among them that asked again for something the reply lacked.
    pub(crate) repairs: u64,
    /// Warnings for the report.
    pub(crate) warnings: Vec<String>,
}

impl<'a> ActiveTurn<'a> {
    pub(crate) fn new(
        session: Session<'a>,
        prepared: &'a PreparedTurn,
        site: &'a TurnSite,
    ) -> Self {
        Self {
            session,
            prepared,
            site,
            calls: prepared.calls,
            repairs: 0,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn started(&self) -> &'a TurnStart {
        &self.prepared.started
    }

    pub(crate) fn mode_spec(&self) -> Result<&'a ModeSpec> {
        self.session
            .context
            .workspace
            .pack
            .mode(&self.prepared.started.mode)
    }

    /// Returns the site of operations, with a state of the session.
    pub(crate) fn operation_site<'s>(&'s self, state: &'s State) -> Site<'s> {
        let session = &self.session;
        let named = Some(&session.lease.session).filter(|_| self.started().named);
        self.site.operation_site(session.context, named, state)
    }

    /// Returns the guard that compares the worktree before and after a call.
    pub(crate) fn read_only_guard(&self, call: u64) -> ReadOnlyGuard<'a> {
        let workspace = self.session.context.workspace;
        ReadOnlyGuard {
            home: &workspace.root,
            root: &self.site.tree,
            session: &self.session.lease.session,
            turn: self.started().turn,
            call,
            updates: workspace.updates(&self.prepared.started.mode),
        }
    }

    /// Records events and the texts that they name. Files of a call that the ledger has now are removed.
    pub(crate) fn commit(&mut self, events: &[Event], blobs: &[&[u8]]) -> Result<()> {
        self.session.commit(events, blobs)?;

        for event in events {
            if let Event::Answered(answered) = event {
                self.remove_call_files(answered.call)?;
            }
        }
        Ok(())
    }

    fn remove_call_files(&self, call: u64) -> Result<()> {
        fail::point("kept")?;
        let root = &self.session.context.workspace.root;
        let session = &self.session.lease.session;
        let folder = call_files::folder(session, self.started().turn, call);
        agent::discard(&root.join(folder));
        self.read_only_guard(call).forget();
        fail::point("cleared")
    }
}
