//! Hash chains of the ledger. Each event contains the hash of the previous event of its session, and one chain of links
//! runs through the events of all sessions in the order in which they were recorded. A removed or edited event breaks
//! at least one of them.

use blake3::Hash;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::open::{damaged_error, database_error, to_sql_integer};
use super::{compression, tables};
use crate::error::Result;
use crate::models::SessionId;
use crate::store::{Lease, turn_index};

/// End of the chain of a session's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionChain {
    /// Row id of the session.
    pub(super) session: i64,
    /// Number of events.
    pub(super) events: u64,
    /// Hash of the last event; empty if there is none.
    pub(super) head: Vec<u8>,
}

impl SessionChain {
    /// Loads the end of the chain of a leased session. Fails if the lease is void.
    pub(super) fn load_leased(connection: &Connection, lease: &Lease) -> Result<Self> {
        let values = params![lease.session.as_str(), to_sql_integer(lease.fence)];
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Self {
                session: row.get(0)?,
                events: tables::read_number(row, 1)?,
                head: row.get(2)?,
            })
        };
        let found = connection
            .query_row(include_str!("../sql/leased.sql"), values, read)
            .optional();
        found
            .map_err(database_error)?
            .ok_or_else(|| turn_index::void_lease_error(&lease.session))
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
        let number = to_sql_integer(self.events);
        let compressed = compression::compress_body(body);
        let stored_body: &dyn rusqlite::ToSql = match &compressed {
            Some(compressed) => compressed,
            None => &body,
        };

        let insert = include_str!("../sql/keep_event.sql");
        let values = params![
            self.session,
            number,
            at,
            stored_body,
            self.head,
            hash.as_bytes()
        ];
        transaction
            .execute(insert, values)
            .map_err(database_error)?;

        append_link(
            transaction,
            transaction.last_insert_rowid(),
            hash.as_bytes(),
        )?;
        self.head = hash.as_bytes().to_vec();
        Ok(())
    }

    /// Stores the number of events and the hash of the last one in the row of the session.
    pub(super) fn save(&self, transaction: &Transaction<'_>) -> Result<()> {
        let values = params![to_sql_integer(self.events), self.head, self.session];
        let update = "UPDATE sessions SET events = ?1, head = ?2 WHERE id = ?3";
        transaction
            .execute(update, values)
            .map_err(database_error)?;
        Ok(())
    }
}

/// Hashes all columns of an event and the hash of the previous event of its session. Parts of variable length are
/// prefixed with their length, so that no two events hash the same bytes.
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

/// Hashes the previous link (empty for the first) and the hash of the link's event.
pub(super) fn link_hash(before: &[u8], event: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for part in [before, event] {
        hasher
            .update(&(part.len() as u64).to_le_bytes())
            .update(part);
    }
    hasher.finalize()
}

/// Links an event to the one recorded before it, in any session.
fn append_link(transaction: &Transaction<'_>, sequence: i64, event: &[u8]) -> Result<()> {
    let select = "SELECT sequence, hash FROM links ORDER BY sequence DESC LIMIT 1";
    let last = transaction.query_row(select, [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    let (last, before) = last.optional().map_err(database_error)?.unwrap_or_default();

    // SQLite numbers a new row one above the highest, so a gap means that an event or a link was removed or added.
    if last != sequence - 1 {
        return Err(damaged_error(&format!(
            "was edited: its last link is {last}, its last event {sequence}"
        )));
    }
    insert_link(transaction, sequence, link_hash(&before, event))
}

/// Links all events of a ledger that has no links yet.
pub(super) fn link_all_events(transaction: &Transaction<'_>) -> Result<()> {
    let select = "SELECT sequence, hash FROM events ORDER BY sequence";
    let events: Vec<(i64, Vec<u8>)> = super::query_rows(transaction, select, [], |row| {
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
        .map_err(database_error)?;
    Ok(())
}
