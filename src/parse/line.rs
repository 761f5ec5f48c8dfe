//! Lines whose content is quoted: code fences and block quotes, at any depth of lists and indentation.

/// An open code fence: its character and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence(u8, usize);

impl Fence {
    /// Returns the fence that a line opens.
    pub(super) fn opened_by(line: &str) -> Option<Self> {
        let inner = inside_lists(line).as_bytes();
        let mark = *inner.first()?;
        let length = inner.iter().take_while(|&&b| b == mark).count();
        (length >= 3 && matches!(mark, b'`' | b'~')).then_some(Self(mark, length))
    }

    /// Tells whether a line closes the fence.
    pub(super) fn is_closed_by(self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.1 && line.bytes().all(|b| b == self.0)
    }
}

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
        for line in ["``", "a ```", "-```", "**bold**", "", "- a"] {
            assert!(Fence::opened_by(line).is_none(), "{line}");
        }
        assert!(is_quoted("> a") && is_quoted("  - > a") && is_quoted("1. > a"));
        assert!(!is_quoted("a > b") && !is_quoted("->"));
    }
}
