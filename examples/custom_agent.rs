//! Takes one turn with an agent that is a function of this program: `custom_agent PROJECT`.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example has the terminal and its arguments to itself"
)]

use std::env;

use agentd::agent::{Drivers, FnDriver};
use agentd::models::{AgentName, Mode, Reply};
use agentd::ops::Operations;
use agentd::orchestrator::{Run, TurnContext, TurnRequest, Workspace, WorkspaceOptions, take_turn};
use agentd::store::MemoryStore;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let project = env::args_os().nth(1).ok_or("usage: custom_agent PROJECT")?;
    let workspace = Workspace::open(
        project.into(),
        WorkspaceOptions::default().with_pack("foreman"),
    )?;

    // Any function from a call to a reply is an agent. A real one would ask a model here.
    let agent = FnDriver::new(|call| {
        let words = call.prompt.split_whitespace().count();
        let text = format!("<message>I read {words} words, in {}.</message>", call.mode);
        Ok(Reply::from_text(text))
    });

    let context = TurnContext {
        workspace: &workspace,
        // `SqliteStore` keeps the ledger in the project instead.
        store: &MemoryStore::default(),
        drivers: &Drivers::default(),
        operations: &Operations::shipped(),
        run: &Run::new("custom_agent")?,
    };
    let request = TurnRequest {
        agent: Some(AgentName::new("word-counter")?),
        ..TurnRequest::new(Mode::new("architect")?, "A thief learns to trust.")
    };
    let report = take_turn(&context, &agent, &request)?;
    println!("{}", report.response.message);
    println!("{} call, outcome {}", report.calls, report.end.name());
    Ok(())
}
