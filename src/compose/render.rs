//! Renders blocks and items, including their tags, headings and separators.

use super::SourcedItem;
use super::block::{BlockVariant, ElasticSequence, PromptBlock, SequenceItems};
use super::delimiters::{Delimiters, one_line, role_prefix};
use super::state_xml::{knowledge_tags, write_entry};
use crate::models::{ContextItem, ContextKind, ConversationTurn, Format, MessageRole, PromptPart};
use crate::pack::Layer;
use crate::text::xml::element_xml;

/// Writes one variant of a block, up to the elastic sequence that may follow inside the block.
pub(super) fn write_block(
    out: &mut String,
    delimiters: &Delimiters<'_>,
    block: &PromptBlock<'_>,
    variant: &BlockVariant<'_>,
    separator: &str,
) {
    let heading = block.layer.heading_text();
    match &block.part {
        PromptPart::System => {
            out.push_str(separator);
            out.push_str(&variant.text);
        }
        PromptPart::Context { kind, name }
            if block.is_pack_text && delimiters.format != Format::Xml =>
        {
            write_heading(
                out,
                separator,
                &heading_with_name(delimiters, &heading, name),
            );
            out.push_str(variant.text.trim_end());
        }
        PromptPart::Context { kind, name } => write_context(
            out,
            delimiters,
            separator,
            &heading,
            (*kind, name),
            &variant.text,
        ),
        PromptPart::History { role } => {
            let heading = if block.is_continuation {
                ""
            } else {
                heading.as_ref()
            };
            write_message(
                out,
                delimiters,
                separator,
                heading,
                *role,
                || block.id.clone(),
                &variant.text,
            );
        }
        PromptPart::Instructions => match delimiters.format {
            Format::Xml => out.push_str(&element_xml("instructions", None, &variant.text)),
            Format::Chat | Format::Tools => out.push_str(&delimiters.escape_inline(&variant.text)),
            Format::Flat => {
                write_heading(out, separator, &heading);
                out.push_str(&block.layer.prefix);
                out.push_str(&delimiters.escape_block(variant.text.trim_end()));
            }
        },
    }
}

/// Returns the separator before a block.
pub(super) fn block_separator<'a>(
    delimiters: &'a Delimiters<'_>,
    block: &'a PromptBlock<'_>,
) -> &'a str {
    if block.is_continuation {
        "\n\n"
    } else {
        layer_separator(delimiters, block.layer)
    }
}

fn write_heading(out: &mut String, separator: &str, heading: &str) {
    out.push_str(separator);
    if !heading.is_empty() {
        out.push_str(heading);
        out.push_str("\n\n");
    }
}

/// Returns the heading over a context item, on one line.
fn heading_with_name(delimiters: &Delimiters<'_>, heading: &str, name: &str) -> String {
    heading.replace("{name}", &delimiters.escape_inline(&one_line(name)))
}

fn write_context(
    out: &mut String,
    delimiters: &Delimiters<'_>,
    separator: &str,
    heading: &str,
    (kind, name): (ContextKind, &str),
    text: &str,
) {
    if delimiters.format == Format::Xml {
        out.push_str(&element_xml(
            kind.element(),
            Some((kind.attribute(), name)),
            text,
        ));
        return;
    }
    write_heading(
        out,
        separator,
        &heading_with_name(delimiters, heading, name),
    );
    out.push_str(&delimiters.escape_block(text.trim_end()));
}

fn write_message(
    out: &mut String,
    delimiters: &Delimiters<'_>,
    separator: &str,
    heading: &str,
    role: MessageRole,
    name: impl FnOnce() -> String,
    text: &str,
) {
    match delimiters.format {
        Format::Xml => out.push_str(&element_xml("artifact", Some(("name", &name())), text)),
        Format::Chat | Format::Tools => out.push_str(&delimiters.escape_inline(text)),
        Format::Flat => {
            write_heading(out, separator, heading);
            out.push_str(role_prefix(role));
            out.push_str(&delimiters.escape_block(text.trim_end()));
        }
    }
}

/// Returns the separator before a layer.
pub(super) fn layer_separator<'a>(delimiters: &'a Delimiters<'_>, layer: &'a Layer) -> &'a str {
    layer.join.as_deref().unwrap_or(delimiters.separator)
}

/// Returns the opening and the closing text of an elastic sequence; `first` is set if it starts the prompt.
pub(super) fn sequence_delimiters(
    delimiters: &Delimiters<'_>,
    elastic: &ElasticSequence<'_>,
    first: bool,
) -> (String, String) {
    match (&elastic.items, delimiters.format) {
        (SequenceItems::Entries { section, .. }, _) => knowledge_tags(section.name),
        (SequenceItems::Turns { .. }, Format::Flat) if elastic.layer.heading.is_some() => {
            let separator = if first {
                ""
            } else {
                layer_separator(delimiters, elastic.layer)
            };
            let heading = [separator, &elastic.layer.heading_text()].concat();
            (heading, String::new())
        }
        _ => (String::new(), String::new()),
    }
}

/// Returns the messages of a turn that are not empty, with their roles.
pub(super) fn turn_messages(turn: &ConversationTurn) -> impl Iterator<Item = (MessageRole, &str)> {
    let parts = [
        (MessageRole::User, turn.user.as_str()),
        (MessageRole::Assistant, turn.assistant.as_str()),
    ];
    parts.into_iter().filter(|(_, text)| !text.is_empty())
}

/// Returns the number of pieces of an item: one per message of a turn, otherwise one.
pub(super) fn count_pieces(elastic: &ElasticSequence<'_>, index: usize) -> usize {
    match &elastic.items {
        SequenceItems::Turns { turns, .. } => turn_messages(&turns[index]).count(),
        _ => 1,
    }
}

/// Writes one piece of an item; `index` is the item's position in the whole sequence.
pub(super) fn write_item_piece(
    out: &mut String,
    delimiters: &Delimiters<'_>,
    elastic: &ElasticSequence<'_>,
    index: usize,
    piece: usize,
    separator: &str,
) {
    let layer = elastic.layer;
    match &elastic.items {
        SequenceItems::Entries { entries, .. } => write_entry(out, &entries[index], delimiters),
        SequenceItems::Turns { turns, .. } => {
            if let Some((role, text)) = turn_messages(&turns[index]).nth(piece) {
                write_message(
                    out,
                    delimiters,
                    separator,
                    "",
                    role,
                    || turn_id(elastic, index, role),
                    text,
                );
            }
        }
        SequenceItems::Context { items, .. } => {
            let item = &items[index].item;
            write_context(
                out,
                delimiters,
                separator,
                &layer.heading_text(),
                (item.kind(), item.name()),
                item.content(),
            );
        }
    }
}

/// Name of the item that lists the omitted items of a sequence.
const OMITTED: &str = "omitted";

/// Returns an item that lists the context items that are not included; `None` if all are included.
pub(super) fn omission_note(
    elastic: &ElasticSequence<'_>,
    included: &[usize],
) -> Option<ContextItem> {
    let SequenceItems::Context { items, .. } = &elastic.items else {
        return None;
    };
    let omitted: Vec<&ContextItem> = items
        .iter()
        .enumerate()
        .filter(|(index, _)| !included.contains(index))
        .map(|(_, sourced)| &sourced.item)
        .collect();
    let kind = omitted.first()?.kind();
    let names: Vec<String> = omitted
        .iter()
        .map(|item| one_line(item.name()).into_owned())
        .collect();

    let content = format!("omitted: {} (no room in this prompt)", names.join(", "));
    Some(ContextItem::new(kind, OMITTED, content))
}

/// Writes the note of a sequence about its omitted items.
pub(super) fn write_note(
    out: &mut String,
    delimiters: &Delimiters<'_>,
    layer: &Layer,
    note: &ContextItem,
    separator: &str,
) {
    write_context(
        out,
        delimiters,
        separator,
        &layer.heading_text(),
        (note.kind(), note.name()),
        note.content(),
    );
}

/// Returns an upper bound for the rendered size of an item in bytes.
pub(super) fn max_item_bytes(elastic: &ElasticSequence<'_>, index: usize) -> usize {
    // An escape turns one byte into six. In CDATA, each CR ends the section and starts a new one, so that text with a CR
    // at every second byte grows to nine times its size.
    const GROWTH: usize = 9;
    match &elastic.items {
        SequenceItems::Entries { entries, .. } => {
            let entry = &entries[index];
            64 + GROWTH * (entry.category.len() + entry.key.len() + entry.value.len())
        }
        SequenceItems::Turns { turns, .. } => {
            let turn = &turns[index];
            256 + 2 * elastic.layer.id.len() + GROWTH * (turn.user.len() + turn.assistant.len())
        }
        SequenceItems::Context { items, .. } => {
            let item = &items[index].item;
            256 + elastic.layer.heading_text().len()
                + GROWTH * (item.name().len() + item.content().len())
        }
    }
}

fn turn_id(elastic: &ElasticSequence<'_>, index: usize, role: MessageRole) -> String {
    let number = elastic.items_before() + index + 1;
    format!("{}/{number}/{}", elastic.layer.id, role.name())
}

/// Returns the id, the part and the source of one piece of an item.
pub(super) fn describe_piece(
    elastic: &ElasticSequence<'_>,
    index: usize,
    piece: usize,
) -> (String, PromptPart, String) {
    let layer = elastic.layer;
    match &elastic.items {
        SequenceItems::Entries { entries, .. } => {
            let id = format!("{}/{}", layer.id, entries[index].key);
            (id, PromptPart::System, "the knowledge base".to_owned())
        }
        SequenceItems::Turns { turns, .. } => {
            let role = turn_messages(&turns[index])
                .nth(piece)
                .map_or(MessageRole::User, |(role, _)| role);
            (
                turn_id(elastic, index, role),
                PromptPart::History { role },
                "the session".to_owned(),
            )
        }
        SequenceItems::Context { items, ids, .. } => {
            let SourcedItem { item, source, .. } = &items[index];
            let part = PromptPart::Context {
                kind: item.kind(),
                name: item.name().to_owned(),
            };
            (ids[index].clone(), part, source.clone())
        }
    }
}
