//! `agentd spec`: checks, lists and shows specs.

use std::path::{Path, PathBuf};

use agentd::spec::{Fault, Spec, check_file};
use agentd::{Error, ErrorKind, Place, Result, ops};
use serde_json::json;

use super::input::resolve_path;
use crate::args::{Args, SpecCommand};
use crate::terminal::{self, CommandResult};
use crate::{exit, humanize, project};

pub(super) fn run(args: &Args, command: &SpecCommand) -> CommandResult {
    match command {
        SpecCommand::Check { files, json } => check(args, files, *json),
        SpecCommand::List { json } => list(args, *json),
        SpecCommand::Show {
            id,
            requirement: None,
            json,
        } => show_spec(args, id, *json),
        SpecCommand::Show {
            id,
            requirement: Some(requirement),
            json,
        } => show_requirement(args, id, requirement, *json),
    }
}

fn check(args: &Args, files: &[PathBuf], as_json: bool) -> CommandResult {
    let texts = if files.is_empty() {
        let root = project::root(args)?;
        [ops::specs(&root)?, ops::wanted_specs(&root)?].concat()
    } else {
        let read = |file: &PathBuf| {
            Ok((
                ops::visible_path(file),
                ops::read_text(&resolve_path(args, file)?)?,
            ))
        };
        files.iter().map(read).collect::<Result<_>>()?
    };

    let checked: Vec<(&str, Vec<Fault>)> = texts
        .iter()
        .map(|(name, text)| (name.as_str(), check_file(name, text)))
        .collect();
    let count = checked
        .iter()
        .map(|(_, faults)| faults.len())
        .sum::<usize>();

    if as_json {
        let rows = checked
            .iter()
            .map(|(file, faults)| json!({"file": file, "findings": faults}));
        terminal::print_json(&rows.collect::<Vec<_>>())?;
    } else {
        terminal::write_data(|out| {
            for (file, fault) in checked
                .iter()
                .flat_map(|(file, faults)| faults.iter().map(move |f| (file, f)))
            {
                let hint = fault
                    .hint
                    .as_ref()
                    .map(|hint| format!(" ({hint})"))
                    .unwrap_or_default();
                writeln!(out, "{file}:{}: {}{hint}", fault.line, fault.message)?;
            }
            Ok(())
        })?;
        terminal::note(format_args!(
            "checked {}: {}",
            humanize::count(checked.len() as u64, "file"),
            humanize::count(count as u64, "problem")
        ));
    }
    Ok(if count == 0 { exit::OK } else { exit::FINDINGS })
}

/// Returns the id of a spec from the name of its file.
fn id_from_path(path: &str) -> &str {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.strip_suffix(".md").unwrap_or(name)
}

fn list(args: &Args, as_json: bool) -> CommandResult {
    let texts = ops::specs(&project::root(args)?)?;
    let specs: Vec<(&str, Option<Spec>)> = texts
        .iter()
        .map(|(path, text)| (path.as_str(), Spec::read(text).ok()))
        .collect();
    if as_json {
        let rows = specs.iter().map(|(path, spec)| match spec {
            Some(spec) => json!({
                "id": spec.id,
                "title": spec.title,
                "version": spec.version,
                "requirements": spec.requirements.len(),
                "scenarios": spec.scenarios.len(),
                "updated_at": spec.updated_at,
            }),
            None => json!({"id": id_from_path(path), "error": format!("see `agentd spec check {path}`")}),
        });
        terminal::print_json(&rows.collect::<Vec<_>>())?;
        return Ok(exit::OK);
    }

    let rows = specs.iter().map(|(path, spec)| match spec {
        Some(spec) => [
            spec.id.clone(),
            spec.version.to_string(),
            spec.requirements.len().to_string(),
            spec.scenarios.len().to_string(),
            spec.title.clone(),
        ],
        None => {
            let invalid = format!("(invalid: see `agentd spec check {path}`)");
            [
                id_from_path(path).to_owned(),
                "-".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
                invalid,
            ]
        }
    });
    if specs.is_empty() {
        terminal::note("no specs in agentd/specs");
    } else {
        terminal::print_table(
            &["SPEC", "VERSION", "REQUIREMENTS", "SCENARIOS", "TITLE"],
            rows,
        )?;
    }
    Ok(exit::OK)
}

/// Returns the path and the text of a spec of the project.
fn find_spec(root: &Path, id: &str) -> Result<(String, String)> {
    let specs = ops::specs(root)?;
    let known: Vec<String> = specs
        .iter()
        .map(|(path, _)| id_from_path(path).to_owned())
        .collect();
    specs
        .into_iter()
        .find(|(path, _)| id_from_path(path) == id)
        .ok_or_else(|| {
            let hint = match known.as_slice() {
                [] => "no specs in agentd/specs".to_owned(),
                names => format!("known specs: {}", names.join(", ")),
            };
            Error::new(ErrorKind::SpecNotFound, format!("unknown spec `{id}`")).with_hint(hint)
        })
}

/// Parses a spec. Fails with the first problem of the spec.
fn parse_spec(path: &str, text: &str) -> Result<Spec> {
    Spec::read(text).map_err(|faults| {
        let fault = faults.into_iter().next().unwrap_or(Fault {
            line: 1,
            message: String::new(),
            hint: None,
        });
        Error::new(ErrorKind::SpecInvalid, fault.message)
            .with_place(Place::at_line(path, text, fault.line, 1))
            .with_hint(format!("list all problems with `agentd spec check {path}`"))
    })
}

fn show_spec(args: &Args, id: &str, as_json: bool) -> CommandResult {
    let (path, text) = find_spec(&project::root(args)?, id)?;
    if as_json {
        terminal::print_json(&parse_spec(&path, &text)?)?;
    } else {
        terminal::print_text(&text)?;
        terminal::note(format_args!("from {path}"));
    }
    Ok(exit::OK)
}

fn show_requirement(args: &Args, id: &str, requirement: &str, as_json: bool) -> CommandResult {
    let (path, text) = find_spec(&project::root(args)?, id)?;
    let spec = parse_spec(&path, &text)?;
    let Some(found) = spec
        .requirements
        .iter()
        .find(|candidate| candidate.id == requirement)
    else {
        let known: Vec<&str> = spec
            .requirements
            .iter()
            .map(|requirement| requirement.id.as_str())
            .collect();
        let message = format!("spec `{id}` has no requirement `{requirement}`");
        return Err(Error::new(ErrorKind::SpecNotFound, message)
            .with_hint(format!("requirements of `{id}`: {}", known.join(", ")))
            .into());
    };

    let scenarios = spec.scenarios_of(requirement);
    if as_json {
        terminal::print_json(&json!({"requirement": found, "scenarios": scenarios}))?;
        return Ok(exit::OK);
    }

    terminal::write_data(|out| {
        writeln!(out, "### {} - {}\n\n{}", found.id, found.title, found.text)?;
        if !scenarios.is_empty() {
            writeln!(out)?;
        }
        scenarios
            .iter()
            .try_for_each(|scenario| writeln!(out, "### Scenario: {}", scenario.title))
    })?;
    terminal::note(format_args!("from {path}:{}", found.line));
    Ok(exit::OK)
}
