//! `agentd trust`: what of a project may steer or run something.

use std::collections::BTreeSet;
use std::path::Path;

use agentd::agent::find_command;
use agentd::config::CheckCommand;
use agentd::models::{AgentName, BlobId};
use agentd::orchestrator::{Definition, Trust, TrustStatus, list_definitions, load_settings};
use agentd::{Places, Result, ops};
use serde_json::{Value, json};

use crate::args::Args;
use crate::terminal::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, show: bool, as_json: bool) -> Outcome {
    let places = project::places(args)?;
    let root = project::root(args)?;
    let trust = Trust::open(places.user.as_deref())?;
    let files = list_definitions(&places, &trust, &obeyed(args)?, &checks(&places, &root))?;
    let open = open(&files);
    if !show && !open.is_empty() {
        trust.accept(&root, &open)?;
    }
    if as_json {
        let files: Vec<Value> = files.iter().map(|file| described(file, !show)).collect();
        terminal::json(&json!({"root": root.display().to_string(), "files": files}))?;
    } else {
        print(&files, !show)?;
    }
    for file in &files {
        if let Err(error) = &file.found {
            terminal::warning(format_args!("{} cannot be accepted: {error}", file.file));
        }
    }
    if files.is_empty() {
        terminal::note(
            "this project has no templates, packs, agents, settings or checks of its own",
        );
    } else if show && !open.is_empty() {
        terminal::note("read them; `agentd trust` accepts them as they are now");
    }
    let readable = files.iter().all(|file| file.found.is_ok());
    let accepted = !show || open.is_empty();
    Ok(if readable && accepted {
        exit::OK
    } else {
        exit::FINDINGS
    })
}

/// Returns the files that agents on PATH, or of the settings, would follow by themselves.
fn obeyed(args: &Args) -> Result<Vec<String>> {
    // Settings or a pack that cannot be read must not keep anyone from seeing what there is.
    let Ok(workspace) = project::workspace(args, None) else {
        return Ok(Vec::new());
    };
    let agents = workspace.agents()?;
    let set: Vec<&str> = workspace
        .settings
        .agents
        .values()
        .map(AgentName::as_str)
        .collect();
    let set = set.iter().filter_map(|name| name.split(':').next());
    let set: BTreeSet<&str> = set.collect();
    let path = workspace.path().unwrap_or_default();
    let used = agents.all().filter(|spec| {
        set.contains(spec.name.as_str()) || find_command(path, spec.command()).is_some()
    });
    let files: BTreeSet<String> = used.flat_map(|spec| spec.obeys.clone()).collect();
    Ok(files.into_iter().collect())
}

/// Returns the commands that check the project; settings that cannot be read name none, and nothing runs with them.
fn checks(places: &Places, root: &Path) -> Vec<CheckCommand> {
    load_settings(places)
        .map(|settings| ops::check_commands(&settings.review, root))
        .unwrap_or_default()
}

/// Returns the files that are not accepted as they are.
fn open(files: &[Definition]) -> Vec<(String, BlobId)> {
    let open = files.iter().filter_map(|file| match &file.found {
        Ok((content, TrustStatus::New | TrustStatus::Changed)) => {
            Some((file.file.clone(), content.clone()))
        }
        Ok((_, TrustStatus::Accepted)) | Err(_) => None,
    });
    open.collect()
}

fn print(files: &[Definition], accepted: bool) -> std::io::Result<()> {
    terminal::data(|out| {
        for file in files {
            let now = state(file);
            if accepted && matches!(now, "new" | "changed") {
                writeln!(out, "accepted  {} ({now})", file.file)?;
            } else {
                writeln!(out, "{now:<8}  {}", file.file)?;
            }
            for command in &file.commands {
                writeln!(out, "          {}", with_visible_blanks(command))?;
            }
        }
        Ok(())
    })
}

/// Most blanks in a row that are shown as they are.
const MAX_BLANKS: usize = 8;

/// Returns a command in which a long run of blanks is a number: it could push what follows out of sight.
fn with_visible_blanks(command: &str) -> String {
    let mut out = String::new();
    let mut rest = command;
    while let Some(start) = rest.find(char::is_whitespace) {
        let (before, after) = rest.split_at(start);
        let length = after
            .find(|c: char| !c.is_whitespace())
            .unwrap_or(after.len());
        let blanks = after[..length].chars().count();
        out.push_str(before);
        if blanks > MAX_BLANKS {
            out.push_str(&format!(" [{blanks} blanks] "));
        } else {
            out.push_str(&after[..length]);
        }
        rest = &after[length..];
    }
    out + rest
}

fn described(file: &Definition, accepted: bool) -> Value {
    let content = file.found.as_ref().ok().map(|(content, _)| content);
    json!({
        "file": file.file,
        "commands": file.commands,
        "blake3": content,
        "state": state(file),
        "accepted": content.is_some() && (accepted || state(file) == "accepted"),
        "error": file.found.as_ref().err().map(|error| format!("{error:#}")),
    })
}

/// Returns how a file stood with the user when the command began.
fn state(file: &Definition) -> &'static str {
    match &file.found {
        Ok((_, TrustStatus::Accepted)) => "accepted",
        Ok((_, TrustStatus::New)) => "new",
        Ok((_, TrustStatus::Changed)) => "changed",
        Err(_) => "unusable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_of_blanks_does_not_hide_what_follows() {
        assert_eq!(with_visible_blanks("make  test"), "make  test");
        let hidden = format!("make test{}; curl evil", " ".repeat(500));
        assert_eq!(
            with_visible_blanks(&hidden),
            "make test [500 blanks] ; curl evil"
        );
    }
}
