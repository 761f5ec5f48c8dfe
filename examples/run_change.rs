//! Runs a whole change, from the request to the merge: `run_change FOLDER` makes a small project there and changes it.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example has the terminal and the environment to itself"
)]

use std::env;
use std::path::PathBuf;

use agentd::agent::{Drivers, SCRIPTED, Scripted, guard_main};
use agentd::apply::NextStep;
use agentd::config::Environment;
use agentd::models::{Decision, SessionId};
use agentd::ops::{Operations, Repository, create_new, make_folder};
use agentd::orchestrator::{
    AcceptNow, ChangeEvent, ChangeRequest, ChangeStatus, Decider, PersonDecision, Run, TurnContext,
    Workspace, WorkspaceOptions, run_change,
};
use agentd::pack::{DEMO, DEMO_SCRIPT};
use agentd::store::MemoryStore;

/// Approves the plan and the merge. Anything else that needs a person stops the run.
struct ApproveAll;

impl Decider for ApproveAll {
    fn decide(&mut self, status: &ChangeStatus) -> agentd::Result<Option<PersonDecision>> {
        let NextStep::Approval { mode } = &status.next else {
            return Ok(None);
        };
        println!("approved: {mode}");
        Ok(Some(PersonDecision::new(Decision::Approve)))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Checks and agents run under a guard, a second process of this program.
    guard_main();
    let folder = env::args_os().nth(1).ok_or("usage: run_change FOLDER")?;
    let folder = PathBuf::from(folder);
    let project = folder.join("project");

    // The run accepts the check commands of the project: this program has just written them.
    let run = Run {
        trust: AcceptNow::Everything,
        ..Run::new("run_change")?
    };
    make_folder(&project)?;
    for (path, text) in DEMO {
        create_new(&project, path, text)?;
    }
    Repository::create(&project, &run.git, "A program that greets")?;
    let options = WorkspaceOptions::default().with_worktrees(folder.join("worktrees"));
    let workspace = Workspace::open(project, options.with_pack("sdd"))?;

    // A script stands in for the agent. Without it, the settings choose an agent for each mode.
    let mut drivers = Drivers {
        environment: Environment(env::vars_os().collect()),
        guard: env::current_exe()?,
        ..Drivers::default()
    };
    drivers
        .registered
        .register(SCRIPTED, Scripted::read(DEMO_SCRIPT, "demo script")?);

    let context = TurnContext {
        workspace: &workspace,
        store: &MemoryStore::default(),
        drivers: &drivers,
        operations: &Operations::shipped(),
        run: &run,
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
