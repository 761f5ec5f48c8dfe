//! Entries of a prompt before the fit: blocks with all of their variants, and elastic sequences of items.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{ItemLimits, SourcedItem};
use crate::models::{ConversationTurn, KnowledgeEntry, PromptPart, SectionVisibility, Tier};
use crate::pack::Layer;

/// A block or an elastic sequence of the prompt.
pub(super) enum PromptEntry<'a> {
    /// A block, included as one of its variants or omitted.
    Block(PromptBlock<'a>),
    /// A sequence that is filled with as many items as fit.
    Elastic(ElasticSequence<'a>),
}

/// A block with all of its variants.
pub(super) struct PromptBlock<'a> {
    pub(super) id: String,
    pub(super) part: PromptPart,
    pub(super) layer: &'a Layer,
    pub(super) source: String,
    /// Variants from shortest to longest. The last one, for the model's tier, is preferred.
    pub(super) variants: Vec<BlockVariant<'a>>,
    /// True if the block follows another block of the same layer.
    pub(super) is_continuation: bool,
    /// True if the text comes from the pack, so that it needs no escaping.
    pub(super) is_pack_text: bool,
    /// True if the user named the block, so that it must not be omitted.
    pub(super) is_named: bool,
}

/// A variant of a block: its text for one tier.
pub(super) struct BlockVariant<'a> {
    pub(super) tier: Tier,
    pub(super) text: Cow<'a, str>,
    /// Text after an elastic sequence inside the block.
    pub(super) end: String,
    /// Origin of the text, if it is prose of the pack.
    pub(super) origin: Option<&'a str>,
}

/// A sequence of items, of which as many as fit are included, best first.
///
/// `floor` tokens are reserved for the sequence before optional blocks grow. It never takes more than `cap` tokens.
pub(super) struct ElasticSequence<'a> {
    pub(super) layer: &'a Layer,
    pub(super) floor: u64,
    pub(super) cap: u64,
    pub(super) items: SequenceItems<'a>,
}

/// Items of an elastic sequence.
pub(super) enum SequenceItems<'a> {
    /// Turns, oldest first; the newest are included first.
    Turns {
        turns: &'a [ConversationTurn],
        /// Number of turns before the first of `turns`.
        start: usize,
        limit: usize,
    },
    /// Knowledge entries, best first; the limit depends on the tier of the enclosing state.
    Entries {
        entries: &'a [KnowledgeEntry],
        limits: ItemLimits,
        section: KnowledgeSection<'a>,
    },
    /// Context items, in order, with the ids of their blocks.
    Context {
        items: Vec<SourcedItem>,
        ids: Vec<String>,
        limit: usize,
    },
}

impl<'a> PromptBlock<'a> {
    /// Adds a longer variant. If its text equals that of the last variant, only the tier of the last variant is raised.
    pub(super) fn add_variant(&mut self, variant: Option<BlockVariant<'a>>) {
        let Some(variant) = variant else { return };
        match self.variants.last_mut() {
            Some(last) if last.text == variant.text && last.end == variant.end => {
                last.tier = variant.tier
            }
            _ => self.variants.push(variant),
        }
    }
}

impl PromptEntry<'_> {
    /// Returns true for a sequence that is rendered inside the preceding block.
    pub(super) fn is_inside_block(&self) -> bool {
        matches!(self, Self::Elastic(elastic) if elastic.is_inside_block())
    }

    pub(super) fn layer(&self) -> &Layer {
        match self {
            Self::Block(block) => block.layer,
            Self::Elastic(elastic) => elastic.layer,
        }
    }

    /// Returns the number of turns before the first that was read; 0 for anything but a history.
    pub(super) fn items_before(&self) -> usize {
        match self {
            Self::Block(_) => 0,
            Self::Elastic(elastic) => elastic.items_before(),
        }
    }
}

/// Section of the state that shows the knowledge entries.
#[derive(Clone)]
pub(super) struct KnowledgeSection<'a> {
    pub(super) name: &'a str,
    pub(super) visibility: SectionVisibility,
}

impl ElasticSequence<'_> {
    /// Returns true if the sequence is rendered inside the preceding block, as knowledge is inside the state.
    pub(super) fn is_inside_block(&self) -> bool {
        matches!(self.items, SequenceItems::Entries { .. })
    }

    /// Returns the number of items, with turns that were not read.
    pub(super) fn len(&self) -> usize {
        match &self.items {
            SequenceItems::Turns { turns, start, .. } => start + turns.len(),
            SequenceItems::Entries { entries, .. } => entries.len(),
            SequenceItems::Context { items, .. } => items.len(),
        }
    }

    /// Returns the number of turns before the first that was read; 0 for anything but a history.
    pub(super) fn items_before(&self) -> usize {
        match &self.items {
            SequenceItems::Turns { start, .. } => *start,
            SequenceItems::Entries { .. } | SequenceItems::Context { .. } => 0,
        }
    }

    /// Returns the maximum number of items to include; `tier` is the tier of the enclosing block's variant.
    pub(super) fn limit(&self, tier: Tier) -> usize {
        match &self.items {
            SequenceItems::Turns { limit, .. } | SequenceItems::Context { limit, .. } => *limit,
            SequenceItems::Entries {
                limits, section, ..
            } => {
                if tier == Tier::Minimal || !section.visibility.shows(section.name, tier) {
                    return 0;
                }

                // At the full tier, the limit of the request replaces that of the pack; otherwise the lower one applies.
                let pack_limit = self.layer.items.map(|items| items.at(tier));
                match (tier, limits.entries, pack_limit) {
                    (Tier::Full, Some(limit), _) | (_, Some(limit), None) => limit,
                    (_, Some(limit), Some(pack_limit)) => limit.min(pack_limit),
                    (_, None, pack_limit) => pack_limit.unwrap_or(usize::MAX),
                }
            }
        }
    }
}

/// Unique ids for the items of a layer: a repeated name gets a number.
#[derive(Default)]
pub(super) struct BlockIds(HashMap<String, usize>);

impl BlockIds {
    /// Returns the id of the next item with a name.
    pub(super) fn next_id(&mut self, layer: &Layer, name: &str) -> String {
        let times = self
            .0
            .entry(name.to_owned())
            .and_modify(|times| *times += 1)
            .or_insert(1_usize);
        match times {
            1 => format!("{}/{name}", layer.id),
            times => format!("{}/{name} ({times})", layer.id),
        }
    }
}
