//! The decoded text of a reply, with a map from its offsets to offsets in the raw bytes.

use std::borrow::Cow;
use std::ops::Range;

/// Maximum number of offset pairs that are kept. Past this limit, raw spans are approximate.
const MAX_OFFSETS: usize = 100_000;

/// The text of a reply, and the offsets in the raw bytes from which it was decoded.
#[derive(Clone, Debug)]
pub(super) struct SourceText<'a> {
    pub(super) text: Cow<'a, str>,
    /// Pairs of an offset in the text and the same place in the raw bytes, ascending. From one pair
    /// to the next, both offsets advance by the same number of bytes.
    offsets: Vec<(usize, usize)>,
    /// Number of raw bytes.
    raw_length: usize,
}

impl<'a> SourceText<'a> {
    /// Decodes raw bytes, with U+FFFD for invalid UTF-8. The flag is true if anything was replaced.
    pub(super) fn decode(raw: &'a [u8]) -> (Self, bool) {
        let raw_length = raw.len();
        if let Ok(text) = std::str::from_utf8(raw) {
            return (
                Self {
                    text: Cow::Borrowed(text),
                    offsets: Vec::new(),
                    raw_length,
                },
                false,
            );
        }

        let mut text = String::with_capacity(raw_length);
        let mut offsets = Vec::new();
        let mut at = 0;

        for chunk in raw.utf8_chunks() {
            if !chunk.valid().is_empty() && offsets.len() < MAX_OFFSETS {
                offsets.push((text.len(), at));
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
                offsets,
                raw_length,
            },
            true,
        )
    }

    /// Converts an offset in the text to an offset in the raw bytes.
    pub(super) fn raw_offset(&self, at: usize) -> usize {
        let next = self
            .offsets
            .partition_point(|&(text_offset, _)| text_offset <= at);
        let limit = self
            .offsets
            .get(next)
            .map_or(self.raw_length, |&(_, raw_offset)| raw_offset);

        let (text_offset, raw_offset) = next
            .checked_sub(1)
            .map_or((0, 0), |last| self.offsets[last]);
        // Text that replaces raw bytes, such as U+FFFD, may be longer than these bytes.
        (raw_offset + (at - text_offset)).min(limit)
    }

    /// Converts a span of the text to a span of the raw bytes.
    pub(super) fn raw_span(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.raw_offset(span.start);
        // The end follows the last byte of the span. Raw bytes that were removed right after the span
        // are not part of it.
        let end = if span.is_empty() {
            start
        } else {
            self.raw_offset(span.end - 1) + 1
        };
        start..end.clamp(start, self.raw_length)
    }

    /// Returns a copy of the text with some spans replaced. The spans must be in ascending order and
    /// must not overlap.
    pub(super) fn replace_spans(&self, edits: &[(Range<usize>, &str)]) -> SourceText<'static> {
        let mut out = SourceText {
            text: Cow::Owned(String::with_capacity(self.text.len())),
            offsets: Vec::new(),
            raw_length: self.raw_length,
        };

        let mut at = 0;
        for (span, new) in edits {
            self.copy_span(at..span.start, &mut out);
            out.push_offset(self.raw_offset(span.start));
            out.text.to_mut().push_str(new);
            at = span.end;
        }

        self.copy_span(at..self.text.len(), &mut out);
        out
    }

    /// Returns a copy of the text without some spans. The spans must be in ascending order and must
    /// not overlap.
    pub(super) fn remove_spans(&self, spans: &[Range<usize>]) -> SourceText<'static> {
        self.replace_spans(
            &spans
                .iter()
                .map(|span| (span.clone(), ""))
                .collect::<Vec<_>>(),
        )
    }

    /// Appends a span of this text to `out`, and copies the offset pairs in it.
    fn copy_span(&self, span: Range<usize>, out: &mut SourceText<'static>) {
        out.push_offset(self.raw_offset(span.start));

        let out_start = out.text.len();
        let first = self
            .offsets
            .partition_point(|&(text_offset, _)| text_offset <= span.start);
        let inside = self.offsets[first..]
            .iter()
            .take_while(|(text_offset, _)| *text_offset < span.end);
        let free_pairs = MAX_OFFSETS.saturating_sub(out.offsets.len());
        for &(text_offset, raw_offset) in inside.take(free_pairs) {
            out.offsets
                .push((out_start + text_offset - span.start, raw_offset));
        }

        out.text.to_mut().push_str(&self.text[span]);
    }

    /// Adds an offset pair: the text that is appended next comes from this raw offset.
    fn push_offset(&mut self, raw_offset: usize) {
        if self.offsets.len() < MAX_OFFSETS {
            self.offsets.push((self.text.len(), raw_offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_in_the_text_map_to_offsets_in_the_raw_bytes() {
        let raw = b"a\xFFb\xFE\xFDc<x>";
        let (source, replaced) = SourceText::decode(raw);
        assert!(replaced);
        assert_eq!(source.text, "a\u{FFFD}b\u{FFFD}\u{FFFD}c<x>");
        let at = source.text.find('<').unwrap();
        assert_eq!(source.raw_span(&(at..at + 3)), 6..9);
        let source = source.replace_spans(&[(0..1, ""), (at..at + 1, "&lt;")]);
        assert_eq!(source.text, "\u{FFFD}b\u{FFFD}\u{FFFD}c&lt;x>");
        let at = source.text.find("x>").unwrap();
        assert_eq!(source.raw_span(&(at..at + 2)), 7..9);
        assert_eq!(source.raw_offset(source.text.find('b').unwrap()), 2);
        assert_eq!(source.raw_offset(source.text.len()), 9);
    }
}
