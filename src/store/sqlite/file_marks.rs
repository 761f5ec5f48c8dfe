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
    /// Length of the write-ahead log without what is left of an earlier one, and the hash of that.
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
        let Ok(log) = read_log(root, MAX_LOG_BYTES) else {
            return Ok(None);
        };
        if log.len() as u64 == MAX_LOG_BYTES {
            return Ok(None);
        }
        let log = &log[..valid_bytes(&log)];
        Ok(Some(Self {
            data_version,
            database,
            log_bytes: log.len() as u64,
            log_hash: blake3::hash(log),
        }))
    }

    /// Returns true if nothing but the same connection has written to the files since. In doubt it is false, as after
    /// SQLite has moved the log into the database.
    pub(super) fn hold(&self, connection: &Connection, root: &Path) -> Result<bool> {
        let is_same_log =
            || read_log(root, self.log_bytes).is_ok_and(|log| blake3::hash(&log) == self.log_hash);
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

/// Returns the first bytes of the write-ahead log. One that does not exist is empty.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to the database"
)]
fn read_log(root: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let path = root.join(FOLDER).join(format!("{FILE}-wal"));
    let log = match path.symlink_metadata() {
        Ok(found) if found.is_file() => File::open(path)?,
        Ok(_) => return Err(io::Error::other("it is not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    log.take(max_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Size of the header of a write-ahead log, and of that of each frame in it.
const LOG_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// Returns the length of the part of a write-ahead log that counts: SQLite starts over at its beginning without
/// cutting it off, and knows the frames of an earlier log by their salt.
fn valid_bytes(log: &[u8]) -> usize {
    let (Some(page_size), Some(salt)) = (log.get(8..12), log.get(16..24)) else {
        return log.len();
    };
    let page_size: [u8; 4] = page_size.try_into().unwrap_or_default();
    let frame_bytes = FRAME_HEADER_BYTES + u32::from_be_bytes(page_size) as usize;
    let mut end = LOG_HEADER_BYTES.min(log.len());
    while log.get(end + 8..end + 16) == Some(salt) {
        end += frame_bytes;
    }
    end.min(log.len())
}
