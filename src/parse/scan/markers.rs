//! Markers: `<review>`, `<task_status>` and those of a pack's own.

use super::{FoundMarker, LONGEST_MARKER, MarkerValue, Scanner};
use crate::models::{Code, ReviewResult, TaskStatus};
use crate::parse::tag::{Name, Tag, attributes};
use crate::parse::verdict::{is_alternation, leading, named, read_value};

impl<'a> Scanner<'a> {
    pub(super) fn marker(&mut self, opener: Tag<'a>) {
        let start = self.at + opener.length;
        let body_length = if opener.empty { None } else { self.marker_end(&opener, start) };
        let body = body_length.and_then(|length| self.text.get(start..start + length));
        let value = body.and_then(|body| self.marker_value(&opener, body));
        if opener.name == Name::Review && !opener.attributes.is_empty() {
            // A verdict in the tag itself is none, and contradicts the body.
            self.found.quoted = self.found.quoted.max(named(opener.attributes));
        }
        let (Some(value), Some(length)) = (value, body_length) else {
            if opener.name == Name::Review {
                self.unreadable_review(start, body);
            }
            if let Name::Own(marker) = opener.name {
                self.doubt_own(marker, Some(usize::MAX));
            }
            self.problem(Code::UnreadableMarker, self.at..start);
            self.found.open |= start >= self.text.len();
            // What is closed and cannot be read stays in the text as it is.
            let closer = body_length.and_then(|length| self.names.read(&self.text[start + length..]));
            let inside = body.is_some_and(|body| self.holds_tag(body));
            self.at = match (closer, body_length) {
                (Some(closer), Some(length)) if !inside => start + length + closer.length,
                _ => start,
            };
            return;
        };
        self.note_attributes(&opener);
        let closer = self.text.get(start + length..).and_then(|text| self.names.read(text));
        let span = self.at..start + length + closer.map_or(0, |tag| tag.length);
        self.found.markers.push(FoundMarker { span: span.clone(), value });
        self.cut(span.clone(), false, true);
        self.at = span.end;
    }

    /// Returns the length of a marker's body: the next tag of the same name ends it. If that one opens, this one was
    /// only spoken of.
    fn marker_end(&self, opener: &Tag<'a>, start: usize) -> Option<usize> {
        let near = &self.text.as_bytes()[start..self.text.len().min(start + LONGEST_MARKER)];
        let same = |at: usize| {
            let text = self.text.get(start + at..)?;
            let tag = self.names.read(text).filter(|tag| tag.name == opener.name)?;
            Some((at, tag.closes && tag.complete))
        };
        let end = memchr::memchr_iter(b'<', near).find_map(same);
        end.filter(|(_, closes)| *closes && opener.complete).map(|(at, _)| at)
    }

    fn marker_value(&self, opener: &Tag<'a>, body: &str) -> Option<MarkerValue> {
        // Another tag of ours inside it: nobody can tell what belongs to what.
        if self.holds_tag(body) {
            return None;
        }
        match opener.name {
            Name::Review => {
                let verdict = read_value(&without_tags(body))?;
                let read = attributes(opener.attributes);
                let run = read.as_ref().and_then(|read| read.get("run").map(str::to_owned));
                // What else stands in the tag may say anything of a PASS.
                let plain = read.is_some_and(|read| read.pairs.len() == usize::from(run.is_some()));
                (plain || verdict != ReviewResult::Pass).then_some(MarkerValue::Review { verdict, run })
            }
            Name::Own(marker) => {
                let rank = self.grammar.markers[marker].rank(body)?;
                Some(MarkerValue::Own { marker, rank })
            }
            _ => task_status(opener.attributes, body),
        }
    }

    fn holds_tag(&self, body: &str) -> bool {
        memchr::memchr_iter(b'<', body.as_bytes()).any(|at| self.names.read(&body[at..]).is_some())
    }

    /// Notes a `<review>` that is there and cannot be read, unless it only shows which values there are.
    fn unreadable_review(&mut self, start: usize, body: Option<&str>) {
        match body {
            Some(body) if is_alternation(body) => {}
            Some(body) => {
                self.found.unreadable |= !body.trim().is_empty();
                self.found.quoted = self.found.quoted.max(named(body));
            }
            None => {
                // A reply that ends in a verdict may have ended in any.
                let after = &self.text[start..];
                self.found.unreadable |= starts_verdict(after) || leading(after).is_some();
                self.doubt(&self.text[start..]);
                self.doubt_after_brackets(start);
            }
        }
    }

    /// Looks behind each `>` nearby: of a broken opening tag nobody can tell where it ends.
    fn doubt_after_brackets(&mut self, start: usize) {
        let text = self.text;
        let near = &text.as_bytes()[start..text.len().min(start + LONGEST_MARKER)];
        memchr::memchr_iter(b'>', near).take(4).for_each(|at| self.doubt(&text[start + at + 1..]));
    }
}

/// Tells whether a text, cut off after it, may be the start of a verdict.
fn starts_verdict(text: &str) -> bool {
    let text = text.trim_start();
    let length =
        text.bytes().take(LONGEST_MARKER).take_while(|b| b.is_ascii_alphabetic() || *b == b'_').count();
    let (word, rest) = text.split_at(length);
    let starts = |name: &str| name.get(..length).is_some_and(|start| start.eq_ignore_ascii_case(word));
    ReviewResult::ALL.iter().any(|verdict| starts(verdict.name())) && rest.trim_start().is_empty()
}

/// Returns a marker's body without markup inside it, such as `<b>`.
fn without_tags(body: &str) -> String {
    let mut out = String::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        let end = if after.starts_with("!--") { "-->" } else { ">" };
        rest = after.split_once(end).map_or("", |(_, rest)| rest);
    }
    out + rest
}

fn task_status(text: &str, body: &str) -> Option<MarkerValue> {
    let id = attributes(text)?.get("id")?.trim().to_owned();
    let status = match body.trim().to_ascii_uppercase().as_str() {
        "COMPLETED" => TaskStatus::Completed,
        "FAILED" => TaskStatus::Failed,
        _ => return None,
    };
    (!id.is_empty()).then_some(MarkerValue::Task { id, status })
}
