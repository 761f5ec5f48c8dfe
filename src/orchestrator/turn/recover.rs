//! Holding a session, and bringing to an end what an earlier run has left: its processes, its reply, its effects.

use std::collections::BTreeSet;
use std::time::Duration;

use super::call::{folder, marker};
use super::progress::ProgressEvent;
use super::read_only::ReadOnlyGuard;
use super::record::{TurnRecord, text};
use super::reply_reader::ReplyReader;
use super::site::TurnSite;
use super::{ActiveTurn, TurnContext};
use crate::agent::{self, Echo, Salvaged};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{
    Amount, Answered, CallOutcome, Event, Held, Holder, Intent, Permission, Process, Reply,
    SessionId, Started, State,
};
use crate::ops::{self, Step};
use crate::orchestrator::clock;
use crate::store::{Claim, Entry, Lease, Store, blob_id};

/// How long a holder whose process cannot be seen may be silent before it counts as gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Takes a session, does something with it, and gives it back, whatever came of it.
pub(crate) fn holding<T>(
    context: &TurnContext<'_>,
    session: &SessionId,
    work: impl FnOnce(&Lease) -> Result<T>,
) -> Result<T> {
    let lease = claim(context, session)?;
    fail::point("claimed")?;
    let result = work(&lease);
    if let Err(error) = &result
        && error.kind() != ErrorKind::SessionBusy
        && let Err(cause) = look_after(context, &lease)
    {
        if cause.message() != error.message() {
            log::warn!("`{session}` cannot be brought to an end: {cause:#}");
        }
        // Nobody looks for what was begun once the session is given back, so it is left to one who is gone.
        let gone = Process {
            pid: 0,
            started: 0,
            ..agent::this_process()
        };
        let holder = Holder {
            name: context.run.name.clone(),
            process: gone,
        };
        context
            .store
            .claim(session, &holder, Some(lease.fence), clock::now())?;
        return result;
    }
    let released = context.store.release(&lease);
    fail::point("released")?;
    let value = result?;
    released.map(|()| value)
}

/// Takes a session: a free one, or one whose holder is gone.
fn claim(context: &TurnContext<'_>, session: &SessionId) -> Result<Lease> {
    let holder = Holder {
        name: context.run.name.clone(),
        process: agent::this_process(),
    };
    let mut over = None;
    loop {
        match context.store.claim(session, &holder, over, clock::now())? {
            Claim::Granted(lease) => return Ok(lease),
            Claim::Busy(held) if over != Some(held.fence) && is_gone(&held) => {
                over = Some(held.fence)
            }
            Claim::Busy(held) => return Err(busy(&held)),
        }
    }
}

/// Tells whether the holder of a session is gone: by its process, or, if that is of another boot or container, by its
/// silence.
fn is_gone(held: &Held) -> bool {
    let (process, this) = (&held.holder.process, agent::this_process());
    if (&process.boot, &process.namespace) == (&this.boot, &this.namespace) {
        return !agent::is_alive(process);
    }
    clock::now()
        .duration_since(held.seen)
        .is_ok_and(|silence| silence > SILENCE)
}

fn busy(held: &Held) -> Error {
    let seconds = clock::now()
        .duration_since(held.since)
        .unwrap_or_default()
        .as_secs();
    let Held {
        session, holder, ..
    } = held;
    let message = format!(
        "`{session}` has been held by `{}` (process {}) for {seconds} s",
        holder.name, holder.process.pid
    );
    Error::new(ErrorKind::SessionBusy, message)
        .with_hint("wait for it, stop it, or work on another session")
}

/// Returns what is true of a session now.
fn state(context: &TurnContext<'_>, lease: &Lease) -> Result<State> {
    let events = context.store.events(&lease.session)?;
    Ok(State::fold(events.iter().map(|(_, event)| event)))
}

/// Brings to an end what runs that are gone have left in any session. Returns what was found and done.
///
/// # Errors
///
/// Those of the ledger. A session that cannot be brought to an end is told of, and left as it is.
pub fn recover_all(context: &TurnContext<'_>) -> Result<Vec<(SessionId, Vec<String>)>> {
    let mut all = Vec::new();
    let held: Vec<Held> = context.store.held()?.into_iter().filter(is_gone).collect();
    // Looked for once: of many sessions few have left something that runs.
    let running = if held.len() > 1 {
        agent::marked_calls()
    } else {
        None
    };
    for held in held {
        match holding(context, &held.session, |lease| {
            recover_from(context, lease, running.as_ref(), false)
        }) {
            Ok((what, _)) => all.push((held.session, what)),
            // Someone else may have been quicker.
            Err(error) if error.kind() == ErrorKind::SessionBusy => {}
            Err(error) => log::warn!("`{}` cannot be brought to an end: {error:#}", held.session),
        }
    }
    Ok(all)
}

/// Brings to an end what an earlier run has left in a session: nothing, if that run came to its own end. Returns what
/// was found and done, and what is true of the session then.
pub(crate) fn recover(context: &TurnContext<'_>, lease: &Lease) -> Result<(Vec<String>, State)> {
    recover_from(context, lease, None, true)
}

/// The same for one who does not lead the session on: the steps of a change that are left to be done stay so.
pub(crate) fn look_after(context: &TurnContext<'_>, lease: &Lease) -> Result<(Vec<String>, State)> {
    recover_from(context, lease, None, false)
}

/// Records that nothing of what is left of a session's last turn will be done.
pub(crate) fn give_up(context: &TurnContext<'_>, lease: &Lease) -> Result<()> {
    let events = context.store.events(&lease.session)?;
    let Some(turn) = TurnRecord::last(&lease.session, &events) else {
        return Ok(());
    };
    let left = turn
        .intents
        .get(turn.settlements.len()..)
        .unwrap_or_default();
    let number = turn.started.turn;
    let given_up = planned(context.store, left)?.into_iter().map(|planned| {
        let settlement = planned.settled(false, "the change was given up".to_owned());
        Event::Settled {
            turn: number,
            settlement,
        }
    });
    let events: Vec<Event> = given_up.collect();
    context.store.commit(
        lease,
        &Entry {
            events: &events,
            ..Entry::default()
        },
        clock::now(),
    )
}

/// The same, where the markers of all calls that run are known, and it is said who asks.
fn recover_from(
    context: &TurnContext<'_>,
    lease: &Lease,
    running: Option<&BTreeSet<String>>,
    leads: bool,
) -> Result<(Vec<String>, State)> {
    let events = context.store.events(&lease.session)?;
    let last = TurnRecord::last(&lease.session, &events);
    last.iter().for_each(|turn| discard_recorded(context, turn));
    forget_trees(context, lease, last.as_ref());
    let Some(mut turn) = last.filter(TurnRecord::is_unfinished) else {
        return Ok((
            Vec::new(),
            State::fold(events.iter().map(|(_, event)| event)),
        ));
    };
    let mut what = Vec::new();
    end_call(context, lease, &mut turn, running, &mut what)?;
    let replies = turn.replies(context.store)?;
    let unread = !replies.is_empty() && turn.replied.is_none();
    let other = match context.workspace.with_pack(&turn.started.pack) {
        Ok(other) => other,
        Err(error)
            if unread
                && matches!(
                    error.kind(),
                    ErrorKind::PackNotFound | ErrorKind::PackInvalid
                ) =>
        {
            what.push(format!(
                "the reply of {} is kept; its pack is gone",
                turn.name()
            ));
            context.store.commit(
                lease,
                &Entry {
                    events: &[not_read(&turn)],
                    ..Entry::default()
                },
                clock::now(),
            )?;
            context.run.tell(ProgressEvent::Recovered {
                session: lease.session.clone(),
                what: what.clone(),
            });
            return Ok((what, state(context, lease)?));
        }
        Err(error) => return Err(error),
    };
    let context = &TurnContext {
        workspace: other.as_ref().unwrap_or(context.workspace),
        ..*context
    };
    let prepared = turn.prepared(context.store)?;
    let state = state(context, lease)?;
    if state.change.is_some() && !leads {
        what.push(format!(
            "`agentd run {}` goes on with what is left of {}",
            lease.session,
            turn.name()
        ));
        context.run.tell(ProgressEvent::Recovered {
            session: lease.session.clone(),
            what: what.clone(),
        });
        return Ok((what, state));
    }
    let session = Some(&lease.session).filter(|_| prepared.started.named);
    let grounds = TurnSite::of(context, session, &state)?;
    let mut turning = ActiveTurn::new(context, &Echo, lease, state, &prepared, &grounds);
    if unread {
        what.push(format!(
            "the reply of {} was there and is read now",
            turn.name()
        ));
        turning.read_late(&turn, &replies)?;
    } else if turn.intents.len() > turn.settlements.len() {
        // Those that are settled were recorded in the same order.
        let left = turn
            .intents
            .get(turn.settlements.len()..)
            .unwrap_or_default();
        let planned = planned(context.store, left)?;
        ops::sweep(&turning.site(&turning.state), &planned);
        match turning.stale(&planned)? {
            Some(why) => turning.refuse_all(&planned, &why)?,
            None => drop(turning.settle(&planned)?),
        }
        what.push(format!(
            "{} effects of {} are settled now",
            planned.len(),
            turn.name()
        ));
    }
    context.run.tell(ProgressEvent::Recovered {
        session: lease.session.clone(),
        what: what.clone(),
    });
    Ok((what, turning.state))
}

/// Removes the files of calls that the ledger has all of: they hold what an agent said as it said it.
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

/// What is told of a reply that cannot count.
const UNWATCHED: &str = "what the work tree held before its call is not known any more";

/// Tells whether the work tree is compared around the calls of a turn.
fn is_watched(context: &TurnContext<'_>, started: &Started) -> Result<bool> {
    Ok(started.permission == Permission::ReadOnly
        && context.drivers.find(&started.agent)?.works_in_tree())
}

/// Removes what was kept of the work tree for calls that are over, or were never made.
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

/// Ends a call that nobody waits for any more, its processes with it; what it has said is kept, and counts if it is whole.
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
    let text = context
        .workspace
        .secrets
        .redact_markup(&reply.text)
        .into_owned();
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

impl ActiveTurn<'_> {
    /// Reads replies that are recorded and were not read, and does what follows.
    fn read_late(&mut self, turn: &TurnRecord, replies: &[String]) -> Result<()> {
        let prepared = self.prepared;
        if !turn.has_its_pack(self.context.workspace)? {
            return self.commit(&[not_read(turn)], &[]);
        }
        let reading = ReplyReader::of(self.context.workspace, &prepared.started, &prepared.texts)?;
        let mut response = self
            .checked(reading.read(replies.first().map_or("", String::as_str), &CallOutcome::Ok))?;
        for answer in replies.iter().skip(1) {
            response = self.checked(reading.merged(response, answer))?;
        }
        self.decide(&reading, response, None, None).map(|_| ())
    }
}

/// Returns what was intended, as it was decided.
pub(crate) fn planned(store: &dyn Store, intents: &[Intent]) -> Result<Vec<Step>> {
    let planned = |intent: &Intent| {
        let Intent {
            operation,
            target,
            content,
            before,
            refused,
        } = intent.clone();
        let content = content.map(|content| text(store, &content)).transpose()?;
        Ok(Step {
            operation,
            target,
            content,
            before,
            refused,
        })
    };
    intents.iter().map(planned).collect()
}
