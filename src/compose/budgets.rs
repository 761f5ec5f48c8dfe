//! Token counts of a pack's prose per mode and tier, compared with its budgets.

use serde::Serialize;

use super::count::Counter;
use super::vars::{self, MissingVariable, PlaceholderValues, Variables};
use crate::error::Result;
use crate::models::{Mode, Tier};
use crate::pack::{Layer, LayerContent, Pack, file_for};

/// Token count and budget of one layer's prose in one mode at one tier.
#[expect(missing_docs, reason = "the other names need no explanation")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetRow {
    pub mode: Mode,
    pub tier: Tier,
    /// Id of the layer.
    pub layer: String,
    /// Tokens of the layer's prose; `None` for a layer whose content comes from the session.
    pub tokens: Option<u64>,
    /// Budget of the layer, or the floor of an elastic layer; `None` if the pack sets neither.
    pub budget: Option<u64>,
}

impl BudgetRow {
    /// Returns true if the prose exceeds its budget.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.tokens
            .zip(self.budget)
            .is_some_and(|(tokens, budget)| tokens > budget)
    }
}

/// Measures the prose of every layer in every mode at every tier, regardless of conditions.
///
/// # Errors
///
/// Fails if a placeholder cannot be filled.
pub fn budgets(pack: &Pack, counter: &Counter) -> Result<Vec<BudgetRow>> {
    let mut rows = Vec::new();
    for mode in pack.modes.keys() {
        for tier in Tier::ALL {
            for layer in &pack.layers {
                let text = longest_prose(pack, layer, mode, tier)?;
                let tokens = text.map(|text| {
                    if text.is_empty() {
                        0
                    } else {
                        counter.max_tokens(&text)
                    }
                });

                // An elastic layer has no budget; its floor is listed instead.
                let budget = layer.budget.or(layer.floor).map(|budget| budget.at(tier));
                if tokens.is_some() || budget.is_some() {
                    rows.push(BudgetRow {
                        mode: mode.clone(),
                        tier,
                        layer: layer.id.clone(),
                        tokens,
                        budget,
                    });
                }
            }
        }
    }

    Ok(rows)
}

/// Returns the prose of a layer in a mode at a tier, or the longest alternative if conditions choose among several.
/// `None` for a layer without prose.
fn longest_prose(pack: &Pack, layer: &Layer, mode: &Mode, tier: Tier) -> Result<Option<String>> {
    if layer.none_at.is_some_and(|none_at| tier <= none_at) {
        return Ok(Some(String::new()));
    }

    // Each alternative is a list of files that are used together.
    let alternatives: Vec<Vec<&str>> = match (&layer.text, layer.holds) {
        (_, LayerContent::Turn) => {
            let turn_files = [&layer.user, &layer.assistant].into_iter().flatten();
            vec![turn_files.map(|file| file.value.as_str()).collect()]
        }
        (Some(text), _) => {
            let added_files = layer.adds.get(mode).into_iter().flatten();
            let files = std::iter::once(text).chain(added_files);
            vec![files.map(|file| file.value.as_str()).collect()]
        }
        (None, _) => layer
            .choose
            .iter()
            .map(|choice| vec![choice.value.text.as_str()])
            .collect(),
    };

    let mut longest: Option<String> = None;
    for files in alternatives {
        let mut parts = Vec::new();
        for text in files
            .into_iter()
            .filter_map(|file| pack.text(&file_for(file, mode), tier))
        {
            let values = PlaceholderValues {
                request_values: &Variables::new(),
                text_values: &[],
                pack_texts: &Variables::new(),
                actions: pack.action_list(mode, tier),
                nonce: None,
            };

            parts.push(
                vars::fill_placeholders(text, values, MissingVariable::Empty, &str::to_owned)?
                    .0
                    .trim()
                    .to_owned(),
            );
        }

        let joined = parts.join("\n\n");
        if longest
            .as_ref()
            .is_none_or(|longest| longest.len() < joined.len())
        {
            longest = Some(joined);
        }
    }

    Ok(longest)
}
