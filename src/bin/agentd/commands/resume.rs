//! `agentd resume` and `agentd replay`: bringing turns to an end, and taking them once more.

use agentd::agent;
use agentd::models::{AgentName, SessionId, State};
use agentd::orchestrator::{TurnRecord, replay, resume};
use agentd::store::{SqliteStore, Store};
use agentd::{Error, ErrorKind};
use serde_json::json;

use super::run::ChangeRunner;
use super::session::{CliSession, ledger, no_turn};
use super::show::workspace;
use crate::args::{Args, ReplayArgs, ResumeArgs, RunOptions};
use crate::terminal::{self, Outcome};
use crate::{exit, project};

pub(super) fn resume_turn(args: &Args, given: &ResumeArgs) -> Outcome {
    let Some(session) = &given.session else {
        return resume_all(args, given);
    };
    let session = SessionId::new(session.as_str())?;
    let store = ledger(args)?;
    if store.events(&session)?.is_empty() {
        return Err(no_turn(&session).into());
    }
    let state = State::fold(store.events(&session)?.iter().map(|(_, event)| event));
    if state.change.is_some() {
        let (send, json) = (given.send.clone(), given.json);
        // An agent edits only the work tree of the change, so that nothing of anyone else's can be half done.
        let options = RunOptions {
            agent: None,
            model: None,
            auto: false,
            yes: false,
            send,
            json,
        };
        return ChangeRunner::open(args, "agentd resume", &session, None, &options)?.run();
    }
    let recorded = TurnRecord::find(&store, session.as_str())?;
    let started = &recorded.started;
    let agent = AgentName::new(started.agent.as_str())?;
    let workspace = workspace(args, &recorded)?;
    let cli = CliSession::open(args, "agentd resume", workspace, &given.send, given.json)?;
    if recorded.replied.is_some() && !recorded.is_unfinished() {
        terminal::note(format_args!(
            "nothing is left to do: {} has its reply",
            recorded.name()
        ));
        return cli.run(|_| Ok(None));
    }
    let driver = cli.driver(args, &agent)?;
    cli.run(|context| resume(context, driver.as_ref(), &session, given.again))
}

/// Brings to an end what earlier runs have left in any session; where no turn was taken there is nothing to do.
fn resume_all(args: &Args, given: &ResumeArgs) -> Outcome {
    let workspace = project::workspace(args, None)?;
    project::check_ledger_place(&workspace.root)?;
    let held = match SqliteStore::open_existing(&workspace.root)? {
        Some(store) => store.held()?,
        None => Vec::new(),
    };
    if held.is_empty() {
        terminal::note("nothing is left to do");
        return Ok(exit::OK);
    }
    for held in held
        .iter()
        .filter(|held| agent::is_alive(&held.holder.process))
    {
        let (session, holder) = (&held.session, &held.holder);
        terminal::note(format_args!(
            "`{session}` is held by `{}` (process {})",
            holder.name, holder.process.pid
        ));
    }
    CliSession::open(args, "agentd resume", workspace, &given.send, given.json)?.run(|_| Ok(None))
}

pub(super) fn replay_turn(args: &Args, given: &ReplayArgs) -> Outcome {
    let store = ledger(args)?;
    let turn = TurnRecord::find(&store, &given.turn)?;
    let workspace = workspace(args, &turn)?;
    if let Some(agent) = &given.agent {
        let agent = AgentName::new(agent.as_str())?;
        let cli = CliSession::open(args, "agentd replay", workspace, &given.send, given.json)?;
        let driver = cli.driver(args, &agent)?;
        return cli.run(|context| replay(context, driver.as_ref(), &agent, &turn).map(Some));
    }
    if turn.answered().is_none() {
        let message = format!("{} has no whole reply to be read again", turn.name());
        let hint = format!("`agentd show {}` tells how it ended", turn.name());
        return Err(Error::new(ErrorKind::TurnNotFound, message)
            .with_hint(hint)
            .into());
    }
    let (response, verdict) = turn.read_again(&workspace, &store)?;
    let recorded = turn.replied.as_ref();
    let then = (
        recorded.and_then(|replied| replied.verdict),
        recorded.map(|replied| &replied.markers),
    );
    let now = (
        verdict.as_ref().ok().copied().flatten(),
        Some(&response.markers),
    );
    let same = recorded.is_none() || then == now;
    let name = |verdict: Option<agentd::ReviewResult>| verdict.map(|verdict| verdict.name());
    if given.json {
        terminal::json_line(&json!({
            "turn": turn.name(), "same": same, "verdict_then": name(then.0), "verdict_now": name(now.0), "response": response,
        }))?;
    } else {
        terminal::data(|out| writeln!(out, "{}", response.message))?;
        let words = |verdict| name(verdict).unwrap_or("none");
        terminal::row("turn", turn.name());
        terminal::row("then", words(then.0));
        terminal::row("now", words(now.0));
    }
    Ok(if same { exit::OK } else { exit::FINDINGS })
}
