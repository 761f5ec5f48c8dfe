//! `agentd prompt`: the exact prompt, before a token is spent.

use agentd::compose::Format;
use agentd::models::State;
use agentd::orchestrator::{Ask, Assembly, Workspace, assemble};
use serde_json::{Value, json};

use super::ask::ask;
use crate::args::{Args, FormatArg, PromptArgs};
use crate::out::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, given: &PromptArgs) -> Outcome {
    let format = match given.format {
        FormatArg::Xml => Format::Xml,
        FormatArg::Flat => Format::Flat,
    };
    let ask = ask(args, &given.ask, given.agent.as_deref(), format)?;
    let workspace = project::workspace(args, given.ask.pack.as_deref())?;
    let state = State { mode: Some(ask.mode.clone()), ..State::default() };
    let assembly = assemble(&workspace, &state, &ask)?;
    for origin in &assembly.overrides {
        out::note(format_args!("this project's own {origin} is used"));
    }
    let template = &assembly.template.template;
    if let Some(shadowed) = &assembly.template.shadowed {
        out::warning(format_args!(
            "this project's {shadowed} is not used: {} is more specific; name yours {}.md to replace it",
            template.origin, template.name
        ));
    }
    if given.explain {
        out::row("project", workspace.root.display());
        explain(&assembly);
    }
    hint_at_missing(&assembly, &ask);
    if given.json {
        out::json(&envelope(&workspace, &assembly, format))?;
    } else {
        let segments = &assembly.draft.segments;
        out::data(|out| segments.iter().try_for_each(|segment| out.write_all(segment.text.as_bytes())))?;
    }
    Ok(exit::OK)
}

/// Says where values of missing variables would come from.
fn hint_at_missing(assembly: &Assembly, ask: &Ask) {
    let lacks = |name: &str| {
        assembly.draft.variables.iter().any(|used| used.name == name && used.required && used.bytes.is_none())
    };
    if lacks("PROJECT_CONTEXT") {
        out::note("`agentd init` drafts agentd/project.md, from which PROJECT_CONTEXT is taken");
    }
    if ask.session.is_none() && (lacks("ARTIFACTS") || lacks("TASKS")) {
        out::note("--change ID names the change from which ARTIFACTS and TASKS are taken");
    }
}

fn envelope(workspace: &Workspace, assembly: &Assembly, format: Format) -> Value {
    let found = &assembly.template;
    let template = &found.template;
    json!({
        "format": 1,
        "pack": workspace.pack.name,
        "mode": template.mode,
        "agent": assembly.agent.as_str(),
        "rendering": match format { Format::Xml => "xml", Format::Flat => "flat" },
        "template": {
            "name": template.name,
            "origin": template.origin,
            "owner": template.owner.to_string(),
            "searched": found.searched,
            "metadata": template.metadata(),
        },
        "variables": variables(assembly),
        "parts": assembly.draft.prompt,
        "segments": assembly.draft.segments,
        "bytes": assembly.draft.fit_report.used,
    })
}

fn variables(assembly: &Assembly) -> Vec<Value> {
    let uses = assembly.draft.variables.iter();
    uses.map(|used| {
        json!({
            "name": used.name,
            "required": used.required,
            "bytes": used.bytes,
            "source": source(assembly, &used.name),
        })
    })
    .collect()
}

fn source<'a>(assembly: &'a Assembly, name: &str) -> Option<&'a str> {
    assembly.sources.iter().find(|(known, _)| known == name).map(|(_, source)| source.as_str())
}

fn explain(assembly: &Assembly) {
    let found = &assembly.template;
    let template = &found.template;
    let why = if found.fallback { ", for want of one for this agent" } else { "" };
    out::row("template", format_args!("{} ({}){why}", template.name, template.origin));
    for (index, place) in found.searched.iter().enumerate() {
        let mark = if *place == template.origin { "found" } else { "-" };
        out::row(if index == 0 { "searched" } else { "" }, format_args!("{mark:<5} {place}"));
    }
    for (index, used) in assembly.draft.variables.iter().enumerate() {
        let fate = match (used.bytes, used.required) {
            (Some(bytes), _) => {
                format!("{bytes:>8} bytes  {}", source(assembly, &used.name).unwrap_or_default())
            }
            (None, true) => "       - missing; the prompt says so in its place".to_owned(),
            (None, false) => "       - not given, and not required".to_owned(),
        };
        out::row(if index == 0 { "variables" } else { "" }, format_args!("{:<18} {fate}", used.name));
    }
    let report = &assembly.draft.fit_report;
    for (index, segment) in assembly.draft.segments.iter().enumerate() {
        let (part, bytes) = (segment.part.label(), segment.text.len());
        out::row(
            if index == 0 { "parts" } else { "" },
            format_args!("{part:<18} {bytes:>8} bytes  {} ({})", segment.block, segment.source),
        );
    }
    out::row("total", format_args!("{:<18} {:>8} bytes  of at most {}", "", report.used, report.budget));
}
