//! What the prose of a pack takes, mode by mode and tier by tier, against its budgets.

use serde::Serialize;

use super::count::Counter;
use super::layers;
use crate::error::Result;
use crate::models::{Mode, Tier};
use crate::pack::Pack;

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
        self.tokens.zip(self.budget).is_some_and(|(tokens, budget)| tokens > budget)
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
                let text = layers::text_at(pack, layer, mode, tier)?;
                let tokens = text.map(|text| if text.is_empty() { 0 } else { counter.piece(&text) });
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
