//! Tags of the grammar: names, attributes and closing tags.

use std::borrow::Cow;

use crate::models::{Grammar, THOUGHT_TAGS};
use crate::text::invisible::is_invisible;

/// Initial capacity for names; a larger grammar only costs a reallocation.
const EXPECTED_NAMES: usize = 80;

/// Maximum length of a tag name, including a namespace prefix.
const MAX_NAME_BYTES: usize = 80;

/// Maximum length of a tag whose attributes may contain brackets.
const MAX_TAG_BYTES: usize = 2000;

/// Maximum number of quoted values in such a tag. A tag with more is not examined further.
const MAX_QUOTED_VALUES: usize = 16;

/// Maximum number of white-space and invisible characters before a name.
const MAX_BLANKS: usize = 4;

/// Number of name lengths in the lookup table. Longer names share the last entry.
const NAME_LENGTHS: usize = 32;

/// Meaning of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TagName {
    Thinking,
    Message,
    Review,
    TaskStatus,
    Update,
    /// An action, in the protocol's form or in a tool-call form that agents know.
    Call(CallForm),
    /// A marker defined by the pack, by its index in the grammar.
    PackMarker(usize),
    /// An element that some agents put around their calls.
    Wrapper,
}

/// Notation of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CallForm {
    /// `<action type="save">`.
    Action,
    /// `<invoke name="save">`.
    Invoke,
    /// `<function=save>`.
    Function,
    /// `<tool_call>{"name": "save"}</tool_call>`.
    Tool,
    /// `<save>`, by the index of the action in the grammar.
    Named(usize),
}

/// An opening or closing tag whose name the grammar knows, as found in a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag<'a> {
    pub(super) name: TagName,
    /// True for a closing tag.
    pub(super) closes: bool,
    /// Text between the name and `>`, without a final `/`.
    pub(super) attributes: &'a str,
    /// Length with brackets. A tag without `>` ends before the next `<` or newline.
    pub(super) length: usize,
    /// True if the tag has its `>`.
    pub(super) complete: bool,
    /// True if the tag ends with `/>`.
    pub(super) empty: bool,
    /// True if the tag contains extra white space, a prefix, `-` for `_` or invisible characters.
    pub(super) loose: bool,
}

impl Tag<'_> {
    /// Returns true if the tag is a type parameter, such as `Option<Thought>`. `before` is the text
    /// before the tag, `text` starts with the tag.
    pub(super) fn is_generic(&self, before: &str, text: &str) -> bool {
        let name = text.as_bytes().get(1..3).unwrap_or_default();
        let is_camel_case = matches!(name, [first, second] if first.is_ascii_uppercase() && second.is_ascii_lowercase());
        let is_marker_or_update = matches!(
            self.name,
            TagName::Review | TagName::TaskStatus | TagName::PackMarker(_) | TagName::Update
        );

        is_camel_case
            && before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !is_marker_or_update
            && self.attributes.is_empty()
    }
}

/// Tag names of a grammar, for lookup.
#[derive(Debug)]
pub(super) struct TagNames {
    /// Names and their meaning, sorted by length.
    names: Vec<(Cow<'static, str>, TagName)>,
    /// First letters of the names as bits, by the length of the name. Rejects most names with one
    /// lookup.
    first_letters: [u32; NAME_LENGTHS],
}

impl TagNames {
    /// Collects the tag names of a grammar.
    pub(super) fn from_grammar(grammar: &Grammar) -> Self {
        let mut names: Vec<(Cow<'static, str>, TagName)> = Vec::with_capacity(EXPECTED_NAMES);

        let mut add = |name: &'static str, tag| names.push((Cow::Borrowed(name), tag));
        THOUGHT_TAGS
            .iter()
            .for_each(|name| add(name, TagName::Thinking));

        add("message", TagName::Message);
        add("review", TagName::Review);
        add("task_status", TagName::TaskStatus);
        add("content_update", TagName::Update);

        if grammar.knows_actions() {
            add("action", TagName::Call(CallForm::Action));
            add("invoke", TagName::Call(CallForm::Invoke));
            add("function", TagName::Call(CallForm::Function));
            add("tool_call", TagName::Call(CallForm::Tool));
            ["function_calls", "tool_calls", "actions"]
                .iter()
                .for_each(|name| add(name, TagName::Wrapper));
        }

        // The first of two tags with the same name wins.
        for (index, marker) in grammar.markers.iter().enumerate() {
            names.push((
                Cow::Owned(marker.name.to_ascii_lowercase()),
                TagName::PackMarker(index),
            ));
        }

        let find = |name: &str| {
            names
                .iter()
                .find(|(candidate, _)| candidate == name)
                .map(|(_, tag)| *tag)
        };

        let aliases = grammar
            .tags
            .iter()
            .filter_map(|(alias, name)| Some((alias, find(name)?)));
        let calls = grammar
            .actions
            .keys()
            .enumerate()
            .filter(|(_, name)| find(name).is_none())
            .map(|(index, name)| (name, TagName::Call(CallForm::Named(index))));
        let others: Vec<_> = aliases
            .chain(calls)
            .map(|(name, tag)| (Cow::Owned(name.to_ascii_lowercase()), tag))
            .collect();
        names.extend(others);

        names.sort_by_key(|(name, _)| name.len());

        let mut first_letters = [0; NAME_LENGTHS];
        for (name, _) in &names {
            let first = name.bytes().next().and_then(letter_bit);
            first_letters[name.len().min(NAME_LENGTHS - 1)] |= first.unwrap_or_default();
        }
        Self {
            names,
            first_letters,
        }
    }

    fn find_name(&self, name: &[u8]) -> Option<TagName> {
        let is_same = |a: u8, b: u8| a.eq_ignore_ascii_case(&b) || (a == b'_' && b == b'-');
        let matches_name =
            |candidate: &str| candidate.bytes().zip(name).all(|(a, &b)| is_same(a, b));
        // The first letter rules out most names.
        let letters = self.first_letters[name.len().min(NAME_LENGTHS - 1)];
        if letter_bit(*name.first()?).is_some_and(|first| first & letters == 0) {
            return None;
        }

        let start = self
            .names
            .partition_point(|(candidate, _)| candidate.len() < name.len());
        let same_length = self.names[start..]
            .iter()
            .take_while(|(candidate, _)| candidate.len() == name.len());
        same_length
            .into_iter()
            .find(|(candidate, _)| matches_name(candidate))
            .map(|(_, tag)| *tag)
    }

    /// Returns true if a truncated text may be the start of a tag.
    pub(super) fn may_start(&self, text: &str) -> bool {
        let inner = text
            .strip_prefix("</")
            .or_else(|| text.strip_prefix('<'))
            .unwrap_or(text);
        !inner.is_empty()
            && (self.read_tag(text).is_some()
                || self.names.iter().any(|(name, _)| {
                    name.get(..inner.len())
                        .is_some_and(|start| start.eq_ignore_ascii_case(inner))
                }))
    }

    /// Reads the tag at the start of `text`, ignoring case. Rejects most other text that starts
    /// with `<` after one lookup.
    pub(super) fn read_tag<'a>(&self, text: &'a str) -> Option<Tag<'a>> {
        let bytes = text.as_bytes();
        if bytes.first() != Some(&b'<') {
            return None;
        }

        let start = 1 + usize::from(bytes.get(1) == Some(&b'/'));

        match *bytes.get(start)? {
            byte if byte.is_ascii_alphabetic() => {
                let end = start
                    + bytes[start..]
                        .iter()
                        .take_while(|b| is_name_byte(**b))
                        .count();
                let next = bytes.get(end).copied().unwrap_or(b'>');
                if matches!(
                    next,
                    b'>' | b' ' | b'\t' | b'\n' | b'\r' | b'/' | b'<' | b'='
                ) {
                    let name = self.find_name(&bytes[start..end])?;
                    let loose = bytes[start..end].contains(&b'-');
                    return read_tag_end(text, name, start == 2, end, loose);
                }
                (next == b':' || next >= 0x80).then(|| self.read_loosely(text, start))?
            }
            b' ' | b'\t' | 0x80.. => self.read_loosely(text, start),
            _ => None,
        }
    }

    /// Reads a tag that contains white space, a prefix or invisible characters. It must be
    /// well-formed otherwise.
    fn read_loosely<'a>(&self, text: &'a str, start: usize) -> Option<Tag<'a>> {
        let is_space = |c: char| matches!(c, ' ' | '\t' | '\u{A0}') || is_invisible(c);
        let mut rest = text[start..].chars();
        let mut at = start;
        let mut closes = start == 2;
        let mut blanks = 0;
        let mut name: Vec<u8> = Vec::new();

        while let Some(c) = rest.next().filter(|_| at - start < MAX_NAME_BYTES) {
            match c {
                c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => name.push(c as u8),
                '/' if name.is_empty() && !closes => closes = true,
                // A prefix, such as `ns:`.
                ':' if !name.is_empty() => name.clear(),
                c if is_space(c) && name.is_empty() && blanks < MAX_BLANKS => blanks += 1,
                // Invisible characters do not end a name. A no-break space does, unless the name is
                // unknown.
                c if is_invisible(c) || (c == '\u{A0}' && self.find_name(&name).is_none()) => {}
                _ => break,
            }
            at += c.len_utf8();
        }

        let tag_name = self.find_name(&name)?;
        let tag = read_tag_end(text, tag_name, closes, at, true)?;
        (tag.complete && parse_attributes(tag.attributes).is_some()).then_some(tag)
    }
}

/// Returns true for bytes of plain names.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns a letter as a bit, case-insensitive.
fn letter_bit(byte: u8) -> Option<u32> {
    byte.is_ascii_alphabetic()
        .then(|| 1 << (byte.to_ascii_lowercase() - b'a'))
}

/// Reads the rest of a tag whose name ends at an offset.
fn read_tag_end(
    text: &str,
    name: TagName,
    closes: bool,
    at: usize,
    loose: bool,
) -> Option<Tag<'_>> {
    let after = &text[at..];
    let has_equals_sign = after.starts_with('=');
    if has_equals_sign && name != TagName::Call(CallForm::Function) {
        return None;
    }

    let ends = |c: char| matches!(c, '>' | '/' | '<' | '=') || c.is_whitespace();
    if !after.is_empty() && !after.starts_with(ends) {
        return None;
    }
    let end =
        find_quoted_end(after).or_else(|| memchr::memchr3(b'>', b'<', b'\n', after.as_bytes()));
    let complete = end.is_some_and(|end| after.as_bytes()[end] == b'>');
    let end = end.unwrap_or(after.len());

    let inner = after[..end].trim_end();
    let empty = complete && !closes && inner.ends_with('/');
    let attributes = if empty {
        &inner[..inner.len() - 1]
    } else {
        &after[..end]
    };

    let length = at + end + usize::from(complete);
    Some(Tag {
        name,
        closes,
        attributes,
        length,
        complete,
        empty,
        loose,
    })
}

/// Returns the end of a tag that has brackets in quoted attribute values. A tag never spans lines,
/// because a `>` on the next line may start a block quote.
fn find_quoted_end(after: &str) -> Option<usize> {
    let bytes = &after.as_bytes()[..after.len().min(MAX_TAG_BYTES)];
    let first = memchr::memchr3(b'>', b'<', b'\n', bytes)?;
    if !bytes[..first].contains(&b'"') && !bytes[..first].contains(&b'\'') {
        return None;
    }

    let mut quote = None;
    let mut quotes = 0;
    // The last byte that is not a space.
    let mut last = b' ';
    for (at, &byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (_, b'\n') | (None, b'<') => return None,
            (Some(open), _) if open == byte => quote = None,
            (None, b'"' | b'\'') if last == b'=' && quotes == MAX_QUOTED_VALUES => return None,
            (None, b'"' | b'\'') if last == b'=' => {
                quote = Some(byte);
                quotes += 1;
            }
            (None, b'>') => return Some(at),
            _ => {}
        }
        last = if byte == b' ' { last } else { byte };
    }
    None
}

/// The attributes of a tag.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes<'a> {
    /// Names and values, in order.
    pub(super) pairs: Vec<(&'a str, &'a str)>,
    /// True if at least one value is unquoted or in curly quotes.
    pub(super) loose: bool,
}

impl<'a> Attributes<'a> {
    /// Returns the value of an attribute, ignoring case; `None` if it is missing or duplicated.
    pub(super) fn get(&self, wanted: &str) -> Option<&'a str> {
        let mut matching = self
            .pairs
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let value = matching.next()?.1;
        matching.next().is_none().then_some(value)
    }
}

/// Parses attributes with any quotes or none; `None` if they are malformed.
pub(super) fn parse_attributes(text: &str) -> Option<Attributes<'_>> {
    let mut read = Attributes::default();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=')?;
        let name = name.trim().trim_matches(is_invisible);
        if name.is_empty()
            || name.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '/'))
        {
            return None;
        }

        let after = after.trim_start();
        let first = after.chars().next()?;

        let (value, after) = match first {
            '"' | '\'' => after[1..].split_once(first)?,
            '“' | '”' | '„' | '‘' | '’' => {
                read.loose = true;
                let close = |c: char| matches!(c, '“' | '”' | '‘' | '’' | '"' | '\'');
                let inner = &after[first.len_utf8()..];
                let end = inner.find(close)?;
                let length = inner[end..].chars().next().map_or(0, char::len_utf8);
                (&inner[..end], &inner[end + length..])
            }
            _ => {
                read.loose = true;
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                let plain = !after[..end].contains(['"', '\'', '=', '“', '”']);
                plain.then(|| after.split_at(end))?
            }
        };

        read.pairs.push((name, value));
        rest = after.trim_start();
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_whole() {
        let target = |text| parse_attributes(text).and_then(|read| read.get("target"));
        assert_eq!(target(" target=\"a.md\""), Some("a.md"));
        assert_eq!(target(" x = 'y' target = 'a.md' "), Some("a.md"));
        assert_eq!(
            target(" note=\" target='evil.md'\" target=\"a.md\""),
            Some("a.md")
        );
        assert_eq!(target("target=a"), Some("a"));
        assert_eq!(target("target=“a b”"), Some("a b"));
        for text in [
            "",
            "target",
            " target=\"a\" target=\"b\"",
            "target=\"a",
            "target=a\"b",
            "a target=b",
        ] {
            assert_eq!(target(text), None, "{text}");
        }
    }

    #[test]
    fn only_names_of_the_grammar_are_tags() {
        let names = TagNames::from_grammar(&Grammar::any_review());
        let read = |text| names.read_tag(text);
        for text in [
            "<Review>",
            "</THINK>",
            "<review run=\"x\">",
            "<content-update target='a'>",
        ] {
            assert!(read(text).is_some(), "{text}");
        }
        for text in [
            "< review >",
            "</ review >",
            "<ns:review>",
            "<re\u{200B}view>",
            "<\u{A0}review\u{A0}>",
        ] {
            assert!(
                read(text).is_some_and(|tag| tag.loose && tag.name == TagName::Review),
                "{text}"
            );
        }
        for text in [
            "<reviewer>",
            "<review-x>",
            "<b>",
            "review>",
            "<rеview>",
            "< review of it >",
            "<",
            "< <",
            "<action>",
        ] {
            assert!(read(text).is_none(), "{text}");
        }
        assert!(!read("<review").unwrap().complete && !read("<review a=\"<b>").unwrap().complete);
        assert_eq!(read("<review a=\"<b>\">PASS").unwrap().length, 16);
        assert!(read("<review />").unwrap().empty);
        assert!(names.may_start("<rev") && !names.may_start("</") && !names.may_start("<b"));
    }
}
