//! The hashes that hold the ledger together: each event holds that of the one before it in its session, and one chain of
//! links runs through the events of all sessions in the order in which they were recorded.

use blake3::Hash;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::open::{count, damaged, failed};
use super::{compression, tables};
use crate::error::Result;
use crate::models::SessionId;
use crate::store::{Lease, turn_index};

/// Where the chain of a session's events ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// The session's id in the database.
    pub(super) session: i64,
    /// Number of events.
    pub(super) events: u64,
    /// Hash of the last event; empty if there is none.
    pub(super) head: Vec<u8>,
}

impl Chain {
    /// Returns the end of the chain of a session that a lease is good for.
    pub(super) fn leased(connection: &Connection, lease: &Lease) -> Result<Self> {
        let values = params![lease.session.as_str(), count(lease.fence)];
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Self {
                session: row.get(0)?,
                events: tables::number(row, 1)?,
                head: row.get(2)?,
            })
        };
        let found = connection
            .query_row(include_str!("../sql/leased.sql"), values, read)
            .optional();
        found
            .map_err(failed)?
            .ok_or_else(|| turn_index::void(&lease.session))
    }

    /// Records an event.
    pub(super) fn append(
        &mut self,
        transaction: &Transaction<'_>,
        session: &SessionId,
        body: &str,
        at: i64,
    ) -> Result<()> {
        self.events += 1;
        let hash = event_hash(&self.head, session, self.events, at, body);
        let (packed, number) = (compression::pack_body(body), count(self.events));
        let kept: &dyn rusqlite::ToSql = match &packed {
            Some(packed) => packed,
            None => &body,
        };
        let insert = include_str!("../sql/keep_event.sql");
        let values = params![self.session, number, at, kept, self.head, hash.as_bytes()];
        transaction.execute(insert, values).map_err(failed)?;
        append_link(
            transaction,
            transaction.last_insert_rowid(),
            hash.as_bytes(),
        )?;
        self.head = hash.as_bytes().to_vec();
        Ok(())
    }

    /// Keeps where the chain ends.
    pub(super) fn keep(&self, transaction: &Transaction<'_>) -> Result<()> {
        let values = params![count(self.events), self.head, self.session];
        let update = "UPDATE sessions SET events = ?1, head = ?2 WHERE id = ?3";
        transaction.execute(update, values).map_err(failed)?;
        Ok(())
    }
}

/// Returns the hash of an event: over all that its row says, and the hash of the one before it in its session.
pub(super) fn event_hash(
    before: &[u8],
    session: &SessionId,
    number: u64,
    at: i64,
    body: &str,
) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for part in [before, session.as_str().as_bytes()] {
        hasher
            .update(&(part.len() as u64).to_le_bytes())
            .update(part);
    }
    hasher
        .update(&number.to_le_bytes())
        .update(&at.to_le_bytes())
        .update(body.as_bytes());
    hasher.finalize()
}

/// Returns the hash of a link: over the link before it, none for the first, and the hash of its event.
pub(super) fn link_hash(before: &[u8], event: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for part in [before, event] {
        hasher
            .update(&(part.len() as u64).to_le_bytes())
            .update(part);
    }
    hasher.finalize()
}

/// Links an event to the one that was recorded before it, in whichever session.
fn append_link(transaction: &Transaction<'_>, sequence: i64, event: &[u8]) -> Result<()> {
    let select = "SELECT sequence, hash FROM links ORDER BY sequence DESC LIMIT 1";
    let last = transaction.query_row(select, [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    let (last, before) = last.optional().map_err(failed)?.unwrap_or_default();
    // SQLite gives a new row the highest number there is, plus one; a gap or a link without an event is a change.
    if last != sequence - 1 {
        return Err(damaged(&format!(
            "is not as it was recorded: its last link is {last}, its last event {sequence}"
        )));
    }
    insert_link(transaction, sequence, link_hash(&before, event))
}

/// Links all events of a ledger that has no links yet.
pub(super) fn link_all(transaction: &Transaction<'_>) -> Result<()> {
    let select = "SELECT sequence, hash FROM events ORDER BY sequence";
    let events: Vec<(i64, Vec<u8>)> = super::rows(transaction, select, [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let mut before = Vec::new();
    for (sequence, event) in events {
        let hash = link_hash(&before, &event);
        insert_link(transaction, sequence, hash)?;
        before = hash.as_bytes().to_vec();
    }
    Ok(())
}

fn insert_link(transaction: &Transaction<'_>, sequence: i64, hash: Hash) -> Result<()> {
    let values = params![sequence, hash.as_bytes()];
    transaction
        .execute("INSERT INTO links (sequence, hash) VALUES (?1, ?2)", values)
        .map_err(failed)?;
    Ok(())
}
