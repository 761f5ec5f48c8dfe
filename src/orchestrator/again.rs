//! Taking a turn once more: the same prompt, byte for byte.

use super::grounds::Grounds;
use super::prepare::{self, Prepared};
use super::recorded::{Recorded, RecordedCall};
use super::trust::check_trust;
use super::turn::{Desk, TurnReport, Turning};
use super::{chance, recover};
use crate::agent::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, End, Event, Mode, Permission, SessionId, State};

/// Brings the last turn of a session to an end, and calls its agent again if it gave no whole reply. `None` if there
/// was nothing left to do. With `again` also if the agent could have edited files.
///
/// # Errors
///
/// `NotResumable` if the agent could have done half of its work, or the pack is not the one of the prompt any more;
/// whatever keeps a turn from being taken.
pub fn resume(
    desk: &Desk<'_>,
    driver: &dyn Driver,
    session: &SessionId,
    again: bool,
) -> Result<Option<TurnReport>> {
    recover::holding(desk, session, |lease| {
        let (_, state) = recover::recover(desk, lease)?;
        let Some(turn) = Recorded::last(session, &desk.store.events(session)?) else {
            return Ok(None);
        };
        if turn.replied.is_some() {
            return Ok(None);
        }
        let other = desk.workspace.with_pack(&turn.started.pack)?;
        let desk = &Desk {
            workspace: other.as_ref().unwrap_or(desk.workspace),
            ..*desk
        };
        check(desk, driver, &turn, again)?;
        let prepared = prepared(desk, driver, &turn)?;
        let grounds = Grounds::of(
            desk,
            Some(session).filter(|_| prepared.started.named),
            &state,
        )?;
        Turning::new(desk, driver, lease, state, &prepared, &grounds)
            .carry_on(Vec::new())
            .map(Some)
    })
}

/// Returns a turn, ready to be sent once more at what its model costs now.
fn prepared(desk: &Desk<'_>, driver: &dyn Driver, turn: &Recorded) -> Result<Prepared> {
    let model = match &turn.started.model {
        Some(id) => Some(desk.workspace.catalogue()?.find_or_assume(id)),
        None => None,
    };
    let price = prepare::price(desk, driver, model.as_ref())?;
    let max_output = model.and_then(|model| model.max_output);
    Ok(Prepared {
        max_output,
        price,
        ..turn.prepared(desk.store)?
    })
}

fn check(desk: &Desk<'_>, driver: &dyn Driver, turn: &Recorded, again: bool) -> Result<()> {
    let name = turn.name();
    if !turn.has_its_pack(desk.workspace)? {
        let message = format!(
            "the pack `{}` has changed since {name} was sent",
            turn.started.pack
        );
        return Err(Error::new(ErrorKind::NotResumable, message).with_hint("take a new turn"));
    }
    let has_edited = |call: &RecordedCall| {
        call.answered
            .as_ref()
            .is_some_and(|answered| matches!(answered.end, End::Edited { .. }))
    };
    if turn.calls.last().is_some_and(has_edited) && !again {
        let message =
            format!("the agent of {name} may only read, and files were changed while it ran");
        return Err(Error::new(ErrorKind::NotResumable, message).with_hint(
            "look at `git status`, then `agentd resume SESSION --again`, or take a new turn",
        ));
    }
    if turn.started.permission == Permission::Edit && driver.spends() && !again {
        let message =
            format!("the agent of {name} could edit files, and may have done half of its work");
        return Err(Error::new(ErrorKind::NotResumable, message).with_hint(
            "look at `git status`, then `agentd resume SESSION --again`, or take a new turn",
        ));
    }
    if driver.spends() {
        let own = Some(&turn.session).filter(|_| turn.started.named);
        let tree = desk
            .workspace
            .tree(turn.started.for_change.as_ref().or(own));
        check_trust(
            desk.workspace,
            &tree,
            &turn.started.agent,
            desk.run.trust.covers_definitions(),
        )?;
    }
    Ok(())
}

/// Sends the prompt of a turn to another agent, as the first turn of a session of its own that no effect follows from.
///
/// # Errors
///
/// Whatever keeps a turn from being taken.
pub fn replay(
    desk: &Desk<'_>,
    driver: &dyn Driver,
    agent: &AgentName,
    turn: &Recorded,
) -> Result<TurnReport> {
    let other = desk.workspace.with_pack(&turn.started.pack)?;
    let desk = &Desk {
        workspace: other.as_ref().unwrap_or(desk.workspace),
        ..*desk
    };
    desk.workspace.template(agent, &turn.started.mode)?;
    if driver.spends() {
        check_trust(
            desk.workspace,
            &desk.workspace.root,
            agent.as_str(),
            desk.run.trust.covers_definitions(),
        )?;
    }
    let session = SessionId::new(format!("replay-{}", chance::word()))?;
    let mode: Mode = turn.started.mode.clone();
    recover::holding(desk, &session, |lease| {
        let mut turn = turn.clone();
        if agent.as_str() != turn.started.agent {
            // The prompt stays as it is; another agent may not know the model that it was written for.
            turn.started.model = desk
                .workspace
                .agents()?
                .model(agent.as_str())
                .map(str::to_owned);
        }
        // Nothing follows from a replay, whatever the turn was allowed to do.
        turn.started.permission = Permission::ReadOnly;
        turn.started.commands.clear();
        let mut prepared = prepared(desk, driver, &turn)?;
        agent.as_str().clone_into(&mut prepared.started.agent);
        prepared.started.turn = 1;
        prepared.started.named = false;
        prepared.calls = 0;
        let opening = vec![Event::Entered { mode }];
        let state = State::default();
        let grounds = Grounds::of(desk, None, &state)?;
        Turning::new(desk, driver, lease, state, &prepared, &grounds).carry_on(opening)
    })
}
