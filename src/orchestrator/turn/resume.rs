//! Sends the recorded prompt of a turn again, byte for byte: to finish the turn, or to replay it with another agent.

use super::active_turn::ActiveTurn;
use super::context::TurnContext;
use super::prepare::{self, PreparedTurn};
use super::record::{CallRecord, TurnRecord};
use super::recover::{recover, with_lease};
use super::report::TurnReport;
use super::session::Session;
use super::site::TurnSite;
use super::take_turn::run_turn;
use crate::agent::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, CallOutcome, Event, Permission, SessionId, State};
use crate::orchestrator::random;
use crate::orchestrator::workspace::check_trust;

/// Finishes the last turn of a session. If the turn has no complete reply, its agent is called again with the same
/// prompt. Returns `None` if the turn was already finished, or if recovery finished it.
///
/// Without `again`, an agent that may have edited files is not called again.
///
/// # Errors
///
/// `NotResumable` if the agent may have edited files and `again` is false, or if the pack has changed since the prompt
/// was sent; and the errors of [`take_turn`](super::take_turn()).
pub fn resume(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    session: &SessionId,
    again: bool,
) -> Result<Option<TurnReport>> {
    with_lease(context, session, |lease| {
        let state = recover(context, lease)?.state;
        let Some(turn) = TurnRecord::last(session, &context.store.events(session)?) else {
            return Ok(None);
        };
        if turn.replied.is_some() {
            return Ok(None);
        }

        let other_workspace = context.workspace.with_pack(&turn.started.pack)?;
        let context = &TurnContext {
            workspace: other_workspace.as_ref().unwrap_or(context.workspace),
            ..*context
        };
        check_resumable(context, driver, &turn, again)?;
        let prepared = prepare_recorded(context, driver, &turn)?;
        let named_session = Some(session).filter(|_| prepared.started.named);
        let site = TurnSite::for_session(context, named_session, &state)?;
        let session = Session::new(context, lease, state);
        let active = ActiveTurn::new(session, &prepared, &site);
        run_turn(active, driver, Vec::new()).map(Some)
    })
}

/// Prepares a recorded turn to be sent again, with the current price of its model.
fn prepare_recorded(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    turn: &TurnRecord,
) -> Result<PreparedTurn> {
    let model = match &turn.started.model {
        Some(id) => Some(context.workspace.catalogue()?.find_or_assume(id)),
        None => None,
    };
    let price = prepare::require_price(context, driver, model.as_ref())?;
    let max_output = model.and_then(|model| model.max_output);
    Ok(PreparedTurn {
        max_output,
        price,
        ..turn.to_prepared(context.store)?
    })
}

/// Returns an error if the agent of a turn must not be called again.
fn check_resumable(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    turn: &TurnRecord,
    again: bool,
) -> Result<()> {
    let name = turn.name();
    if !turn.has_unchanged_pack(context.workspace)? {
        let message = format!(
            "cannot resume {name}: pack `{}` or its template changed after the prompt was sent",
            turn.started.pack
        );
        return Err(Error::new(ErrorKind::NotResumable, message)
            .with_hint("start a new turn with `agentd turn`"));
    }

    let hint = format!(
        "check `git status`, then run `agentd resume {} --again` or start a new turn",
        turn.session
    );
    let has_edited = |call: &CallRecord| {
        call.answered
            .as_ref()
            .is_some_and(|answered| matches!(answered.end, CallOutcome::Edited { .. }))
    };
    if turn.calls.last().is_some_and(has_edited) && !again {
        let message =
            format!("cannot resume {name}: files were changed while its read-only agent ran");
        return Err(Error::new(ErrorKind::NotResumable, message).with_hint(hint));
    }
    if turn.started.permission == Permission::Edit && driver.spends() && !again {
        let message = format!("cannot resume {name}: its agent may already have edited files");
        return Err(Error::new(ErrorKind::NotResumable, message).with_hint(hint));
    }
    if driver.spends() {
        let named_session = Some(&turn.session).filter(|_| turn.started.named);
        let session = turn.started.for_change.as_ref().or(named_session);
        let tree = context.workspace.tree(session);
        check_trust(
            context.workspace,
            &tree,
            &turn.started.agent,
            context.run.trust.covers_definitions(),
        )?;
    }
    Ok(())
}

/// Sends the prompt of a turn to an agent, in a new session with read-only access. The effects of the reply are not
/// carried out.
///
/// # Errors
///
/// Those of [`take_turn`](super::take_turn()).
pub fn replay(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    agent: &AgentName,
    turn: &TurnRecord,
) -> Result<TurnReport> {
    let other_workspace = context.workspace.with_pack(&turn.started.pack)?;
    let context = &TurnContext {
        workspace: other_workspace.as_ref().unwrap_or(context.workspace),
        ..*context
    };
    context.workspace.template(agent, &turn.started.mode)?;
    if driver.spends() {
        check_trust(
            context.workspace,
            &context.workspace.root,
            agent.as_str(),
            context.run.trust.covers_definitions(),
        )?;
    }
    let session = SessionId::new(format!("replay-{}", random::random_name()?))?;
    let opening = vec![Event::Entered {
        mode: turn.started.mode.clone(),
    }];
    with_lease(context, &session, |lease| {
        let mut turn = turn.clone();
        if agent.as_str() != turn.started.agent {
            // The recorded model may not be available to another agent, so that agent uses its own.
            let model = context.workspace.agents()?.model(agent.as_str());
            turn.started.model = model.map(str::to_owned);
        }
        turn.started.permission = Permission::ReadOnly;
        turn.started.commands.clear();

        let mut prepared = prepare_recorded(context, driver, &turn)?;
        agent.as_str().clone_into(&mut prepared.started.agent);
        prepared.started.turn = 1;
        prepared.started.named = false;
        prepared.calls = 0;
        let state = State::default();
        let site = TurnSite::for_session(context, None, &state)?;
        let session = Session::new(context, lease, state);
        run_turn(ActiveTurn::new(session, &prepared, &site), driver, opening)
    })
}
