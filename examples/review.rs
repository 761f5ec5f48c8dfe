//! Reviews the uncommitted and unmerged work of a repository, for CI: `review PROJECT AGENT`. Exits with 1 unless it passes.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example has the terminal and the environment to itself"
)]

use std::env;
use std::path::Path;
use std::process::ExitCode;

use agentd::ReviewResult;
use agentd::agent::guard_main;
use agentd::config::Environment;
use agentd::models::{AgentName, Mode};
use agentd::ops::Operations;
use agentd::orchestrator::{
    ReviewBase, Run, TurnContext, TurnRequest, WorkspaceOptions, review_tree,
};
use agentd::store::MemoryStore;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    // An agent runs under a guard, a second process of this program. `guard_main` returns unless this is that process.
    guard_main();
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [project, agent] = arguments.as_slice() else {
        return Err("usage: review PROJECT AGENT".into());
    };

    // Settings, agents and packs come from the base of the review, never from the work under review.
    let run = Run::new("review")?;
    let base = ReviewBase::find(Path::new(project), &run.git, None)?;
    let options = WorkspaceOptions {
        environment: Environment(env::vars_os().collect()),
        ..WorkspaceOptions::default().with_pack("light")
    };
    let workspace = base.workspace(options)?;
    let drivers = workspace.drivers(env::current_exe()?)?;

    let context = TurnContext {
        workspace: &workspace,
        store: &MemoryStore::default(),
        drivers: &drivers,
        operations: &Operations::shipped(),
        run: &run,
    };
    let request = TurnRequest {
        agent: Some(AgentName::new(agent.as_str())?),
        ..TurnRequest::new(Mode::new("review")?, "Review what has changed.")
    };
    let driver = drivers.find(agent)?;
    let with_checks = false;
    let Some(review) = review_tree(&context, driver.as_ref(), &request, &base, with_checks)? else {
        println!("nothing to review");
        return Ok(ExitCode::SUCCESS);
    };

    for finding in &review.findings {
        let file = finding.file.as_deref().unwrap_or("-");
        println!("{file}: {}", finding.problem);
    }
    let passed = review.verdict == Some(ReviewResult::Pass);
    println!("passed: {passed}");
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
