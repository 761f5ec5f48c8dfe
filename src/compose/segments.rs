//! The pieces of a prompt that was fitted, in order: as text, as segments, as a view by part.

use super::block::{ElasticSequence, PromptBlock, PromptEntry, SequenceItems};
use super::delimiters::Delimiters;
use super::fit::{EntryFit, FitOutcome};
use super::render;
use crate::models::{Class, ContextItem, ContextKind, Part, Role, Segment, UnifiedPrompt, Zone};

/// A piece of a prompt: what it belongs to.
#[derive(Clone, Copy)]
pub(super) enum PromptPiece<'e, 'a> {
    /// A block.
    Block(&'e PromptBlock<'a>),
    /// What comes behind the sequence inside a block.
    End(&'e PromptBlock<'a>),
    /// What opens or closes a sequence.
    Around(&'e ElasticSequence<'a>, &'static str),
    /// One segment of an item.
    Item(&'e ElasticSequence<'a>, usize, usize),
}

impl PromptPiece<'_, '_> {
    fn is_system(self) -> bool {
        match self {
            Self::Block(block) | Self::End(block) => block.part == Part::System,
            Self::Around(elastic, _) | Self::Item(elastic, ..) => elastic.is_inside(),
        }
    }
}

/// Whoever takes the pieces of a prompt, in order.
pub(super) trait PieceSink {
    fn write_piece(&mut self, piece: PromptPiece<'_, '_>, write: impl FnOnce(&mut String));
}

/// The text alone: every piece is written where it stands.
impl PieceSink for String {
    fn write_piece(&mut self, _: PromptPiece<'_, '_>, write: impl FnOnce(&mut Self)) {
        write(self);
    }
}

/// Segments, and the system prompt as a whole.
#[derive(Default)]
pub(super) struct SegmentWriter {
    pub(super) segments: Vec<Segment>,
    pub(super) system: String,
}

impl PieceSink for SegmentWriter {
    fn write_piece(&mut self, piece: PromptPiece<'_, '_>, write: impl FnOnce(&mut String)) {
        let mut text = String::new();
        write(&mut text);
        if piece.is_system() {
            self.system.push_str(&text);
        }
        let (layer, (block, part, source)) = match piece {
            PromptPiece::Block(block) => (
                block.layer,
                (block.id.clone(), block.part.clone(), block.source.clone()),
            ),
            PromptPiece::End(block) => (
                block.layer,
                (
                    format!("{}/end", block.id),
                    block.part.clone(),
                    block.source.clone(),
                ),
            ),
            PromptPiece::Around(elastic, name) => {
                let part = if elastic.is_inside() {
                    Part::System
                } else {
                    Part::History { role: Role::User }
                };
                (
                    elastic.layer,
                    (
                        format!("{}{name}", elastic.layer.id),
                        part,
                        "the pack".to_owned(),
                    ),
                )
            }
            PromptPiece::Item(elastic, index, piece) => {
                (elastic.layer, render::describe_piece(elastic, index, piece))
            }
        };
        self.segments.push(Segment {
            block,
            part,
            class: layer.class,
            zone: layer.zone,
            source,
            text,
        });
    }
}

/// Hands on every piece that was kept, in the prompt's order.
pub(super) fn write_pieces(
    entries: &[PromptEntry<'_>],
    fit: &FitOutcome,
    delimiters: &Delimiters<'_>,
    sink: &mut impl PieceSink,
) {
    let mut first = true;
    let mut pairs = entries.iter().zip(&fit.entry_fits).peekable();
    while let Some((entry, entry_fit)) = pairs.next() {
        match entry {
            PromptEntry::Elastic(elastic) => {
                write_items(elastic, entry_fit, delimiters, sink, &mut first)
            }
            PromptEntry::Block(block) => {
                let Some(rung) = entry_fit.rung.map(|rung| &block.rungs[rung]) else {
                    continue;
                };
                if block.part == Part::System && rung.text.is_empty() {
                    continue;
                }
                let lead = if std::mem::take(&mut first) {
                    ""
                } else {
                    render::block_separator(delimiters, block)
                };
                sink.write_piece(PromptPiece::Block(block), |out| {
                    render::write_block(out, delimiters, block, rung, lead)
                });
                if let Some((PromptEntry::Elastic(inside), entry_fit)) =
                    pairs.next_if(|(entry, _)| entry.is_inside())
                {
                    write_items(inside, entry_fit, delimiters, sink, &mut first);
                }
                if !rung.end.is_empty() {
                    sink.write_piece(PromptPiece::End(block), |out| out.push_str(&rung.end));
                }
            }
        }
    }
}

/// Hands on the items of a sequence that were taken, and what stands around them.
fn write_items(
    elastic: &ElasticSequence<'_>,
    entry_fit: &EntryFit,
    delimiters: &Delimiters<'_>,
    sink: &mut impl PieceSink,
    first: &mut bool,
) {
    if entry_fit.items.is_empty() {
        return;
    }
    let is_first = std::mem::take(first);
    let (open, close) = render::sequence_delimiters(delimiters, elastic, is_first);
    let mut lead = match (open.is_empty(), is_first) {
        (false, _) => "\n\n",
        (true, true) => "",
        (true, false) => render::layer_separator(delimiters, elastic.layer),
    };
    if !open.is_empty() {
        sink.write_piece(PromptPiece::Around(elastic, ""), |out| out.push_str(&open));
    }
    for &index in &entry_fit.items {
        for piece in 0..render::count_pieces(elastic, index) {
            sink.write_piece(PromptPiece::Item(elastic, index, piece), |out| {
                render::write_item_piece(out, delimiters, elastic, index, piece, lead);
            });
            lead = "\n\n";
        }
    }
    if !close.is_empty() {
        sink.write_piece(PromptPiece::Around(elastic, "/end"), |out| {
            out.push_str(close)
        });
    }
}

/// What the parts of a prompt say, apart from the system's.
#[derive(Default)]
pub(super) struct PromptContents {
    pub(super) items: Vec<ContextItem>,
    pub(super) instructions: String,
}

/// Moves the contents out of the entries.
pub(super) fn take_contents(entries: &mut [PromptEntry<'_>], fit: &FitOutcome) -> PromptContents {
    let mut contents = PromptContents::default();
    for (entry, entry_fit) in entries.iter_mut().zip(&fit.entry_fits) {
        match entry {
            PromptEntry::Block(block) => {
                let Some(rung) = entry_fit.rung else { continue };
                let mut text = || std::mem::take(&mut block.rungs[rung].text).into_owned();
                match &block.part {
                    Part::Context { kind, name } => {
                        let (kind, name) = (*kind, name.clone());
                        contents.items.push(ContextItem::new(kind, name, text()));
                    }
                    Part::History { .. } => {
                        let name = block.id.clone();
                        contents
                            .items
                            .push(ContextItem::new(ContextKind::Artifact, name, text()));
                    }
                    Part::Instructions => contents.instructions = text(),
                    Part::System => {}
                }
            }
            PromptEntry::Elastic(elastic) => {
                for &index in &entry_fit.items {
                    contents.items.extend(take_context_items(elastic, index));
                }
            }
        }
    }
    contents
}

/// Returns an item of a sequence as context.
fn take_context_items(elastic: &mut ElasticSequence<'_>, index: usize) -> Vec<ContextItem> {
    let named: Vec<String> = (0..render::count_pieces(elastic, index))
        .map(|piece| render::describe_piece(elastic, index, piece).0)
        .collect();
    match &mut elastic.items {
        SequenceItems::Turns { turns, .. } => {
            let said = render::turn_messages(&turns[index]).zip(named);
            said.map(|((_, text), name)| ContextItem::new(ContextKind::Artifact, name, text))
                .collect()
        }
        SequenceItems::Context { items, .. } => vec![std::mem::take(&mut items[index].item)],
        SequenceItems::Entries { .. } => Vec::new(),
    }
}

/// Returns the segments of the XML: the blocks of the system prompt are one of them.
pub(super) fn xml_segments(prompt: &UnifiedPrompt, blocks: Vec<Segment>) -> Vec<Segment> {
    let (system, rest): (Vec<Segment>, Vec<Segment>) = blocks
        .into_iter()
        .partition(|segment| segment.part == Part::System);
    let several = system.len() > 1;
    let system = system.into_iter().next().map(|first| {
        if !several {
            return first;
        }
        let (block, source) = (
            "system".to_owned(),
            "the blocks of the system prompt".to_owned(),
        );
        Segment {
            block,
            source,
            class: Class::Pinned,
            zone: Zone::Turn,
            ..first
        }
    });
    let blocks = system
        .filter(|_| !prompt.system_prompt().is_empty())
        .into_iter()
        .chain(rest);
    prompt
        .pieces()
        .zip(blocks)
        .map(|(piece, segment)| Segment {
            text: prompt.piece_xml(piece),
            ..segment
        })
        .collect()
}
