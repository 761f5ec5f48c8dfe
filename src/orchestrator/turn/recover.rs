//! Leases of sessions, and recovery of interrupted turns.
//!
//! A run that is killed leaves a lease, and possibly a running agent, an unparsed reply, or intended steps that
//! were not run. The next run that takes the session finds that the holder of the lease is dead. It kills the processes
//! of the call, which it finds by their marker, and reads the reply from the files of the call. A complete reply is
//! parsed as if it had just arrived. Intended steps are run again; operations are idempotent. Recovery never calls the
//! agent.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::active_turn::ActiveTurn;
use super::apply_reply::apply_and_run;
use super::call_files::{folder, marker};
use super::context::TurnContext;
use super::document_checks::check_documents;
use super::ledger_text::ledger_text;
use super::progress::ProgressEvent;
use super::read_only::ReadOnlyGuard;
use super::record::{CallRecord, TurnRecord};
use super::reply_reader::ReplyReader;
use super::session::Session;
use super::site::TurnSite;
use super::steps::{refuse_steps, run_steps, stale_reason};
use crate::agent::{self, RecoveredCall};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{
    Amount, CallEnd, CallOutcome, Event, HeldSession, Intent, LeaseHolder, OperationId, Permission,
    ProcessIdentity, Reply, SessionId, State, TurnStart,
};
use crate::ops::{self, Step};
use crate::orchestrator::clock;
use crate::store::{ClaimResult, Lease, LedgerEntry, Store, blob_id};

/// Time without a heartbeat after which a lease holder in another container, or from before a reboot, counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Scope of a recovery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecoveryScope {
    /// Recovers everything.
    Everything,
    /// Does not parse the reply of a change or run its steps: the run that continues the change does that.
    NoSteps,
}

/// Takes the lease of a session, calls `action`, and releases the lease.
///
/// If `action` fails, the unfinished turn is recovered before the lease is released. If that fails too, the lease is
/// passed to a dead process, so that the next run recovers the session.
pub(crate) fn with_lease<T>(
    context: &TurnContext<'_>,
    session: &SessionId,
    action: impl FnOnce(&Lease) -> Result<T>,
) -> Result<T> {
    let lease = claim(context, session)?;
    fail::point("claimed")?;
    let result = action(&lease);

    if let Err(error) = &result
        && error.kind() != ErrorKind::SessionBusy
        && let Err(cause) = recover_without_steps(context, &lease)
    {
        if cause.message() != error.message() {
            log::warn!("cannot recover session `{session}`: {cause:#}");
        }
        // The next run recovers only sessions with a dead holder, so the session must not become free.
        let dead = ProcessIdentity {
            pid: 0,
            started: 0,
            ..agent::this_process()
        };
        let holder = LeaseHolder {
            name: context.run.name.clone(),
            process: dead,
        };
        let over = Some(lease.fence);
        context.store.claim(session, &holder, over, clock::now())?;
        return result;
    }

    let released = context.store.release(&lease);
    fail::point("released")?;
    let value = result?;
    released.map(|()| value)
}

/// Takes the lease of a session that is free or whose holder is dead.
fn claim(context: &TurnContext<'_>, session: &SessionId) -> Result<Lease> {
    let holder = LeaseHolder {
        name: context.run.name.clone(),
        process: agent::this_process(),
    };
    let mut over = None;
    loop {
        match context.store.claim(session, &holder, over, clock::now())? {
            ClaimResult::Granted(lease) => return Ok(lease),
            ClaimResult::Busy(held) if over != Some(held.fence) && is_abandoned(&held) => {
                over = Some(held.fence)
            }
            ClaimResult::Busy(held) => return Err(session_busy(&held)),
        }
    }
}

/// Returns true if the holder of a session is dead. A process in another container or from before a reboot cannot be
/// looked up, so the time of its last heartbeat decides.
fn is_abandoned(held: &HeldSession) -> bool {
    let process = &held.holder.process;
    let this = agent::this_process();
    if process.boot == this.boot && process.namespace == this.namespace {
        return !agent::is_alive(process);
    }
    clock::now()
        .duration_since(held.seen)
        .is_ok_and(|silence| silence > DEAD_AFTER)
}

fn session_busy(held: &HeldSession) -> Error {
    let since = clock::now().duration_since(held.since);
    let seconds = since.unwrap_or_default().as_secs();
    let session = &held.session;
    let holder = &held.holder;
    let message = format!(
        "session `{session}` has been locked by `{}` (pid {}) for {seconds} s",
        holder.name, holder.process.pid
    );
    Error::new(ErrorKind::SessionBusy, message)
        .with_hint("wait for that process, stop it, or use another session")
}

/// Recovers all sessions whose holder is dead. Returns messages for the user, by session.
///
/// # Errors
///
/// Fails if the ledger cannot be read. A session that cannot be recovered is logged and skipped.
pub fn recover_all(context: &TurnContext<'_>) -> Result<Vec<(SessionId, Vec<String>)>> {
    let held = context.store.held()?;
    let abandoned: Vec<HeldSession> = held.into_iter().filter(is_abandoned).collect();
    // For several sessions, the running processes are listed once instead of once per session.
    let running = match abandoned.len() {
        0 | 1 => None,
        _ => agent::marked_calls(),
    };

    let mut all = Vec::new();
    for held in abandoned {
        let session = held.session;
        let recovered = with_lease(context, &session, |lease| {
            recover_from(context, lease, running.as_ref(), RecoveryScope::NoSteps)
        });
        match recovered {
            Ok((done, _)) => all.push((session, done)),
            // Another process recovers the session.
            Err(error) if error.kind() == ErrorKind::SessionBusy => {}
            Err(error) => {
                log::warn!("cannot recover session `{session}`: {error:#}");
            }
        }
    }
    Ok(all)
}

/// Recovers the last turn of a session if it was interrupted, and returns the session.
pub(crate) fn recover<'a>(context: &'a TurnContext<'a>, lease: &'a Lease) -> Result<Session<'a>> {
    let (_, state) = recover_from(context, lease, None, RecoveryScope::Everything)?;
    Ok(Session::new(context, lease, state))
}

/// Like [`recover`], but does not run steps of a change, for callers that do not continue the change.
pub(crate) fn recover_without_steps<'a>(
    context: &'a TurnContext<'a>,
    lease: &'a Lease,
) -> Result<Session<'a>> {
    let (_, state) = recover_from(context, lease, None, RecoveryScope::NoSteps)?;
    Ok(Session::new(context, lease, state))
}

/// Records the remaining steps of a session's last turn as not run, because the change was abandoned.
pub(crate) fn abandon_steps(context: &TurnContext<'_>, lease: &Lease) -> Result<()> {
    let events = context.store.events(&lease.session)?;
    let Some(turn) = TurnRecord::last(&lease.session, &events) else {
        return Ok(());
    };
    let number = turn.started.turn;
    let steps = load_steps(context.store, unsettled_intents(&turn))?;
    let abandoned = steps.into_iter().map(|step| Event::Settled {
        turn: number,
        settlement: step.settled(false, "the change was abandoned".to_owned()),
    });

    let events: Vec<Event> = abandoned.collect();
    let entry = LedgerEntry {
        events: &events,
        ..LedgerEntry::default()
    };
    context.store.commit(lease, &entry, clock::now())
}

/// Recovers the last turn of a session if it was interrupted. `running` contains the markers of all running calls, if
/// they are known. Returns messages for the user, and the state after the recovery.
fn recover_from(
    context: &TurnContext<'_>,
    lease: &Lease,
    running: Option<&BTreeSet<String>>,
    scope: RecoveryScope,
) -> Result<(Vec<String>, State)> {
    let events = context.store.events(&lease.session)?;
    let last = TurnRecord::last(&lease.session, &events);
    if let Some(turn) = &last {
        discard_recorded(context, turn);
    }
    forget_snapshots(context, lease, last.as_ref());

    let Some(mut turn) = last.filter(TurnRecord::is_unfinished) else {
        let state = State::fold(events.iter().map(|(_, event)| event));
        return Ok((Vec::new(), state));
    };

    let mut done = Vec::new();
    end_call(context, lease, &mut turn, running, &mut done)?;
    let state = finish_turn(context, lease, &turn, scope, &mut done)?;
    context.run.report(ProgressEvent::Recovered {
        session: lease.session.clone(),
        what: done.clone(),
    });
    Ok((done, state))
}

/// Parses the reply of an interrupted turn whose calls have ended, or runs its remaining steps.
fn finish_turn(
    context: &TurnContext<'_>,
    lease: &Lease,
    turn: &TurnRecord,
    scope: RecoveryScope,
    done: &mut Vec<String>,
) -> Result<State> {
    let name = turn.name();
    let replies = turn.replies(context.store)?;
    let is_unread = !replies.is_empty() && turn.replied.is_none();
    let other_workspace = match context.workspace.with_pack(&turn.started.pack) {
        Ok(other_workspace) => other_workspace,
        Err(error) if is_unread && is_pack_error(&error) => {
            let reason = error.message();
            done.push(format!("the reply of {name} was not parsed: {reason}"));
            let mut session = Session::load(context, lease)?;
            session.commit(&[unread_reply(turn, reason)], &[])?;
            return Ok(session.state);
        }
        Err(error) => return Err(error),
    };
    let context = &TurnContext {
        workspace: other_workspace.as_ref().unwrap_or(context.workspace),
        ..*context
    };

    let session = Session::load(context, lease)?;
    if session.state.change.is_some() && scope == RecoveryScope::NoSteps {
        let change = &lease.session;
        done.push(format!("finish {name} with `agentd run {change}`"));
        return Ok(session.state);
    }

    let prepared = turn.to_prepared(context.store)?;
    let named_session = Some(&lease.session).filter(|_| prepared.started.named);
    let site = TurnSite::for_session(context, named_session, &session.state)?;
    let mut active = ActiveTurn::new(session, &prepared, &site);
    if is_unread {
        done.push(format!("recovered the reply of {name}"));
        read_recorded_replies(&mut active, turn, &replies)?;
    } else if turn.intents.len() > turn.settlements.len() {
        let steps = load_steps(context.store, unsettled_intents(turn))?;
        if let Some(session) = named_session {
            let edits = steps
                .iter()
                .filter(|step| step.operation == OperationId::FilesEdit);
            let edited = edits.map(|step| step.target.as_str());
            ops::remove_unfinished(&site.tree, session, edited);
        }
        match stale_reason(&active, &steps)? {
            Some(reason) => refuse_steps(&mut active, &steps, &reason)?,
            None => drop(run_steps(&mut active, &steps)?),
        }
        let effects = match steps.len() {
            1 => "1 effect".to_owned(),
            count => format!("{count} effects"),
        };
        done.push(format!("finished {effects} of {name}"));
    }
    Ok(active.session.state)
}

fn is_pack_error(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PackNotFound | ErrorKind::PackInvalid
    )
}

/// Returns the intents of a turn that have no result. Results are recorded in the order of the intents.
fn unsettled_intents(turn: &TurnRecord) -> &[Intent] {
    turn.intents
        .get(turn.settlements.len()..)
        .unwrap_or_default()
}

/// Removes the files of calls whose end is recorded. They contain the agent's output without redaction.
fn discard_recorded(context: &TurnContext<'_>, turn: &TurnRecord) {
    let calls = (1..).zip(&turn.calls);
    for (number, _) in calls.filter(|(_, call)| call.answered.is_some()) {
        let folder = folder(&turn.session, turn.started.turn, number);
        agent::discard(&context.workspace.root.join(folder));
    }
}

/// Detail of a complete reply to a read-only call that is discarded because the snapshot of the working tree is missing.
const NO_SNAPSHOT: &str = "the reply was discarded: the snapshot from before the call is missing, so edits are undetectable";

/// Returns true if the working tree is compared before and after the calls of a turn.
fn is_watched(context: &TurnContext<'_>, started: &TurnStart) -> Result<bool> {
    Ok(started.permission == Permission::ReadOnly
        && context.drivers.find(&started.agent)?.works_in_tree())
}

/// Removes the stored snapshots of calls that have ended. Also removes those of calls that were prepared but not made:
/// the next call of the last turn, and the first call of the turn after it.
fn forget_snapshots(context: &TurnContext<'_>, lease: &Lease, last: Option<&TurnRecord>) {
    let home = &context.workspace.root;
    let forget = |turn, call| {
        let guard = ReadOnlyGuard {
            home,
            root: home,
            session: &lease.session,
            turn,
            call,
            updates: &[],
        };
        guard.forget();
    };

    let turn = last.map_or(0, |last| last.started.turn);
    let calls = last.map_or(&[][..], |last| &last.calls);
    for (number, call) in (1..).zip(calls) {
        if call.answered.is_some() {
            forget(turn, number);
        }
    }
    forget(turn, calls.len() as u64 + 1);
    forget(turn + 1, 1);
}

/// Ends the interrupted call of a turn, if there is one: kills its processes, reads its output from the files of the
/// call, and records its end. The reply is used if it is complete and no files were changed during a read-only call.
fn end_call(
    context: &TurnContext<'_>,
    lease: &Lease,
    turn: &mut TurnRecord,
    running: Option<&BTreeSet<String>>,
    done: &mut Vec<String>,
) -> Result<()> {
    let Some(call) = turn.calls.last().filter(|call| call.answered.is_none()) else {
        return Ok(());
    };
    let root = &context.workspace.root;
    let name = turn.name();
    let number = turn.calls.len() as u64;
    let marker = marker(&call.run, turn.started.turn, number);
    let folder = root.join(folder(&lease.session, turn.started.turn, number));

    let killed = kill_processes(&marker, call.guard.as_ref(), running)?;
    if killed > 0 {
        let processes = match killed {
            1 => "1 running process".to_owned(),
            count => format!("{count} running processes"),
        };
        done.push(format!("killed {processes} of {name}"));
    }

    let RecoveredCall {
        reply,
        milliseconds,
    } = salvage(context, turn, call, &folder, &marker)?;
    let tree = context.workspace.tree(Some(&lease.session));
    let guard = ReadOnlyGuard {
        home: root,
        root: &tree,
        session: &lease.session,
        turn: turn.started.turn,
        call: number,
        updates: context.workspace.updates(&turn.started.mode),
    };
    let mut reply = check_edits(context, &turn.started, &guard, reply, &folder)?;
    reply.text = context.workspace.secrets.redact_reply(&reply.text);

    let is_salvaged = reply.end != CallOutcome::Lost;
    done.push(describe_end(&name, &reply));
    if !is_salvaged {
        done.push(format!(
            "call the agent of {name} again with `agentd resume {}`",
            lease.session
        ));
    }

    let answered = CallEnd {
        turn: turn.started.turn,
        call: number,
        spent: spent_amount(&reply, call.reserved),
        end: reply.end,
        detail: reply.detail,
        reply: blob_id(reply.text.as_bytes()),
        usage: reply.usage,
        milliseconds,
        left_behind: reply.left_behind + killed,
        salvaged: is_salvaged,
    };
    let events = [Event::Answered(Box::new(answered.clone()))];
    let entry = LedgerEntry {
        events: &events,
        blobs: &[reply.text.as_bytes()],
        ..LedgerEntry::default()
    };
    context.store.commit(lease, &entry, clock::now())?;
    if let Some(call) = turn.calls.last_mut() {
        call.answered = Some(answered);
    }

    // Removed only after the commit: until then, these files are the only copy of the reply.
    agent::discard(&folder);
    guard.forget();
    Ok(())
}

/// Kills the processes of a call, and returns their number. `running` contains the markers of all running calls, if
/// known. A call has no processes if its marker is not among them and its guard is dead.
fn kill_processes(
    marker: &str,
    guard: Option<&ProcessIdentity>,
    running: Option<&BTreeSet<String>>,
) -> Result<u64> {
    let is_listed = running.is_none_or(|running| running.contains(marker));
    if is_listed || guard.is_some_and(agent::is_alive) {
        agent::reap(marker, guard)
    } else {
        Ok(0)
    }
}

/// Reads the reply of a call from its files. Without files, the outcome is `Lost`.
fn salvage(
    context: &TurnContext<'_>,
    turn: &TurnRecord,
    call: &CallRecord,
    folder: &Path,
    marker: &str,
) -> Result<RecoveredCall> {
    let agent = &turn.started.agent;
    if let Some(salvaged) = context.drivers.salvage(agent, folder, marker)? {
        require_known_secrets(context, &turn.name(), &call.secrets)?;
        return Ok(salvaged);
    }
    Ok(RecoveredCall {
        reply: Reply {
            end: CallOutcome::Lost,
            ..Reply::default()
        },
        milliseconds: 0,
    })
}

/// Compares the working tree with the snapshot taken before the call. A complete reply to a read-only call whose
/// snapshot is missing gets the outcome `Lost`, because edits cannot be ruled out.
fn check_edits(
    context: &TurnContext<'_>,
    started: &TurnStart,
    guard: &ReadOnlyGuard<'_>,
    reply: Reply,
    folder: &Path,
) -> Result<Reply> {
    if let Some(snapshot) = guard.kept() {
        return guard.after(Some(&snapshot), reply, agent::ended_at(folder));
    }
    if reply.end.is_ok() && is_watched(context, started)? {
        return Ok(Reply {
            end: CallOutcome::Lost,
            detail: NO_SNAPSHOT.to_owned(),
            ..reply
        });
    }
    Ok(reply)
}

/// Describes the end of an interrupted call for the user.
fn describe_end(name: &str, reply: &Reply) -> String {
    if reply.detail == NO_SNAPSHOT {
        return format!("the call of {name} had finished, but {NO_SNAPSHOT}");
    }
    match (&reply.end, reply.text.len()) {
        (CallOutcome::Lost, 0) => format!("the call of {name} is lost"),
        (CallOutcome::Lost, bytes) => {
            format!("the call of {name} is lost; {bytes} bytes of its reply are kept")
        }
        (end, _) => format!("the call of {name} had finished ({})", end.name()),
    }
}

/// Returns the amount that an interrupted call costs in the budgets. Unknown usage is replaced by the reserved amount.
/// The usage of a lost call may be incomplete, so the call costs at least the reserved amount.
fn spent_amount(reply: &Reply, reserved: Amount) -> Amount {
    let tokens = reply.usage.tokens().unwrap_or(reserved.tokens);
    let micro_dollars = reply.usage.micro_dollars;
    let micro_dollars = micro_dollars.unwrap_or(reserved.micro_dollars);
    if reply.end != CallOutcome::Lost {
        return Amount {
            tokens,
            micro_dollars,
        };
    }
    Amount {
        tokens: tokens.max(reserved.tokens),
        micro_dollars: micro_dollars.max(reserved.micro_dollars),
    }
}

/// Returns an error if the output of a call may contain a secret whose value is unknown in this run and therefore
/// cannot be redacted.
fn require_known_secrets(context: &TurnContext<'_>, name: &str, needed: &[String]) -> Result<()> {
    let known: BTreeSet<&str> = context.drivers.secrets.names().collect();
    let unknown: Vec<&str> = needed
        .iter()
        .map(String::as_str)
        .filter(|needed| !known.contains(needed))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }

    let message = format!(
        "cannot redact the reply of {name}: {} is not set in this run",
        unknown.join(", ")
    );
    Err(Error::new(ErrorKind::NotResumable, message).with_hint(
        "set each environment variable, or discard the reply by removing its folder in .agentd/calls",
    ))
}

/// Returns the event for a reply that is not parsed, because its pack cannot be loaded or has changed.
fn unread_reply(turn: &TurnRecord, reason: &str) -> Event {
    Event::Replied {
        turn: turn.started.turn,
        markers: Vec::new(),
        verdict: None,
        unclear: 0,
        fault: Some(format!("the reply was not parsed: {reason}")),
        questions: Vec::new(),
        refused: Vec::new(),
    }
}

/// Parses and applies the recorded replies of a turn, and runs its steps.
fn read_recorded_replies(
    active: &mut ActiveTurn<'_>,
    turn: &TurnRecord,
    replies: &[String],
) -> Result<()> {
    let workspace = active.session.context.workspace;
    let prepared = active.prepared;
    if !turn.has_unchanged_pack(workspace)? {
        let reason = "the pack or its template changed after the prompt was sent";
        return active.commit(&[unread_reply(turn, reason)], &[]);
    }

    let reader = ReplyReader::new(workspace, &prepared.started, &prepared.texts)?;
    let first = replies.first().map_or("", String::as_str);
    let mut response = check_documents(active, reader.read(first, &CallOutcome::Ok))?;
    for answer in replies.iter().skip(1) {
        response = check_documents(active, reader.merge_answer(response, answer))?;
    }
    apply_and_run(active, &reader, response, None).map(drop)
}

/// Loads the steps of intents, with their contents from the ledger.
pub(crate) fn load_steps(store: &dyn Store, intents: &[Intent]) -> Result<Vec<Step>> {
    let step = |intent: &Intent| {
        let content = intent.content.as_ref();
        let content = content.map(|id| ledger_text(store, id)).transpose()?;
        Ok(Step::from_intent(intent, content))
    };
    intents.iter().map(step).collect()
}
