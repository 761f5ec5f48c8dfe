//! Budgets: reserved before a call, settled after it, and never exceeded by any number of callers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use agentd::ErrorKind;
use agentd::models::{
    Amount, Budget, BudgetLimits, BudgetUsage, Event, SessionId, TurnStart, UsageRow,
};
use agentd::store::{BudgetScope, Lease, LedgerEntry, SqliteStore, Store};

use super::{TEXTS, answered, at, called, claim, for_each_store, session, started, tokens};

const FREE: BudgetLimits = BudgetLimits {
    tokens: None,
    micro_dollars: None,
    turns: None,
    seconds: None,
};

fn commit(
    store: &dyn Store,
    lease: &Lease,
    budget: Budget,
    events: &[Event],
) -> agentd::Result<()> {
    store.commit(
        lease,
        &LedgerEntry {
            events,
            blobs: &TEXTS,
            budget,
        },
        at(0),
    )
}

fn start(turn: u64) -> Event {
    Event::Started(Box::new(started(turn)))
}

fn answer(turn: u64, call: u64, spent: Amount, milliseconds: u64) -> Event {
    Event::Answered(Box::new(answered(turn, call, spent, milliseconds)))
}

fn spent(amount: Amount, turns: u64, seconds: u64) -> BudgetUsage {
    BudgetUsage {
        amount,
        turns,
        seconds,
    }
}

#[test]
fn call_counts_as_reserved_until_settled() {
    for_each_store(|store| {
        let lease = claim(store, "add-login");
        let free = Budget::default();
        let of = |scope: BudgetScope<'_>| store.spent(&scope).unwrap();
        assert_eq!(of(BudgetScope::Run("one")), BudgetUsage::default());

        commit(
            store,
            &lease,
            free,
            &[start(1), called(1, 1, "one", tokens(100))],
        )
        .unwrap();
        assert_eq!(of(BudgetScope::Run("one")), spent(tokens(100), 1, 0));

        let cost = Amount {
            tokens: 130,
            micro_dollars: 9,
        };
        commit(store, &lease, free, &[answer(1, 1, cost, 1_001)]).unwrap();
        assert_eq!(of(BudgetScope::Run("one")), spent(cost, 1, 2));

        // The same turn, called again by another run: it counts for that run, but not again for the
        // session.
        commit(store, &lease, free, &[called(1, 2, "two", tokens(50))]).unwrap();
        assert_eq!(of(BudgetScope::Run("one")), spent(cost, 1, 2));
        assert_eq!(of(BudgetScope::Run("two")), spent(tokens(50), 1, 0));

        let both = Amount {
            tokens: 180,
            micro_dollars: 9,
        };
        assert_eq!(of(BudgetScope::Session(&lease.session)), spent(both, 1, 2));

        commit(store, &lease, free, &[answer(1, 2, tokens(0), 999)]).unwrap();
        assert_eq!(of(BudgetScope::Session(&lease.session)), spent(cost, 1, 2));

        // A run counts over all sessions. A run and a session of the same name are separate.
        let other = claim(store, "one");
        commit(
            store,
            &other,
            free,
            &[start(1), called(1, 1, "one", tokens(7))],
        )
        .unwrap();
        assert_eq!(
            of(BudgetScope::Run("one")),
            spent(
                Amount {
                    tokens: 137,
                    micro_dollars: 9
                },
                2,
                2
            )
        );
        assert_eq!(
            of(BudgetScope::Session(&session("one"))),
            spent(tokens(7), 1, 0)
        );
        assert_eq!(
            of(BudgetScope::Session(&session("nobody"))),
            BudgetUsage::default()
        );
    });
}

/// Two turns of 40 tokens, 40 cents and 4 s are taken. The third call reserves 30 tokens and 30
/// cents.
#[test]
fn call_over_budget_is_refused_and_not_recorded() {
    const CENT: u64 = 10_000;

    let cases: [(BudgetLimits, Option<&str>); 8] = [
        (
            BudgetLimits {
                tokens: Some(110),
                ..FREE
            },
            None,
        ),
        (
            BudgetLimits {
                tokens: Some(109),
                ..FREE
            },
            Some("109 tokens; 80 were used, and the call may need 30"),
        ),
        (
            BudgetLimits {
                micro_dollars: Some(110 * CENT),
                ..FREE
            },
            None,
        ),
        (
            BudgetLimits {
                micro_dollars: Some(109 * CENT),
                ..FREE
            },
            Some("$1.0900; $0.8000 was used, and the call may need $0.3000"),
        ),
        (
            BudgetLimits {
                turns: Some(3),
                ..FREE
            },
            None,
        ),
        (
            BudgetLimits {
                turns: Some(2),
                ..FREE
            },
            Some("2 turns; 2 were taken"),
        ),
        (
            BudgetLimits {
                seconds: Some(9),
                ..FREE
            },
            None,
        ),
        (
            BudgetLimits {
                seconds: Some(8),
                ..FREE
            },
            Some("8 seconds; 8 were used"),
        ),
    ];
    let reserve = Amount {
        tokens: 30,
        micro_dollars: 30 * CENT,
    };
    let cost = Amount {
        tokens: 40,
        micro_dollars: 40 * CENT,
    };

    for (whose, table) in [
        ("this run", "[budget.run]"),
        ("session `NAME`", "[budget.session]"),
    ] {
        let budget = |caps| match table {
            "[budget.run]" => Budget {
                run: caps,
                session: FREE,
            },
            _ => Budget {
                run: FREE,
                session: caps,
            },
        };

        for_each_store(|store| {
            for (number, (caps, words)) in cases.iter().enumerate() {
                // A separate session and run for each case.
                let (name, run) = (format!("session-{number}"), format!("run-{number}"));
                let (lease, whose) = (claim(store, &name), whose.replace("NAME", &name));
                for turn in [1, 2] {
                    let events = [
                        start(turn),
                        called(turn, 1, &run, reserve),
                        answer(turn, 1, cost, 4_000),
                    ];
                    commit(store, &lease, Budget::default(), &events).unwrap();
                }

                let before = store.spent(&BudgetScope::Run(&run)).unwrap();
                let taken = commit(
                    store,
                    &lease,
                    budget(*caps),
                    &[start(3), called(3, 1, &run, reserve)],
                );
                let Some(words) = words else {
                    taken.unwrap();
                    continue;
                };

                let error = taken.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::BudgetExhausted);
                assert_eq!(
                    error.message(),
                    format!("the budget of {whose} allows {words}")
                );
                assert_eq!(
                    error.hint(),
                    Some(&*format!(
                        "raise the limit under {table} in agentd/config.toml"
                    ))
                );
                assert_eq!(store.events(&lease.session).unwrap().len(), 6);
                assert_eq!(store.spent(&BudgetScope::Run(&run)).unwrap(), before);
            }
        });
    }
}

#[test]
fn second_call_of_a_turn_uses_no_second_turn() {
    for_each_store(|store| {
        let lease = claim(store, "add-login");
        let caps = BudgetLimits {
            turns: Some(1),
            ..FREE
        };
        let budget = Budget {
            run: caps,
            session: caps,
        };
        let events = [
            start(1),
            called(1, 1, "run", tokens(1)),
            called(1, 2, "run", tokens(1)),
        ];
        commit(store, &lease, budget, &events).unwrap();

        let error = commit(
            store,
            &lease,
            budget,
            &[start(2), called(2, 1, "run", tokens(1))],
        )
        .unwrap_err();
        assert_eq!(
            error.message(),
            "the budget of this run allows 1 turn; 1 was taken"
        );

        // Another run may call it again, because the session already counts that turn.
        commit(store, &lease, budget, &[called(1, 3, "another", tokens(1))]).unwrap();
    });
}

#[test]
fn any_reported_usage_is_accepted() {
    for_each_store(|store| {
        let lease = claim(store, "add-login");
        let most = Amount {
            tokens: u64::MAX,
            micro_dollars: u64::MAX,
        };
        for turn in [1, 2, 3] {
            let events = [
                start(turn),
                called(turn, 1, "run", most),
                answer(turn, 1, most, u64::MAX),
            ];
            commit(store, &lease, Budget::default(), &events).unwrap();
        }

        let caps = BudgetLimits {
            tokens: Some(1_000_000),
            ..FREE
        };
        let events = [start(4), called(4, 1, "run", tokens(1))];

        let error = commit(
            store,
            &lease,
            Budget {
                run: caps,
                session: FREE,
            },
            &events,
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BudgetExhausted);

        let limit = i64::MAX as u64;
        assert_eq!(store.usage(None).unwrap()[0].spent.tokens, limit);
        assert_eq!(
            store
                .spent(&BudgetScope::Run("run"))
                .unwrap()
                .amount
                .micro_dollars,
            limit
        );
    });
}

/// Takes turns in a separate session until the budget of the run is exhausted. Returns their
/// number.
fn spend(store: &dyn Store, session: &SessionId, budget: Budget, most: &AtomicU64) -> u64 {
    let lease = claim(store, session.as_str());
    for turn in 1.. {
        match commit(
            store,
            &lease,
            budget,
            &[start(turn), called(turn, 1, "run", tokens(30))],
        ) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BudgetExhausted => return turn - 1,
            Err(error) => panic!("{error:?}"),
        }
        most.fetch_max(
            store.spent(&BudgetScope::Run("run")).unwrap().amount.tokens,
            Ordering::Relaxed,
        );
        commit(store, &lease, budget, &[answer(turn, 1, tokens(20), 1)]).unwrap();
    }

    unreachable!()
}

/// Calls are refused above this part of a budget, because reservations are larger than actual
/// usage.
const REFUSED: u64 = 30;

#[test]
fn eight_threads_never_exceed_a_shared_budget() {
    let budget = Budget {
        run: BudgetLimits {
            tokens: Some(1_000),
            ..FREE
        },
        session: FREE,
    };
    for_each_store(|store| {
        let most = AtomicU64::new(0);
        let turns: u64 = thread::scope(|scope| {
            let one = |number: u64| {
                let most = &most;
                scope.spawn(move || spend(store, &session(&format!("s{number}")), budget, most))
            };
            let all: Vec<_> = (0..8).map(one).collect();
            all.into_iter().map(|one| one.join().unwrap()).sum()
        });
        let total = store.spent(&BudgetScope::Run("run")).unwrap().amount.tokens;
        assert_eq!(total, turns * 20);
        assert!(most.into_inner() <= 1_000);
        // A refused thread ends. The last one to be refused is alone, with only its own
        // reservation.
        assert!((1_000 - REFUSED..=1_000).contains(&total), "{total}");
    });
}

#[test]
fn eight_ledger_handles_share_a_budget() {
    let budget = Budget {
        run: BudgetLimits {
            tokens: Some(600),
            ..FREE
        },
        session: FREE,
    };
    let folder = tempfile::tempdir().unwrap();
    let most = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..8 {
            let (folder, most) = (folder.path(), &most);
            scope.spawn(move || {
                let store = SqliteStore::open(folder).unwrap();
                spend(&store, &session(&format!("s{number}")), budget, most)
            });
        }
    });

    let store = SqliteStore::open(folder.path()).unwrap();
    assert!(most.into_inner() <= 600);

    let total = store.spent(&BudgetScope::Run("run")).unwrap().amount.tokens;
    assert!((600 - REFUSED..=600).contains(&total), "{total}");
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

#[test]
fn usage_is_summed_by_session_agent_and_model() {
    for_each_store(|store| {
        let take = |lease: &Lease, turn, agent: &str, model: Option<&str>, spent: &[u64]| {
            let agent = agent.to_owned();
            let begun = TurnStart {
                agent,
                model: model.map(str::to_owned),
                ..started(turn)
            };
            let mut events = vec![Event::Started(Box::new(begun))];
            for (call, spent) in (1..).zip(spent) {
                events.push(called(turn, call, "run", tokens(1_000)));
                events.push(Event::Answered(Box::new(answered(
                    turn,
                    call,
                    tokens(*spent),
                    600,
                ))));
            }

            super::commit(store, lease, &events).unwrap();
        };

        let (b, a) = (claim(store, "b"), claim(store, "a"));
        take(&b, 1, "gemini", None, &[10]);
        take(&b, 2, "claude", Some("opus"), &[1, 2]);
        take(&a, 1, "claude", None, &[5]);
        take(&b, 3, "claude", Some("opus"), &[4]);
        take(&b, 4, "claude", None, &[8]);

        // A turn without a call has no usage, and neither has an open call.
        take(&a, 2, "codex", None, &[]);
        super::commit(
            store,
            &a,
            &[
                Event::Started(Box::new(started(3))),
                called(3, 1, "run", tokens(99)),
            ],
        )
        .unwrap();
        let row =
            |name: &str, agent: &str, model: Option<&str>, turns, calls, spent, milliseconds| {
                UsageRow {
                    session: session(name),
                    agent: agent.to_owned(),
                    model: model.map(str::to_owned),
                    turns,
                    calls,
                    spent: tokens(spent),
                    milliseconds,
                }
            };
        let of_a = [
            row("a", "claude", None, 1, 1, 5, 600),
            row("a", "claude", Some("opus"), 1, 1, 0, 0),
        ];
        let of_b = [
            row("b", "claude", None, 1, 1, 8, 600),
            row("b", "claude", Some("opus"), 2, 3, 7, 1_800),
            row("b", "gemini", None, 1, 1, 10, 600),
        ];
        assert_eq!(store.usage(Some(&a.session)).unwrap(), of_a);
        assert_eq!(store.usage(Some(&b.session)).unwrap(), of_b);
        assert_eq!(store.usage(None).unwrap(), [&of_a[..], &of_b].concat());
        assert_eq!(store.usage(Some(&session("c"))).unwrap(), []);
    });
}
