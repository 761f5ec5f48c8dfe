//! Runs a change from the request to the merge: `run_change PROJECT WORKTREES`. A script stands in for the agent.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example has the terminal and the environment to itself"
)]

use std::env;
use std::path::PathBuf;

use agentd::agent::{SCRIPTED, Scripted, guard_main};
use agentd::config::Environment;
use agentd::models::SessionId;
use agentd::ops::Operations;
use agentd::orchestrator::{
    AcceptNow, ApproveAll, ChangeEvent, ChangeRequest, Run, TurnContext, Workspace,
    WorkspaceOptions, run_change,
};
use agentd::pack::DEMO_SCRIPT;
use agentd::store::MemoryStore;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Checks and agents run under a guard, a second process of this program.
    guard_main();
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [project, worktrees] = arguments.as_slice() else {
        return Err("usage: run_change PROJECT WORKTREES".into());
    };
    let options = WorkspaceOptions {
        environment: Environment(env::vars_os().collect()),
        ..WorkspaceOptions::default().with_worktrees(worktrees)
    };
    let workspace = Workspace::open(project.clone(), options)?;

    // Without a script, the settings choose an agent for each mode.
    let mut drivers = workspace.drivers(env::current_exe()?)?;
    let scripted = Scripted::read(DEMO_SCRIPT, "demo script")?;
    drivers.registered.register(SCRIPTED, scripted);

    let context = TurnContext {
        workspace: &workspace,
        store: &MemoryStore::default(),
        drivers: &drivers,
        operations: &Operations::shipped(),
        run: &Run {
            // Accepts the check commands of the project for this run.
            trust: AcceptNow::Everything,
            ..Run::new("run_change")?
        },
    };
    let request = ChangeRequest::new(SessionId::new("greet-anyone")?)
        .with_request("Greet people without a name, too");
    let outcome = run_change(&context, &request, &mut ApproveAll, &mut |event| {
        if let ChangeEvent::TurnTaken(report) = event {
            let verdict = report.verdict.map(|verdict| verdict.to_string());
            println!("{}: {}", report.mode, verdict.unwrap_or_default());
        }
        Ok(())
    })?;
    println!("{:?}", outcome.status.next);
    Ok(())
}
