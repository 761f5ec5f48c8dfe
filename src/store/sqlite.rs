//! Ledger in a SQLite database at `.agentd/ledger.db`.

mod chain;
mod compression;
mod location;
mod open;
mod reattach;
mod schema;
mod tables;
mod verify;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use blake3::Hash;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use self::chain::SessionChain;
use self::open::{
    LedgerConnection, MAX_OPERATION, MAX_VERIFICATION, damaged_error, database_error,
    to_sql_integer,
};
use self::tables::{SELECT_TURNS, SessionTurnIndex, StoredTurn};
use super::{
    BudgetScope, ClaimResult, Lease, LedgerEntry, LedgerMarks, MAX_MEASUREMENTS, MeasurementQuery,
    Store, TurnQuery, turn_index,
};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    BlobId, BudgetUsage, CallOutcome, Event, HeldSession, LeaseHolder, Measurement, SessionId,
    TurnRow, UsageRow,
};

/// Maximum size in bytes of all events of a session. A long change has a few megabytes.
const MAX_SESSION_BYTES: usize = 1 << 30;

/// Ledger on disk, shared by all processes that work on a project.
#[derive(Debug)]
pub struct SqliteStore {
    root: PathBuf,
    connection: Mutex<LedgerConnection>,
    /// Fence and end of the chain of each session that this process holds, as this process has written it.
    own_chains: Mutex<BTreeMap<SessionId, (u64, SessionChain)>>,
}

impl SqliteStore {
    /// Opens the ledger of a project; creates one without an id if there is none.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger is damaged, was written by a newer version, or belongs to another user; `StorageFull`
    /// if the disk is full.
    pub fn open(root: &Path) -> Result<Self> {
        Self::open_as(root, "")
    }

    /// Opens the ledger of a project; creates one with this id if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn open_as(root: &Path, id: &str) -> Result<Self> {
        let folder = location::create_folder(root)?;
        if !location::has_ledger(&folder)? {
            open::create_ledger(&folder, id)?;
        }
        Self::open_in(root, &folder)
    }

    /// Opens the ledger of a project; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn open_existing(root: &Path) -> Result<Option<Self>> {
        let Some(folder) = location::find_folder(root)? else {
            return Ok(None);
        };
        if !location::has_ledger(&folder)? {
            return Ok(None);
        }
        Self::open_in(root, &folder).map(Some)
    }

    fn open_in(root: &Path, folder: &Path) -> Result<Self> {
        Ok(Self {
            root: root.to_path_buf(),
            connection: Mutex::new(open::open_ledger(folder)?),
            own_chains: Mutex::default(),
        })
    }

    /// Returns the id that the ledger was created with; empty if it has none.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger cannot be read.
    pub fn id(&self) -> Result<String> {
        open::read_ledger_id(&self.connection())
    }

    /// Checks all hashes, blobs and derived rows. Returns a description of each fault; of each session, only the first
    /// faulty event is reported.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger is so damaged that it cannot be read to the end.
    pub fn verify(&self) -> Result<Vec<String>> {
        let mut connection = self.connection();
        connection.deadline.renew(MAX_VERIFICATION);

        // One transaction, because other processes may be writing.
        let snapshot = connection
            .transaction_with_behavior(TransactionBehavior::Deferred)
            .map_err(database_error)?;
        verify::verify(&snapshot)
    }

    fn own_chains(&self) -> MutexGuard<'_, BTreeMap<SessionId, (u64, SessionChain)>> {
        self.own_chains
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of the chain of a session that this process holds.
    ///
    /// Only the holder may write to a session, so the stored end must be the one that this process has written last. Any
    /// other end means that something has edited the database, unless another process has taken the session over, which
    /// raises its fence and is reported as a void lease.
    fn own_chain(&self, connection: &Connection, lease: &Lease) -> Result<SessionChain> {
        let written = self
            .own_chains()
            .get(&lease.session)
            .filter(|(fence, _)| *fence == lease.fence)
            .cloned();

        let stored = SessionChain::load_leased(connection, lease);
        match (stored, written) {
            (Ok(stored), Some((_, written))) if stored != written => {
                Err(ledger_changed_error(&[describe_foreign_events(
                    &lease.session,
                )]))
            }
            // The lease is void, but no newer one exists: the session was removed or edited.
            (Err(_), Some(_)) if newest_fence(connection, &lease.session)? <= lease.fence => {
                let gone = format!(
                    "session `{}` is no longer locked by this process",
                    lease.session
                );
                Err(ledger_changed_error(&[gone]))
            }
            (stored, _) => stored,
        }
    }

    /// Returns the connection, with a new deadline for one operation.
    fn connection(&self) -> MutexGuard<'_, LedgerConnection> {
        let connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connection.deadline.renew(MAX_OPERATION);
        connection
    }

    /// Returns the connection for writing, after restoring its file if something has removed it.
    fn writer(&self) -> Result<MutexGuard<'_, LedgerConnection>> {
        let mut connection = self.connection();
        reattach::reattach(&mut connection, &self.root)?;
        Ok(connection)
    }
}

/// Returns the fence of the newest lease of a session; 0 if there is no such session.
fn newest_fence(connection: &Connection, session: &SessionId) -> Result<u64> {
    let select = "SELECT fence FROM sessions WHERE name = ?1";
    let found = connection
        .query_row(select, [session.as_str()], |row| {
            tables::read_number(row, 0)
        })
        .optional();
    Ok(found.map_err(database_error)?.unwrap_or_default())
}

/// Describes a held session whose events were edited by something other than this process.
fn describe_foreign_events(session: &SessionId) -> String {
    format!("session `{session}` has events that this run did not record")
}

/// Returns the error for a ledger that was edited while an agent was running, with the first of the changes.
fn ledger_changed_error(changes: &[String]) -> Error {
    let more = match changes.len() {
        0 | 1 => String::new(),
        2 => " (and 1 more change)".to_owned(),
        several => format!(" (and {} more changes)", several - 1),
    };

    let first = changes.first().map(String::as_str).unwrap_or_default();
    let message = format!(
        "{} was changed while an agent was running: {first}{more}",
        location::ledger_path()
    );
    Error::new(ErrorKind::LedgerChanged, message).with_hint(
        "the call's result is discarded; check the ledger with `agentd doctor`, or restore a copy",
    )
}

/// Durability of a write. Leases and pids are worthless after a reboot, so writing them does not wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    ProcessExit,
    PowerLoss,
}

/// Runs a write transaction. The write lock is taken at the start, because SQLite does not wait for other writers when
/// a read transaction is upgraded.
fn write_transaction<T>(
    connection: &mut Connection,
    durability: Durability,
    write: impl FnOnce(&Transaction<'_>) -> Result<T>,
) -> Result<T> {
    let level = match durability {
        Durability::ProcessExit => "normal",
        Durability::PowerLoss => "full",
    };
    connection
        .pragma_update(None, "synchronous", level)
        .map_err(database_error)?;

    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(database_error)?;

    let value = write(&transaction)?;
    transaction.commit().map_err(database_error)?;
    Ok(value)
}

impl Store for SqliteStore {
    fn claim(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        over: Option<u64>,
        now: SystemTime,
    ) -> Result<ClaimResult> {
        let mut connection = self.writer()?;
        let find_other = |connection: &Connection| {
            let held = find_held(connection, session)?;
            Ok(held.filter(|held| over != Some(held.fence)))
        };

        // Checked before the transaction: a refused claim need not wait for writers.
        if let Some(held) = find_other(&connection)? {
            return Ok(ClaimResult::Busy(held));
        }

        let holder = serde_json::to_string(holder).map_err(json_error)?;
        write_transaction(&mut connection, Durability::ProcessExit, |transaction| {
            if let Some(held) = find_other(transaction)? {
                return Ok(ClaimResult::Busy(held));
            }

            let upsert = include_str!("sql/claim.sql");
            let values = params![session.as_str(), holder, turn_index::to_millis(now)];
            let fence = transaction
                .query_row(upsert, values, |row| tables::read_number(row, 0))
                .map_err(database_error)?;

            let lease = Lease {
                session: session.clone(),
                fence,
            };
            let chain = SessionChain::load_leased(transaction, &lease)?;
            self.own_chains().insert(session.clone(), (fence, chain));
            Ok(ClaimResult::Granted(lease))
        })
    }

    fn heartbeat(&self, lease: &Lease, now: SystemTime) -> Result<()> {
        let mut connection = self.writer()?;
        write_transaction(&mut connection, Durability::ProcessExit, |transaction| {
            let chain = self.own_chain(transaction, lease)?;
            let values = params![turn_index::to_millis(now), chain.session];
            transaction
                .execute("UPDATE sessions SET seen = ?1 WHERE id = ?2", values)
                .map_err(database_error)?;
            Ok(())
        })
    }

    fn release(&self, lease: &Lease) -> Result<()> {
        let mut connection = self.writer()?;
        write_transaction(&mut connection, Durability::ProcessExit, |transaction| {
            let chain = SessionChain::load_leased(transaction, lease)?;
            let free = "UPDATE sessions SET holder = NULL, since = NULL, seen = NULL WHERE id = ?1";
            transaction
                .execute(free, [chain.session])
                .map_err(database_error)?;
            self.own_chains().remove(&lease.session);
            Ok(())
        })
    }

    fn commit(&self, lease: &Lease, entry: &LedgerEntry<'_>, now: SystemTime) -> Result<()> {
        let bodies = entry
            .events
            .iter()
            .map(serde_json::to_string)
            .collect::<Result<Vec<_>, _>>()
            .map_err(json_error)?;

        let mut connection = self.writer()?;
        // Compressed before the transaction, because other processes wait during the transaction.
        let (entry_hashes, blobs) = new_blobs(&connection, entry.blobs)?;

        let is_transient = entry.events.iter().all(|event| match event {
            Event::Launched { .. } => true,
            // If this event is lost, the next recovery finds the call lost again.
            Event::Answered(answered) => answered.end == CallOutcome::Lost,
            _ => false,
        });
        let durability = if is_transient {
            Durability::ProcessExit
        } else {
            Durability::PowerLoss
        };

        let chain = write_transaction(&mut connection, durability, |transaction| {
            let mut chain = self.own_chain(transaction, lease)?;
            for blob in &blobs {
                let insert = "INSERT INTO blobs (id, size, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING";
                let values = params![blob.id.as_bytes(), to_sql_integer(blob.size), blob.bytes];
                transaction
                    .execute(insert, values)
                    .map_err(database_error)?;
            }

            for id in entry.events.iter().flat_map(Event::blob_ids) {
                let is_present = match parse_blob_id(id) {
                    Some(hash) => entry_hashes.contains(&hash) || has_blob(transaction, &hash)?,
                    None => false,
                };
                if !is_present {
                    return Err(turn_index::missing_blob_error(id));
                }
            }

            let mut index = SessionTurnIndex {
                connection: transaction,
                id: chain.session,
            };
            for (event, body) in entry.events.iter().zip(&bodies) {
                turn_index::index_event(&mut index, &lease.session, event, &entry.budget, now)?;
                chain.append(
                    transaction,
                    &lease.session,
                    body,
                    turn_index::to_millis(now),
                )?;
            }
            chain.save(transaction)?;
            Ok(chain)
        })?;

        if let Some((_, written)) = self.own_chains().get_mut(&lease.session) {
            *written = chain;
        }
        Ok(())
    }

    fn marks(&self) -> Result<LedgerMarks> {
        let select = "SELECT name, events, head FROM sessions WHERE events > 0";
        let ends = query_rows(&self.connection(), select, [], |row| {
            Ok((
                tables::read_session(row, 0)?,
                (tables::read_number(row, 1)?, row.get(2)?),
            ))
        })?;

        Ok(LedgerMarks {
            sessions: ends.into_iter().collect(),
        })
    }

    fn check_unchanged(&self, lease: &Lease, marks: &LedgerMarks) -> Result<()> {
        // Restores the ledger's file if it was removed, and fails if another ledger has replaced it.
        drop(self.writer()?);

        // The page cache of the open connection may differ from the files, so a new connection reads the files.
        let folder = location::create_folder(&self.root)?;
        let mut fresh = open::open_ledger(&folder)?;
        fresh.deadline.renew(MAX_VERIFICATION);
        let snapshot = fresh
            .transaction_with_behavior(TransactionBehavior::Deferred)
            .map_err(database_error)?;

        let mut changes = verify::find_changes_since(&snapshot, marks)?;
        // If events have changed, derived rows differ as well; only the events are worth reporting.
        if changes.is_empty() {
            self.own_chain(&snapshot, lease)?;
            changes = verify::verify_events(&snapshot)?;
        }

        if changes.is_empty() {
            Ok(())
        } else {
            Err(ledger_changed_error(&changes))
        }
    }

    fn events(&self, session: &SessionId) -> Result<Vec<(SystemTime, Event)>> {
        let mut bytes = 0;
        query_rows(
            &self.connection(),
            include_str!("sql/events.sql"),
            params![session.as_str()],
            |row| {
                let body = tables::read_body(row, 1)?;
                bytes += body.len();
                if bytes > MAX_SESSION_BYTES {
                    return Err(tables::conversion_error(
                        1,
                        "the events of the session exceed 1 GiB",
                    ));
                }
                Ok((
                    turn_index::from_millis(row.get(0)?),
                    tables::read_event(&body, 1)?,
                ))
            },
        )
    }

    fn blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>> {
        let Some(hash) = parse_blob_id(id) else {
            return Ok(None);
        };

        let select = "SELECT size, bytes FROM blobs WHERE id = ?1";
        let found = self
            .connection()
            .query_row(select, [hash.as_bytes()], |row| {
                Ok((tables::read_number(row, 0)?, row.get::<_, Vec<u8>>(1)?))
            })
            .optional();
        let Some((size, stored)) = found.map_err(database_error)? else {
            return Ok(None);
        };

        let bytes = usize::try_from(size)
            .ok()
            .and_then(|size| compression::decompress(&stored, size));
        bytes
            .filter(|bytes| blake3::hash(bytes) == hash)
            .map(Some)
            .ok_or_else(|| damaged_error(&format!("contains a damaged blob: {id}")))
    }

    fn turns(&self, wanted: &TurnQuery<'_>) -> Result<Vec<TurnRow>> {
        let mut turns = select_turns(&self.connection(), wanted.session, wanted.newest)?;
        turns.reverse();
        Ok(turns.into_iter().map(|turn| turn.row).collect())
    }

    fn sessions(&self) -> Result<Vec<SessionId>> {
        let names = query_rows(
            &self.connection(),
            "SELECT name FROM sessions WHERE events > 0 ORDER BY name",
            [],
            |row| row.get(0),
        )?;
        names
            .into_iter()
            .map(|name: String| SessionId::new(name))
            .collect()
    }

    fn held(&self) -> Result<Vec<HeldSession>> {
        let select = "SELECT name, holder, since, seen, fence FROM sessions WHERE holder IS NOT NULL ORDER BY name";
        let found = query_rows(&self.connection(), select, [], tables::read_held)?;
        Ok(found.into_iter().flatten().collect())
    }

    fn spent(&self, scope: &BudgetScope<'_>) -> Result<BudgetUsage> {
        Ok(tables::load_total(&self.connection(), scope)?.spent())
    }

    fn usage(&self, session: Option<&SessionId>) -> Result<Vec<UsageRow>> {
        let turns = select_turns(&self.connection(), session, usize::MAX)?;
        Ok(turn_index::sum_usage(
            turns.into_iter().map(|turn| turn.row),
        ))
    }

    fn measure(&self, measurement: &Measurement, now: SystemTime) -> Result<()> {
        let Measurement {
            agent,
            model,
            figure,
        } = measurement;
        let kind = figure.kind().name();
        let figure_json = serde_json::to_string(figure).map_err(json_error)?;

        let mut connection = self.writer()?;
        write_transaction(&mut connection, Durability::ProcessExit, |transaction| {
            let insert = "INSERT INTO measurements (at, agent, model, kind, figure) VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = params![turn_index::to_millis(now), agent, model, kind, figure_json];
            transaction
                .execute(insert, values)
                .map_err(database_error)?;

            let delete = include_str!("sql/forget_measurements.sql");
            let values = params![kind, model, agent, to_sql_integer(MAX_MEASUREMENTS)];
            transaction
                .execute(delete, values)
                .map_err(database_error)?;
            Ok(())
        })
    }

    fn measurements(
        &self,
        wanted: &MeasurementQuery<'_>,
    ) -> Result<Vec<(SystemTime, Measurement)>> {
        let values = params![wanted.kind.name(), wanted.model, wanted.agent];
        query_rows(
            &self.connection(),
            include_str!("sql/measurements.sql"),
            values,
            tables::read_measurement,
        )
    }
}

/// Returns the holder of a session; `None` if the session is free.
fn find_held(connection: &Connection, session: &SessionId) -> Result<Option<HeldSession>> {
    let select = "SELECT name, holder, since, seen, fence FROM sessions WHERE name = ?1";
    let found = connection
        .query_row(select, [session.as_str()], tables::read_held)
        .optional();
    Ok(found.map_err(database_error)?.flatten())
}

/// Returns turns, the newest first.
fn select_turns(
    connection: &Connection,
    session: Option<&SessionId>,
    newest: usize,
) -> Result<Vec<StoredTurn>> {
    match session {
        // Turn numbers and row ids both grow with every turn, and each has an index.
        Some(session) => {
            let select = format!("{SELECT_TURNS} WHERE s.name = ?1 ORDER BY t.turn DESC LIMIT ?2");
            query_rows(
                connection,
                &select,
                params![session.as_str(), to_sql_integer(newest)],
                tables::read_turn,
            )
        }
        None => {
            let select = format!("{SELECT_TURNS} ORDER BY t.id DESC LIMIT ?1");
            query_rows(
                connection,
                &select,
                [to_sql_integer(newest)],
                tables::read_turn,
            )
        }
    }
}

fn query_rows<T>(
    connection: &Connection,
    select: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let collect = || {
        connection
            .prepare(select)?
            .query_map(values, read)?
            .collect::<rusqlite::Result<_>>()
    };
    collect().map_err(database_error)
}

/// A row of `blobs`.
struct StoredBlob<'a> {
    id: Hash,
    /// Size before compression.
    size: usize,
    bytes: Cow<'a, [u8]>,
}

/// Returns the hashes of all blobs, and rows for those that the ledger does not have yet, in their order.
fn new_blobs<'a>(
    connection: &Connection,
    blobs: &[&'a [u8]],
) -> Result<(HashSet<Hash>, Vec<StoredBlob<'a>>)> {
    let mut hashes = HashSet::new();
    let mut missing = Vec::new();
    for bytes in blobs {
        if bytes.len() > compression::MAX_TEXT_BYTES {
            let message = format!(
                "the ledger cannot store a blob of {} bytes; the limit is {} bytes",
                bytes.len(),
                compression::MAX_TEXT_BYTES
            );
            return Err(Error::new(ErrorKind::LedgerUnusable, message)
                .with_hint("lower `output_bytes` under [limits] in agentd/config.toml"));
        }

        let id = blake3::hash(bytes);
        if hashes.insert(id) && !has_blob(connection, &id)? {
            missing.push(StoredBlob {
                id,
                size: bytes.len(),
                bytes: compression::compress(bytes),
            });
        }
    }
    Ok((hashes, missing))
}

fn has_blob(connection: &Connection, hash: &Hash) -> Result<bool> {
    let select = "SELECT EXISTS (SELECT 1 FROM blobs WHERE id = ?1)";
    connection
        .query_row(select, [hash.as_bytes()], |row| row.get(0))
        .map_err(database_error)
}

/// Parses the id of a blob; `None` unless it is a hash in lower-case hexadecimal.
fn parse_blob_id(id: &BlobId) -> Option<Hash> {
    Hash::from_hex(&id.0)
        .ok()
        .filter(|hash| hash.to_hex().as_str() == id.0)
}

fn json_error(error: serde_json::Error) -> Error {
    Error::new(
        ErrorKind::LedgerUnusable,
        "cannot serialize a record as JSON",
    )
    .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ProcessIdentity;

    /// A test cannot fill a disk on every machine, so it lowers SQLite's page limit instead.
    #[test]
    fn an_entry_that_does_not_fit_is_refused_and_a_later_one_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let session = SessionId::new("add-login").unwrap();
        let process = ProcessIdentity {
            pid: 1,
            started: 1,
            boot: String::new(),
            namespace: String::new(),
        };
        let holder = LeaseHolder {
            name: String::new(),
            process,
        };
        let ClaimResult::Granted(lease) = store
            .claim(&session, &holder, None, SystemTime::UNIX_EPOCH)
            .unwrap()
        else {
            panic!("the session is free");
        };
        let mut noise = vec![0; 100_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let record = || {
            let events = [Event::Ended { done: true }];
            let entry = LedgerEntry {
                events: &events,
                blobs: &[&noise],
                ..LedgerEntry::default()
            };
            store.commit(&lease, &entry, SystemTime::UNIX_EPOCH)
        };
        let allow = |pages: i64| {
            let set = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
            store
                .connection()
                .pragma_update_and_check(None, "max_page_count", pages, set)
                .unwrap()
        };
        allow(30);
        for _ in 0..2 {
            assert_eq!(record().unwrap_err().kind(), ErrorKind::StorageFull);
            assert_eq!(store.events(&session).unwrap(), []);
        }
        allow(1_000);
        record().unwrap();
        assert_eq!(store.events(&session).unwrap().len(), 1);
        assert_eq!(store.verify().unwrap(), Vec::<String>::new());
    }
}
