//! The fit report: size of each block, and why blocks were shortened or omitted.

use serde::Serialize;

use crate::models::{CacheZone, CountKind, RetentionClass, Tier};

/// Size of each block of a prompt, and why blocks were shortened or omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FitReport {
    /// The model's id, if one was named.
    pub model: Option<String>,
    /// The model's tier, which is that of the longest variants.
    pub tier: Tier,
    /// The model's window in tokens, if one was named.
    pub window: Option<u64>,
    /// Tokens reserved for the reply.
    pub reserve: u64,
    /// Tokens of the agent and the call in addition to the prompt.
    pub overhead: u64,
    /// Maximum tokens of the prompt; `None` without a model.
    pub budget: Option<u64>,
    /// Tokens of the prompt; `None` if its size in bytes already fits and no count was requested.
    pub tokens: Option<u64>,
    /// Precision of the counts; a guess without a model.
    pub count: CountKind,
    /// Size of the prompt in bytes.
    pub bytes: usize,
    /// Maximum size in bytes.
    pub max_bytes: usize,
    /// Index of the first kept turn of the history.
    pub first_turn: Option<usize>,
    /// Blocks in the prompt's order, including omitted ones.
    pub blocks: Vec<FitBlock>,
    /// Layers without content in this prompt.
    pub absent: Vec<AbsentLayer>,
}

/// A layer without content in a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbsentLayer {
    /// Id of the layer.
    pub layer: String,
    /// Reason why the layer is absent.
    pub why: String,
}

/// Row of the report for one block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FitBlock {
    /// The block's id.
    pub block: String,
    /// Origin of its content.
    pub source: String,
    /// Class that decides when the block is shortened or omitted.
    pub class: RetentionClass,
    /// Cache zone, by how often the text changes.
    pub zone: CacheZone,
    /// Chosen variant: the name of a tier for prose; `whole`, `part` or `none` otherwise.
    pub rung: &'static str,
    /// Tokens, if they were counted.
    pub tokens: Option<u64>,
    /// Size in bytes.
    pub bytes: usize,
    /// Token budget of the layer.
    pub target: Option<u64>,
    /// Number of items kept.
    pub kept: usize,
    /// Number of all items.
    pub of: usize,
    /// Reason why the block was shortened or omitted; `None` if it was not.
    pub why: Option<String>,
}
