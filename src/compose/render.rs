//! Blocks and items as bytes: what each takes of the prompt, tags, headings and separators included.

use super::Given;
use super::entry::{Block, Elastic, Items, Rung};
use super::frame::{Frame, one_line, role_prefix};
use super::state_xml::{KNOWLEDGE_CLOSE, KNOWLEDGE_OPEN, write_entry};
use crate::models::{ContextKind, Format, Part, Role, Turn};
use crate::pack::Layer;
use crate::text::xml::element_xml;

/// Writes a block at one length, up to where an elastic sequence may stand inside it.
pub(super) fn block(
    out: &mut String,
    frame: &Frame<'_>,
    block: &Block<'_>,
    rung: &Rung<'_>,
    lead: &str,
) {
    let heading = block.layer.heading_text();
    match &block.part {
        Part::System => {
            out.push_str(lead);
            out.push_str(&rung.text);
        }
        Part::Context { kind, name } if block.own && frame.format != Format::Xml => {
            under(out, lead, &titled(frame, &heading, name));
            out.push_str(rung.text.trim_end());
        }
        Part::Context { kind, name } => {
            context(out, frame, lead, &heading, (*kind, name), &rung.text)
        }
        Part::History { role } => {
            let heading = if block.follows { "" } else { heading.as_ref() };
            message(
                out,
                frame,
                lead,
                heading,
                *role,
                || block.id.clone(),
                &rung.text,
            );
        }
        Part::Instructions => match frame.format {
            Format::Xml => out.push_str(&element_xml("instructions", None, &rung.text)),
            Format::Chat | Format::Tools => out.push_str(&frame.tags(&rung.text)),
            Format::Flat => {
                under(out, lead, &heading);
                out.push_str(&block.layer.prefix);
                out.push_str(&frame.lines(rung.text.trim_end()));
            }
        },
    }
}

/// Returns what separates a block from what comes before.
pub(super) fn lead<'a>(frame: &'a Frame<'_>, block: &'a Block<'_>) -> &'a str {
    if block.follows {
        "\n\n"
    } else {
        join(frame, block.layer)
    }
}

fn under(out: &mut String, lead: &str, heading: &str) {
    out.push_str(lead);
    if !heading.is_empty() {
        out.push_str(heading);
        out.push_str("\n\n");
    }
}

/// Returns the heading over a context item, on one line.
fn titled(frame: &Frame<'_>, heading: &str, name: &str) -> String {
    heading.replace("{name}", &frame.tags(&one_line(name)))
}

fn context(
    out: &mut String,
    frame: &Frame<'_>,
    lead: &str,
    heading: &str,
    (kind, name): (ContextKind, &str),
    text: &str,
) {
    if frame.format == Format::Xml {
        out.push_str(&element_xml(
            kind.element(),
            Some((kind.attribute(), name)),
            text,
        ));
        return;
    }
    under(out, lead, &titled(frame, heading, name));
    out.push_str(&frame.lines(text.trim_end()));
}

fn message(
    out: &mut String,
    frame: &Frame<'_>,
    lead: &str,
    heading: &str,
    role: Role,
    name: impl FnOnce() -> String,
    text: &str,
) {
    match frame.format {
        Format::Xml => out.push_str(&element_xml("artifact", Some(("name", &name())), text)),
        Format::Chat | Format::Tools => out.push_str(&frame.tags(text)),
        Format::Flat => {
            under(out, lead, heading);
            out.push_str(role_prefix(role));
            out.push_str(&frame.lines(text.trim_end()));
        }
    }
}

/// Returns what separates a layer from what comes before.
pub(super) fn join<'a>(frame: &'a Frame<'_>, layer: &'a Layer) -> &'a str {
    layer.join.as_deref().unwrap_or(frame.separator)
}

/// Returns what opens an elastic sequence, and what closes it; `first` tells that nothing comes before.
pub(super) fn around(
    frame: &Frame<'_>,
    elastic: &Elastic<'_>,
    first: bool,
) -> (String, &'static str) {
    match (&elastic.items, frame.format) {
        (Items::Entries { .. }, _) => (KNOWLEDGE_OPEN.to_owned(), KNOWLEDGE_CLOSE),
        (Items::Turns { .. }, Format::Flat) if elastic.layer.heading.is_some() => {
            let lead = if first {
                ""
            } else {
                join(frame, elastic.layer)
            };
            ([lead, &elastic.layer.heading_text()].concat(), "")
        }
        _ => (String::new(), ""),
    }
}

/// Returns what a turn says, by role; what is empty is left out.
pub(super) fn said(turn: &Turn) -> impl Iterator<Item = (Role, &str)> {
    let parts = [
        (Role::User, turn.user.as_str()),
        (Role::Assistant, turn.assistant.as_str()),
    ];
    parts.into_iter().filter(|(_, text)| !text.is_empty())
}

/// Returns how many segments an item has.
pub(super) fn pieces(elastic: &Elastic<'_>, index: usize) -> usize {
    match &elastic.items {
        Items::Turns { turns, .. } => said(&turns[index]).count(),
        _ => 1,
    }
}

/// Writes one segment of an item; `index` is the item's place in the sequence as given.
pub(super) fn item(
    out: &mut String,
    frame: &Frame<'_>,
    elastic: &Elastic<'_>,
    index: usize,
    piece: usize,
    lead: &str,
) {
    let layer = elastic.layer;
    match &elastic.items {
        Items::Entries { entries, .. } => write_entry(out, &entries[index], frame),
        Items::Turns { turns, .. } => {
            if let Some((role, text)) = said(&turns[index]).nth(piece) {
                message(
                    out,
                    frame,
                    lead,
                    "",
                    role,
                    || turn_id(elastic, index, role),
                    text,
                );
            }
        }
        Items::Context { items, .. } => {
            let item = &items[index].item;
            context(
                out,
                frame,
                lead,
                &layer.heading_text(),
                (item.kind(), item.name()),
                item.content(),
            );
        }
    }
}

/// Returns a number of bytes that an item never exceeds.
pub(super) fn most_bytes(elastic: &Elastic<'_>, index: usize) -> usize {
    // An escape makes six bytes of one; text between two CR in CDATA makes nine.
    const GROWTH: usize = 9;
    match &elastic.items {
        Items::Entries { entries, .. } => {
            let entry = &entries[index];
            64 + GROWTH * (entry.category.len() + entry.key.len() + entry.value.len())
        }
        Items::Turns { turns, .. } => {
            let turn = &turns[index];
            256 + 2 * elastic.layer.id.len() + GROWTH * (turn.user.len() + turn.assistant.len())
        }
        Items::Context { items, .. } => {
            let item = &items[index].item;
            256 + elastic.layer.heading_text().len()
                + GROWTH * (item.name().len() + item.content().len())
        }
    }
}

fn turn_id(elastic: &Elastic<'_>, index: usize, role: Role) -> String {
    format!("{}/{}/{}", elastic.layer.id, index + 1, role.name())
}

/// Returns the id, the part and the source of one segment of an item.
pub(super) fn described(
    elastic: &Elastic<'_>,
    index: usize,
    piece: usize,
) -> (String, Part, String) {
    let layer = elastic.layer;
    match &elastic.items {
        Items::Entries { entries, .. } => {
            let id = format!("{}/{}", layer.id, entries[index].key);
            (id, Part::System, "the knowledge base".to_owned())
        }
        Items::Turns { turns, .. } => {
            let role = said(&turns[index])
                .nth(piece)
                .map_or(Role::User, |(role, _)| role);
            (
                turn_id(elastic, index, role),
                Part::History { role },
                "the session".to_owned(),
            )
        }
        Items::Context { items, ids, .. } => {
            let Given { item, source, .. } = &items[index];
            let part = Part::Context {
                kind: item.kind(),
                name: item.name().to_owned(),
            };
            (ids[index].clone(), part, source.clone())
        }
    }
}
