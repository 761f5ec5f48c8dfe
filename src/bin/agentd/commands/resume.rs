//! `agentd resume` and `agentd replay`: recovering interrupted turns, and repeating recorded ones.

use agentd::agent;
use agentd::models::{AgentName, SessionId, State};
use agentd::orchestrator::{TurnRecord, replay, resume};
use agentd::store::{SqliteStore, Store};
use agentd::{Error, ErrorKind};
use serde_json::json;

use super::run::ChangeRunner;
use super::session::{CliSession, no_turns_error, open_ledger_of};
use super::show::open_workspace;
use crate::args::{Args, ReplayArgs, ResumeArgs, RunOptions};
use crate::terminal::{self, CommandResult};
use crate::{exit, project};

pub(super) fn resume_turn(args: &Args, given: &ResumeArgs) -> CommandResult {
    let Some(session) = &given.session else {
        return resume_all(args, given);
    };
    let session = SessionId::new(session.as_str())?;
    let store = open_ledger_of(args)?;
    if store.events(&session)?.is_empty() {
        return Err(no_turns_error(&session).into());
    }

    let state = State::fold(store.events(&session)?.iter().map(|(_, event)| event));
    if state.change.is_some() {
        // The agent of a change edits only the worktree of the change, so it can be called again without `--again`.
        let options = RunOptions {
            agent: None,
            model: None,
            auto: false,
            yes: false,
            send: given.send.clone(),
            json: given.json,
        };
        return ChangeRunner::open(args, "agentd resume", &session, None, &options)?.run();
    }

    let recorded = TurnRecord::find(&store, session.as_str())?;
    let started = &recorded.started;
    let agent = AgentName::new(started.agent.as_str())?;
    let workspace = open_workspace(args, &recorded)?;
    let cli = CliSession::open(args, "agentd resume", workspace, &given.send, given.json)?;

    if recorded.replied.is_some() && !recorded.is_unfinished() {
        terminal::note(format_args!(
            "nothing to resume: {} is complete",
            recorded.name()
        ));
        return cli.run(|_| Ok(None));
    }

    let driver = cli.driver(args, &agent)?;
    cli.run(|context| resume(context, driver.as_ref(), &session, given.again))
}

/// Recovers the interrupted turns of all sessions.
fn resume_all(args: &Args, given: &ResumeArgs) -> CommandResult {
    let workspace = project::workspace(args, None)?;
    project::check_ledger_place(&workspace.root)?;
    let held = match SqliteStore::open_existing(&workspace.root)? {
        Some(store) => store.held()?,
        None => Vec::new(),
    };

    if held.is_empty() {
        terminal::note("nothing to resume");
        return Ok(exit::OK);
    }

    for held in held
        .iter()
        .filter(|held| agent::is_alive(&held.holder.process))
    {
        let holder = &held.holder;
        terminal::note(format_args!(
            "session `{}` is in use by `{}` (pid {})",
            held.session, holder.name, holder.process.pid
        ));
    }

    CliSession::open(args, "agentd resume", workspace, &given.send, given.json)?.run(|_| Ok(None))
}

pub(super) fn replay_turn(args: &Args, given: &ReplayArgs) -> CommandResult {
    let store = open_ledger_of(args)?;
    let turn = TurnRecord::find(&store, &given.turn)?;
    let workspace = open_workspace(args, &turn)?;

    if let Some(agent) = &given.agent {
        let agent = AgentName::new(agent.as_str())?;
        let cli = CliSession::open(args, "agentd replay", workspace, &given.send, given.json)?;
        let driver = cli.driver(args, &agent)?;
        return cli.run(|context| replay(context, driver.as_ref(), &agent, &turn).map(Some));
    }

    if turn.answered().is_none() {
        let message = format!("{} has no complete reply to parse", turn.name());
        let hint = format!("see its calls with `agentd show {}`", turn.name());
        return Err(Error::new(ErrorKind::TurnNotFound, message)
            .with_hint(hint)
            .into());
    }

    let (response, verdict) = turn.read_again(&workspace, &store)?;
    let recorded = turn.replied.as_ref();
    let recorded_result = (
        recorded.and_then(|replied| replied.verdict),
        recorded.map(|replied| &replied.markers),
    );
    let parsed_result = (
        verdict.as_ref().ok().copied().flatten(),
        Some(&response.markers),
    );
    let is_same = recorded.is_none() || recorded_result == parsed_result;
    let name = |verdict: Option<agentd::ReviewResult>| verdict.map(|verdict| verdict.name());

    if given.json {
        terminal::print_json_line(&json!({
            "turn": turn.name(), "same": is_same, "verdict_then": name(recorded_result.0), "verdict_now": name(parsed_result.0), "response": response,
        }))?;
    } else {
        terminal::write_data(|out| writeln!(out, "{}", response.message))?;
        let describe = |verdict| format!("verdict {}", name(verdict).unwrap_or("none"));
        terminal::eprint_row("turn", turn.name());
        terminal::eprint_row("recorded", describe(recorded_result.0));
        terminal::eprint_row("now", describe(parsed_result.0));
    }
    Ok(if is_same { exit::OK } else { exit::FINDINGS })
}
