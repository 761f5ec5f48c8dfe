//! Rows of the database as values, and values as rows.

use std::time::SystemTime;

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::compression;
use super::open::{count, failed};
use crate::error::Result;
use crate::models::{Amount, Event, Held, Measurement, Mode, SessionId, TurnRow};
use crate::store::Scope;
use crate::store::turn_index::{self, Call, Tallies, Tally, Total};

/// Selects what [`turn`] reads.
pub(super) const TURNS: &str = include_str!("../sql/turns.sql");

/// A turn as a row holds it: with its id.
pub(super) struct KeptTurn {
    pub(super) id: i64,
    pub(super) row: TurnRow,
}

/// Reads a turn.
pub(super) fn turn(row: &Row<'_>) -> rusqlite::Result<KeptTurn> {
    let outcome = |text: String| serde_json::from_str(&text).map_err(|error| odd(8, error));
    let verdict = |text: String| text.parse().map_err(|()| odd(10, "not a verdict"));
    let turn = TurnRow {
        session: session(row, 1)?,
        turn: number(row, 2)?,
        mode: Mode::new(row.get::<_, String>(3)?).map_err(|error| odd(3, error))?,
        agent: row.get(4)?,
        model: row.get(5)?,
        started: turn_index::from_millis(row.get(6)?),
        calls: number(row, 7)?,
        end: row.get::<_, Option<String>>(8)?.map(outcome).transpose()?,
        replied: row.get(9)?,
        verdict: row.get::<_, Option<String>>(10)?.map(verdict).transpose()?,
        fault: row.get(11)?,
        spent: Amount {
            tokens: number(row, 12)?,
            micro_dollars: number(row, 13)?,
        },
        milliseconds: number(row, 14)?,
    };
    Ok(KeptTurn {
        id: row.get(0)?,
        row: turn,
    })
}

/// Reads a call: number, run, tokens, micro_dollars, answered.
pub(super) fn call(row: &Row<'_>) -> rusqlite::Result<Call> {
    Ok(Call {
        number: number(row, 0)?,
        run: row.get(1)?,
        reserved: Amount {
            tokens: number(row, 2)?,
            micro_dollars: number(row, 3)?,
        },
        answered: row.get(4)?,
    })
}

/// Reads a total: tokens, micro_dollars, turns, milliseconds.
pub(super) fn total(row: &Row<'_>) -> rusqlite::Result<Total> {
    Ok(Total {
        amount: Amount {
            tokens: number(row, 0)?,
            micro_dollars: number(row, 1)?,
        },
        turns: number(row, 2)?,
        milliseconds: number(row, 3)?,
    })
}

/// Reads a session and its holder: name, holder, since, seen, fence; `None` if nobody holds it.
pub(super) fn held(row: &Row<'_>) -> rusqlite::Result<Option<Held>> {
    let Some(holder) = row.get::<_, Option<String>>(1)? else {
        return Ok(None);
    };
    Ok(Some(Held {
        session: session(row, 0)?,
        holder: serde_json::from_str(&holder).map_err(|error| odd(1, error))?,
        since: turn_index::from_millis(row.get(2)?),
        seen: turn_index::from_millis(row.get(3)?),
        fence: number(row, 4)?,
    }))
}

/// Reads a measurement, and when it was made: at, agent, model, figure.
pub(super) fn measurement(row: &Row<'_>) -> rusqlite::Result<(SystemTime, Measurement)> {
    let figure = serde_json::from_str(&row.get::<_, String>(3)?).map_err(|error| odd(3, error))?;
    Ok((
        turn_index::from_millis(row.get(0)?),
        Measurement {
            agent: row.get(1)?,
            model: row.get(2)?,
            figure,
        },
    ))
}

/// Reads the body of an event, as JSON.
pub(super) fn body(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    match row.get_ref(column)? {
        ValueRef::Blob(kept) => {
            compression::unpack_body(kept).ok_or_else(|| odd(column, "not a body"))
        }
        value => Ok(value
            .as_str()
            .map_err(|error| odd(column, error))?
            .to_owned()),
    }
}

/// Reads the event in a body, which came from a column.
pub(super) fn event(body: &str, column: usize) -> rusqlite::Result<Event> {
    serde_json::from_str(body).map_err(|error| odd(column, error))
}

/// Reads a session's name.
pub(super) fn session(row: &Row<'_>, column: usize) -> rusqlite::Result<SessionId> {
    SessionId::new(row.get::<_, String>(column)?).map_err(|error| odd(column, error))
}

/// Reads a number that cannot be negative.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let kept: i64 = row.get(column)?;
    u64::try_from(kept).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, kept))
}

/// Returns the error for a value that is not what the column should hold.
pub(super) fn odd(
    column: usize,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}

/// Returns what a scope has used.
pub(super) fn total_of(connection: &Connection, scope: &Scope<'_>) -> Result<Total> {
    let select = "SELECT tokens, micro_dollars, turns, milliseconds FROM totals WHERE scope = ?1 AND name = ?2";
    let found = connection
        .query_row(select, scope.key(), total)
        .optional()
        .map_err(failed)?;
    Ok(found.unwrap_or_default())
}

/// The tallies of one session, in a transaction.
pub(super) struct SessionTables<'a> {
    pub(super) connection: &'a Connection,
    /// The session's id.
    pub(super) id: i64,
}

impl Tallies for SessionTables<'_> {
    fn last_turn(&self, _: &SessionId) -> Result<Option<u64>> {
        let select = "SELECT turn FROM turns WHERE session = ?1 ORDER BY turn DESC LIMIT 1";
        self.connection
            .query_row(select, [self.id], |row| number(row, 0))
            .optional()
            .map_err(failed)
    }

    fn tally(&self, _: &SessionId, number: u64) -> Result<Option<Tally>> {
        let select = format!("{TURNS} WHERE t.session = ?1 AND t.turn = ?2");
        let read = || {
            let key = params![self.id, count(number)];
            let Some(kept) = self.connection.query_row(&select, key, turn).optional()? else {
                return Ok(None);
            };
            let calls = "SELECT number, run, tokens, micro_dollars, answered FROM calls WHERE turn = ?1 \
                         ORDER BY number";
            let mut calls = self.connection.prepare(calls)?;
            let calls = calls
                .query_map([kept.id], call)?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Some(Tally {
                row: kept.row,
                calls,
            }))
        };
        read().map_err(failed)
    }

    fn keep_tally(&mut self, tally: Tally) -> Result<()> {
        let row = tally.row;
        let outcome = row.end.map(|end| serde_json::to_string(&end)).transpose();
        let outcome = outcome.map_err(|error| failed(odd(8, error)))?;
        let upsert = include_str!("../sql/keep_turn.sql");
        let values = params![
            self.id,
            count(row.turn),
            row.mode.as_str(),
            row.agent,
            row.model,
            turn_index::to_millis(row.started),
            count(row.calls),
            outcome,
            row.replied,
            row.verdict.map(|verdict| verdict.name()),
            row.fault,
            count(row.spent.tokens),
            count(row.spent.micro_dollars),
            count(row.milliseconds),
        ];
        let id: i64 = self
            .connection
            .query_row(upsert, values, |row| row.get(0))
            .map_err(failed)?;
        for call in tally.calls {
            let upsert = include_str!("../sql/keep_call.sql");
            let (tokens, money) = (
                count(call.reserved.tokens),
                count(call.reserved.micro_dollars),
            );
            let values = params![
                id,
                count(call.number),
                call.run,
                tokens,
                money,
                call.answered
            ];
            self.connection.execute(upsert, values).map_err(failed)?;
        }
        Ok(())
    }

    fn total(&self, scope: &Scope<'_>) -> Result<Total> {
        total_of(self.connection, scope)
    }

    fn keep_total(&mut self, scope: &Scope<'_>, total: Total) -> Result<()> {
        let (kind, name) = scope.key();
        let upsert = include_str!("../sql/keep_total.sql");
        let (tokens, money) = (
            count(total.amount.tokens),
            count(total.amount.micro_dollars),
        );
        let values = params![
            kind,
            name,
            tokens,
            money,
            count(total.turns),
            count(total.milliseconds)
        ];
        self.connection.execute(upsert, values).map_err(failed)?;
        Ok(())
    }
}
