//! Parts of a spec's body, which are checked and merged one by one: the text before the first
//! section, each section's text, each requirement and each scenario.

use std::collections::BTreeMap;

use super::is_requirement_id;
use crate::text::front_matter::{FrontMatterSplit, split_front_matter};
use crate::text::markdown::{LineKind, MarkdownLine, markdown_lines};

/// Body of a spec, and its lines between `<spec>` and `</spec>`.
pub(super) struct SpecBody<'a> {
    /// The whole body, including the tags.
    pub(super) text: &'a str,
    /// All lines of the body.
    pub(super) lines: Vec<MarkdownLine<'a>>,
    /// Index of the line `<spec>`, if there is one.
    pub(super) open: Option<usize>,
    /// Index of the last line `</spec>`, if there is one.
    pub(super) close: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind<'a> {
    /// Everything before the first section, including the title.
    Preamble,
    /// A `## Section`: everything in it that is not part of a requirement or scenario.
    Section,
    /// A `### R1 - Title`.
    Requirement { id: &'a str, title: &'a str },
    /// A `### Scenario: title`.
    Scenario { title: &'a str },
}

/// Identity of a part, the same in all versions of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartKey {
    /// Name: `#`, `## Overview`, `R1`, `Scenario: x`.
    pub(super) name: String,
    /// Number of earlier parts with the same name; 0 in a valid spec.
    nth: usize,
}

/// A part of a spec's body.
#[derive(Clone, Debug)]
pub(super) struct SpecPart<'a> {
    pub(super) key: PartKey,
    pub(super) kind: PartKind<'a>,
    /// Line of its heading, or of its first text.
    pub(super) line: usize,
    /// Heading as written; the title for the preamble.
    pub(super) heading: &'a str,
    /// Indices of its lines in the body.
    pub(super) lines: std::ops::Range<usize>,
    /// Text of the part, without surrounding blank lines.
    pub(super) text: &'a str,
    /// Index of the enclosing section or preamble. A section or preamble has its own index here.
    pub(super) parent: usize,
}

impl<'a> SpecBody<'a> {
    /// Finds the body of a document.
    pub(super) fn from_document(text: &'a str) -> Self {
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

    /// Returns the indices of the lines between the tags, or of all lines without tags.
    pub(super) fn inside(&self) -> std::ops::Range<usize> {
        let start = self.open.map_or(0, |open| open + 1);
        start..self.close.unwrap_or(self.lines.len()).max(start)
    }

    /// Returns the text of some lines, without surrounding blank lines.
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

    /// Returns the indices of a part's lines after its heading, up to the next level 3 heading.
    pub(super) fn content_lines(&self, part: &SpecPart<'_>) -> std::ops::Range<usize> {
        let start = part.lines.start + 1;
        let is_next = |line: &MarkdownLine<'_>| matches!(line.kind, LineKind::Heading(3, _));
        let end = self.lines[start..part.lines.end].iter().position(is_next);
        start..end.map_or(part.lines.end, |end| start + end)
    }

    /// Splits the body into its parts.
    pub(super) fn parts(&self) -> Vec<SpecPart<'a>> {
        let inside = self.inside();
        let mut starts: Vec<(usize, PartKind<'a>)> = vec![(inside.start, PartKind::Preamble)];
        for index in inside.clone() {
            let kind = match self.lines[index].kind {
                LineKind::Heading(2, _) => PartKind::Section,
                // Another heading belongs to the part before it, and is merged with that part.
                LineKind::Heading(3, title) => match parse_part_heading(title) {
                    Some(kind) => kind,
                    None => continue,
                },
                _ => continue,
            };
            starts.push((index, kind));
        }

        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut parts: Vec<SpecPart<'a>> = Vec::new();
        let mut parent = 0;

        for (place, &(start, kind)) in starts.iter().enumerate() {
            let end = starts.get(place + 1).map_or(inside.end, |next| next.0);
            if matches!(kind, PartKind::Preamble | PartKind::Section) {
                parent = place;
            }

            let (line, heading, title) = self.find_heading(kind, start..end);
            let name = part_name(kind, title);
            let count = seen.entry(name.clone()).or_default();
            let key = PartKey { name, nth: *count };
            *count += 1;

            let text = self.text_of(start..end);
            parts.push(SpecPart {
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

    /// Returns the line of a part's heading, the heading and its title.
    fn find_heading(
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

/// Returns the name in a part's key, by which the versions of the part are matched.
fn part_name(kind: PartKind<'_>, title: &str) -> String {
    match kind {
        PartKind::Preamble => "#".to_owned(),
        PartKind::Section => format!("## {title}"),
        PartKind::Requirement { id, .. } => id.to_owned(),
        PartKind::Scenario { title } => format!("Scenario: {title}"),
    }
}

/// Parses the title of a requirement or a scenario; `None` for any other title.
pub(super) fn parse_part_heading(title: &str) -> Option<PartKind<'_>> {
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

/// Returns true for a title that resembles a requirement or a scenario, even if it is malformed.
pub(super) fn looks_like_part_heading(title: &str) -> bool {
    let word = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default();
    let number = word.strip_prefix(['R', 'r']).unwrap_or_default();
    word.eq_ignore_ascii_case("scenario")
        || (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}
