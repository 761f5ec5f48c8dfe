//! `actions.yaml`: actions that an agent may request, and their rendering in prompts.

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{ErrorKind, Result};
use crate::models::{ActionSpec, Parameter, Tier, ValueKind};
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
/// names and parameters only. Every tier shows allowed values, because others are refused.
pub(super) fn available_actions<'a>(
    actions: impl Iterator<Item = (&'a String, &'a ActionSpec)>,
    tier: Tier,
) -> String {
    let mut out = "<available_actions>\n".to_owned();
    for (name, action) in actions {
        let parameters = match list_parameters(action) {
            none if none.is_empty() => none,
            some => format!(": {some}"),
        };
        let _infallible = match tier {
            Tier::Full => write_full(&mut out, name, action),
            Tier::Medium => {
                let description = escape_text(&action.description);
                writeln!(
                    out,
                    "<action type=\"{name}\">{description}{parameters}</action>"
                )
            }
            Tier::Minimal => writeln!(out, "{name}{parameters}"),
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

/// Returns the parameters on one line: optional ones have a question mark, and allowed values or a type other than text
/// follow in parentheses, as in `category (world|item), content (object), source?`.
fn list_parameters(action: &ActionSpec) -> String {
    let shown = action.parameters.iter().map(|(name, parameter)| {
        let optional = if parameter.required { "" } else { "?" };
        match describe_values(parameter) {
            Some(values) => format!("{name}{optional} ({})", escape_text(&values)),
            None => format!("{name}{optional}"),
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns the allowed values of a parameter, or else its type; `None` for any text.
fn describe_values(parameter: &Parameter) -> Option<String> {
    if !parameter.one_of.is_empty() {
        let others = if parameter.other_values { "|…" } else { "" };
        return Some(parameter.one_of.join("|") + others);
    }

    match parameter.kind {
        ValueKind::String => None,
        ValueKind::Array => Some("list".to_owned()),
        kind => Some(kind.name().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIONS: &str = "
actions:
  save:
    description: Save <one> thing
    parameters:
      kind: {type: string, required: true, enum: [world, voice]}
      key: {type: string, required: true}
      tone: {type: string, enum: [dry, warm], other_values: true}
      body: {type: object, required: true}
      missing: {type: array, items: string}
      chapter: {type: integer, required: true}
  stop:
    description: Stop
    parameters: {}
";

    fn list(tier: Tier) -> String {
        let actions = parse_actions(ACTIONS, "actions.yaml").unwrap();
        available_actions(actions.iter(), tier)
    }

    #[test]
    fn shorter_lists_show_allowed_values_and_types() {
        let parameters = "kind (world|voice), key, tone? (dry|warm|…), body (object), missing? (list), chapter (integer)";
        assert_eq!(
            list(Tier::Medium),
            format!(
                "<available_actions>\n<action type=\"save\">Save &lt;one&gt; thing: {parameters}</action>\n\
                 <action type=\"stop\">Stop</action>\n</available_actions>"
            )
        );
        assert_eq!(
            list(Tier::Minimal),
            format!("<available_actions>\nsave: {parameters}\nstop\n</available_actions>")
        );
    }
}
