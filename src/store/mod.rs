//! The ledger: an append-only list of events for each session.
//!
//! [`SqliteStore`] keeps the ledger in the project, [`MemoryStore`] in memory; implement [`Store`] to keep it elsewhere.
//! Every method takes `&self` and is one transaction; ids and times are arguments.
//!
//! ```
//! use agentd::models::{LeaseHolder, SessionId};
//! use agentd::store::{ClaimResult, MemoryStore, Store};
//! # use std::time::SystemTime;
//!
//! let store = MemoryStore::default();
//! let session = SessionId::new("add-login")?;
//! # let me = LeaseHolder { name: "my program".to_owned(), process: agentd::agent::this_process() };
//! # let now = SystemTime::now();
//! let claim = store.claim(&session, &me, None, now)?;
//! let ClaimResult::Granted(lease) = claim else { panic!("the session is free") };
//! // A second claim is refused until the session is released.
//! assert!(matches!(store.claim(&session, &me, None, now)?, ClaimResult::Busy(_)));
//! store.release(&lease)?;
//! # Ok::<(), agentd::Error>(())
//! ```

mod memory;
mod sqlite;
mod turn_index;

use std::collections::BTreeMap;
use std::time::SystemTime;

pub use memory::MemoryStore;
pub use sqlite::SqliteStore;

use crate::error::Result;
use crate::models::{
    BlobId, Budget, BudgetUsage, Event, HeldSession, LeaseHolder, MeasuredKind, Measurement,
    SessionId, State, TurnRow, UsageRow,
};

/// Maximum number of measurements kept for each agent, model and kind.
pub const MAX_MEASUREMENTS: usize = 200;

/// Returns the id of a blob in the ledger: the BLAKE3 hash of its bytes.
#[must_use]
pub fn blob_id(bytes: &[u8]) -> BlobId {
    BlobId(blake3::hash(bytes).to_hex().to_string())
}

/// Exclusive right to write to a session. A newer lease of the same session has a higher fence and voids this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    #[expect(missing_docs, reason = "the name says it all")]
    pub session: SessionId,
    /// Fencing token: a write with a lower token is refused.
    pub fence: u64,
}

/// Result of claiming a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimResult {
    /// The caller holds the session.
    Granted(Lease),
    /// The session is already held.
    Busy(HeldSession),
}

/// Events and blobs that are recorded in one transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct LedgerEntry<'a> {
    /// Events, in order.
    pub events: &'a [Event],
    /// Contents of blobs that these events or later events refer to.
    pub blobs: &'a [&'a [u8]],
    /// Limits that each `Called` event is checked against.
    pub budget: Budget,
}

/// Snapshot of the end of every session, to detect edits of the ledger by anything but agentd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerMarks {
    /// Number of events and hash of the last one, by session.
    sessions: BTreeMap<SessionId, (u64, Vec<u8>)>,
}

/// Query for turns.
#[derive(Clone, Copy, Debug)]
pub struct TurnQuery<'a> {
    /// Session of the turns; `None` for all sessions.
    pub session: Option<&'a SessionId>,
    /// Maximum number of turns to return; older turns are skipped.
    pub newest: usize,
}

/// Query for measurements.
#[derive(Clone, Copy, Debug)]
pub struct MeasurementQuery<'a> {
    #[expect(missing_docs, reason = "the name says it all")]
    pub kind: MeasuredKind,
    /// Agent that was measured; `None` for all agents.
    pub agent: Option<&'a str>,
    /// Model that was measured; `None` for all models.
    pub model: Option<&'a str>,
}

/// Storage of the ledger.
///
/// An implementation appends an entry completely or not at all, and refuses every write under a lease that is no longer
/// the newest of its session.
pub trait Store: Send + Sync {
    /// Claims a session for a holder. Succeeds if the session is free, or if its current lease has the fence `over`: this
    /// takes the session over from a holder that is known to be dead.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` or `StorageFull` if the ledger cannot be read or written.
    fn claim(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        over: Option<u64>,
        now: SystemTime,
    ) -> Result<ClaimResult>;

    /// Renews the time at which the holder was last seen alive.
    ///
    /// # Errors
    ///
    /// `SessionBusy` if the lease is void.
    fn heartbeat(&self, lease: &Lease, now: SystemTime) -> Result<()>;

    /// Releases a session.
    ///
    /// # Errors
    ///
    /// `SessionBusy` if the lease is void.
    fn release(&self, lease: &Lease) -> Result<()>;

    /// Records an entry.
    ///
    /// # Errors
    ///
    /// `SessionBusy` if the lease is void, `LedgerChanged` if the session has events that were not recorded under the lease,
    /// `BudgetExhausted` if a call would exceed a budget, `LedgerUnusable` if an event is out of order or refers to a missing
    /// blob. Nothing is recorded then.
    fn commit(&self, lease: &Lease, entry: &LedgerEntry<'_>, now: SystemTime) -> Result<()>;

    /// Returns a snapshot of the end of every session, for a later [`Self::check_unchanged`].
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read.
    fn marks(&self) -> Result<LedgerMarks>;

    /// Fails if the ledger was edited since the snapshot: an agent runs as the same user and can write to the file.
    ///
    /// All events of the snapshot must still exist, the leased session must have no events that were not recorded under the
    /// lease, and the hashes of events that other processes have recorded since must continue the chain.
    ///
    /// # Errors
    ///
    /// `LedgerChanged`, with the first difference; `LedgerUnusable` if the ledger cannot be read.
    fn check_unchanged(&self, lease: &Lease, marks: &LedgerMarks) -> Result<()>;

    /// Returns all events of a session, in order, each with the time at which it was recorded.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read.
    fn events(&self, session: &SessionId) -> Result<Vec<(SystemTime, Event)>>;

    /// Returns the state of a session: the fold of its events.
    ///
    /// # Errors
    ///
    /// Those of [`Self::events`].
    fn state(&self, session: &SessionId) -> Result<State> {
        let events = self.events(session)?;
        Ok(State::fold(events.iter().map(|(_, event)| event)))
    }

    /// Returns the content of a blob; `None` if the ledger does not have it.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read, or if the bytes do not match the id.
    fn blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>>;

    /// Returns turns, the newest last.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read.
    fn turns(&self, wanted: &TurnQuery<'_>) -> Result<Vec<TurnRow>>;

    /// Returns the ids of all sessions with at least one event, sorted.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read.
    fn sessions(&self) -> Result<Vec<SessionId>>;

    /// Returns all sessions that are held, sorted by id.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read.
    fn held(&self) -> Result<Vec<HeldSession>>;

    /// Returns the usage of a run, or of a session over all runs.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read.
    fn spent(&self, scope: &BudgetScope<'_>) -> Result<BudgetUsage>;

    /// Returns the usage of each agent and model in one session, or in all sessions if `None`; sorted by session and agent.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read.
    fn usage(&self, session: Option<&SessionId>) -> Result<Vec<UsageRow>>;

    /// Records a measurement. Of each agent, model and kind, only the newest [`MAX_MEASUREMENTS`] are kept.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` or `StorageFull` if the ledger cannot be written.
    fn measure(&self, measurement: &Measurement, now: SystemTime) -> Result<()>;

    /// Returns measurements, the newest last, each with its time.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read.
    fn measurements(&self, wanted: &MeasurementQuery<'_>)
    -> Result<Vec<(SystemTime, Measurement)>>;
}

/// Scope that a budget applies to.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetScope<'a> {
    /// One invocation of the program.
    Run(&'a str),
    /// A session, over all runs.
    Session(&'a SessionId),
}

impl BudgetScope<'_> {
    /// Returns the kind and the name of the scope, which together are unique.
    fn key(&self) -> (&'static str, &str) {
        match self {
            Self::Run(run) => ("run", run),
            Self::Session(session) => ("session", session.as_str()),
        }
    }
}
