//! Making the layers meet the budget.
//!
//! Pinned blocks stand at their tier's length. Required ones start at their shortest, floors of elastic ones are set
//! aside, and then lengths are raised along one fixed sequence that stops at the first raise that does not fit: a
//! larger window never takes detail from a block. Elastic sequences take what is left, whole items only.

use super::count::Counter;
use super::entry::{Block, Elastic, Entry, Items};
use super::frame::Frame;
use super::render;
use super::sent::{ENVELOPE, longest};
use crate::models::{Class, Expands, Format, Part, Tier};
use crate::text::xml::cdata_xml;

/// What each message of a chat takes beside its text.
const MESSAGE: u64 = 4;

/// The limits of one fit.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'a> {
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
pub(super) struct Fit {
    /// What they take together.
    pub(super) used: u64,
    /// Whether anything is shorter than it could be for want of tokens.
    pub(super) cut: bool,
    /// One for each entry.
    pub(super) fates: Vec<Fate>,
}

/// What became of an entry.
#[derive(Default)]
pub(super) struct Fate {
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
pub(super) struct TooSmall {
    pub(super) needs: Vec<u64>,
    /// What the prompt takes apart from them.
    pub(super) frame: u64,
}

/// Fits the entries.
pub(super) fn fit(
    entries: &[Entry<'_>],
    frame: &Frame<'_>,
    bounds: Bounds<'_>,
) -> Result<Fit, TooSmall> {
    let chat = matches!(frame.format, Format::Chat | Format::Tools);
    let mut fitter = Fitter {
        entries,
        frame,
        bounds,
        costs: entries.iter().map(|_| Vec::new()).collect(),
        fates: entries.iter().map(|_| Fate::default()).collect(),
        used: 0,
        message: if chat { MESSAGE } else { 0 },
        cut: false,
        buffer: String::new(),
    };
    fitter.used = fitter.fixed();
    fitter.place_fixed()?;
    let mut sequences = fitter.sequences();
    fitter.raise(sequences.iter().map(|sequence| sequence.floor).sum());
    fitter.stretch(&mut sequences);
    fitter.note_costs();
    Ok(Fit {
        used: fitter.used,
        cut: fitter.cut,
        fates: fitter.fates,
    })
}

struct Fitter<'a, 'e> {
    entries: &'e [Entry<'a>],
    frame: &'e Frame<'e>,
    bounds: Bounds<'e>,
    /// What each rung of each block takes, as far as it is known.
    costs: Vec<Vec<Option<u64>>>,
    fates: Vec<Fate>,
    used: u64,
    message: u64,
    cut: bool,
    /// Where pieces are written to be counted.
    buffer: String,
}

/// An elastic sequence while it is filled.
struct Sequence {
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
    fn fixed(&self) -> u64 {
        match self.frame.format {
            Format::Flat if self.frame.expands.is_empty() => 0,
            Format::Flat => self.count(&ENVELOPE.concat()),
            Format::Chat | Format::Tools => MESSAGE,
            Format::Xml => {
                let system = "<prompt>\n<system_prompt><![CDATA[]]></system_prompt>\n";
                // Tags are counted apart from what they enclose, which may differ by a token at each seam.
                8 + self.count(system) + self.count("<context>\n</context>\n</prompt>\n")
            }
        }
    }

    /// Puts pinned blocks at their length and required ones at their shortest.
    fn place_fixed(&mut self) -> Result<(), TooSmall> {
        let mut needs = vec![0; self.entries.len()];
        for (index, need) in needs.iter_mut().enumerate() {
            let rung = match self.block(index) {
                Some(block) if block.layer.class == Class::Pinned => block.rungs.len() - 1,
                Some(block) if block.layer.class == Class::Required => 0,
                _ => continue,
            };
            *need = self.cost(index, rung);
            self.fates[index].rung = Some(rung);
            self.used = self.used.saturating_add(*need);
        }
        if self.used > self.bounds.budget {
            Err(TooSmall {
                needs,
                frame: self.fixed(),
            })
        } else {
            Ok(())
        }
    }

    /// Raises lengths, all required blocks before any optional one, and stops at the first raise that does not fit.
    fn raise(&mut self, floors: u64) {
        let mut stopped: Option<&'e str> = None;
        for (index, rung) in self.raises() {
            let Some(block) = self.block(index) else {
                continue;
            };
            if let Some(by) = stopped {
                self.fates[index]
                    .why
                    .get_or_insert_with(|| format!("after {by}, which did not fit"));
                continue;
            }
            let now = self.fates[index]
                .rung
                .map_or(0, |rung| self.cost(index, rung));
            let then = self.cost(index, rung);
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
                self.fates[index].why = Some(format!(
                    "{name} takes {more} tokens more, and {left} are left"
                ));
                stopped = Some(&block.id);
                self.cut = true;
                continue;
            }
            self.used = self.used + then - now;
            self.fates[index].rung = Some(rung);
        }
    }

    /// Returns the one sequence of raises: round by round, each lifting every block of a class by a rung.
    fn raises(&self) -> Vec<(usize, usize)> {
        let mut raises = Vec::new();
        for (class, start) in [(Class::Required, 1), (Class::Optional, 0)] {
            let blocks: Vec<(usize, usize)> = (0..self.entries.len())
                .filter_map(|index| Some((index, self.block(index)?)))
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
    fn sequences(&mut self) -> Vec<Sequence> {
        let mut left = self.bounds.budget.saturating_sub(self.used);
        let mut sequences = Vec::new();
        for (entry, elastic) in self.elastics() {
            let (open, close) = render::around(self.frame, elastic, false);
            let around = self.count(if open.is_empty() {
                render::join(self.frame, elastic.layer)
            } else {
                &open
            });
            let around = around + self.count(close);
            let order = order(elastic, elastic.limit(self.bounds.tier));
            let mut sequence = Sequence {
                entry,
                floor: 0,
                around,
                order,
                costs: Vec::new(),
            };
            let mut content = around;
            let mut place = 0;
            while content < elastic.floor && place < sequence.order.len() {
                content += self.look(&mut sequence, elastic, place);
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
    fn stretch(&mut self, sequences: &mut [Sequence]) {
        let mut later: u64 = sequences.iter().map(|sequence| sequence.floor).sum();
        for sequence in sequences {
            later -= sequence.floor;
            let Entry::Elastic(elastic) = &self.entries[sequence.entry] else {
                continue;
            };
            let left = self
                .bounds
                .budget
                .saturating_sub(self.used)
                .saturating_sub(later);
            let room = left.min(elastic.cap);
            let tier = self.around_tier(sequence.entry);
            let limit = elastic.limit(tier).min(sequence.order.len());
            let (taken, tokens) = self.take(sequence, elastic, room, limit);
            let stable =
                matches!(elastic.items, Items::Turns { .. }) && self.bounds.previous.is_some();
            let fate = &mut self.fates[sequence.entry];
            if taken < elastic.len() {
                let kept_start = self.bounds.hysteresis.filter(|_| stable && taken < limit);
                fate.why = Some(if let Some(percent) = kept_start {
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
            fate.tokens = tokens;
            fate.items = sequence.order[..taken].to_vec();
            fate.items.sort_unstable();
        }
    }

    /// Returns how many items are taken, and what they take together.
    fn take(
        &mut self,
        sequence: &mut Sequence,
        elastic: &Elastic<'_>,
        room: u64,
        limit: usize,
    ) -> (usize, u64) {
        let (fitting, tokens) = self.fill(sequence, elastic, room, limit);
        let (Items::Turns { turns, .. }, Some(percent), Some(first)) =
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
            return self.fill(sequence, elastic, room, wanted);
        }
        let share =
            |whole: u64| whole / 100 * u64::from(percent) + whole % 100 * u64::from(percent) / 100;
        let fewer = usize::try_from(share(limit as u64)).unwrap_or(limit).max(1);
        // What the pack guarantees is kept, and so is the newest turn if it fits at all.
        let smaller = share(room).max(elastic.floor.min(room));
        let (taken, tokens) = self.fill(sequence, elastic, smaller, fewer);
        if taken == 0 {
            self.fill(sequence, elastic, room, 1)
        } else {
            (taken, tokens)
        }
    }

    /// Returns how many items, in order, fit into a room.
    fn fill(
        &mut self,
        sequence: &mut Sequence,
        elastic: &Elastic<'_>,
        room: u64,
        limit: usize,
    ) -> (usize, u64) {
        let limit = limit.min(sequence.order.len());
        let mut tokens = sequence.around;
        for place in 0..limit {
            let cost = self.look(sequence, elastic, place);
            if tokens.saturating_add(cost) > room {
                return (place, if place == 0 { 0 } else { tokens });
            }
            tokens += cost;
        }
        (limit, if limit == 0 { 0 } else { tokens })
    }

    /// Returns what an item takes; it is written and counted once.
    fn look(&mut self, sequence: &mut Sequence, elastic: &Elastic<'_>, place: usize) -> u64 {
        if let Some(cost) = sequence.costs.get(place) {
            return *cost;
        }
        let index = sequence.order[place];
        let pieces = render::pieces(elastic, index);
        let per_message = if matches!(elastic.items, Items::Turns { .. }) {
            self.message
        } else {
            0
        };
        let mut cost = per_message * pieces as u64;
        if self.bounds.exact {
            for piece in 0..pieces {
                let mut buffer = std::mem::take(&mut self.buffer);
                buffer.clear();
                render::item(&mut buffer, self.frame, elastic, index, piece, "\n\n");
                cost += self.count(&buffer);
                self.buffer = buffer;
            }
        } else {
            // An `@` that is not sent as itself takes twice what anything else can.
            let growth = if self.frame.expands.is_empty() { 1 } else { 2 };
            cost += self
                .bounds
                .counter
                .bound(growth * render::most_bytes(elastic, index));
        }
        sequence.costs.push(cost);
        cost
    }

    /// Notes what each block takes.
    fn note_costs(&mut self) {
        for index in 0..self.entries.len() {
            if let Some(rung) = self.fates[index].rung {
                self.fates[index].tokens = self.cost(index, rung);
            }
        }
    }

    fn cost(&mut self, index: usize, rung: usize) -> u64 {
        let Some(block) = self.block(index) else {
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
            render::lead(self.frame, block)
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        render::block(&mut buffer, self.frame, block, at, lead);
        let per_message = match block.part {
            Part::History { .. } | Part::Instructions => self.message,
            _ => 0,
        };
        let mut cost = per_message;
        if self.frame.format == Format::Xml && block.part == Part::System {
            // How the whole system prompt is escaped depends on all of it; CDATA is the longest that it can be, and its
            // marks around every block are more than a seam between two can cost.
            for text in [buffer.as_str(), at.end.as_str()]
                .into_iter()
                .filter(|text| !text.is_empty())
            {
                cost += self.count(&cdata_xml(text));
            }
        } else {
            cost += self.count(&buffer) + self.count(&at.end);
        }
        self.buffer = buffer;
        self.costs[index][rung] = Some(cost);
        cost
    }

    fn count(&self, text: &str) -> u64 {
        let long = self
            .frame
            .expands
            .contains(&Expands::AtSigns)
            .then(|| longest(text, self.frame.format));
        let text = long.as_deref().unwrap_or(text);
        match (text.is_empty(), self.bounds.exact) {
            (true, _) => 0,
            (false, true) => self.bounds.counter.piece(text),
            (false, false) => self.bounds.counter.bound(text.len()),
        }
    }

    fn block(&self, index: usize) -> Option<&'e Block<'a>> {
        match &self.entries[index] {
            Entry::Block(block) => Some(block),
            Entry::Elastic(_) => None,
        }
    }

    fn elastics(&self) -> Vec<(usize, &'e Elastic<'a>)> {
        let entries = self.entries.iter().enumerate();
        entries
            .filter_map(|(index, entry)| match entry {
                Entry::Elastic(elastic) => Some((index, elastic)),
                Entry::Block(_) => None,
            })
            .collect()
    }

    /// Returns the length of the block before an entry, in which knowledge stands.
    fn around_tier(&self, entry: usize) -> Tier {
        let before = entry
            .checked_sub(1)
            .and_then(|before| Some((self.block(before)?, self.fates[before].rung?)));
        before.map_or(self.bounds.tier, |(block, rung)| block.rungs[rung].tier)
    }
}

/// Returns the order in which the items of a sequence are taken, at most so many.
fn order(elastic: &Elastic<'_>, limit: usize) -> Vec<usize> {
    match &elastic.items {
        Items::Turns { turns, .. } => (0..turns.len()).rev().take(limit).collect(),
        Items::Context { items, .. } => {
            // An item that a person named must not be left out for one that the program chose.
            let named = |index: &usize| items[*index].named;
            let all = 0..items.len();
            let others = all.clone().filter(|index| !named(index));
            all.filter(named).chain(others).take(limit).collect()
        }
        Items::Entries { entries, .. } => {
            let keep = &elastic.layer.keep;
            let kept = |index: &usize| keep.contains(&entries[*index].category);
            let all = 0..entries.len();
            let others = all.clone().filter(|index| !kept(index));
            all.filter(kept).chain(others).take(limit).collect()
        }
    }
}
