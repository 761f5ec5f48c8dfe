//! Code spans: text between runs of backticks of the same length.

use std::ops::Range;

use foldhash::HashMap;
use memchr::memchr;

use super::quoted_lines::starts_block;

/// Runs of backticks in the paragraph that was looked up last.
#[derive(Default)]
pub(super) struct CodeSpans {
    /// End offset of the paragraph.
    pub(super) end: usize,
    /// Each run in order: its start, its length, and the end of the next run of the same length.
    runs: Vec<(usize, usize, Option<usize>)>,
}

impl CodeSpans {
    /// Finds the runs from an offset to the end of the paragraph, and pairs each with the next run
    /// of the same length.
    pub(super) fn from_paragraph(text: &str, from: usize) -> Self {
        let mut lines = text[from..].split_inclusive('\n');
        let first = lines.next().map_or(0, str::len);
        let end = from
            + first
            + lines
                .take_while(|line| !starts_block(line))
                .map(str::len)
                .sum::<usize>();
        Self::from_range(text, from, end)
    }

    fn from_range(text: &str, from: usize, end: usize) -> Self {
        let mut runs = Vec::new();
        let mut at = from;

        while let Some(hit) = memchr(b'`', &text.as_bytes()[at..end]) {
            let start = at + hit;
            let length = text.as_bytes()[start..end]
                .iter()
                .take_while(|&&b| b == b'`')
                .count();
            runs.push((start, length, None));
            at = start + length;
        }

        let mut next_of_length: HashMap<usize, usize> = HashMap::default();
        for (start, length, partner) in runs.iter_mut().rev() {
            *partner = next_of_length.insert(*length, *start + *length);
        }
        Self { end, runs }
    }

    /// Returns the length of the run at an offset, and the end of the next run of the same length.
    pub(super) fn run(&self, at: usize) -> (usize, Option<usize>) {
        let index = self.runs.binary_search_by_key(&at, |run| run.0);
        index.map_or((1, None), |index| (self.runs[index].1, self.runs[index].2))
    }
}

/// Code spans of the line that was looked up last. With ascending lookups, the reply is read once.
#[derive(Default)]
pub(super) struct LineCodeSpans {
    line: Range<usize>,
    spans: Vec<Range<usize>>,
}

impl LineCodeSpans {
    /// Returns true if an offset is inside a code span that starts and ends on the same line.
    pub(super) fn contains(&mut self, text: &str, at: usize) -> bool {
        if !self.line.contains(&at) {
            let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
            let end = text[at..]
                .find('\n')
                .map_or(text.len(), |newline| at + newline + 1);
            *self = Self {
                line: start..end,
                spans: find_code_spans(text, start, end),
            };
        }

        let next = self.spans.partition_point(|span| span.end <= at);
        self.spans.get(next).is_some_and(|span| span.contains(&at))
    }
}

/// Finds the code spans between two offsets. A backslash escapes a backtick.
fn find_code_spans(text: &str, start: usize, end: usize) -> Vec<Range<usize>> {
    let runs = CodeSpans::from_range(text, start, end);
    let mut spans = Vec::new();
    let mut from = start;

    while let Some(hit) = memchr(b'`', &text.as_bytes()[from..end]) {
        let run = from + hit;
        // An odd number of backslashes before a backtick escapes it.
        let is_escaped = text[start..run]
            .bytes()
            .rev()
            .take_while(|&b| b == b'\\')
            .count()
            % 2
            == 1;
        let (length, close) = runs.run(run);
        match close {
            _ if is_escaped => from = run + 1,
            Some(close) => {
                spans.push(run..close);
                from = close;
            }
            None => from = run + length,
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the code spans of a string, as CommonMark reads them within one paragraph.
    fn spans(text: &str) -> Vec<&str> {
        find_code_spans(text, 0, text.len())
            .into_iter()
            .map(|span| &text[span])
            .collect()
    }

    #[test]
    fn a_code_span_ends_at_the_next_run_of_the_same_length() {
        assert_eq!(spans("a `b` c `d`"), ["`b`", "`d`"]);
        assert_eq!(spans("``a ` b``"), ["``a ` b``"]);
        assert_eq!(spans("`a ``b` c"), ["`a ``b`"]);
        assert_eq!(spans("a ` b"), Vec::<&str>::new(), "not closed");
        assert_eq!(
            spans("\\`a` b`"),
            ["` b`"],
            "an escaped backtick opens nothing"
        );
        assert_eq!(
            spans("\\\\`a`"),
            ["`a`"],
            "an escaped backslash escapes nothing"
        );
    }

    #[test]
    fn a_code_span_does_not_reach_into_the_next_block() {
        let text = "a ` b\n- c ` d\n";
        let paragraph = CodeSpans::from_paragraph(text, 0);
        assert_eq!(paragraph.end, "a ` b\n".len());
        assert_eq!(paragraph.run(2), (1, None));
    }

    #[test]
    fn an_offset_is_looked_up_in_its_line() {
        let text = "`a\nb` c\n\n`d`";
        assert!(!LineCodeSpans::default().contains(text, 1));
        assert!(LineCodeSpans::default().contains(text, text.find('d').unwrap()));
    }
}
