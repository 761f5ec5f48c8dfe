//! Compares the schema of a ledger with the expected one, before a row is read.
//!
//! A repository can contain a ledger. A view in place of a table, or a trigger, is a program that SQLite runs when agentd
//! reads or writes: a recursive query under the name `turns` never ends and takes all memory. So the schema must be
//! exactly the one that the migrations create.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::open::{Migration, damaged_error, database_error};
use crate::error::Result;

/// Maximum number of objects that a message lists.
const MAX_NAMED_OBJECTS: usize = 5;

/// Maximum number of objects that are read; a ledger has fewer than 30.
const MAX_OBJECTS: usize = 100;

/// Statement that created each object of a schema, by type and name; `None` for an index that SQLite creates itself.
type SchemaObjects = BTreeMap<(String, String), Option<String>>;

/// Refuses a database whose schema differs from the result of `migrations`.
pub(super) fn check_objects(connection: &Connection, migrations: &[Migration<'_>]) -> Result<()> {
    let found = read_objects(connection)?;

    let reference = Connection::open_in_memory().map_err(database_error)?;
    for (statements, _) in migrations {
        reference
            .execute_batch(statements)
            .map_err(database_error)?;
    }
    let expected = read_objects(&reference)?;

    let foreign: Vec<String> = found
        .iter()
        .filter(|(key, sql)| expected.get(*key) != Some(sql))
        .map(|(key, _)| describe_object(key))
        .collect();
    if !foreign.is_empty() {
        return Err(damaged_error(&format!(
            "contains unknown objects: {}",
            join_first(&foreign)
        )));
    }

    let missing: Vec<String> = expected
        .keys()
        .filter(|key| !found.contains_key(*key))
        .map(describe_object)
        .collect();
    if !missing.is_empty() {
        return Err(damaged_error(&format!(
            "lacks objects: {}",
            join_first(&missing)
        )));
    }
    Ok(())
}

fn read_objects(connection: &Connection) -> Result<SchemaObjects> {
    let select =
        format!("SELECT type, name, sql FROM sqlite_schema ORDER BY rowid LIMIT {MAX_OBJECTS}");
    let read = || {
        let mut statement = connection.prepare(&select)?;
        let rows = statement.query_map([], |row| {
            let key = (row.get::<_, String>(0)?, row.get::<_, String>(1)?);
            Ok((key, row.get::<_, Option<String>>(2)?))
        })?;
        rows.collect::<rusqlite::Result<SchemaObjects>>()
    };
    read().map_err(database_error)
}

fn describe_object((kind, name): &(String, String)) -> String {
    let name: String = name.chars().take(60).collect();
    format!("the {} `{}`", kind.escape_debug(), name.escape_debug())
}

/// Joins the first [`MAX_NAMED_OBJECTS`] names, and counts the rest.
fn join_first(names: &[String]) -> String {
    let mut joined = names
        .iter()
        .take(MAX_NAMED_OBJECTS)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MAX_NAMED_OBJECTS {
        joined.push_str(&format!(" and {} more", names.len() - MAX_NAMED_OBJECTS));
    }
    joined
}
