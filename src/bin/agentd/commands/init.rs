//! `agentd init`: a project's first files.

use agentd::orchestrator::init_project;
use serde_json::json;

use crate::args::Args;
use crate::terminal::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, as_json: bool) -> Outcome {
    let root = project::root(args)?;
    let files = init_project(&root)?;
    if as_json {
        terminal::json(&json!({"root": root.display().to_string(), "files": files}))?;
        return Ok(exit::OK);
    }
    for file in &files {
        let fate = if file.created { "wrote" } else { "kept" };
        terminal::data(|out| writeln!(out, "{fate} {}", file.path))?;
    }
    if files.iter().any(|file| file.created) {
        terminal::note("read agentd/project.md and correct it: agents see it with every prompt");
    } else {
        terminal::note("nothing to do: both files are there already, and are never overwritten");
    }
    Ok(exit::OK)
}
