//! The ledger: listing many turns, recording one, what a turn takes on disk, and finding what was left behind.

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use agentd::models::{
    Amount, BlobId, CallEnd, CallOutcome, CallReason, Event, Format, LeaseHolder, Mode, Permission,
    ProcessIdentity, SegmentRef, SessionId, TurnStart, UsageMetrics,
};
use agentd::store::{ClaimResult, Lease, LedgerEntry, SqliteStore, Store, TurnQuery, blob_id};
use rusqlite::Connection;

use super::{code, least, row};

/// Turns in the ledger that is listed, and how many of them each session has.
const TURNS: u64 = 100_000;
const EACH: u64 = 1_000;

/// Sessions that were left behind.
const HELD: u64 = 1_000;

pub(crate) fn run() {
    log();
    record();
    recover();
}

fn database(folder: &Path) -> PathBuf {
    folder.join(".agentd/ledger.db")
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn claim(store: &SqliteStore, name: &str) -> Lease {
    let process = ProcessIdentity {
        pid: 1,
        started: 1,
        boot: "boot".to_owned(),
        namespace: String::new(),
    };
    let holder = LeaseHolder {
        name: "agentd turn".to_owned(),
        process,
    };
    match store
        .claim(&SessionId::new(name).unwrap(), &holder, None, now())
        .unwrap()
    {
        ClaimResult::Granted(lease) => lease,
        ClaimResult::Busy(held) => unreachable!("{held:?}"),
    }
}

/// Returns the events of a whole turn.
fn turn(number: u64, prompt: &[&[u8]], reply: &[u8]) -> [Event; 4] {
    let segment = |text: &&[u8]| SegmentRef {
        block: "context".to_owned(),
        part: "user message".to_owned(),
        source: "src/store/sqlite.rs".to_owned(),
        texts: vec![blob_id(text)],
        bytes: text.len() as u64,
    };
    let started = TurnStart {
        turn: number,
        mode: Mode::new("implement").unwrap(),
        agent: "claude".to_owned(),
        model: Some("claude-opus".to_owned()),
        pack: "sdd".to_owned(),
        pack_hash: BlobId(String::new()),
        permission: Permission::Edit,
        named: true,
        prompt: prompt.iter().map(segment).collect(),
        format: Format::Xml,
        commands: Vec::new(),
        sent: None,
        message: None,
        prompt_bytes: prompt.iter().map(|text| text.len() as u64).sum(),
        fit: blob_id(b"{}"),
        first_turn: None,
        nonce: None,
        tasks: None,
        repairs: 1,
        targets: None,
        shown: None,
        for_change: None,
        commit: None,
    };
    let answered = CallEnd {
        turn: number,
        call: 1,
        end: CallOutcome::Ok,
        detail: String::new(),
        reply: blob_id(reply),
        usage: UsageMetrics::default(),
        spent: Amount {
            tokens: 5_000,
            micro_dollars: 40_000,
        },
        milliseconds: 30_000,
        left_behind: 0,
        salvaged: false,
    };
    [
        Event::Started(Box::new(started)),
        Event::Called {
            turn: number,
            call: 1,
            why: CallReason::Ask,
            prompt: Vec::new(),
            run: "run".to_owned(),
            reserved: Amount {
                tokens: 9_000,
                micro_dollars: 90_000,
            },
            secrets: Vec::new(),
        },
        Event::Answered(Box::new(answered)),
        Event::Replied {
            refused: Vec::new(),
            turn: number,
            markers: Vec::new(),
            verdict: None,
            unclear: 0,
            fault: None,
            questions: Vec::new(),
        },
    ]
}

/// Steps through all columns of a query, which is the least that any reader does.
fn step_through(database: &Connection, select: &str) {
    let mut statement = database.prepare(select).unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        for column in 0..columns {
            black_box(row.get_ref(column).unwrap());
        }
    }
}

fn log() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    for session in 0..TURNS / EACH {
        let lease = claim(&store, &format!("change-{session}"));
        let events: Vec<Event> = (1..=EACH)
            .flat_map(|number| turn(number, &[b"prompt"], b"reply"))
            .collect();
        let entry = LedgerEntry {
            events: &events,
            blobs: &[b"prompt", b"reply", b"{}"],
            ..LedgerEntry::default()
        };
        store.commit(&lease, &entry, now()).unwrap();
    }
    let database = Connection::open(database(folder.path())).unwrap();
    for (what, newest) in [("newest 50", 50), ("all", 100_000)] {
        let select = format!(
            "SELECT t.*, s.name FROM turns AS t JOIN sessions AS s ON s.id = t.session \
             ORDER BY t.id DESC LIMIT {newest}"
        );
        let bare = least(20, || step_through(&database, &select));
        let ours = least(20, || {
            let rows = store
                .turns(&TurnQuery {
                    session: None,
                    newest,
                })
                .unwrap();
            assert_eq!(black_box(rows).len(), newest);
        });
        row(&format!("log, {what} of {TURNS} turns"), ours, bare);
    }
    let lease = claim(&store, "change-now");
    let mut next = 0;
    let ours = least(5, || {
        let marks = store.marks().unwrap();
        next += 1;
        let events = turn(next, &[b"prompt"], b"reply");
        let entry = LedgerEntry {
            events: &events,
            ..LedgerEntry::default()
        };
        store.commit(&lease, &entry, now()).unwrap();
        store.check_unchanged(&lease, &marks).unwrap();
    });
    let bare = least(5, || step_through(&database, "SELECT * FROM events"));
    row(&format!("check after a call, {TURNS} turns"), ours, bare);
    let one = SessionId::new("change-50").unwrap();
    let select = "SELECT * FROM turns WHERE session = 51 ORDER BY turn DESC LIMIT 50";
    let bare = least(20, || step_through(&database, select));
    let wanted = TurnQuery {
        session: Some(&one),
        newest: 50,
    };
    let ours = least(20, || drop(black_box(store.turns(&wanted).unwrap())));
    row("log, newest 50 of one session", ours, bare);
}

/// A turn with a prompt of 20 KB in ten pieces, nine of them shared, and a reply of 2 KB.
fn record() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let lease = claim(&store, "change");
    let pieces: Vec<String> = (0..9)
        .map(|number| format!("// {number}\n{}", code(2_000)))
        .collect();
    let mut number = 0;
    let mut take = || {
        number += 1;
        let (own, reply) = (
            format!("// turn {number}\n{}", code(2_000)),
            format!("{number} {}", code(2_000)),
        );
        let mut prompt: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
        prompt.push(own.as_bytes());
        let events = turn(number, &prompt, reply.as_bytes());
        let blobs = [&prompt[..], &[reply.as_bytes(), b"{}"]].concat();
        store
            .commit(
                &lease,
                &LedgerEntry {
                    events: &events,
                    blobs: &blobs,
                    ..LedgerEntry::default()
                },
                now(),
            )
            .unwrap();
    };
    let ours = least(500, &mut take);
    // The limit: one row of what is new, made as durable.
    let beside = tempfile::tempdir().unwrap();
    let bare = Connection::open(beside.path().join("bare.db")).unwrap();
    bare.execute_batch(
        "PRAGMA journal_mode = wal; PRAGMA synchronous = full; CREATE TABLE t (x BLOB)",
    )
    .unwrap();
    let new = code(4_000);
    let limit = least(500, || {
        bare.execute("INSERT INTO t VALUES (?1)", [&new]).unwrap();
    });
    row("record a turn of 20 KB, 2 KB of it new", ours, limit);
    let taken = number;
    drop(store);
    let bytes = fs::metadata(database(folder.path())).unwrap().len();
    println!(
        "{:<44} {:>12}",
        "database bytes for each such turn",
        bytes / taken
    );
}

fn recover() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    for number in 0..HELD {
        let lease = claim(&store, &format!("change-{number}"));
        let events = turn(1, &[b"prompt"], b"reply");
        let entry = LedgerEntry {
            events: &events[..2],
            blobs: &[b"prompt", b"{}"],
            ..LedgerEntry::default()
        };
        store.commit(&lease, &entry, now()).unwrap();
    }
    let database = Connection::open(database(folder.path())).unwrap();
    let select = "SELECT e.* FROM events AS e JOIN sessions AS s ON s.id = e.session WHERE s.holder IS NOT NULL";
    let bare = least(20, || step_through(&database, select));
    let ours = least(20, || {
        let held = store.held().unwrap();
        assert_eq!(held.len() as u64, HELD);
        for held in held {
            black_box(store.events(&held.session).unwrap());
        }
    });
    row(
        &format!("find and read {HELD} sessions left behind"),
        ours,
        bare,
    );
}
