//! Index of turns and of budget totals, derived from events, so that lists and budget checks need not read all events.
//!
//! Every store updates the index by these rules, in the transaction that records the events; it can be rebuilt from the
//! events at any time. The same rules decide which event may follow which: a call needs a started turn, an answer needs
//! an open call.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::BudgetScope;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    Amount, BlobId, Budget, BudgetLimits, BudgetUsage, CallEnd, Event, SessionId, TurnRow,
    TurnStart, UsageRow,
};

/// Summary of a turn, with the calls that count towards budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexedTurn {
    pub(super) row: TurnRow,
    pub(super) calls: Vec<IndexedCall>,
}

/// A call that counts towards budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexedCall {
    /// Number in the turn, from 1.
    pub(super) number: u64,
    /// Run that made the call.
    pub(super) run: String,
    /// Amount reserved until the call is answered.
    pub(super) reserved: Amount,
    pub(super) answered: bool,
}

/// Usage of a run or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScopeTotal {
    /// Amount spent by answered calls plus the amount reserved by open ones.
    pub(super) amount: Amount,
    /// Number of turns with at least one call.
    pub(super) turns: u64,
    /// Total duration of answered calls.
    pub(super) milliseconds: u64,
}

impl ScopeTotal {
    /// Returns the total in the units of budgets: whole seconds, rounded up.
    pub(super) fn spent(self) -> BudgetUsage {
        BudgetUsage {
            amount: self.amount,
            turns: self.turns,
            seconds: self.milliseconds.div_ceil(1_000),
        }
    }
}

/// Storage of indexed turns and totals while events are recorded.
pub(super) trait TurnIndex {
    /// Returns the highest turn number of a session; `None` if it has no turns.
    fn last_turn(&self, session: &SessionId) -> Result<Option<u64>>;
    /// Returns a turn; `None` if it was not started.
    fn turn(&self, session: &SessionId, turn: u64) -> Result<Option<IndexedTurn>>;
    /// Inserts or replaces a turn.
    fn save_turn(&mut self, turn: IndexedTurn) -> Result<()>;
    /// Returns the usage of a scope; zero if it has none.
    fn total(&self, scope: &BudgetScope<'_>) -> Result<ScopeTotal>;
    /// Replaces the usage of a scope.
    fn save_total(&mut self, scope: &BudgetScope<'_>, total: ScopeTotal) -> Result<()>;
}

/// Updates the index for an event, or refuses the event.
///
/// # Errors
///
/// `BudgetExhausted` for a call that exceeds a budget, `LedgerUnusable` for an event that is out of order.
pub(super) fn index_event(
    index: &mut dyn TurnIndex,
    session: &SessionId,
    event: &Event,
    budget: &Budget,
    at: SystemTime,
) -> Result<()> {
    match event {
        Event::Entered { .. }
        | Event::Returned { .. }
        | Event::Undone { .. }
        | Event::GateSkipped { .. }
        | Event::Described { .. }
        | Event::StateChanged { .. }
        | Event::Opened(_)
        | Event::Decided { .. }
        | Event::Ended { .. } => Ok(()),
        Event::Started(started) => start_turn(index, session, started, at),
        Event::Called {
            turn,
            call,
            run,
            reserved,
            ..
        } => {
            let call = IndexedCall {
                number: *call,
                run: run.clone(),
                reserved: clamp_amount(*reserved),
                answered: false,
            };
            let indexed = find_turn(index, session, *turn)?;
            open_call(index, indexed, call, budget)
        }
        Event::Launched { turn, call, .. } => {
            find_open_call(&mut find_turn(index, session, *turn)?, *call).map(|_| ())
        }
        Event::Answered(answered) => {
            let turn = find_turn(index, session, answered.turn)?;
            close_call(index, turn, answered)
        }
        Event::Replied {
            turn,
            verdict,
            fault,
            ..
        } => {
            let mut indexed = find_turn(index, session, *turn)?;
            if indexed.row.replied {
                return Err(order_error(session, *turn, "already has a reply"));
            }
            indexed.row.replied = true;
            indexed.row.verdict = *verdict;
            indexed.row.fault.clone_from(fault);
            index.save_turn(indexed)
        }
        Event::Intended { turn, .. } | Event::Settled { turn, .. } => {
            find_turn(index, session, *turn).map(|_| ())
        }
    }
}

/// Adds a turn. Turn numbers of a session only grow.
fn start_turn(
    index: &mut dyn TurnIndex,
    session: &SessionId,
    started: &TurnStart,
    at: SystemTime,
) -> Result<()> {
    if index
        .last_turn(session)?
        .is_some_and(|last| started.turn <= last)
    {
        return Err(order_error(session, started.turn, "was already started"));
    }

    let row = TurnRow {
        session: session.clone(),
        turn: started.turn,
        mode: started.mode.clone(),
        agent: started.agent.clone(),
        model: started.model.clone(),
        started: at,
        calls: 0,
        end: None,
        replied: false,
        verdict: None,
        fault: None,
        spent: Amount::default(),
        milliseconds: 0,
    };
    index.save_turn(IndexedTurn {
        row,
        calls: Vec::new(),
    })
}

/// Adds a call to a turn and reserves its amount in the run and in the session, unless that exceeds a budget.
fn open_call(
    index: &mut dyn TurnIndex,
    mut turn: IndexedTurn,
    call: IndexedCall,
    budget: &Budget,
) -> Result<()> {
    let session = turn.row.session.clone();
    if turn
        .calls
        .last()
        .is_some_and(|last| call.number <= last.number)
    {
        let what = format!("already has call {}", call.number);
        return Err(order_error(&session, turn.row.turn, &what));
    }

    let is_first_in_run = turn.calls.iter().all(|earlier| earlier.run != call.run);
    let is_first_in_session = turn.calls.is_empty();
    let scopes = [
        (BudgetScope::Run(&call.run), &budget.run, is_first_in_run),
        (
            BudgetScope::Session(&session),
            &budget.session,
            is_first_in_session,
        ),
    ];
    for (scope, caps, is_new_turn) in scopes {
        let mut total = index.total(&scope)?;
        check_budget(&scope, caps, total, call.reserved, is_new_turn)?;
        total.amount = add_amounts(total.amount, call.reserved);
        total.turns = add_counts(total.turns, u64::from(is_new_turn));
        index.save_total(&scope, total)?;
    }

    turn.row.calls += 1;
    turn.row.end = None;
    turn.calls.push(call);
    index.save_turn(turn)
}

/// Refuses a call that would exceed the budget of a scope.
fn check_budget(
    scope: &BudgetScope<'_>,
    caps: &BudgetLimits,
    total: ScopeTotal,
    reserve: Amount,
    is_new_turn: bool,
) -> Result<()> {
    let Some(reason) = caps.exceeded(&total.spent(), reserve, is_new_turn) else {
        return Ok(());
    };

    let (owner, table) = match scope {
        BudgetScope::Run(_) => ("this run".to_owned(), "[budget.run]"),
        BudgetScope::Session(session) => (format!("session `{session}`"), "[budget.session]"),
    };

    Err(Error::new(
        ErrorKind::BudgetExhausted,
        format!("the budget of {owner} allows {reason}"),
    )
    .with_hint(format!(
        "raise the limit under {table} in agentd/config.toml"
    )))
}

/// Marks a call as answered, and replaces its reserved amount in the totals of the run and the session by the amount
/// spent.
fn close_call(index: &mut dyn TurnIndex, mut turn: IndexedTurn, answered: &CallEnd) -> Result<()> {
    let call = find_open_call(&mut turn, answered.call)?;
    call.answered = true;
    let run = call.run.clone();
    let reserved = call.reserved;
    let session = turn.row.session.clone();

    for scope in [BudgetScope::Run(&run), BudgetScope::Session(&session)] {
        let mut total = index.total(&scope)?;
        total.amount = add_amounts(subtract_amounts(total.amount, reserved), answered.spent);
        total.milliseconds = add_counts(total.milliseconds, answered.milliseconds);
        index.save_total(&scope, total)?;
    }

    // The outcome of a turn is that of its last call, even if an earlier call ends later.
    if turn
        .calls
        .last()
        .is_some_and(|last| last.number == answered.call)
    {
        turn.row.end = Some(answered.end.clone());
    }
    turn.row.spent = add_amounts(turn.row.spent, answered.spent);
    turn.row.milliseconds = add_counts(turn.row.milliseconds, answered.milliseconds);

    index.save_turn(turn)
}

fn find_turn(index: &dyn TurnIndex, session: &SessionId, turn: u64) -> Result<IndexedTurn> {
    index
        .turn(session, turn)?
        .ok_or_else(|| order_error(session, turn, "was not started"))
}

fn find_open_call(turn: &mut IndexedTurn, number: u64) -> Result<&mut IndexedCall> {
    let session = &turn.row.session;
    let turn_number = turn.row.turn;
    let call = turn
        .calls
        .iter_mut()
        .find(|call| call.number == number && !call.answered);
    call.ok_or_else(|| order_error(session, turn_number, &format!("has no open call {number}")))
}

/// Returns the error for an event that is out of order.
fn order_error(session: &SessionId, turn: u64, what: &str) -> Error {
    let message = format!("turn {turn} of session `{session}` {what}");
    Error::new(ErrorKind::LedgerUnusable, message)
        .with_hint("this is a bug in agentd; the step was not recorded")
}

/// Maximum of every count: agents may report any number, and SQLite stores signed 64-bit integers.
const MAX_COUNT: u64 = i64::MAX as u64;

fn clamp_amount(amount: Amount) -> Amount {
    add_amounts(amount, Amount::default())
}

fn add_counts(a: u64, b: u64) -> u64 {
    a.saturating_add(b).min(MAX_COUNT)
}

fn add_amounts(a: Amount, b: Amount) -> Amount {
    Amount {
        tokens: add_counts(a.tokens, b.tokens),
        micro_dollars: add_counts(a.micro_dollars, b.micro_dollars),
    }
}

fn subtract_amounts(a: Amount, b: Amount) -> Amount {
    Amount {
        tokens: a.tokens.saturating_sub(b.tokens),
        micro_dollars: a.micro_dollars.saturating_sub(b.micro_dollars),
    }
}

/// Sums the usage of turns by session, agent and model. Turns without a call are skipped.
pub(super) fn sum_usage(turns: impl Iterator<Item = TurnRow>) -> Vec<UsageRow> {
    let mut rows: BTreeMap<(SessionId, String, Option<String>), UsageRow> = BTreeMap::new();
    for turn in turns.filter(|turn| turn.calls > 0) {
        let key = (turn.session, turn.agent, turn.model);
        let row = rows
            .entry(key)
            .or_insert_with_key(|(session, agent, model)| UsageRow {
                session: session.clone(),
                agent: agent.clone(),
                model: model.clone(),
                turns: 0,
                calls: 0,
                spent: Amount::default(),
                milliseconds: 0,
            });

        row.turns += 1;
        row.calls += turn.calls;
        row.spent = add_amounts(row.spent, turn.spent);
        row.milliseconds = add_counts(row.milliseconds, turn.milliseconds);
    }
    rows.into_values().collect()
}

/// Returns the error for an event that refers to a missing blob.
pub(super) fn missing_blob_error(id: &BlobId) -> Error {
    Error::new(
        ErrorKind::LedgerUnusable,
        format!("blob {id} is missing from the ledger"),
    )
    .with_hint("this is a bug in agentd; the step was not recorded")
}

/// Returns the error for a write under a lease that is void.
pub(super) fn void_lease_error(session: &SessionId) -> Error {
    Error::new(
        ErrorKind::SessionBusy,
        format!("session `{session}` is no longer locked by this process"),
    )
    .with_hint("another process took the session over; `agentd log` shows its turns")
}

/// Converts a time to milliseconds since 1970; negative before it.
pub(super) fn to_millis(time: SystemTime) -> i64 {
    let clamp = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => clamp(after),
        Err(before) => -clamp(before.duration()),
    }
}

/// Converts milliseconds since 1970 to a time; 1970 itself if they are out of range.
pub(super) fn from_millis(millis: i64) -> SystemTime {
    let span = Duration::from_millis(millis.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if millis < 0 {
        epoch.checked_sub(span)
    } else {
        epoch.checked_add(span)
    };
    time.unwrap_or(epoch)
}
