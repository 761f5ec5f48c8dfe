//! Quoted lines of a reply: code fences and block quotes, at any depth of lists and indentation.

use crate::text::markdown::{Fence, FenceRules, skip_list_markers};

/// Quoting that a line starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineQuote {
    /// The line opens a code fence.
    Fence(Fence),
    /// The line is part of a block quote.
    Quote,
}

/// Returns the quoting that the first line of `text` starts. Only the start of the line is read,
/// because a tag later in the line may start another line.
pub(super) fn find_line_quote(text: &str) -> Option<LineQuote> {
    // Most lines start with a letter or a tag.
    if text
        .as_bytes()
        .first()
        .is_none_or(|b| b.is_ascii_alphabetic() || matches!(b, b'<' | b'\n'))
    {
        return None;
    }

    if skip_list_markers(text).starts_with('>') {
        return Some(LineQuote::Quote);
    }
    Fence::open(text, FenceRules::Reply).map(LineQuote::Fence)
}

/// Returns true if a line starts a new block. A code span ends before such a line.
pub(super) fn starts_block(line: &str) -> bool {
    let trimmed = line.trim_start();
    trimmed.is_empty()
        || trimmed.starts_with(['#', '|', '>'])
        || skip_list_markers(line).len() != trimmed.len()
        || Fence::open(line, FenceRules::Reply).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_found_inside_lists() {
        let is_quoted = |text| find_line_quote(text) == Some(LineQuote::Quote);
        assert!(is_quoted("> a") && is_quoted("  - > a") && is_quoted("1. > a"));
        assert!(
            !is_quoted("a > b") && !is_quoted("->") && !is_quoted("\n> a") && !is_quoted("- \n> a")
        );
        assert!(matches!(
            find_line_quote("- ```\n> a"),
            Some(LineQuote::Fence(_))
        ));
    }

    #[test]
    fn blocks_start_with_their_marks() {
        for line in ["", "# a", "| a |", "> a", "- a", "2. a", "  ~~~"] {
            assert!(starts_block(line), "{line:?}");
        }
        for line in ["a", "-a", "`a`", "<b>"] {
            assert!(!starts_block(line), "{line:?}");
        }
    }
}
