//! Measurements: stored by agent, model and kind, only the newest, and in ledgers of the first
//! version as well.

use agentd::models::{MeasuredKind, MeasuredValue, Measurement, ProbeCondition, ProbeTask};
use agentd::store::{MAX_MEASUREMENTS, MeasurementQuery, SqliteStore, Store};
use rusqlite::Connection;

use super::{at, claim, commit, every_event, for_each_store, session};

fn tokens(agent: &str, model: Option<&str>, ours: u64) -> Measurement {
    let figure = MeasuredValue::Tokens {
        ours,
        reported: ours + 7,
    };
    Measurement {
        agent: agent.to_owned(),
        model: model.map(str::to_owned),
        figure,
    }
}

fn protocol(agent: &str, model: Option<&str>, right: bool) -> Measurement {
    let (condition, task, case) = (ProbeCondition::Plain, ProbeTask::Action, "move".to_owned());
    let figure = MeasuredValue::Protocol {
        condition,
        task,
        case,
        right,
    };
    Measurement {
        agent: agent.to_owned(),
        model: model.map(str::to_owned),
        figure,
    }
}

fn find_measurements(
    store: &dyn Store,
    kind: MeasuredKind,
    agent: Option<&str>,
    model: Option<&str>,
) -> Vec<Measurement> {
    let rows = store
        .measurements(&MeasurementQuery { kind, agent, model })
        .unwrap();
    rows.into_iter()
        .map(|(_, measurement)| measurement)
        .collect()
}

#[test]
fn measurements_are_found_by_kind_agent_and_model() {
    for_each_store(|store| {
        assert_eq!(
            find_measurements(store, MeasuredKind::Tokens, None, None),
            []
        );

        let all = [
            tokens("claude", Some("opus"), 1),
            tokens("claude", None, 2),
            protocol("claude", Some("opus"), true),
            tokens("codex", Some("opus"), 3),
            protocol("claude", Some("opus"), false),
            tokens("claude", Some("opus"), 4),
        ];
        for (time, measurement) in (0..).zip(&all) {
            store.measure(measurement, at(time)).unwrap();
        }
        let pick = |picked: &[usize]| {
            picked
                .iter()
                .map(|&index| all[index].clone())
                .collect::<Vec<_>>()
        };

        let kind = MeasuredKind::Tokens;
        assert_eq!(
            find_measurements(store, kind, None, None),
            pick(&[0, 1, 3, 5])
        );
        assert_eq!(
            find_measurements(store, kind, Some("claude"), None),
            pick(&[0, 1, 5])
        );
        assert_eq!(
            find_measurements(store, kind, None, Some("opus")),
            pick(&[0, 3, 5])
        );
        assert_eq!(
            find_measurements(store, kind, Some("claude"), Some("opus")),
            pick(&[0, 5])
        );
        assert_eq!(
            find_measurements(store, kind, Some("opus"), Some("claude")),
            []
        );
        assert_eq!(
            find_measurements(store, MeasuredKind::Protocol, Some("claude"), None),
            pick(&[2, 4])
        );

        let wanted = MeasurementQuery {
            kind,
            agent: Some("codex"),
            model: None,
        };
        assert_eq!(
            store.measurements(&wanted).unwrap(),
            [(at(3), all[3].clone())]
        );
    });
}

#[test]
fn newest_measurements_of_each_kind_are_kept() {
    for_each_store(|store| {
        let others = [
            tokens("codex", Some("opus"), 0),
            tokens("claude", None, 0),
            protocol("claude", Some("opus"), true),
        ];
        others
            .iter()
            .for_each(|other| store.measure(other, at(0)).unwrap());
        let most = MAX_MEASUREMENTS as u64;
        for ours in 0..most + 3 {
            store
                .measure(&tokens("claude", Some("opus"), ours), at(ours))
                .unwrap();
        }

        let expected: Vec<Measurement> = (3..most + 3)
            .map(|ours| tokens("claude", Some("opus"), ours))
            .collect();
        assert_eq!(
            find_measurements(store, MeasuredKind::Tokens, Some("claude"), Some("opus")),
            expected
        );
        assert_eq!(
            find_measurements(store, MeasuredKind::Tokens, Some("codex"), None),
            [others[0].clone()]
        );

        let kept = find_measurements(store, MeasuredKind::Tokens, Some("claude"), None);
        assert_eq!((kept.len(), &kept[0]), (MAX_MEASUREMENTS + 1, &others[1]));
        assert_eq!(
            find_measurements(store, MeasuredKind::Protocol, None, None),
            [others[2].clone()]
        );
    });
}

#[test]
fn ledger_of_an_earlier_version_is_upgraded() {
    let second = "DROP TABLE links; PRAGMA user_version = 2;";
    let first = "DROP TABLE links; DROP TABLE measurements; PRAGMA user_version = 1;";
    for older in [first, second] {
        goes_on(older);
    }
}

/// Creates a ledger, removes objects that an earlier version lacks, and continues with it.
fn goes_on(older: &str) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let lease = claim(&store, "a");
    for event in every_event() {
        commit(&store, &lease, &[event]).unwrap();
    }
    store.release(&lease).unwrap();
    drop(store);
    let file = folder.path().join(".agentd/ledger.db");
    let database = Connection::open(&file).unwrap();
    database.execute_batch(older).unwrap();
    drop(database);

    let store = SqliteStore::open_existing(folder.path()).unwrap().unwrap();
    assert_eq!(
        store.events(&session("a")).unwrap().len(),
        every_event().len()
    );

    let measurement = tokens("claude", Some("opus"), 1);
    store.measure(&measurement, at(0)).unwrap();
    assert_eq!(
        find_measurements(&store, MeasuredKind::Tokens, None, None),
        [measurement]
    );

    let lease = claim(&store, "b");
    commit(&store, &lease, &every_event()[..1]).unwrap();
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());

    drop(store);
    let links: i64 = Connection::open(&file)
        .unwrap()
        .query_row("SELECT count(*) FROM links", [], |row| row.get(0))
        .unwrap();
    assert_eq!(
        links,
        every_event().len() as i64 + 1,
        "earlier events are linked as well"
    );

    let version: i64 = Connection::open(&file)
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 3);
}

#[test]
fn changed_measurement_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    store.measure(&tokens("claude", None, 1), at(0)).unwrap();
    store.measure(&tokens("claude", None, 2), at(0)).unwrap();
    let database = Connection::open(folder.path().join(".agentd/ledger.db")).unwrap();
    database
        .execute("UPDATE measurements SET figure = '{}' WHERE id = 2", [])
        .unwrap();
    assert_eq!(store.verify().unwrap(), ["measurement 2 cannot be read"]);
}
