//! The fit report: what each block takes of the window, what was cut, and why.

use serde::Serialize;

use crate::models::{Class, CountKind, Tier, Zone};

/// What each block takes of the window, what was cut, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FitReport {
    /// The model's id, if one was named.
    pub model: Option<String>,
    /// The longest rung that the model may get.
    pub tier: Tier,
    /// The model's window in tokens, if one was named.
    pub window: Option<u64>,
    /// What of the window is kept for the reply.
    pub reserve: u64,
    /// What the agent and the call take beside the prompt.
    pub overhead: u64,
    /// What the prompt may take, in tokens.
    pub budget: Option<u64>,
    /// What it takes, in tokens; unknown if its bytes already fit and nobody asked.
    pub tokens: Option<u64>,
    /// How sure the counts are; a guess without a model.
    pub count: CountKind,
    /// What the prompt takes, in bytes.
    pub bytes: usize,
    /// What it may take, in bytes.
    pub max_bytes: usize,
    /// The first turn of the history that was kept, from 0.
    pub first_turn: Option<usize>,
    /// The blocks, in the prompt's order; those that were cut entirely are among them.
    pub blocks: Vec<FitBlock>,
    /// FilledLayers of the pack that say nothing in this prompt.
    pub absent: Vec<AbsentLayer>,
}

/// A layer that says nothing in a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbsentLayer {
    /// The layer.
    pub layer: String,
    /// Why it says nothing.
    pub why: String,
}

/// One block's row of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FitBlock {
    /// The block's id.
    pub block: String,
    /// Where its content came from.
    pub source: String,
    /// How hard it holds its place.
    pub class: Class,
    /// How often it changes.
    pub zone: Zone,
    /// Its length: a tier for prose, `whole`, or `none`.
    pub rung: &'static str,
    /// What it takes, in tokens, as far as that was counted.
    pub tokens: Option<u64>,
    /// What it takes, in bytes.
    pub bytes: usize,
    /// What its layer is meant to take, in tokens.
    pub target: Option<u64>,
    /// How many of its items were kept.
    pub kept: usize,
    /// How many there are.
    pub of: usize,
    /// Why it is shorter than it could be, if it is.
    pub why: Option<String>,
}
