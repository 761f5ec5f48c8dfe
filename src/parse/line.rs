//! Lines whose content is quoted: code fences and block quotes, at any depth of lists and indentation.

use std::ops::Range;

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

    fn at_start_of(line: &str) -> Option<Self> {
        let mark = *line.as_bytes().first()?;
        let length = line.bytes().take_while(|&b| b == mark).count();
        // A run of backticks with another behind it on the line is a code span.
        let span = mark == b'`' && line[length..].contains('`');
        (length >= 3 && matches!(mark, b'`' | b'~') && !span).then_some(Self(mark, length))
    }

    /// Tells whether a line closes the fence.
    pub(super) fn is_closed_by(self, line: &str) -> bool {
        // A message may end on the same line.
        let line = line.split("</").next().unwrap_or_default().trim();
        line.len() >= self.1 && line.bytes().all(|b| b == self.0)
    }
}

/// Returns the spans that stand in a fence in the strict reading, in which only plain fences count.
pub(super) fn strictly_fenced(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut open: Option<(Fence, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
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

/// Tells, from its start alone, whether a line may be a quote or open a fence.
pub(super) fn may_be_masked(text: &str) -> bool {
    let end = text.char_indices().nth(HEAD).map_or(text.len(), |(end, _)| end);
    let inner = inside_lists(&text[..end]);
    inner.starts_with(['>', '`', '~']) || inner.len() < 2
}

/// How much of a line is looked at before all of it is.
const HEAD: usize = 200;

/// Tells whether a line is part of a block quote.
pub(super) fn is_quoted(line: &str) -> bool {
    inside_lists(line).starts_with('>')
}

/// Returns a line without its indentation and the list markers in front.
fn inside_lists(line: &str) -> &str {
    let mut rest = line.trim_start();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let marker = match rest.as_bytes().get(digits) {
            Some(b'-' | b'*' | b'+') if digits == 0 => 1,
            Some(b'.' | b')') if (1..10).contains(&digits) => digits + 1,
            _ => return rest,
        };
        if !rest[marker..].starts_with([' ', '\t']) {
            return rest;
        }
        rest = rest[marker..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_and_quotes_are_found_inside_lists() {
        for line in ["```", "   ~~~~ text", "\t```xml", "- ```", "1. - ```", "12) ~~~", "     ```"] {
            assert!(Fence::opened_by(line).is_some(), "{line}");
        }
        for line in ["``", "a ```", "-```", "**bold**", "", "- a", "```cargo test``` ran"] {
            assert!(Fence::opened_by(line).is_none(), "{line}");
        }
        assert!(is_quoted("> a") && is_quoted("  - > a") && is_quoted("1. > a"));
        assert!(!is_quoted("a > b") && !is_quoted("->"));
    }
}
