//! Tags of the grammar: their names, attributes and closers.

use super::Grammar;
use crate::models::is_invisible;

/// The spellings of thinking; one closes another.
pub(super) const THINKING: [&str; 5] = ["thought", "thinking", "think", "reasoning", "analysis"];

/// What a tag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Thinking,
    Message,
    Review,
    TaskStatus,
    Update,
    Action,
    /// A marker of the pack's own, by its place in the grammar.
    Own(usize),
}

/// A tag of the grammar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag<'a> {
    pub(super) name: Name,
    /// Whether it closes.
    pub(super) closes: bool,
    /// What stands between the name and `>`.
    pub(super) attributes: &'a str,
    /// The length, brackets included; a tag without `>` has the length of what can be seen of it.
    pub(super) length: usize,
    /// Whether its `>` is there.
    pub(super) complete: bool,
}

/// Reads the tag of the grammar that a text starts with, in any case.
pub(super) fn read<'a>(text: &'a str, grammar: &Grammar) -> Option<Tag<'a>> {
    let inner = text.strip_prefix('<')?;
    let closes = inner.starts_with('/');
    let inner = inner.strip_prefix('/').unwrap_or(inner);
    let length = inner.bytes().take_while(|&b| b.is_ascii_alphanumeric() || b == b'_').count();
    let name = name(&inner[..length], grammar)?;
    let after = &inner[length..];
    if !(after.is_empty() || after.starts_with(['>', ' ', '\t', '\n', '\r', '<'])) {
        return None;
    }
    // A tag does not reach over a line: its `>` may be the mark of a quote.
    let end = memchr::memchr3(b'>', b'<', b'\n', after.as_bytes());
    let complete = end.is_some_and(|end| after.as_bytes()[end] == b'>');
    let end = end.unwrap_or(after.len());
    let start = text.len() - inner.len();
    let length = start + length + end + usize::from(complete);
    Some(Tag { name, closes, attributes: &after[..end], length, complete })
}

fn name(text: &str, grammar: &Grammar) -> Option<Name> {
    let is = |name: &str| text.eq_ignore_ascii_case(name);
    if THINKING.iter().any(|name| is(name)) {
        return Some(Name::Thinking);
    }
    let names = [
        ("message", Name::Message),
        ("review", Name::Review),
        ("task_status", Name::TaskStatus),
        ("content_update", Name::Update),
    ];
    let known = names.iter().find(|(name, _)| is(name)).map(|(_, tag)| *tag);
    let action = (grammar.actions && is("action")).then_some(Name::Action);
    let own = || grammar.markers.iter().position(|marker| is(&marker.name)).map(Name::Own);
    known.or(action).or_else(own)
}

/// Tells whether a text starts with something like a `<review>` tag that is none: blanks or a prefix before the name.
pub(super) fn looks_like_review(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('<') else { return false };
    // Most of what starts with `<` is something else: one look tells.
    if !inner.trim_start().starts_with(|c: char| c.is_alphabetic() || is_invisible(c)) {
        return false;
    }
    let inner: String = inner.chars().take(24).filter(|c| !c.is_whitespace() && !is_invisible(*c)).collect();
    let inner = inner.to_ascii_lowercase();
    let name = inner
        .split_once(':')
        .filter(|(prefix, _)| prefix.len() < 12)
        .map_or(inner.as_str(), |(_, name)| name);
    name.strip_prefix("review")
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-')))
}

/// Returns an attribute's value; `None` if it is missing, stands twice, or the attributes cannot be read.
pub(super) fn attribute<'a>(attributes: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = attributes.trim();
    let mut found = None;
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let value = after.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, after) = value[1..].split_once(quote)?;
        if name.trim().eq_ignore_ascii_case(wanted) && found.replace(value).is_some() {
            return None;
        }
        rest = after.trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_whole() {
        assert_eq!(attribute(" target=\"a.md\"", "target"), Some("a.md"));
        assert_eq!(attribute(" x = 'y' target = 'a.md' ", "target"), Some("a.md"));
        assert_eq!(attribute(" note=\" target='evil.md'\" target=\"a.md\"", "target"), Some("a.md"));
        for attributes in ["", "target", "target=a", " target=\"a\" target=\"b\"", "target=\"a"] {
            assert_eq!(attribute(attributes, "target"), None, "{attributes}");
        }
    }

    #[test]
    fn only_names_of_the_grammar_are_tags() {
        let grammar = Grammar::any_review();
        let read = |text| read(text, &grammar);
        assert!(
            read("<Review>").is_some() && read("</THINK>").is_some() && read("<review run=\"x\">").is_some()
        );
        for text in ["<reviewer>", "<review-x>", "<b>", "review>", "< review>"] {
            assert!(read(text).is_none(), "{text}");
        }
        assert!(!read("<review").unwrap().complete && !read("<review a=\"<\">").unwrap().complete);
    }
}
