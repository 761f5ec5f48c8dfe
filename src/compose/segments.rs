//! Writes the pieces of a fitted prompt in order: as text, as segments, or as content by part.

use super::block::{ElasticSequence, PromptBlock, PromptEntry, SequenceItems};
use super::delimiters::Delimiters;
use super::fit::{EntryFit, FitOutcome};
use super::render;
use crate::models::{
    CacheZone, ContextItem, ContextKind, MessageRole, PromptPart, PromptSegment, RetentionClass,
    UnifiedPrompt,
};

/// A piece of a prompt, by its origin.
#[derive(Clone, Copy)]
pub(super) enum PromptPiece<'e, 'a> {
    /// A block, up to a sequence inside it.
    Block(&'e PromptBlock<'a>),
    /// End of a block, after the sequence inside it.
    End(&'e PromptBlock<'a>),
    /// Opening or closing text of a sequence, with the suffix of its id.
    Around(&'e ElasticSequence<'a>, &'static str),
    /// One piece of an item: the item's index and the piece's number.
    Item(&'e ElasticSequence<'a>, usize, usize),
    /// Item that lists the omitted items of a sequence.
    Note(&'e ElasticSequence<'a>, &'e ContextItem),
}

impl PromptPiece<'_, '_> {
    fn is_system(self) -> bool {
        match self {
            Self::Block(block) | Self::End(block) => block.part == PromptPart::System,
            // Only the state block, which is part of the system prompt, has a sequence inside.
            Self::Around(elastic, _) | Self::Item(elastic, ..) | Self::Note(elastic, _) => {
                elastic.is_inside_block()
            }
        }
    }
}

/// Receiver of the pieces of a prompt, in order.
pub(super) trait PieceSink {
    fn write_piece(&mut self, piece: PromptPiece<'_, '_>, write: impl FnOnce(&mut String));
}

/// Appends every piece to one string.
impl PieceSink for String {
    fn write_piece(&mut self, _: PromptPiece<'_, '_>, write: impl FnOnce(&mut Self)) {
        write(self);
    }
}

/// Collects segments, and the system prompt as one string.
#[derive(Default)]
pub(super) struct SegmentWriter {
    pub(super) segments: Vec<PromptSegment>,
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
                let part = if elastic.is_inside_block() {
                    PromptPart::System
                } else {
                    PromptPart::History {
                        role: MessageRole::User,
                    }
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
            PromptPiece::Note(elastic, note) => {
                let id = format!("{}/{}", elastic.layer.id, note.name());
                let part = PromptPart::Context {
                    kind: note.kind(),
                    name: note.name().to_owned(),
                };
                (elastic.layer, (id, part, "agentd".to_owned()))
            }
        };

        self.segments.push(PromptSegment {
            block,
            part,
            class: layer.class,
            zone: layer.zone,
            source,
            text,
        });
    }
}

/// Writes every kept piece to the sink, in the prompt's order.
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
                let Some(variant) = entry_fit.variant.map(|variant| &block.variants[variant])
                else {
                    continue;
                };
                if block.part == PromptPart::System && variant.text.is_empty() {
                    continue;
                }

                let lead = if std::mem::take(&mut first) {
                    ""
                } else {
                    render::block_separator(delimiters, block)
                };
                sink.write_piece(PromptPiece::Block(block), |out| {
                    render::write_block(out, delimiters, block, variant, lead)
                });
                if let Some((PromptEntry::Elastic(inside), entry_fit)) =
                    pairs.next_if(|(entry, _)| entry.is_inside_block())
                {
                    write_items(inside, entry_fit, delimiters, sink, &mut first);
                }

                if !variant.end.is_empty() {
                    sink.write_piece(PromptPiece::End(block), |out| out.push_str(&variant.end));
                }
            }
        }
    }
}

/// Writes the included items of a sequence, with its opening and closing text.
fn write_items(
    elastic: &ElasticSequence<'_>,
    entry_fit: &EntryFit,
    delimiters: &Delimiters<'_>,
    sink: &mut impl PieceSink,
    first: &mut bool,
) {
    if entry_fit.items.is_empty() && entry_fit.note.is_none() {
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

    if let Some(note) = &entry_fit.note {
        sink.write_piece(PromptPiece::Note(elastic, note), |out| {
            render::write_note(out, delimiters, elastic.layer, note, lead);
        });
    }

    if !close.is_empty() {
        sink.write_piece(PromptPiece::Around(elastic, "/end"), |out| {
            out.push_str(&close)
        });
    }
}

/// Content of a prompt by part, apart from the system prompt.
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
                let Some(variant) = entry_fit.variant else {
                    continue;
                };
                let mut text = || std::mem::take(&mut block.variants[variant].text).into_owned();
                match &block.part {
                    PromptPart::Context { kind, name } => {
                        let item = ContextItem::new(*kind, name.clone(), text());
                        contents.items.push(item);
                    }
                    PromptPart::History { .. } => {
                        let name = block.id.clone();
                        contents
                            .items
                            .push(ContextItem::new(ContextKind::Artifact, name, text()));
                    }
                    PromptPart::Instructions => contents.instructions = text(),
                    PromptPart::System => {}
                }
            }
            PromptEntry::Elastic(elastic) => {
                for &index in &entry_fit.items {
                    contents.items.extend(take_context_items(elastic, index));
                }
                contents.items.extend(entry_fit.note.clone());
            }
        }
    }

    contents
}

/// Moves an item of a sequence out as context; knowledge entries are skipped, because they are part of the
/// system prompt.
fn take_context_items(elastic: &mut ElasticSequence<'_>, index: usize) -> Vec<ContextItem> {
    let ids: Vec<String> = (0..render::count_pieces(elastic, index))
        .map(|piece| render::describe_piece(elastic, index, piece).0)
        .collect();
    match &mut elastic.items {
        SequenceItems::Turns { turns, .. } => {
            let messages = render::turn_messages(&turns[index]).zip(ids);
            messages
                .map(|((_, text), name)| ContextItem::new(ContextKind::Artifact, name, text))
                .collect()
        }
        SequenceItems::Context { items, .. } => vec![std::mem::take(&mut items[index].item)],
        SequenceItems::Entries { .. } => Vec::new(),
    }
}

/// Returns the segments of the XML rendering, in which all blocks of the system prompt are one segment.
pub(super) fn xml_segments(
    prompt: &UnifiedPrompt,
    blocks: Vec<PromptSegment>,
) -> Vec<PromptSegment> {
    let (system, rest): (Vec<PromptSegment>, Vec<PromptSegment>) = blocks
        .into_iter()
        .partition(|segment| segment.part == PromptPart::System);
    let has_several = system.len() > 1;
    let system = system.into_iter().next().map(|first| {
        if !has_several {
            return first;
        }
        PromptSegment {
            block: "system".to_owned(),
            source: "the blocks of the system prompt".to_owned(),
            class: RetentionClass::Pinned,
            zone: CacheZone::Turn,
            ..first
        }
    });

    let blocks = system
        .filter(|_| !prompt.system_prompt().is_empty())
        .into_iter()
        .chain(rest);
    // Both have the system prompt, the items and the instructions in this order.
    prompt
        .pieces()
        .zip(blocks)
        .map(|(piece, segment)| PromptSegment {
            text: prompt.piece_xml(piece),
            ..segment
        })
        .collect()
}
