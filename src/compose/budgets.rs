//! What the prose of a pack takes, mode by mode and tier by tier, against its budgets.

use serde::Serialize;

use super::count::Counter;
use super::vars::{self, Missing, PlaceholderValues, Variables};
use crate::error::Result;
use crate::models::{Mode, Tier};
use crate::pack::{Layer, LayerContent, Pack, file_for};

/// What one layer's prose takes in one mode at one tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetRow {
    /// The mode.
    pub mode: Mode,
    /// The tier.
    pub tier: Tier,
    /// The layer.
    pub layer: String,
    /// What its prose takes, in tokens; nothing if it has none before there is a session.
    pub tokens: Option<u64>,
    /// What it may take.
    pub budget: Option<u64>,
}

impl BudgetRow {
    /// Tells whether the prose takes more than it may.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.tokens
            .zip(self.budget)
            .is_some_and(|(tokens, budget)| tokens > budget)
    }
}

/// Measures the prose of every layer in every mode at every tier, whatever its condition says.
///
/// # Errors
///
/// Those of filling a text.
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

/// Returns the prose of a layer in a mode at a tier, the longest of several; `None` if it has none of its own.
fn longest_prose(pack: &Pack, layer: &Layer, mode: &Mode, tier: Tier) -> Result<Option<String>> {
    if layer.none_at.is_some_and(|none| tier <= none) {
        return Ok(Some(String::new()));
    }
    let turn = [&layer.user, &layer.assistant]
        .into_iter()
        .flatten()
        .map(|file| file.value.as_str());
    let chosen = layer.choose.iter().map(|choice| choice.value.text.as_str());
    let alternatives: Vec<Vec<&str>> = match (&layer.text, layer.holds) {
        (_, LayerContent::Turn) => vec![turn.collect()],
        (Some(text), _) => {
            let added = layer
                .adds
                .get(mode)
                .into_iter()
                .flatten()
                .map(|file| file.value.as_str());
            vec![std::iter::once(text.value.as_str()).chain(added).collect()]
        }
        (None, _) => chosen.map(|file| vec![file]).collect(),
    };
    let mut longest: Option<String> = None;
    for files in alternatives {
        let mut parts = Vec::new();
        for text in files
            .into_iter()
            .filter_map(|file| pack.text(&file_for(file, mode), tier))
        {
            let values = PlaceholderValues {
                given: &Variables::new(),
                own: &[],
                pack_texts: &Variables::new(),
                actions: pack.action_list(mode, tier),
                nonce: None,
            };
            parts.push(
                vars::fill_placeholders(text, values, Missing::Empty, &str::to_owned)?
                    .0
                    .trim()
                    .to_owned(),
            );
        }
        let joined = parts.join("\n\n");
        if longest
            .as_ref()
            .is_none_or(|known| known.len() < joined.len())
        {
            longest = Some(joined);
        }
    }
    Ok(longest)
}
