//! The pieces of a prompt that was fitted, in order: as text, as segments, as a view by part.

use super::entry::{Block, Elastic, Entry, Items};
use super::fit::{Fate, Fit};
use super::frame::Frame;
use super::render;
use crate::models::{Class, ContextItem, ContextKind, Part, Role, Segment, UnifiedPrompt, Zone};

/// A piece of a prompt: what it belongs to.
#[derive(Clone, Copy)]
pub(super) enum Piece<'e, 'a> {
    /// A block.
    Block(&'e Block<'a>),
    /// What comes behind the sequence inside a block.
    End(&'e Block<'a>),
    /// What opens or closes a sequence.
    Around(&'e Elastic<'a>, &'static str),
    /// One segment of an item.
    Item(&'e Elastic<'a>, usize, usize),
}

impl Piece<'_, '_> {
    fn is_system(self) -> bool {
        match self {
            Self::Block(block) | Self::End(block) => block.part == Part::System,
            Self::Around(elastic, _) | Self::Item(elastic, ..) => elastic.is_inside(),
        }
    }
}

/// Whoever takes the pieces of a prompt, in order.
pub(super) trait Sink {
    fn take(&mut self, piece: Piece<'_, '_>, write: impl FnOnce(&mut String));
}

/// The text alone: every piece is written where it stands.
impl Sink for String {
    fn take(&mut self, _: Piece<'_, '_>, write: impl FnOnce(&mut Self)) {
        write(self);
    }
}

/// Segments, and the system prompt as a whole.
#[derive(Default)]
pub(super) struct Written {
    pub(super) segments: Vec<Segment>,
    pub(super) system: String,
}

impl Sink for Written {
    fn take(&mut self, piece: Piece<'_, '_>, write: impl FnOnce(&mut String)) {
        let mut text = String::new();
        write(&mut text);
        if piece.is_system() {
            self.system.push_str(&text);
        }
        let (layer, (block, part, source)) = match piece {
            Piece::Block(block) => (
                block.layer,
                (block.id.clone(), block.part.clone(), block.source.clone()),
            ),
            Piece::End(block) => (
                block.layer,
                (
                    format!("{}/end", block.id),
                    block.part.clone(),
                    block.source.clone(),
                ),
            ),
            Piece::Around(elastic, name) => {
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
            Piece::Item(elastic, index, piece) => {
                (elastic.layer, render::described(elastic, index, piece))
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
pub(super) fn walk(entries: &[Entry<'_>], fit: &Fit, frame: &Frame<'_>, sink: &mut impl Sink) {
    let mut first = true;
    let mut pairs = entries.iter().zip(&fit.fates).peekable();
    while let Some((entry, fate)) = pairs.next() {
        match entry {
            Entry::Elastic(elastic) => items(elastic, fate, frame, sink, &mut first),
            Entry::Block(block) => {
                let Some(rung) = fate.rung.map(|rung| &block.rungs[rung]) else {
                    continue;
                };
                if block.part == Part::System && rung.text.is_empty() {
                    continue;
                }
                let lead = if std::mem::take(&mut first) {
                    ""
                } else {
                    render::lead(frame, block)
                };
                sink.take(Piece::Block(block), |out| {
                    render::block(out, frame, block, rung, lead)
                });
                if let Some((Entry::Elastic(inside), fate)) =
                    pairs.next_if(|(entry, _)| entry.is_inside())
                {
                    items(inside, fate, frame, sink, &mut first);
                }
                if !rung.end.is_empty() {
                    sink.take(Piece::End(block), |out| out.push_str(&rung.end));
                }
            }
        }
    }
}

/// Hands on the items of a sequence that were taken, and what stands around them.
fn items(
    elastic: &Elastic<'_>,
    fate: &Fate,
    frame: &Frame<'_>,
    sink: &mut impl Sink,
    first: &mut bool,
) {
    if fate.items.is_empty() {
        return;
    }
    let is_first = std::mem::take(first);
    let (open, close) = render::around(frame, elastic, is_first);
    let mut lead = match (open.is_empty(), is_first) {
        (false, _) => "\n\n",
        (true, true) => "",
        (true, false) => render::join(frame, elastic.layer),
    };
    if !open.is_empty() {
        sink.take(Piece::Around(elastic, ""), |out| out.push_str(&open));
    }
    for &index in &fate.items {
        for piece in 0..render::pieces(elastic, index) {
            sink.take(Piece::Item(elastic, index, piece), |out| {
                render::item(out, frame, elastic, index, piece, lead);
            });
            lead = "\n\n";
        }
    }
    if !close.is_empty() {
        sink.take(Piece::Around(elastic, "/end"), |out| out.push_str(close));
    }
}

/// What the parts of a prompt say, apart from the system's.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) items: Vec<ContextItem>,
    pub(super) instructions: String,
}

/// Moves the contents out of the entries.
pub(super) fn contents(entries: &mut [Entry<'_>], fit: &Fit) -> Contents {
    let mut contents = Contents::default();
    for (entry, fate) in entries.iter_mut().zip(&fit.fates) {
        match entry {
            Entry::Block(block) => {
                let Some(rung) = fate.rung else { continue };
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
            Entry::Elastic(elastic) => {
                for &index in &fate.items {
                    contents.items.extend(items_of(elastic, index));
                }
            }
        }
    }
    contents
}

/// Returns an item of a sequence as context.
fn items_of(elastic: &mut Elastic<'_>, index: usize) -> Vec<ContextItem> {
    let named: Vec<String> = (0..render::pieces(elastic, index))
        .map(|piece| render::described(elastic, index, piece).0)
        .collect();
    match &mut elastic.items {
        Items::Turns { turns, .. } => {
            let said = render::said(&turns[index]).zip(named);
            said.map(|((_, text), name)| ContextItem::new(ContextKind::Artifact, name, text))
                .collect()
        }
        Items::Context { items, .. } => vec![std::mem::take(&mut items[index].item)],
        Items::Entries { .. } => Vec::new(),
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
