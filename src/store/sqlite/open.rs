//! Opens, creates and migrates the database, and refuses one that is damaged or not a ledger.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, ffi};

use super::compression::MAX_TEXT_BYTES;
use super::location::{self, FileId, LEDGER_NAME};
use super::{chain, schema};
use crate::error::{Error, ErrorKind, Result};

/// Migration from version n to n + 1: statements, and steps that SQL alone cannot do.
pub(super) type Migration<'a> = (&'a str, fn(&Transaction<'_>) -> Result<()>);

const MIGRATIONS: [Migration<'static>; 3] = [
    (include_str!("../schema/0001.sql"), |_| Ok(())),
    (include_str!("../schema/0002.sql"), |_| Ok(())),
    (include_str!("../schema/0003.sql"), chain::link_all_events),
];

/// SQLite `application_id` of a ledger: "agnt".
const APPLICATION_ID: i32 = 0x6167_6e74;

/// Maximum time that a writer waits for other writers.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time of one operation on the ledger, including the wait for other writers. Normal operations take
/// milliseconds; this bounds a ledger that was crafted to take forever.
pub(super) const MAX_OPERATION: Duration = Duration::from_secs(120);

/// Maximum time of verifying a whole ledger.
pub(super) const MAX_VERIFICATION: Duration = Duration::from_secs(3_600);

/// Steps of SQLite's virtual machine between two checks of the deadline; a few milliseconds.
const STEPS_PER_DEADLINE_CHECK: i32 = 100_000;

/// Time at which the running operation of a connection is interrupted.
#[derive(Clone, Debug)]
pub(super) struct Deadline(Arc<Mutex<Instant>>);

impl Deadline {
    /// Installs a progress handler that interrupts operations on a connection after the deadline.
    fn install(connection: &mut Connection, time: Duration) -> rusqlite::Result<Self> {
        let deadline = Self(Arc::new(Mutex::new(Instant::now() + time)));
        let seen = deadline.clone();
        connection.progress_handler(STEPS_PER_DEADLINE_CHECK, Some(move || seen.is_over()))?;
        Ok(deadline)
    }

    /// Sets the deadline for the next operation.
    pub(super) fn renew(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + time;
    }

    fn is_over(&self) -> bool {
        Instant::now() > *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Open connection to a ledger.
#[derive(Debug)]
pub(super) struct LedgerConnection {
    connection: Connection,
    pub(super) deadline: Deadline,
    /// Device and inode, which no other file has as long as this one is open.
    pub(super) file: FileId,
    /// Path of the copy of this ledger, saved when another ledger replaced it.
    pub(super) saved_copy: Option<String>,
}

impl Deref for LedgerConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for LedgerConnection {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// Opens the existing ledger of a folder.
pub(super) fn open_ledger(folder: &Path) -> Result<LedgerConnection> {
    let path = folder.join(LEDGER_NAME);
    // Read before connecting: if the file is replaced in between, `reattach` notices before the first write.
    let metadata = path
        .metadata()
        .map_err(|error| location::write_error(&location::ledger_path(), error))?;
    // A ledger is created under another name, so it is never empty.
    if metadata.len() == 0 {
        return Err(damaged_error("is empty"));
    }

    location::check_companions(folder)?;
    let (mut connection, deadline) = connect(&path)?;
    let application_id: i32 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(database_error)?;
    if application_id != APPLICATION_ID {
        return Err(damaged_error("is a database, but not a ledger"));
    }

    check_schema(&mut connection)?;
    migrate(&mut connection, &MIGRATIONS)?;
    Ok(LedgerConnection {
        connection,
        deadline,
        file: location::file_id(&metadata),
        saved_copy: None,
    })
}

/// Refuses a database whose schema does not match its version. Version and schema are read in one transaction, because
/// another process may be migrating the database.
fn check_schema(connection: &mut Connection) -> Result<()> {
    let snapshot = connection
        .transaction_with_behavior(TransactionBehavior::Deferred)
        .map_err(database_error)?;
    let version = read_version(&snapshot, &MIGRATIONS)?;
    schema::check_objects(&snapshot, &MIGRATIONS[..version])
}

/// Creates the ledger of a folder that has none.
pub(super) fn create_ledger(folder: &Path, id: &str) -> Result<()> {
    let unwritable = |error: io::Error| location::write_error(&location::ledger_path(), error);

    // Created as a temporary file (mode 0600) and renamed when it is complete.
    let draft = tempfile::Builder::new()
        .prefix(LEDGER_NAME)
        .tempfile_in(folder)
        .map_err(unwritable)?;

    let (mut connection, _) = connect(draft.path())?;
    connection
        .pragma_update(None, "application_id", APPLICATION_ID)
        .map_err(database_error)?;
    migrate(&mut connection, &MIGRATIONS)?;
    connection
        .execute("INSERT INTO ledger (id) VALUES (?1)", [id])
        .map_err(database_error)?;
    connection
        .close()
        .map_err(|(_, error)| database_error(error))?;

    // False if another process has installed a ledger first; that ledger is used then.
    location::install_ledger(draft.into_temp_path(), folder)
        .map(|_| ())
        .map_err(unwritable)
}

/// Returns the id of a ledger.
pub(super) fn read_ledger_id(connection: &Connection) -> Result<String> {
    connection
        .query_row("SELECT id FROM ledger", [], |row| row.get(0))
        .map_err(database_error)
}

fn connect(path: &Path) -> Result<(Connection, Deadline)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let set_up = || {
        let mut connection = Connection::open_with_flags(path, flags)?;
        let deadline = Deadline::install(&mut connection, MAX_OPERATION)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;

        // The database may come from a foreign repository: its schema must not be able to run code.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        connection.set_limit(
            Limit::SQLITE_LIMIT_LENGTH,
            i32::try_from(MAX_TEXT_BYTES).unwrap_or(i32::MAX),
        )?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "foreign_keys", true)?;

        // Keeps prompts out of temporary files.
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "synchronous", "full")?;
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        Ok((connection, deadline, mode))
    };
    let (connection, deadline, mode) = set_up().map_err(database_error)?;
    if mode != "wal" {
        return Err(
            unusable_error("is on a file system that cannot share it between processes")
                .with_hint("move the project to a local disk"),
        );
    }
    Ok((connection, deadline))
}

/// Migrates a database to the current version, in one transaction.
fn migrate(connection: &mut Connection, migrations: &[Migration<'_>]) -> Result<()> {
    if read_version(connection, migrations)? == migrations.len() {
        return Ok(());
    }

    let update = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(database_error)?;
    // The version is read again: another process may have migrated the database while this one waited for the lock.
    for (statements, step) in migrations.iter().skip(read_version(&update, migrations)?) {
        update.execute_batch(statements).map_err(database_error)?;
        step(&update)?;
    }

    update
        .pragma_update(None, "user_version", to_sql_integer(migrations.len()))
        .map_err(database_error)?;
    update.commit().map_err(database_error)
}

/// Returns the version of a database.
fn read_version(connection: &Connection, migrations: &[Migration<'_>]) -> Result<usize> {
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(database_error)?;
    let version = usize::try_from(version).map_err(|_| damaged_error("has a negative version"))?;
    if version > migrations.len() {
        return Err(unusable_error("was written by a newer version of agentd")
            .with_hint("install that version or a newer one"));
    }
    Ok(version)
}

/// Converts a number to a SQLite integer; numbers that are too large become the maximum.
pub(super) fn to_sql_integer(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

pub(super) fn unusable_error(what: &str) -> Error {
    Error::new(
        ErrorKind::LedgerUnusable,
        format!("{} {what}", location::ledger_path()),
    )
}

/// Returns the error for a ledger with content that agentd has not recorded.
pub(super) fn damaged_error(what: &str) -> Error {
    unusable_error(what)
        .with_hint("restore a copy of the ledger, or move the ledger away to start a new one")
}

/// Converts an error of SQLite.
pub(super) fn database_error(error: rusqlite::Error) -> Error {
    let Some(code) = error.sqlite_error() else {
        return damaged_error("contains data that agentd did not write").with_source(error);
    };

    let is_shared_memory_full = code.extended_code == ffi::SQLITE_IOERR_SHMSIZE;
    let converted = match code.code {
        _ if is_shared_memory_full => storage_full_error(),
        ErrorCode::DiskFull => storage_full_error(),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => damaged_error("is damaged"),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            unusable_error("is not writable").with_hint("make the folder and its files writable")
        }
        ErrorCode::CannotOpen => unusable_error("cannot be opened")
            .with_hint("make the folder and its files readable and writable"),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            unusable_error("is locked by another process")
                .with_hint("wait until that process has finished, and try again")
        }
        ErrorCode::OperationInterrupted => damaged_error("took too long to read"),
        ErrorCode::TooBig => damaged_error("contains a value that is too large"),
        _ => unusable_error("cannot be used"),
    };
    converted.with_source(error)
}

fn storage_full_error() -> Error {
    Error::new(
        ErrorKind::StorageFull,
        format!("no space left on the disk for {}", location::ledger_path()),
    )
    .with_hint("free disk space and try again; recorded data is kept")
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
    fn an_operation_is_interrupted_at_its_deadline() {
        let mut connection = Connection::open_in_memory().unwrap();
        let deadline = Deadline::install(&mut connection, MAX_OPERATION).unwrap();
        let count = |limit: i64| {
            let select = format!(
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {limit}) \
                 SELECT count(*) FROM n"
            );
            connection
                .query_row(&select, [], |row| row.get::<_, i64>(0))
                .map_err(database_error)
        };
        assert_eq!(count(100_000).unwrap(), 100_000);
        deadline.renew(Duration::ZERO);
        assert!(
            count(i64::MAX)
                .unwrap_err()
                .message()
                .contains("took too long to read")
        );
        deadline.renew(MAX_OPERATION);
        assert_eq!(count(100_000).unwrap(), 100_000);
    }

    #[test]
    fn a_failed_migration_changes_nothing_and_can_be_repeated() {
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
            (
                tables(&connection),
                read_version(&connection, &broken).unwrap()
            ),
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
            (
                tables(&connection),
                read_version(&connection, &whole).unwrap()
            ),
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
