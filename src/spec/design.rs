//! The code fences of a spec: diagrams, schemas, interfaces, and whether the head tells the truth about them.

use serde_json::Value;

use super::Fault;
use super::head::{Flags, line};
use crate::text::json_schema::{SchemaDraft, check_schema, looks_like_schema};
use crate::text::markdown::{LineKind, MarkdownLine};

/// Which kinds of design elements a body holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Design {
    /// A fence of `mermaid`.
    pub(super) mermaid: bool,
    /// A fence of `json` that is a schema.
    pub(super) json_schema: bool,
    /// A fence without a language.
    pub(super) pseudo_code: bool,
    /// A fence of a language for interfaces of services, or of YAML or JSON that says so first.
    pub(super) api_spec: bool,
}

/// Languages that describe nothing but interfaces of services.
const API_LANGUAGES: [&str; 5] = ["openapi", "asyncapi", "graphql", "proto", "protobuf"];

/// Keys with which a description of a service in YAML or JSON starts.
const API_KEYS: [&str; 3] = ["openapi", "asyncapi", "swagger"];

impl Design {
    /// Looks at the fences among some lines of a text; what is wrong with one is a fault.
    pub(super) fn of(text: &str, lines: &[MarkdownLine<'_>], faults: &mut Vec<Fault>) -> Self {
        let mut design = Self::default();
        let mut open: Option<(&MarkdownLine<'_>, &str, usize)> = None;
        for (index, line) in lines.iter().enumerate() {
            match (line.kind, open) {
                (LineKind::FenceOpen(language), _) => {
                    let start = lines.get(index + 1).map_or(text.len(), |next| next.start);
                    open = Some((line, language, start));
                }
                (LineKind::FenceClose, Some((first, language, start))) => {
                    design.add(language, &text[start..line.start], first.number, faults);
                    open = None;
                }
                _ => {}
            }
        }
        if let Some((first, ..)) = open {
            faults.push(Fault::new(first.number, "this code fence is not closed"));
        }
        design
    }

    fn add(&mut self, language: &str, code: &str, line: usize, faults: &mut Vec<Fault>) {
        match language.to_ascii_lowercase().as_str() {
            "mermaid" => self.mermaid = true,
            "" | "pseudo" | "pseudocode" => self.pseudo_code = true,
            "yaml" | "yml" => self.api_spec |= code.lines().any(is_api_key),
            "json" => self.add_json(code, line, faults),
            language => self.api_spec |= API_LANGUAGES.contains(&language),
        }
    }

    fn add_json(&mut self, code: &str, line: usize, faults: &mut Vec<Fault>) {
        let value: Value = match serde_json::from_str(code) {
            Ok(value) => value,
            Err(error) => {
                let message = error.to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                let at = line + error.line().max(1);
                faults.push(Fault::new(at, format!("this is not JSON: {message}")));
                return;
            }
        };
        if API_KEYS.iter().any(|key| value.get(key).is_some()) {
            self.api_spec = true;
        } else if looks_like_schema(&value) {
            self.json_schema = true;
            if let Err(fault) = check_schema(&value, SchemaDraft::Draft07) {
                let hint = "an example that is no schema goes into a fence of `jsonc`";
                faults
                    .push(Fault::new(line, format!("not a JSON Schema: {fault}")).with_hint(hint));
            }
        }
    }

    /// Compares the flags of a head.
    pub(super) fn check(self, flags: &Flags, faults: &mut Vec<Fault>) {
        let rows = [
            (
                "has_mermaid",
                &flags.has_mermaid,
                self.mermaid,
                "a fence of `mermaid`",
            ),
            (
                "has_json_schema",
                &flags.has_json_schema,
                self.json_schema,
                "a JSON Schema in a fence of `json`",
            ),
            (
                "has_pseudo_code",
                &flags.has_pseudo_code,
                self.pseudo_code,
                "a fence without a language",
            ),
            (
                "has_api_spec",
                &flags.has_api_spec,
                self.api_spec,
                "a fence of `openapi`, `graphql` or `proto`",
            ),
        ];
        for (name, flag, is_there, what) in rows
            .into_iter()
            .filter(|(_, flag, is_there, _)| flag.value != *is_there)
        {
            let message = match is_there {
                true => format!("`{name}` is false, but the body has {what}"),
                false => format!("`{name}` is true, but the body has no such part"),
            };
            let fault = Fault::new(line(flag), message);
            faults.push(if is_there {
                fault
            } else {
                fault.with_hint(format!("it would be {what}"))
            });
        }
    }
}

fn is_api_key(line: &str) -> bool {
    line.split_once(':')
        .is_some_and(|(key, _)| API_KEYS.contains(&key))
}
