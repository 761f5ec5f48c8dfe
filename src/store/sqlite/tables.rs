//! Conversion between rows of the database and values.

use std::time::SystemTime;

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::compression;
use super::open::{database_error, to_sql_integer};
use crate::error::Result;
use crate::models::{Amount, Event, HeldSession, Measurement, Mode, SessionId, TurnRow};
use crate::store::BudgetScope;
use crate::store::turn_index::{self, IndexedCall, IndexedTurn, ScopeTotal, TurnIndex};

/// Statement whose rows [`read_turn`] reads; callers append a condition.
pub(super) const SELECT_TURNS: &str = include_str!("../sql/turns.sql");

/// A turn with its row id.
pub(super) struct StoredTurn {
    pub(super) id: i64,
    pub(super) row: TurnRow,
}

/// Reads a turn.
pub(super) fn read_turn(row: &Row<'_>) -> rusqlite::Result<StoredTurn> {
    let parse_outcome =
        |text: String| serde_json::from_str(&text).map_err(|error| conversion_error(8, error));
    let parse_verdict = |text: String| {
        text.parse()
            .map_err(|()| conversion_error(10, "not a verdict"))
    };

    let turn = TurnRow {
        session: read_session(row, 1)?,
        turn: read_number(row, 2)?,
        mode: Mode::new(row.get::<_, String>(3)?).map_err(|error| conversion_error(3, error))?,
        agent: row.get(4)?,
        model: row.get(5)?,
        started: turn_index::from_millis(row.get(6)?),
        calls: read_number(row, 7)?,
        end: row
            .get::<_, Option<String>>(8)?
            .map(parse_outcome)
            .transpose()?,
        replied: row.get(9)?,
        verdict: row
            .get::<_, Option<String>>(10)?
            .map(parse_verdict)
            .transpose()?,
        fault: row.get(11)?,
        spent: Amount {
            tokens: read_number(row, 12)?,
            micro_dollars: read_number(row, 13)?,
        },
        milliseconds: read_number(row, 14)?,
    };

    Ok(StoredTurn {
        id: row.get(0)?,
        row: turn,
    })
}

/// Reads a call: number, run, tokens, micro_dollars, answered.
pub(super) fn read_call(row: &Row<'_>) -> rusqlite::Result<IndexedCall> {
    Ok(IndexedCall {
        number: read_number(row, 0)?,
        run: row.get(1)?,
        reserved: Amount {
            tokens: read_number(row, 2)?,
            micro_dollars: read_number(row, 3)?,
        },
        answered: row.get(4)?,
    })
}

/// Reads a total: tokens, micro_dollars, turns, milliseconds.
pub(super) fn read_total(row: &Row<'_>) -> rusqlite::Result<ScopeTotal> {
    Ok(ScopeTotal {
        amount: Amount {
            tokens: read_number(row, 0)?,
            micro_dollars: read_number(row, 1)?,
        },
        turns: read_number(row, 2)?,
        milliseconds: read_number(row, 3)?,
    })
}

/// Reads a session and its holder: name, holder, since, seen, fence; `None` if it is free.
pub(super) fn read_held(row: &Row<'_>) -> rusqlite::Result<Option<HeldSession>> {
    let Some(holder) = row.get::<_, Option<String>>(1)? else {
        return Ok(None);
    };
    Ok(Some(HeldSession {
        session: read_session(row, 0)?,
        holder: serde_json::from_str(&holder).map_err(|error| conversion_error(1, error))?,
        since: turn_index::from_millis(row.get(2)?),
        seen: turn_index::from_millis(row.get(3)?),
        fence: read_number(row, 4)?,
    }))
}

/// Reads a measurement and its time: at, agent, model, figure.
pub(super) fn read_measurement(row: &Row<'_>) -> rusqlite::Result<(SystemTime, Measurement)> {
    let figure = serde_json::from_str(&row.get::<_, String>(3)?)
        .map_err(|error| conversion_error(3, error))?;
    Ok((
        turn_index::from_millis(row.get(0)?),
        Measurement {
            agent: row.get(1)?,
            model: row.get(2)?,
            figure,
        },
    ))
}

/// Reads the body of an event as JSON, decompressed.
pub(super) fn read_body(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    match row.get_ref(column)? {
        ValueRef::Blob(stored) => {
            let body = compression::decompress_body(stored);
            body.ok_or_else(|| conversion_error(column, "not a compressed event"))
        }
        value => Ok(value
            .as_str()
            .map_err(|error| conversion_error(column, error))?
            .to_owned()),
    }
}

/// Parses the body of an event. `column` is for the error message.
pub(super) fn read_event(body: &str, column: usize) -> rusqlite::Result<Event> {
    serde_json::from_str(body).map_err(|error| conversion_error(column, error))
}

/// Reads a session's name.
pub(super) fn read_session(row: &Row<'_>, column: usize) -> rusqlite::Result<SessionId> {
    SessionId::new(row.get::<_, String>(column)?).map_err(|error| conversion_error(column, error))
}

/// Reads a non-negative number.
pub(super) fn read_number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, stored))
}

/// Returns the error for a column with an invalid value.
pub(super) fn conversion_error(
    column: usize,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}

/// Loads the usage of a scope; zero if there is no row.
pub(super) fn load_total(connection: &Connection, scope: &BudgetScope<'_>) -> Result<ScopeTotal> {
    let select = "SELECT tokens, micro_dollars, turns, milliseconds FROM totals WHERE scope = ?1 AND name = ?2";
    let total = connection
        .query_row(select, scope.key(), read_total)
        .optional()
        .map_err(database_error)?;
    Ok(total.unwrap_or_default())
}

/// Turn index of one session, in a transaction.
pub(super) struct SessionTurnIndex<'a> {
    pub(super) connection: &'a Connection,
    /// Row id of the session.
    pub(super) id: i64,
}

impl TurnIndex for SessionTurnIndex<'_> {
    fn last_turn(&self, _: &SessionId) -> Result<Option<u64>> {
        let select = "SELECT turn FROM turns WHERE session = ?1 ORDER BY turn DESC LIMIT 1";
        self.connection
            .query_row(select, [self.id], |row| read_number(row, 0))
            .optional()
            .map_err(database_error)
    }

    fn turn(&self, _: &SessionId, number: u64) -> Result<Option<IndexedTurn>> {
        let select = format!("{SELECT_TURNS} WHERE t.session = ?1 AND t.turn = ?2");
        let read = || {
            let key = params![self.id, to_sql_integer(number)];
            let Some(stored) = self
                .connection
                .query_row(&select, key, read_turn)
                .optional()?
            else {
                return Ok(None);
            };

            let select_calls = "SELECT number, run, tokens, micro_dollars, answered FROM calls WHERE turn = ?1 \
                         ORDER BY number";
            let mut statement = self.connection.prepare(select_calls)?;
            let calls = statement
                .query_map([stored.id], read_call)?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Some(IndexedTurn {
                row: stored.row,
                calls,
            }))
        };
        read().map_err(database_error)
    }

    fn save_turn(&mut self, turn: IndexedTurn) -> Result<()> {
        let row = turn.row;
        let outcome = row
            .end
            .map(|end| serde_json::to_string(&end))
            .transpose()
            .map_err(|error| database_error(conversion_error(8, error)))?;

        let upsert = include_str!("../sql/keep_turn.sql");
        let values = params![
            self.id,
            to_sql_integer(row.turn),
            row.mode.as_str(),
            row.agent,
            row.model,
            turn_index::to_millis(row.started),
            to_sql_integer(row.calls),
            outcome,
            row.replied,
            row.verdict.map(|verdict| verdict.name()),
            row.fault,
            to_sql_integer(row.spent.tokens),
            to_sql_integer(row.spent.micro_dollars),
            to_sql_integer(row.milliseconds),
        ];
        let id: i64 = self
            .connection
            .query_row(upsert, values, |row| row.get(0))
            .map_err(database_error)?;

        for call in turn.calls {
            let upsert = include_str!("../sql/keep_call.sql");
            let values = params![
                id,
                to_sql_integer(call.number),
                call.run,
                to_sql_integer(call.reserved.tokens),
                to_sql_integer(call.reserved.micro_dollars),
                call.answered
            ];
            self.connection
                .execute(upsert, values)
                .map_err(database_error)?;
        }
        Ok(())
    }

    fn total(&self, scope: &BudgetScope<'_>) -> Result<ScopeTotal> {
        load_total(self.connection, scope)
    }

    fn save_total(&mut self, scope: &BudgetScope<'_>, total: ScopeTotal) -> Result<()> {
        let (kind, name) = scope.key();
        let upsert = include_str!("../sql/keep_total.sql");
        let values = params![
            kind,
            name,
            to_sql_integer(total.amount.tokens),
            to_sql_integer(total.amount.micro_dollars),
            to_sql_integer(total.turns),
            to_sql_integer(total.milliseconds)
        ];
        self.connection
            .execute(upsert, values)
            .map_err(database_error)?;
        Ok(())
    }
}
