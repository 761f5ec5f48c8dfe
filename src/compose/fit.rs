//! Fits the layers of a prompt into its token budget.
//!
//! 1. Pinned blocks get the variant for the model's tier, required blocks their shortest one. If that exceeds the budget,
//!    the prompt cannot be composed.
//! 2. The floors of elastic sequences are reserved.
//! 3. Blocks are raised to longer variants in one fixed order, required blocks first. The first raise that does not fit
//!    ends this step, even if a later one would fit: so a larger window never shortens a block.
//! 4. Elastic sequences take the rest of the budget, whole items only.

use super::block::{ElasticSequence, PromptBlock, PromptEntry, SequenceItems};
use super::count::Counter;
use super::delimiters::Delimiters;
use super::mention_escape::{ENVELOPE, longest_escaped};
use super::render;
use crate::models::{ContextItem, Format, PromptExpansion, PromptPart, RetentionClass, Tier};
use crate::text::xml::cdata_xml;

/// Tokens of each chat message in addition to its text.
const MESSAGE_OVERHEAD_TOKENS: u64 = 4;

/// Limits of one fit.
#[derive(Clone, Copy)]
pub(super) struct FitBounds<'a> {
    /// Maximum number of tokens; `u64::MAX` for no limit, and then blocks are not counted.
    pub(super) budget: u64,
    /// Tier of the preferred variants.
    pub(super) tier: Tier,
    pub(super) counter: &'a Counter,
    /// Set to count tokens; otherwise their number is bounded by the number of bytes.
    pub(super) is_exact: bool,
    /// First turn that the previous prompt kept.
    pub(super) previous: Option<usize>,
    /// Percentage of its space to which an overflowing history is truncated.
    pub(super) hysteresis: Option<u8>,
}

/// Variants and items that were chosen so that the prompt fits.
pub(super) struct FitOutcome {
    /// Tokens of all entries together.
    pub(super) used: u64,
    /// True if anything was shortened or omitted for lack of tokens.
    pub(super) is_cut: bool,
    /// Results by entry, in the same order.
    pub(super) entry_fits: Vec<EntryFit>,
}

/// Result of fitting one entry.
#[derive(Default)]
pub(super) struct EntryFit {
    /// Index of the chosen variant of a block; `None` if the block is omitted.
    pub(super) variant: Option<usize>,
    pub(super) tokens: u64,
    /// Indices of the included items of a sequence, in the prompt's order.
    pub(super) items: Vec<usize>,
    /// Item that lists the omitted items of a sequence.
    pub(super) note: Option<ContextItem>,
    /// Reason why the entry was shortened or omitted; `None` if it was not.
    pub(super) why: Option<String>,
}

/// A prompt that does not fit even with its shortest variants.
pub(super) struct BudgetShortfall {
    /// Minimum tokens by entry.
    pub(super) needs: Vec<u64>,
    /// Tokens outside of all entries.
    pub(super) fixed: u64,
}

/// Fits the entries into the budget; the module documentation describes the steps.
pub(super) fn fit(
    entries: &[PromptEntry<'_>],
    delimiters: &Delimiters<'_>,
    bounds: FitBounds<'_>,
) -> Result<FitOutcome, BudgetShortfall> {
    let is_chat = matches!(delimiters.format, Format::Chat | Format::Tools);
    let mut fitter = Fitter {
        entries,
        delimiters,
        bounds,
        costs: entries.iter().map(|_| Vec::new()).collect(),
        entry_fits: entries.iter().map(|_| EntryFit::default()).collect(),
        used: 0,
        message_overhead: if is_chat { MESSAGE_OVERHEAD_TOKENS } else { 0 },
        is_cut: false,
        buffer: String::new(),
    };

    fitter.used = fitter.count_fixed_tokens();
    fitter.place_fixed()?;
    let mut sequences = fitter.reserve_floors();
    fitter.raise_variants(sequences.iter().map(|sequence| sequence.floor).sum());
    fitter.fill_sequences(&mut sequences);
    fitter.record_costs();

    Ok(FitOutcome {
        used: fitter.used,
        is_cut: fitter.is_cut,
        entry_fits: fitter.entry_fits,
    })
}

struct Fitter<'a, 'e> {
    entries: &'e [PromptEntry<'a>],
    delimiters: &'e Delimiters<'e>,
    bounds: FitBounds<'e>,
    /// Tokens of each variant of each block; `None` until counted.
    costs: Vec<Vec<Option<u64>>>,
    entry_fits: Vec<EntryFit>,
    used: u64,
    message_overhead: u64,
    is_cut: bool,
    /// Scratch buffer for rendering pieces that are counted.
    buffer: String,
}

/// State of filling an elastic sequence.
struct ElasticFill {
    entry: usize,
    /// Reserved tokens.
    floor: u64,
    /// Tokens of its opening and closing text.
    around: u64,
    /// Item indices in the order in which they are included.
    order: Vec<usize>,
    /// Tokens of the items counted so far, in that order.
    costs: Vec<u64>,
}

impl<'a, 'e> Fitter<'a, 'e> {
    /// Returns the tokens outside of all entries: the envelope, or the tags of the XML.
    fn count_fixed_tokens(&self) -> u64 {
        match self.delimiters.format {
            Format::Flat if self.delimiters.expands.is_empty() => 0,
            Format::Flat => self.count_tokens(&ENVELOPE.concat()),
            Format::Chat | Format::Tools => MESSAGE_OVERHEAD_TOKENS,
            Format::Xml => {
                let system = "<prompt>\n<system_prompt><![CDATA[]]></system_prompt>\n";
                // Counting tags apart from their content may differ by a token at each of the 8 boundaries.
                8 + self.count_tokens(system)
                    + self.count_tokens("<context>\n</context>\n</prompt>\n")
            }
        }
    }

    /// Sets pinned blocks to their preferred variant and required blocks to their shortest one.
    fn place_fixed(&mut self) -> Result<(), BudgetShortfall> {
        let mut needs = vec![0; self.entries.len()];
        for (index, need) in needs.iter_mut().enumerate() {
            let variant = match self.block_at(index) {
                Some(block) if block.layer.class == RetentionClass::Pinned => {
                    block.variants.len() - 1
                }
                Some(block) if block.layer.class == RetentionClass::Required => 0,
                _ => continue,
            };
            *need = self.variant_cost(index, variant);
            self.entry_fits[index].variant = Some(variant);
            self.used = self.used.saturating_add(*need);
        }

        if self.used > self.bounds.budget {
            Err(BudgetShortfall {
                needs,
                fixed: self.count_fixed_tokens(),
            })
        } else {
            Ok(())
        }
    }

    /// Raises blocks to longer variants, all required blocks before any optional one, and stops at the first raise that
    /// does not fit. `floors` tokens stay reserved for elastic sequences.
    fn raise_variants(&mut self, floors: u64) {
        let mut stopped: Option<&'e str> = None;
        for (index, variant) in self.list_raises() {
            let Some(block) = self.block_at(index) else {
                continue;
            };
            if let Some(by) = stopped {
                self.entry_fits[index]
                    .why
                    .get_or_insert_with(|| format!("comes after `{by}`, which did not fit"));
                continue;
            }

            let current = self.entry_fits[index]
                .variant
                .map_or(0, |variant| self.variant_cost(index, variant));
            let raised = self.variant_cost(index, variant);
            let left = self
                .bounds
                .budget
                .saturating_sub(self.used)
                .saturating_sub(floors);

            let extra = raised.saturating_sub(current);
            if extra > left {
                let needed = if block.variants.len() > 1 {
                    let tier = block.variants[variant].tier.name();
                    format!("the {tier} tier needs {extra} more tokens")
                } else {
                    format!("the block needs {extra} tokens")
                };
                self.entry_fits[index].why = Some(format!("{needed}, but only {left} are left"));
                stopped = Some(&block.id);
                self.is_cut = true;
                continue;
            }

            self.used = self.used + raised - current;
            self.entry_fits[index].variant = Some(variant);
        }
    }

    /// Lists all raises as (entry, variant), in order: per class, each round raises every block by one variant. The
    /// order does not depend on the budget.
    fn list_raises(&self) -> Vec<(usize, usize)> {
        let mut raises = Vec::new();
        for (class, start) in [(RetentionClass::Required, 1), (RetentionClass::Optional, 0)] {
            let blocks: Vec<(usize, usize)> = (0..self.entries.len())
                .filter_map(|index| Some((index, self.block_at(index)?)))
                .filter(|(_, block)| block.layer.class == class)
                .map(|(index, block)| (index, block.variants.len()))
                .collect();
            let rounds = blocks
                .iter()
                .map(|(_, variants)| *variants)
                .max()
                .unwrap_or(0);
            for round in start..rounds {
                raises.extend(
                    blocks
                        .iter()
                        .filter(|(_, variants)| round < *variants)
                        .map(|(index, _)| (*index, round)),
                );
            }
        }

        raises
    }

    /// Returns the elastic sequences with their reserved tokens: the floor, or less if the items or the budget are
    /// smaller.
    fn reserve_floors(&mut self) -> Vec<ElasticFill> {
        let mut left = self.bounds.budget.saturating_sub(self.used);
        let mut sequences = Vec::new();
        for (entry, elastic) in self.elastic_entries() {
            let (open, close) = render::sequence_delimiters(self.delimiters, elastic, false);
            let opening = if open.is_empty() {
                render::layer_separator(self.delimiters, elastic.layer)
            } else {
                &open
            };
            let around = self.count_tokens(opening) + self.count_tokens(&close);
            let order = selection_order(elastic, elastic.limit(self.bounds.tier));
            let mut sequence = ElasticFill {
                entry,
                floor: 0,
                around,
                order,
                costs: Vec::new(),
            };

            let mut content = around;
            let mut place = 0;
            while content < elastic.floor && place < sequence.order.len() {
                content += self.item_cost(&mut sequence, elastic, place);
                place += 1;
            }

            sequence.floor = if place == 0 {
                0
            } else {
                content.min(elastic.floor).min(left)
            };
            left -= sequence.floor;
            sequences.push(sequence);
        }

        sequences
    }

    /// Fills the sequences, in order, with the rest of the budget; floors of later sequences stay reserved.
    fn fill_sequences(&mut self, sequences: &mut [ElasticFill]) {
        let mut later: u64 = sequences.iter().map(|sequence| sequence.floor).sum();
        for sequence in sequences {
            later -= sequence.floor;
            let PromptEntry::Elastic(elastic) = &self.entries[sequence.entry] else {
                continue;
            };
            let left = self
                .bounds
                .budget
                .saturating_sub(self.used)
                .saturating_sub(later);
            let room = left.min(elastic.cap);
            let tier = self.enclosing_tier(sequence.entry);

            let limit = elastic.limit(tier).min(sequence.order.len());
            let (taken, tokens) = self.choose_items(sequence, elastic, room, limit);
            let (taken, tokens, note) = self.add_note(sequence, elastic, room, (taken, tokens));
            let keeps_start = matches!(elastic.items, SequenceItems::Turns { .. })
                && self.bounds.previous.is_some();

            let entry_fit = &mut self.entry_fits[sequence.entry];
            if taken < elastic.len() {
                let percent_kept = self
                    .bounds
                    .hysteresis
                    .filter(|_| keeps_start && taken < limit);
                entry_fit.why = Some(if let Some(percent) = percent_kept {
                    format!("truncated to {percent} % to keep its start stable for some turns")
                } else if limit == 0 {
                    format!("no items at the {} tier", tier.name())
                } else if taken == limit && limit < elastic.len() {
                    format!("limited to {limit} items")
                } else if room < left {
                    format!("the layer is limited to {} tokens", elastic.cap)
                } else {
                    format!("only {left} tokens were left")
                });

                self.is_cut |= taken < limit;
            }

            self.used += tokens;
            entry_fit.tokens = tokens;
            entry_fit.note = note;
            entry_fit.items = sequence.order[..taken].to_vec();
            entry_fit.items.sort_unstable();
        }
    }

    /// Returns the number of items to include and their tokens.
    ///
    /// With hysteresis, a history keeps the first turn of the previous prompt as long as everything since then fits, so
    /// that a model's prompt cache stays valid. When it overflows, it is truncated to a percentage of its room at once
    /// instead of by one turn in every prompt.
    fn choose_items(
        &mut self,
        sequence: &mut ElasticFill,
        elastic: &ElasticSequence<'_>,
        room: u64,
        limit: usize,
    ) -> (usize, u64) {
        let (fitting, tokens) = self.count_fitting_items(sequence, elastic, room, limit);
        let (SequenceItems::Turns { turns, start, .. }, Some(percent), Some(first)) =
            (&elastic.items, self.bounds.hysteresis, self.bounds.previous)
        else {
            return (fitting, tokens);
        };

        let wanted = (start + turns.len()).saturating_sub(first);
        if wanted == 0 {
            // The previous prompt started after the last turn, so it had another history.
            return (fitting, tokens);
        }

        if wanted <= fitting {
            // Everything since the previous first turn still fits, so that turn stays the first.
            return self.count_fitting_items(sequence, elastic, room, wanted);
        }

        let percent_of =
            |whole: u64| whole / 100 * u64::from(percent) + whole % 100 * u64::from(percent) / 100;
        let reduced_limit = usize::try_from(percent_of(limit as u64))
            .unwrap_or(limit)
            .max(1);

        // The floor is still guaranteed, and so is the newest turn if it fits at all.
        let reduced_room = percent_of(room).max(elastic.floor.min(room));
        let (taken, tokens) =
            self.count_fitting_items(sequence, elastic, reduced_room, reduced_limit);

        if taken == 0 {
            self.count_fitting_items(sequence, elastic, room, 1)
        } else {
            (taken, tokens)
        }
    }

    /// Returns a note that lists the omitted items of a sequence, if its layer shows items of the session. Further items are
    /// omitted from the end to make room for the note, but none that the user requested; those are first in the order.
    /// Without room, there is no note.
    ///
    /// Takes the number of included items and their tokens, and returns the new ones with the note.
    fn add_note(
        &mut self,
        sequence: &mut ElasticFill,
        elastic: &ElasticSequence<'_>,
        room: u64,
        (taken, tokens): (usize, u64),
    ) -> (usize, u64, Option<ContextItem>) {
        let SequenceItems::Context { items, .. } = &elastic.items else {
            return (taken, tokens, None);
        };
        if taken == items.len() || !elastic.layer.has_session_items() {
            return (taken, tokens, None);
        }

        let included = &sequence.order[..taken];
        let named = included.iter().filter(|index| items[**index].named).count();
        for kept in (named..=taken).rev() {
            let Some(note) = render::omission_note(elastic, &sequence.order[..kept]) else {
                break;
            };
            let mut rendered = String::new();
            render::write_note(&mut rendered, self.delimiters, elastic.layer, &note, "\n\n");
            let (_, kept_tokens) = self.count_fitting_items(sequence, elastic, room, kept);
            let total = kept_tokens.max(sequence.around) + self.count_tokens(&rendered);
            if total <= room {
                return (kept, total, Some(note));
            }
        }

        let (_, named_tokens) = self.count_fitting_items(sequence, elastic, room, named);
        (named, named_tokens, None)
    }

    /// Returns the number of items that fit into `room` tokens, in order, and their tokens.
    fn count_fitting_items(
        &mut self,
        sequence: &mut ElasticFill,
        elastic: &ElasticSequence<'_>,
        room: u64,
        limit: usize,
    ) -> (usize, u64) {
        let limit = limit.min(sequence.order.len());
        let mut tokens = sequence.around;
        for place in 0..limit {
            let cost = self.item_cost(sequence, elastic, place);
            if tokens.saturating_add(cost) > room {
                return (place, if place == 0 { 0 } else { tokens });
            }
            tokens += cost;
        }
        (limit, if limit == 0 { 0 } else { tokens })
    }

    /// Returns the tokens of the item at a position of the order. Each item is rendered and counted once.
    fn item_cost(
        &mut self,
        sequence: &mut ElasticFill,
        elastic: &ElasticSequence<'_>,
        place: usize,
    ) -> u64 {
        if let Some(cost) = sequence.costs.get(place) {
            return *cost;
        }

        let index = sequence.order[place];
        let pieces = render::count_pieces(elastic, index);
        let per_message = if matches!(elastic.items, SequenceItems::Turns { .. }) {
            self.message_overhead
        } else {
            0
        };

        let mut cost = per_message * pieces as u64;
        if self.bounds.is_exact {
            for piece in 0..pieces {
                let mut buffer = std::mem::take(&mut self.buffer);
                buffer.clear();
                render::write_item_piece(
                    &mut buffer,
                    self.delimiters,
                    elastic,
                    index,
                    piece,
                    "\n\n",
                );

                cost += self.count_tokens(&buffer);
                self.buffer = buffer;
            }
        } else {
            // An escaped `@` takes twice the bytes of any other escape.
            let growth = if self.delimiters.expands.is_empty() {
                1
            } else {
                2
            };
            cost += self
                .bounds
                .counter
                .max_tokens_for_bytes(growth * render::max_item_bytes(elastic, index));
        }

        sequence.costs.push(cost);
        cost
    }

    /// Records the tokens of each block at its chosen variant.
    fn record_costs(&mut self) {
        for index in 0..self.entries.len() {
            if let Some(variant) = self.entry_fits[index].variant {
                self.entry_fits[index].tokens = self.variant_cost(index, variant);
            }
        }
    }

    fn variant_cost(&mut self, index: usize, variant: usize) -> u64 {
        let Some(block) = self.block_at(index) else {
            return 0;
        };
        let at = &block.variants[variant];
        if self.bounds.budget == u64::MAX || (at.text.is_empty() && at.end.is_empty()) {
            return 0;
        }

        self.costs[index].resize(block.variants.len(), None);
        if let Some(cost) = self.costs[index][variant] {
            return cost;
        }

        let lead = if index == 0 {
            ""
        } else {
            render::block_separator(self.delimiters, block)
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        render::write_block(&mut buffer, self.delimiters, block, at, lead);
        let per_message = match block.part {
            PromptPart::History { .. } | PromptPart::Instructions => self.message_overhead,
            _ => 0,
        };

        let mut cost = per_message;
        if self.delimiters.format == Format::Xml && block.part == PromptPart::System {
            // The escaping of the system prompt depends on its whole text. CDATA is the longest form, and its delimiters
            // around every block cost more than a boundary between two blocks can.
            for text in [buffer.as_str(), at.end.as_str()]
                .into_iter()
                .filter(|text| !text.is_empty())
            {
                cost += self.count_tokens(&cdata_xml(text));
            }
        } else {
            cost += self.count_tokens(&buffer) + self.count_tokens(&at.end);
        }

        self.buffer = buffer;
        self.costs[index][variant] = Some(cost);

        cost
    }

    fn count_tokens(&self, text: &str) -> u64 {
        let escaped = self
            .delimiters
            .expands
            .contains(&PromptExpansion::AtSigns)
            .then(|| longest_escaped(text, self.delimiters.format));
        let text = escaped.as_deref().unwrap_or(text);
        match (text.is_empty(), self.bounds.is_exact) {
            (true, _) => 0,
            (false, true) => self.bounds.counter.max_tokens(text),
            (false, false) => self.bounds.counter.max_tokens_for_bytes(text.len()),
        }
    }

    fn block_at(&self, index: usize) -> Option<&'e PromptBlock<'a>> {
        match &self.entries[index] {
            PromptEntry::Block(block) => Some(block),
            PromptEntry::Elastic(_) => None,
        }
    }

    fn elastic_entries(&self) -> Vec<(usize, &'e ElasticSequence<'a>)> {
        let entries = self.entries.iter().enumerate();
        entries
            .filter_map(|(index, entry)| match entry {
                PromptEntry::Elastic(elastic) => Some((index, elastic)),
                PromptEntry::Block(_) => None,
            })
            .collect()
    }

    /// Returns the tier of the chosen variant of the preceding block, which encloses knowledge entries.
    fn enclosing_tier(&self, entry: usize) -> Tier {
        let before = entry
            .checked_sub(1)
            .and_then(|before| Some((self.block_at(before)?, self.entry_fits[before].variant?)));
        before.map_or(self.bounds.tier, |(block, variant)| {
            block.variants[variant].tier
        })
    }
}

/// Returns the indices of at most `limit` items in the order in which they are included.
fn selection_order(elastic: &ElasticSequence<'_>, limit: usize) -> Vec<usize> {
    match &elastic.items {
        SequenceItems::Turns { turns, .. } => (0..turns.len()).rev().take(limit).collect(),
        SequenceItems::Context { items, .. } => {
            // Items that the user requested come before those that the program chose.
            let is_named = |index: &usize| items[*index].named;
            let all = 0..items.len();
            let others = all.clone().filter(|index| !is_named(index));
            all.filter(is_named).chain(others).take(limit).collect()
        }
        SequenceItems::Entries { entries, .. } => {
            let keep = &elastic.layer.keep;
            let is_kept = |index: &usize| keep.contains(&entries[*index].category);
            let all = 0..entries.len();
            let others = all.clone().filter(|index| !is_kept(index));
            all.filter(is_kept).chain(others).take(limit).collect()
        }
    }
}
