//! A prompt as bytes: XML, or flat text.

use std::borrow::Cow;

use crate::models::{Block, Piece, Segment, UnifiedPrompt};

/// The renderings of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `UnifiedPrompt::to_xml`.
    Xml,
    /// Plain text with headings.
    Flat,
}

/// What separates the blocks of flat text.
const SEPARATOR: &str = "\n\n---\n\n";

/// Renders a prompt; `blocks` are its pieces, in the same order.
pub(super) fn render(prompt: &UnifiedPrompt, blocks: &[Block], format: Format) -> Vec<Segment> {
    let last = blocks.len().saturating_sub(1);
    let pairs = prompt.pieces().zip(blocks).enumerate();
    pairs
        .map(|(index, (piece, block))| Segment {
            block: block.id.clone(),
            part: block.part.clone(),
            class: block.class,
            zone: block.zone,
            source: block.source.clone(),
            text: match format {
                Format::Xml => prompt.piece_xml(piece),
                Format::Flat => flat(prompt, piece, index == last),
            },
        })
        .collect()
}

fn flat(prompt: &UnifiedPrompt, piece: Piece, is_last: bool) -> String {
    let mut text = match piece {
        Piece::System => escape_lines(prompt.system_prompt().trim_end()).into_owned(),
        Piece::Item(index) => prompt.context().get(index).map_or_else(String::new, |item| {
            let title = item.name().replace(is_line_end, " ");
            let kind = item.kind().element();
            format!("# {kind}: {title}\n\n{}", escape_lines(item.content().trim_end()))
        }),
        Piece::Instructions => {
            format!("# instructions\n\n{}", escape_lines(prompt.instructions().trim_end()))
        }
    };
    text.push_str(if is_last { "\n" } else { SEPARATOR });
    text
}

/// Puts a backslash before each line that would pass for a separator or a heading of ours.
fn escape_lines(body: &str) -> Cow<'_, str> {
    if !body.split(is_line_end).any(is_frame) {
        return Cow::Borrowed(body);
    }
    let mut out = String::with_capacity(body.len() + 16);
    for line in body.split_inclusive(is_line_end) {
        if is_frame(line.trim_end_matches(is_line_end)) {
            out.push('\\');
        }
        out.push_str(line);
    }
    Cow::Owned(out)
}

/// Tells every character that some reader takes for the end of a line.
fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_frame(line: &str) -> bool {
    let line = line.trim();
    let heading = line.trim_start_matches('#').trim_start().to_ascii_lowercase();
    let named = ["file:", "artifact:", "thought:", "instructions"];
    line == "---" || (line.starts_with('#') && named.iter().any(|name| heading.starts_with(name)))
}
