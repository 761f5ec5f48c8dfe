//! Verification that a ledger contains exactly what was recorded.
//!
//! Two hash chains protect the events (see `chain.rs`). The chain of a session runs through the events of that session:
//! each event contains the hash of the one before it, and the session stores the number of its events and the hash of
//! the last one. The chain of links runs through the events of all sessions in the order of recording, so that a
//! session that was removed as a whole is detected as well.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rusqlite::{Connection, Row};

use super::chain::{event_hash, link_hash};
use super::open::database_error;
use super::{compression, parse_blob_id, query_rows, tables};
use crate::error::{Error, Result};
use crate::models::{Budget, Event, SessionId};
use crate::store::LedgerMarks;
use crate::store::memory::{DerivedDraft, DerivedRows};
use crate::store::turn_index::{self, IndexedCall, IndexedTurn, ScopeTotal};

/// Verifies everything: SQLite's own integrity check, blobs, measurements, hash chains and derived rows. Returns a
/// description of each fault.
pub(super) fn verify(connection: &Connection) -> Result<Vec<String>> {
    let mut faults: Vec<String> =
        query_rows(connection, "PRAGMA integrity_check(10)", [], |row| {
            row.get(0)
        })?;
    faults.retain(|fault| fault != "ok");

    let blobs = verify_blobs(connection, &mut faults)?;
    verify_measurements(connection, &mut faults)?;
    verify_event_rows(connection, &blobs, &mut faults)?;
    Ok(faults)
}

/// Verifies the hash chains and the derived rows. Blobs must exist, but are not read: each is checked against its hash
/// when it is read.
pub(super) fn verify_events(connection: &Connection) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let names: Vec<Vec<u8>> = query_rows(connection, "SELECT id FROM blobs", [], |row| row.get(0))?;
    let blobs = names
        .into_iter()
        .filter_map(|name| name.try_into().ok())
        .collect();
    verify_event_rows(connection, &blobs, &mut faults)?;
    Ok(faults)
}

/// Describes each session whose last event at the time of the snapshot is now missing or has another hash.
pub(super) fn find_changes_since(
    connection: &Connection,
    marks: &LedgerMarks,
) -> Result<Vec<String>> {
    let mut changes = Vec::new();
    for (session, (events, head)) in &marks.sessions {
        let select = include_str!("../sql/event_hash.sql");
        let values = rusqlite::params![session.as_str(), super::to_sql_integer(*events)];
        let found: Vec<Vec<u8>> = query_rows(connection, select, values, |row| row.get(0))?;
        match found.first() {
            Some(found) if found == head => {}
            Some(_) => changes.push(format!(
                "event {events} of session `{session}` was replaced"
            )),
            None => changes.push(format!("event {events} of session `{session}` was removed")),
        }
    }
    Ok(changes)
}

/// Verifies the hash chains, then compares the stored index with one rebuilt from the events.
fn verify_event_rows(
    connection: &Connection,
    blobs: &HashSet<[u8; 32]>,
    faults: &mut Vec<String>,
) -> Result<()> {
    let empty = DerivedRows::default();
    let mut draft = DerivedDraft::new(&empty);
    verify_chains(connection, blobs, &mut draft, faults)?;
    verify_links(connection, faults)?;

    let derived = draft.into_changes();
    // Rows derived from damaged events would differ as well.
    if faults.is_empty() {
        compare_turns(connection, &derived, faults)?;
        compare_totals(connection, &derived, faults)?;
    }
    Ok(())
}

/// Verifies the chain of links, which runs through the events of all sessions. Reports the first event whose link is
/// missing or has another hash, and the number of links without an event.
fn verify_links(connection: &Connection, faults: &mut Vec<String>) -> Result<()> {
    let select = include_str!("../sql/links.sql");
    let mut before = Vec::new();
    let mut broken = None;
    for_each_row(connection, select, |row| {
        let expected = link_hash(&before, &row.get::<_, Vec<u8>>(2)?);
        if broken.is_none()
            && row.get::<_, Option<Vec<u8>>>(3)?.as_deref() != Some(expected.as_bytes())
        {
            let session = row.get::<_, Option<String>>(1)?.unwrap_or_default();
            broken = Some(format!(
                "event {} of session `{}`",
                row.get::<_, i64>(0)?,
                session.escape_debug()
            ));
        }
        before = expected.as_bytes().to_vec();
        Ok(())
    })?;
    if let Some(event) = broken {
        faults.push(format!(
            "{event} breaks the ledger's hash chain: an event or a link was removed or edited"
        ));
    }

    let select = "SELECT count(*) FROM links WHERE sequence NOT IN (SELECT sequence FROM events)";
    let missing: i64 = connection
        .query_row(select, [], |row| row.get(0))
        .map_err(database_error)?;
    if missing > 0 {
        faults.push(match missing {
            1 => "1 recorded event is missing".to_owned(),
            count => format!("{count} recorded events are missing"),
        });
    }
    Ok(())
}

/// Verifies every blob against its hash; returns the hashes of the intact ones.
fn verify_blobs(connection: &Connection, faults: &mut Vec<String>) -> Result<HashSet<[u8; 32]>> {
    let mut intact = HashSet::new();
    for_each_row(
        connection,
        "SELECT number, id, size, bytes FROM blobs ORDER BY number",
        |row| {
            let number: i64 = row.get(0)?;
            let id: Vec<u8> = row.get(1)?;
            let size = usize::try_from(tables::read_number(row, 2)?).ok();
            let bytes = size.and_then(|size| {
                compression::decompress(row.get_ref(3).ok()?.as_blob().ok()?, size)
            });
            match bytes
                .map(|bytes| *blake3::hash(&bytes).as_bytes())
                .filter(|hash| hash[..] == id)
            {
                Some(hash) => drop(intact.insert(hash)),
                None => faults.push(format!(
                    "blob {number} is damaged: its content does not match its hash"
                )),
            }
            Ok(())
        },
    )?;
    Ok(intact)
}

/// Verifies that every measurement can be read.
fn verify_measurements(connection: &Connection, faults: &mut Vec<String>) -> Result<()> {
    for_each_row(
        connection,
        "SELECT at, agent, model, figure, id FROM measurements ORDER BY id",
        |row| {
            if tables::read_measurement(row).is_err() {
                let id: i64 = row.get(4)?;
                faults.push(format!("measurement {id} cannot be read"));
            }
            Ok(())
        },
    )
}

/// Progress through the chain of one session.
struct ChainReader {
    session: SessionId,
    events: u64,
    head: Vec<u8>,
    /// True after the first fault; later events are not verified.
    is_broken: bool,
}

/// Verifies the chain of every session, and adds every event to the rebuilt index.
fn verify_chains(
    connection: &Connection,
    blobs: &HashSet<[u8; 32]>,
    draft: &mut DerivedDraft<'_>,
    faults: &mut Vec<String>,
) -> Result<()> {
    let mut sessions = BTreeMap::new();
    for_each_row(connection, "SELECT id, name FROM sessions", |row| {
        let session = tables::read_session(row, 1)?;
        sessions.insert(
            row.get::<_, i64>(0)?,
            ChainReader {
                session,
                events: 0,
                head: Vec::new(),
                is_broken: false,
            },
        );
        Ok(())
    })?;

    let select =
        "SELECT session, number, at, body, before, hash FROM events ORDER BY session, number";
    for_each_row(connection, select, |row| {
        let Some(reading) = sessions.get_mut(&row.get(0)?) else {
            faults.push("an event does not belong to a session".to_owned());
            return Ok(());
        };
        if reading.is_broken {
            return Ok(());
        }
        if let Err(why) = verify_event(row, reading, blobs, draft) {
            faults.push(format!(
                "event {} of session `{}` {why}",
                reading.events + 1,
                reading.session
            ));
            reading.is_broken = true;
        }
        reading.events += 1;
        Ok(())
    })?;

    for_each_row(
        connection,
        "SELECT id, events, head FROM sessions ORDER BY name",
        |row| {
            let Some(reading) = sessions.get(&row.get(0)?) else {
                return Ok(());
            };
            if reading.is_broken {
                return Ok(());
            }

            let recorded = tables::read_number(row, 1)?;
            let head: Vec<u8> = row.get(2)?;
            if recorded != reading.events {
                faults.push(format!(
                    "session `{}` should have {recorded} events, but has {}",
                    reading.session, reading.events
                ));
            } else if head != reading.head {
                faults.push(format!(
                    "the last event of session `{}` does not match the hash stored with the session",
                    reading.session
                ));
            }
            Ok(())
        },
    )
}

/// Verifies one event and adds it to the rebuilt index; the error describes the fault.
fn verify_event(
    row: &Row<'_>,
    reading: &mut ChainReader,
    blobs: &HashSet<[u8; 32]>,
    draft: &mut DerivedDraft<'_>,
) -> Result<(), String> {
    let unreadable = |_: rusqlite::Error| "cannot be read".to_owned();
    let read = || {
        Ok((
            tables::read_number(row, 1)?,
            row.get::<_, i64>(2)?,
            tables::read_body(row, 3)?,
            row.get::<_, Vec<u8>>(4)?,
            row.get::<_, Vec<u8>>(5)?,
        ))
    };
    let (number, at, body, before, hash) = read().map_err(unreadable)?;

    let expected_number = reading.events + 1;
    if number > expected_number {
        return Err("is missing".to_owned());
    }
    if number < expected_number {
        return Err(format!("has the wrong number {number}"));
    }

    if before != reading.head {
        return Err("does not contain the hash of the event before it".to_owned());
    }
    let expected = event_hash(&reading.head, &reading.session, number, at, &body);
    if expected.as_bytes()[..] != hash {
        return Err("does not match its hash".to_owned());
    }
    reading.head = hash;

    let event: Event = serde_json::from_str(&body).map_err(|_| "cannot be parsed".to_owned())?;
    let is_missing =
        |id: &&_| parse_blob_id(id).is_none_or(|hash| !blobs.contains(hash.as_bytes()));
    if let Some(id) = event.blob_ids().into_iter().find(is_missing) {
        return Err(format!("refers to blob {id}, which is missing or damaged"));
    }

    let indexed = turn_index::index_event(
        draft,
        &reading.session,
        &event,
        &Budget::default(),
        turn_index::from_millis(at),
    );
    indexed.map_err(|error: Error| format!("is out of order: {error}"))
}

/// Compares the stored turns with those derived from the events.
fn compare_turns(
    connection: &Connection,
    derived: &DerivedRows,
    faults: &mut Vec<String>,
) -> Result<()> {
    let mut calls: HashMap<i64, Vec<IndexedCall>> = HashMap::new();
    let select = "SELECT number, run, tokens, micro_dollars, answered, turn FROM calls ORDER BY turn, number";
    for_each_row(connection, select, |row| {
        calls
            .entry(row.get(5)?)
            .or_default()
            .push(tables::read_call(row)?);
        Ok(())
    })?;

    let mut stored = 0;
    for turn in super::select_turns(connection, None, usize::MAX)? {
        stored += 1;
        let calls = calls.remove(&turn.id).unwrap_or_default();
        let indexed = IndexedTurn {
            row: turn.row,
            calls,
        };
        let session = indexed.row.session.clone();
        let number = indexed.row.turn;
        if derived.turns.get(&(session.clone(), number)) != Some(&indexed) {
            faults.push(format!(
                "turn {number} of session `{session}` differs from its events"
            ));
        }
    }

    if stored != derived.turns.len() {
        faults.push(format!(
            "turns in the index: {stored}; turns in the events: {}",
            derived.turns.len()
        ));
    }
    Ok(())
}

/// Compares the stored totals with those derived from the events.
fn compare_totals(
    connection: &Connection,
    derived: &DerivedRows,
    faults: &mut Vec<String>,
) -> Result<()> {
    let mut stored: BTreeMap<(String, String), ScopeTotal> = BTreeMap::new();
    let select = "SELECT tokens, micro_dollars, turns, milliseconds, scope, name FROM totals";
    for_each_row(connection, select, |row| {
        stored.insert((row.get(4)?, row.get(5)?), tables::read_total(row)?);
        Ok(())
    })?;

    let expected: BTreeMap<_, _> = derived
        .totals
        .iter()
        .map(|((kind, name), total)| (((*kind).to_owned(), name.clone()), *total))
        .collect();
    let keys: BTreeSet<_> = stored.keys().chain(expected.keys()).collect();
    for key in keys
        .into_iter()
        .filter(|key| stored.get(*key) != expected.get(*key))
    {
        faults.push(format!(
            "usage of the {} `{}` differs from its events",
            key.0, key.1
        ));
    }
    Ok(())
}

/// Calls `read` for every row of a query.
fn for_each_row(
    connection: &Connection,
    select: &str,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> Result<()> {
    let mut read_all = || {
        let mut statement = connection.prepare(select)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            read(row)?;
        }
        Ok(())
    };
    read_all().map_err(database_error)
}
