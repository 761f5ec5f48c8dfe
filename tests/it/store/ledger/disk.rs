//! The ledger on disk: its owner, its size, and files that are not opened.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use agentd::ErrorKind;
use agentd::models::{Event, TurnStart};
use agentd::store::{LedgerEntry, SqliteStore, Store};
use rusqlite::Connection;

use super::{at, claim, commit, segment, started};
use crate::support::{TestProject, did_not_run, files_below};

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn ledger(root: &Path) -> std::path::PathBuf {
    root.join(".agentd/ledger.db")
}

/// Checks that neither way opens the ledger, and checks the reason.
fn check_refused(root: &Path, words: &str) {
    let opened = [
        SqliteStore::open(root).map(|_| ()),
        SqliteStore::open_existing(root).map(|_| ()),
    ];
    for opened in opened {
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LedgerUnusable, "{error:?}");
        assert!(error.message().contains(words), "{error:?}");
        assert!(error.hint().is_some(), "{error:?}");
    }
}

#[test]
fn ledger_is_private_and_ignored_by_git() {
    let project = TestProject::new();
    let root = project.root();
    let store = SqliteStore::open(&root).unwrap();

    commit(&store, &claim(&store, "add-login"), &[]).unwrap();
    assert_eq!(mode(&root.join(".agentd")), 0o700);

    let files = files_below(&root.join(".agentd"));
    let names: Vec<_> = files.iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(
        names,
        [".gitignore", "ledger.db", "ledger.db-shm", "ledger.db-wal"]
    );
    for name in names {
        assert_eq!(mode(&root.join(".agentd").join(name)), 0o600, "{name}");
    }
    assert_eq!(project.read(".agentd/.gitignore"), "*\n");

    let status = Command::new("git")
        .args(["status", "--porcelain"])
        .current_dir(&root)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(status.stdout).unwrap(), "");

    drop(store);
    assert_eq!(
        files_below(&root.join(".agentd")).len(),
        2,
        "no file is left open"
    );
}

#[test]
fn leftovers_of_a_removed_ledger_are_not_reused() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = SqliteStore::open(old.path()).unwrap();
    claim(&store, "add-login");
    fs::create_dir(new.path().join(".agentd")).unwrap();
    for name in ["ledger.db-wal", "ledger.db-shm"] {
        let name = Path::new(".agentd").join(name);
        fs::copy(old.path().join(&name), new.path().join(&name)).unwrap();
    }
    let made = SqliteStore::open(new.path()).unwrap();
    assert_eq!(made.held().unwrap(), []);
    assert_eq!(made.verify().unwrap(), Vec::<String>::new());
}

#[test]
fn readable_files_are_made_private() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path()).unwrap());
    let (inner, file) = (folder.path().join(".agentd"), ledger(folder.path()));
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
    drop(SqliteStore::open_existing(folder.path()).unwrap().unwrap());
    assert_eq!((mode(&inner), mode(&file)), (0o700, 0o600));
}

#[test]
fn links_and_special_files_are_not_opened() {
    let elsewhere = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(elsewhere.path()).unwrap());

    let folder = tempfile::tempdir().unwrap();
    symlink(
        elsewhere.path().join(".agentd"),
        folder.path().join(".agentd"),
    )
    .unwrap();
    check_refused(folder.path(), ".agentd is a symlink");

    let file = tempfile::tempdir().unwrap();
    fs::create_dir(file.path().join(".agentd")).unwrap();
    symlink(ledger(elsewhere.path()), ledger(file.path())).unwrap();
    check_refused(file.path(), ".agentd/ledger.db is a symlink");
    fs::remove_file(ledger(file.path())).unwrap();
    symlink(file.path().join("nowhere"), ledger(file.path())).unwrap();
    check_refused(file.path(), ".agentd/ledger.db is a symlink");
    fs::remove_file(ledger(file.path())).unwrap();
    fs::create_dir(ledger(file.path())).unwrap();
    check_refused(file.path(), ".agentd/ledger.db is not a regular file");

    // Files that SQLite keeps next to the database must not be links either.
    let beside = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(beside.path()).unwrap());
    let target = beside.path().join("target");
    for name in ["ledger.db-wal", "ledger.db-shm"] {
        symlink(&target, beside.path().join(".agentd").join(name)).unwrap();
        check_refused(beside.path(), &format!(".agentd/{name} is a symlink"));
        assert!(!target.exists());
        fs::remove_file(beside.path().join(".agentd").join(name)).unwrap();
    }

    // The path of the project itself may contain a link.
    let link = folder.path().join("link");
    symlink(elsewhere.path(), &link).unwrap();
    SqliteStore::open(&link).unwrap();
}

#[test]
fn files_of_another_user_are_not_opened() {
    for name in [".agentd", ".agentd/ledger.db"] {
        let folder = tempfile::tempdir().unwrap();
        drop(SqliteStore::open(folder.path()).unwrap());
        if chown(folder.path().join(name), Some(12_345), None).is_err() {
            did_not_run(
                "files_of_another_user_are_not_opened",
                "only root can change owners, and namespaces are not permitted",
            );
            return;
        }
        check_refused(folder.path(), &format!("{name} belongs to another user"));
    }
}

#[test]
fn reading_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(SqliteStore::open_existing(folder.path()).unwrap().is_none());
    assert!(!folder.path().join(".agentd").exists());
    fs::create_dir(folder.path().join(".agentd")).unwrap();
    assert!(SqliteStore::open_existing(folder.path()).unwrap().is_none());
    assert_eq!(files_below(folder.path()).len(), 0);
    let nowhere = folder.path().join("nowhere");
    assert_eq!(
        SqliteStore::open(&nowhere).unwrap_err().kind(),
        ErrorKind::LedgerUnusable
    );
    assert!(!nowhere.exists());
}

#[test]
fn ledger_of_a_newer_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path()).unwrap());
    let database = Connection::open(ledger(folder.path())).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let before = fs::read(ledger(folder.path())).unwrap();
    check_refused(
        folder.path(),
        ".agentd/ledger.db was written by a newer version of agentd",
    );
    assert_eq!(fs::read(ledger(folder.path())).unwrap(), before);
}

#[test]
fn file_that_is_not_a_ledger_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".agentd")).unwrap();
    let file = ledger(folder.path());

    for (text, words) in [
        ("", "is empty"),
        ("notes\n", "is damaged"),
        (&*"x".repeat(9_000), "is damaged"),
    ] {
        fs::write(&file, text).unwrap();
        check_refused(folder.path(), words);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }

    fs::remove_file(&file).unwrap();
    Connection::open(&file)
        .unwrap()
        .execute_batch("CREATE TABLE notes (x)")
        .unwrap();
    check_refused(folder.path(), "is a database, but not a ledger");
}

#[test]
fn recorded_rows_cannot_be_changed_or_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    commit(
        &store,
        &claim(&store, "add-login"),
        &[Event::Ended { done: true }],
    )
    .unwrap();
    let database = Connection::open(ledger(folder.path())).unwrap();

    for (table, words) in [("events", "events are never"), ("blobs", "texts are never")] {
        for change in [
            format!("DELETE FROM {table}"),
            format!("UPDATE {table} SET rowid = rowid + 9"),
        ] {
            let error = database.execute_batch(&change).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

/// Bytes that do not compress.
fn incompressible_bytes(seed: u64, bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(&seed.to_le_bytes())
        .finalize_xof()
        .fill(&mut noise);
    noise
}

/// Records turns whose prompts share nine pieces and differ in one. Returns the size of the
/// database.
fn size_of(turns: u64, piece: impl Fn(u64) -> Vec<u8>) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let lease = claim(&store, "add-login");
    for turn in 1..=turns {
        let pieces: Vec<Vec<u8>> = (0..9).chain([100 + turn]).map(&piece).collect();
        let prompt = pieces.iter().map(|piece| super::SegmentRef {
            texts: vec![agentd::store::blob_id(piece)],
            ..segment("x")
        });
        let event = Event::Started(Box::new(TurnStart {
            prompt: prompt.collect(),
            ..started(turn)
        }));
        let mut blobs: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        blobs.push(b"fit");
        store
            .commit(
                &lease,
                &LedgerEntry {
                    events: &[event],
                    blobs: &blobs,
                    ..LedgerEntry::default()
                },
                at(0),
            )
            .unwrap();
    }

    assert_eq!(store.verify().unwrap(), Vec::<String>::new());

    drop(store);
    fs::metadata(ledger(folder.path())).unwrap().len()
}

#[test]
fn turns_with_similar_prompts_share_storage() {
    const PIECE: usize = 100_000;
    let random = |number| incompressible_bytes(number, PIECE);
    let (one, ten) = (size_of(1, random), size_of(10, random));
    assert!(one < 1_150_000, "{one}");
    // Nine more pieces, not ninety.
    assert!(ten - one < 9 * 115_000, "{one} {ten}");
    let text = |number| {
        format!("line of a file, number {number}\n")
            .repeat(3_000)
            .into_bytes()
    };
    assert!(size_of(10, text) < 200_000, "text is compressed");
}
