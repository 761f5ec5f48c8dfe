//! A reply as text that can be read, and the way back from each place in it to the raw bytes.

use std::borrow::Cow;
use std::ops::Range;

/// How many changes are remembered by their place; of later ones only the order is known.
const MOST_PLACES: usize = 100_000;

/// A text, and where in the raw bytes each of its places stands.
#[derive(Clone, Debug)]
pub(super) struct Source<'a> {
    /// The text.
    pub(super) text: Cow<'a, str>,
    /// Places in the text with their places in the raw bytes; between two, both advance alike.
    places: Vec<(usize, usize)>,
    /// The length of the raw bytes.
    raw_length: usize,
}

impl<'a> Source<'a> {
    /// Reads raw bytes: what is no UTF-8 is replaced; tells whether something was.
    pub(super) fn decode(raw: &'a [u8]) -> (Self, bool) {
        let raw_length = raw.len();
        if let Ok(text) = std::str::from_utf8(raw) {
            return (
                Self {
                    text: Cow::Borrowed(text),
                    places: Vec::new(),
                    raw_length,
                },
                false,
            );
        }
        let mut text = String::with_capacity(raw_length);
        let mut places = Vec::new();
        let mut at = 0;
        for chunk in raw.utf8_chunks() {
            if !chunk.valid().is_empty() && places.len() < MOST_PLACES {
                places.push((text.len(), at));
            }
            text.push_str(chunk.valid());
            at += chunk.valid().len() + chunk.invalid().len();
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        (
            Self {
                text: Cow::Owned(text),
                places,
                raw_length,
            },
            true,
        )
    }

    /// Returns where a place of the text stands in the raw bytes.
    pub(super) fn raw(&self, at: usize) -> usize {
        let next = self.places.partition_point(|&(text, _)| text <= at);
        let limit = self
            .places
            .get(next)
            .map_or(self.raw_length, |&(_, raw)| raw);
        let (text, raw) = next.checked_sub(1).map_or((0, 0), |last| self.places[last]);
        (raw + (at - text)).min(limit)
    }

    /// Returns where a span of the text stands in the raw bytes.
    pub(super) fn raw_span(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.raw(span.start);
        // What was taken out behind the end is no part of it.
        let end = if span.is_empty() {
            start
        } else {
            self.raw(span.end - 1) + 1
        };
        start..end.clamp(start, self.raw_length)
    }

    /// Returns the source with spans replaced by other texts; the spans ascend.
    pub(super) fn rewritten(&self, edits: &[(Range<usize>, &str)]) -> Source<'static> {
        let mut out = Source {
            text: Cow::Owned(String::with_capacity(self.text.len())),
            places: Vec::new(),
            raw_length: self.raw_length,
        };
        let mut at = 0;
        for (span, new) in edits {
            self.keep(at..span.start, &mut out);
            out.place(self.raw(span.start));
            out.text.to_mut().push_str(new);
            at = span.end;
        }
        self.keep(at..self.text.len(), &mut out);
        out
    }

    /// Returns the source without some spans, which ascend.
    pub(super) fn without(&self, spans: &[Range<usize>]) -> Source<'static> {
        self.rewritten(
            &spans
                .iter()
                .map(|span| (span.clone(), ""))
                .collect::<Vec<_>>(),
        )
    }

    fn keep(&self, span: Range<usize>, out: &mut Source<'static>) {
        out.place(self.raw(span.start));
        let offset = out.text.len();
        let first = self.places.partition_point(|&(text, _)| text <= span.start);
        let inside = self.places[first..]
            .iter()
            .take_while(|(text, _)| *text < span.end);
        for &(text, raw) in inside.take(MOST_PLACES.saturating_sub(out.places.len())) {
            out.places.push((offset + text - span.start, raw));
        }
        out.text.to_mut().push_str(&self.text[span]);
    }

    fn place(&mut self, raw: usize) {
        if self.places.len() < MOST_PLACES {
            self.places.push((self.text.len(), raw));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_leads_back_to_the_raw_bytes() {
        let raw = b"a\xFFb\xFE\xFDc<x>";
        let (source, replaced) = Source::decode(raw);
        assert!(replaced);
        assert_eq!(source.text, "a\u{FFFD}b\u{FFFD}\u{FFFD}c<x>");
        let at = source.text.find('<').unwrap();
        assert_eq!(source.raw_span(&(at..at + 3)), 6..9);
        let source = source.rewritten(&[(0..1, ""), (at..at + 1, "&lt;")]);
        assert_eq!(source.text, "\u{FFFD}b\u{FFFD}\u{FFFD}c&lt;x>");
        let at = source.text.find("x>").unwrap();
        assert_eq!(source.raw_span(&(at..at + 2)), 7..9);
        assert_eq!(source.raw(source.text.find('b').unwrap()), 2);
        assert_eq!(source.raw(source.text.len()), 9);
    }
}
