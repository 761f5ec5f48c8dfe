//! Entries of a prompt before the fit: blocks with all of their lengths, and elastic sequences of items.

use std::borrow::Cow;

use super::{ItemLimits, SourcedItem};
use crate::models::{ConversationTurn, KnowledgeEntry, PromptPart, SectionVisibility, Tier};
use crate::pack::Layer;

/// An entry of the prompt.
pub(super) enum PromptEntry<'a> {
    /// A block, included at one of its lengths or left out.
    Block(PromptBlock<'a>),
    /// A sequence that is filled with as many items as fit.
    Elastic(ElasticSequence<'a>),
}

/// A block with all of its lengths.
pub(super) struct PromptBlock<'a> {
    pub(super) id: String,
    pub(super) part: PromptPart,
    pub(super) layer: &'a Layer,
    pub(super) source: String,
    /// Lengths from short to long; the last one is the preferred one, at the model's tier.
    pub(super) rungs: Vec<BlockRung<'a>>,
    /// Set if it follows another block of the same layer.
    pub(super) follows: bool,
    /// Set if its text is from the pack, so that it needs no escaping.
    pub(super) own: bool,
    /// Set if a person named it: it must not be left out.
    pub(super) named: bool,
}

/// One length of a block.
pub(super) struct BlockRung<'a> {
    pub(super) tier: Tier,
    pub(super) text: Cow<'a, str>,
    /// Text after an elastic sequence inside the block.
    pub(super) end: String,
    /// Origin of the text, if it is prose of the pack.
    pub(super) origin: Option<&'a str>,
}

/// A sequence of items, of which the best that fit are taken.
///
/// `floor` tokens are reserved for it before optional blocks grow; it never takes more than `cap` tokens.
pub(super) struct ElasticSequence<'a> {
    pub(super) layer: &'a Layer,
    pub(super) floor: u64,
    pub(super) cap: u64,
    pub(super) items: SequenceItems<'a>,
}

/// Items of an elastic sequence.
pub(super) enum SequenceItems<'a> {
    /// Turns, oldest first; the newest are taken first.
    Turns {
        turns: &'a [ConversationTurn],
        limit: usize,
    },
    /// Knowledge entries by rank; their limit depends on the length of the enclosing state.
    Entries {
        entries: &'a [KnowledgeEntry],
        limits: ItemLimits,
        section: KnowledgeSection<'a>,
    },
    /// Context, in order.
    Context {
        items: Vec<SourcedItem>,
        ids: Vec<String>,
        limit: usize,
    },
}

impl<'a> PromptBlock<'a> {
    /// Adds a longer rung. If its text equals the last one's, only the tier of the last one is raised.
    pub(super) fn add(&mut self, rung: Option<BlockRung<'a>>) {
        let Some(rung) = rung else { return };
        match self.rungs.last_mut() {
            Some(last) if last.text == rung.text && last.end == rung.end => last.tier = rung.tier,
            _ => self.rungs.push(rung),
        }
    }
}

impl PromptEntry<'_> {
    /// Returns true for a sequence inside the preceding block.
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

/// Section of the state in which the knowledge entries are shown.
#[derive(Clone)]
pub(super) struct KnowledgeSection<'a> {
    pub(super) name: &'a str,
    pub(super) visibility: SectionVisibility,
}

impl ElasticSequence<'_> {
    /// Returns true if the sequence is inside the preceding block.
    pub(super) fn is_inside(&self) -> bool {
        matches!(self.items, SequenceItems::Entries { .. })
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        match &self.items {
            SequenceItems::Turns { turns, .. } => turns.len(),
            SequenceItems::Entries { entries, .. } => entries.len(),
            SequenceItems::Context { items, .. } => items.len(),
        }
    }

    /// Returns the maximum number of items to take; `tier` is the length of the enclosing block.
    pub(super) fn limit(&self, tier: Tier) -> usize {
        match &self.items {
            SequenceItems::Turns { limit, .. } | SequenceItems::Context { limit, .. } => *limit,
            SequenceItems::Entries {
                limits, section, ..
            } => {
                if tier == Tier::Minimal || !section.visibility.shows(section.name, tier) {
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
