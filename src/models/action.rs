//! Actions: what an agent may ask for, and what one has asked for.

use std::ops::Range;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// An action: what it does, and with which parameters.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ActionSpec {
    /// What it does.
    pub description: String,
    /// Its parameters, in order.
    #[serde(default)]
    pub parameters: IndexMap<String, Parameter>,
    /// What it gives back.
    #[serde(default)]
    pub returns: Option<Returns>,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The type of its value.
    #[serde(rename = "type")]
    pub kind: ValueKind,
    /// Whether it must be given.
    #[serde(default)]
    pub required: bool,
    /// Name of another parameter: if that one is given, this one may be left out.
    #[serde(default)]
    pub unless: Option<String>,
    /// What it means.
    #[serde(default)]
    pub description: Option<String>,
    /// The values it may have.
    #[serde(default, rename = "enum")]
    pub one_of: Vec<String>,
    /// Other words for these values, by the value they mean.
    #[serde(default)]
    pub aliases: IndexMap<String, Vec<String>>,
    /// Set if any other value is accepted, too, as it is written.
    #[serde(default)]
    pub other_values: bool,
    /// The type of the items of an array.
    #[serde(default)]
    pub items: Option<ValueKind>,
}

/// What an action gives back.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Returns {
    /// The type of the value.
    #[serde(rename = "type")]
    pub kind: ValueKind,
    /// What it means.
    #[serde(default)]
    pub description: Option<String>,
}

/// The types of values.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A list.
    Array,
    /// Named values.
    Object,
}

impl ValueKind {
    /// Returns the type's name, as JSON Schema spells it.
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
    /// Returns the action as a tool: its name, what it does, and its parameters as JSON Schema.
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
    /// Returns the value of `enum` that a text means: in any case, by an alias, in Markdown's marks for code and bold.
    #[must_use]
    pub fn known_value(&self, text: &str) -> Option<&str> {
        let word = text
            .trim_matches(|c: char| c.is_whitespace() || matches!(c, '`' | '*' | '_' | '"' | '\''));
        let is_word = |known: &String| known.eq_ignore_ascii_case(word);
        let aliased = || {
            self.aliases
                .iter()
                .find(|(_, words)| words.iter().any(is_word))
                .map(|(value, _)| value)
        };
        self.one_of
            .iter()
            .find(|known| is_word(known))
            .or_else(aliased)
            .map(String::as_str)
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

/// An action that a reply asks for, with values of the types that its schema names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// The values of its parameters.
    pub values: Map<String, Value>,
    /// Its text, as it stands in the reply.
    pub text: String,
    /// Where in the reply's bytes.
    pub span: Range<usize>,
}

impl Action {
    /// Returns whether two actions ask for the same, with the same values in the same order.
    #[must_use]
    pub fn is_same_request(&self, other: &Self) -> bool {
        self.name == other.name && self.values.iter().eq(other.values.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_in_any_case_by_an_alias_and_in_markdown() {
        let severity: Parameter = serde_json::from_value(json!({
            "type": "string",
            "enum": ["critical", "major", "minor"],
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
        ] {
            assert_eq!(severity.known_value(text), Some(value), "{text:?}");
        }
        for text in ["", "severe", "major or minor", "majors"] {
            assert_eq!(severity.known_value(text), None, "{text:?}");
        }
    }
}
