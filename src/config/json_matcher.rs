//! Paths into the JSON events of an agent, and conditions on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// A path into a JSON value: names joined by `/`, in which `*` matches every item of a list or an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JsonPath(String);

impl JsonPath {
    /// Creates a path; fails with a message if a name in it is empty.
    pub(super) fn new(path: String) -> Result<Self, String> {
        if path.split('/').any(str::is_empty) {
            return Err(format!(
                "invalid path {path:?}: join names with `/`, as in `message/text`"
            ));
        }
        Ok(Self(path))
    }

    /// Returns every value at the path, in the order of the document.
    #[must_use]
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for name in self.0.split('/') {
            found = found
                .into_iter()
                .flat_map(|value| match (value, name) {
                    (Value::Array(items), "*") => items.iter().collect(),
                    (Value::Object(items), "*") => items.values().collect(),
                    (Value::Array(items), _) => name
                        .parse()
                        .ok()
                        .and_then(|at: usize| items.get(at))
                        .into_iter()
                        .collect(),
                    (Value::Object(items), _) => items.get(name).into_iter().collect::<Vec<_>>(),
                    _ => Vec::new(),
                })
                .collect();
        }
        found
    }
}

impl<'de> Deserialize<'de> for JsonPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Values that an event must have, by path. `null` also matches a path that does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct EventCondition(BTreeMap<JsonPath, Value>);

impl EventCondition {
    /// Returns true if an event has all values. An empty condition matches every event.
    #[must_use]
    pub fn matches(&self, event: &Value) -> bool {
        self.0.iter().all(|(path, wanted)| {
            let found = path.find(event);
            found.contains(&wanted) || (wanted.is_null() && found.is_empty())
        })
    }

    /// Returns true if the condition matches every event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A rule that reads a string from each matching event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRule {
    /// Condition on the event.
    #[serde(default)]
    pub when: EventCondition,
    /// Path of the string in the event.
    pub path: JsonPath,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_leads_through_lists_and_objects() {
        let event = json!({"type": "a", "content": [{"text": "x"}, {"think": 1}, {"text": "y"}], "by": {"m": {"n": 1}, "o": {"n": 2}}});
        let cases = [
            ("type", vec![json!("a")]),
            ("content/*/text", vec![json!("x"), json!("y")]),
            ("content/2/text", vec![json!("y")]),
            ("by/*/n", vec![json!(1), json!(2)]),
            ("type/x", vec![]),
            ("none", vec![]),
        ];
        for (path, expected) in cases {
            let found: Vec<Value> = JsonPath(path.to_owned())
                .find(&event)
                .into_iter()
                .cloned()
                .collect();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn a_condition_holds_for_all_its_paths_and_null_also_for_nothing() {
        let when: EventCondition =
            serde_json::from_value(json!({"type": "result", "parent": null, "bad": false}))
                .unwrap();
        assert!(when.matches(&json!({"type": "result", "bad": false})));
        assert!(when.matches(&json!({"type": "result", "bad": false, "parent": null})));
        assert!(!when.matches(&json!({"type": "result", "bad": false, "parent": "x"})));
        assert!(!when.matches(&json!({"type": "result"})));
        assert!(!when.matches(&json!([])));
    }
}
