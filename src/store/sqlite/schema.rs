//! The schema of a ledger, compared with ours before a row is read.
//!
//! A repository can bring a ledger along. A view in place of a table, or a trigger, is a program that SQLite runs when we
//! read or write: a recursive query under the name `turns` never ends and takes all memory. So nothing but the
//! statements of our own migrations may have made the database.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::open::{Migration, damaged, failed};
use crate::error::Result;

/// Maximum number of foreign objects that a message names.
const MAX_NAMED: usize = 5;

/// Maximum number of objects that are read; ours are fewer than 30.
const MAX_OBJECTS: usize = 100;

/// Statement that made each object of a schema, by type and name; `None` for an index that SQLite makes by itself.
type Objects = BTreeMap<(String, String), Option<String>>;

/// Refuses a database whose schema is not the one that `migrations` make.
pub(super) fn check(connection: &Connection, migrations: &[Migration<'_>]) -> Result<()> {
    let found = objects(connection)?;
    let ours = Connection::open_in_memory().map_err(failed)?;
    for (statements, _) in migrations {
        ours.execute_batch(statements).map_err(failed)?;
    }
    let ours = objects(&ours)?;

    let foreign = found
        .iter()
        .filter(|(key, sql)| ours.get(*key) != Some(sql))
        .map(|(key, _)| key);
    let missing = ours.keys().filter(|key| !found.contains_key(*key));
    let foreign: Vec<String> = foreign.map(describe).collect();
    let missing: Vec<String> = missing.map(describe).collect();
    if !foreign.is_empty() {
        return Err(damaged(&format!(
            "holds what agentd did not make: {}",
            some(&foreign)
        )));
    }
    if !missing.is_empty() {
        return Err(damaged(&format!(
            "lacks what agentd made: {}",
            some(&missing)
        )));
    }
    Ok(())
}

fn objects(connection: &Connection) -> Result<Objects> {
    let select =
        format!("SELECT type, name, sql FROM sqlite_schema ORDER BY rowid LIMIT {MAX_OBJECTS}");
    let read = || {
        let mut statement = connection.prepare(&select)?;
        let rows = statement.query_map([], |row| {
            let key = (row.get::<_, String>(0)?, row.get::<_, String>(1)?);
            Ok((key, row.get::<_, Option<String>>(2)?))
        })?;
        rows.collect::<rusqlite::Result<Objects>>()
    };
    read().map_err(failed)
}

fn describe((kind, name): &(String, String)) -> String {
    let name: String = name.chars().take(60).collect();
    format!("the {} `{}`", kind.escape_debug(), name.escape_debug())
}

fn some(names: &[String]) -> String {
    let mut words = names
        .iter()
        .take(MAX_NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MAX_NAMED {
        words.push_str(&format!(" and {} more", names.len() - MAX_NAMED));
    }
    words
}
