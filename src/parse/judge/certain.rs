//! Checks that an effect is certainly meant: in no other reading is it in code, in a quote or in a thought.

use std::ops::Range;

use memchr::memmem;

use crate::parse::foreign::{contains, join_spans};
use crate::text::markdown::{FenceRules, fenced_spans};

/// Distance in which the start of a line is searched, in bytes.
const BACK: usize = 1000;

/// Thoughts in forms that are no tags of ours.
const THOUGHTS: [(&str, &str); 6] = [
    ("[think", "[/think"),
    ("[THINK", "[/THINK"),
    ("&lt;think", "&lt;/think"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis", "<|end|>"),
];

/// The other ways to read a text.
pub(super) struct Readings<'a> {
    text: &'a str,
    /// What stands in a fence, if any run of three backticks opens and closes one.
    fenced: Vec<Range<usize>>,
    thoughts: Vec<Range<usize>>,
    /// What may be part of something before it.
    unclear: Vec<Range<usize>>,
}

impl<'a> Readings<'a> {
    pub(super) fn of(text: &'a str, unclear: Vec<Range<usize>>) -> Self {
        let mut fenced = loosely_fenced(text);
        if !fenced.is_empty() {
            fenced.extend(fenced_spans(text, FenceRules::TopLevel));
            fenced.sort_by_key(|span| span.start);
        }
        Self {
            text,
            fenced: join_spans(fenced),
            thoughts: thoughts(text),
            unclear,
        }
    }

    /// Returns why an effect may not be meant.
    pub(super) fn doubt(&self, span: &Range<usize>) -> Option<&'static str> {
        let at = span.start;
        if contains(&self.unclear, at) {
            return Some("it may be part of an update");
        }
        if contains(&self.thoughts, at) {
            return Some("it may stand in a thought");
        }
        let code = contains(&self.fenced, at) || self.is_indented(at);
        code.then_some("it may stand in code")
    }

    /// Tells whether a place stands on a line that is indented as code is. An effect that is alone on its line may be
    /// indented for its own sake, unless a blank line comes before.
    fn is_indented(&self, at: usize) -> bool {
        let before = self.before(at);
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

    fn before(&self, at: usize) -> &'a str {
        &self.text[self.text.ceil_char_boundary(at.saturating_sub(BACK))..at]
    }
}

/// Returns what stands between runs of three backticks, wherever on a line they stand. If they do not pair, nobody can
/// tell what stands in code: then all between the first and the last may.
fn loosely_fenced(text: &str) -> Vec<Range<usize>> {
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
    // Two on one line are a code span.
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

fn thoughts(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    // Most texts hold nothing that could start one.
    let foreign = |byte: u8| memchr::memchr(byte, text.as_bytes()).is_some();
    let marks = memmem::find(text.as_bytes(), b"<|").is_some()
        || memmem::find(text.as_bytes(), "◁".as_bytes()).is_some();
    if !marks && !foreign(b'[') && !foreign(b'&') {
        return spans;
    }
    for (open, close) in THOUGHTS {
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
