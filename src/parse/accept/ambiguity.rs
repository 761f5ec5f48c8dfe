//! Checks that an effect is unambiguous: under no other plausible reading of the reply is it part
//! of code, of a thought or of an update.

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

/// Spans that are code, a thought or part of an update under another reading of the text.
pub(super) struct AlternativeReadings<'a> {
    text: &'a str,
    /// Code, if a fence may start or end at any run of three or more backticks, or only at the top
    /// level of the text.
    fenced: Vec<Range<usize>>,
    /// Closed thoughts in the notations of other agents.
    thoughts: Vec<Range<usize>>,
    /// Text after an update whose end is unclear. It may be part of the update.
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

    /// Returns the reason why an effect is ambiguous; `None` if it is not.
    pub(super) fn find_doubt(&self, span: &Range<usize>) -> Option<&'static str> {
        let at = span.start;
        if contains(&self.unclear, at) {
            return Some("the text may be part of an update");
        }

        if contains(&self.thoughts, at) {
            return Some("the text may be part of a thought");
        }

        let may_be_code = contains(&self.fenced, at) || self.is_indented(at);
        may_be_code.then_some("the text may be part of code")
    }

    /// Returns true if the line of an offset is indented like a code block. An effect that starts
    /// its line may be indented only for layout, unless a blank line precedes it.
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
        let indent = start.chars().take_while(|c| matches!(c, ' ' | '\t'));
        let columns: usize = indent.map(|c| if c == '\t' { 4 } else { 1 }).sum();

        let above = before[..line].trim_end_matches([' ', '\t', '\r']);
        let is_layout_indent =
            start.trim().is_empty() && !(above.ends_with("\n\n") || above.ends_with("\n\r\n"));

        columns >= 4 && !is_layout_indent
    }

    fn text_before(&self, at: usize) -> &'a str {
        &self.text[self
            .text
            .ceil_char_boundary(at.saturating_sub(LINE_LOOKBACK_BYTES))..at]
    }
}

/// Returns the spans between runs of three or more backticks, which may be anywhere on a line. If
/// the number of runs is odd, returns one span from the first run to the last, or from a single run
/// to the end of the text.
fn find_loosely_fenced(text: &str) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(hit) = memmem::find(&text.as_bytes()[at..], b"```") {
        let start = at + hit;
        let length = text.as_bytes()[start..]
            .iter()
            .take_while(|&&b| b == b'`')
            .count();
        at = start + length;
        runs.push(start..at);
    }

    // Two runs on the same line enclose a code span. Neither of them can belong to a fence.
    let mut fence_runs: Vec<Range<usize>> = Vec::new();
    for run in runs {
        match fence_runs.last() {
            Some(last) if !text[last.end..run.start].contains('\n') => {
                fence_runs.pop();
            }
            _ => fence_runs.push(run),
        }
    }

    // With an odd number of runs, it is unclear which of them open a fence and which close one.
    let is_odd = fence_runs.len() % 2 == 1;
    if let (Some(first), Some(last)) = (fence_runs.first(), fence_runs.last())
        && is_odd
    {
        let end = if fence_runs.len() == 1 {
            text.len()
        } else {
            last.end
        };
        return std::iter::once(first.start..end).collect();
    }

    fence_runs
        .chunks(2)
        .map(|pair| pair[0].start..pair[1].end)
        .collect()
}

/// Returns the spans of closed thoughts in notations of other agents.
fn find_foreign_thoughts(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    // Every opening mark starts with one of these. Most texts contain none of them.
    let has_text = |mark: &str| memmem::find(text.as_bytes(), mark.as_bytes()).is_some();
    if !["<|", "◁", "[", "&"].into_iter().any(has_text) {
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
