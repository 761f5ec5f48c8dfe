//! Elements outside the protocol, such as `<tool_result>`. Their content is quoted.

use std::ops::Range;

use foldhash::HashMap;

use super::tag::{TagName, TagNames};

/// Maximum length of an element name.
const MAX_NAME_BYTES: usize = 80;

/// Returns the spans of closed elements outside the protocol, sorted and joined where they overlap.
/// An element around the whole reply that contains a message is a wrapper and quotes nothing.
///
/// Tags inside `opaque` spans, such as the body of an update, neither open nor close an element.
///
/// A surplus closing tag extends the last element of the same name, because quoted text may contain
/// a closing tag that ends the element too early.
pub(super) fn foreign_elements(
    text: &str,
    names: &TagNames,
    opaque: &[Range<usize>],
) -> Vec<Range<usize>> {
    let mut open: HashMap<&str, Vec<usize>> = HashMap::default();
    let mut last_closed: HashMap<&str, usize> = HashMap::default();
    let mut spans: Vec<Range<usize>> = Vec::new();

    for at in memchr::memchr_iter(b'<', text.as_bytes()) {
        let Some((name, closes)) = tag_name(&text[at..]) else {
            continue;
        };
        if names.read_tag(&text[at..]).is_some() || contains(opaque, at) {
            continue;
        }

        if !closes {
            open.entry(name).or_default().push(at);
            continue;
        }

        let Some(end) = closer_end(text, at) else {
            continue;
        };
        if let Some(start) = open.get_mut(name).and_then(Vec::pop) {
            last_closed.insert(name, spans.len());
            spans.push(start..end);
        } else if let Some(&index) = last_closed.get(name) {
            spans[index].end = end;
        }
    }

    let whole = text.len() - text.trim_start().len()..text.trim_end().len();
    spans.retain(|span| *span != whole || !holds_message(&text[whole.clone()], names));
    spans.sort_by_key(|span| span.start);
    join_spans(spans)
}

/// Returns the end of a closing tag; `None` if another tag or the end of the line comes first.
fn closer_end(text: &str, at: usize) -> Option<usize> {
    let hit = memchr::memchr3(b'>', b'<', b'\n', &text.as_bytes()[at + 1..])?;
    let end = at + 1 + hit;
    (text.as_bytes()[end] == b'>').then_some(end + 1)
}

fn holds_message(text: &str, names: &TagNames) -> bool {
    let is_message = |at: usize| {
        names
            .read_tag(&text[at..])
            .is_some_and(|tag| tag.name == TagName::Message)
    };
    memchr::memchr_iter(b'<', text.as_bytes()).any(is_message)
}

/// Returns the name of the tag at the start of `text`, and true if the tag closes. Names are
/// case-sensitive.
fn tag_name(text: &str) -> Option<(&str, bool)> {
    let bytes = text.as_bytes();
    let closes = bytes.get(1) == Some(&b'/');
    let start = 1 + usize::from(closes);
    bytes.get(start).filter(|byte| byte.is_ascii_alphabetic())?;

    let is_plain =
        |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'-' | b':' | b'.');
    let length = bytes[start..]
        .iter()
        .take(MAX_NAME_BYTES)
        .take_while(is_plain)
        .count();
    Some((&text[start..start + length], closes))
}

/// Joins overlapping spans, which are sorted by their start.
pub(super) fn join_spans(spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match out.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => out.push(span),
        }
    }
    out
}

/// Returns true if one of several sorted, disjoint spans contains an offset.
pub(super) fn contains(spans: &[Range<usize>], at: usize) -> bool {
    let next = spans.partition_point(|span| span.end <= at);
    spans.get(next).is_some_and(|span| span.contains(&at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Grammar;

    fn find(text: &str) -> Vec<&str> {
        let names = TagNames::from_grammar(&Grammar::any_review());
        foreign_elements(text, &names, &[])
            .into_iter()
            .map(|span| &text[span])
            .collect()
    }

    #[test]
    fn closed_elements_of_other_names_are_found() {
        assert_eq!(find("a <out>b</out> c"), ["<out>b</out>"]);
        assert_eq!(
            find("a <x y='1'>b <x>c</x></x> d"),
            ["<x y='1'>b <x>c</x></x>"]
        );
        assert_eq!(
            find("Vec<String> is <b> fine, <message>a</message>"),
            Vec::<&str>::new()
        );
        let wrapper = "\n<reply>\n<message>a</message>\n</reply>\n";
        assert_eq!(find(wrapper), Vec::<&str>::new(), "around the whole reply");
        assert_eq!(find("<pre>a</pre>"), ["<pre>a</pre>"], "without a message");
    }

    #[test]
    fn a_second_closer_extends_the_element() {
        assert_eq!(find("a <out>b</out> c </out> d"), ["<out>b</out> c </out>"]);
        assert_eq!(find("a </out> b"), Vec::<&str>::new());
    }
}
