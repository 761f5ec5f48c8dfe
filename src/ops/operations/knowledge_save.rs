//! `knowledge.save`: records a fact, which later prompts show.

use serde::Deserialize;

use super::state_step::{StateEffect, run_state_step};
use crate::error::Result;
use crate::models::{KnowledgeEntry, OperationId, StateChange, StepResult};
use crate::ops::{Act, Operation, Site, Step};

/// Maximum length of a key, in characters.
const MAX_KEY_CHARS: usize = 100;

/// Records a fact under its key; an earlier value stays in the ledger.
pub(crate) struct KnowledgeSave;

/// Input of the operation.
#[derive(Debug, Deserialize)]
struct SaveInput {
    category: String,
    key: String,
    value: String,
    #[serde(default)]
    source: Option<String>,
}

impl Operation for KnowledgeSave {
    fn id(&self) -> OperationId {
        OperationId::KnowledgeSave
    }
}

impl Act for KnowledgeSave {
    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        Ok(run_state_step(
            step,
            |input: &SaveInput| input.key.trim(),
            |input| save_entry(site, input),
        ))
    }
}

fn save_entry(site: &Site<'_>, input: SaveInput) -> std::result::Result<StateEffect, String> {
    let document = site.document()?;
    let key = input.key.trim();
    if key.is_empty() || key.chars().count() > MAX_KEY_CHARS || key.contains('\n') {
        return Err(format!(
            "the key must be one line of at most {MAX_KEY_CHARS} characters"
        ));
    }
    if input.value.trim().is_empty() {
        return Err("the value is empty".to_owned());
    }

    let entry = KnowledgeEntry {
        category: input.category,
        key: key.to_owned(),
        value: input.value,
        source: input.source,
    };
    let earlier = document.knowledge.iter().find(|known| known.key == key);
    let detail = match earlier {
        Some(earlier) if earlier.value != entry.value => {
            format!("saved {key}, which replaces: {}", earlier.value)
        }
        _ => format!("saved {key}"),
    };

    let value = |entry: &KnowledgeEntry| serde_json::to_value(entry).ok();
    Ok(StateEffect {
        detail,
        change: StateChange {
            path: format!("knowledge.{key}"),
            from: earlier.and_then(value),
            to: value(&entry),
        },
    })
}
