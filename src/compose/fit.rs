//! Making the layers meet the budget.
//!
//! Pinned blocks stand at their tier's length. Required ones start at their shortest, floors of elastic ones are set
//! aside, and then lengths are raised along one fixed sequence that stops at the first raise that does not fit: a
//! larger window never takes detail from a block. Elastic sequences take what is left, whole items only.

use super::block::{ElasticSequence, PromptBlock, PromptEntry, SequenceItems};
use super::count::Counter;
use super::delimiters::Delimiters;
use super::mention_escape::{ENVELOPE, longest_escaped};
use super::render;
use crate::models::{Class, Expands, Format, Part, Tier};
use crate::text::xml::cdata_xml;

/// What each message of a chat takes beside its text.
const MESSAGE_OVERHEAD_TOKENS: u64 = 4;

/// The limits of one fit.
#[derive(Clone, Copy)]
pub(super) struct FitBounds<'a> {
    /// The most tokens.
    pub(super) budget: u64,
    /// The length that is wished for.
    pub(super) tier: Tier,
    /// How tokens are counted.
    pub(super) counter: &'a Counter,
    /// Whether they are counted; otherwise their number is bounded by the number of bytes.
    pub(super) exact: bool,
    /// The first turn that was kept last time.
    pub(super) previous: Option<usize>,
    /// To how many percent an overflowing history is cut.
    pub(super) hysteresis: Option<u8>,
}

/// What became of the entries.
pub(super) struct FitOutcome {
    /// What they take together.
    pub(super) used: u64,
    /// Whether anything is shorter than it could be for want of tokens.
    pub(super) cut: bool,
    /// One for each entry.
    pub(super) entry_fits: Vec<EntryFit>,
}

/// What became of an entry.
#[derive(Default)]
pub(super) struct EntryFit {
    /// The rung of a block; none if it is not there.
    pub(super) rung: Option<usize>,
    /// What it takes.
    pub(super) tokens: u64,
    /// The items of a sequence that were taken, in the prompt's order.
    pub(super) items: Vec<usize>,
    /// Why it is shorter than it could be.
    pub(super) why: Option<String>,
}

/// A prompt that does not fit at its smallest: what its entries need at least.
pub(super) struct BudgetShortfall {
    pub(super) needs: Vec<u64>,
    /// What the prompt takes apart from them.
    pub(super) delimiters: u64,
}

/// Fits the entries.
pub(super) fn fit(
    entries: &[PromptEntry<'_>],
    delimiters: &Delimiters<'_>,
    bounds: FitBounds<'_>,
) -> Result<FitOutcome, BudgetShortfall> {
    let chat = matches!(delimiters.format, Format::Chat | Format::Tools);
    let mut fitter = Fitter {
        entries,
        delimiters,
        bounds,
        costs: entries.iter().map(|_| Vec::new()).collect(),
        entry_fits: entries.iter().map(|_| EntryFit::default()).collect(),
        used: 0,
        message: if chat { MESSAGE_OVERHEAD_TOKENS } else { 0 },
        cut: false,
        buffer: String::new(),
    };
    fitter.used = fitter.count_fixed_tokens();
    fitter.place_fixed()?;
    let mut sequences = fitter.reserve_floors();
    fitter.raise_lengths(sequences.iter().map(|sequence| sequence.floor).sum());
    fitter.fill_sequences(&mut sequences);
    fitter.record_costs();
    Ok(FitOutcome {
        used: fitter.used,
        cut: fitter.cut,
        entry_fits: fitter.entry_fits,
    })
}

struct Fitter<'a, 'e> {
    entries: &'e [PromptEntry<'a>],
    delimiters: &'e Delimiters<'e>,
    bounds: FitBounds<'e>,
    /// What each rung of each block takes, as far as it is known.
    costs: Vec<Vec<Option<u64>>>,
    entry_fits: Vec<EntryFit>,
    used: u64,
    message: u64,
    cut: bool,
    /// Where pieces are written to be counted.
    buffer: String,
}

/// An elastic sequence while it is filled.
struct ElasticFill {
    entry: usize,
    /// What is set aside for it.
    floor: u64,
    /// What opens and closes it takes.
    around: u64,
    /// The order in which items are taken.
    order: Vec<usize>,
    /// What the items take that were looked at.
    costs: Vec<u64>,
}

impl<'a, 'e> Fitter<'a, 'e> {
    /// Returns what the prompt takes apart from its entries.
    fn count_fixed_tokens(&self) -> u64 {
        match self.delimiters.format {
            Format::Flat if self.delimiters.expands.is_empty() => 0,
            Format::Flat => self.count_tokens(&ENVELOPE.concat()),
            Format::Chat | Format::Tools => MESSAGE_OVERHEAD_TOKENS,
            Format::Xml => {
                let system = "<prompt>\n<system_prompt><![CDATA[]]></system_prompt>\n";
                // Tags are counted apart from what they enclose, which may differ by a token at each seam.
                8 + self.count_tokens(system)
                    + self.count_tokens("<context>\n</context>\n</prompt>\n")
            }
        }
    }

    /// Puts pinned blocks at their length and required ones at their shortest.
    fn place_fixed(&mut self) -> Result<(), BudgetShortfall> {
        let mut needs = vec![0; self.entries.len()];
        for (index, need) in needs.iter_mut().enumerate() {
            let rung = match self.block_at(index) {
                Some(block) if block.layer.class == Class::Pinned => block.rungs.len() - 1,
                Some(block) if block.layer.class == Class::Required => 0,
                _ => continue,
            };
            *need = self.rung_cost(index, rung);
            self.entry_fits[index].rung = Some(rung);
            self.used = self.used.saturating_add(*need);
        }
        if self.used > self.bounds.budget {
            Err(BudgetShortfall {
                needs,
                delimiters: self.count_fixed_tokens(),
            })
        } else {
            Ok(())
        }
    }

    /// Raises lengths, all required blocks before any optional one, and stops at the first raise that does not fit.
    fn raise_lengths(&mut self, floors: u64) {
        let mut stopped: Option<&'e str> = None;
        for (index, rung) in self.list_raises() {
            let Some(block) = self.block_at(index) else {
                continue;
            };
            if let Some(by) = stopped {
                self.entry_fits[index]
                    .why
                    .get_or_insert_with(|| format!("after {by}, which did not fit"));
                continue;
            }
            let now = self.entry_fits[index]
                .rung
                .map_or(0, |rung| self.rung_cost(index, rung));
            let then = self.rung_cost(index, rung);
            let left = self
                .bounds
                .budget
                .saturating_sub(self.used)
                .saturating_sub(floors);
            let more = then.saturating_sub(now);
            if more > left {
                let name = if block.rungs.len() > 1 {
                    block.rungs[rung].tier.name()
                } else {
                    "whole"
                };
                self.entry_fits[index].why = Some(format!(
                    "{name} takes {more} tokens more, and {left} are left"
                ));
                stopped = Some(&block.id);
                self.cut = true;
                continue;
            }
            self.used = self.used + then - now;
            self.entry_fits[index].rung = Some(rung);
        }
    }

    /// Returns the one sequence of raises: round by round, each lifting every block of a class by a rung.
    fn list_raises(&self) -> Vec<(usize, usize)> {
        let mut raises = Vec::new();
        for (class, start) in [(Class::Required, 1), (Class::Optional, 0)] {
            let blocks: Vec<(usize, usize)> = (0..self.entries.len())
                .filter_map(|index| Some((index, self.block_at(index)?)))
                .filter(|(_, block)| block.layer.class == class)
                .map(|(index, block)| (index, block.rungs.len()))
                .collect();
            let rounds = blocks.iter().map(|(_, rungs)| *rungs).max().unwrap_or(0);
            for round in start..rounds {
                raises.extend(
                    blocks
                        .iter()
                        .filter(|(_, rungs)| round < *rungs)
                        .map(|(index, _)| (*index, round)),
                );
            }
        }
        raises
    }

    /// Returns the elastic sequences, each with what is set aside for it.
    fn reserve_floors(&mut self) -> Vec<ElasticFill> {
        let mut left = self.bounds.budget.saturating_sub(self.used);
        let mut sequences = Vec::new();
        for (entry, elastic) in self.elastic_entries() {
            let (open, close) = render::sequence_delimiters(self.delimiters, elastic, false);
            let around = self.count_tokens(if open.is_empty() {
                render::layer_separator(self.delimiters, elastic.layer)
            } else {
                &open
            });
            let around = around + self.count_tokens(close);
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

    /// Lets the sequences take what is left, in order.
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
            let stable = matches!(elastic.items, SequenceItems::Turns { .. })
                && self.bounds.previous.is_some();
            let entry_fit = &mut self.entry_fits[sequence.entry];
            if taken < elastic.len() {
                let kept_start = self.bounds.hysteresis.filter(|_| stable && taken < limit);
                entry_fit.why = Some(if let Some(percent) = kept_start {
                    format!("cut to {percent} %, so that its start stays for some turns")
                } else if limit == 0 {
                    format!("none at the {} length", tier.name())
                } else if taken == limit && limit < elastic.len() {
                    format!("at most {limit} are taken")
                } else if room < left {
                    format!("the layer takes at most {} tokens", elastic.cap)
                } else {
                    format!("{left} tokens were left")
                });
                self.cut |= taken < limit;
            }
            self.used += tokens;
            entry_fit.tokens = tokens;
            entry_fit.items = sequence.order[..taken].to_vec();
            entry_fit.items.sort_unstable();
        }
    }

    /// Returns how many items are taken, and what they take together.
    fn choose_items(
        &mut self,
        sequence: &mut ElasticFill,
        elastic: &ElasticSequence<'_>,
        room: u64,
        limit: usize,
    ) -> (usize, u64) {
        let (fitting, tokens) = self.count_fitting_items(sequence, elastic, room, limit);
        let (SequenceItems::Turns { turns, .. }, Some(percent), Some(first)) =
            (&elastic.items, self.bounds.hysteresis, self.bounds.previous)
        else {
            return (fitting, tokens);
        };
        let wanted = turns.len().saturating_sub(first);
        if wanted == 0 {
            // Last time there were more turns: it was another history.
            return (fitting, tokens);
        }
        if wanted <= fitting {
            // Everything since last time's first turn still fits: it stays the first.
            return self.count_fitting_items(sequence, elastic, room, wanted);
        }
        let share =
            |whole: u64| whole / 100 * u64::from(percent) + whole % 100 * u64::from(percent) / 100;
        let fewer = usize::try_from(share(limit as u64)).unwrap_or(limit).max(1);
        // What the pack guarantees is kept, and so is the newest turn if it fits at all.
        let smaller = share(room).max(elastic.floor.min(room));
        let (taken, tokens) = self.count_fitting_items(sequence, elastic, smaller, fewer);
        if taken == 0 {
            self.count_fitting_items(sequence, elastic, room, 1)
        } else {
            (taken, tokens)
        }
    }

    /// Returns how many items, in order, fit into a room.
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

    /// Returns what an item takes; it is written and counted once.
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
            self.message
        } else {
            0
        };
        let mut cost = per_message * pieces as u64;
        if self.bounds.exact {
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
            // An `@` that is not sent as itself takes twice what anything else can.
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

    /// Notes what each block takes.
    fn record_costs(&mut self) {
        for index in 0..self.entries.len() {
            if let Some(rung) = self.entry_fits[index].rung {
                self.entry_fits[index].tokens = self.rung_cost(index, rung);
            }
        }
    }

    fn rung_cost(&mut self, index: usize, rung: usize) -> u64 {
        let Some(block) = self.block_at(index) else {
            return 0;
        };
        let at = &block.rungs[rung];
        if self.bounds.budget == u64::MAX || (at.text.is_empty() && at.end.is_empty()) {
            return 0;
        }
        self.costs[index].resize(block.rungs.len(), None);
        if let Some(cost) = self.costs[index][rung] {
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
            Part::History { .. } | Part::Instructions => self.message,
            _ => 0,
        };
        let mut cost = per_message;
        if self.delimiters.format == Format::Xml && block.part == Part::System {
            // How the whole system prompt is escaped depends on all of it; CDATA is the longest that it can be, and its
            // marks around every block are more than a seam between two can cost.
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
        self.costs[index][rung] = Some(cost);
        cost
    }

    fn count_tokens(&self, text: &str) -> u64 {
        let long = self
            .delimiters
            .expands
            .contains(&Expands::AtSigns)
            .then(|| longest_escaped(text, self.delimiters.format));
        let text = long.as_deref().unwrap_or(text);
        match (text.is_empty(), self.bounds.exact) {
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

    /// Returns the length of the block before an entry, in which knowledge stands.
    fn enclosing_tier(&self, entry: usize) -> Tier {
        let before = entry
            .checked_sub(1)
            .and_then(|before| Some((self.block_at(before)?, self.entry_fits[before].rung?)));
        before.map_or(self.bounds.tier, |(block, rung)| block.rungs[rung].tier)
    }
}

/// Returns the order in which the items of a sequence are taken, at most so many.
fn selection_order(elastic: &ElasticSequence<'_>, limit: usize) -> Vec<usize> {
    match &elastic.items {
        SequenceItems::Turns { turns, .. } => (0..turns.len()).rev().take(limit).collect(),
        SequenceItems::Context { items, .. } => {
            // An item that a person named must not be left out for one that the program chose.
            let named = |index: &usize| items[*index].named;
            let all = 0..items.len();
            let others = all.clone().filter(|index| !named(index));
            all.filter(named).chain(others).take(limit).collect()
        }
        SequenceItems::Entries { entries, .. } => {
            let keep = &elastic.layer.keep;
            let kept = |index: &usize| keep.contains(&entries[*index].category);
            let all = 0..entries.len();
            let others = all.clone().filter(|index| !kept(index));
            all.filter(kept).chain(others).take(limit).collect()
        }
    }
}
