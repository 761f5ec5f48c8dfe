//! `agentd template`: lists, shows and checks system templates.

use agentd::models::{AgentName, Mode};
use agentd::pack::{LintFinding, ListedTemplate, lint};
use agentd::{Error, ErrorKind, SearchPath, Templates};
use serde_json::{Value, json};

use crate::args::{Args, TemplateCommand};
use crate::terminal::{self, CommandResult, Failure};
use crate::{exit, humanize, project};

pub(super) fn run(args: &Args, command: &TemplateCommand) -> CommandResult {
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

fn list(args: &Args, as_json: bool) -> CommandResult {
    let listing = Templates::new(project::places(args)?).list();
    if as_json {
        terminal::print_json(&listing.iter().map(template_json).collect::<Vec<_>>())?;
        return Ok(exit::OK);
    }

    let rows = listing.iter().map(|listed| {
        let overridden = if listed.active { "" } else { "  (overridden)" };
        let invalid = if listed.template.is_ok() {
            ""
        } else {
            "  (invalid: see `agentd template check`)"
        };
        [
            listed.name.clone(),
            listed.owner.to_string(),
            format!("{}{overridden}{invalid}", listed.origin),
        ]
    });
    terminal::print_table(&["TEMPLATE", "OWNER", "FILE"], rows)?;
    Ok(exit::OK)
}

fn template_json(listed: &ListedTemplate) -> Value {
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

fn show(
    args: &Args,
    mode: &str,
    agent: Option<&str>,
    built_in: bool,
    as_json: bool,
) -> CommandResult {
    let mode = Mode::new(mode)?;
    let workspace = project::workspace(args, None)?;
    let configured = workspace
        .settings
        .agents
        .get(&mode)
        .cloned()
        .unwrap_or_else(AgentName::base);
    let agent = agent.map_or(Ok(configured), AgentName::new)?;
    let templates = if built_in {
        &Templates::new(SearchPath::default())
    } else {
        &workspace.templates
    };

    let found = templates.find(&agent, &mode)?;
    let template = &found.template;
    if as_json {
        terminal::print_json(&json!({
            "name": template.text.name,
            "owner": template.text.owner.to_string(),
            "origin": template.text.origin,
            "metadata": template.metadata(),
            "text": template.text.file,
        }))?;
    } else {
        terminal::print_text(&template.text.file)?;
        terminal::note(format_args!(
            "{} from {}",
            template.text.name, template.text.origin
        ));
    }
    Ok(exit::OK)
}

fn check(args: &Args, names: &[String], as_json: bool) -> CommandResult {
    let workspace = project::workspace(args, None)?;
    let listing = workspace.templates.list();
    for name in names {
        if listing.iter().all(|listed| listed.name != *name) {
            return Err(Failure::Error(
                Error::new(
                    ErrorKind::TemplateNotFound,
                    format!("unknown template `{name}`"),
                )
                .with_hint("list templates with `agentd template list`"),
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
        terminal::print_json(&rows.collect::<Vec<_>>())?;
    } else {
        print_findings(&checked)?;
        terminal::note(format_args!(
            "checked {}: {}",
            humanize::count(checked.len() as u64, "template"),
            humanize::count(count as u64, "problem")
        ));
    }
    Ok(if count == 0 { exit::OK } else { exit::FINDINGS })
}

fn print_findings(checked: &[(&ListedTemplate, Vec<LintFinding>)]) -> std::io::Result<()> {
    terminal::write_data(|out| {
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
