//! Line-based Markdown: headings and code fences. Lines inside a fence are never structure.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// A line of Markdown, with its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkdownLine<'a> {
    /// Number of the line in its file, from 1.
    pub(crate) number: usize,
    /// Offset of its first byte in the text.
    pub(crate) start: usize,
    /// The line without its line ending.
    pub(crate) text: &'a str,
    pub(crate) kind: LineKind<'a>,
}

/// Kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind<'a> {
    /// Text outside of fences.
    Text,
    /// A heading: its level from 1 to 6, and its title.
    Heading(usize, &'a str),
    /// The start of a code fence, with its language; empty if it has none.
    FenceOpen(&'a str),
    /// A line inside of a fence.
    Code,
    /// The end of a fence.
    FenceClose,
}

impl MarkdownLine<'_> {
    /// Returns the length of the white space before the text, in bytes.
    pub(crate) fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Returns true if the line belongs to a code fence.
    pub(crate) fn is_code(&self) -> bool {
        matches!(
            self.kind,
            LineKind::FenceOpen(_) | LineKind::Code | LineKind::FenceClose
        )
    }
}

/// Splits a document into lines; `first` is the number of its first line.
pub(crate) fn markdown_lines(text: &str, first: usize) -> Vec<MarkdownLine<'_>> {
    let mut fence: Option<Fence> = None;
    let mut start = 0;
    let mut lines = Vec::new();
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let line = raw.strip_suffix('\n').unwrap_or(raw);
        let line = line.strip_suffix('\r').unwrap_or(line);

        let kind = match fence {
            Some(open) if open.is_closed_by(line) => {
                fence = None;
                LineKind::FenceClose
            }
            Some(_) => LineKind::Code,
            None => {
                fence = Fence::open(line, FenceRules::Document);
                match (fence, heading(line)) {
                    (Some(open), _) => LineKind::FenceOpen(open.language(line)),
                    (None, Some((level, title))) => LineKind::Heading(level, title),
                    (None, None) => LineKind::Text,
                }
            }
        };

        lines.push(MarkdownLine {
            number: first + index,
            start,
            text: line,
            kind,
        });
        start += raw.len();
    }
    lines
}

/// Returns the level and the title of a heading such as `## Title` or `## Title ##`.
fn heading(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches(' ');
    let level = rest.bytes().take_while(|&b| b == b'#').count();
    let title = &rest[level..];
    let is_heading = line.len() - rest.len() < 4 && (1..=6).contains(&level);
    if !is_heading || !(title.is_empty() || title.starts_with([' ', '\t'])) {
        return None;
    }

    let title = title.trim();
    // `## Title ##` is closed, `## C#` is not.
    let open = title.trim_end_matches('#');
    let is_closed = open.is_empty() || open.ends_with([' ', '\t']);
    Some((level, if is_closed { open.trim_end() } else { title }))
}

/// Rules for opening and closing fences.
///
/// A fence is a run of three or more backticks or tildes. A run of backticks with another backtick on its line is a code
/// span, and `~~~^~~~` is an underline in compiler output. Neither opens a fence under any rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceRules {
    /// Documents: a fence opens at any indentation and after list markers. It closes at an indentation of at
    /// most three more than the position of its opening run.
    Document,
    /// Replies of agents, in which nested lists are often indented wrongly: a fence opens as in documents, and closes
    /// at any indentation. The closing tag of a message may follow the closing run.
    Reply,
    /// The narrowest reading: a fence opens and closes at up to three spaces, never after a list marker. The closing
    /// tag of a message may follow the closing run.
    TopLevel,
}

/// An open code fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    rules: FenceRules,
    mark: u8,
    length: usize,
    /// Bytes on the line before the run: indentation and list markers.
    offset: usize,
}

impl Fence {
    /// Returns the fence that the first line of `text` opens.
    pub(crate) fn open(text: &str, rules: FenceRules) -> Option<Self> {
        let inner = match rules {
            FenceRules::Document | FenceRules::Reply => skip_list_markers(text),
            FenceRules::TopLevel => text.trim_start_matches(' '),
        };
        let offset = text.len() - inner.len();
        if rules == FenceRules::TopLevel && offset >= 4 {
            return None;
        }

        let bytes = inner.as_bytes();
        let mark = *bytes.first().filter(|b| matches!(b, b'`' | b'~'))?;
        let length = run_length(bytes, mark);
        if length < 3 {
            return None;
        }
        let next = || memchr2(b'`', b'\n', &bytes[length..]).map(|at| bytes[length + at]);
        let is_code_span = mark == b'`' && next() == Some(b'`');
        let is_underline = bytes.get(length) == Some(&b'^');
        (!is_code_span && !is_underline).then_some(Self {
            rules,
            mark,
            length,
            offset,
        })
    }

    /// Returns true if a line closes the fence.
    pub(crate) fn is_closed_by(self, line: &str) -> bool {
        let rest = line.trim_start();
        // Most lines start with another character.
        if !rest.as_bytes().starts_with(&[self.mark]) {
            return false;
        }

        let indent = line.len() - rest.len();
        let run = run_length(rest.as_bytes(), self.mark);
        let after = rest[run..].trim();
        let ends_message = after
            .get(..MESSAGE_END.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(MESSAGE_END));
        run >= self.length
            && match self.rules {
                FenceRules::Document => indent < self.offset + 4 && after.is_empty(),
                FenceRules::Reply => after.is_empty() || ends_message,
                FenceRules::TopLevel => {
                    let spaces = line.len() - line.trim_start_matches(' ').len();
                    spaces < 4 && (after.is_empty() || ends_message)
                }
            }
    }

    /// Returns the first word after the opening run.
    fn language(self, line: &str) -> &str {
        let info = &line[self.offset + self.length..];
        info.split_whitespace().next().unwrap_or_default()
    }
}

/// Start of a tag that may follow the closing run in a reply.
const MESSAGE_END: &str = "</message";

fn run_length(bytes: &[u8], mark: u8) -> usize {
    bytes.iter().take_while(|&&b| b == mark).count()
}

/// Returns the spans of all fences, with their first and last lines. An unclosed fence extends to the end of the
/// text.
pub(crate) fn fenced_spans(text: &str, rules: FenceRules) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut open: Option<(Fence, usize)> = None;
    let mut at = 0;
    while at < text.len() {
        let end = memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |hit| at + hit + 1);
        let line = &text[at..end];
        match open {
            Some((fence, start)) if fence.is_closed_by(line) => {
                spans.push(start..end);
                open = None;
            }
            Some(_) => {}
            None => open = Fence::open(line, rules).map(|fence| (fence, at)),
        }
        at = end;
    }
    spans.extend(open.map(|(_, start)| start..text.len()));
    spans
}

/// Returns `text` without the indentation and the list markers at its start.
pub(crate) fn skip_list_markers(text: &str) -> &str {
    let mut rest = skip_indent(text);
    loop {
        let digits = rest.bytes().take(10).take_while(u8::is_ascii_digit).count();
        let marker = match rest.as_bytes().get(digits) {
            Some(b'-' | b'*' | b'+') if digits == 0 => 1,
            Some(b'.' | b')') if (1..10).contains(&digits) => digits + 1,
            _ => return rest,
        };
        if !rest[marker..].starts_with([' ', '\t']) {
            return rest;
        }
        rest = skip_indent(&rest[marker..]);
    }
}

/// Returns `text` without the indentation at its start.
fn skip_indent(text: &str) -> &str {
    text.trim_start_matches(|c: char| c != '\n' && c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::FenceRules::{Document, Reply, TopLevel};
    use super::*;

    fn kinds(text: &str) -> Vec<LineKind<'_>> {
        let lines = markdown_lines(text, 1).into_iter();
        lines.map(|line| line.kind).collect()
    }

    #[test]
    fn headings_follow_the_rules_of_markdown() {
        assert_eq!(heading("## Title"), Some((2, "Title")));
        assert_eq!(heading("   # A #"), Some((1, "A")));
        assert_eq!(heading("# C#"), Some((1, "C#")));
        assert_eq!(heading("###"), Some((3, "")));
        for line in ["#Title", "    # code", "####### seven", "Title"] {
            assert_eq!(heading(line), None, "{line}");
        }
    }

    #[test]
    fn nothing_inside_a_fence_is_a_heading() {
        let text = "# A\n```md\n# B\n~~~\n````\n# C\n";
        let expected = [
            LineKind::Heading(1, "A"),
            LineKind::FenceOpen("md"),
            LineKind::Code,
            LineKind::Code,
            LineKind::FenceClose,
            LineKind::Heading(1, "C"),
        ];
        assert_eq!(kinds(text), expected);
        assert_eq!(
            kinds("~~~\n# A\n```\n"),
            [LineKind::FenceOpen(""), LineKind::Code, LineKind::Code],
            "never closed"
        );
        assert_eq!(
            kinds("```not `a` fence\n# A"),
            [LineKind::Text, LineKind::Heading(1, "A")]
        );
    }

    #[test]
    fn lines_keep_their_number_and_offset_with_any_line_end() {
        let found: Vec<_> = markdown_lines("a\r\nb\n\nc", 5)
            .iter()
            .map(|line| (line.number, line.start, line.text))
            .collect();
        assert_eq!(found, [(5, 0, "a"), (6, 3, "b"), (7, 5, ""), (8, 6, "c")]);
    }

    /// Documents once did not open a fence after a list marker, and opened one at an underline in compiler output. Both
    /// bugs hid the rest of the document. The other differences between the rules are intended.
    #[test]
    fn fences_open_by_their_rules() {
        for (line, document, reply, top_level) in [
            ("```", true, true, true),
            ("   ~~~~ text", true, true, true),
            ("     ```", true, true, false),
            ("\t```xml", true, true, false),
            ("- ```", true, true, false),
            ("1. - ```", true, true, false),
            ("12) ~~~", true, true, false),
            ("``", false, false, false),
            ("a ```", false, false, false),
            ("-```", false, false, false),
            ("**bold**", false, false, false),
            ("", false, false, false),
            ("- a", false, false, false),
            ("```cargo test``` ran", false, false, false),
            ("~~~^~~~", false, false, false),
            ("```\n`", true, true, true),
        ] {
            assert_eq!(Fence::open(line, Document).is_some(), document, "{line:?}");
            assert_eq!(Fence::open(line, Reply).is_some(), reply, "{line:?}");
            assert_eq!(Fence::open(line, TopLevel).is_some(), top_level, "{line:?}");
        }
    }

    #[test]
    fn fences_close_by_their_rules() {
        for (opener, line, document, reply, top_level) in [
            ("```", "```", true, true, true),
            ("```", "   `````  ", true, true, true),
            ("```", "    ```", false, true, false),
            ("```", "```</message>", false, true, true),
            ("```", "``` x", false, false, false),
            ("````", "```", false, false, false),
            ("```", "~~~", false, false, false),
        ] {
            for (rules, closes) in [(Document, document), (Reply, reply), (TopLevel, top_level)] {
                let fence = Fence::open(opener, rules).unwrap();
                assert_eq!(fence.is_closed_by(line), closes, "{rules:?} {line:?}");
            }
        }

        let in_list = Fence::open("- ```", Document).unwrap();
        assert!(in_list.is_closed_by("     ```") && !in_list.is_closed_by("      ```"));
    }

    #[test]
    fn a_fence_in_a_list_item_hides_no_heading_after_it() {
        let text = "- ```sh\n  # comment\n  ```\n# A\n~~~^~~~\n# B\n";
        let expected = [
            LineKind::FenceOpen("sh"),
            LineKind::Code,
            LineKind::FenceClose,
            LineKind::Heading(1, "A"),
            LineKind::Text,
            LineKind::Heading(1, "B"),
        ];
        assert_eq!(kinds(text), expected);
    }

    #[test]
    fn spans_of_fences_have_their_first_and_last_line() {
        let text = "a\n```\nb\n```\n    ```\n~~~\nc";
        assert_eq!(fenced_spans(text, TopLevel), [2..12, 20..25]);
        assert_eq!(fenced_spans(text, Reply), [2..12, 12..25]);
    }
}
