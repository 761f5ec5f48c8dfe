//! State document of a session: the sections that its pack declares, artifacts, knowledge and history.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::artifact::{ArtifactProgress, ArtifactRecord};
use super::state_spec::{FieldType, ListSpec, SectionSource, SectionSpec, StateSpec};
use super::{Mode, StateChange};
use crate::error::{ErrorKind, Result};
use crate::text::yaml;

/// Maximum number of YAML nodes in a state file, enough for a history of a hundred thousand turns.
const MAX_STATE_NODES: usize = 1_000_000;

/// Key of the knowledge entries in a state file.
const KNOWLEDGE_KEY: &str = "knowledge";

/// State of a session that prompts show. The pack's [`StateSpec`] describes its sections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StateDocument {
    /// Mode of the session, if the state file names one.
    pub mode: Option<Mode>,
    /// Artifacts and their progress.
    pub work_order: Vec<ArtifactProgress>,
    /// Known content of the pack's artifacts, by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, ArtifactRecord>,
    /// Known facts, most relevant first.
    pub knowledge: Vec<KnowledgeEntry>,
    /// Earlier turns, oldest first. Prompts show them in a separate layer, not in the XML of the state.
    pub history: Vec<ConversationTurn>,
    /// Number of turns before the first of `history`, if only the newest were read.
    #[serde(skip)]
    pub history_start: usize,
    /// Other sections by name.
    #[serde(flatten)]
    pub sections: Map<String, Value>,
}

/// A known fact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the other names say it all")]
pub struct KnowledgeEntry {
    pub category: String,
    pub key: String,
    pub value: String,
    /// Origin of the fact, such as `brainstorm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A message and its reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConversationTurn {
    /// Message of the user.
    pub user: String,
    /// Reply of the agent.
    #[serde(default)]
    pub assistant: String,
}

impl StateDocument {
    /// Parses a state file: YAML, or JSON as a subset of it.
    ///
    /// # Errors
    ///
    /// `StateInvalid` with the location, if the file does not match the pack's `state.yaml`.
    pub fn read(text: &str, origin: &str, spec: &StateSpec) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        yaml::read_seed(
            text,
            origin,
            ErrorKind::StateInvalid,
            MAX_STATE_NODES,
            DocumentSeed { spec },
        )
    }

    /// Returns the value at a path, `section` or `section.field`.
    #[must_use]
    pub fn value_at(&self, path: &str) -> Option<&Value> {
        match path.split_once('.') {
            Some((section, field)) => self.sections.get(section)?.get(field),
            None => self.sections.get(path),
        }
    }

    /// Returns the value at the path of a [`StateChange`]; see [`StateDocument::apply_change`].
    #[must_use]
    pub fn recorded_value(&self, path: &str) -> Option<Value> {
        if let Some(key) = path.strip_prefix("artifacts.") {
            let record = self.artifacts.get(key)?;
            return serde_json::to_value(record).ok();
        }
        if let Some(key) = path.strip_prefix("knowledge.") {
            let entry = self.knowledge.iter().find(|entry| entry.key == key)?;
            return serde_json::to_value(entry).ok();
        }
        self.value_at(path).cloned()
    }

    /// Returns the text, number and boolean fields of all sections, each with its path, for the rules of packs.
    #[must_use]
    pub fn values(&self) -> Vec<(String, String)> {
        let mut values = Vec::new();
        for (section, fields) in &self.sections {
            for (field, value) in fields.as_object().into_iter().flatten() {
                let text = match value {
                    Value::String(text) => text.clone(),
                    Value::Number(_) | Value::Bool(_) => value.to_string(),
                    Value::Null | Value::Array(_) | Value::Object(_) => continue,
                };
                values.push((format!("{section}.{field}"), text));
            }
        }
        values
    }

    /// Applies a change. The previous value is not compared with `change.from`.
    ///
    /// `artifacts.KEY` and `knowledge.KEY` are the paths of an artifact's record and of a knowledge entry; every other
    /// path is that of a section or a field.
    pub fn apply_change(&mut self, change: &StateChange) {
        if let Some(key) = change.path.strip_prefix("artifacts.") {
            match change.to.clone().map(serde_json::from_value) {
                Some(Ok(record)) => {
                    self.artifacts.insert(key.to_owned(), record);
                }
                Some(Err(_)) | None => {
                    self.artifacts.remove(key);
                }
            }
            return;
        }
        if let Some(key) = change.path.strip_prefix("knowledge.") {
            let at = self.knowledge.iter().position(|entry| entry.key == key);
            let entry = change.to.clone().map(serde_json::from_value);
            match (at, entry) {
                (Some(at), Some(Ok(entry))) => self.knowledge[at] = entry,
                // The newest decision has the highest rank.
                (None, Some(Ok(entry))) => self.knowledge.insert(0, entry),
                (Some(at), _) => {
                    self.knowledge.remove(at);
                }
                (None, _) => {}
            }
            return;
        }

        let Some((section, field)) = change.path.split_once('.') else {
            match &change.to {
                Some(value) => {
                    self.sections.insert(change.path.clone(), value.clone());
                }
                None => {
                    self.sections.shift_remove(&change.path);
                }
            }
            return;
        };

        let fields = self
            .sections
            .entry(section)
            .or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(fields) = fields else {
            return;
        };
        match &change.to {
            Some(value) => {
                fields.insert(field.to_owned(), value.clone());
            }
            None => {
                fields.shift_remove(field);
            }
        }
    }
}

/// Deserializes a state document by its spec, so that errors have the location of the invalid value.
#[derive(Clone, Copy)]
struct DocumentSeed<'a> {
    spec: &'a StateSpec,
}

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_> {
    type Value = StateDocument;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<StateDocument, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_> {
    type Value = StateDocument;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map of sections by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StateDocument, A::Error> {
        let mut document = StateDocument::default();
        let known: Vec<&str> = self.keys().collect();
        while let Some(key) = map.next_key_seed(KeySeed { known: &known })? {
            let section = self.spec.sections.get(&key);
            match (key.as_str(), section) {
                ("mode", _) => document.mode = map.next_value()?,
                ("history", _) => document.history = map.next_value()?,
                (KNOWLEDGE_KEY, _) if self.has_knowledge() => {
                    document.knowledge = map.next_value()?;
                }
                (_, Some(section)) if section.holds == Some(SectionSource::Artifacts) => {
                    document.work_order = map.next_value()?;
                }
                (_, Some(section)) if section.holds.is_none() => {
                    let value = map.next_value_seed(SectionSeed { section })?;
                    document.sections.insert(key, value);
                }
                _ => {}
            }
        }
        Ok(document)
    }
}

impl DocumentSeed<'_> {
    fn has_knowledge(self) -> bool {
        self.spec
            .section_holding(SectionSource::Knowledge)
            .is_some()
    }

    /// Returns the top-level keys that a state file may have.
    fn keys(&self) -> impl Iterator<Item = &str> {
        let sections =
            self.spec
                .sections
                .iter()
                .filter_map(|(name, section)| match section.holds {
                    Some(SectionSource::Knowledge) => Some(KNOWLEDGE_KEY),
                    Some(SectionSource::Results) => None,
                    Some(SectionSource::Artifacts) | None => Some(name.as_str()),
                });
        ["mode"].into_iter().chain(sections).chain(["history"])
    }
}

/// Deserializes a section.
#[derive(Clone, Copy)]
struct SectionSeed<'a> {
    section: &'a SectionSpec,
}

impl<'de> DeserializeSeed<'de> for SectionSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match &self.section.list {
            Some(list) => ListSeed { list }.deserialize(deserializer),
            None => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for SectionSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map of fields by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        let known: Vec<&str> = self.section.fields.keys().map(String::as_str).collect();
        loop {
            let name = if self.section.other_fields {
                map.next_key::<String>()?
            } else {
                map.next_key_seed(KeySeed { known: &known })?
            };
            let Some(name) = name else { break };
            let kind = self.section.fields.get(&name).unwrap_or(&FieldType::Text);
            let value = map.next_value_seed(FieldSeed { kind })?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

/// Deserializes the value of a field.
#[derive(Clone, Copy)]
struct FieldSeed<'a> {
    kind: &'a FieldType,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.kind {
            FieldType::Text => String::deserialize(deserializer).map(Value::String),
            FieldType::Number => Number::deserialize(deserializer).map(Value::Number),
            FieldType::Boolean => bool::deserialize(deserializer).map(Value::Bool),
            FieldType::Words => deserializer.deserialize_any(WordsVisitor),
            FieldType::List(list) => ListSeed { list }.deserialize(deserializer),
        }
    }
}

/// Deserializes a list of words, or a string with comma-separated words.
struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of strings, or a string with commas")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(split_words(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = list.next_element::<String>()? {
            words.push(Value::String(word));
        }
        Ok(Value::Array(words))
    }
}

/// Splits a string with comma-separated words.
fn split_words(text: &str) -> Value {
    text.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(|word| Value::String(word.to_owned()))
        .collect()
}

/// Deserializes the items of a list.
#[derive(Clone, Copy)]
struct ListSeed<'a> {
    list: &'a ListSpec,
}

impl<'de> DeserializeSeed<'de> for ListSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ListSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(ItemSeed { list: self.list })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
}

/// Deserializes an item of a list.
#[derive(Clone, Copy)]
struct ItemSeed<'a> {
    list: &'a ListSpec,
}

impl<'de> DeserializeSeed<'de> for ItemSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.list.is_plain() {
            return String::deserialize(deserializer).map(Value::String);
        }
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ItemSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map of the item's keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut item = Map::new();
        let known: Vec<&str> = self.list.keys().collect();
        while let Some(key) = map.next_key_seed(KeySeed { known: &known })? {
            let text: String = map.next_value()?;
            item.insert(key, Value::String(text));
        }

        for key in &self.list.attributes {
            if !item.contains_key(key) {
                return Err(de::Error::custom(format!("missing field `{key}`")));
            }
        }
        Ok(Value::Object(item))
    }
}

/// Deserializes a key, and reports an unknown key with its location.
#[derive(Clone, Copy)]
struct KeySeed<'a> {
    known: &'a [&'a str],
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        if self.known.contains(&key) {
            return Ok(key.to_owned());
        }
        // The wording of serde, from which the YAML reader derives its suggestion.
        let known: Vec<String> = self.known.iter().map(|name| format!("`{name}`")).collect();
        Err(E::custom(format!(
            "unknown field `{key}`, expected one of {}",
            known.join(", ")
        )))
    }
}
