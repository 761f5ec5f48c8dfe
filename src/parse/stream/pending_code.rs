//! A run of backticks in a streamed reply that opens a code span if a closing run of the same length follows.
//!
//! Until that run is read, the text after the opening run may be code or not. It is kept in [`PendingCode`]; if it turns
//! out not to be code, it is read again as plain text.

use super::{Enclosure, StreamPosition, StreamReader};
use crate::parse::quoted_lines::starts_block;
use crate::text::markdown::Fence;

/// Maximum length of a code span before the run is treated as text.
const MAX_SPAN_BYTES: usize = 2000;

/// Text after a run of backticks, while it is undecided whether it is code.
#[derive(Debug)]
pub(super) struct PendingCode {
    /// Number of backticks that may open the code span.
    opening_run: usize,
    /// Fence that the opening run starts if no other backtick is on its line; `None` if it cannot start one.
    opener: Option<Fence>,
    /// Everything read after the opening run.
    text: String,
    /// Number of bytes of `text` that were already shown. Text from the first `<` on is held back until it is clear
    /// whether it is code.
    shown: usize,
    /// Number of bytes of `text` that were searched for the closing run.
    searched: usize,
    /// Number of backticks at the end of the searched text.
    trailing_run: usize,
    /// Offset of a line in `text`, while it is undecided whether the line belongs to the same paragraph.
    line: Option<usize>,
    /// True if that line starts like a fence of backticks. With another backtick on it, it cannot be a fence, and
    /// belongs to the paragraph; without one, it ends the paragraph.
    needs_backtick: bool,
}

/// Decision about a run of backticks. Offsets are in [`PendingCode::text`].
enum CodeEnd {
    /// The run opens a code span that ends at the offset.
    Closed(usize),
    /// The run opens a fence instead of a code span. The rest of its line, up to the offset, is the info string.
    Opener(Fence, usize),
    /// The run is plain text.
    Text,
}

impl PendingCode {
    pub(super) fn new(opening_run: usize, opener: Option<Fence>) -> Self {
        Self {
            opening_run,
            opener,
            text: String::new(),
            shown: 0,
            searched: 0,
            trailing_run: 0,
            line: None,
            needs_backtick: false,
        }
    }

    /// Searches the new text for the closing run; `None` while nothing is decided.
    fn advance(&mut self, in_thought: bool) -> Option<CodeEnd> {
        if let Some(start) = self.line {
            if self.ends_paragraph(start)? {
                return Some(CodeEnd::Text);
            }
            self.line = None;
        }

        for (at, c) in self.text[self.searched..].char_indices() {
            let at = self.searched + at;
            if c == '`' {
                self.opener = None;
                self.trailing_run += 1;
                continue;
            }
            if self.trailing_run == self.opening_run {
                return Some(CodeEnd::Closed(at));
            }
            self.trailing_run = 0;
            if c == '\n' {
                if in_thought {
                    // In a thought, a code span cannot continue on the next line.
                    return Some(CodeEnd::Text);
                }
                if let Some(fence) = self.opener {
                    return Some(CodeEnd::Opener(fence, at));
                }
                self.line = Some(at + 1);
                self.needs_backtick = false;
            }
        }

        self.searched = self.text.len();
        (self.searched >= MAX_SPAN_BYTES).then_some(CodeEnd::Text)
    }

    /// Returns true if the line at `start` ends the paragraph, and with it the search for the closing run; `None` while
    /// that is undecided.
    ///
    /// A line ends the paragraph if it is blank or starts a block: a heading, a list item, a fence. This is called again
    /// for each character of the line, until those read so far decide it.
    fn ends_paragraph(&mut self, start: usize) -> Option<bool> {
        let line = &self.text[start..];
        let last = line.chars().next_back()?;
        if line.len() >= MAX_SPAN_BYTES {
            return Some(true);
        }

        // The line starts like a fence: the first backtick or the end of the line decides.
        if self.needs_backtick {
            return matches!(last, '`' | '\n').then_some(last == '\n');
        }

        // These characters may be part of a longer marker, such as `10.` or a fence, so wait for the next one.
        let is_marker = last.is_whitespace() || last.is_ascii_digit() || "-*+.)~".contains(last);
        if last == '`' || (is_marker && last != '\n' && !line.contains('`')) {
            return None;
        }

        let is_block = starts_block(line);
        // A line that would no longer start a block with one more backtick starts like a fence.
        self.needs_backtick = is_block && last != '\n' && !starts_block(&format!("{line}`"));
        (!self.needs_backtick).then_some(is_block)
    }

    /// Decides at the end of the reply, where nothing can follow.
    fn end_reply(&mut self) -> CodeEnd {
        if self
            .line
            .take()
            .is_some_and(|start| starts_block(&self.text[start..]))
        {
            return CodeEnd::Text;
        }

        match self.advance(false) {
            None if self.trailing_run == self.opening_run => CodeEnd::Closed(self.text.len()),
            end => end.unwrap_or(CodeEnd::Text),
        }
    }
}

impl StreamReader {
    /// Reads a character after a run of backticks, and returns its length in bytes. Text before the first `<` is shown at
    /// once, because it is shown whether it is code or not.
    pub(super) fn read_code(&mut self, c: char) -> usize {
        let in_thought = self.inside != Enclosure::Reply;
        let StreamPosition::Code(code) = &mut self.state else {
            return 0;
        };
        let shows = !in_thought && c != '<' && code.shown == code.text.len();

        code.text.push(c);
        let end = code.advance(in_thought);
        if shows {
            code.shown = code.text.len();
            self.take_char(c);
        }
        if let Some(end) = end {
            self.leave_code(end);
        }
        c.len_utf8()
    }

    /// Decides, at the end of the reply, whether an undecided run of backticks opened a code span.
    pub(super) fn end_in_code(&mut self) {
        if let StreamPosition::Code(code) = &mut self.state {
            let end = code.end_reply();
            self.leave_code(end);
        }
    }

    /// Continues after a decision: shows the code, and has the text after it read again. If the run is plain text, that is
    /// everything after the run.
    fn leave_code(&mut self, end: CodeEnd) {
        let StreamPosition::Code(code) = std::mem::replace(&mut self.state, StreamPosition::Text)
        else {
            return;
        };

        // No other backtick was read on the line of the run, so the run opens a fence, even if the line is incomplete.
        let end = match (end, code.opener) {
            (CodeEnd::Text, Some(fence)) => CodeEnd::Opener(fence, code.text.len()),
            (end, _) => end,
        };

        let at = match end {
            CodeEnd::Closed(at) => at,
            CodeEnd::Opener(fence, at) => {
                self.state = StreamPosition::Line(Some(fence));
                at
            }
            CodeEnd::Text => 0,
        };

        self.take(&code.text[code.shown.min(at)..at]);
        self.already_shown += code.shown.saturating_sub(at);
        self.again.push_str(&code.text[at..]);
    }
}
