//! The parts of a spec's body, which are checked and merged one by one: the text before the first section, each
//! section's own text, each requirement, each scenario.

use std::collections::BTreeMap;

use super::is_requirement_id;
use crate::text::front_matter::{FrontMatterSplit, split_front_matter};
use crate::text::markdown::{LineKind, MarkdownLine, markdown_lines};

/// A body, and where in it what counts starts and ends.
pub(super) struct Body<'a> {
    /// The whole body, with its tags.
    pub(super) text: &'a str,
    /// All its lines.
    pub(super) lines: Vec<MarkdownLine<'a>>,
    /// The index of the line `<spec>`, if there is one.
    pub(super) open: Option<usize>,
    /// The index of the last line `</spec>`, if there is one.
    pub(super) close: Option<usize>,
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind<'a> {
    /// All before the first section, with the title.
    Preamble,
    /// A `## Section`: its own text, with all below it that is no requirement or scenario.
    Section,
    /// A `### R1 - Title`.
    Requirement { id: &'a str, title: &'a str },
    /// A `### Scenario: title`.
    Scenario { title: &'a str },
}

/// What tells a part from all others of its document, and is the same in all its versions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Its name: `#`, `## Overview`, `R1`, `Scenario: x`.
    pub(super) name: String,
    /// How many of that name stand before it; none does in a spec without faults.
    nth: usize,
}

/// A part of a body.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    pub(super) key: Key,
    pub(super) kind: PartKind<'a>,
    /// The line of its heading, or of its first text.
    pub(super) line: usize,
    /// Its heading as it is written; of the preamble, the title.
    pub(super) heading: &'a str,
    /// The indices of its lines in the body.
    pub(super) lines: std::ops::Range<usize>,
    /// All of it, without blank lines around it.
    pub(super) text: &'a str,
    /// The index of the section or preamble in which it stands; its own for those.
    pub(super) parent: usize,
}

impl<'a> Body<'a> {
    /// Finds the body of a document.
    pub(super) fn of(text: &'a str) -> Self {
        let FrontMatterSplit {
            body, body_line, ..
        } = split_front_matter(text);
        let lines = markdown_lines(body, body_line);
        let is_tag =
            |line: &MarkdownLine<'_>, tag| line.kind == LineKind::Text && line.text.trim() == tag;
        let open = lines.iter().position(|line| is_tag(line, "<spec>"));
        let close = lines.iter().rposition(|line| is_tag(line, "</spec>"));
        Self {
            text: body,
            lines,
            open,
            close,
        }
    }

    /// Returns the indices of the lines between the tags, or of all where there are none.
    pub(super) fn inside(&self) -> std::ops::Range<usize> {
        let start = self.open.map_or(0, |open| open + 1);
        start..self.close.unwrap_or(self.lines.len()).max(start)
    }

    /// Returns the text of some lines without blank lines around it.
    pub(super) fn text_of(&self, range: std::ops::Range<usize>) -> &'a str {
        let lines = &self.lines[range];
        let Some(first) = lines.iter().find(|line| !line.is_blank()) else {
            return "";
        };
        let end = lines
            .last()
            .map_or(first.start, |last| last.start + last.text.len());
        self.text[first.start..end].trim_end()
    }

    /// Returns the indices of a part's lines below its heading, up to the next heading of level 3 if there is one.
    pub(super) fn below(&self, part: &Part<'_>) -> std::ops::Range<usize> {
        let start = part.lines.start + 1;
        let is_next = |line: &MarkdownLine<'_>| matches!(line.kind, LineKind::Heading(3, _));
        let end = self.lines[start..part.lines.end].iter().position(is_next);
        start..end.map_or(part.lines.end, |end| start + end)
    }

    /// Cuts the body into its parts.
    pub(super) fn parts(&self) -> Vec<Part<'a>> {
        let inside = self.inside();
        let mut starts: Vec<(usize, PartKind<'a>)> = vec![(inside.start, PartKind::Preamble)];
        for index in inside.clone() {
            let kind = match self.lines[index].kind {
                LineKind::Heading(2, _) => PartKind::Section,
                // Another heading belongs to what it follows, and is merged with that.
                LineKind::Heading(3, title) => match special(title) {
                    Some(kind) => kind,
                    None => continue,
                },
                _ => continue,
            };
            starts.push((index, kind));
        }
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut parts: Vec<Part<'a>> = Vec::new();
        let mut parent = 0;
        for (place, &(start, kind)) in starts.iter().enumerate() {
            let end = starts.get(place + 1).map_or(inside.end, |next| next.0);
            if matches!(kind, PartKind::Preamble | PartKind::Section) {
                parent = place;
            }
            let (line, heading, title) = self.heading(kind, start..end);
            let name = name(kind, title);
            let count = seen.entry(name.clone()).or_default();
            let key = Key { name, nth: *count };
            *count += 1;
            let text = self.text_of(start..end);
            parts.push(Part {
                key,
                kind,
                line,
                heading,
                lines: start..end,
                text,
                parent,
            });
        }
        parts
    }

    /// Returns the line of a part, its heading and the words of that.
    fn heading(
        &self,
        kind: PartKind<'_>,
        range: std::ops::Range<usize>,
    ) -> (usize, &'a str, &'a str) {
        let lines = &self.lines[range.clone()];
        let is_heading = |line: &&MarkdownLine<'a>| match line.kind {
            LineKind::Heading(level, _) => kind != PartKind::Preamble || level == 1,
            _ => false,
        };
        match lines.iter().find(is_heading) {
            Some(MarkdownLine {
                number,
                text,
                kind: LineKind::Heading(_, title),
                ..
            }) => (*number, text.trim(), title),
            _ => {
                let first = self.lines.get(range.start).or(self.lines.last());
                (first.map_or(1, |line| line.number), "", "")
            }
        }
    }
}

/// Returns what names a part in all versions of its document.
fn name(kind: PartKind<'_>, title: &str) -> String {
    match kind {
        PartKind::Preamble => "#".to_owned(),
        PartKind::Section => format!("## {title}"),
        PartKind::Requirement { id, .. } => id.to_owned(),
        PartKind::Scenario { title } => format!("Scenario: {title}"),
    }
}

/// Tells a requirement or a scenario by its title.
pub(super) fn special(title: &str) -> Option<PartKind<'_>> {
    if let Some(title) = title.strip_prefix("Scenario:") {
        let title = title.trim();
        return (!title.is_empty()).then_some(PartKind::Scenario { title });
    }
    let (id, title) = match title.split_once(':') {
        Some((id, title)) if is_requirement_id(id) => (id, title.trim()),
        _ => title
            .split_once(" - ")
            .map(|(id, title)| (id.trim_end(), title.trim()))?,
    };
    (is_requirement_id(id) && !title.is_empty()).then_some(PartKind::Requirement { id, title })
}

/// Tells a title that looks like one of a requirement or a scenario, whatever it lacks.
pub(super) fn looks_special(title: &str) -> bool {
    let word = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default();
    let number = word.strip_prefix(['R', 'r']).unwrap_or_default();
    word.eq_ignore_ascii_case("scenario")
        || (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
