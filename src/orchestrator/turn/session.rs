//! A session that this process holds under a lease. Except during recovery, events are added to a session only here.

use std::thread;
use std::time::{Duration, Instant};

use super::context::TurnContext;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Event, State};
use crate::orchestrator::clock;
use crate::store::{Lease, LedgerEntry};

/// Poll interval of [`Session::pause`].
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Interval at which the holder of a session renews its lease in the ledger.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// A session held under a lease, with its current state.
pub(crate) struct Session<'a> {
    pub(crate) context: &'a TurnContext<'a>,
    pub(crate) lease: &'a Lease,
    pub(crate) state: State,
    /// Events to record with the next commit, before the events of that commit.
    deferred: Vec<Event>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(context: &'a TurnContext<'a>, lease: &'a Lease, state: State) -> Self {
        Self {
            context,
            lease,
            state,
            deferred: Vec::new(),
        }
    }

    /// Loads the state of a session from the ledger.
    pub(crate) fn load(context: &'a TurnContext<'a>, lease: &'a Lease) -> Result<Self> {
        let state = context.store.state(&lease.session)?;
        Ok(Self::new(context, lease, state))
    }

    /// Returns an error if the session was started with another pack.
    pub(crate) fn require_pack(&self) -> Result<()> {
        let pack = &self.context.workspace.pack.name;
        let Some(other) = self.state.pack.as_ref().filter(|other| *other != pack) else {
            return Ok(());
        };

        let session = &self.lease.session;
        let message = format!("session `{session}` uses pack `{other}`, not `{pack}`");
        Err(Error::new(ErrorKind::OtherPack, message)
            .with_hint(format!("pass --pack {other}, or choose another session")))
    }

    /// Applies events to the state now, and records them with the next commit.
    pub(crate) fn defer(&mut self, events: Vec<Event>) {
        self.state = std::mem::take(&mut self.state).after(&events);
        self.deferred.extend(events);
    }

    /// Returns true if there are events to record with the next commit.
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Records events and the blobs that they refer to, in one transaction.
    pub(crate) fn commit(&mut self, events: &[Event], blobs: &[&[u8]]) -> Result<()> {
        let deferred = std::mem::take(&mut self.deferred);
        let all = [deferred.as_slice(), events].concat();
        let entry = LedgerEntry {
            events: &all,
            blobs,
            budget: self.context.run.budget,
        };
        self.context
            .store
            .commit(self.lease, &entry, clock::now())?;

        self.state = std::mem::take(&mut self.state).after(events);
        Ok(())
    }

    /// Waits for a duration and renews the lease meanwhile. Returns false if the run was asked to stop.
    ///
    /// The caller keeps `heartbeat` between calls, so that a series of short pauses also renews the lease.
    pub(crate) fn pause(&self, duration: Duration, heartbeat: &mut Heartbeat) -> Result<bool> {
        let start = Instant::now();
        while start.elapsed() < duration {
            if self.context.run.stop.asked() > 0 {
                return Ok(false);
            }
            heartbeat.beat(self)?;
            thread::sleep(POLL_INTERVAL.min(duration.saturating_sub(start.elapsed())));
        }
        Ok(true)
    }
}

/// Renews the lease of a session at intervals.
pub(crate) struct Heartbeat {
    last: Instant,
}

impl Heartbeat {
    pub(crate) fn new() -> Self {
        Self {
            last: Instant::now(),
        }
    }

    pub(crate) fn beat(&mut self, session: &Session<'_>) -> Result<()> {
        if self.last.elapsed() >= HEARTBEAT_INTERVAL {
            session
                .context
                .store
                .heartbeat(session.lease, clock::now())?;
            self.last = Instant::now();
        }
        Ok(())
    }
}
