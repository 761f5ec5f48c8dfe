//! Facts that the rules of packs test.

use std::collections::BTreeMap;

/// Facts for evaluating rules: values by name, such as `depth`, or by name and argument, such as `status("theme")`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleFacts(BTreeMap<String, FactValue>);

/// Value of a fact.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum FactValue {
    Number(f64),
    Text(String),
}

impl FactValue {
    /// Parses a value: a finite number, or else a string.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Self::Number(number),
            _ => Self::Text(text.to_owned()),
        }
    }
}

impl From<f64> for FactValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for FactValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl RuleFacts {
    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<FactValue>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Returns a fact's value as text; `None` if it is unknown.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| match value {
            FactValue::Number(number) => number.to_string(),
            FactValue::Text(text) => text.clone(),
        })
    }

    /// Returns the value of a fact by its key, `name` or `name(argument)`.
    pub(super) fn get(&self, key: &str) -> Option<&FactValue> {
        self.0.get(key)
    }

    /// Adds a fact with an argument.
    #[must_use]
    pub fn with_argument(self, name: &str, argument: &str, value: impl Into<FactValue>) -> Self {
        self.with(&fact_key(name, Some(argument)), value)
    }
}

/// Returns the key of a fact: `name` or `name(argument)`.
pub(super) fn fact_key(name: &str, argument: Option<&str>) -> String {
    argument.map_or_else(|| name.to_owned(), |argument| format!("{name}({argument})"))
}
