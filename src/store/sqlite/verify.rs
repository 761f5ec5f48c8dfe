//! Whether a ledger still says what was recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rusqlite::{Connection, Row};

use super::chain::{event_hash, link_hash};
use super::open::failed;
use super::{compression, hash_of, rows, tables};
use crate::error::{Error, Result};
use crate::models::{Budget, Event, SessionId};
use crate::store::Marks;
use crate::store::memory::{Draft, Kept};
use crate::store::turn_index::{self, Call, Tally, Total};

/// Returns what is not as it was recorded, in words.
pub(super) fn verify(connection: &Connection) -> Result<Vec<String>> {
    let mut faults: Vec<String> = rows(connection, "PRAGMA integrity_check(10)", [], |row| {
        row.get(0)
    })?;
    faults.retain(|fault| fault != "ok");
    let blobs = texts(connection, &mut faults)?;
    measurements(connection, &mut faults)?;
    events(connection, &blobs, &mut faults)?;
    Ok(faults)
}

/// Returns what of the events, and of what follows from them, is not as it was recorded. The texts that they name are
/// there, but are not read: each is checked by its name when it is.
pub(super) fn verify_events(connection: &Connection) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let names: Vec<Vec<u8>> = rows(connection, "SELECT id FROM blobs", [], |row| row.get(0))?;
    let blobs = names
        .into_iter()
        .filter_map(|name| name.try_into().ok())
        .collect();
    events(connection, &blobs, &mut faults)?;
    Ok(faults)
}

/// Returns which sessions lack what they held at some marks, or hold something else in its place.
pub(super) fn changed_since(connection: &Connection, marks: &Marks) -> Result<Vec<String>> {
    let mut changes = Vec::new();
    for (session, (events, head)) in &marks.sessions {
        let select = include_str!("../sql/event_hash.sql");
        let values = rusqlite::params![session.as_str(), super::count(*events)];
        let found: Vec<Vec<u8>> = rows(connection, select, values, |row| row.get(0))?;
        match found.first() {
            Some(found) if found == head => {}
            Some(_) => changes.push(format!(
                "event {events} of the session `{session}` is another one"
            )),
            None => changes.push(format!("event {events} of the session `{session}` is gone")),
        }
    }
    Ok(changes)
}

/// Reads all events, and compares what is kept with what follows from them.
fn events(
    connection: &Connection,
    blobs: &HashSet<[u8; 32]>,
    faults: &mut Vec<String>,
) -> Result<()> {
    let empty = Kept::default();
    let mut draft = Draft::over(&empty);
    chains(connection, blobs, &mut draft, faults)?;
    links(connection, faults)?;
    let derived = draft.changed();
    // What follows from events is not judged where they themselves are in doubt.
    if faults.is_empty() {
        turns(connection, &derived, faults)?;
        totals(connection, &derived, faults)?;
    }
    Ok(())
}

/// Follows the chain that runs through the events of all sessions, and names the first event that does not fit.
fn links(connection: &Connection, faults: &mut Vec<String>) -> Result<()> {
    let select = include_str!("../sql/links.sql");
    let mut before = Vec::new();
    let mut broken = None;
    each(connection, select, |row| {
        let right = link_hash(&before, &row.get::<_, Vec<u8>>(2)?);
        if broken.is_none()
            && row.get::<_, Option<Vec<u8>>>(3)?.as_deref() != Some(right.as_bytes())
        {
            let session = row.get::<_, Option<String>>(1)?.unwrap_or_default();
            broken = Some(format!(
                "event {} of the session `{}`",
                row.get::<_, i64>(0)?,
                session.escape_debug()
            ));
        }
        before = right.as_bytes().to_vec();
        Ok(())
    })?;
    if let Some(event) = broken {
        faults.push(format!(
            "{event} does not follow what was recorded before it: something was removed or changed"
        ));
    }
    let select = "SELECT count(*) FROM links WHERE sequence NOT IN (SELECT sequence FROM events)";
    let gone: i64 = connection
        .query_row(select, [], |row| row.get(0))
        .map_err(failed)?;
    if gone > 0 {
        faults.push(format!("events that were recorded are gone: {gone}"));
    }
    Ok(())
}

/// Reads every text, and returns the names of those that are whole.
fn texts(connection: &Connection, faults: &mut Vec<String>) -> Result<HashSet<[u8; 32]>> {
    let mut whole = HashSet::new();
    each(
        connection,
        "SELECT number, id, size, bytes FROM blobs ORDER BY number",
        |row| {
            let (number, id): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            let size = usize::try_from(tables::number(row, 2)?).ok();
            let bytes = size
                .and_then(|size| compression::unpack(row.get_ref(3).ok()?.as_blob().ok()?, size));
            match bytes
                .map(|bytes| *blake3::hash(&bytes).as_bytes())
                .filter(|hash| hash[..] == id)
            {
                Some(hash) => drop(whole.insert(hash)),
                None => faults.push(format!("text {number} is not as it was recorded")),
            }
            Ok(())
        },
    )?;
    Ok(whole)
}

/// Reads every measurement.
fn measurements(connection: &Connection, faults: &mut Vec<String>) -> Result<()> {
    each(
        connection,
        "SELECT at, agent, model, figure, id FROM measurements ORDER BY id",
        |row| {
            if tables::measurement(row).is_err() {
                faults.push(format!(
                    "measurement {} is not as it was recorded",
                    row.get::<_, i64>(4)?
                ));
            }
            Ok(())
        },
    )
}

/// A session whose events are being read.
struct Reading {
    session: SessionId,
    events: u64,
    head: Vec<u8>,
    broken: bool,
}

/// Reads every event, counts it, and follows the chains.
fn chains(
    connection: &Connection,
    blobs: &HashSet<[u8; 32]>,
    draft: &mut Draft<'_>,
    faults: &mut Vec<String>,
) -> Result<()> {
    let mut sessions = BTreeMap::new();
    each(connection, "SELECT id, name FROM sessions", |row| {
        let session = tables::session(row, 1)?;
        sessions.insert(
            row.get::<_, i64>(0)?,
            Reading {
                session,
                events: 0,
                head: Vec::new(),
                broken: false,
            },
        );
        Ok(())
    })?;
    let select =
        "SELECT session, number, at, body, before, hash FROM events ORDER BY session, number";
    each(connection, select, |row| {
        let Some(reading) = sessions.get_mut(&row.get(0)?) else {
            faults.push("an event belongs to no session".to_owned());
            return Ok(());
        };
        if reading.broken {
            return Ok(());
        }
        if let Err(why) = follow(row, reading, blobs, draft) {
            faults.push(format!(
                "event {} of the session `{}` {why}",
                reading.events + 1,
                reading.session
            ));
            reading.broken = true;
        }
        reading.events += 1;
        Ok(())
    })?;
    each(
        connection,
        "SELECT id, events, head FROM sessions ORDER BY name",
        |row| {
            if let Some(reading) = sessions.get(&row.get(0)?)
                && !reading.broken
                && (tables::number(row, 1)?, row.get(2)?) != (reading.events, reading.head.clone())
            {
                let after = format!(
                    "event {} of the session `{}`",
                    reading.events, reading.session
                );
                faults.push(format!("{after} is not the last that was recorded"));
            }
            Ok(())
        },
    )
}

/// Reads one event; an error says what is wrong with it.
fn follow(
    row: &Row<'_>,
    reading: &mut Reading,
    blobs: &HashSet<[u8; 32]>,
    draft: &mut Draft<'_>,
) -> Result<(), String> {
    let changed = || "is not as it was recorded".to_owned();
    let read = || {
        let (number, at) = (tables::number(row, 1)?, row.get::<_, i64>(2)?);
        Ok((
            number,
            at,
            tables::body(row, 3)?,
            row.get::<_, Vec<u8>>(4)?,
            row.get::<_, Vec<u8>>(5)?,
        ))
    };
    let (number, at, body, before, hash) = read().map_err(|_: rusqlite::Error| changed())?;
    let right = event_hash(
        &reading.head,
        &reading.session,
        reading.events + 1,
        at,
        &body,
    );
    if number != reading.events + 1 || before != reading.head || right.as_bytes()[..] != hash {
        return Err(changed());
    }
    reading.head = hash;
    let event: Event = serde_json::from_str(&body).map_err(|_| changed())?;
    let lost = |id: &&_| hash_of(id).is_none_or(|hash| !blobs.contains(hash.as_bytes()));
    if let Some(id) = event.texts().into_iter().find(lost) {
        return Err(format!("names the text {id}, which is not there"));
    }
    let counted = turn_index::count(
        draft,
        &reading.session,
        &event,
        &Budget::default(),
        turn_index::from_millis(at),
    );
    counted.map_err(|error: Error| format!("cannot follow: {error}"))
}

/// Compares the turns that are kept with those that follow from the events.
fn turns(connection: &Connection, derived: &Kept, faults: &mut Vec<String>) -> Result<()> {
    let mut calls: HashMap<i64, Vec<Call>> = HashMap::new();
    let select = "SELECT number, run, tokens, micro_dollars, answered, turn FROM calls ORDER BY turn, number";
    each(connection, select, |row| {
        calls
            .entry(row.get(5)?)
            .or_default()
            .push(tables::call(row)?);
        Ok(())
    })?;
    let mut kept = 0;
    for turn in super::kept_turns(connection, None, usize::MAX)? {
        kept += 1;
        let calls = calls.remove(&turn.id).unwrap_or_default();
        let tally = Tally {
            row: turn.row,
            calls,
        };
        let (session, number) = (tally.row.session.clone(), tally.row.turn);
        if derived.tallies.get(&(session.clone(), number)) != Some(&tally) {
            faults.push(format!(
                "turn {number} of the session `{session}` is not what its events say"
            ));
        }
    }
    if kept != derived.tallies.len() {
        faults.push(format!(
            "{kept} turns are listed, and the events tell of {}",
            derived.tallies.len()
        ));
    }
    Ok(())
}

/// Compares what budgets count with what follows from the events.
fn totals(connection: &Connection, derived: &Kept, faults: &mut Vec<String>) -> Result<()> {
    let mut kept: BTreeMap<(String, String), Total> = BTreeMap::new();
    let select = "SELECT tokens, micro_dollars, turns, milliseconds, scope, name FROM totals";
    each(connection, select, |row| {
        kept.insert((row.get(4)?, row.get(5)?), tables::total(row)?);
        Ok(())
    })?;
    let right = derived
        .totals
        .iter()
        .map(|((kind, name), total)| (((*kind).to_owned(), name.clone()), *total));
    let right: BTreeMap<_, _> = right.collect();
    let names: BTreeSet<_> = kept.keys().chain(right.keys()).collect();
    for key in names
        .into_iter()
        .filter(|key| kept.get(*key) != right.get(*key))
    {
        faults.push(format!(
            "what the {} `{}` has used is not what its events say",
            key.0, key.1
        ));
    }
    Ok(())
}

/// Reads every row of a query.
fn each(
    connection: &Connection,
    select: &str,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> Result<()> {
    let mut all = || {
        let mut statement = connection.prepare(select)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            read(row)?;
        }
        Ok(())
    };
    all().map_err(failed)
}
