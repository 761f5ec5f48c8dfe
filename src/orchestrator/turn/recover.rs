//! Holding a session, and finishing what an interrupted run left in it: processes, a reply, steps.
//!
//! A run that is killed leaves a lease, and perhaps a running agent, an unread reply or steps that were intended and not
//! run. The next run that takes the session finds its holder dead, kills the processes of the call by their marker, and
//! salvages the reply from the files of the call. A reply that is whole is read as if it had just arrived, and intended
//! steps are run again; operations leave what is done already. Nothing is asked of the agent a second time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::active_turn::ActiveTurn;
use super::apply_reply::apply_and_run;
use super::call_files::{folder, marker};
use super::context::TurnContext;
use super::document_checks::check_documents;
use super::ledger_text::ledger_text;
use super::progress::ProgressEvent;
use super::read_only::ReadOnlyGuard;
use super::record::TurnRecord;
use super::reply_reader::ReplyReader;
use super::session::Session;
use super::site::TurnSite;
use super::steps::{refuse_steps, run_steps, stale_reason};
use crate::agent::{self, Salvaged};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{
    Amount, Answered, CallOutcome, Event, HeldSession, Holder, Intent, OperationId, Permission,
    Process, Reply, SessionId, Started, State,
};
use crate::ops::{self, Step};
use crate::orchestrator::clock;
use crate::store::{Claim, Entry, Lease, Store, blob_id};

/// Time without a heartbeat after which a holder in another container or from before a reboot counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Which left-over work a recovery does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Everything.
    Everything,
    /// Everything but the steps of a change: these are left to the run that continues the change.
    NoSteps,
}

/// Takes the lease of a session, runs `work`, and releases the lease, whatever came of it.
pub(crate) fn with_lease<T>(
    context: &TurnContext<'_>,
    session: &SessionId,
    work: impl FnOnce(&Lease) -> Result<T>,
) -> Result<T> {
    let lease = claim(context, session)?;
    fail::point("claimed")?;
    let result = work(&lease);

    if let Err(error) = &result
        && error.kind() != ErrorKind::SessionBusy
        && let Err(cause) = recover_without_steps(context, &lease)
    {
        if cause.message() != error.message() {
            log::warn!("cannot finish the interrupted work of `{session}`: {cause:#}");
        }
        // Nobody looks for interrupted work in a session that is free, so it is left to a dead holder.
        let dead = Process {
            pid: 0,
            started: 0,
            ..agent::this_process()
        };
        let holder = Holder {
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

/// Takes the lease of a session that is free, or whose holder is dead.
fn claim(context: &TurnContext<'_>, session: &SessionId) -> Result<Lease> {
    let holder = Holder {
        name: context.run.name.clone(),
        process: agent::this_process(),
    };
    let mut over = None;
    loop {
        match context.store.claim(session, &holder, over, clock::now())? {
            Claim::Granted(lease) => return Ok(lease),
            Claim::Busy(held) if over != Some(held.fence) && is_abandoned(&held) => {
                over = Some(held.fence)
            }
            Claim::Busy(held) => return Err(busy(&held)),
        }
    }
}

/// Returns true if the holder of a session is dead. A process of another boot or container cannot be looked up, so its
/// heartbeat decides.
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

fn busy(held: &HeldSession) -> Error {
    let since = clock::now().duration_since(held.since);
    let seconds = since.unwrap_or_default().as_secs();
    let session = &held.session;
    let holder = &held.holder;
    let message = format!(
        "`{session}` has been held by `{}` (process {}) for {seconds} s",
        holder.name, holder.process.pid
    );
    Error::new(ErrorKind::SessionBusy, message)
        .with_hint("wait for it, stop it, or work on another session")
}

/// Finishes what dead runs have left in any session. Returns what was found and done, by session.
///
/// # Errors
///
/// Those of the ledger. A session that cannot be finished is logged, and left as it is.
pub fn recover_all(context: &TurnContext<'_>) -> Result<Vec<(SessionId, Vec<String>)>> {
    let held = context.store.held()?;
    let abandoned: Vec<HeldSession> = held.into_iter().filter(is_abandoned).collect();
    // Processes are listed once: of many sessions few have left a running one.
    let running = match abandoned.len() {
        0 | 1 => None,
        _ => agent::marked_calls(),
    };

    let mut all = Vec::new();
    for held in abandoned {
        let session = held.session;
        let recovered = with_lease(context, &session, |lease| {
            recover_from(context, lease, running.as_ref(), Scope::NoSteps)
        });
        match recovered {
            Ok((done, _)) => all.push((session, done)),
            // Another process was faster.
            Err(error) if error.kind() == ErrorKind::SessionBusy => {}
            Err(error) => {
                log::warn!("cannot finish the interrupted work of `{session}`: {error:#}");
            }
        }
    }
    Ok(all)
}

/// Finishes what an interrupted run left in a session, and returns the session. There is nothing to do if the last run
/// ended normally.
pub(crate) fn recover<'a>(context: &'a TurnContext<'a>, lease: &'a Lease) -> Result<Session<'a>> {
    let (_, state) = recover_from(context, lease, None, Scope::Everything)?;
    Ok(Session::new(context, lease, state))
}

/// Like [`recover`], for a caller that does not continue the session: steps of a change stay to be run.
pub(crate) fn recover_without_steps<'a>(
    context: &'a TurnContext<'a>,
    lease: &'a Lease,
) -> Result<Session<'a>> {
    let (_, state) = recover_from(context, lease, None, Scope::NoSteps)?;
    Ok(Session::new(context, lease, state))
}

/// Records that the steps which are left of a session's last turn will not be run.
pub(crate) fn abandon_steps(context: &TurnContext<'_>, lease: &Lease) -> Result<()> {
    let events = context.store.events(&lease.session)?;
    let Some(turn) = TurnRecord::last(&lease.session, &events) else {
        return Ok(());
    };
    let number = turn.started.turn;
    let steps = steps_of(context.store, unsettled_intents(&turn))?;
    let abandoned = steps.into_iter().map(|step| Event::Settled {
        turn: number,
        settlement: step.settled(false, "the change was given up".to_owned()),
    });

    let events: Vec<Event> = abandoned.collect();
    let entry = Entry {
        events: &events,
        ..Entry::default()
    };
    context.store.commit(lease, &entry, clock::now())
}

/// Finishes what an interrupted run left in a session. `running` are the markers of all running calls, if they are
/// known. Returns what was found and done, and the state afterwards.
fn recover_from(
    context: &TurnContext<'_>,
    lease: &Lease,
    running: Option<&BTreeSet<String>>,
    scope: Scope,
) -> Result<(Vec<String>, State)> {
    let events = context.store.events(&lease.session)?;
    let last = TurnRecord::last(&lease.session, &events);
    last.iter().for_each(|turn| discard_recorded(context, turn));
    forget_trees(context, lease, last.as_ref());
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

/// Reads the reply of a turn whose call has ended, or runs the steps that are left of it.
fn finish_turn(
    context: &TurnContext<'_>,
    lease: &Lease,
    turn: &TurnRecord,
    scope: Scope,
    done: &mut Vec<String>,
) -> Result<State> {
    let name = turn.name();
    let replies = turn.replies(context.store)?;
    let is_unread = !replies.is_empty() && turn.replied.is_none();
    let other = match context.workspace.with_pack(&turn.started.pack) {
        Ok(other) => other,
        Err(error) if is_unread && is_missing_pack(&error) => {
            done.push(format!("the reply of {name} is kept; its pack is gone"));
            let mut session = Session::load(context, lease)?;
            session.commit(&[not_read(turn)], &[])?;
            return Ok(session.state);
        }
        Err(error) => return Err(error),
    };
    let context = &TurnContext {
        workspace: other.as_ref().unwrap_or(context.workspace),
        ..*context
    };

    let session = Session::load(context, lease)?;
    if session.state.change.is_some() && scope == Scope::NoSteps {
        let change = &lease.session;
        done.push(format!(
            "`agentd run {change}` goes on with what is left of {name}"
        ));
        return Ok(session.state);
    }

    let prepared = turn.prepared(context.store)?;
    let named = Some(&lease.session).filter(|_| prepared.started.named);
    let site = TurnSite::for_session(context, named, &session.state)?;
    let mut active = ActiveTurn::new(session, &prepared, &site);
    if is_unread {
        done.push(format!("the reply of {name} was there and is read now"));
        read_late(&mut active, turn, &replies)?;
    } else if turn.intents.len() > turn.settlements.len() {
        let steps = steps_of(context.store, unsettled_intents(turn))?;
        if let Some(session) = named {
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
        done.push(format!("{} effects of {name} are settled now", steps.len()));
    }
    Ok(active.session.state)
}

fn is_missing_pack(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PackNotFound | ErrorKind::PackInvalid
    )
}

/// Returns the intents of a turn that have no result; results are recorded in the order of the intents.
fn unsettled_intents(turn: &TurnRecord) -> &[Intent] {
    turn.intents
        .get(turn.settlements.len()..)
        .unwrap_or_default()
}

/// Removes the files of calls that the ledger has: they hold the agent's output without redaction.
fn discard_recorded(context: &TurnContext<'_>, turn: &TurnRecord) {
    for (call, _) in (1..)
        .zip(&turn.calls)
        .filter(|(_, call)| call.answered.is_some())
    {
        agent::discard(&context.workspace.root.join(folder(
            &turn.session,
            turn.started.turn,
            call,
        )));
    }
}

/// Detail of a reply that cannot count.
const UNWATCHED: &str = "what the work tree held before its call is not known any more";

/// Returns true if the worktree is compared before and after the calls of a turn.
fn is_watched(context: &TurnContext<'_>, started: &Started) -> Result<bool> {
    Ok(started.permission == Permission::ReadOnly
        && context.drivers.find(&started.agent)?.works_in_tree())
}

/// Removes snapshots of the worktree for calls that have ended, or were never made.
fn forget_trees(context: &TurnContext<'_>, lease: &Lease, last: Option<&TurnRecord>) {
    let home = &context.workspace.root;
    let watched = |turn, call| ReadOnlyGuard {
        home,
        root: home,
        session: &lease.session,
        turn,
        call,
        updates: &[],
    };
    let forget = |turn, call| watched(turn, call).forget();
    let turn = last.map_or(0, |last| last.started.turn);
    let calls = last.map_or(&[][..], |last| &last.calls);
    for (call, _) in (1..).zip(calls).filter(|(_, call)| call.answered.is_some()) {
        forget(turn, call);
    }
    forget(turn, calls.len() as u64 + 1);
    forget(turn + 1, 1);
}

/// Ends a call that no process waits for any more: kills its processes, and records its output, which counts if it is
/// whole.
fn end_call(
    context: &TurnContext<'_>,
    lease: &Lease,
    recorded: &mut TurnRecord,
    running: Option<&BTreeSet<String>>,
    what: &mut Vec<String>,
) -> Result<()> {
    let name = recorded.name();
    let (turn, call) = (recorded.started.turn, recorded.calls.len() as u64);
    let Some(last) = recorded
        .calls
        .last_mut()
        .filter(|call| call.answered.is_none())
    else {
        return Ok(());
    };
    let marker = marker(&last.run, turn, call);
    let guard = last.guard.as_ref();
    let may_run = running.is_none_or(|running| running.contains(&marker))
        || guard.is_some_and(agent::is_alive);
    let killed = if may_run {
        agent::reap(&marker, guard)?
    } else {
        0
    };
    if killed > 0 {
        what.push(format!(
            "{killed} processes of {name} were still running and are ended"
        ));
    }
    let folder = context
        .workspace
        .root
        .join(folder(&lease.session, turn, call));
    let found = context
        .drivers
        .salvage(&recorded.started.agent, &folder, &marker)?;
    if found.is_some() {
        knows_secrets(context, &name, &last.secrets)?;
    }
    let lost = || Salvaged {
        reply: Reply {
            end: CallOutcome::Lost,
            ..Reply::default()
        },
        milliseconds: 0,
    };
    let Salvaged {
        reply,
        milliseconds,
    } = found.unwrap_or_else(lost);
    let updates = context.workspace.updates(&recorded.started.mode);
    let (home, tree) = (
        &context.workspace.root,
        context.workspace.tree(Some(&lease.session)),
    );
    let watched = ReadOnlyGuard {
        home,
        root: &tree,
        session: &lease.session,
        turn,
        call,
        updates,
    };
    let reply = match watched.kept() {
        Some(census) => watched.after(Some(&census), reply, agent::ended_at(&folder))?,
        // Without it nobody can tell what the agent has done.
        None if reply.end.is_ok() && is_watched(context, &recorded.started)? => Reply {
            end: CallOutcome::Lost,
            detail: UNWATCHED.to_owned(),
            ..reply
        },
        None => reply,
    };
    let text = context.workspace.secrets.redact_reply(&reply.text);
    let reply = Reply { text, ..reply };
    let salvaged = reply.end != CallOutcome::Lost;
    what.push(match (salvaged, reply.text.len()) {
        (true, _) => format!(
            "the call of {name} had come to its end ({})",
            reply.end.name()
        ),
        (false, 0) => format!("the call of {name} is lost"),
        (false, bytes) => {
            format!("the call of {name} is lost, and the {bytes} bytes it had said are kept")
        }
    });
    if !salvaged {
        what.push(format!(
            "`agentd resume {}` calls the agent of {name} again",
            lease.session
        ));
    }
    // What a lost call has used is not known, so what was set aside counts in full.
    let least = if salvaged {
        Amount::default()
    } else {
        last.reserved
    };
    let spent = Amount {
        tokens: reply
            .usage
            .tokens()
            .unwrap_or(last.reserved.tokens)
            .max(least.tokens),
        micro_dollars: reply
            .usage
            .micro_dollars
            .unwrap_or(last.reserved.micro_dollars)
            .max(least.micro_dollars),
    };
    let answered = Answered {
        turn,
        call,
        end: reply.end,
        detail: reply.detail,
        reply: blob_id(reply.text.as_bytes()),
        usage: reply.usage,
        spent,
        milliseconds,
        left_behind: reply.left_behind + killed,
        salvaged,
    };
    last.answered = Some(answered.clone());
    let events = [Event::Answered(Box::new(answered))];
    let entry = Entry {
        events: &events,
        blobs: &[reply.text.as_bytes()],
        ..Entry::default()
    };
    context.store.commit(lease, &entry, clock::now())?;
    agent::discard(&folder);
    watched.forget();
    Ok(())
}

/// Refuses to keep what a call has said if it may hold secrets that are not known here.
fn knows_secrets(context: &TurnContext<'_>, name: &str, needed: &[String]) -> Result<()> {
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
        "what {name} has said may hold the value of {}, not set here",
        unknown.join(", ")
    );
    Err(Error::new(ErrorKind::NotResumable, message).with_hint(
        "resume where it is set, or give the reply up: remove its folder in .agentd/calls",
    ))
}

/// Returns what is recorded of a reply that cannot be read as it was asked for.
fn not_read(turn: &TurnRecord) -> Event {
    let fault =
        "the pack has changed since the prompt was sent, so the reply was not read".to_owned();
    let turn = turn.started.turn;
    Event::Replied {
        turn,
        markers: Vec::new(),
        verdict: None,
        unclear: 0,
        fault: Some(fault),
        questions: Vec::new(),
    }
}

/// Reads replies that are recorded and were not read, and runs the steps that follow.
fn read_late(active: &mut ActiveTurn<'_>, turn: &TurnRecord, replies: &[String]) -> Result<()> {
    let workspace = active.session.context.workspace;
    let prepared = active.prepared;
    if !turn.has_its_pack(workspace)? {
        return active.commit(&[not_read(turn)], &[]);
    }

    let reader = ReplyReader::new(workspace, &prepared.started, &prepared.texts)?;
    let first = replies.first().map_or("", String::as_str);
    let mut response = check_documents(active, reader.read(first, &CallOutcome::Ok))?;
    for answer in replies.iter().skip(1) {
        response = check_documents(active, reader.merged(response, answer))?;
    }
    apply_and_run(active, &reader, response, None).map(drop)
}

/// Returns the steps of intents, with their texts.
pub(crate) fn steps_of(store: &dyn Store, intents: &[Intent]) -> Result<Vec<Step>> {
    let step = |intent: &Intent| {
        let content = intent.content.as_ref();
        let content = content.map(|id| ledger_text(store, id)).transpose()?;
        Ok(Step::from_intent(intent, content))
    };
    intents.iter().map(step).collect()
}
