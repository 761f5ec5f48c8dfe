//! `agentd turn`: one recorded turn, from prompt to settled effects.

use agentd::Result;
use agentd::models::AgentName;
use agentd::orchestrator::{TurnRequest, Workspace, no_agent, take_turn, warn_of_own_work};
use agentd::store::{SqliteStore, Store};

use super::input::ask;
use super::session::CliSession;
use crate::args::{Args, TurnArgs};
use crate::terminal::Outcome;

pub(super) fn run(args: &Args, given: &TurnArgs) -> Outcome {
    let (workspace, ask) = ask(args, &given.ask)?;
    let agent = agent(&workspace, &ask)?;
    let cli = CliSession::open(args, "agentd turn", workspace, &given.send, given.json)?;
    let driver = cli.driver(args, &agent)?;
    let ask = TurnRequest {
        repairs: given.repairs,
        agent: Some(agent),
        ..ask
    };
    cli.run(|context| take_turn(context, driver.as_ref(), &ask).map(Some))
}

/// Returns the agent that was named, or the mode's.
fn agent(workspace: &Workspace, ask: &TurnRequest) -> Result<AgentName> {
    let agent = workspace.agent(ask)?.ok_or_else(|| no_agent(&ask.mode))?;
    let writes = workspace
        .pack
        .modes
        .get(&ask.mode)
        .is_some_and(|spec| !spec.updates.is_empty());
    if writes && ask.session.is_none() {
        log::warn!("without --change nothing is written: the reply is only shown and recorded");
    }
    let store = SqliteStore::open_existing(&workspace.root)?;
    let store = store.as_ref().map(|store| store as &dyn Store);
    if let Some((judged, author)) = workspace.judges_own_work(store, ask)? {
        warn_of_own_work(&ask.mode, &agent, &judged, &author);
    }
    Ok(agent)
}
