//! A ledger edited while a session is locked: an agent runs as the same user and can write to the
//! file.

use std::fs;
use std::path::Path;

use agentd::ErrorKind;
use agentd::models::{Event, ReviewResult};
use agentd::store::{Lease, LedgerEntry, SqliteStore, Store};

use super::damage::change_unseen;
use super::{at, claim, commit, every_event, session};

const ID: &str = "the-same";

/// Creates a ledger with a session `a` of a finished run, and a locked session `mine`.
fn create_ledger(root: &Path, verdict: ReviewResult) -> (SqliteStore, Lease) {
    let store = SqliteStore::open_as(root, ID).unwrap();
    let lease = claim(&store, "a");
    for event in every_event() {
        let event = match event {
            Event::Replied {
                turn,
                markers,
                unclear,
                fault,
                questions,
                ..
            } => Event::Replied {
                refused: Vec::new(),
                turn,
                markers,
                verdict: Some(verdict),
                unclear,
                fault,
                questions,
            },
            event => event,
        };
        commit(&store, &lease, &[event]).unwrap();
    }

    store.release(&lease).unwrap();
    let lease = claim(&store, "mine");
    commit(&store, &lease, &every_event()[..3]).unwrap();
    (store, lease)
}

/// Fails unless the ledger is refused with this message, and nothing more is recorded.
fn check_refused(
    store: &SqliteStore,
    lease: &Lease,
    marks: &agentd::store::LedgerMarks,
    words: &str,
) {
    let error = store.check_unchanged(lease, marks).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LedgerChanged);
    let message = error.message();
    assert!(
        message.contains("was changed while an agent was running") && message.contains(words),
        "{message}"
    );
}

#[test]
fn concurrent_records_are_not_tampering() {
    let folder = tempfile::tempdir().unwrap();
    let (store, lease) = create_ledger(folder.path(), ReviewResult::Pass);
    let marks = store.marks().unwrap();
    store.check_unchanged(&lease, &marks).unwrap();

    let other = SqliteStore::open_existing(folder.path()).unwrap().unwrap();
    for name in ["a", "new"] {
        let theirs = claim(&other, name);
        other
            .commit(
                &theirs,
                &LedgerEntry {
                    events: &[Event::Ended { done: true }],
                    ..LedgerEntry::default()
                },
                at(9),
            )
            .unwrap();
    }

    store.heartbeat(&lease, at(10)).unwrap();
    commit(&store, &lease, &every_event()[3..4]).unwrap();
    store.check_unchanged(&lease, &marks).unwrap();
}

/// Replaces bytes of a file without SQLite, with the same length. Returns false if they do not
/// occur.
fn edit_raw(file: &Path, from: &str, to: &str) -> bool {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(file).unwrap();
    let places: Vec<usize> = bytes
        .windows(from.len())
        .enumerate()
        .filter(|(_, found)| *found == from.as_bytes())
        .map(|(place, _)| place)
        .collect();
    for place in &places {
        bytes[*place..*place + to.len()].copy_from_slice(to.as_bytes());
    }
    let mut opened = fs::OpenOptions::new().write(true).open(file).unwrap();
    std::io::Write::write_all(&mut opened, &bytes).unwrap();
    !places.is_empty()
}

/// An edit of the bytes of the database or of its log, which SQLite does not detect.
#[test]
fn edit_without_sqlite_is_detected() {
    for name in ["ledger.db", "ledger.db-wal"] {
        let folder = tempfile::tempdir().unwrap();
        let (store, lease) = create_ledger(folder.path(), ReviewResult::NeedsChanges);
        store.release(&lease).unwrap();
        let file = folder.path().join(".agentd").join(name);
        let (store, lease) = if name == "ledger.db" {
            // Closing moves the log into the database.
            drop(store);
            let store = SqliteStore::open_existing(folder.path()).unwrap().unwrap();
            let lease = claim(&store, "mine");
            (store, lease)
        } else {
            let lease = claim(&store, "mine");
            (store, lease)
        };
        let marks = store.marks().unwrap();
        store.heartbeat(&lease, at(10)).unwrap();
        store.check_unchanged(&lease, &marks).unwrap();

        assert!(edit_raw(&file, "NEEDS_CHANGES", "NEEDS_NOTHING"), "{name}");
        check_refused(&store, &lease, &marks, "of session `a`");
    }
}

#[test]
fn changed_row_is_detected_and_named() {
    let cases = [
        (
            "UPDATE events SET body = replace(body, 'NEEDS_CHANGES', 'PASS') WHERE session = 1",
            "event 2 of session `a` cannot be read",
        ),
        (
            "DELETE FROM events WHERE session = 1 AND number > 8",
            "of session `a` was removed",
        ),
        (
            "DELETE FROM events WHERE session = 1; DELETE FROM links WHERE sequence <= 12; \
             DELETE FROM turns WHERE session = 1; DELETE FROM sessions WHERE id = 1",
            "event 12 of session `a` was removed",
        ),
        (
            "UPDATE turns SET verdict = 'PASS' WHERE session = 1",
            "turn 1 of session `a` differs from its events",
        ),
        ("UPDATE totals SET tokens = 0", "differs from its events"),
        (
            "UPDATE sessions SET holder = NULL WHERE id = 2",
            "session `mine` is no longer locked by this process",
        ),
        (
            "DELETE FROM events WHERE session = 2 AND number = 3; DELETE FROM links WHERE sequence = 15; \
             UPDATE sessions SET events = 2, head = (SELECT hash FROM events WHERE session = 2 AND number = 2) \
             WHERE id = 2",
            "event 3 of session `mine` was removed",
        ),
    ];
    for (change, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (store, lease) = create_ledger(folder.path(), ReviewResult::NeedsChanges);
        let marks = store.marks().unwrap();
        change_unseen(&folder.path().join(".agentd/ledger.db"), change);
        check_refused(&store, &lease, &marks, words);
    }
}

/// The chain has no key, so an attacker can rehash the ledger. The hashes in memory of this process
/// reveal it.
#[test]
fn rehashed_ledger_is_detected() {
    let (folder, forged) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, lease) = create_ledger(folder.path(), ReviewResult::NeedsChanges);
    let marks = store.marks().unwrap();

    drop(create_ledger(forged.path(), ReviewResult::Pass));
    assert_eq!(
        SqliteStore::open(forged.path()).unwrap().verify().unwrap(),
        Vec::<String>::new()
    );

    for end in ["", "-wal", "-shm"] {
        let _may_be_none = fs::remove_file(folder.path().join(format!(".agentd/ledger.db{end}")));
    }
    fs::copy(
        forged.path().join(".agentd/ledger.db"),
        folder.path().join(".agentd/ledger.db"),
    )
    .unwrap();
    check_refused(
        &store,
        &lease,
        &marks,
        "event 12 of session `a` was replaced",
    );
}

#[test]
fn older_copy_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let (store, lease) = create_ledger(folder.path(), ReviewResult::Pass);
    let older = folder.path().join("older.db");
    drop(store);
    fs::copy(folder.path().join(".agentd/ledger.db"), &older).unwrap();

    let store = SqliteStore::open_as(folder.path(), ID).unwrap();
    let other = claim(&store, "b");
    commit(&store, &other, &every_event()).unwrap();
    store.release(&other).unwrap();
    let marks = store.marks().unwrap();
    for end in ["", "-wal", "-shm"] {
        let _may_be_none = fs::remove_file(folder.path().join(format!(".agentd/ledger.db{end}")));
    }

    fs::copy(&older, folder.path().join(".agentd/ledger.db")).unwrap();
    check_refused(
        &store,
        &lease,
        &marks,
        "event 12 of session `b` was removed",
    );
}

/// Only the holder of a lease may write, but a lease is just a number in the file.
#[test]
fn foreign_event_in_a_locked_session_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let (store, lease) = create_ledger(folder.path(), ReviewResult::Pass);
    let marks = store.marks().unwrap();
    let other = SqliteStore::open_existing(folder.path()).unwrap().unwrap();
    let forged = Event::Decided {
        decision: agentd::models::Decision::Approve,
        note: None,
    };
    other
        .commit(
            &lease,
            &LedgerEntry {
                events: &[forged],
                ..LedgerEntry::default()
            },
            at(9),
        )
        .unwrap();
    let words = "session `mine` has events that this run did not record";
    check_refused(&store, &lease, &marks, words);
    let error = store
        .commit(
            &lease,
            &LedgerEntry {
                events: &every_event()[3..4],
                ..LedgerEntry::default()
            },
            at(9),
        )
        .unwrap_err();
    assert!(error.message().contains(words), "{error}");
    assert_eq!(store.events(&session("mine")).unwrap().len(), 4);
}
