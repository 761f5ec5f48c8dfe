//! Filter for untrusted text in a terminal: removes escape sequences and characters that hide or reorder text.

use std::borrow::Cow;
use std::ops::Range;

/// Removes escape sequences and control characters from text that arrives in chunks.
///
/// Recognizes the 7-bit and 8-bit forms of escape sequences, and also removes direction marks and tag characters. A
/// sequence ends with its line at the latest, so that it cannot hide the text after it. The result does not depend on
/// how the text is split into chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalFilter {
    state: SequenceState,
}

impl TerminalFilter {
    /// Returns the part of the next chunk that may be shown.
    pub fn push<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        if self.state == SequenceState::Text && find_unshown(text).is_none() {
            return Cow::Borrowed(text);
        }

        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        loop {
            if self.state == SequenceState::Text {
                let (shown, others) = rest.split_at(find_unshown(rest).unwrap_or(rest.len()));
                out.push_str(shown);
                rest = others;
            }

            let mut chars = rest.chars();
            let Some(c) = chars.next() else {
                return Cow::Owned(out);
            };
            let (state, shown) = self.state.step(c);
            self.state = state;
            out.extend(shown);
            rest = chars.as_str();
        }
    }
}

/// Filters a whole text. See [`TerminalFilter`].
#[must_use]
pub fn filter_terminal_text(text: &str) -> Cow<'_, str> {
    TerminalFilter::default().push(text)
}

/// Returns the ranges of the escape sequences that start with ESC.
///
/// A string sequence, such as one that sets the window title, must be terminated on its line. Otherwise only the two
/// characters that introduce it are returned, so that it cannot hide the rest of a reply.
pub(crate) fn find_escape_sequences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(hit) = memchr::memchr(ESC, &text.as_bytes()[from..]) {
        let start = from + hit;
        from = start + sequence_length(&text[start..]);
        found.push(start..from);
    }
    found
}

/// Escapes a file name, so that it is one line and no terminal, diff viewer or CI runner reads it as a command.
///
/// Unprintable characters are escaped as in Rust. The prefixes of workflow commands are escaped as well: GitHub Actions
/// executes a line that starts with `::`, and `##[` anywhere in a line.
#[must_use]
pub fn escape_file_name(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.escape_debug().len() == 1 || matches!(c, '\'' | '"' | '\\');
    if name.chars().all(is_plain) && !name.starts_with("::") && !name.contains("##[") {
        return Cow::Borrowed(name);
    }

    let mut shown = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if is_plain(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }

    if let Some(rest) = shown.strip_prefix("::") {
        shown = format!("\\u{{3a}}:{rest}");
    }
    Cow::Owned(shown.replace("##[", "#\\u{23}["))
}

/// The byte that starts an escape sequence.
const ESC: u8 = 0x1B;

/// State of the scanner in text with escape sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SequenceState {
    /// Outside any sequence.
    #[default]
    Text,
    /// After a carriage return, which was shown as a newline.
    Return,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte: the next final byte ends the sequence, whatever it is.
    Designation,
    /// In a control sequence, up to its final byte.
    Control,
    /// In the payload of OSC, DCS, SOS, PM or APC.
    Payload,
}

impl SequenceState {
    /// Returns the state after a character, and the character that is shown for it, if any.
    fn step(self, c: char) -> (Self, Option<char>) {
        match c {
            '\n' if self == Self::Return => (Self::Text, None),
            '\n' | '\u{2028}' | '\u{2029}' => (Self::Text, Some('\n')),
            // A CR alone would overwrite the line.
            '\r' => (Self::Return, Some('\n')),
            '\u{1B}' => (Self::Escape, None),
            '\u{9B}' => (Self::Control, None),
            '\u{90}' | '\u{98}' | '\u{9D}' | '\u{9E}' | '\u{9F}' => (Self::Payload, None),
            // CAN, SUB, ST and the other 8-bit controls.
            '\u{18}' | '\u{1A}' | '\u{80}'..='\u{9F}' => (Self::Text, None),
            _ => self.step_within(c),
        }
    }

    /// Implements [`Self::step`] for characters whose meaning depends on the state.
    fn step_within(self, c: char) -> (Self, Option<char>) {
        match (self, c) {
            (Self::Payload, '\u{7}') => (Self::Text, None),
            (Self::Payload, _) => (Self::Payload, None),
            // A terminal executes these at once and continues the sequence.
            (Self::Escape | Self::Designation | Self::Control, c) if c.is_ascii_control() => {
                (self, None)
            }
            (Self::Escape, '[') => (Self::Control, None),
            (Self::Escape, ']' | 'P' | 'X' | '^' | '_') => (Self::Payload, None),
            (Self::Escape | Self::Designation, ' '..='/') => (Self::Designation, None),
            (Self::Control, ' '..='?') => (Self::Control, None),
            (Self::Escape | Self::Designation | Self::Control, c) if c.is_ascii() => {
                (Self::Text, None)
            }
            _ => (Self::Text, is_shown(c).then_some(c)),
        }
    }
}

/// Returns the length of the escape sequence at the start of `text`.
fn sequence_length(text: &str) -> usize {
    let mut state = SequenceState::Escape;
    let mut introducer = None;

    for (at, c) in text.char_indices().skip(1) {
        let end = at + c.len_utf8();
        let (next, shown) = state.step(c);
        match next {
            SequenceState::Escape if introducer.is_some() && text[end..].starts_with('\\') => {
                return end + 1;
            }
            // Another sequence starts here, or a line ends.
            SequenceState::Escape | SequenceState::Return => return introducer.unwrap_or(at),
            SequenceState::Text if shown.is_some() => return introducer.unwrap_or(at),
            SequenceState::Text => return end,
            SequenceState::Payload if introducer.is_none() => introducer = Some(end),
            SequenceState::Payload | SequenceState::Designation | SequenceState::Control => {}
        }
        state = next;
    }
    introducer.unwrap_or(text.len())
}

/// Returns the offset of the first character that is not shown as it is.
fn find_unshown(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from
            + text.as_bytes()[from..]
                .iter()
                .position(|&byte| is_suspect(byte))?;
        let c = text[at..].chars().next()?;
        if !is_shown(c) {
            return Some(at);
        }
        from = at + c.len_utf8();
    }
}

/// Returns true if a byte may start a character that is not shown. Most texts contain no such byte and need no decoding.
fn is_suspect(byte: u8) -> bool {
    matches!(byte, 0..=8 | 11..=31 | 127 | 0xC2 | 0xD8 | 0xE2 | 0xEF | 0xF3)
}

/// Returns true for a character that neither controls a terminal nor reorders or hides the text around it.
fn is_shown(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        // Direction marks, line separators, annotations, tags. Joiners and variation selectors stay: emoji need them.
        '\u{61C}'
        | '\u{200E}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2066}'..='\u{2069}'
        | '\u{FFF9}'..='\u{FFFB}'
        | '\u{E0000}'..='\u{E007F}' => false,
        c => !c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_file_name_is_one_line_and_not_a_command() {
        for (name, shown) in [
            ("src/größe 'x' \"y\".rs", "src/größe 'x' \"y\".rs"),
            ("a::b", "a::b"),
            ("a\n::error::b", "a\\n::error::b"),
            ("a\r::error::b", "a\\r::error::b"),
            ("::error::b", "\\u{3a}:error::b"),
            ("##[error]x", "#\\u{23}[error]x"),
            ("a/###[group]", "a/##\\u{23}[group]"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\u{202e}b\u{200b}", "a\\u{202e}b\\u{200b}"),
        ] {
            assert_eq!(escape_file_name(name), shown, "{name:?}");
        }
    }

    /// Returns `text` without its escape sequences.
    fn without_sequences(text: &str) -> String {
        let mut left = text.to_owned();
        for span in find_escape_sequences(text).into_iter().rev() {
            left.replace_range(span, "");
        }
        left
    }

    #[test]
    fn escape_sequences_are_found_whole() {
        let text = "a\u{1B}[1;31mb\u{1B}]0;title\u{7}c\u{1B}]8;;x\u{1B}\\d\u{1B}";
        assert_eq!(without_sequences(text), "abcd");
        assert_eq!(without_sequences("a\u{1B}(Bb\u{1B}7c"), "abc");
        assert_eq!(without_sequences("a\u{1B}[31\u{1B}[0mb"), "ab");
        assert_eq!(without_sequences("a\u{1B}[1\nb\u{1B}\nc"), "a\nb\nc");
        assert_eq!(without_sequences("a\u{1B}ä"), "aä");
    }

    #[test]
    fn a_string_sequence_that_is_not_terminated_hides_nothing() {
        for (text, left) in [
            ("\u{1B}]0;open\nnext", "0;open\nnext"),
            ("\u{1B}]0;open", "0;open"),
            ("\u{1B}Pa\u{1B}[1mb\u{7}", "ab\u{7}"),
            ("\u{1B}_a\r\nb\u{7}", "a\r\nb\u{7}"),
        ] {
            assert_eq!(without_sequences(text), left, "{text:?}");
        }
    }
}
