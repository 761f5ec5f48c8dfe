//! Whether a prompt meets its budget, and what each block takes of it.

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::models::{Class, Segment, Zone};

/// What each block takes of the budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FitReport {
    /// The budget, in bytes.
    pub budget: usize,
    /// What the rendered segments take, tags and separators included.
    pub used: usize,
    /// The blocks, in the prompt's order.
    pub blocks: Vec<FitBlock>,
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
    /// What it takes, in bytes.
    pub bytes: usize,
}

/// Measures rendered segments against a budget in bytes.
///
/// # Errors
///
/// `BudgetTooSmall` with the numbers of the largest blocks: a prompt is sent whole or not at all.
pub(super) fn fit(segments: &[Segment], budget: usize) -> Result<FitReport> {
    let blocks: Vec<FitBlock> = segments
        .iter()
        .map(|segment| FitBlock {
            block: segment.block.clone(),
            source: segment.source.clone(),
            class: segment.class,
            zone: segment.zone,
            bytes: segment.text.len(),
        })
        .collect();
    let used = blocks.iter().map(|block| block.bytes).sum();
    if used > budget {
        return Err(too_small(&blocks, used, budget));
    }
    Ok(FitReport { budget, used, blocks })
}

fn too_small(blocks: &[FitBlock], used: usize, budget: usize) -> Error {
    let mut largest: Vec<_> = blocks.iter().collect();
    largest.sort_by_key(|block| std::cmp::Reverse(block.bytes));
    let rows: String =
        largest.iter().take(10).map(|row| format!("\n  {:>10}  {}", row.bytes, row.block)).collect();
    let message = format!("the prompt has {used} bytes and may have {budget}; the largest blocks:{rows}");
    Error::new(ErrorKind::BudgetTooSmall, message)
        .with_hint("leave out what the agent does not need, or raise `max_bytes` under [prompt]")
}
