//! Replies whose blocks are in code fences: one fence around all blocks, or one around each.

use std::ops::Range;

use super::foreign::contains;
use super::scan::{ScanResult, scan};
use super::source_map::SourceText;
use super::tag::TagNames;
use crate::models::Grammar;
use crate::text::markdown::{Fence, FenceRules};

/// Returns a reply without the fences around its blocks, if all blocks are in fences that hold
/// nothing else.
///
/// This applies only to modes with a verdict. There, a block in a fence is a document or a finding
/// for a reader. In other modes a fenced action is an example that must not run.
pub(super) fn remove_block_fences(
    source: &SourceText<'_>,
    found: &ScanResult,
    grammar: &Grammar,
    names: &TagNames,
    has_run: bool,
) -> Option<SourceText<'static>> {
    let has_blocks_outside = !(found.effects.is_empty() && found.messages.is_empty());
    if grammar.verdicts.is_empty() || found.fences.is_empty() || has_blocks_outside {
        return None;
    }

    let wraps = block_fences(&source.text, names);
    // Without a `run`, a verdict in a fence may be a quote.
    let holds_review = |wrap: &BlockFence| {
        found
            .review_tags
            .iter()
            .any(|tag| (wrap.open.end..wrap.close.start).contains(&tag.span.start))
    };
    if !has_run && wraps.iter().any(holds_review) {
        return None;
    }

    let marks: Vec<Range<usize>> = wraps
        .iter()
        .flat_map(|wrap| [wrap.open.clone(), wrap.close.clone()])
        .collect();

    let unwrapped = source.remove_spans(&marks);
    let inside = scan(&unwrapped.text, grammar, names);
    let is_whole = !inside.effects.is_empty()
        && !inside.open
        && hold_only_blocks(&source.text, &wraps, &inside);
    is_whole.then_some(unwrapped)
}

/// Opening and closing line of a fence around blocks.
struct BlockFence {
    open: Range<usize>,
    close: Range<usize>,
}

/// Finds fences whose first line is followed by an opening tag of the protocol, and whose last line
/// follows a closing tag. Fences inside a block, such as in a document, are part of the block.
fn block_fences(text: &str, names: &TagNames) -> Vec<BlockFence> {
    let mut fences = Vec::new();
    let mut open: Option<(Fence, Range<usize>)> = None;
    let mut previous = "";
    let mut at = 0;

    for line in text.split_inclusive('\n') {
        let span = at..at + line.len();
        at = span.end;

        match &open {
            Some((fence, opened)) if fence.is_closed_by(line) && ends_block(previous, names) => {
                fences.push(BlockFence {
                    open: opened.clone(),
                    close: span,
                });
                open = None;
            }
            Some(_) => {}
            None => {
                let starts_block = || {
                    let tag = names.read_tag(text[span.end..].trim_start());
                    tag.is_some_and(|tag| !tag.closes && tag.complete)
                };
                open = Fence::open(line, FenceRules::Reply)
                    .filter(|_| starts_block())
                    .map(|fence| (fence, span));
            }
        }

        if !line.trim().is_empty() {
            previous = line;
        }
    }
    fences
}

/// Returns true if a line ends with a closing tag of the protocol.
fn ends_block(line: &str, names: &TagNames) -> bool {
    let line = line.trim_end();
    let closer = line.rfind("</").map(|at| &line[at..]);
    closer
        .and_then(|closer| Some((closer, names.read_tag(closer)?)))
        .is_some_and(|(closer, tag)| tag.length == closer.len())
}

/// Returns true if each fence encloses only blocks and whitespace. `inside` is the scan of the text
/// without the fence lines.
fn hold_only_blocks(text: &str, wraps: &[BlockFence], inside: &ScanResult) -> bool {
    let effects = inside
        .effects
        .iter()
        .map(|effect| effect.place.span.clone());
    let markers = inside.markers.iter().map(|marker| marker.span.clone());
    let mut blocks: Vec<Range<usize>> = effects.chain(markers).collect();
    blocks.sort_by_key(|span| span.start);

    // Bytes of fence lines removed so far.
    let mut removed = 0;
    wraps.iter().all(|wrap| {
        removed += wrap.open.len();
        let start = wrap.open.end - removed;
        let between = &text[wrap.open.end..wrap.close.start];
        removed += wrap.close.len();
        between
            .char_indices()
            .all(|(at, c)| c.is_whitespace() || contains(&blocks, start + at))
    })
}
