//! A run of backticks that opens a code span if a closing run follows.

use super::{Enclosure, StreamPosition, StreamReader};
use crate::parse::quoted_lines::starts_block;
use crate::text::markdown::Fence;

/// Maximum length of a code span before the run is treated as text.
const MAX_SPAN_BYTES: usize = 2000;

/// Text after a run of backticks, while it is undecided whether it is code.
#[derive(Debug)]
pub(super) struct PendingCode {
    /// Length of the run.
    length: usize,
    /// Fence that the run opens if no other backtick is on its line.
    opener: Option<Fence>,
    text: String,
    /// Length of the text that was shown. From the first `<` on, text is held back until it is clear
    /// whether it is code.
    shown: usize,
    /// Length of the text that was searched for the closing run.
    searched: usize,
    /// Number of backticks at the end of the searched text.
    run: usize,
    /// Start of a line that may or may not belong to the same paragraph.
    line: Option<usize>,
    /// Set if the line belongs to the paragraph only with another backtick on it.
    ticks: bool,
}

/// Decision about a run of backticks.
enum CodeEnd {
    /// A code span that ends at an offset.
    Closed(usize),
    /// A line that opens a fence, up to its end.
    Opener(Fence, usize),
    /// Not a code span.
    Text,
}

impl PendingCode {
    pub(super) fn new(length: usize, opener: Option<Fence>) -> Self {
        Self {
            length,
            opener,
            text: String::new(),
            shown: 0,
            searched: 0,
            run: 0,
            line: None,
            ticks: false,
        }
    }

    /// Examines the new text; `None` while nothing is decided.
    fn advance(&mut self, thought: bool) -> Option<CodeEnd> {
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
                self.run += 1;
                continue;
            }
            if self.run == self.length {
                return Some(CodeEnd::Closed(at));
            }
            self.run = 0;
            if c == '\n' {
                if thought {
                    // In a thought, a code span cannot continue on the next line.
                    return Some(CodeEnd::Text);
                }
                if let Some(fence) = self.opener {
                    return Some(CodeEnd::Opener(fence, at));
                }
                self.line = Some(at + 1);
                self.ticks = false;
            }
        }

        self.searched = self.text.len();
        (self.searched >= MAX_SPAN_BYTES).then_some(CodeEnd::Text)
    }

    /// Returns true if the paragraph ends before a line; `None` while that is undecided.
    fn ends_paragraph(&mut self, start: usize) -> Option<bool> {
        let line = &self.text[start..];
        let last = line.chars().next_back()?;
        if line.len() >= MAX_SPAN_BYTES {
            return Some(true);
        }

        if self.ticks {
            return matches!(last, '`' | '\n').then_some(last == '\n');
        }

        let is_marker = last.is_whitespace() || last.is_ascii_digit() || "-*+.)~".contains(last);
        if last == '`' || (is_marker && last != '\n' && !line.contains('`')) {
            return None;
        }

        let is_block = starts_block(line);
        // A run of backticks opens a fence, unless another one is on its line.
        self.ticks = is_block && last != '\n' && !starts_block(&format!("{line}`"));
        (!self.ticks).then_some(is_block)
    }

    /// Decides at the end of the reply.
    fn end_reply(&mut self) -> CodeEnd {
        if self
            .line
            .take()
            .is_some_and(|start| starts_block(&self.text[start..]))
        {
            return CodeEnd::Text;
        }

        match self.advance(false) {
            None if self.run == self.length => CodeEnd::Closed(self.text.len()),
            end => end.unwrap_or(CodeEnd::Text),
        }
    }
}

impl StreamReader {
    /// Reads a character after a run of backticks.
    pub(super) fn read_code(&mut self, c: char) -> usize {
        let thought = self.inside != Enclosure::Reply;
        let StreamPosition::Code(code) = &mut self.state else {
            return 0;
        };
        let shows = !thought && c != '<' && code.shown == code.text.len();

        code.text.push(c);
        let end = code.advance(thought);
        if shows {
            code.shown = code.text.len();
            self.take_char(c);
        }
        if let Some(end) = end {
            self.leave_code(end);
        }
        c.len_utf8()
    }

    /// Decides about a pending run at the end of the reply.
    pub(super) fn end_in_code(&mut self) {
        if let StreamPosition::Code(code) = &mut self.state {
            let end = code.end_reply();
            self.leave_code(end);
        }
    }

    /// Continues after a code span. Text that turned out not to be code is read again.
    fn leave_code(&mut self, end: CodeEnd) {
        let StreamPosition::Code(code) = std::mem::replace(&mut self.state, StreamPosition::Text)
        else {
            return;
        };

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
