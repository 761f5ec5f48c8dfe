//! `agentd log` and `agentd usage`: the turns that were taken, and what they used.

use agentd::ErrorKind;
use agentd::agent;
use agentd::models::{SessionId, TurnRow, UsageRow, dollars};
use agentd::orchestrator::format_utc;
use agentd::store::{SqliteStore, Store, Turns};
use serde_json::{Value, json};

use super::session::{ledger, no_turn};
use crate::args::{Args, LogArgs};
use crate::terminal::{self, Failure, Outcome};
use crate::{exit, human_time};

/// The columns of the log.
const COLUMNS: [&str; 10] = [
    "TURN", "STARTED", "MODE", "AGENT", "RESULT", "VERDICT", "CALLS", "TOKENS", "COST", "TIME",
];

pub(super) fn run(args: &Args, given: &LogArgs) -> Outcome {
    let session = given.session.as_deref().map(SessionId::new).transpose()?;
    let Some(store) = ledger_or_nothing(args, session.as_ref(), given.json)? else {
        return Ok(exit::OK);
    };
    let rows = store.turns(&Turns {
        session: session.as_ref(),
        newest: given.number,
    })?;
    let held: Vec<SessionId> = store
        .held()?
        .into_iter()
        .filter(|held| agent::is_alive(&held.holder.process))
        .map(|held| held.session)
        .collect();
    if let Some(session) = session.filter(|_| rows.is_empty() && given.number > 0) {
        return Err(no_turn(&session).into());
    }
    if given.json {
        terminal::json(
            &rows
                .iter()
                .map(|row| row_json(row, &held))
                .collect::<Vec<_>>(),
        )?;
    } else {
        let lines = rows.iter().map(|row| {
            [
                format!("{}/{}", row.session, row.turn),
                format_utc(row.started),
                row.mode.to_string(),
                row.agent.clone(),
                result(row, &held),
                row.verdict
                    .map(|verdict| verdict.name().to_owned())
                    .unwrap_or_default(),
                row.calls.to_string(),
                row.spent.tokens.to_string(),
                cost(row.spent.micro_dollars),
                human_time::duration(row.milliseconds),
            ]
        });
        terminal::table(&COLUMNS, lines)?;
    }
    Ok(exit::OK)
}

/// Returns the ledger, or tells that no turn was taken yet: of no session in particular that is an empty list.
fn ledger_or_nothing(
    args: &Args,
    session: Option<&SessionId>,
    json: bool,
) -> Result<Option<SqliteStore>, Failure> {
    match ledger(args) {
        Err(error) if session.is_none() && error.kind() == ErrorKind::TurnNotFound => {
            if json {
                terminal::json(&json!([]))?;
            }
            terminal::note("no turn was taken here yet; `agentd turn` takes one");
            Ok(None)
        }
        found => Ok(Some(found?)),
    }
}

/// Returns what came of a turn, in few words; `held` are the sessions that a living process holds.
fn result(row: &TurnRow, held: &[SessionId]) -> String {
    match (&row.end, row.replied, &row.fault) {
        // Nobody is called in a turn that sums up what several have said.
        (None, true, None) => "ok".to_owned(),
        (None, ..) if held.contains(&row.session) => "running".to_owned(),
        (None, ..) => "interrupted".to_owned(),
        (Some(_), true, None) => "ok".to_owned(),
        (Some(_), true, Some(_)) => "unclear".to_owned(),
        (Some(end), false, _) if end.is_ok() => "not read".to_owned(),
        (Some(end), ..) => end.name().to_owned(),
    }
}

fn cost(micros: u64) -> String {
    if micros == 0 {
        "-".to_owned()
    } else {
        dollars(micros)
    }
}

fn row_json(row: &TurnRow, held: &[SessionId]) -> Value {
    json!({
        "session": row.session,
        "turn": row.turn,
        "started": format_utc(row.started),
        "mode": row.mode,
        "agent": row.agent,
        "model": row.model,
        "result": result(row, held),
        "end": row.end,
        "verdict": row.verdict.map(|verdict| verdict.name()),
        "fault": row.fault,
        "calls": row.calls,
        "tokens": row.spent.tokens,
        "micro_dollars": row.spent.micro_dollars,
        "milliseconds": row.milliseconds,
    })
}

pub(super) fn usage(args: &Args, session: Option<&str>, json: bool) -> Outcome {
    let session = session.map(SessionId::new).transpose()?;
    let Some(store) = ledger_or_nothing(args, session.as_ref(), json)? else {
        return Ok(exit::OK);
    };
    let rows = store.usage(session.as_ref())?;
    if let Some(session) = session.filter(|_| rows.is_empty()) {
        return Err(no_turn(&session).into());
    }
    if json {
        let rows: Vec<Value> = rows.iter().map(usage_json).collect();
        terminal::json(&rows)?;
        return Ok(exit::OK);
    }
    let total = |of: fn(&UsageRow) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let sum = [
        "all".to_owned(),
        String::new(),
        String::new(),
        total(|row| row.turns).to_string(),
        total(|row| row.calls).to_string(),
        total(|row| row.spent.tokens).to_string(),
        cost(total(|row| row.spent.micro_dollars)),
        human_time::duration(total(|row| row.milliseconds)),
    ];
    let lines = rows.iter().map(|row| {
        [
            row.session.to_string(),
            row.agent.clone(),
            row.model.clone().unwrap_or_default(),
            row.turns.to_string(),
            row.calls.to_string(),
            row.spent.tokens.to_string(),
            cost(row.spent.micro_dollars),
            human_time::duration(row.milliseconds),
        ]
    });
    let columns = [
        "SESSION", "AGENT", "MODEL", "TURNS", "CALLS", "TOKENS", "COST", "TIME",
    ];
    terminal::table(&columns, lines.chain([sum]))?;
    Ok(exit::OK)
}

fn usage_json(row: &UsageRow) -> Value {
    json!({
        "session": row.session,
        "agent": row.agent,
        "model": row.model,
        "turns": row.turns,
        "calls": row.calls,
        "tokens": row.spent.tokens,
        "micro_dollars": row.spent.micro_dollars,
        "milliseconds": row.milliseconds,
    })
}
