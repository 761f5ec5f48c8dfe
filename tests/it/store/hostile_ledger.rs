//! A ledger with a foreign schema is refused before a row is read, because views and triggers are
//! programs.

use std::path::Path;

use agentd::ErrorKind;
use agentd::store::SqliteStore;
use rusqlite::Connection;

use crate::support::TestProject;

/// A query that never ends and uses more and more memory.
const ENDLESS: &str =
    "WITH RECURSIVE n (x) AS (SELECT 1 UNION SELECT x + 1 FROM n) SELECT x FROM n";

/// Creates a ledger, and changes its schema.
fn create_hostile_ledger(root: &Path, change: &str) {
    drop(SqliteStore::open(root).unwrap());
    let database = Connection::open(root.join(".agentd/ledger.db")).unwrap();
    database
        .execute_batch(change)
        .unwrap_or_else(|error| panic!("{change}: {error}"));
}

#[test]
fn foreign_schema_object_is_refused_by_name() {
    let view = |name: &str| {
        format!("PRAGMA foreign_keys = off; DROP TABLE {name}; CREATE VIEW {name} AS {ENDLESS}")
    };
    let cases = [
        (view("turns"), "the view `turns`"),
        (view("sessions"), "the view `sessions`"),
        (view("events"), "the view `events`"),
        (view("measurements"), "the view `measurements`"),
        (format!("CREATE VIEW extra AS {ENDLESS}"), "the view `extra`"),
        ("CREATE TABLE notes (x)".to_owned(), "the table `notes`"),
        ("CREATE INDEX mine ON turns (mode)".to_owned(), "the index `mine`"),
        ("CREATE INDEX mine ON turns (lower(mode))".to_owned(), "the index `mine`"),
        (
            "CREATE TRIGGER mine AFTER INSERT ON events BEGIN DELETE FROM totals; END".to_owned(),
            "the trigger `mine`",
        ),
        (
            "DROP TRIGGER events_are_not_changed; CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events \
             BEGIN SELECT 1; END"
                .to_owned(),
            "the trigger `events_are_not_changed`",
        ),
        ("ALTER TABLE turns ADD COLUMN x TEXT".to_owned(), "the table `turns`"),
        ("ALTER TABLE turns ADD COLUMN x TEXT AS (hex(zeroblob(400000000)))".to_owned(), "the table `turns`"),
        ("ALTER TABLE measurements RENAME TO figures".to_owned(), "the table `figures`"),
        ("ANALYZE".to_owned(), "the table `sqlite_stat1`"),
        (
            (0..9).map(|number| format!("CREATE TABLE t{number} (x);")).collect(),
            "the table `t3`, the table `t4` and 4 more",
        ),
        ("CREATE TABLE \"a\n::error::b\" (x)".to_owned(), "the table `a\\n::error::b`"),
    ];

    for (change, name) in cases {
        let folder = tempfile::tempdir().unwrap();
        create_hostile_ledger(folder.path(), &change);
        let error = SqliteStore::open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LedgerUnusable, "{change}");
        let message = error.message();
        assert!(
            message.contains("contains unknown objects") && message.contains(name),
            "{message}"
        );
    }

    for change in [
        "DROP TRIGGER events_are_not_removed",
        "DROP INDEX sessions_held",
        "DROP TABLE measurements",
    ] {
        let folder = tempfile::tempdir().unwrap();
        create_hostile_ledger(folder.path(), change);
        let error = SqliteStore::open(folder.path()).unwrap_err();
        assert!(error.message().contains("lacks objects"), "{error}");
    }
}

/// Missing objects of an older version do not excuse foreign ones.
#[test]
fn foreign_object_is_refused_in_an_older_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let older = "DROP TABLE links; DROP TABLE measurements; PRAGMA user_version = 1";
    create_hostile_ledger(
        folder.path(),
        &format!("{older}; CREATE VIEW measurements AS {ENDLESS}"),
    );
    let error = SqliteStore::open(folder.path()).unwrap_err();
    assert!(
        error.message().contains("the view `measurements`"),
        "{error}"
    );
}

#[test]
fn commands_refuse_a_ledger_with_views() {
    let project = TestProject::new();
    let views = ["turns", "sessions", "events"]
        .map(|name| format!("DROP TABLE {name}; CREATE VIEW {name} AS {ENDLESS};"))
        .concat();
    create_hostile_ledger(
        &project.root(),
        &format!("PRAGMA foreign_keys = off; {views}"),
    );
    for args in [
        &["log"][..],
        &["show", "last"],
        &["show", "a/1", "--prompt"],
        &["usage"],
        &["export"],
        &["resume"],
        &["replay", "a/1"],
        &["diff", "a/1", "a/2"],
        &["change", "list"],
        &["status"],
    ] {
        project.run(args).fails(
            7,
            &["LedgerUnusable", "contains unknown objects", "`events`"],
        );
    }

    let doctor = project.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("contains unknown objects"),
        "{}{}",
        doctor.stdout,
        doctor.stderr
    );
}
