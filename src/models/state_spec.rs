//! Structure of a session's state: the sections that a pack declares in its `state.yaml`.

use indexmap::IndexMap;
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Mode, Tier};

/// Names of field types in `state.yaml`.
const FIELD_TYPES: &str = "text, number, boolean, words";

/// Sections of a session's state, with their types and their visibility.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSpec {
    /// Sections by name, in their order in the XML.
    pub sections: IndexMap<String, SectionSpec>,
    /// XML elements that the minimal tier shows, each with the path of its field, such as
    /// `active_file: active_context.file`. A section of artifacts shows the next one that is not complete, a section of
    /// results those that are not done.
    #[serde(default)]
    pub minimal: IndexMap<String, String>,
    /// Visibility of the sections in each mode.
    #[serde(default)]
    pub modes: IndexMap<Mode, SectionVisibility>,
}

/// A section of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SectionSpec {
    /// Source of the content, if agentd maintains it. Such a section has neither `fields` nor `list`.
    pub holds: Option<SectionSource>,
    /// Fields by name, in their order in the XML.
    pub fields: IndexMap<String, FieldType>,
    /// True if the section may have undeclared fields, which are strings.
    pub other_fields: bool,
    /// Structure of the items, if the section is a list.
    pub list: Option<ListSpec>,
    /// XML element of each artifact, in a section of artifacts.
    pub element: Option<String>,
    /// Fields that the medium tier shows; `None` for all. An artifact has the field `completed`.
    pub medium: Option<Vec<String>>,
    /// Fields that modes show if they summarize the section.
    pub summary: Vec<String>,
}

/// Source of a section whose content agentd maintains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SectionSource {
    /// The pack's artifacts and their status.
    Artifacts,
    /// Entries of the knowledge base.
    Knowledge,
    /// Results of the actions in the last turn.
    Results,
}

/// Type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A list of words, shown on one line and separated by commas.
    Words,
    /// A list of items, each in its own XML element.
    List(ListSpec),
}

/// Structure of the items of a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSpec {
    /// XML element of each item.
    pub element: String,
    /// Keys of an item that are shown as XML attributes. They are required.
    #[serde(default)]
    pub attributes: Vec<String>,
    /// Key of the item's text; `None` if the items have no text, or if they are plain strings.
    #[serde(default)]
    pub text: Option<String>,
    /// True if the items are inside an XML element with the name of the field.
    #[serde(default = "wrapped_by_default")]
    pub wrapped: bool,
}

fn wrapped_by_default() -> bool {
    true
}

/// Visibility of sections in a mode. Sections that are in none of the lists are shown only at the full tier. Empty
/// sections are never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SectionVisibility {
    /// Sections shown at every tier except the minimal one, which has its own short form.
    pub shown: Vec<String>,
    /// Sections shown as a summary.
    pub summarized: Vec<String>,
    /// Sections that are never shown.
    pub omit: Vec<String>,
}

impl SectionVisibility {
    /// Returns true if a section is shown at a tier.
    #[must_use]
    pub fn shows(&self, section: &str, tier: Tier) -> bool {
        let is_in = |names: &[String]| names.iter().any(|name| name == section);
        let is_listed = is_in(&self.shown) || is_in(&self.summarized);
        !is_in(&self.omit) && (is_listed || tier == Tier::Full)
    }

    /// Returns true if a section is shown as a summary.
    #[must_use]
    pub fn summarizes(&self, section: &str) -> bool {
        self.summarized.iter().any(|name| name == section)
    }
}

impl<'de> Deserialize<'de> for FieldType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldTypeVisitor)
    }
}

/// Deserializes a field type: a type name, or the structure of a list.
struct FieldTypeVisitor;

impl<'de> Visitor<'de> for FieldTypeVisitor {
    type Value = FieldType;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "a type ({FIELD_TYPES}) or a list with `element`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<FieldType, E> {
        match text {
            "text" => Ok(FieldType::Text),
            "number" => Ok(FieldType::Number),
            "boolean" => Ok(FieldType::Boolean),
            "words" => Ok(FieldType::Words),
            _ => Err(E::custom(format!(
                "unknown field type `{text}`: expected {FIELD_TYPES}, or a list with `element`"
            ))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FieldType, A::Error> {
        ListSpec::deserialize(MapAccessDeserializer::new(map)).map(FieldType::List)
    }
}

/// A change of the state: a field or a list section gets a new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateChange {
    /// Path of the section or field, such as `project.title`.
    pub path: String,
    /// Value before; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// Value after; `None` if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

impl StateSpec {
    /// Returns the section with a source, and its name; `None` if the pack declares none.
    #[must_use]
    pub fn section_holding(&self, source: SectionSource) -> Option<(&str, &SectionSpec)> {
        self.sections
            .iter()
            .find(|(_, section)| section.holds == Some(source))
            .map(|(name, section)| (name.as_str(), section))
    }

    /// Returns the type of the value at a path, `section` or `section.field`.
    ///
    /// # Errors
    ///
    /// A message that says which part of the path does not exist or cannot be set.
    pub fn type_at(&self, path: &str) -> Result<FieldType, String> {
        let (name, field) = match path.split_once('.') {
            Some((name, field)) => (name, Some(field)),
            None => (path, None),
        };
        let Some(section) = self.sections.get(name) else {
            return Err(format!("the state has no section `{name}`"));
        };
        if section.holds.is_some() {
            return Err(format!("`{name}` is kept by agentd and cannot be set"));
        }

        match (field, &section.list) {
            (None, Some(list)) => Ok(FieldType::List(list.clone())),
            (None, None) => Err(format!("`{name}` is a section: name one of its fields")),
            (Some(_), Some(_)) => Err(format!("`{name}` is a list and has no fields")),
            (Some(field), None) => match section.fields.get(field) {
                Some(kind) => Ok(kind.clone()),
                None if section.other_fields => Ok(FieldType::Text),
                None => Err(format!("`{name}` has no field `{field}`")),
            },
        }
    }

    /// Returns the JSON Schema of a state file.
    #[must_use]
    pub fn json_schema(&self) -> Value {
        let mut properties = serde_json::Map::new();
        properties.insert(
            "mode".to_owned(),
            json!({"type": "string", "description": "Current mode of the session."}),
        );

        for (name, section) in &self.sections {
            let (key, schema) = match section.holds {
                Some(SectionSource::Artifacts) => (name.as_str(), artifacts_schema()),
                Some(SectionSource::Knowledge) => ("knowledge", knowledge_schema()),
                Some(SectionSource::Results) => continue,
                None => (name.as_str(), section.json_schema()),
            };
            properties.insert(key.to_owned(), schema);
        }

        properties.insert("history".to_owned(), history_schema());
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "StateDocument",
            "description": "State of a session, as a state file describes it.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}

impl SectionSpec {
    fn json_schema(&self) -> Value {
        if let Some(list) = &self.list {
            return list.json_schema();
        }

        let fields: serde_json::Map<String, Value> = self
            .fields
            .iter()
            .map(|(name, kind)| (name.clone(), kind.json_schema()))
            .collect();
        let other = if self.other_fields {
            scalar_schema()
        } else {
            Value::Bool(false)
        };
        json!({"type": "object", "properties": fields, "additionalProperties": other})
    }
}

impl FieldType {
    fn json_schema(&self) -> Value {
        match self {
            Self::Text => scalar_schema(),
            Self::Number => json!({"type": "number"}),
            Self::Boolean => json!({"type": "boolean"}),
            Self::Words => json!({
                "type": ["array", "string"],
                "items": {"type": "string"},
            }),
            Self::List(list) => list.json_schema(),
        }
    }
}

impl ListSpec {
    /// Returns the keys of an item; none if the items are plain strings.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().chain(&self.text).map(String::as_str)
    }

    /// Returns true if the items are plain strings without keys.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.attributes.is_empty() && self.text.is_none()
    }

    fn json_schema(&self) -> Value {
        let items = if self.is_plain() {
            scalar_schema()
        } else {
            let keys: serde_json::Map<String, Value> = self
                .keys()
                .map(|key| (key.to_owned(), scalar_schema()))
                .collect();
            json!({
                "type": "object",
                "properties": keys,
                "required": self.attributes,
                "additionalProperties": false,
            })
        };
        json!({"type": "array", "items": items})
    }
}

/// Returns the JSON Schema of a string. It also accepts numbers and booleans, which are used as strings.
fn scalar_schema() -> Value {
    json!({"type": ["string", "number", "boolean"]})
}

fn artifacts_schema() -> Value {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "status": {"enum": ["not_started", "in_progress", "draft_ready", "complete"]},
                "required": {"type": "integer", "minimum": 0},
                "completed": texts,
                "missing": texts,
            },
            "required": ["name", "status"],
            "additionalProperties": false,
        },
    })
}

fn knowledge_schema() -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "category": {"type": "string"},
                "key": {"type": "string"},
                "value": {"type": "string"},
                "source": {"type": "string"},
            },
            "required": ["category", "key", "value"],
            "additionalProperties": false,
        },
    })
}

fn history_schema() -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"user": {"type": "string"}, "assistant": {"type": "string"}},
            "required": ["user"],
            "additionalProperties": false,
        },
    })
}
