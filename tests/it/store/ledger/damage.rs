//! A ledger that was changed from outside: the damage is named, and nothing panics.

use std::fs;
use std::path::{Path, PathBuf};

use agentd::ErrorKind;
use agentd::store::{BudgetScope, LedgerEntry, SqliteStore, Store, TurnQuery, blob_id};
use rusqlite::Connection;

use super::{TEXTS, at, claim, commit, every_event, session};

const LONG: &[u8] = &[b'x'; 10_000];

/// Creates a ledger with two sessions of ten events each. Returns its file.
fn ledger(root: &Path) -> PathBuf {
    let store = SqliteStore::open(root).unwrap();
    for name in ["a", "b"] {
        let lease = claim(&store, name);
        for event in every_event() {
            commit(&store, &lease, &[event]).unwrap();
        }
        store
            .commit(
                &lease,
                &LedgerEntry {
                    blobs: &[LONG],
                    ..LedgerEntry::default()
                },
                at(0),
            )
            .unwrap();
        store.release(&lease).unwrap();
    }

    assert_eq!(store.verify().unwrap(), Vec::<String>::new());

    root.join(".agentd/ledger.db")
}

/// Removes all rows of a session except those that link it to others.
const REMOVE_A: &str = "DELETE FROM calls WHERE turn = 1; DELETE FROM turns WHERE id = 1; \
                        DELETE FROM totals WHERE name = 'a'; UPDATE totals SET tokens = tokens / 2, turns = 1; \
                        DELETE FROM sessions WHERE id = 1; DELETE FROM events WHERE session = 1";

/// The same for the session that was recorded last.
const REMOVE_B: &str = "DELETE FROM calls WHERE turn = 2; DELETE FROM turns WHERE id = 2; \
                        DELETE FROM totals WHERE name = 'b'; UPDATE totals SET tokens = tokens / 2, turns = 1; \
                        DELETE FROM sessions WHERE id = 2; DELETE FROM events WHERE session = 2";

/// Changes rows of a ledger without any other trace: the triggers that forbid it are restored
/// afterwards.
pub(super) fn change_unseen(file: &Path, change: &str) {
    let database = Connection::open(file).unwrap();
    let select = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'";
    let triggers: Vec<(String, String)> = database
        .prepare(select)
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    database.execute_batch("PRAGMA foreign_keys = off").unwrap();
    for (name, _) in &triggers {
        database
            .execute_batch(&format!("DROP TRIGGER {name}"))
            .unwrap();
    }

    database.execute_batch(change).unwrap();
    assert!(database.changes() > 0, "{change}");

    for (_, sql) in &triggers {
        database.execute_batch(sql).unwrap();
    }
}

#[test]
fn verify_names_the_first_changed_event() {
    let prompt = blob_id(b"prompt");
    let named =
        format!("event 3 of session `a` refers to blob {prompt}, which is missing or damaged");
    let cases = [
        (
            "UPDATE events SET body = replace(body, 'PASS', 'REJECTED') WHERE sequence = 7",
            "event 7 of session `a` does not match its hash",
        ),
        (
            "UPDATE events SET at = at + 1 WHERE sequence = 2",
            "event 2 of session `a` does not match its hash",
        ),
        (
            "UPDATE events SET body = x'00' WHERE sequence = 14",
            "event 2 of session `b` cannot be read",
        ),
        (
            "UPDATE events SET hash = zeroblob(32) WHERE sequence = 1",
            "event 1 of session `a` does not match its hash",
        ),
        (
            "UPDATE events SET before = zeroblob(32) WHERE sequence = 5",
            "event 5 of session `a` does not contain the hash of the event before it",
        ),
        (
            "DELETE FROM events WHERE sequence = 4",
            "event 4 of session `a` is missing",
        ),
        (
            "DELETE FROM events WHERE sequence = 12",
            "session `a` should have 12 events, but has 11",
        ),
        ("DELETE FROM blobs WHERE number = 1", &named),
        (
            "PRAGMA foreign_keys = off; UPDATE sessions SET id = 9 WHERE id = 1",
            "an event does not belong to a session",
        ),
        (
            "UPDATE blobs SET bytes = x'00' WHERE size = 10000",
            "blob 4 is damaged: its content does not match its hash",
        ),
        (
            "UPDATE blobs SET size = 9223372036854775807 WHERE number = 4",
            "blob 4 is damaged: its content does not match its hash",
        ),
        (
            "UPDATE turns SET verdict = 'REJECTED' WHERE id = 2",
            "turn 1 of session `b` differs from its events",
        ),
        (
            "UPDATE calls SET answered = 0 WHERE turn = 1",
            "turn 1 of session `a` differs from its events",
        ),
        (
            "DELETE FROM calls",
            "turn 1 of session `b` differs from its events",
        ),
        (
            "DELETE FROM calls; DELETE FROM turns",
            "turns in the index: 0; turns in the events: 2",
        ),
        (
            "UPDATE totals SET tokens = 0 WHERE scope = 'run'",
            "usage of the run `run` differs from its events",
        ),
        (
            "DELETE FROM totals WHERE name = 'a'",
            "usage of the session `a` differs from its events",
        ),
        (
            REMOVE_A,
            "event 1 of session `b` breaks the ledger's hash chain: an event or a link was removed or edited",
        ),
        (
            &format!("{REMOVE_A}; DELETE FROM links WHERE sequence <= 12"),
            "event 1 of session `b` breaks the ledger's hash chain: an event or a link was removed or edited",
        ),
        (REMOVE_B, "12 recorded events are missing"),
        (
            "DELETE FROM links WHERE sequence = 5",
            "event 5 of session `a` breaks the ledger's hash chain: an event or a link was removed or edited",
        ),
        (
            "UPDATE links SET hash = zeroblob(32) WHERE sequence = 24",
            "event 12 of session `b` breaks the ledger's hash chain: an event or a link was removed or edited",
        ),
    ];
    let original = tempfile::tempdir().unwrap();
    let file = ledger(original.path());

    for (change, fault) in cases {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(".agentd")).unwrap();
        let copy = folder.path().join(".agentd/ledger.db");
        fs::copy(&file, &copy).unwrap();
        change_unseen(&copy, change);
        let store = SqliteStore::open(folder.path()).unwrap();
        assert_eq!(
            store.verify().unwrap().first().map(String::as_str),
            Some(fault),
            "{change}"
        );
    }
}

#[test]
fn text_with_a_wrong_hash_is_not_returned() {
    for change in [
        "bytes = zeroblob(length(bytes))",
        "bytes = zeroblob(10000)",
        "size = size + 1",
        "size = 0",
    ] {
        let folder = tempfile::tempdir().unwrap();
        change_unseen(
            &ledger(folder.path()),
            &format!("UPDATE blobs SET {change} WHERE size = 10000"),
        );
        let store = SqliteStore::open(folder.path()).unwrap();
        let error = store.blob(&blob_id(LONG)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LedgerUnusable);
        assert!(error.message().contains(&blob_id(LONG).0), "{error}");
        assert_eq!(
            store.blob(&blob_id(b"prompt")).unwrap().as_deref(),
            Some(&b"prompt"[..])
        );
    }
}

/// Returns everything that a ledger records; an error if any of it was edited.
fn read_history(root: &Path) -> Result<String, String> {
    let words = |error: agentd::Error| {
        assert_eq!(error.kind(), ErrorKind::LedgerUnusable, "{error:?}");
        error.to_string()
    };
    let store = SqliteStore::open_existing(root).map_err(words)?.unwrap();
    let faults = store.verify().map_err(words)?;
    if !faults.is_empty() {
        return Err(faults.join("\n"));
    }
    let mut printed = format!(
        "{:?}",
        store
            .turns(&TurnQuery {
                session: None,
                newest: 99
            })
            .map_err(words)?
    );
    for name in ["a", "b"].map(session) {
        printed += &format!("{:?}", store.events(&name).map_err(words)?);
        printed += &format!(
            "{:?}",
            store.spent(&BudgetScope::Session(&name)).map_err(words)?
        );
    }

    printed += &format!("{:?}", store.usage(None).map_err(words)?);
    for text in TEXTS.into_iter().chain([LONG]) {
        printed += &format!("{:?}", store.blob(&blob_id(text)).map_err(words)?);
    }
    Ok(printed)
}

/// For any changed byte of the file, the history is returned unchanged or not at all.
#[test]
fn changed_byte_is_detected_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let file = ledger(folder.path());
    let original = fs::read(&file).unwrap();
    let before = read_history(folder.path()).unwrap();
    let mut noticed = 0;

    // The whole header, then bytes at regular intervals, so that every kind of page is covered.
    for offset in (0..100)
        .step_by(3)
        .chain((100..original.len()).step_by(211))
    {
        let mut bytes = original.clone();
        bytes[offset] ^= 1 << (offset % 8);
        fs::write(&file, &bytes).unwrap();
        match read_history(folder.path()) {
            Ok(after) => assert_eq!(after, before, "byte {offset}"),
            Err(_) => noticed += 1,
        }
        let _none = fs::remove_file(file.with_extension("db-wal"));
        let _none = fs::remove_file(file.with_extension("db-shm"));
    }

    assert!(noticed > 20, "{noticed}");
}

#[test]
fn truncated_ledger_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = ledger(folder.path());
    let original = fs::read(&file).unwrap();

    for length in [
        1,
        99,
        100,
        512,
        4_096,
        original.len() / 2,
        original.len() - 4_096,
        original.len() - 1,
    ] {
        fs::write(&file, &original[..length]).unwrap();
        assert!(read_history(folder.path()).is_err(), "{length}");
    }

    fs::write(&file, &original).unwrap();
    read_history(folder.path()).unwrap();
}
