//! Concurrent processes, killed processes and full disks: nothing acknowledged is lost.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use agentd::ErrorKind;
use agentd::models::Event;
use agentd::store::{ClaimResult, Lease, LedgerEntry, SqliteStore, Store, TurnQuery, blob_id};

use super::{TEXTS, answered, at, called, claim, holder, replied, session, started, tokens};
use crate::support::{did_not_run, test_name};

/// Environment variable that makes a process of this binary a child, with its role as the value.
const ROLE: &str = "AGENTD_TEST_LEDGER_ROLE";

/// Returns a command for this binary that plays a role in a folder.
fn child_command(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(as_child())
        .env(ROLE, role)
        .current_dir(folder)
        .stdout(Stdio::piped());
    command
}

fn as_child() -> [String; 3] {
    [
        "--exact".to_owned(),
        test_name(module_path!(), "child_plays_its_role"),
        "--nocapture".to_owned(),
    ]
}

#[test]
fn child_plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let here = Path::new(".");
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("open", _) => drop(SqliteStore::open(here).unwrap()),
        ("write", name) => {
            let store = SqliteStore::open(here).unwrap();
            let lease = claim(&store, name);
            (1..=25).for_each(|turn| take_turn(&store, &lease, turn).unwrap());
        }
        ("forever", name) => take_turns_forever(&SqliteStore::open(here).unwrap(), name),
        ("full", _) => fill_disk(here),
        ("read-only", _) => read_only(here),
        _ => panic!("{role}"),
    }

    println!("played");
}

/// Takes a whole turn with a unique text, in one entry.
fn take_turn(store: &dyn Store, lease: &Lease, turn: u64) -> agentd::Result<()> {
    let own = turn_text(turn);
    let mut answer = answered(turn, 1, tokens(20), 5);
    answer.reply = blob_id(&own);
    let events = [
        Event::Started(Box::new(started(turn))),
        called(turn, 1, "run", tokens(30)),
        Event::Answered(Box::new(answer)),
        replied(turn, None, None),
    ];
    let blobs = [TEXTS[0], TEXTS[1], &own];
    store.commit(
        lease,
        &LedgerEntry {
            events: &events,
            blobs: &blobs,
            ..LedgerEntry::default()
        },
        at(turn),
    )
}

/// Returns twenty thousand bytes that are unique to a turn.
fn turn_text(turn: u64) -> Vec<u8> {
    let mut text = vec![0; 20_000];
    blake3::Hasher::new()
        .update(&turn.to_le_bytes())
        .finalize_xof()
        .fill(&mut text);
    text
}

fn last_turn(store: &dyn Store, name: &str) -> u64 {
    let rows = store
        .turns(&TurnQuery {
            session: Some(&session(name)),
            newest: 1,
        })
        .unwrap();
    rows.last().map_or(0, |row| row.turn)
}

/// Takes over the session of the killed process, and takes turns until it is killed as well.
fn take_turns_forever(store: &dyn Store, name: &str) {
    let over = store.held().unwrap().first().map(|held| held.fence);
    let ClaimResult::Granted(lease) = store
        .claim(&session(name), &holder("x"), over, at(0))
        .unwrap()
    else {
        panic!("the session is locked");
    };
    for turn in last_turn(store, name) + 1.. {
        take_turn(store, &lease, turn).unwrap();
        println!("acknowledged {turn}");
    }
}

/// Checks that turns 1 to `last` exist and are complete.
fn check_whole(store: &SqliteStore, name: &str, last: u64) {
    let events = store.events(&session(name)).unwrap();
    assert_eq!(events.len() as u64, 4 * last);
    for (turn, events) in (1..).zip(events.chunks(4)) {
        assert!(matches!(&events[0].1, Event::Started(started) if started.turn == turn));
        assert!(matches!(&events[3].1, Event::Replied { turn: replied, .. } if *replied == turn));
        assert_eq!(
            store.blob(&blob_id(&turn_text(turn))).unwrap(),
            Some(turn_text(turn))
        );
    }
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

#[test]
fn four_processes_write_concurrently() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["a", "b", "c", "d"];
    // No ledger exists, so they also create it concurrently.
    let all = names.map(|name| {
        child_command(&format!("write {name}"), folder.path())
            .spawn()
            .unwrap()
    });
    for child in all {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let store = SqliteStore::open(folder.path()).unwrap();
    names
        .into_iter()
        .for_each(|name| check_whole(&store, name, 25));
}

#[test]
fn one_of_eight_processes_gets_the_session() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let granted = thread::scope(|scope| {
            let ask = |_| {
                scope.spawn(|| {
                    let store = SqliteStore::open(folder.path()).unwrap();
                    let name = session(&format!("round-{round}"));
                    matches!(
                        store.claim(&name, &holder("x"), None, at(0)).unwrap(),
                        ClaimResult::Granted(_)
                    )
                })
            };
            let all: Vec<_> = (0..8).map(ask).collect();
            all.into_iter()
                .filter_map(|one| one.join().unwrap().then_some(()))
                .count()
        });
        assert_eq!(granted, 1);
    }
}

/// Kills a child after it has acknowledged a number of turns. Returns the last acknowledged turn.
fn kill_after(mut child: Child, turns: usize) -> Option<u64> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledged =
        |line: Result<String, _>| line.unwrap().strip_prefix("acknowledged ")?.parse().ok();
    let mut last = lines.by_ref().filter_map(acknowledged).take(turns).last();
    child.kill().unwrap();
    last = lines.filter_map(acknowledged).last().or(last);
    child.wait().unwrap();
    last
}

#[test]
fn killed_writer_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut before = 0;

    for round in 0..20 {
        let writer = child_command("forever add-login", folder.path())
            .spawn()
            .unwrap();
        let acknowledged = kill_after(writer, 1 + round * 3 % 7).unwrap();
        assert!(acknowledged > before);
        let store = SqliteStore::open(folder.path()).unwrap();
        before = last_turn(&store, "add-login");
        assert!(
            before == acknowledged || before == acknowledged + 1,
            "{before} {acknowledged}"
        );
        check_whole(&store, "add-login", before);
    }
}

#[test]
fn kill_during_creation_leaves_no_partial_ledger() {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let mut child = child_command("open", folder.path()).spawn().unwrap();
        thread::sleep(Duration::from_millis(round));
        child.kill().unwrap();
        child.wait().unwrap();
        if let Some(store) = SqliteStore::open_existing(folder.path()).unwrap() {
            assert_eq!(store.verify().unwrap(), Vec::<String>::new());
        }
        let store = SqliteStore::open(folder.path()).unwrap();
        take_turn(&store, &claim(&store, "add-login"), 1).unwrap();
        check_whole(&store, "add-login", 1);
    }
}

/// Fills a disk of 2 MiB, and frees some of it again.
fn fill_disk(disk: &Path) {
    fs::write(disk.join("filler"), vec![0; 400_000]).unwrap();
    fs::create_dir(disk.join("other")).unwrap();
    let store = SqliteStore::open(disk).unwrap();
    let lease = claim(&store, "add-login");
    let full = (1..)
        .find_map(|turn| take_turn(&store, &lease, turn).err())
        .unwrap();
    assert_eq!(full.kind(), ErrorKind::StorageFull, "{full:?}");
    assert!(full.hint().is_some());

    let last = last_turn(&store, "add-login");
    assert!(last > 10, "{last}");
    check_whole(&store, "add-login", last);

    let mut rest = fs::File::create(disk.join("rest")).unwrap();
    while std::io::Write::write(&mut rest, &[0; 512]).is_ok() {}
    assert_eq!(
        SqliteStore::open(&disk.join("other")).unwrap_err().kind(),
        ErrorKind::StorageFull
    );

    fs::remove_file(disk.join("filler")).unwrap();
    take_turn(&store, &lease, last + 1).unwrap();

    drop(store);
    check_whole(&SqliteStore::open(disk).unwrap(), "add-login", last + 1);
}

#[test]
fn full_disk_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=2m tmpfs . && cd \"$PWD\" || exit 99; exec \"$@\"";
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
    ]);
    command
        .arg(std::env::current_exe().unwrap())
        .args(as_child())
        .env(ROLE, "full")
        .current_dir(folder.path());
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output();

    // The last line proves that the child ran to its end, not only that it was started.
    let played = |text: &[u8]| String::from_utf8_lossy(text).contains("played");

    match output {
        Ok(output) if played(&output.stdout) => assert!(output.status.success()),
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&output.stderr))
        }
        _ => did_not_run(
            "full_disk_loses_nothing",
            "a separate disk needs namespaces, which are not permitted",
        ),
    }
}

/// Tries to open a read-only ledger.
fn read_only(folder: &Path) {
    for opened in [
        SqliteStore::open(folder).map(|_| ()),
        SqliteStore::open_existing(folder).map(|_| ()),
    ] {
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LedgerUnusable);
        assert!(error.message().contains("is not writable"), "{error:?}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn unwritable_ledger_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path()).unwrap());
    let modes = [
        (".", 0o500),
        (".agentd", 0o500),
        (".agentd/ledger.db", 0o400),
        (".agentd/.gitignore", 0o400),
    ];

    // Root can write everywhere, so another user has to try.
    let nobody = 65_534;
    let mut child = child_command("read-only", folder.path());
    for (name, mode) in modes {
        let path = folder.path().join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        if chown(&path, Some(nobody), None).is_ok() {
            child.uid(nobody);
        }
    }

    let output = child.stderr(Stdio::piped()).output();
    let _owner_again = fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700));
    let _inner = fs::set_permissions(
        folder.path().join(".agentd"),
        fs::Permissions::from_mode(0o700),
    );

    match output {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(_) => did_not_run(
            "unwritable_ledger_is_reported",
            "no other user can run the tests, and namespaces are not permitted",
        ),
    }
}
