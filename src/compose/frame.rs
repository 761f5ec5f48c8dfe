//! What holds a prompt together in flat text, and how values are kept from passing for it.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr3};

use crate::models::{Format, Role};
use crate::pack::{Headings, Holds, Pack};

/// What a prompt is held together by: separators, headings, role lines and tags.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// The rendering.
    pub(super) format: Format,
    /// What separates layers.
    pub(super) separator: &'a str,
    headings: &'a Headings,
    /// Whether the pack shows a session state, whose tag cannot be used by others.
    state: bool,
}

impl<'a> Frame<'a> {
    /// Returns the frame of a pack's prompts.
    pub(super) fn of(pack: &'a Pack, format: Format) -> Self {
        let state = pack.holds(Holds::State);
        Self { format, separator: &pack.separator, headings: &pack.headings, state }
    }

    /// Returns a value in which nothing passes for a part of the frame, for a place where lines matter.
    pub(super) fn lines<'v>(&self, value: &'v str) -> Cow<'v, str> {
        match self.tags(value) {
            Cow::Borrowed(value) => self.escape_lines(value),
            Cow::Owned(value) => Cow::Owned(self.escape_lines(&value).into_owned()),
        }
    }

    /// Returns a value in which nothing passes for the session state: such a `<` gets a backslash behind it.
    pub(super) fn tags<'v>(&self, value: &'v str) -> Cow<'v, str> {
        const STATE: &str = "session_state";
        if !self.state {
            return Cow::Borrowed(value);
        }
        let mut out = String::new();
        let mut copied = 0;
        for at in memchr::memchr_iter(b'<', value.as_bytes()) {
            let inner = value[at + 1..].trim_start_matches(|c: char| c == '/' || c.is_whitespace());
            if inner.get(..STATE.len()).is_some_and(|name| name.eq_ignore_ascii_case(STATE)) {
                out.push_str(&value[copied..=at]);
                out.push('\\');
                copied = at + 1;
            }
        }
        if copied == 0 { Cow::Borrowed(value) } else { Cow::Owned(out + &value[copied..]) }
    }

    /// Puts a backslash before each line that would pass for a separator, a heading or a role line of ours.
    pub(super) fn escape_lines<'v>(&self, value: &'v str) -> Cow<'v, str> {
        let mut out = String::new();
        let (mut copied, mut at) = (0, 0);
        while at < value.len() {
            let end = at + line_length(&value[at..]);
            if self.headings.has(value[at..end].trim_matches(is_line_end)) {
                out.push_str(&value[copied..at]);
                out.push('\\');
                copied = at;
            }
            at = end;
        }
        if out.is_empty() { Cow::Borrowed(value) } else { Cow::Owned(out + &value[copied..]) }
    }
}

/// Returns the word that opens a message in flat text.
pub(super) fn role_prefix(role: Role) -> &'static str {
    match role {
        Role::User => "USER: ",
        Role::Assistant => "ASSISTANT: ",
    }
}

/// Returns a name that can stand in a heading: on one line.
pub(super) fn one_line(name: &str) -> Cow<'_, str> {
    if name.contains(is_line_end) { Cow::Owned(name.replace(is_line_end, " ")) } else { Cow::Borrowed(name) }
}

/// Returns the length of the first line, its end included.
fn line_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let newline = memchr2(b'\n', b'\r', bytes).map_or(bytes.len(), |at| at + 1);
    // Other characters that some reader takes for the end of a line are rare; their first bytes tell.
    let line = &bytes[..newline];
    if memchr3(0x0B, 0x0C, 0xC2, line).is_none() && memchr(0xE2, line).is_none() {
        return newline;
    }
    let first = text[..newline].char_indices().find(|(_, c)| is_line_end(*c));
    first.map_or(newline, |(at, c)| at + c.len_utf8())
}

/// Tells every character that some reader takes for the end of a line.
fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
