//! Lines of a reply whose content is quoted: code fences and block quotes, at any depth of lists and indentation.

use crate::text::markdown::{Fence, FenceRules, skip_list_markers};

/// The quoting that the first line of a text starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Masked {
    /// It opens a fence.
    Fence(Fence),
    /// It is part of a block quote.
    Quote,
}

/// Returns the quoting that the first line of a text starts. Only the start of the line is read: a tag in its middle may
/// start another.
pub(super) fn masked(text: &str) -> Option<Masked> {
    // Most lines start with a letter or a tag.
    if text
        .as_bytes()
        .first()
        .is_none_or(|b| b.is_ascii_alphabetic() || matches!(b, b'<' | b'\n'))
    {
        return None;
    }
    if skip_list_markers(text).starts_with('>') {
        return Some(Masked::Quote);
    }
    Fence::open(text, FenceRules::Reply).map(Masked::Fence)
}

/// Returns whether a line starts a block, so that no code span reaches into it.
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
        let is_quoted = |text| masked(text) == Some(Masked::Quote);
        assert!(is_quoted("> a") && is_quoted("  - > a") && is_quoted("1. > a"));
        assert!(
            !is_quoted("a > b") && !is_quoted("->") && !is_quoted("\n> a") && !is_quoted("- \n> a")
        );
        assert!(matches!(masked("- ```\n> a"), Some(Masked::Fence(_))));
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
