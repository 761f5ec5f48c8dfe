//! A turn in progress: its session, its prompt and its site.

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
/// It cannot call the agent; [`AgentCalls`](super::call::AgentCalls) does that. Recovery, retries and panels finish
/// turns without a call, so they need no driver.
pub(crate) struct ActiveTurn<'a> {
    pub(crate) session: Session<'a>,
    pub(crate) prepared: &'a PreparedTurn,
    pub(crate) site: &'a TurnSite,
    /// Number of calls made for the turn, including those of earlier runs.
    pub(crate) calls: u64,
    /// Number of repair calls made in this run.
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

    /// Returns the site for operations, with `state` as the state of the session.
    pub(crate) fn operation_site<'s>(&'s self, state: &'s State) -> Site<'s> {
        let session = &self.session;
        let named_session = Some(&session.lease.session).filter(|_| self.started().named);
        self.site
            .operation_site(session.context, named_session, state)
    }

    /// Returns the guard that compares the working tree before and after a call.
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

    /// Records events and the blobs that they refer to. If the end of a call is recorded, the files of the call are
    /// removed.
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
