//! Code blocks of a spec: diagrams, schemas and interfaces, and their declaration in the front
//! matter.

use serde_json::Value;

use super::Fault;
use super::front_matter::{DesignFlags, line_of};
use crate::text::json_schema::{SchemaDraft, check_schema, looks_like_schema};
use crate::text::markdown::{LineKind, MarkdownLine};

/// Kinds of design elements that a body contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DesignElements {
    /// A `mermaid` block.
    pub(super) mermaid: bool,
    /// A `json` block that is a schema.
    pub(super) json_schema: bool,
    /// A block without a language.
    pub(super) pseudo_code: bool,
    /// A block in an interface description language, or a YAML or JSON block with a key such as
    /// `openapi`.
    pub(super) api_spec: bool,
}

/// Languages that only describe service interfaces.
const API_LANGUAGES: [&str; 5] = ["openapi", "asyncapi", "graphql", "proto", "protobuf"];

/// Top-level keys of a service description in YAML or JSON.
const API_KEYS: [&str; 3] = ["openapi", "asyncapi", "swagger"];

impl DesignElements {
    /// Finds the design elements in some lines of a document, and adds the faults of their code blocks.
    pub(super) fn find(text: &str, lines: &[MarkdownLine<'_>], faults: &mut Vec<Fault>) -> Self {
        let mut design = Self::default();
        let mut open: Option<(&MarkdownLine<'_>, &str, usize)> = None;

        for (index, line) in lines.iter().enumerate() {
            match (line.kind, open) {
                (LineKind::FenceOpen(language), _) => {
                    let start = lines.get(index + 1).map_or(text.len(), |next| next.start);
                    open = Some((line, language, start));
                }
                (LineKind::FenceClose, Some((first, language, start))) => {
                    design.add_block(language, &text[start..line.start], first.number, faults);
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

    fn add_block(&mut self, language: &str, code: &str, line: usize, faults: &mut Vec<Fault>) {
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
                // The line in the message of serde_json is that of the code block.
                let reason = message.split(" at line ").next().unwrap_or_default();
                let at = line + error.line().max(1);
                faults.push(Fault::new(at, format!("invalid JSON: {reason}")));
                return;
            }
        };

        if API_KEYS.iter().any(|key| value.get(key).is_some()) {
            self.api_spec = true;
        } else if looks_like_schema(&value) {
            self.json_schema = true;
            if let Err(fault) = check_schema(&value, SchemaDraft::Draft07) {
                let hint =
                    "put an example that is not a schema into a code block of language `jsonc`";
                faults.push(
                    Fault::new(line, format!("invalid JSON Schema: {fault}")).with_hint(hint),
                );
            }
        }
    }

    /// Adds a fault for each flag of the front matter that does not match the body.
    pub(super) fn check(self, flags: &DesignFlags, faults: &mut Vec<Fault>) {
        let rows = [
            (
                "has_mermaid",
                &flags.has_mermaid,
                self.mermaid,
                "a `mermaid` code block",
            ),
            (
                "has_json_schema",
                &flags.has_json_schema,
                self.json_schema,
                "a JSON Schema in a `json` code block",
            ),
            (
                "has_pseudo_code",
                &flags.has_pseudo_code,
                self.pseudo_code,
                "a code block without a language",
            ),
            (
                "has_api_spec",
                &flags.has_api_spec,
                self.api_spec,
                "a code block of language `openapi`, `graphql` or `proto`",
            ),
        ];

        for (name, flag, is_present, what) in rows
            .into_iter()
            .filter(|(_, flag, is_present, _)| flag.value != *is_present)
        {
            let message = match is_present {
                true => format!("`{name}` is false, but the body has {what}"),
                false => format!("`{name}` is true, but the body does not have {what}"),
            };

            let fault = Fault::new(line_of(flag), message);
            faults.push(if is_present {
                fault
            } else {
                fault.with_hint(format!("set `{name}` to false, or add {what}"))
            });
        }
    }
}

fn is_api_key(line: &str) -> bool {
    line.split_once(':')
        .is_some_and(|(key, _)| API_KEYS.contains(&key))
}
