//! `agentd trust`: the files of a project that control agents or run commands.

use std::collections::BTreeSet;
use std::path::Path;

use agentd::agent::find_command;
use agentd::config::CheckCommand;
use agentd::models::{AgentName, BlobId};
use agentd::orchestrator::{Definition, Trust, TrustStatus, list_definitions, load_settings};
use agentd::{Result, SearchPath, ops};
use serde_json::{Value, json};

use crate::args::Args;
use crate::terminal::{self, CommandResult};
use crate::{exit, project};

pub(super) fn run(args: &Args, show: bool, as_json: bool) -> CommandResult {
    let places = project::places(args)?;
    let root = project::root(args)?;
    let trust = Trust::open(places.user.as_deref())?;
    let agent_files = find_agent_files(args)?;
    let checks = find_checks(&places, &root);
    let files = list_definitions(&places, &trust, &agent_files, &checks)?;

    let untrusted = find_untrusted(&files);
    if !show && !untrusted.is_empty() {
        trust.accept(&root, &untrusted)?;
    }

    if as_json {
        let files: Vec<Value> = files.iter().map(|file| file_json(file, !show)).collect();
        terminal::print_json(&json!({"root": root.display().to_string(), "files": files}))?;
    } else {
        print_files(&files, !show)?;
    }
    for file in &files {
        if let Err(error) = &file.found {
            terminal::warning(format_args!("cannot trust {}: {error}", file.file));
        }
    }
    if files.is_empty() {
        terminal::note(
            "nothing to trust: the project defines no templates, packs, agents, settings or checks",
        );
    } else if show && !untrusted.is_empty() {
        terminal::note("read the files, then trust them with `agentd trust`");
    }

    let are_readable = files.iter().all(|file| file.found.is_ok());
    let are_trusted = !show || untrusted.is_empty();
    Ok(if are_readable && are_trusted {
        exit::OK
    } else {
        exit::FINDINGS
    })
}

/// Returns the project files that installed or configured agents read by themselves, such as `CLAUDE.md`.
fn find_agent_files(args: &Args) -> Result<Vec<String>> {
    // Invalid settings or packs must not hide the list of files.
    let Ok(workspace) = project::workspace(args, None) else {
        return Ok(Vec::new());
    };

    let agents = workspace.agents()?;
    let configured: BTreeSet<&str> = workspace
        .settings
        .agents
        .values()
        .filter_map(|name| AgentName::as_str(name).split(':').next())
        .collect();
    let path = workspace.path().unwrap_or_default();
    let used = agents.all().filter(|spec| {
        configured.contains(spec.name.as_str()) || find_command(path, spec.command()).is_some()
    });

    let files: BTreeSet<String> = used.flat_map(|spec| spec.obeys.clone()).collect();
    Ok(files.into_iter().collect())
}

/// Returns the check commands of the project. Returns none if the settings are invalid, because no check
/// runs then.
fn find_checks(places: &SearchPath, root: &Path) -> Vec<CheckCommand> {
    load_settings(places)
        .map(|settings| ops::check_commands(&settings.review, root))
        .unwrap_or_default()
}

/// Returns the files that are new or changed since they were trusted.
fn find_untrusted(files: &[Definition]) -> Vec<(String, BlobId)> {
    let untrusted = files.iter().filter_map(|file| match &file.found {
        Ok((content, TrustStatus::New | TrustStatus::Changed)) => {
            Some((file.file.clone(), content.clone()))
        }
        Ok((_, TrustStatus::Accepted)) | Err(_) => None,
    });
    untrusted.collect()
}

/// Prints the files with their trust state. With `are_trusted`, new and changed files have just been trusted.
fn print_files(files: &[Definition], are_trusted: bool) -> std::io::Result<()> {
    terminal::write_data(|out| {
        for file in files {
            match trust_state(file) {
                "accepted" => writeln!(out, "trusted   {}", file.file)?,
                state @ ("new" | "changed") if are_trusted => {
                    writeln!(out, "trusted   {} ({state})", file.file)?;
                }
                state => writeln!(out, "{state:<8}  {}", file.file)?,
            }
            for command in &file.commands {
                writeln!(out, "          {}", shorten_spaces(command))?;
            }
        }
        Ok(())
    })
}

/// Maximum number of consecutive spaces that are printed unchanged.
const MAX_SPACES: usize = 8;

/// Replaces long runs of whitespace with their length, because they could push the rest of a command out of sight.
fn shorten_spaces(command: &str) -> String {
    let mut out = String::new();
    let mut rest = command;
    while let Some(start) = rest.find(char::is_whitespace) {
        let (before, after) = rest.split_at(start);
        let length = after
            .find(|c: char| !c.is_whitespace())
            .unwrap_or(after.len());
        let spaces = after[..length].chars().count();

        out.push_str(before);
        if spaces > MAX_SPACES {
            out.push_str(&format!(" [{spaces} spaces] "));
        } else {
            out.push_str(&after[..length]);
        }
        rest = &after[length..];
    }
    out + rest
}

fn file_json(file: &Definition, is_trusted: bool) -> Value {
    let content = file.found.as_ref().ok().map(|(content, _)| content);
    json!({
        "file": file.file,
        "commands": file.commands,
        "blake3": content,
        "state": trust_state(file),
        "accepted": content.is_some() && (is_trusted || trust_state(file) == "accepted"),
        "error": file.found.as_ref().err().map(|error| format!("{error:#}")),
    })
}

/// Returns the trust state of a file at the start of the command, as `--json` prints it.
fn trust_state(file: &Definition) -> &'static str {
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
    fn long_runs_of_spaces_are_shortened() {
        assert_eq!(shorten_spaces("make  test"), "make  test");
        let hidden = format!("make test{}; curl evil", " ".repeat(500));
        assert_eq!(
            shorten_spaces(&hidden),
            "make test [500 spaces] ; curl evil"
        );
    }
}
