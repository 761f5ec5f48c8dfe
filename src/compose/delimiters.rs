//! Delimiters of prompts in flat text, and escaping of values that imitate them.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr3};

use crate::models::{Format, MessageRole, PromptExpansion};
use crate::pack::{DelimiterLines, FoundTemplate, LayerContent, Pack};
use crate::text::escape::replace_forbidden;
use crate::text::invisible::is_invisible;

/// Delimiters of a prompt: separators, headings, role lines and tags.
///
/// Values from outside the pack could imitate them, for instance to start a forged `USER:` message. The escape methods put a
/// backslash before such lines and into such tags.
#[derive(Debug)]
pub(super) struct Delimiters<'a> {
    pub(super) format: Format,
    /// Kinds of text that the agent would expand, such as `@file`.
    pub(super) expands: Vec<PromptExpansion>,
    /// Separator of layers.
    pub(super) separator: &'a str,
    /// Delimiter lines of the pack.
    pack_lines: &'a DelimiterLines,
    /// First line of the system template, if that is a heading.
    heading: Option<String>,
    /// Tags that only the pack may write.
    tags: Vec<&'static str>,
}

impl<'a> Delimiters<'a> {
    /// Returns the delimiters of a pack's prompts.
    pub(super) fn from_pack(
        pack: &'a Pack,
        format: Format,
        template: Option<&FoundTemplate>,
        expands: &[PromptExpansion],
    ) -> Self {
        let first =
            template.and_then(|template| template.template.text.body().trim_start().lines().next());
        let heading = first
            .filter(|line| line.starts_with('#'))
            .map(str::to_owned);
        let pack_tags = [
            (pack.has_layer(LayerContent::State), "session_state"),
            (!pack.actions.is_empty(), "available_actions"),
        ];
        let tags = pack_tags
            .into_iter()
            .filter(|(is_used, _)| *is_used)
            .map(|(_, tag)| tag)
            .collect();

        Self {
            format,
            expands: expands.to_vec(),
            separator: &pack.separator,
            pack_lines: &pack.delimiters,
            heading,
            tags,
        }
    }

    /// Escapes tags and lines that imitate delimiters, for a multi-line value.
    pub(super) fn escape_block<'v>(&self, value: &'v str) -> Cow<'v, str> {
        match self.escape_inline(value) {
            Cow::Borrowed(value) => self.escape_lines(value),
            Cow::Owned(value) => Cow::Owned(self.escape_lines(&value).into_owned()),
        }
    }

    /// Replaces forbidden characters and escapes tags that imitate those of the pack: `<` becomes `<\`.
    pub(super) fn escape_inline<'v>(&self, value: &'v str) -> Cow<'v, str> {
        match replace_forbidden(value) {
            Cow::Borrowed(value) => self.escape_tags(value),
            Cow::Owned(value) => Cow::Owned(self.escape_tags(&value).into_owned()),
        }
    }

    fn escape_tags<'v>(&self, value: &'v str) -> Cow<'v, str> {
        if self.tags.is_empty() {
            return Cow::Borrowed(value);
        }

        let mut out = String::new();
        let mut copied = 0;
        for at in memchr::memchr_iter(b'<', value.as_bytes()) {
            let inner = value[at + 1..]
                .trim_start_matches(|c: char| c == '/' || c.is_whitespace() || is_invisible(c));
            if self.tags.iter().any(|tag| starts_with_name(inner, tag)) {
                out.push_str(&value[copied..=at]);
                out.push('\\');
                copied = at + 1;
            }
        }

        if copied == 0 {
            Cow::Borrowed(value)
        } else {
            Cow::Owned(out + &value[copied..])
        }
    }

    /// Puts a backslash before each line that imitates a separator, a heading or a role line.
    pub(super) fn escape_lines<'v>(&self, value: &'v str) -> Cow<'v, str> {
        // Line endings other than LF and CR are rare, and each starts with one of these bytes. Without these bytes, a fast
        // search for LF and CR is enough.
        let bytes = value.as_bytes();
        let has_rare_endings =
            memchr3(0x0B, 0x0C, 0xC2, bytes).is_some() || memchr(0xE2, bytes).is_some();

        let mut out = String::new();
        let mut copied = 0;
        let mut at = 0;
        while at < value.len() {
            let length = if has_rare_endings {
                value[at..]
                    .char_indices()
                    .find(|(_, c)| is_line_end(*c))
                    .map(|(end, c)| end + c.len_utf8())
            } else {
                memchr2(b'\n', b'\r', &bytes[at..]).map(|end| end + 1)
            };

            let end = at + length.unwrap_or(value.len() - at);
            let line = value[at..end].trim_matches(is_line_end);
            if self.pack_lines.matches(line)
                || self
                    .heading
                    .as_deref()
                    .is_some_and(|heading| DelimiterLines::are_alike(heading, line))
            {
                out.push_str(&value[copied..at]);
                out.push('\\');
                copied = at;
            }

            at = end;
        }

        if out.is_empty() {
            Cow::Borrowed(value)
        } else {
            Cow::Owned(out + &value[copied..])
        }
    }
}

/// Returns true if a string starts with a name, ignoring case and invisible characters.
fn starts_with_name(text: &str, name: &str) -> bool {
    let mut seen = text.chars().filter(|c| !is_invisible(*c));
    name.chars().all(|c| {
        seen.next()
            .is_some_and(|other| other.eq_ignore_ascii_case(&c))
    })
}

/// Returns the prefix of a message in flat text.
pub(super) fn role_prefix(role: MessageRole) -> &'static str {
    match role {
        MessageRole::User => "USER: ",
        MessageRole::Assistant => "ASSISTANT: ",
    }
}

/// Replaces line endings in a name with spaces, for use in a heading.
pub(super) fn one_line(name: &str) -> Cow<'_, str> {
    if name.contains(is_line_end) {
        Cow::Owned(name.replace(is_line_end, " "))
    } else {
        Cow::Borrowed(name)
    }
}

/// Returns true for every character that programs may treat as a line ending.
fn is_line_end(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_with_invisible_characters_in_it() {
        for text in [
            "session_state>",
            "SESSION_state x",
            "ses\u{200B}sion_state>",
            "s\u{AD}ession_st\u{2062}ate",
        ] {
            assert!(starts_with_name(text, "session_state"), "{text:?}");
        }
        for text in ["session", "sessions_state", "x session_state"] {
            assert!(!starts_with_name(text, "session_state"), "{text:?}");
        }
    }
}
