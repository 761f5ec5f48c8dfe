//! The ledger as a SQLite database at `.agentd/ledger.db`.

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

use self::chain::Chain;
use self::open::{MAX_OPERATION, MAX_VERIFICATION, Opened, count, damaged, failed};
use self::tables::{KeptTurn, SessionTables, TURNS};
use super::{
    Claim, Entry, Figures, Lease, MOST_MEASUREMENTS, Marks, Scope, Store, Turns, turn_index,
};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    BlobId, CallOutcome, Event, Held, Holder, Measurement, SessionId, Spent, TurnRow, UsageRow,
};

/// Maximum size in bytes of all events of a session; of a long change they are some megabytes.
const MAX_SESSION_BYTES: usize = 1 << 30;

/// A ledger on disk, shared by all processes that work on a project.
#[derive(Debug)]
pub struct SqliteStore {
    root: PathBuf,
    opened: Mutex<Opened>,
    /// Where the chains of the sessions end that this process holds, as it has written them itself, with the fences of
    /// its leases.
    written: Mutex<BTreeMap<SessionId, (u64, Chain)>>,
}

impl SqliteStore {
    /// Opens the ledger of a project, and makes one without an id if there is none.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if it is damaged, newer than the program, or not the user's alone; `StorageFull`.
    pub fn open(root: &Path) -> Result<Self> {
        Self::open_as(root, "")
    }

    /// Opens the ledger of a project, and makes one with this id if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn open_as(root: &Path, id: &str) -> Result<Self> {
        let folder = location::make(root)?;
        if !location::has_ledger(&folder)? {
            open::create(&folder, id)?;
        }
        Self::of(root, &folder)
    }

    /// Opens the ledger of a project; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Those of [`Self::open`].
    pub fn open_existing(root: &Path) -> Result<Option<Self>> {
        let Some(folder) = location::find(root)? else {
            return Ok(None);
        };
        if !location::has_ledger(&folder)? {
            return Ok(None);
        }
        Self::of(root, &folder).map(Some)
    }

    fn of(root: &Path, folder: &Path) -> Result<Self> {
        let opened = Mutex::new(open::open(folder)?);
        Ok(Self {
            root: root.to_path_buf(),
            opened,
            written: Mutex::default(),
        })
    }

    /// Returns what tells the ledger from all others.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub fn id(&self) -> Result<String> {
        open::id(&self.connection())
    }

    /// Returns what of the ledger is not as it was recorded, in words; of each session the first event that is not.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if it is damaged so that it cannot be read to its end.
    pub fn verify(&self) -> Result<Vec<String>> {
        let mut opened = self.connection();
        opened.deadline.renew(MAX_VERIFICATION);
        // In one transaction: others may be writing.
        let reading = opened
            .transaction_with_behavior(TransactionBehavior::Deferred)
            .map_err(failed)?;
        verify::verify(&reading)
    }

    fn written(&self) -> MutexGuard<'_, BTreeMap<SessionId, (u64, Chain)>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of the chain of a session that is held. Nobody else may write to it meanwhile, so it must be where
    /// this process has left it.
    fn own_chain(&self, connection: &Connection, lease: &Lease) -> Result<Chain> {
        let written = self
            .written()
            .get(&lease.session)
            .filter(|(fence, _)| *fence == lease.fence)
            .cloned();
        let found = Chain::leased(connection, lease);
        match (found, written) {
            (Ok(found), Some((_, written))) if found != written => {
                Err(changed_meanwhile(&[other_events(&lease.session)]))
            }
            // Taking a session over raises its fence; a session without that was removed or edited.
            (Err(_), Some(_)) if newest_fence(connection, &lease.session)? <= lease.fence => {
                let gone = format!("the session `{}` is no longer held", lease.session);
                Err(changed_meanwhile(&[gone]))
            }
            (found, _) => found,
        }
    }

    /// Returns the connection, with time for one operation.
    fn connection(&self) -> MutexGuard<'_, Opened> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.deadline.renew(MAX_OPERATION);
        opened
    }

    /// Returns the connection to write through: its file is where it was, or was put back.
    fn writer(&self) -> Result<MutexGuard<'_, Opened>> {
        let mut opened = self.connection();
        reattach::restore(&mut opened, &self.root)?;
        Ok(opened)
    }
}

/// Returns the fence of the newest lease of a session; 0 if there is no such session.
fn newest_fence(connection: &Connection, session: &SessionId) -> Result<u64> {
    let select = "SELECT fence FROM sessions WHERE name = ?1";
    let found = connection
        .query_row(select, [session.as_str()], |row| tables::number(row, 0))
        .optional();
    Ok(found.map_err(failed)?.unwrap_or_default())
}

/// Returns the words for events of a session that is held and that others have written or removed.
fn other_events(session: &SessionId) -> String {
    format!("the events of the session `{session}` are not the ones that this run has recorded")
}

/// Returns the error for a ledger that something else has changed while an agent was running.
fn changed_meanwhile(changes: &[String]) -> Error {
    let more = match changes.len() {
        0 | 1 => String::new(),
        several => format!(" (and {} more)", several - 1),
    };
    let first = changes.first().map(String::as_str).unwrap_or_default();
    let message = format!(
        "{} was changed while an agent was running: {first}{more}",
        location::ledger()
    );
    Error::new(ErrorKind::LedgerChanged, message).with_hint(
        "nothing of that call counts; `agentd doctor` checks the ledger, or put a copy back",
    )
}

/// What a record outlasts. Who holds a session, and with which process, means nothing once the power was off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outlasts {
    TheProcess,
    ThePower,
}

/// Does all of something or nothing. The lock is taken at once: one that is asked for later is refused, not waited for.
fn write<T>(
    connection: &mut Connection,
    outlasts: Outlasts,
    work: impl FnOnce(&Transaction<'_>) -> Result<T>,
) -> Result<T> {
    let level = match outlasts {
        Outlasts::TheProcess => "normal",
        Outlasts::ThePower => "full",
    };
    connection
        .pragma_update(None, "synchronous", level)
        .map_err(failed)?;
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let value = work(&transaction)?;
    transaction.commit().map_err(failed)?;
    Ok(value)
}

impl Store for SqliteStore {
    fn claim(
        &self,
        session: &SessionId,
        holder: &Holder,
        over: Option<u64>,
        now: SystemTime,
    ) -> Result<Claim> {
        let mut connection = self.writer()?;
        let other = |connection: &Connection| {
            let held = held_by(connection, session)?;
            Ok(held.filter(|held| over != Some(held.fence)))
        };
        // Whoever is refused need not wait for writers.
        if let Some(held) = other(&connection)? {
            return Ok(Claim::Busy(held));
        }
        let holder = serde_json::to_string(holder).map_err(unwritable)?;
        write(&mut connection, Outlasts::TheProcess, |transaction| {
            if let Some(held) = other(transaction)? {
                return Ok(Claim::Busy(held));
            }
            let take = include_str!("sql/claim.sql");
            let values = params![session.as_str(), holder, turn_index::to_millis(now)];
            let fence = transaction
                .query_row(take, values, |row| tables::number(row, 0))
                .map_err(failed)?;
            let lease = Lease {
                session: session.clone(),
                fence,
            };
            self.written().insert(
                session.clone(),
                (fence, Chain::leased(transaction, &lease)?),
            );
            Ok(Claim::Granted(lease))
        })
    }

    fn heartbeat(&self, lease: &Lease, now: SystemTime) -> Result<()> {
        let mut connection = self.writer()?;
        write(&mut connection, Outlasts::TheProcess, |transaction| {
            let chain = self.own_chain(transaction, lease)?;
            let values = params![turn_index::to_millis(now), chain.session];
            transaction
                .execute("UPDATE sessions SET seen = ?1 WHERE id = ?2", values)
                .map_err(failed)?;
            Ok(())
        })
    }

    fn release(&self, lease: &Lease) -> Result<()> {
        let mut connection = self.writer()?;
        write(&mut connection, Outlasts::TheProcess, |transaction| {
            let chain = Chain::leased(transaction, lease)?;
            let free = "UPDATE sessions SET holder = NULL, since = NULL, seen = NULL WHERE id = ?1";
            transaction.execute(free, [chain.session]).map_err(failed)?;
            self.written().remove(&lease.session);
            Ok(())
        })
    }

    fn commit(&self, lease: &Lease, entry: &Entry<'_>, now: SystemTime) -> Result<()> {
        let bodies = entry.events.iter().map(serde_json::to_string);
        let bodies = bodies.collect::<Result<Vec<_>, _>>().map_err(unwritable)?;
        let mut connection = self.writer()?;
        // Compressed before the transaction, for others wait while it lasts.
        let (given, blobs) = new_blobs(&connection, entry.blobs)?;
        let passing = entry.events.iter().all(|event| match event {
            Event::Launched { .. } => true,
            // Whoever finds the call once more finds it lost once more.
            Event::Answered(answered) => answered.end == CallOutcome::Lost,
            _ => false,
        });
        let outlasts = if passing {
            Outlasts::TheProcess
        } else {
            Outlasts::ThePower
        };
        let chain = write(&mut connection, outlasts, |transaction| {
            let mut chain = self.own_chain(transaction, lease)?;
            for blob in &blobs {
                let insert = "INSERT INTO blobs (id, size, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING";
                let values = params![blob.id.as_bytes(), count(blob.size), blob.kept];
                transaction.execute(insert, values).map_err(failed)?;
            }
            for id in entry.events.iter().flat_map(Event::texts) {
                let there = |hash: Hash| Ok(given.contains(&hash) || has_blob(transaction, &hash)?);
                if hash_of(id).map(there).transpose()? != Some(true) {
                    return Err(turn_index::missing(id));
                }
            }
            let mut tables = SessionTables {
                connection: transaction,
                id: chain.session,
            };
            for (event, body) in entry.events.iter().zip(&bodies) {
                turn_index::count(&mut tables, &lease.session, event, &entry.budget, now)?;
                chain.append(
                    transaction,
                    &lease.session,
                    body,
                    turn_index::to_millis(now),
                )?;
            }
            chain.keep(transaction)?;
            Ok(chain)
        })?;
        if let Some((_, written)) = self.written().get_mut(&lease.session) {
            *written = chain;
        }
        Ok(())
    }

    fn marks(&self) -> Result<Marks> {
        let select = "SELECT name, events, head FROM sessions WHERE events > 0";
        let ends = rows(&self.connection(), select, [], |row| {
            Ok((
                tables::session(row, 0)?,
                (tables::number(row, 1)?, row.get(2)?),
            ))
        })?;
        Ok(Marks {
            sessions: ends.into_iter().collect(),
        })
    }

    fn check_unchanged(&self, lease: &Lease, marks: &Marks) -> Result<()> {
        // The open connection may have pages in memory that differ from the files by now.
        let folder = location::make(&self.root)?;
        let mut fresh = open::open(&folder)?;
        fresh.deadline.renew(MAX_VERIFICATION);
        let reading = fresh
            .transaction_with_behavior(TransactionBehavior::Deferred)
            .map_err(failed)?;

        let mut changes = verify::changed_since(&reading, marks)?;
        // Derived rows differ, too, but the changed events are the ones to report.
        if changes.is_empty() {
            self.own_chain(&reading, lease)?;
            changes = verify::verify_events(&reading)?;
        }
        if changes.is_empty() {
            Ok(())
        } else {
            Err(changed_meanwhile(&changes))
        }
    }

    fn events(&self, session: &SessionId) -> Result<Vec<(SystemTime, Event)>> {
        let mut bytes = 0;
        rows(
            &self.connection(),
            include_str!("sql/events.sql"),
            params![session.as_str()],
            |row| {
                let body = tables::body(row, 1)?;
                bytes += body.len();
                if bytes > MAX_SESSION_BYTES {
                    return Err(tables::odd(1, "more than a session can have"));
                }
                Ok((
                    turn_index::from_millis(row.get(0)?),
                    tables::event(&body, 1)?,
                ))
            },
        )
    }

    fn blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>> {
        let Some(hash) = hash_of(id) else {
            return Ok(None);
        };
        let read =
            |row: &rusqlite::Row<'_>| Ok((tables::number(row, 0)?, row.get::<_, Vec<u8>>(1)?));
        let select = "SELECT size, bytes FROM blobs WHERE id = ?1";
        let found = self
            .connection()
            .query_row(select, [hash.as_bytes()], read)
            .optional();
        let Some((size, kept)) = found.map_err(failed)? else {
            return Ok(None);
        };
        let bytes = usize::try_from(size)
            .ok()
            .and_then(|size| compression::unpack(&kept, size));
        let whole = bytes.filter(|bytes| blake3::hash(bytes) == hash);
        whole
            .map(Some)
            .ok_or_else(|| damaged(&format!("no longer holds the text {id}")))
    }

    fn turns(&self, wanted: &Turns<'_>) -> Result<Vec<TurnRow>> {
        let mut kept = kept_turns(&self.connection(), wanted.session, wanted.newest)?;
        kept.reverse();
        Ok(kept.into_iter().map(|kept| kept.row).collect())
    }

    fn sessions(&self) -> Result<Vec<SessionId>> {
        let names = rows(
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

    fn held(&self) -> Result<Vec<Held>> {
        let select = "SELECT name, holder, since, seen, fence FROM sessions WHERE holder IS NOT NULL ORDER BY name";
        let found = rows(&self.connection(), select, [], tables::held)?;
        Ok(found.into_iter().flatten().collect())
    }

    fn spent(&self, scope: &Scope<'_>) -> Result<Spent> {
        Ok(tables::total_of(&self.connection(), scope)?.spent())
    }

    fn usage(&self, session: Option<&SessionId>) -> Result<Vec<UsageRow>> {
        let kept = kept_turns(&self.connection(), session, usize::MAX)?;
        Ok(turn_index::usage_of(kept.into_iter().map(|kept| kept.row)))
    }

    fn measure(&self, measurement: &Measurement, now: SystemTime) -> Result<()> {
        let Measurement {
            agent,
            model,
            figure,
        } = measurement;
        let (kind, written) = (
            figure.kind().name(),
            serde_json::to_string(figure).map_err(unwritable)?,
        );
        let mut connection = self.writer()?;
        write(&mut connection, Outlasts::TheProcess, |transaction| {
            let insert = "INSERT INTO measurements (at, agent, model, kind, figure) VALUES (?1, ?2, ?3, ?4, ?5)";
            let values = params![turn_index::to_millis(now), agent, model, kind, written];
            transaction.execute(insert, values).map_err(failed)?;
            let values = params![kind, model, agent, count(MOST_MEASUREMENTS)];
            transaction
                .execute(include_str!("sql/forget_measurements.sql"), values)
                .map_err(failed)?;
            Ok(())
        })
    }

    fn measurements(&self, wanted: &Figures<'_>) -> Result<Vec<(SystemTime, Measurement)>> {
        let values = params![wanted.kind.name(), wanted.model, wanted.agent];
        rows(
            &self.connection(),
            include_str!("sql/measurements.sql"),
            values,
            tables::measurement,
        )
    }
}

/// Returns who holds a session.
fn held_by(connection: &Connection, session: &SessionId) -> Result<Option<Held>> {
    let select = "SELECT name, holder, since, seen, fence FROM sessions WHERE name = ?1";
    let found = connection
        .query_row(select, [session.as_str()], tables::held)
        .optional();
    Ok(found.map_err(failed)?.flatten())
}

/// Returns turns, the newest first.
fn kept_turns(
    connection: &Connection,
    session: Option<&SessionId>,
    newest: usize,
) -> Result<Vec<KeptTurn>> {
    match session {
        // Numbers grow as turns are started, so either order has an index.
        Some(session) => {
            let select = format!("{TURNS} WHERE s.name = ?1 ORDER BY t.turn DESC LIMIT ?2");
            rows(
                connection,
                &select,
                params![session.as_str(), count(newest)],
                tables::turn,
            )
        }
        None => {
            let select = format!("{TURNS} ORDER BY t.id DESC LIMIT ?1");
            rows(connection, &select, [count(newest)], tables::turn)
        }
    }
}

fn rows<T>(
    connection: &Connection,
    select: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let all = || {
        connection
            .prepare(select)?
            .query_map(values, read)?
            .collect::<rusqlite::Result<_>>()
    };
    all().map_err(failed)
}

/// A text as it is kept.
struct KeptBlob<'a> {
    id: Hash,
    size: usize,
    kept: Cow<'a, [u8]>,
}

/// Returns the names of texts, and those that the ledger lacks as they will be kept, in the same order.
fn new_blobs<'a>(
    connection: &Connection,
    blobs: &[&'a [u8]],
) -> Result<(HashSet<Hash>, Vec<KeptBlob<'a>>)> {
    let (mut given, mut lacking) = (HashSet::new(), Vec::new());
    for bytes in blobs {
        if bytes.len() > compression::MAX_TEXT_BYTES {
            let message = format!("the ledger cannot keep a text of {} bytes", bytes.len());
            return Err(Error::new(ErrorKind::LedgerUnusable, message)
                .with_hint("lower `output_bytes` under [limits]"));
        }
        let id = blake3::hash(bytes);
        if given.insert(id) && !has_blob(connection, &id)? {
            lacking.push(KeptBlob {
                id,
                size: bytes.len(),
                kept: compression::pack(bytes),
            });
        }
    }
    Ok((given, lacking))
}

fn has_blob(connection: &Connection, hash: &Hash) -> Result<bool> {
    let select = "SELECT EXISTS (SELECT 1 FROM blobs WHERE id = ?1)";
    connection
        .query_row(select, [hash.as_bytes()], |row| row.get(0))
        .map_err(failed)
}

/// Returns the hash that a name stands for; `None` if it is no text's name.
fn hash_of(id: &BlobId) -> Option<Hash> {
    Hash::from_hex(&id.0)
        .ok()
        .filter(|hash| hash.to_hex().as_str() == id.0)
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::new(
        ErrorKind::LedgerUnusable,
        "what is recorded cannot be written as JSON",
    )
    .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Process;

    /// A disk of its own is more than every machine grants, so here the database is told to be full.
    #[test]
    fn what_does_not_fit_is_refused_and_the_next_entry_that_fits_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path()).unwrap();
        let session = SessionId::new("add-login").unwrap();
        let process = Process {
            pid: 1,
            started: 1,
            boot: String::new(),
            namespace: String::new(),
        };
        let holder = Holder {
            name: String::new(),
            process,
        };
        let Claim::Granted(lease) = store
            .claim(&session, &holder, None, SystemTime::UNIX_EPOCH)
            .unwrap()
        else {
            panic!("nobody else is there");
        };
        let mut noise = vec![0; 100_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let record = || {
            let events = [Event::Ended { done: true }];
            let entry = Entry {
                events: &events,
                blobs: &[&noise],
                ..Entry::default()
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
