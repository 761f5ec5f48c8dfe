//! Lines whose content is quoted: code fences and block quotes, at any depth of lists and indentation.

use std::ops::Range;

use memchr::{memchr, memchr2};

/// An open code fence: its character and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence(u8, usize);

impl Fence {
    /// Returns the fence that a line opens, at any depth of lists and indentation.
    pub(super) fn opened_by(line: &str) -> Option<Self> {
        Self::at_start_of(inside_lists(line))
    }

    /// Returns the fence that a line opens in the strict reading: not in a list, and indented by three at most.
    fn opened_strictly_by(line: &str) -> Option<Self> {
        let indent = line.len() - line.trim_start_matches(' ').len();
        Self::at_start_of(&line[indent..]).filter(|_| indent < 4)
    }

    fn at_start_of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mark = *bytes.first().filter(|b| matches!(b, b'`' | b'~'))?;
        let length = bytes.iter().take_while(|&&b| b == mark).count();
        // A run of backticks with another behind it on the line is a code span.
        let next = || memchr2(b'`', b'\n', &bytes[length..]).map(|at| bytes[length + at]);
        let span = length >= 3 && mark == b'`' && next() == Some(b'`');
        // Compilers underline like this: `~~~^~~~`.
        let underline = bytes.get(length) == Some(&b'^');
        (length >= 3 && !span && !underline).then_some(Self(mark, length))
    }

    /// Tells whether a line closes the fence.
    pub(super) fn is_closed_by(self, line: &str) -> bool {
        // Most lines start with something else.
        if !line.trim_start().as_bytes().starts_with(&[self.0]) {
            return false;
        }
        let line = line.trim();
        let marks = line.bytes().take_while(|&b| b == self.0).count();
        let rest = line[marks..].trim_start();
        // A message may end on the same line.
        let ends = rest
            .get(..9)
            .is_some_and(|start| start.eq_ignore_ascii_case("</message"));
        marks >= self.1 && (rest.is_empty() || ends)
    }
}

/// Returns the spans that stand in a fence in the strict reading, in which only plain fences count.
pub(super) fn strictly_fenced(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut open: Option<(Fence, usize)> = None;
    let mut at = 0;
    while at < text.len() {
        let end = memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |hit| at + hit + 1);
        let line = &text[at..end];
        let indent = line.len() - line.trim_start_matches(' ').len();
        match open {
            Some((fence, start)) if indent < 4 && fence.is_closed_by(line) => {
                spans.push(start..end);
                open = None;
            }
            Some(_) => {}
            None => open = Fence::opened_strictly_by(line).map(|fence| (fence, at)),
        }
        at = end;
    }
    spans.extend(open.map(|(_, start)| start..text.len()));
    spans
}

/// Tells whether a line starts a block of its own, so that no code span reaches into it.
pub(super) fn starts_block(line: &str) -> bool {
    let trimmed = line.trim_start();
    trimmed.is_empty()
        || trimmed.starts_with(['#', '|', '>'])
        || inside_lists(line).len() != trimmed.len()
        || Fence::opened_by(line).is_some()
}

/// What the first line of a text is, if it is content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Masked {
    /// It opens a fence.
    Fence(Fence),
    /// It is part of a block quote.
    Quote,
}

/// Tells whether the first line of a text opens a fence or is quoted. Only the start of the line is read: a tag in its
/// middle may start another.
pub(super) fn masked(text: &str) -> Option<Masked> {
    // Most lines start with a letter or a tag.
    if text
        .as_bytes()
        .first()
        .is_none_or(|b| b.is_ascii_alphabetic() || matches!(b, b'<' | b'\n'))
    {
        return None;
    }
    let inner = inside_lists(text);
    if inner.starts_with('>') {
        return Some(Masked::Quote);
    }
    Fence::at_start_of(inner).map(Masked::Fence)
}

/// Returns a text without the indentation and the list markers in front of its first line.
fn inside_lists(text: &str) -> &str {
    let mut rest = unindented(text);
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
        rest = unindented(&rest[marker..]);
    }
}

/// Returns a text without the blanks in front of its first line.
fn unindented(text: &str) -> &str {
    text.trim_start_matches(|c: char| c != '\n' && c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_and_quotes_are_found_inside_lists() {
        for line in [
            "```",
            "   ~~~~ text",
            "\t```xml",
            "- ```",
            "1. - ```",
            "12) ~~~",
            "     ```",
        ] {
            assert!(Fence::opened_by(line).is_some(), "{line}");
        }
        for line in [
            "``",
            "a ```",
            "-```",
            "**bold**",
            "",
            "- a",
            "```cargo test``` ran",
        ] {
            assert!(Fence::opened_by(line).is_none(), "{line}");
        }
        let is_quoted = |text| masked(text) == Some(Masked::Quote);
        assert!(is_quoted("> a") && is_quoted("  - > a") && is_quoted("1. > a"));
        assert!(
            !is_quoted("a > b") && !is_quoted("->") && !is_quoted("\n> a") && !is_quoted("- \n> a")
        );
    }
}
