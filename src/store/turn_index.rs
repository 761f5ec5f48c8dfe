//! What the ledger keeps beside events so that lists and budgets need not read them all, and the order events keep.
//!
//! Every store derives it by these rules in the transaction of the events; anything here can be made again from them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::Scope;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    Amount, Answered, BlobId, Budget, Caps, Event, SessionId, Spent, Started, TurnRow, UsageRow,
};

/// A turn and its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    /// The turn on one line.
    pub(super) row: TurnRow,
    /// Its calls, in order.
    pub(super) calls: Vec<Call>,
}

/// A call as budgets count it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Its number in the turn.
    pub(super) number: u64,
    /// The run it belongs to.
    pub(super) run: String,
    /// What is set aside for it.
    pub(super) reserved: Amount,
    /// Whether it came to its end.
    pub(super) answered: bool,
}

/// What a scope has used, as exactly as calls tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    /// What ended calls have spent and open ones have reserved.
    pub(super) amount: Amount,
    /// Turns with a call.
    pub(super) turns: u64,
    /// How long calls took, in milliseconds.
    pub(super) milliseconds: u64,
}

impl Total {
    /// Returns the total as budgets compare it.
    pub(super) fn spent(self) -> Spent {
        Spent {
            amount: self.amount,
            turns: self.turns,
            seconds: self.milliseconds.div_ceil(1_000),
        }
    }
}

/// Where tallies and totals are kept while events are recorded.
pub(super) trait Tallies {
    /// Returns the highest number of a session's turns.
    fn last_turn(&self, session: &SessionId) -> Result<Option<u64>>;
    /// Returns a turn.
    fn tally(&self, session: &SessionId, turn: u64) -> Result<Option<Tally>>;
    /// Keeps a turn, new or changed.
    fn keep_tally(&mut self, tally: Tally) -> Result<()>;
    /// Returns what a scope has used.
    fn total(&self, scope: &Scope<'_>) -> Result<Total>;
    /// Keeps what a scope has used.
    fn keep_total(&mut self, scope: &Scope<'_>, total: Total) -> Result<()>;
}

/// Counts an event.
///
/// # Errors
///
/// `BudgetExhausted` for a call that a budget does not allow, `LedgerUnusable` for an event that cannot follow.
pub(super) fn count(
    tallies: &mut dyn Tallies,
    session: &SessionId,
    event: &Event,
    budget: &Budget,
    at: SystemTime,
) -> Result<()> {
    match event {
        Event::Entered { .. }
        | Event::Described { .. }
        | Event::Opened(_)
        | Event::Decided { .. }
        | Event::Ended { .. } => Ok(()),
        Event::Started(started) => start(tallies, session, started, at),
        Event::Called {
            turn,
            call,
            run,
            reserved,
            ..
        } => {
            let call = Call {
                number: *call,
                run: run.clone(),
                reserved: bounded(*reserved),
                answered: false,
            };
            let tally = find(tallies, session, *turn)?;
            open(tallies, tally, call, budget)
        }
        Event::Launched { turn, call, .. } => {
            find_open(&mut find(tallies, session, *turn)?, *call).map(|_| ())
        }
        Event::Answered(answered) => {
            let tally = find(tallies, session, answered.turn)?;
            close(tallies, tally, answered)
        }
        Event::Replied {
            turn,
            verdict,
            fault,
            ..
        } => {
            let mut tally = find(tallies, session, *turn)?;
            if tally.row.replied {
                return Err(cannot_follow(session, *turn, "has its reply already"));
            }
            tally.row.replied = true;
            tally.row.verdict = *verdict;
            tally.row.fault.clone_from(fault);
            tallies.keep_tally(tally)
        }
        Event::Intended { turn, .. } | Event::Settled { turn, .. } => {
            find(tallies, session, *turn).map(|_| ())
        }
    }
}

fn start(
    tallies: &mut dyn Tallies,
    session: &SessionId,
    started: &Started,
    at: SystemTime,
) -> Result<()> {
    if tallies
        .last_turn(session)?
        .is_some_and(|last| started.turn <= last)
    {
        return Err(cannot_follow(session, started.turn, "was started already"));
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
    tallies.keep_tally(Tally {
        row,
        calls: Vec::new(),
    })
}

fn open(tallies: &mut dyn Tallies, mut tally: Tally, call: Call, budget: &Budget) -> Result<()> {
    let session = tally.row.session.clone();
    if tally
        .calls
        .last()
        .is_some_and(|last| call.number <= last.number)
    {
        let what = format!("has its call {} already", call.number);
        return Err(cannot_follow(&session, tally.row.turn, &what));
    }
    let scopes = [
        (
            Scope::Run(&call.run),
            &budget.run,
            tally.calls.iter().all(|earlier| earlier.run != call.run),
        ),
        (
            Scope::Session(&session),
            &budget.session,
            tally.calls.is_empty(),
        ),
    ];
    for (scope, caps, new_turn) in scopes {
        let mut total = tallies.total(&scope)?;
        check(&scope, caps, total, call.reserved, new_turn)?;
        total.amount = plus(total.amount, call.reserved);
        total.turns = add(total.turns, u64::from(new_turn));
        tallies.keep_total(&scope, total)?;
    }
    tally.row.calls += 1;
    tally.row.end = None;
    tally.calls.push(call);
    tallies.keep_tally(tally)
}

fn check(
    scope: &Scope<'_>,
    caps: &Caps,
    total: Total,
    reserve: Amount,
    new_turn: bool,
) -> Result<()> {
    let Some(words) = caps.exceeded(&total.spent(), reserve, new_turn) else {
        return Ok(());
    };
    let (whose, table) = match scope {
        Scope::Run(_) => ("this run".to_owned(), "[budget.run]"),
        Scope::Session(session) => (format!("the session `{session}`"), "[budget.session]"),
    };
    Err(Error::new(
        ErrorKind::BudgetExhausted,
        format!("the budget of {whose} allows {words}"),
    )
    .with_hint(format!("raise it under {table} in agentd/config.toml")))
}

fn close(tallies: &mut dyn Tallies, mut tally: Tally, answered: &Answered) -> Result<()> {
    let call = find_open(&mut tally, answered.call)?;
    call.answered = true;
    let (run, reserved) = (call.run.clone(), call.reserved);
    let session = tally.row.session.clone();
    for scope in [Scope::Run(&run), Scope::Session(&session)] {
        let mut total = tallies.total(&scope)?;
        total.amount = plus(minus(total.amount, reserved), answered.spent);
        total.milliseconds = add(total.milliseconds, answered.milliseconds);
        tallies.keep_total(&scope, total)?;
    }
    // An earlier call that is settled late does not tell how the turn stands.
    if tally
        .calls
        .last()
        .is_some_and(|last| last.number == answered.call)
    {
        tally.row.end = Some(answered.end.clone());
    }
    tally.row.spent = plus(tally.row.spent, answered.spent);
    tally.row.milliseconds = add(tally.row.milliseconds, answered.milliseconds);
    tallies.keep_tally(tally)
}

fn find(tallies: &dyn Tallies, session: &SessionId, turn: u64) -> Result<Tally> {
    tallies
        .tally(session, turn)?
        .ok_or_else(|| cannot_follow(session, turn, "was not started"))
}

fn find_open(tally: &mut Tally, number: u64) -> Result<&mut Call> {
    let (session, turn) = (&tally.row.session, tally.row.turn);
    let call = tally
        .calls
        .iter_mut()
        .find(|call| call.number == number && !call.answered);
    call.ok_or_else(|| cannot_follow(session, turn, &format!("has no open call {number}")))
}

fn cannot_follow(session: &SessionId, turn: u64, what: &str) -> Error {
    let message = format!("turn {turn} of the session `{session}` {what}");
    Error::new(ErrorKind::LedgerUnusable, message)
        .with_hint("this is a fault of agentd; nothing of the step was recorded")
}

/// The most that is counted of anything. What an agent reports may be any number, and databases have their limits.
const MOST: u64 = i64::MAX as u64;

fn bounded(amount: Amount) -> Amount {
    plus(amount, Amount::default())
}

fn add(a: u64, b: u64) -> u64 {
    a.saturating_add(b).min(MOST)
}

fn plus(a: Amount, b: Amount) -> Amount {
    Amount {
        tokens: add(a.tokens, b.tokens),
        micro_dollars: add(a.micro_dollars, b.micro_dollars),
    }
}

fn minus(a: Amount, b: Amount) -> Amount {
    Amount {
        tokens: a.tokens.saturating_sub(b.tokens),
        micro_dollars: a.micro_dollars.saturating_sub(b.micro_dollars),
    }
}

/// Returns what agents have used in turns. A turn without a call counts for nothing.
pub(super) fn usage_of(turns: impl Iterator<Item = TurnRow>) -> Vec<UsageRow> {
    let mut rows: BTreeMap<(SessionId, String, Option<String>), UsageRow> = BTreeMap::new();
    for turn in turns.filter(|turn| turn.calls > 0) {
        let key = (turn.session, turn.agent, turn.model);
        let row = rows
            .entry(key)
            .or_insert_with_key(|(session, agent, model)| {
                let (session, agent, model) = (session.clone(), agent.clone(), model.clone());
                UsageRow {
                    session,
                    agent,
                    model,
                    turns: 0,
                    calls: 0,
                    spent: Amount::default(),
                    milliseconds: 0,
                }
            });
        row.turns += 1;
        row.calls += turn.calls;
        row.spent = plus(row.spent, turn.spent);
        row.milliseconds = add(row.milliseconds, turn.milliseconds);
    }
    rows.into_values().collect()
}

/// Returns the error for a text that an event names and the ledger lacks.
pub(super) fn missing(id: &BlobId) -> Error {
    Error::new(
        ErrorKind::LedgerUnusable,
        format!("the text {id} is named, but it is not in the ledger"),
    )
    .with_hint("this is a fault of agentd; nothing of the step was recorded")
}

/// Returns the error for a lease that is void.
pub(super) fn void(session: &SessionId) -> Error {
    Error::new(
        ErrorKind::SessionBusy,
        format!("the session `{session}` is no longer held by this process"),
    )
    .with_hint("another one took it over; `agentd log` shows what it did")
}

/// Returns a time as the ledger keeps it: milliseconds since 1970.
pub(super) fn to_millis(time: SystemTime) -> i64 {
    let clamp = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => clamp(after),
        Err(before) => -clamp(before.duration()),
    }
}

/// Returns the time of a number of milliseconds since 1970; 1970 itself for one that no clock can show.
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
