//! Evidence that nothing but this connection has written to the files of the ledger.
//!
//! Reading every event after every call takes a second for 100,000 turns, so it is done only if there is a reason:
//! another connection has committed something, or the files were written to in another way. Others that commit through
//! SQLite change its `data_version`. Anyone else changes the time of change (ctime) of the database, which cannot be set
//! at will, or bytes of the write-ahead log, to which this connection only appends.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use blake3::Hash;
use rusqlite::Connection;

use super::open::failed;
use super::place::{FILE, FOLDER};
use crate::error::Result;

/// Maximum size of a write-ahead log that is hashed. SQLite empties it when it has about 4 MB.
const MAX_LOG_BYTES: u64 = 64 * 1024 * 1024;

/// State of the files at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct FileMarks {
    data_version: i64,
    database: DatabaseStamp,
    /// Length of the write-ahead log, and the hash of all of it.
    log_bytes: u64,
    log_hash: Hash,
}

/// Attributes of the database that change with every write to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DatabaseStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileMarks {
    /// Returns the state of the files now; `None` if it cannot be told.
    pub(super) fn read(connection: &Connection, root: &Path) -> Result<Option<Self>> {
        let data_version = data_version(connection)?;
        let Some(database) = database_stamp(root) else {
            return Ok(None);
        };
        let Ok((log_bytes, log_hash)) = hash_log(root, MAX_LOG_BYTES) else {
            return Ok(None);
        };
        Ok((log_bytes < MAX_LOG_BYTES).then_some(Self {
            data_version,
            database,
            log_bytes,
            log_hash,
        }))
    }

    /// Returns true if nothing but the same connection has written to the files since. In doubt it is false, as after
    /// SQLite has moved the log into the database.
    pub(super) fn hold(&self, connection: &Connection, root: &Path) -> Result<bool> {
        let is_same_log = || {
            hash_log(root, self.log_bytes).is_ok_and(|log| log == (self.log_bytes, self.log_hash))
        };
        Ok(data_version(connection)? == self.data_version
            && database_stamp(root).as_ref() == Some(&self.database)
            && is_same_log())
    }
}

/// Returns a number of SQLite's that changes when another connection commits.
fn data_version(connection: &Connection) -> Result<i64> {
    connection
        .pragma_query_value(None, "data_version", |row| row.get(0))
        .map_err(failed)
}

fn database_stamp(root: &Path) -> Option<DatabaseStamp> {
    // Only looked at: closing a handle of the database would void SQLite's locks on it.
    let found: Metadata = root.join(FOLDER).join(FILE).symlink_metadata().ok()?;
    Some(DatabaseStamp {
        device: found.dev(),
        inode: found.ino(),
        bytes: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

/// Returns the length and the hash of the first bytes of the write-ahead log. One that does not exist is empty.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to the database"
)]
fn hash_log(root: &Path, max_bytes: u64) -> io::Result<(u64, Hash)> {
    let path = root.join(FOLDER).join(format!("{FILE}-wal"));
    let log = match path.symlink_metadata() {
        Ok(found) if found.is_file() => File::open(path)?,
        Ok(_) => return Err(io::Error::other("it is not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((0, blake3::hash(&[])));
        }
        Err(error) => return Err(error),
    };
    let mut hasher = blake3::Hasher::new();
    let bytes = io::copy(&mut log.take(max_bytes), &mut hasher)?;
    Ok((bytes, hasher.finalize()))
}
