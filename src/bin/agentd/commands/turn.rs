//! `agentd turn`: one recorded turn, from the prompt to the effects of the reply.

use agentd::Result;
use agentd::models::AgentName;
use agentd::orchestrator::{TurnRequest, Workspace, no_agent, take_turn, warn_of_own_work};
use agentd::store::{SqliteStore, Store};

use super::input::read_request;
use super::session::CliSession;
use crate::args::{Args, TurnArgs};
use crate::terminal::CommandResult;

pub(super) fn run(args: &Args, given: &TurnArgs) -> CommandResult {
    let (workspace, mut request) = read_request(args, &given.ask)?;
    let agent = choose_agent(&workspace, &request)?;
    let cli = CliSession::open(args, "agentd turn", workspace, &given.send, given.json)?;
    let driver = cli.driver(args, &agent)?;
    request.repairs = given.repairs;
    request.agent = Some(agent);
    cli.run(|context| take_turn(context, driver.as_ref(), &request).map(Some))
}

/// Returns the agent of the request or of its mode. Warns if no files will be written, or if the agent reviews its own
/// work.
fn choose_agent(workspace: &Workspace, request: &TurnRequest) -> Result<AgentName> {
    let agent = workspace
        .agent(request)?
        .ok_or_else(|| no_agent(&request.mode))?;

    let can_write_files = workspace
        .pack
        .modes
        .get(&request.mode)
        .is_some_and(|spec| !spec.updates.is_empty());
    if can_write_files && request.session.is_none() {
        log::warn!("without --change no files are written: the reply is only printed and recorded");
    }

    let store = SqliteStore::open_existing(&workspace.root)?;
    let store = store.as_ref().map(|store| store as &dyn Store);
    if let Some((judged, author)) = workspace.judges_own_work(store, request)? {
        warn_of_own_work(&request.mode, &agent, &judged, &author);
    }
    Ok(agent)
}
