//! `agentd log` and `agentd usage`: recorded turns and their cost.

use agentd::ErrorKind;
use agentd::agent;
use agentd::models::{SessionId, TurnRow, UsageRow, dollars};
use agentd::orchestrator::format_utc;
use agentd::store::{SqliteStore, Store, TurnQuery};
use serde_json::{Value, json};

use super::session::{no_turns_error, open_ledger_of};
use crate::args::{Args, LogArgs};
use crate::terminal::{self, CommandResult, Failure};
use crate::{exit, humanize};

/// Columns of `agentd log`.
const LOG_COLUMNS: [&str; 10] = [
    "TURN", "STARTED", "MODE", "AGENT", "RESULT", "VERDICT", "CALLS", "TOKENS", "COST", "TIME",
];

/// Columns of `agentd usage`.
const USAGE_COLUMNS: [&str; 8] = [
    "SESSION", "AGENT", "MODEL", "TURNS", "CALLS", "TOKENS", "COST", "TIME",
];

pub(super) fn run(args: &Args, given: &LogArgs) -> CommandResult {
    let session = given.session.as_deref().map(SessionId::new).transpose()?;
    let Some(store) = open_ledger_or_note(args, session.as_ref(), given.json)? else {
        return Ok(exit::OK);
    };

    let rows = store.turns(&TurnQuery {
        session: session.as_ref(),
        newest: given.number,
    })?;
    let running: Vec<SessionId> = store
        .held()?
        .into_iter()
        .filter(|held| agent::is_alive(&held.holder.process))
        .map(|held| held.session)
        .collect();
    if let Some(session) = session.filter(|_| rows.is_empty() && given.number > 0) {
        return Err(no_turns_error(&session).into());
    }

    if given.json {
        let rows: Vec<Value> = rows.iter().map(|row| turn_json(row, &running)).collect();
        terminal::print_json(&rows)?;
    } else {
        let lines = rows.iter().map(|row| {
            [
                format!("{}/{}", row.session, row.turn),
                format_utc(row.started),
                row.mode.to_string(),
                row.agent.clone(),
                describe_result(row, &running),
                row.verdict
                    .map(|verdict| verdict.name().to_owned())
                    .unwrap_or_default(),
                row.calls.to_string(),
                row.spent.tokens.to_string(),
                cost(row.spent.micro_dollars),
                humanize::duration(row.milliseconds),
            ]
        });
        terminal::print_table(&LOG_COLUMNS, lines)?;
    }
    Ok(exit::OK)
}

/// Opens the ledger. If there is none and no session is given, prints an empty list and returns `None`.
fn open_ledger_or_note(
    args: &Args,
    session: Option<&SessionId>,
    json: bool,
) -> Result<Option<SqliteStore>, Failure> {
    match open_ledger_of(args) {
        Err(error) if session.is_none() && error.kind() == ErrorKind::TurnNotFound => {
            if json {
                terminal::print_json(&json!([]))?;
            }
            terminal::note("no turns yet; take one with `agentd turn`");
            Ok(None)
        }
        result => Ok(Some(result?)),
    }
}

/// Returns the result of a turn in one or two words. `running` are the sessions that a live process holds.
fn describe_result(row: &TurnRow, running: &[SessionId]) -> String {
    match (&row.end, row.replied, &row.fault) {
        // A turn that combines the verdicts of several reviewers has no call.
        (None, true, None) => "ok".to_owned(),
        (None, ..) if running.contains(&row.session) => "running".to_owned(),
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

fn turn_json(row: &TurnRow, running: &[SessionId]) -> Value {
    json!({
        "session": row.session,
        "turn": row.turn,
        "started": format_utc(row.started),
        "mode": row.mode,
        "agent": row.agent,
        "model": row.model,
        "result": describe_result(row, running),
        "end": row.end,
        "verdict": row.verdict.map(|verdict| verdict.name()),
        "fault": row.fault,
        "calls": row.calls,
        "tokens": row.spent.tokens,
        "micro_dollars": row.spent.micro_dollars,
        "milliseconds": row.milliseconds,
    })
}

pub(super) fn usage(args: &Args, session: Option<&str>, json: bool) -> CommandResult {
    let session = session.map(SessionId::new).transpose()?;
    let Some(store) = open_ledger_or_note(args, session.as_ref(), json)? else {
        return Ok(exit::OK);
    };

    let rows = store.usage(session.as_ref())?;
    if let Some(session) = session.filter(|_| rows.is_empty()) {
        return Err(no_turns_error(&session).into());
    }

    if json {
        let rows: Vec<Value> = rows.iter().map(usage_json).collect();
        terminal::print_json(&rows)?;
        return Ok(exit::OK);
    }

    let total = |value: fn(&UsageRow) -> u64| rows.iter().map(value).fold(0, u64::saturating_add);
    let totals = [
        "total".to_owned(),
        String::new(),
        String::new(),
        total(|row| row.turns).to_string(),
        total(|row| row.calls).to_string(),
        total(|row| row.spent.tokens).to_string(),
        cost(total(|row| row.spent.micro_dollars)),
        humanize::duration(total(|row| row.milliseconds)),
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
            humanize::duration(row.milliseconds),
        ]
    });
    terminal::print_table(&USAGE_COLUMNS, lines.chain([totals]))?;
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
