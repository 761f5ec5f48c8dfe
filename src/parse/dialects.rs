//! Replies whose tags are written in another notation: other brackets, entities, channel marks.

use std::ops::Range;

use super::fields::decode_entities;
use super::source_map::SourceText;
use super::tag::TagNames;
use crate::models::{Grammar, ProblemCode};

/// Maximum length of a tag in another notation.
const MAX_TAG_BYTES: usize = 300;

/// Maximum length of an entity that is decoded, with `&` and `;`.
const MAX_ENTITY_BYTES: usize = 12;

/// A reply with its tags rewritten.
pub(super) struct ConvertedReply {
    pub(super) source: SourceText<'static>,
    pub(super) code: ProblemCode,
    /// True if the reply starts and ends with a tag, so that all of it is meant as tags.
    pub(super) whole: bool,
}

/// Rewrites tags in the first other notation that the reply uses; `None` if it uses none.
pub(super) fn convert_tags(
    source: &SourceText<'_>,
    grammar: &Grammar,
    names: &TagNames,
) -> Option<ConvertedReply> {
    convert_brackets(source, grammar, names, ["＜", "＞"])
        .or_else(|| convert_brackets(source, grammar, names, ["[", "]"]))
        .or_else(|| convert_entities(source, names))
}

/// Rewrites a reply that starts with channel marks: `<|channel|>analysis<|message|>` opens a
/// thought, `final` a message.
pub(super) fn convert_harmony(source: &SourceText<'_>) -> Option<SourceText<'static>> {
    let text: &str = &source.text;
    let start = text.trim_start();
    if !(start.starts_with("<|channel|>") || start.starts_with("<|start|>")) {
        return None;
    }

    let mut edits: Vec<(Range<usize>, &str)> = Vec::new();
    let mut close = "";
    let mut at = 0;
    let marks = [
        "<|channel|>",
        "<|start|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
    ];

    while let Some(hit) = memchr::memmem::find(&text.as_bytes()[at..], b"<|") {
        let start = at + hit;
        at = start + 2;
        let Some(mark) = marks.iter().find(|mark| text[start..].starts_with(**mark)) else {
            continue;
        };

        let mut end = start + mark.len();

        let mut new = close;
        close = "";
        if *mark == "<|channel|>" {
            // Only the channel name of the header is read.
            let message = memchr::memmem::find(&text.as_bytes()[end..], b"<|message|>");
            let Some(header) = message.map(|hit| &text[end..end + hit]) else {
                break;
            };
            end += header.len() + "<|message|>".len();
            let channel = header.split_whitespace().next().unwrap_or_default();
            (new, close) = match channel {
                "final" => ("<message>", "</message>"),
                _ => ("<think>", "</think>"),
            };
        } else if *mark == "<|start|>" {
            // A role follows the mark.
            end += text[end..]
                .bytes()
                .take_while(u8::is_ascii_alphabetic)
                .count();
        }

        edits.push((start..end, new));
        at = end;
    }

    edits.push((text.len()..text.len(), close));
    Some(source.replace_spans(&edits))
}

/// Rewrites tags in other brackets.
fn convert_brackets(
    source: &SourceText<'_>,
    grammar: &Grammar,
    names: &TagNames,
    [open, close]: [&str; 2],
) -> Option<ConvertedReply> {
    let text: &str = &source.text;
    let mut tags: Vec<(Range<usize>, String)> = Vec::new();
    let finder = memchr::memmem::Finder::new(open);
    let mut at = 0;

    while let Some(hit) = finder.find(&text.as_bytes()[at..]) {
        let start = at + hit;
        at = start + open.len();
        if text[at..].starts_with(open) {
            continue;
        }

        let near = &text[at..text.floor_char_boundary(at + MAX_TAG_BYTES)];
        // Most brackets are prose, so the search ends at the first character that cannot be part of
        // a tag.
        let ends_search =
            |c: char| matches!(c, '\n' | '<' | '>') || open.starts_with(c) || close.starts_with(c);
        let Some(length) = near
            .find(ends_search)
            .filter(|&end| near[end..].starts_with(close))
        else {
            continue;
        };

        let inner = &near[..length];
        let ascii: String = inner.chars().map(to_ascii_width).collect();
        let tag = format!("<{ascii}>");
        let is_known = names
            .read_tag(&tag)
            .is_some_and(|read| read.complete && read.length == tag.len())
            || is_parameter(ascii.strip_prefix('/').unwrap_or(&ascii), grammar);

        let end = at + length + close.len();
        // `[text](target)` is a link.
        if is_known && !text[end..].starts_with('(') {
            tags.push((start..end, tag));
            at = end;
        }
    }

    let first = tags.first()?;
    let last = tags.last()?;
    // Without a closing tag, the brackets are prose.
    tags.iter().find(|(_, tag)| tag.starts_with("</"))?;

    let whole = text[..first.0.start].trim().is_empty() && text[last.0.end..].trim().is_empty();
    let edits: Vec<(Range<usize>, &str)> = tags
        .iter()
        .map(|(span, tag)| (span.clone(), tag.as_str()))
        .collect();

    Some(ConvertedReply {
        source: source.replace_spans(&edits),
        code: ProblemCode::ConvertedReply,
        whole,
    })
}

/// Returns a fullwidth character as its ASCII equivalent.
fn to_ascii_width(c: char) -> char {
    match c {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0).unwrap_or(c),
        other => other,
    }
}

/// Decodes the entities of a reply once, if that yields a tag of the grammar.
fn convert_entities(source: &SourceText<'_>, names: &TagNames) -> Option<ConvertedReply> {
    let text: &str = &source.text;
    let tag = |at: usize| {
        let near = &text[at..text.floor_char_boundary(at + MAX_TAG_BYTES)];
        // An escaped bracket right after another one does not start a tag.
        if ["&lt;", "&gt;"]
            .iter()
            .any(|bracket| near[4..].starts_with(bracket))
        {
            return None;
        }
        let end = memchr::memmem::find(near.as_bytes(), b"&gt;").map(|end| end + 4)?;
        let read = decode_entities(&near[..end])?;
        names.read_tag(&read).filter(|tag| tag.complete).map(|_| ())
    };

    let mut openers = memchr::memmem::find_iter(text.as_bytes(), b"&lt;");
    openers.find_map(tag)?;

    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut at = 0;

    while let Some(hit) = memchr::memchr(b'&', &text.as_bytes()[at..]) {
        let start = at + hit;
        at = start + 1;
        let near = &text.as_bytes()[start..text.len().min(start + MAX_ENTITY_BYTES)];
        let Some(end) = memchr::memchr(b';', near).map(|end| start + end + 1) else {
            continue;
        };
        if let Some(read) = decode_entities(&text[start..end]) {
            edits.push((start..end, read));
            at = end;
        }
    }

    let trimmed = text.trim();
    let whole = trimmed.starts_with("&lt;") && trimmed.ends_with("&gt;");
    let edits: Vec<(Range<usize>, &str)> = edits
        .iter()
        .map(|(span, new)| (span.clone(), new.as_str()))
        .collect();

    Some(ConvertedReply {
        source: source.replace_spans(&edits),
        code: ProblemCode::ConvertedReply,
        whole,
    })
}

/// Returns true if any action has a parameter of this name.
fn is_parameter(name: &str, grammar: &Grammar) -> bool {
    grammar
        .actions
        .values()
        .any(|action| action.parameters.contains_key(name))
}
