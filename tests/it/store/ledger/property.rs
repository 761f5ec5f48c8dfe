//! For any sequence of operations, the stores give the same results.

use agentd::models::{Amount, Budget, BudgetLimits, CallEnd, CallOutcome, Event, SessionId};
use agentd::store::{
    BudgetScope, ClaimResult, Lease, LedgerEntry, MemoryStore, SqliteStore, Store, TurnQuery,
    blob_id,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{answered, at, called, holder, replied, session, started};

#[derive(Clone, Debug)]
enum Step {
    Claim {
        session: usize,
        over: Option<u64>,
    },
    Heartbeat {
        lease: usize,
    },
    Release {
        lease: usize,
    },
    Commit {
        lease: usize,
        events: Vec<Event>,
        blobs: Vec<&'static [u8]>,
        budget: Budget,
    },
}

const SESSIONS: [&str; 2] = ["one", "two"];
const RUNS: [&str; 2] = ["one", "other"];
const TEXTS: [&[u8]; 4] = [b"prompt", b"fit", b"reply", b"unnamed"];

fn amount() -> impl Strategy<Value = Amount> {
    (0..50_u64, 0..50_u64).prop_map(|(tokens, micro_dollars)| Amount {
        tokens,
        micro_dollars,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let place = || (1..4_u64, 1..3_u64);
    let call = (place(), 0..RUNS.len(), amount());
    let end = prop_oneof![
        Just(CallOutcome::Ok),
        Just(CallOutcome::Lost),
        Just(CallOutcome::TimedOut {
            idle: true,
            seconds: 3
        })
    ];
    let answer = (place(), amount(), 0..2_500_u64, end);
    prop_oneof![
        2 => (1..4_u64).prop_map(|turn| Event::Started(Box::new(started(turn)))),
        3 => call.prop_map(|((turn, call), run, reserved)| called(turn, call, RUNS[run], reserved)),
        3 => answer.prop_map(|((turn, call), spent, time, end)| {
            Event::Answered(Box::new(CallEnd { end, ..answered(turn, call, spent, time) }))
        }),
        1 => (1..4_u64).prop_map(|turn| replied(turn, None, Some("why"))),
        1 => any::<bool>().prop_map(|done| Event::Ended { done }),
    ]
}

fn caps() -> impl Strategy<Value = BudgetLimits> {
    let cap = |most: u64| option::weighted(0.2, 0..most);
    (cap(200), cap(200), cap(4), cap(6)).prop_map(|(tokens, micro_dollars, turns, seconds)| {
        BudgetLimits {
            tokens,
            micro_dollars,
            turns,
            seconds,
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let budget = (caps(), caps()).prop_map(|(run, session)| Budget { run, session });
    let blobs = vec(0..TEXTS.len(), 0..5).prop_map(|numbers| {
        numbers
            .into_iter()
            .map(|number| TEXTS[number])
            .collect::<Vec<_>>()
    });
    let commit = (0..4_usize, vec(event(), 0..4), blobs, budget);
    prop_oneof![
        2 => (0..SESSIONS.len(), option::of(0..4_u64)).prop_map(|(session, over)| Step::Claim { session, over }),
        1 => (0..4_usize).prop_map(|lease| Step::Heartbeat { lease }),
        1 => (0..4_usize).prop_map(|lease| Step::Release { lease }),
        8 => commit.prop_map(|(lease, events, blobs, budget)| Step::Commit { lease, events, blobs, budget }),
    ]
}

/// Performs a step and returns its result as text. `leases` are the granted ones, the newest first.
fn take(store: &dyn Store, leases: &mut Vec<Lease>, step: &Step, now: u64) -> String {
    let done = |result: agentd::Result<()>| match result {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("{:?}: {error:#}", error.kind()),
    };
    let nobody = || Lease {
        session: session("one"),
        fence: 9,
    };
    let lease = |number: &usize| leases.get(*number).cloned().unwrap_or_else(nobody);
    match step {
        Step::Claim {
            session: number,
            over,
        } => {
            let claim = store
                .claim(&session(SESSIONS[*number]), &holder("x"), *over, at(now))
                .unwrap();
            if let ClaimResult::Granted(lease) = &claim {
                leases.insert(0, lease.clone());
            }
            format!("{claim:?}")
        }
        Step::Heartbeat { lease: number } => done(store.heartbeat(&lease(number), at(now))),
        Step::Release { lease: number } => done(store.release(&lease(number))),
        Step::Commit {
            lease: number,
            events,
            blobs,
            budget,
        } => done(store.commit(
            &lease(number),
            &LedgerEntry {
                events,
                blobs,
                budget: *budget,
            },
            at(now),
        )),
    }
}

/// Returns the whole content of a store.
fn read_all(store: &dyn Store) -> Vec<String> {
    let sessions: Vec<SessionId> = SESSIONS.map(session).into();
    let mut printed = vec![
        format!("{:?}", store.held()),
        format!("{:?}", store.usage(None)),
    ];
    for newest in [0, 2, usize::MAX] {
        printed.push(format!(
            "{:?}",
            store.turns(&TurnQuery {
                session: None,
                newest
            })
        ));
        printed.push(format!(
            "{:?}",
            store.turns(&TurnQuery {
                session: sessions.first(),
                newest
            })
        ));
    }

    for session in &sessions {
        printed.push(format!("{:?}", store.events(session)));
        printed.push(format!("{:?}", store.usage(Some(session))));
        printed.push(format!("{:?}", store.spent(&BudgetScope::Session(session))));
    }

    printed.extend(RUNS.map(|run| format!("{:?}", store.spent(&BudgetScope::Run(run)))));
    printed.extend(TEXTS.map(|text| format!("{:?}", store.blob(&blob_id(text)))));
    printed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn stores_behave_identically(steps in vec(step(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let memory = MemoryStore::default();
        let disk = SqliteStore::open(folder.path()).unwrap();
        let (mut in_memory, mut on_disk) = (Vec::new(), Vec::new());
        for (now, step) in (0..).zip(&steps) {
            let expected = take(&memory, &mut in_memory, step, now);
            prop_assert_eq!(take(&disk, &mut on_disk, step, now), expected, "{:?}", step);
        }
        prop_assert_eq!(read_all(&disk), read_all(&memory));
        prop_assert_eq!(disk.verify().unwrap(), Vec::<String>::new());
        // Every reported record was stored.
        drop(disk);
        let reopened = SqliteStore::open_existing(folder.path()).unwrap().unwrap();
        prop_assert_eq!(read_all(&reopened), read_all(&memory));
    }
}
