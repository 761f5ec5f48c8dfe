//! Actions: requests that packs define and that agents make in their replies.

use std::ops::Range;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Definition of an action in a pack.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ActionSpec {
    /// Description for the agent.
    pub description: String,
    /// Parameters by name, in order.
    #[serde(default)]
    pub parameters: IndexMap<String, Parameter>,
    /// Return value; `None` if there is none.
    #[serde(default)]
    pub returns: Option<Returns>,
    /// Values of an example, by parameter; empty if there is none. Prompts show it at the full tier.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub example: Map<String, Value>,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Type of the value.
    #[serde(rename = "type")]
    pub kind: ValueKind,
    /// True if an action without this parameter is refused.
    #[serde(default)]
    pub required: bool,
    /// Name of another parameter that can replace this one.
    #[serde(default)]
    pub unless: Option<String>,
    /// Description for the agent.
    #[serde(default)]
    pub description: Option<String>,
    /// Allowed values; empty if any value is allowed.
    #[serde(default, rename = "enum")]
    pub one_of: Vec<String>,
    /// Synonyms of the allowed values, by value.
    #[serde(default)]
    pub aliases: IndexMap<String, Vec<String>>,
    /// True if values that are not in `one_of` are accepted unchanged.
    #[serde(default)]
    pub other_values: bool,
    /// Type of the items of an array.
    #[serde(default)]
    pub items: Option<ValueKind>,
}

/// Return value of an action.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Returns {
    #[expect(missing_docs, reason = "the name says it all")]
    #[serde(rename = "type")]
    pub kind: ValueKind,
    /// Description for the agent.
    #[serde(default)]
    pub description: Option<String>,
}

/// Types of JSON values.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    #[expect(missing_docs, reason = "the types of JSON Schema")]
    String,
    #[expect(missing_docs, reason = "the types of JSON Schema")]
    Integer,
    #[expect(missing_docs, reason = "the types of JSON Schema")]
    Number,
    #[expect(missing_docs, reason = "the types of JSON Schema")]
    Boolean,
    #[expect(missing_docs, reason = "the types of JSON Schema")]
    Array,
    #[expect(missing_docs, reason = "the types of JSON Schema")]
    Object,
}

impl ValueKind {
    /// Returns the name of the type in JSON Schema.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

impl ActionSpec {
    /// Returns the action as a tool definition with `name`, `description` and `input_schema`.
    #[must_use]
    pub fn tool(&self, name: &str) -> Value {
        let properties: Map<String, Value> = self
            .parameters
            .iter()
            .map(|(name, parameter)| (name.clone(), parameter.schema()))
            .collect();
        let required: Vec<&String> = self
            .parameters
            .iter()
            .filter(|(_, parameter)| parameter.required && parameter.unless.is_none())
            .map(|(name, _)| name)
            .collect();

        json!({
            "name": name,
            "description": self.description,
            "input_schema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
        })
    }
}

impl Parameter {
    /// Returns the allowed value that a string means, by its name or by an alias; `None` if it means none. Case, quotes, and
    /// Markdown code and emphasis are ignored.
    #[must_use]
    pub fn known_value(&self, text: &str) -> Option<&str> {
        let word = text
            .trim_matches(|c: char| c.is_whitespace() || matches!(c, '`' | '*' | '_' | '"' | '\''));
        let plain = |text: &str| text.replace([' ', '-'], "_").to_ascii_lowercase();
        let word = plain(word);
        let is_word = |known: &String| plain(known) == word;

        if let Some(value) = self.one_of.iter().find(|known| is_word(known)) {
            return Some(value);
        }
        self.aliases
            .iter()
            .find(|(_, words)| words.iter().any(is_word))
            .map(|(value, _)| value.as_str())
    }

    fn schema(&self) -> Value {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), self.kind.name().into());
        if let Some(description) = &self.description {
            schema.insert("description".to_owned(), description.as_str().into());
        }
        if !self.one_of.is_empty() && !self.other_values {
            schema.insert("enum".to_owned(), self.one_of.clone().into());
        }
        if let Some(items) = self.items {
            schema.insert("items".to_owned(), json!({"type": items.name()}));
        }
        schema.into()
    }
}

/// An action that a reply requests. The values have the types of the parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    #[expect(missing_docs, reason = "the name says it all")]
    pub name: String,
    /// Values of the parameters, by name.
    pub values: Map<String, Value>,
    /// Source text in the reply.
    pub text: String,
    /// Byte range in the reply.
    pub span: Range<usize>,
}

impl Action {
    /// Returns true if both actions have the same name and the same values, in any order.
    #[must_use]
    pub fn is_same_request(&self, other: &Self) -> bool {
        self.name == other.name && self.values == other.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_in_any_case_by_an_alias_and_in_markdown() {
        let severity: Parameter = serde_json::from_value(json!({
            "type": "string",
            "enum": ["critical", "major", "minor", "not_started"],
            "aliases": {"critical": ["blocker", "blocking"], "minor": ["nit"]},
        }))
        .unwrap();

        for (text, value) in [
            ("critical", "critical"),
            ("Critical", "critical"),
            (" MAJOR\n", "major"),
            ("`major`", "major"),
            ("**Minor**", "minor"),
            ("Blocker", "critical"),
            ("*nit*", "minor"),
            ("not started", "not_started"),
            ("Not-Started", "not_started"),
        ] {
            assert_eq!(severity.known_value(text), Some(value), "{text:?}");
        }
        for text in ["", "severe", "major or minor", "majors"] {
            assert_eq!(severity.known_value(text), None, "{text:?}");
        }
    }
}
