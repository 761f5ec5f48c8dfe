//! `agentd template`: which prompts are in force, and whether they hold what they must.

use agentd::models::{AgentName, Mode};
use agentd::pack::{LintFinding, ListedTemplate, lint};
use agentd::{Error, ErrorKind, Places, Templates};
use serde_json::{Value, json};

use crate::args::{Args, TemplateCommand};
use crate::terminal::{self, Failure, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, command: &TemplateCommand) -> Outcome {
    match command {
        TemplateCommand::List { json } => list(args, *json),
        TemplateCommand::Show {
            mode,
            agent,
            built_in,
            json,
        } => show(args, mode, agent.as_deref(), *built_in, *json),
        TemplateCommand::Check { names, json } => check(args, names, *json),
    }
}

fn list(args: &Args, as_json: bool) -> Outcome {
    let listing = Templates::new(project::places(args)?).list();
    if as_json {
        terminal::json(&listing.iter().map(described).collect::<Vec<_>>())?;
        return Ok(exit::OK);
    }
    terminal::data(|out| {
        let width = listing
            .iter()
            .map(|listed| listed.name.len())
            .max()
            .unwrap_or(0);
        for listed in &listing {
            let force = if listed.active { "" } else { "  (overridden)" };
            let broken = if listed.template.is_ok() {
                ""
            } else {
                "  (broken: see `agentd template check`)"
            };
            writeln!(
                out,
                "{:<width$}  {:<8}  {}{force}{broken}",
                listed.name,
                listed.owner.to_string(),
                listed.origin
            )?;
        }
        Ok(())
    })?;
    Ok(exit::OK)
}

fn described(listed: &ListedTemplate) -> Value {
    let template = listed.template.as_ref();
    json!({
        "name": listed.name,
        "owner": listed.owner.to_string(),
        "origin": listed.origin,
        "active": listed.active,
        "metadata": template.ok().map(|template| template.metadata()),
        "description": template.ok().and_then(|template| template.text.front_matter.description.clone()),
        "error": template.err().map(|error| format!("{error:#}")),
    })
}

fn show(args: &Args, mode: &str, agent: Option<&str>, built_in: bool, as_json: bool) -> Outcome {
    let mode = Mode::new(mode)?;
    let workspace = project::workspace(args, None)?;
    let set = workspace
        .settings
        .agents
        .get(&mode)
        .cloned()
        .unwrap_or_else(AgentName::base);
    let agent = agent.map_or(Ok(set), AgentName::new)?;
    let templates = if built_in {
        &Templates::new(Places::default())
    } else {
        &workspace.templates
    };
    let found = templates.find(&agent, &mode)?;
    let template = &found.template;
    if as_json {
        terminal::json(&json!({
            "name": template.text.name,
            "owner": template.text.owner.to_string(),
            "origin": template.text.origin,
            "metadata": template.metadata(),
            "text": template.text.file,
        }))?;
    } else {
        terminal::text(&template.text.file)?;
        terminal::note(format_args!(
            "{} from {}",
            template.text.name, template.text.origin
        ));
    }
    Ok(exit::OK)
}

fn check(args: &Args, names: &[String], as_json: bool) -> Outcome {
    let workspace = project::workspace(args, None)?;
    let listing = workspace.templates.list();
    for name in names {
        if listing.iter().all(|listed| listed.name != *name) {
            return Err(Failure::Error(
                Error::new(
                    ErrorKind::TemplateNotFound,
                    format!("there is no template {name}"),
                )
                .with_hint("`agentd template list` names them all"),
            ));
        }
    }
    let chosen = listing
        .iter()
        .filter(|listed| names.is_empty() || names.contains(&listed.name));
    let checked: Vec<(&ListedTemplate, Vec<LintFinding>)> = chosen
        .map(|listed| {
            let findings = match &listed.template {
                Ok(template) => lint(&workspace.pack, template),
                Err(error) => vec![LintFinding {
                    rule: "readable",
                    message: error.message().to_owned(),
                    line: error.place().map(|place| place.line),
                }],
            };
            (listed, findings)
        })
        .collect();
    let count = checked
        .iter()
        .map(|(_, findings)| findings.len())
        .sum::<usize>();
    if as_json {
        let rows = checked.iter().map(
            |(listed, findings)| json!({"name": listed.name, "origin": listed.origin, "findings": findings}),
        );
        terminal::json(&rows.collect::<Vec<_>>())?;
    } else {
        print_findings(&checked)?;
        terminal::note(format_args!(
            "templates checked: {}, findings: {count}",
            checked.len()
        ));
    }
    Ok(if count == 0 { exit::OK } else { exit::FINDINGS })
}

fn print_findings(checked: &[(&ListedTemplate, Vec<LintFinding>)]) -> std::io::Result<()> {
    terminal::data(|out| {
        for (listed, findings) in checked {
            for finding in findings {
                let line = finding
                    .line
                    .map(|line| format!(":{line}"))
                    .unwrap_or_default();
                writeln!(
                    out,
                    "{}{line}: {} ({})",
                    listed.origin, finding.message, finding.rule
                )?;
            }
        }
        Ok(())
    })
}
