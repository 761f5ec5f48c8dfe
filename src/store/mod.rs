//! The ledger: what happened to each session, append-only.
//!
//! Every method takes `&self`, is one whole transaction and deals in values; ids and time are arguments.

mod memory;

use std::time::SystemTime;

pub use memory::MemoryStore;

use crate::error::Result;
use crate::models::{Event, SessionId};

/// The right to write to a session. A newer lease of the same session has a higher fence and voids this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The lease's number; only the highest may write.
    pub fence: u64,
}

/// The ledger of sessions.
///
/// Implementers append all events of a call or none, and refuse every write under a lease that is no longer the
/// newest of its session.
pub trait Store {
    /// Takes a session for a holder.
    ///
    /// # Errors
    ///
    /// `SessionBusy`, naming the holder and since when, if someone else holds it.
    fn claim(&self, session: &SessionId, holder: &str, now: SystemTime) -> Result<Lease>;

    /// Gives a session back.
    ///
    /// # Errors
    ///
    /// `SessionBusy` if the lease is void.
    fn release(&self, lease: &Lease) -> Result<()>;

    /// Records events in one transaction: before a wait, after a reply, or when effects are settled.
    ///
    /// # Errors
    ///
    /// `SessionBusy` if the lease is void; nothing is recorded then.
    fn commit(&self, lease: &Lease, events: &[Event], now: SystemTime) -> Result<()>;

    /// Returns all events of a session, in order.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn events(&self, session: &SessionId) -> Result<Vec<Event>>;
}
