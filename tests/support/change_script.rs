//! The files and scripted turns that tests of changes share.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::read_data;

/// Files of a small project and scripted turns by name, shared by all changes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommonScript {
    pub(crate) files: BTreeMap<String, String>,
    turns: BTreeMap<String, serde_json::Value>,
}

impl CommonScript {
    pub(crate) fn read() -> Self {
        serde_saphyr::from_str(&read_data("change/common.yaml")).unwrap()
    }

    /// Returns a turn as a script has it.
    pub(crate) fn turn(&self, turn: &serde_json::Value) -> serde_json::Value {
        let named = |name: &str| {
            self.turns
                .get(name)
                .unwrap_or_else(|| panic!("unknown turn {name}"))
                .clone()
        };

        let (name, own) = match turn {
            serde_json::Value::String(name) => return named(name),
            turn => (turn["like"].as_str(), turn.as_object().unwrap()),
        };
        let mut like = name.map_or_else(|| serde_json::json!({}), named);

        for (from, to) in own
            .get("with")
            .into_iter()
            .flat_map(|with| with.as_object().unwrap())
        {
            let reply = like["reply"].as_str().unwrap();
            assert!(reply.contains(from), "{name:?} does not contain {from:?}");
            like["reply"] = reply.replace(from, to.as_str().unwrap()).into();
        }

        for (key, value) in own
            .iter()
            .filter(|(key, _)| !["like", "with"].contains(&key.as_str()))
        {
            like[key] = value.clone();
        }

        like
    }
}

pub(crate) fn git(root: &Path, words: &str) {
    let status = Command::new("git")
        .args(words.split(' '))
        .current_dir(root)
        .status()
        .unwrap();
    assert!(status.success(), "git {words}");
}
