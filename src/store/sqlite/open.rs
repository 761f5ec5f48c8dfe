//! How the database is opened: made whole or not at all, brought up to date, and refused if it is not ours to read.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, ffi};

use super::compression::MAX_TEXT_BYTES;
use super::location::{self, FILE, FileId};
use super::{chain, schema};
use crate::error::{Error, ErrorKind, Result};

/// Migration from version n to n + 1: statements, and steps that SQL alone cannot do.
pub(super) type Migration<'a> = (&'a str, fn(&Transaction<'_>) -> Result<()>);

const MIGRATIONS: [Migration<'static>; 3] = [
    (include_str!("../schema/0001.sql"), |_| Ok(())),
    (include_str!("../schema/0002.sql"), |_| Ok(())),
    (include_str!("../schema/0003.sql"), chain::link_all),
];

/// What marks a database as a ledger: "agnt".
const OURS: i32 = 0x6167_6e74;

/// How long a writer waits for others.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum time of one operation on the ledger, the wait for other writers included. Reading a ledger takes
/// milliseconds; one that was made to take for ever ends here.
pub(super) const MAX_OPERATION: Duration = Duration::from_secs(120);

/// Maximum time of reading all of a ledger to verify it.
pub(super) const MAX_VERIFICATION: Duration = Duration::from_secs(3_600);

/// Number of steps of SQLite's virtual machine between two looks at the clock; some milliseconds.
const STEPS_PER_LOOK: i32 = 100_000;

/// The time at which an operation on a connection is interrupted.
#[derive(Clone, Debug)]
pub(super) struct Deadline(Arc<Mutex<Instant>>);

impl Deadline {
    /// Interrupts whatever runs on a connection when its time is over.
    fn install(connection: &mut Connection, time: Duration) -> rusqlite::Result<Self> {
        let deadline = Self(Arc::new(Mutex::new(Instant::now() + time)));
        let seen = deadline.clone();
        connection.progress_handler(STEPS_PER_LOOK, Some(move || seen.is_over()))?;
        Ok(deadline)
    }

    /// Gives the next operation its time.
    pub(super) fn renew(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + time;
    }

    fn is_over(&self) -> bool {
        Instant::now() > *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ledger that is open.
#[derive(Debug)]
pub(super) struct Opened {
    connection: Connection,
    pub(super) deadline: Deadline,
    /// Which file it is; as long as it is open, no other one is the same.
    pub(super) file: FileId,
    /// Where it is kept, if another one has taken its place.
    pub(super) kept: Option<String>,
}

impl Deref for Opened {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Opened {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// Opens the ledger of a folder, which must have one.
pub(super) fn open(folder: &Path) -> Result<Opened> {
    let path = folder.join(FILE);
    // Looked at first: one that is put in its place in between is then noticed before anything is written.
    let found = path
        .metadata()
        .map_err(|error| location::unwritable(&location::ledger(), error))?;
    // It is made under another name, so that no moment leaves an empty one.
    if found.len() == 0 {
        return Err(damaged("is empty"));
    }
    location::check_companions(folder)?;
    let (mut connection, deadline) = connect(&path)?;
    let marked: i32 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(failed)?;
    if marked != OURS {
        return Err(damaged("is a database, but not a ledger"));
    }
    check_schema(&mut connection)?;
    migrate(&mut connection, &MIGRATIONS)?;
    Ok(Opened {
        connection,
        deadline,
        file: location::file_id(&found),
        kept: None,
    })
}

/// Refuses a database whose schema is not ours at the version that it has, in one transaction: another process may bring
/// it up to date meanwhile.
fn check_schema(connection: &mut Connection) -> Result<()> {
    let reading = connection
        .transaction_with_behavior(TransactionBehavior::Deferred)
        .map_err(failed)?;
    let version = version(&reading, &MIGRATIONS)?;
    schema::check(&reading, &MIGRATIONS[..version])
}

/// Makes the ledger of a folder that has none.
pub(super) fn create(folder: &Path, id: &str) -> Result<()> {
    let unwritable = |error: io::Error| location::unwritable(&location::ledger(), error);
    // It gets its name when it is whole. Only its owner may look into it, from the start.
    let draft = tempfile::Builder::new()
        .prefix(FILE)
        .tempfile_in(folder)
        .map_err(unwritable)?;
    let (mut connection, _) = connect(draft.path())?;
    connection
        .pragma_update(None, "application_id", OURS)
        .map_err(failed)?;
    migrate(&mut connection, &MIGRATIONS)?;
    connection
        .execute("INSERT INTO ledger (id) VALUES (?1)", [id])
        .map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    // If another process was faster, its ledger is as good.
    location::name(draft.into_temp_path(), folder)
        .map(|_| ())
        .map_err(unwritable)
}

/// Returns what tells a ledger from all others.
pub(super) fn id(connection: &Connection) -> Result<String> {
    connection
        .query_row("SELECT id FROM ledger", [], |row| row.get(0))
        .map_err(failed)
}

fn connect(path: &Path) -> Result<(Connection, Deadline)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let set_up = || {
        let mut connection = Connection::open_with_flags(path, flags)?;
        let deadline = Deadline::install(&mut connection, MAX_OPERATION)?;
        connection.busy_timeout(PATIENCE)?;
        // A repository may bring a database of its own: what is written in it must not act.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        connection.set_limit(
            Limit::SQLITE_LIMIT_LENGTH,
            i32::try_from(MAX_TEXT_BYTES).unwrap_or(i32::MAX),
        )?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // No prompt gets into a temporary file.
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "synchronous", "full")?;
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        Ok((connection, deadline, mode))
    };
    let (connection, deadline, mode) = set_up().map_err(failed)?;
    if mode != "wal" {
        return Err(unusable("cannot be shared by processes where it lies")
            .with_hint("keep the project on a disk of this machine"));
    }
    Ok((connection, deadline))
}

/// Brings a database up to date, all at once or not at all.
fn migrate(connection: &mut Connection, migrations: &[Migration<'_>]) -> Result<()> {
    if version(connection, migrations)? == migrations.len() {
        return Ok(());
    }
    let update = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    // Another process may have done it while this one waited.
    for (statements, rest) in migrations.iter().skip(version(&update, migrations)?) {
        update.execute_batch(statements).map_err(failed)?;
        rest(&update)?;
    }
    update
        .pragma_update(None, "user_version", count(migrations.len()))
        .map_err(failed)?;
    update.commit().map_err(failed)
}

/// Returns the version of a database.
fn version(connection: &Connection, migrations: &[Migration<'_>]) -> Result<usize> {
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(failed)?;
    let version = usize::try_from(version).map_err(|_| damaged("has no version"))?;
    if version > migrations.len() {
        return Err(unusable("was written by a newer version of agentd")
            .with_hint("install that version, or newer"));
    }
    Ok(version)
}

/// Returns a number as the database keeps it.
pub(super) fn count(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

pub(super) fn unusable(what: &str) -> Error {
    Error::new(
        ErrorKind::LedgerUnusable,
        format!("{} {what}", location::ledger()),
    )
}

/// Returns the error for a ledger that does not hold what was recorded.
pub(super) fn damaged(what: &str) -> Error {
    unusable(what).with_hint("put a copy of it back, or move it away to begin a new one")
}

/// Returns what a failure of the database means.
pub(super) fn failed(error: rusqlite::Error) -> Error {
    let Some(code) = error.sqlite_error() else {
        return damaged("holds something that agentd did not write").with_source(error);
    };
    let full = code.extended_code == ffi::SQLITE_IOERR_SHMSIZE;
    let told = match code.code {
        _ if full => storage_full(),
        ErrorCode::DiskFull => storage_full(),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => damaged("is damaged"),
        ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => {
            unusable("cannot be written")
                .with_hint("the folder and its files must be yours to write to")
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            unusable("is kept busy by another process").with_hint("try again when that one is done")
        }
        ErrorCode::OperationInterrupted => damaged("takes too long to read"),
        ErrorCode::TooBig => damaged("holds a text that is too large"),
        _ => unusable("cannot be used"),
    };
    told.with_source(error)
}

fn storage_full() -> Error {
    Error::new(
        ErrorKind::StorageFull,
        format!("there is no room left for {}", location::ledger()),
    )
    .with_hint("free some space and try again; what was recorded is kept")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(connection: &Connection) -> i64 {
        connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn an_operation_ends_when_its_time_is_over() {
        let mut connection = Connection::open_in_memory().unwrap();
        let deadline = Deadline::install(&mut connection, MAX_OPERATION).unwrap();
        let count = |most: i64| {
            let select = format!(
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {most}) \
                 SELECT count(*) FROM n"
            );
            connection
                .query_row(&select, [], |row| row.get::<_, i64>(0))
                .map_err(failed)
        };
        assert_eq!(count(100_000).unwrap(), 100_000);
        deadline.renew(Duration::ZERO);
        assert!(
            count(i64::MAX)
                .unwrap_err()
                .message()
                .contains("takes too long to read")
        );
        deadline.renew(MAX_OPERATION);
        assert_eq!(count(100_000).unwrap(), 100_000);
    }

    #[test]
    fn a_migration_that_breaks_off_changes_nothing_and_can_be_taken_again() {
        fn all<'a>(statements: &[&'a str]) -> Vec<Migration<'a>> {
            statements
                .iter()
                .map(|statements| -> Migration<'a> { (statements, |_| Ok(())) })
                .collect()
        }
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &all(&["CREATE TABLE a (x TEXT) STRICT;"])).unwrap();
        let broken = all(&[
            "",
            "CREATE TABLE b (x TEXT) STRICT; INSERT INTO nowhere VALUES (1);",
        ]);
        assert!(migrate(&mut connection, &broken).is_err());
        assert_eq!(
            (tables(&connection), version(&connection, &broken).unwrap()),
            (1, 1)
        );
        let whole = all(&[
            "",
            "CREATE TABLE b (x TEXT) STRICT;",
            "CREATE TABLE c (x TEXT) STRICT;",
        ]);
        migrate(&mut connection, &whole).unwrap();
        migrate(&mut connection, &whole).unwrap();
        assert_eq!(
            (tables(&connection), version(&connection, &whole).unwrap()),
            (3, 3)
        );
        assert!(
            migrate(&mut connection, &whole[..1])
                .unwrap_err()
                .message()
                .contains("newer")
        );
    }
}
