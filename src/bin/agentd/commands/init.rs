//! `agentd init`: creates the first files of a project.

use agentd::orchestrator::init_project;
use serde_json::json;

use crate::args::Args;
use crate::terminal::{self, CommandResult};
use crate::{exit, project};

pub(super) fn run(args: &Args, as_json: bool) -> CommandResult {
    let root = project::root(args)?;
    let files = init_project(&root)?;
    if as_json {
        terminal::print_json(&json!({"root": root.display().to_string(), "files": files}))?;
        return Ok(exit::OK);
    }
    for file in &files {
        let result = if file.created { "created" } else { "kept" };
        terminal::write_data(|out| writeln!(out, "{result} {}", file.path))?;
    }
    if files.iter().any(|file| file.created) {
        terminal::note("review agentd/project.md and correct it: it is part of every prompt");
    } else {
        terminal::note("nothing to do: both files already exist");
    }
    Ok(exit::OK)
}
