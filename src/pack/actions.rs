//! `actions.yaml`: actions that an agent may request, and their rendering in prompts.

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{ErrorKind, Result};
use crate::models::{ActionSpec, Tier};
use crate::text::escape::escape_text;
use crate::text::yaml;

/// Placeholder for the list of a mode's actions.
pub const PLACEHOLDER: &str = "AVAILABLE_ACTIONS";

/// Format of `actions.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionsFile {
    actions: IndexMap<String, ActionSpec>,
}

/// Parses `actions.yaml`.
pub(super) fn parse_actions(text: &str, origin: &str) -> Result<IndexMap<String, ActionSpec>> {
    Ok(yaml::read::<ActionsFile>(text, origin, 1, ErrorKind::PackInvalid)?.actions)
}

/// Renders the list of actions: at the full tier with all details, at the medium tier one line each, at the minimal tier
/// names and parameters only.
pub(super) fn available_actions<'a>(
    actions: impl Iterator<Item = (&'a String, &'a ActionSpec)>,
    tier: Tier,
) -> String {
    let mut out = "<available_actions>\n".to_owned();
    for (name, action) in actions {
        let _infallible = match tier {
            Tier::Full => write_full(&mut out, name, action),
            Tier::Medium => {
                let description = escape_text(&action.description);
                writeln!(
                    out,
                    "<action type=\"{name}\">{description}: {}</action>",
                    list_parameters(action)
                )
            }
            Tier::Minimal => writeln!(out, "{name}: {}", list_parameters(action)),
        };
    }

    out.push_str("</available_actions>");
    out
}

fn write_full(out: &mut String, name: &str, action: &ActionSpec) -> std::fmt::Result {
    writeln!(
        out,
        "<action type=\"{name}\">\n  <description>{}</description>\n  <parameters>",
        escape_text(&action.description)
    )?;
    for (parameter_name, parameter) in &action.parameters {
        let meaning = match (&parameter.description, parameter.one_of.as_slice()) {
            (_, [_, ..]) => parameter.one_of.join(" | "),
            (Some(description), []) => description.clone(),
            (None, []) => parameter.kind.name().to_owned(),
        };
        writeln!(
            out,
            "    <param name=\"{parameter_name}\" required=\"{}\">{}</param>",
            parameter.required,
            escape_text(&meaning)
        )?;
    }

    writeln!(out, "  </parameters>")?;
    if !action.example.is_empty() {
        write!(out, "  <example><action type=\"{name}\">")?;
        for parameter in action.parameters.keys() {
            if let Some(value) = action.example.get(parameter) {
                write_value(out, parameter, value)?;
            }
        }
        writeln!(out, "</action></example>")?;
    }

    writeln!(out, "</action>")
}

/// Writes a value in the form that replies use: an object as one inner tag per field, a list as JSON.
fn write_value(out: &mut String, name: &str, value: &Value) -> std::fmt::Result {
    write!(out, "<{name}>")?;
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                write_value(out, name, field)?;
            }
        }
        Value::String(text) => out.push_str(&escape_text(text)),
        other => out.push_str(&escape_text(&other.to_string())),
    }
    write!(out, "</{name}>")
}

/// Returns the parameters on one line; optional ones have a question mark.
fn list_parameters(action: &ActionSpec) -> String {
    let shown = action.parameters.iter().map(|(name, parameter)| {
        let optional = if parameter.required { "" } else { "?" };
        format!("{name}{optional}")
    });
    shown.collect::<Vec<_>>().join(", ")
}
