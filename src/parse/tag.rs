//! Tags of the grammar: their names, attributes and closers.

use std::borrow::Cow;

use crate::models::{Grammar, THOUGHT_TAGS};
use crate::text::invisible::is_invisible;

/// How many names there are, more or less.
const MOST_NAMES: usize = 80;

/// The longest name of a tag, a prefix included.
const LONGEST_NAME: usize = 80;

/// The longest tag in whose attributes brackets may stand.
const LONGEST_TAG: usize = 2000;

/// The most values in quotes of such a tag: what holds more is looked at no further.
const MOST_QUOTED: usize = 16;

/// The most blanks and invisible characters before a name.
const MOST_BLANKS: usize = 4;

/// How many lengths of names are told apart.
const LENGTHS: usize = 32;

/// What a tag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Thinking,
    Message,
    Review,
    TaskStatus,
    Update,
    /// An action, in the form that the protocol names or in one that agents know from elsewhere.
    Call(Call),
    /// A marker of the pack's own, by its place in the grammar.
    Own(usize),
    /// What some agents put around their calls.
    Wrapper,
}

/// The forms of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Call {
    /// `<action type="save">`.
    Action,
    /// `<invoke name="save">`.
    Invoke,
    /// `<function=save>`.
    Function,
    /// `<tool_call>{"name": "save"}</tool_call>`.
    Tool,
    /// `<save>`, by the action's place in the grammar.
    Named(usize),
}

/// A tag of the grammar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag<'a> {
    pub(super) name: Name,
    /// Whether it closes.
    pub(super) closes: bool,
    /// What stands between the name and `>`, without a `/` at its end.
    pub(super) attributes: &'a str,
    /// The length, brackets included; a tag without `>` has the length of what can be seen of it.
    pub(super) length: usize,
    /// Whether its `>` is there.
    pub(super) complete: bool,
    /// Whether it ends with `/>`.
    pub(super) empty: bool,
    /// Whether blanks, a prefix or invisible characters stand in it.
    pub(super) loose: bool,
}

impl Tag<'_> {
    /// Tells whether a tag is the parameter of a type, such as `Option<Thought>`, by what stands before it and its text.
    pub(super) fn is_generic(&self, before: &str, text: &str) -> bool {
        let name = text.as_bytes().get(1..3).unwrap_or_default();
        let camel = matches!(name, [first, second] if first.is_ascii_uppercase() && second.is_ascii_lowercase());
        let marks = matches!(
            self.name,
            Name::Review | Name::TaskStatus | Name::Own(_) | Name::Update
        );
        camel
            && before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !marks
            && self.attributes.is_empty()
    }
}

/// The names of a grammar's tags.
#[derive(Debug)]
pub(super) struct Names {
    /// The names with what they mean, the shortest first.
    known: Vec<(Cow<'static, str>, Name)>,
    /// The first letters of the names, as bits, by the names' length.
    first_letters: [u32; LENGTHS],
}

impl Names {
    /// Returns the names of a grammar's tags.
    pub(super) fn of(grammar: &Grammar) -> Self {
        let mut known: Vec<(Cow<'static, str>, Name)> = Vec::with_capacity(MOST_NAMES);
        let mut add = |name: &'static str, tag| known.push((Cow::Borrowed(name), tag));
        THOUGHT_TAGS
            .iter()
            .for_each(|name| add(name, Name::Thinking));
        add("message", Name::Message);
        add("review", Name::Review);
        add("task_status", Name::TaskStatus);
        add("content_update", Name::Update);
        if grammar.knows_actions() {
            add("action", Name::Call(Call::Action));
            add("invoke", Name::Call(Call::Invoke));
            add("function", Name::Call(Call::Function));
            add("tool_call", Name::Call(Call::Tool));
            ["function_calls", "tool_calls", "actions"]
                .iter()
                .for_each(|name| add(name, Name::Wrapper));
        }
        // Of two tags with the same name, the first counts.
        for (index, marker) in grammar.markers.iter().enumerate() {
            known.push((
                Cow::Owned(marker.name.to_ascii_lowercase()),
                Name::Own(index),
            ));
        }
        let find = |name: &str| {
            known
                .iter()
                .find(|(known, _)| known == name)
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
            .filter(|(_, name)| find(name).is_none());
        let calls = calls.map(|(index, name)| (name, Name::Call(Call::Named(index))));
        let others = aliases
            .chain(calls)
            .map(|(name, tag)| (Cow::Owned(name.to_ascii_lowercase()), tag));
        let others: Vec<_> = others.collect();
        known.extend(others);
        known.sort_by_key(|(name, _)| name.len());
        let mut first_letters = [0; LENGTHS];
        for (name, _) in &known {
            let first = name.bytes().next().and_then(letter);
            first_letters[name.len().min(LENGTHS - 1)] |= first.unwrap_or_default();
        }
        Self {
            known,
            first_letters,
        }
    }

    fn find(&self, name: &[u8]) -> Option<Name> {
        let same = |a: u8, b: u8| a.eq_ignore_ascii_case(&b) || (a == b'_' && b == b'-');
        let is = |known: &str| known.bytes().zip(name).all(|(a, &b)| same(a, b));
        // One look tells of most names that there is none.
        let letters = self.first_letters[name.len().min(LENGTHS - 1)];
        if letter(*name.first()?).is_some_and(|first| first & letters == 0) {
            return None;
        }
        let start = self
            .known
            .partition_point(|(known, _)| known.len() < name.len());
        let same_length = self.known[start..]
            .iter()
            .take_while(|(known, _)| known.len() == name.len());
        same_length
            .into_iter()
            .find(|(known, _)| is(known))
            .map(|(_, tag)| *tag)
    }

    /// Tells whether a text, cut off after it, may be the start of a tag.
    pub(super) fn may_start(&self, text: &str) -> bool {
        let inner = text
            .strip_prefix("</")
            .or_else(|| text.strip_prefix('<'))
            .unwrap_or(text);
        !inner.is_empty()
            && (self.read(text).is_some()
                || self.known.iter().any(|(name, _)| {
                    name.get(..inner.len())
                        .is_some_and(|start| start.eq_ignore_ascii_case(inner))
                }))
    }

    /// Reads the tag that a text starts with, in any case. Most of what starts with `<` is something else: one look
    /// tells.
    pub(super) fn read<'a>(&self, text: &'a str) -> Option<Tag<'a>> {
        let bytes = text.as_bytes();
        if bytes.first() != Some(&b'<') {
            return None;
        }
        let start = 1 + usize::from(bytes.get(1) == Some(&b'/'));
        match *bytes.get(start)? {
            byte if byte.is_ascii_alphabetic() => {
                let end = start + bytes[start..].iter().take_while(|b| is_plain(**b)).count();
                let next = bytes.get(end).copied().unwrap_or(b'>');
                if matches!(
                    next,
                    b'>' | b' ' | b'\t' | b'\n' | b'\r' | b'/' | b'<' | b'='
                ) {
                    let name = self.find(&bytes[start..end])?;
                    let loose = bytes[start..end].contains(&b'-');
                    return tag(text, name, start == 2, end, loose);
                }
                (next == b':' || next >= 0x80).then(|| self.read_loosely(text, start))?
            }
            b' ' | b'\t' | 0x80.. => self.read_loosely(text, start),
            _ => None,
        }
    }

    /// Reads a tag with blanks, a prefix or invisible characters in it. It must be well-formed otherwise.
    fn read_loosely<'a>(&self, text: &'a str, start: usize) -> Option<Tag<'a>> {
        let blank = |c: char| matches!(c, ' ' | '\t' | '\u{A0}') || is_invisible(c);
        let mut rest = text[start..].chars();
        let (mut at, mut closes, mut blanks) = (start, start == 2, 0);
        let mut name: Vec<u8> = Vec::new();
        while let Some(c) = rest.next().filter(|_| at - start < LONGEST_NAME) {
            match c {
                c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => name.push(c as u8),
                '/' if name.is_empty() && !closes => closes = true,
                // A prefix, such as `ns:`.
                ':' if !name.is_empty() => name.clear(),
                c if blank(c) && name.is_empty() && blanks < MOST_BLANKS => blanks += 1,
                // What cannot be seen does not end a name; a blank does, unless there is no such name.
                c if is_invisible(c) || (c == '\u{A0}' && self.find(&name).is_none()) => {}
                _ => break,
            }
            at += c.len_utf8();
        }
        let found = self.find(&name)?;
        let tag = tag(text, found, closes, at, true)?;
        (tag.complete && attributes(tag.attributes).is_some()).then_some(tag)
    }
}

/// Tells the characters of plain names.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns a letter as a bit.
fn letter(byte: u8) -> Option<u32> {
    byte.is_ascii_alphabetic()
        .then(|| 1 << (byte.to_ascii_lowercase() - b'a'))
}

/// Reads the rest of a tag whose name ends at an offset.
fn tag(text: &str, name: Name, closes: bool, at: usize, loose: bool) -> Option<Tag<'_>> {
    let after = &text[at..];
    let joined = after.starts_with('=');
    if joined && name != Name::Call(Call::Function) {
        return None;
    }
    let ends = |c: char| matches!(c, '>' | '/' | '<' | '=') || c.is_whitespace();
    if !after.is_empty() && !after.starts_with(ends) {
        return None;
    }
    let end = quoted_end(after).or_else(|| memchr::memchr3(b'>', b'<', b'\n', after.as_bytes()));
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

/// Returns where a tag ends whose attributes hold brackets in quotes. A tag does not reach over a line: its `>` may be
/// the mark of a quote.
fn quoted_end(after: &str) -> Option<usize> {
    let bytes = &after.as_bytes()[..after.len().min(LONGEST_TAG)];
    let first = memchr::memchr3(b'>', b'<', b'\n', bytes)?;
    if !bytes[..first].contains(&b'"') && !bytes[..first].contains(&b'\'') {
        return None;
    }
    let (mut quote, mut last, mut quotes) = (None, b' ', 0);
    for (at, &byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (_, b'\n') | (None, b'<') => return None,
            (Some(open), _) if open == byte => quote = None,
            (None, b'"' | b'\'') if last == b'=' && quotes == MOST_QUOTED => return None,
            (None, b'"' | b'\'') if last == b'=' => (quote, quotes) = (Some(byte), quotes + 1),
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
    /// Whether a value has no quotes, or curly ones.
    pub(super) loose: bool,
}

impl<'a> Attributes<'a> {
    /// Returns an attribute's value, in any case; `None` if it is missing or stands twice.
    pub(super) fn get(&self, wanted: &str) -> Option<&'a str> {
        let mut found = self
            .pairs
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let value = found.next()?.1;
        found.next().is_none().then_some(value)
    }
}

/// Reads attributes with any quotes or none; `None` if they cannot be read.
pub(super) fn attributes(text: &str) -> Option<Attributes<'_>> {
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
        let target = |text| attributes(text).and_then(|read| read.get("target"));
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
        let names = Names::of(&Grammar::any_review());
        let read = |text| names.read(text);
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
                read(text).is_some_and(|tag| tag.loose && tag.name == Name::Review),
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
