//! Checks that an effect is unambiguous: it must not be in code, in a quote or in a thought under
//! any other plausible reading of the reply.

use std::ops::Range;

use memchr::memmem;

use crate::parse::foreign::{contains, join_spans};
use crate::text::markdown::{FenceRules, fenced_spans};

/// Number of bytes before an effect that are searched for the start of its line.
const LINE_LOOKBACK_BYTES: usize = 1000;

/// Opening and closing marks of thoughts that are not tags of the grammar.
const FOREIGN_THOUGHT_TAGS: [(&str, &str); 6] = [
    ("[think", "[/think"),
    ("[THINK", "[/THINK"),
    ("&lt;think", "&lt;/think"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis", "<|end|>"),
];

/// Spans that another reading of a text would treat as code, thought or update.
pub(super) struct AlternativeReadings<'a> {
    text: &'a str,
    /// Text in a fence, if any run of three backticks may open or close one.
    fenced: Vec<Range<usize>>,
    thoughts: Vec<Range<usize>>,
    /// Text that may be part of an update before it.
    unclear: Vec<Range<usize>>,
}

impl<'a> AlternativeReadings<'a> {
    pub(super) fn new(text: &'a str, unclear: Vec<Range<usize>>) -> Self {
        let mut fenced = find_loosely_fenced(text);
        if !fenced.is_empty() {
            fenced.extend(fenced_spans(text, FenceRules::TopLevel));
            fenced.sort_by_key(|span| span.start);
        }
        Self {
            text,
            fenced: join_spans(fenced),
            thoughts: find_foreign_thoughts(text),
            unclear,
        }
    }

    /// Returns the reason why an effect may not be meant.
    pub(super) fn find_doubt(&self, span: &Range<usize>) -> Option<&'static str> {
        let at = span.start;
        if contains(&self.unclear, at) {
            return Some("it may be part of an update");
        }

        if contains(&self.thoughts, at) {
            return Some("it may be part of a thought");
        }

        let code = contains(&self.fenced, at) || self.is_indented(at);
        code.then_some("it may be part of code")
    }

    /// Returns true if an offset is on a line indented like code. An effect that is alone on its
    /// line may be indented for layout, unless a blank line precedes it.
    fn is_indented(&self, at: usize) -> bool {
        let before = self.text_before(at);
        let Some(line) = before
            .rfind('\n')
            .map(|newline| newline + 1)
            .or((before.len() == at).then_some(0))
        else {
            return false;
        };

        let start = &before[line..];
        let blanks = start.chars().take_while(|c| matches!(c, ' ' | '\t'));
        let columns: usize = blanks.map(|c| if c == '\t' { 4 } else { 1 }).sum();

        let above = before[..line].trim_end_matches([' ', '\t', '\r']);
        let alone =
            start.trim().is_empty() && !(above.ends_with("\n\n") || above.ends_with("\n\r\n"));

        columns >= 4 && !alone
    }

    fn text_before(&self, at: usize) -> &'a str {
        &self.text[self
            .text
            .ceil_char_boundary(at.saturating_sub(LINE_LOOKBACK_BYTES))..at]
    }
}

/// Returns the text between runs of three backticks anywhere on a line. If the runs do not pair,
/// everything between the first and the last may be code.
fn find_loosely_fenced(text: &str) -> Vec<Range<usize>> {
    let mut marks = Vec::new();
    let mut at = 0;
    while let Some(hit) = memmem::find(&text.as_bytes()[at..], b"```") {
        let start = at + hit;
        let length = text.as_bytes()[start..]
            .iter()
            .take_while(|&&b| b == b'`')
            .count();
        at = start + length;
        marks.push(start..at);
    }

    // Two runs on one line are a code span.
    let mut lines: Vec<Range<usize>> = Vec::new();
    for mark in marks {
        match lines.last() {
            Some(last) if !text[last.end..mark.start].contains('\n') => {
                lines.pop();
            }
            _ => lines.push(mark),
        }
    }

    if let (Some(first), Some(last), 1) = (lines.first(), lines.last(), lines.len() % 2) {
        let end = if lines.len() == 1 {
            text.len()
        } else {
            last.end
        };
        return std::iter::once(first.start..end).collect();
    }

    lines
        .chunks(2)
        .map(|pair| pair[0].start..pair[1].end)
        .collect()
}

/// Returns the spans of closed thoughts in notations of other agents.
fn find_foreign_thoughts(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    // Most texts contain none of the marks.
    let foreign = |byte: u8| memchr::memchr(byte, text.as_bytes()).is_some();
    let marks = memmem::find(text.as_bytes(), b"<|").is_some()
        || memmem::find(text.as_bytes(), "◁".as_bytes()).is_some();
    if !marks && !foreign(b'[') && !foreign(b'&') {
        return spans;
    }

    for (open, close) in FOREIGN_THOUGHT_TAGS {
        let mut at = 0;
        while let Some(hit) = memmem::find(&text.as_bytes()[at..], open.as_bytes()) {
            let start = at + hit;
            let Some(end) = memmem::find(&text.as_bytes()[start..], close.as_bytes()) else {
                break;
            };
            at = start + end + close.len();
            spans.push(start..at);
        }
    }

    spans.sort_by_key(|span| span.start);
    join_spans(spans)
}
