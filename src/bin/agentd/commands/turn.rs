//! `agentd turn`: one recorded turn, from prompt to settled effects.

use agentd::models::AgentName;
use agentd::orchestrator::{Ask, Workspace, take};
use agentd::{Error, ErrorKind, Result};

use super::ask::ask;
use super::sending::Sending;
use crate::args::{Args, TurnArgs};
use crate::out::Outcome;

pub(super) fn run(args: &Args, given: &TurnArgs) -> Outcome {
    let (workspace, ask) = ask(args, &given.ask)?;
    let agent = agent(&workspace, &ask)?;
    let grammar = workspace.pack.grammar(&ask.mode).ok();
    let sending = Sending::open("agentd turn", workspace, &given.send, given.json)?;
    let driver = sending.driver(args, &agent, &given.send)?;
    let ask = Ask { repairs: given.repairs, agent: Some(agent), ..ask };
    sending.run(grammar.as_ref(), |desk| take(desk, driver.as_ref(), &ask).map(Some))
}

/// Returns the agent that was named, or the mode's.
fn agent(workspace: &Workspace, ask: &Ask) -> Result<AgentName> {
    workspace.agent(ask).ok_or_else(|| {
        let message = format!("no agent is named for the mode `{}`", ask.mode);
        Error::new(ErrorKind::UnknownAgent, message).with_hint(format!(
            "name one with --agent, or set one under [modes.{}] in agentd/config.toml",
            ask.mode
        ))
    })
}
