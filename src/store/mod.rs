//! The ledger: the events of each session, append-only.
//!
//! [`SqliteStore`] keeps it in the project, [`MemoryStore`] for as long as the program runs; a [`Store`] of your own can keep
//! it elsewhere. Every method takes `&self`, is one whole transaction and deals in values; ids and time are arguments.
//!
//! ```
//! use agentd::models::{Holder, SessionId};
//! use agentd::store::{Claim, MemoryStore, Store};
//! # use std::time::SystemTime;
//!
//! let store = MemoryStore::default();
//! let session = SessionId::new("add-login")?;
//! # let me = Holder { name: "my program".to_owned(), process: agentd::agent::this_process() };
//! # let now = SystemTime::now();
//! let claim = store.claim(&session, &me, None, now)?;
//! let Claim::Granted(lease) = claim else { panic!("nobody else holds it") };
//! // A second program does not get the session until it is released.
//! assert!(matches!(store.claim(&session, &me, None, now)?, Claim::Busy(_)));
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
    BlobId, Budget, Event, FigureKind, Held, Holder, Measurement, SessionId, Spent, State, TurnRow,
    UsageRow,
};

/// How many measurements of an agent, a model and a kind are kept.
pub const MOST_MEASUREMENTS: usize = 200;

/// Returns the name of some bytes in the ledger.
#[must_use]
pub fn blob_id(bytes: &[u8]) -> BlobId {
    BlobId(blake3::hash(bytes).to_hex().to_string())
}

/// The right to write to a session. A newer lease of the same session has a higher fence and voids this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The lease's number; only the highest may write.
    pub fence: u64,
}

/// What came of asking for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the caller's.
    Granted(Lease),
    /// Someone else holds it.
    Busy(Held),
}

/// What is recorded in one transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry<'a> {
    /// What happened, in order.
    pub events: &'a [Event],
    /// Texts that the events name, or that later ones will.
    pub blobs: &'a [&'a [u8]],
    /// What each `Called` among the events is held to.
    pub budget: Budget,
}

/// Where the events of every session end at some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Number of events and hash of the last one, by session.
    sessions: BTreeMap<SessionId, (u64, Vec<u8>)>,
}

/// Which turns are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Turns<'a> {
    /// Of this session only.
    pub session: Option<&'a SessionId>,
    /// At most so many, the newest.
    pub newest: usize,
}

/// Which measurements are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// Of this kind.
    pub kind: FigureKind,
    /// Of this agent only.
    pub agent: Option<&'a str>,
    /// Of this model only.
    pub model: Option<&'a str>,
}

/// The ledger of sessions.
///
/// Implementers append all of an entry or nothing, and refuse every write under a lease that is no longer the newest
/// of its session.
pub trait Store: Send + Sync {
    /// Takes a session for a holder, if nobody holds it or the one with the fence `over` does.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn claim(
        &self,
        session: &SessionId,
        holder: &Holder,
        over: Option<u64>,
        now: SystemTime,
    ) -> Result<Claim>;

    /// Says that the holder is still there.
    ///
    /// # Errors
    ///
    /// `SessionBusy` if the lease is void.
    fn heartbeat(&self, lease: &Lease, now: SystemTime) -> Result<()>;

    /// Gives a session back.
    ///
    /// # Errors
    ///
    /// `SessionBusy` if the lease is void.
    fn release(&self, lease: &Lease) -> Result<()>;

    /// Records an entry: before a wait, after a reply, or when effects are settled.
    ///
    /// # Errors
    ///
    /// `SessionBusy` if the lease is void, `LedgerChanged` if the session holds what was not recorded under it, `BudgetExhausted` if a call among the events would exceed its budget,
    /// `LedgerUnusable` if an event names a text that is not there or cannot follow those before it; nothing is
    /// recorded then.
    fn commit(&self, lease: &Lease, entry: &Entry<'_>, now: SystemTime) -> Result<()>;

    /// Returns where the events of every session end now, to be compared later by [`Self::check_unchanged`].
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn marks(&self) -> Result<Marks>;

    /// Refuses a ledger that someone has edited: all that it held at the marks must be there and unchanged, the session of
    /// the lease must hold nothing but what was recorded under it, and all that others have recorded meanwhile must
    /// follow from what was there. An agent runs as the same user, and can write to the file.
    ///
    /// # Errors
    ///
    /// `LedgerChanged`, with what has changed.
    fn check_unchanged(&self, lease: &Lease, marks: &Marks) -> Result<()>;

    /// Returns all events of a session, in order, each with when it was recorded.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn events(&self, session: &SessionId) -> Result<Vec<(SystemTime, Event)>>;

    /// Returns the state of a session: the fold of its events.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn state(&self, session: &SessionId) -> Result<State> {
        let events = self.events(session)?;
        Ok(State::fold(events.iter().map(|(_, event)| event)))
    }

    /// Returns the bytes of a text; `None` if the ledger has none of that name.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if they are not those of the name.
    fn blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>>;

    /// Returns turns, the newest last.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn turns(&self, wanted: &Turns<'_>) -> Result<Vec<TurnRow>>;

    /// Returns the name of every session to which something has happened, sorted.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn sessions(&self) -> Result<Vec<SessionId>>;

    /// Returns every session that is held, by name.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn held(&self) -> Result<Vec<Held>>;

    /// Returns what a run has spent, or a session over all runs.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn spent(&self, scope: &Scope<'_>) -> Result<Spent>;

    /// Returns what each agent has used in each session, by session and agent.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn usage(&self, session: Option<&SessionId>) -> Result<Vec<UsageRow>>;

    /// Keeps a measurement; of its agent, model and kind no more than [`MOST_MEASUREMENTS`] are kept, the newest.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn measure(&self, measurement: &Measurement, now: SystemTime) -> Result<()>;

    /// Returns measurements, the newest last, each with when it was made.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn measurements(&self, wanted: &Figures<'_>) -> Result<Vec<(SystemTime, Measurement)>>;
}

/// What spending is counted over.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// One invocation of the program.
    Run(&'a str),
    /// A session, over all runs.
    Session(&'a SessionId),
}

impl Scope<'_> {
    /// Returns the scope as two words that no other scope has.
    fn key(&self) -> (&'static str, &str) {
        match self {
            Self::Run(run) => ("run", run),
            Self::Session(session) => ("session", session.as_str()),
        }
    }
}
