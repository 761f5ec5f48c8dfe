//! The ledger: all stores behave identically, record an entry atomically, and accept writes only
//! with the newest lease.

mod budget;
#[expect(
    clippy::print_stdout,
    reason = "a child process reports its progress to its parent"
)]
mod crash;
mod damage;
mod disk;
mod measured;
mod property;
mod tampering;

use std::time::{Duration, SystemTime};

use agentd::ErrorKind;
use agentd::models::{
    Amount, BlobId, CallEnd, CallOutcome, CallReason, ChangeOrigin, Decision, Event, Format,
    HeldSession, Intent, LeaseHolder, Marker, Mode, Nonce, OperationId, Permission,
    ProcessIdentity, ReviewResult, SegmentRef, SessionId, StateDocument, StepOutcome, StepResult,
    StepTrigger, TurnRow, TurnStart, UsageMetrics,
};
use agentd::store::{
    ClaimResult, Lease, LedgerEntry, MemoryStore, SqliteStore, Store, TurnQuery, blob_id,
};

/// Runs a test on every kind of store, new and empty.
#[expect(clippy::print_stdout, reason = "a failing test names its store")]
fn for_each_store(test: impl Fn(&(dyn Store + Sync))) {
    println!("in memory");
    test(&MemoryStore::default());
    println!("on disk");
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    test(&store);
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn at(milliseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + milliseconds)
}

fn holder(name: &str) -> LeaseHolder {
    let (boot, namespace) = ("b00t".to_owned(), "pid:[1]".to_owned());
    let process = ProcessIdentity {
        pid: 42,
        started: u64::MAX,
        boot,
        namespace,
    };
    LeaseHolder {
        name: name.to_owned(),
        process,
    }
}

fn claim(store: &dyn Store, name: &str) -> Lease {
    match store
        .claim(&session(name), &holder("agentd turn"), None, at(0))
        .unwrap()
    {
        ClaimResult::Granted(lease) => lease,
        ClaimResult::Busy(held) => panic!("{held:?}"),
    }
}

fn tokens(tokens: u64) -> Amount {
    Amount {
        tokens,
        micro_dollars: 0,
    }
}

fn segment(text: &str) -> SegmentRef {
    SegmentRef {
        block: "identity".to_owned(),
        part: "system".to_owned(),
        source: "identity.md".to_owned(),
        texts: vec![blob_id(text.as_bytes())],
        bytes: text.len() as u64,
    }
}

/// A turn whose prompt is one segment, `prompt`, and whose fit report is `fit`.
fn started(turn: u64) -> TurnStart {
    TurnStart {
        turn,
        mode: Mode::new("plan").unwrap(),
        agent: "claude".to_owned(),
        model: Some("opus".to_owned()),
        pack: "sdd".to_owned(),
        pack_hash: BlobId("not a text".to_owned()),
        permission: Permission::ReadOnly,
        named: true,
        prompt: vec![segment("prompt")],
        format: Format::Xml,
        commands: Vec::new(),
        sent: None,
        message: None,
        prompt_bytes: 6,
        fit: blob_id(b"fit"),
        first_turn: Some(0),
        nonce: Some(Nonce::new("k3f9x2ab").unwrap()),
        tasks: Some(vec!["1.1".to_owned()]),
        repairs: 1,
        targets: None,
        shown: None,
        for_change: None,
        commit: None,
    }
}

fn called(turn: u64, call: u64, run: &str, reserved: Amount) -> Event {
    Event::Called {
        turn,
        call,
        why: CallReason::Ask,
        prompt: Vec::new(),
        run: run.to_owned(),
        reserved,
        secrets: Vec::new(),
    }
}

/// A call's end with the reply `reply`.
fn answered(turn: u64, call: u64, spent: Amount, milliseconds: u64) -> CallEnd {
    CallEnd {
        turn,
        call,
        end: CallOutcome::Ok,
        detail: String::new(),
        reply: blob_id(b"reply"),
        usage: UsageMetrics::default(),
        spent,
        milliseconds,
        left_behind: 0,
        salvaged: false,
    }
}

fn replied(turn: u64, verdict: Option<ReviewResult>, fault: Option<&str>) -> Event {
    Event::Replied {
        refused: Vec::new(),
        turn,
        markers: Vec::new(),
        verdict,
        unclear: 0,
        fault: fault.map(str::to_owned),
        questions: Vec::new(),
    }
}

/// The texts that the events of these tests name.
const TEXTS: [&[u8]; 3] = [b"prompt", b"fit", b"reply"];

fn commit(store: &dyn Store, lease: &Lease, events: &[Event]) -> agentd::Result<()> {
    store.commit(
        lease,
        &LedgerEntry {
            events,
            blobs: &TEXTS,
            ..LedgerEntry::default()
        },
        at(0),
    )
}

fn all_turns(store: &dyn Store) -> Vec<TurnRow> {
    store
        .turns(&TurnQuery {
            session: None,
            newest: usize::MAX,
        })
        .unwrap()
}

#[test]
fn locked_session_is_refused_with_holder_and_time() {
    for_each_store(|store| {
        let name = session("add-login");
        let first = store
            .claim(&name, &holder("agentd turn"), None, at(7))
            .unwrap();
        assert_eq!(
            first,
            ClaimResult::Granted(Lease {
                session: name.clone(),
                fence: 1
            })
        );

        let held = HeldSession {
            session: name.clone(),
            holder: holder("agentd turn"),
            since: at(7),
            seen: at(7),
            fence: 1,
        };

        for over in [None, Some(0), Some(2)] {
            let second = store
                .claim(&name, &holder("agentd resume"), over, at(9))
                .unwrap();
            assert_eq!(second, ClaimResult::Busy(held.clone()), "{over:?}");
        }

        assert_eq!(claim(store, "another").fence, 1);
    });
}

#[test]
fn stolen_lease_cannot_write() {
    for_each_store(|store| {
        let name = session("add-login");
        let old = claim(store, "add-login");

        let taken = store
            .claim(&name, &holder("agentd resume"), Some(old.fence), at(9))
            .unwrap();
        assert_eq!(
            taken,
            ClaimResult::Granted(Lease {
                session: name.clone(),
                fence: 2
            })
        );

        for refused in [
            commit(store, &old, &[Event::Ended { done: true }]),
            commit(store, &old, &[]),
            store.heartbeat(&old, at(10)),
            store.release(&old),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::SessionBusy);
        }

        assert_eq!(store.events(&name).unwrap(), []);
        assert_eq!(store.blob(&blob_id(b"reply")).unwrap(), None);

        let held = HeldSession {
            session: name,
            holder: holder("agentd resume"),
            since: at(9),
            seen: at(9),
            fence: 2,
        };
        assert_eq!(store.held().unwrap(), [held]);
    });
}

#[test]
fn released_session_is_free_and_old_leases_stay_invalid() {
    for_each_store(|store| {
        let first = claim(store, "add-login");
        store.release(&first).unwrap();
        assert_eq!(store.held().unwrap(), []);
        assert_eq!(
            store.release(&first).unwrap_err().kind(),
            ErrorKind::SessionBusy
        );
        assert_eq!(
            commit(store, &first, &[]).unwrap_err().kind(),
            ErrorKind::SessionBusy
        );

        let second = claim(store, "add-login");
        assert_eq!(second.fence, 2);
        assert_eq!(
            store.heartbeat(&first, at(1)).unwrap_err().kind(),
            ErrorKind::SessionBusy
        );

        let unknown = Lease {
            session: session("nobody"),
            fence: 1,
        };
        assert_eq!(
            store.heartbeat(&unknown, at(1)).unwrap_err().kind(),
            ErrorKind::SessionBusy
        );
    });
}

#[test]
fn locked_sessions_are_listed_with_their_heartbeat() {
    for_each_store(|store| {
        let leases = ["b", "c", "a"].map(|name| claim(store, name));
        store.heartbeat(&leases[0], at(500)).unwrap();
        store.release(&leases[1]).unwrap();
        let held = |name: &str, seen| HeldSession {
            session: session(name),
            holder: holder("agentd turn"),
            since: at(0),
            seen: at(seen),
            fence: 1,
        };
        assert_eq!(store.held().unwrap(), [held("a", 0), held("b", 500)]);
    });
}

/// One event of every kind, in a possible order.
fn every_event() -> Vec<Event> {
    let mut work = StateDocument::default();
    work.sections.insert(
        "project".to_owned(),
        serde_json::json!({"title": "Ünïcode\u{0} \"quoted\" ".repeat(500)}),
    );
    let end = CallOutcome::RateLimited {
        retry_after: Some(3),
    };
    let usage = UsageMetrics {
        input_tokens: Some(u64::MAX),
        ..UsageMetrics::default()
    };
    vec![
        Event::Entered {
            mode: Mode::new("plan").unwrap(),
        },
        Event::Described {
            work: Box::new(work),
        },
        Event::Started(Box::new(started(1))),
        called(1, 1, "run", tokens(5)),
        Event::Launched {
            turn: 1,
            call: 1,
            process: holder("x").process,
        },
        Event::Answered(Box::new(CallEnd {
            end,
            usage,
            ..answered(1, 1, tokens(3), 10)
        })),
        Event::Replied {
            refused: Vec::new(),
            turn: 1,
            markers: vec![Marker::Review {
                verdict: ReviewResult::Pass,
            }],
            verdict: Some(ReviewResult::Pass),
            unclear: 2,
            fault: None,
            questions: vec!["Which hash?".to_owned()],
        },
        Event::Intended {
            turn: 1,
            intent: Intent {
                action: None,
                operation: OperationId::FilesWrite,
                target: "proposal.md".to_owned(),
                content: Some(blob_id(b"reply")),
                before: Some(BlobId("not a text".to_owned())),
                refused: None,
                trigger: Some(StepTrigger::Reply),
            },
        },
        Event::Settled {
            turn: 1,
            settlement: StepResult {
                action: None,
                changes: Vec::new(),
                operation: OperationId::FilesWrite,
                target: "proposal.md".to_owned(),
                done: true,
                detail: "wrote it".to_owned(),
                result: Some(StepOutcome::Done),
                report: Some(blob_id(b"reply")),
                text: None,
            },
        },
        Event::Opened(Box::new(ChangeOrigin {
            pack: "sdd".to_owned(),
            request: "Add login".to_owned(),
            base: "0a1b".to_owned(),
            onto: Some("main".to_owned()),
            branch: "agentd/one".to_owned(),
        })),
        Event::Decided {
            decision: Decision::Revise,
            note: Some("by mail".to_owned()),
        },
        Event::Ended { done: false },
    ]
}

#[test]
fn events_round_trip() {
    for_each_store(|store| {
        let (one, two) = (claim(store, "one"), claim(store, "two"));
        let events = every_event();
        let (first, rest) = events.split_at(4);
        let record = |lease, events, now| {
            store
                .commit(
                    lease,
                    &LedgerEntry {
                        events,
                        blobs: &TEXTS,
                        ..LedgerEntry::default()
                    },
                    now,
                )
                .unwrap();
        };

        record(&one, first, at(1));
        record(&two, &[Event::Ended { done: true }], at(2));

        // A clock that goes back does not change the order. Times are truncated to milliseconds.
        record(&one, rest, at(0) - Duration::from_micros(1));
        let times = [at(1); 4]
            .into_iter()
            .chain([at(0) - Duration::from_millis(1); 8]);
        let expected: Vec<_> = times.zip(events).collect();
        assert_eq!(store.events(&one.session).unwrap(), expected);
        assert_eq!(
            store.events(&two.session).unwrap(),
            [(at(2), Event::Ended { done: true })]
        );
        assert_eq!(store.events(&session("three")).unwrap(), []);
    });
}

#[test]
fn entry_is_recorded_atomically() {
    for_each_store(|store| {
        let lease = claim(store, "add-login");
        let events = [
            Event::Started(Box::new(started(1))),
            called(1, 1, "run", tokens(5)),
            called(2, 1, "run", tokens(5)),
        ];
        assert_eq!(
            commit(store, &lease, &events).unwrap_err().kind(),
            ErrorKind::LedgerUnusable
        );
        assert_eq!(store.events(&lease.session).unwrap(), []);
        assert_eq!(all_turns(store), []);
        assert_eq!(store.blob(&blob_id(b"prompt")).unwrap(), None);
        commit(store, &lease, &events[..2]).unwrap();
        assert_eq!(store.events(&lease.session).unwrap().len(), 2);
    });
}

#[test]
fn events_must_name_existing_texts() {
    let mut asked_again = called(1, 1, "run", tokens(0));
    if let Event::Called { prompt, .. } = &mut asked_again {
        prompt.push(segment("once more"));
    }
    let intent = Intent {
        action: None,
        operation: OperationId::FilesWrite,
        target: "x".to_owned(),
        content: Some(blob_id(b"content")),
        before: Some(blob_id(b"never kept")),
        refused: None,
        trigger: None,
    };
    let cases: [(&[u8], Vec<Event>); 5] = [
        (b"prompt", vec![Event::Started(Box::new(started(1)))]),
        (b"fit", vec![Event::Started(Box::new(started(1)))]),
        (
            b"once more",
            vec![Event::Started(Box::new(started(1))), asked_again],
        ),
        (
            b"reply",
            vec![
                Event::Started(Box::new(started(1))),
                called(1, 1, "run", tokens(0)),
                Event::Answered(Box::new(answered(1, 1, tokens(0), 0))),
            ],
        ),
        (
            b"content",
            vec![
                Event::Started(Box::new(started(1))),
                Event::Intended { turn: 1, intent },
            ],
        ),
    ];

    for (text, events) in &cases {
        for_each_store(|store| {
            let lease = claim(store, "add-login");
            let mut blobs: Vec<&[u8]> = vec![b"prompt", b"fit", b"once more", b"reply", b"content"];
            blobs.retain(|blob| blob != text);
            let record = || {
                store.commit(
                    &lease,
                    &LedgerEntry {
                        events,
                        blobs: &blobs,
                        ..LedgerEntry::default()
                    },
                    at(0),
                )
            };

            let error = record().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LedgerUnusable);
            assert!(error.message().contains(&blob_id(text).0), "{error}");
            assert_eq!(store.events(&lease.session).unwrap(), []);
            assert_eq!(store.blob(&blob_id(blobs[0])).unwrap(), None);

            // A text stored by another session can be used.
            let other = claim(store, "another");
            store
                .commit(
                    &other,
                    &LedgerEntry {
                        blobs: &[text],
                        ..LedgerEntry::default()
                    },
                    at(0),
                )
                .unwrap();
            record().unwrap();
        });
    }
}

#[test]
fn texts_are_found_only_by_hash() {
    let noise: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let texts: [&[u8]; 5] = [b"", b"a", &[0, 255, 0], &[b'x'; 3_000], &noise];

    for_each_store(|store| {
        let lease = claim(store, "add-login");

        // The same text twice in an entry, and again in a later one.
        for blobs in [[texts[3], texts[3]].as_slice(), &texts] {
            store
                .commit(
                    &lease,
                    &LedgerEntry {
                        blobs,
                        ..LedgerEntry::default()
                    },
                    at(0),
                )
                .unwrap();
        }

        for text in texts {
            assert_eq!(store.blob(&blob_id(text)).unwrap().as_deref(), Some(text));
        }

        let upper = blob_id(b"a").0.to_uppercase();
        for odd in [
            "",
            "0",
            "not a text",
            &upper,
            &blob_id(b"b").0,
            &format!("{}0", blob_id(b"a").0),
        ] {
            assert_eq!(store.blob(&BlobId(odd.to_owned())).unwrap(), None, "{odd}");
        }
    });
    assert_eq!(
        blob_id(b"").0,
        "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    );
}

#[test]
fn turn_is_one_row_from_start_to_reply() {
    let begun = TurnRow {
        session: session("add-login"),
        turn: 1,
        mode: Mode::new("plan").unwrap(),
        agent: "claude".to_owned(),
        model: Some("opus".to_owned()),
        started: at(0),
        calls: 0,
        end: None,
        replied: false,
        verdict: None,
        fault: None,
        spent: Amount::default(),
        milliseconds: 0,
    };
    for_each_store(|store| {
        let lease = claim(store, "add-login");
        let mut expected = begun.clone();
        let mut step = |event: Event, change: &dyn Fn(&mut TurnRow)| {
            commit(store, &lease, &[event]).unwrap();
            change(&mut expected);
            assert_eq!(all_turns(store), [expected.clone()]);
        };

        step(Event::Started(Box::new(started(1))), &|_| {});
        step(called(1, 1, "run", tokens(100)), &|row| row.calls = 1);
        let spent = Amount {
            tokens: 40,
            micro_dollars: 7,
        };
        let first = CallEnd {
            end: CallOutcome::Cut,
            ..answered(1, 1, spent, 1_500)
        };
        step(Event::Answered(Box::new(first)), &|row| {
            let spent = Amount {
                tokens: 40,
                micro_dollars: 7,
            };
            (row.end, row.spent, row.milliseconds) = (Some(CallOutcome::Cut), spent, 1_500);
        });
        step(called(1, 2, "later run", tokens(100)), &|row| {
            (row.calls, row.end) = (2, None)
        });
        step(
            Event::Answered(Box::new(answered(1, 2, spent, 1_400))),
            &|row| {
                let spent = Amount {
                    tokens: 80,
                    micro_dollars: 14,
                };
                (row.end, row.spent, row.milliseconds) = (Some(CallOutcome::Ok), spent, 2_900);
            },
        );
        step(
            replied(1, Some(ReviewResult::NeedsChanges), Some("no tasks")),
            &|row| {
                row.replied = true;
                row.verdict = Some(ReviewResult::NeedsChanges);
                row.fault = Some("no tasks".to_owned());
            },
        );
    });
}

#[test]
fn turns_are_listed_newest_last_up_to_the_limit() {
    for_each_store(|store| {
        let (a, b) = (claim(store, "a"), claim(store, "b"));
        for (lease, turn) in [(&b, 1), (&a, 1), (&a, 2), (&b, 5), (&a, 3)] {
            commit(store, lease, &[Event::Started(Box::new(started(turn)))]).unwrap();
        }
        let list = |session: Option<&SessionId>, newest| {
            let rows = store.turns(&TurnQuery { session, newest }).unwrap();
            rows.iter()
                .map(|row| format!("{}{}", row.session, row.turn))
                .collect::<Vec<_>>()
                .join(" ")
        };

        assert_eq!(list(None, usize::MAX), "b1 a1 a2 b5 a3");
        assert_eq!(list(None, 2), "b5 a3");
        assert_eq!(list(Some(&a.session), 2), "a2 a3");
        assert_eq!(list(Some(&b.session), 9), "b1 b5");
        assert_eq!(list(Some(&session("c")), 9), "");
        assert_eq!(list(None, 0), "");
    });
}

/// No step is committed twice, and none without the step it depends on.
#[test]
fn invalid_transition_is_refused() {
    let start = |turn| Event::Started(Box::new(started(turn)));
    let answer = |turn, call| Event::Answered(Box::new(answered(turn, call, tokens(1), 1)));
    let launch = |turn, call| Event::Launched {
        turn,
        call,
        process: holder("x").process,
    };

    let call = |turn, call| called(turn, call, "run", tokens(1));
    for_each_store(|store| {
        let lease = claim(store, "add-login");
        commit(
            store,
            &lease,
            &[start(2), call(2, 1), answer(2, 1), replied(2, None, None)],
        )
        .unwrap();
        commit(store, &lease, &[start(3), call(3, 2)]).unwrap();
        let before = store.events(&lease.session).unwrap();
        let refused = [
            (
                start(2),
                "turn 2 of session `add-login` was already started",
            ),
            (
                start(1),
                "turn 1 of session `add-login` was already started",
            ),
            (call(4, 1), "turn 4 of session `add-login` was not started"),
            (
                call(2, 1),
                "turn 2 of session `add-login` already has call 1",
            ),
            (
                call(3, 1),
                "turn 3 of session `add-login` already has call 1",
            ),
            (
                answer(2, 1),
                "turn 2 of session `add-login` has no open call 1",
            ),
            (
                answer(3, 1),
                "turn 3 of session `add-login` has no open call 1",
            ),
            (
                launch(2, 1),
                "turn 2 of session `add-login` has no open call 1",
            ),
            (
                launch(4, 1),
                "turn 4 of session `add-login` was not started",
            ),
            (
                replied(2, None, None),
                "turn 2 of session `add-login` already has a reply",
            ),
            (
                replied(4, None, None),
                "turn 4 of session `add-login` was not started",
            ),
        ];

        for (event, words) in refused {
            let error = commit(store, &lease, &[event]).unwrap_err();
            assert_eq!(
                (error.kind(), error.message()),
                (ErrorKind::LedgerUnusable, words)
            );
        }

        assert_eq!(store.events(&lease.session).unwrap(), before);

        commit(
            store,
            &lease,
            &[launch(3, 2), answer(3, 2), replied(3, None, None)],
        )
        .unwrap();
    });
}
