//! The places of a prompt before the fit: blocks with all they could say, and sequences of which the best is taken.

use std::borrow::Cow;

use super::{Limits, SourcedItem};
use crate::models::{KnowledgeEntry, Part, Tier, Turn};
use crate::pack::{Layer, ModeSpec, Section};

/// A place in the prompt.
pub(super) enum PromptEntry<'a> {
    /// A block that is there at some length, or not.
    Block(PromptBlock<'a>),
    /// A sequence that takes what room is left.
    Elastic(ElasticSequence<'a>),
}

/// A block with all it could say.
pub(super) struct PromptBlock<'a> {
    pub(super) id: String,
    pub(super) part: Part,
    pub(super) layer: &'a Layer,
    pub(super) source: String,
    /// From short to long, none longer than the tier allows; the last is the one that is wished for.
    pub(super) rungs: Vec<BlockRung<'a>>,
    /// Whether another block of the layer comes before it.
    pub(super) follows: bool,
    /// Whether its text is the pack's own.
    pub(super) own: bool,
    /// Set if a person named it: it must not be left out.
    pub(super) named: bool,
}

/// One length of a block.
pub(super) struct BlockRung<'a> {
    pub(super) tier: Tier,
    pub(super) text: Cow<'a, str>,
    /// What comes behind an elastic sequence that stands inside the block.
    pub(super) end: String,
    /// Where the text stands, if it is prose of the pack.
    pub(super) origin: Option<&'a str>,
}

/// A sequence of items, of which the best are taken.
pub(super) struct ElasticSequence<'a> {
    pub(super) layer: &'a Layer,
    pub(super) floor: u64,
    pub(super) cap: u64,
    pub(super) items: SequenceItems<'a>,
}

/// What an elastic layer can take from.
pub(super) enum SequenceItems<'a> {
    /// Turns, the oldest first; the newest are taken first.
    Turns { turns: &'a [Turn], limit: usize },
    /// Entries by rank; how many are taken depends on the length of the state around them.
    Entries {
        entries: &'a [KnowledgeEntry],
        limits: Limits,
        shown: &'a ModeSpec,
    },
    /// Context, in order.
    Context {
        items: Vec<SourcedItem>,
        ids: Vec<String>,
        limit: usize,
    },
}

impl<'a> PromptBlock<'a> {
    /// Adds a rung that is longer than those before; one that says the same stands in for it.
    pub(super) fn add(&mut self, rung: Option<BlockRung<'a>>) {
        let Some(rung) = rung else { return };
        match self.rungs.last_mut() {
            Some(last) if last.text == rung.text && last.end == rung.end => last.tier = rung.tier,
            _ => self.rungs.push(rung),
        }
    }
}

impl PromptEntry<'_> {
    /// Tells whether this is a sequence that stands inside the block before it.
    pub(super) fn is_inside(&self) -> bool {
        matches!(self, Self::Elastic(elastic) if elastic.is_inside())
    }

    pub(super) fn layer(&self) -> &Layer {
        match self {
            Self::Block(block) => block.layer,
            Self::Elastic(elastic) => elastic.layer,
        }
    }
}

impl ElasticSequence<'_> {
    /// Tells whether the sequence stands inside the block before it.
    pub(super) fn is_inside(&self) -> bool {
        matches!(self.items, SequenceItems::Entries { .. })
    }

    /// Returns how many items there are.
    pub(super) fn len(&self) -> usize {
        match &self.items {
            SequenceItems::Turns { turns, .. } => turns.len(),
            SequenceItems::Entries { entries, .. } => entries.len(),
            SequenceItems::Context { items, .. } => items.len(),
        }
    }

    /// Returns how many items may be taken; `tier` is the length of the block around them.
    pub(super) fn limit(&self, tier: Tier) -> usize {
        match &self.items {
            SequenceItems::Turns { limit, .. } | SequenceItems::Context { limit, .. } => *limit,
            SequenceItems::Entries { limits, shown, .. } => {
                if tier == Tier::Minimal || !shown.state.shows(Section::KnowledgeContext, tier) {
                    return 0;
                }
                let own = self.layer.items.map(|items| items.at(tier));
                match (tier, limits.entries, own) {
                    (Tier::Full, Some(limit), _) | (_, Some(limit), None) => limit,
                    (_, Some(limit), Some(own)) => limit.min(own),
                    (_, None, own) => own.unwrap_or(usize::MAX),
                }
            }
        }
    }
}
