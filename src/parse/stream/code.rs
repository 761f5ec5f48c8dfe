//! A code span that may not be one: only the run that closes it tells.

use super::{Inside, Reader, State};
use crate::parse::line::starts_block;
use crate::text::markdown::Fence;

/// The longest code span that is waited for.
const LONGEST_SPAN: usize = 2000;

/// What stands behind a run of backticks.
#[derive(Debug)]
pub(super) struct Code {
    /// The length of the run.
    length: usize,
    /// The fence that it opens if no other backtick stands on its line.
    opener: Option<Fence>,
    text: String,
    /// How much of the text was shown. From the first `<` on it waits: there it matters whether this is code.
    shown: usize,
    /// How much of the text was looked at for the run that closes the span, and how many backticks were last in it.
    looked: usize,
    run: usize,
    /// Where a line starts of which nobody can tell yet whether it belongs to the same paragraph.
    line: Option<usize>,
    /// Whether that depends on another backtick on the line.
    ticks: bool,
}

/// What a code span turns out to be.
enum End {
    /// A span that ends at an offset.
    Closed(usize),
    /// The line that opens a fence, up to its end.
    Opener(Fence, usize),
    /// No span.
    Text,
}

impl Code {
    pub(super) fn new(length: usize, opener: Option<Fence>) -> Self {
        Self {
            length,
            opener,
            text: String::new(),
            shown: 0,
            looked: 0,
            run: 0,
            line: None,
            ticks: false,
        }
    }

    /// Looks at the last character; returns what it decides.
    fn look(&mut self, thought: bool) -> Option<End> {
        if let Some(start) = self.line {
            if self.leaves(start)? {
                return Some(End::Text);
            }
            self.line = None;
        }
        for (at, c) in self.text[self.looked..].char_indices() {
            let at = self.looked + at;
            if c == '`' {
                self.opener = None;
                self.run += 1;
                continue;
            }
            if self.run == self.length {
                return Some(End::Closed(at));
            }
            self.run = 0;
            if c == '\n' {
                if thought {
                    // In a thought, a span ends on its line.
                    return Some(End::Text);
                }
                if let Some(fence) = self.opener {
                    return Some(End::Opener(fence, at));
                }
                (self.line, self.ticks) = (Some(at + 1), false);
            }
        }
        self.looked = self.text.len();
        (self.looked >= LONGEST_SPAN).then_some(End::Text)
    }

    /// Tells whether the paragraph ends before a line, as soon as that is clear.
    fn leaves(&mut self, start: usize) -> Option<bool> {
        let line = &self.text[start..];
        let last = line.chars().next_back()?;
        if line.len() >= LONGEST_SPAN {
            return Some(true);
        }
        if self.ticks {
            return matches!(last, '`' | '\n').then_some(last == '\n');
        }
        let mark = last.is_whitespace() || last.is_ascii_digit() || "-*+.)~".contains(last);
        if last == '`' || (mark && last != '\n' && !line.contains('`')) {
            return None;
        }
        let block = starts_block(line);
        // A run of backticks opens a fence, unless another one stands on its line.
        self.ticks = block && last != '\n' && !starts_block(&format!("{line}`"));
        (!self.ticks).then_some(block)
    }

    /// Tells what it is at the end of the reply.
    fn end(&mut self) -> End {
        if self
            .line
            .take()
            .is_some_and(|start| starts_block(&self.text[start..]))
        {
            return End::Text;
        }
        match self.look(false) {
            None if self.run == self.length => End::Closed(self.text.len()),
            end => end.unwrap_or(End::Text),
        }
    }
}

impl Reader {
    /// Takes a character behind a run of backticks.
    pub(super) fn code(&mut self, c: char) -> usize {
        let thought = self.inside != Inside::Reply;
        let State::Code(code) = &mut self.state else {
            return 0;
        };
        let shows = !thought && c != '<' && code.shown == code.text.len();
        code.text.push(c);
        let end = code.look(thought);
        if shows {
            code.shown = code.text.len();
            self.take_char(c);
        }
        if let Some(end) = end {
            self.leave_code(end);
        }
        c.len_utf8()
    }

    /// Decides what stands behind a run of backticks at the end of the reply.
    pub(super) fn end_in_code(&mut self) {
        if let State::Code(code) = &mut self.state {
            let end = code.end();
            self.leave_code(end);
        }
    }

    /// Goes on behind what was code, and reads what was not again, as text.
    fn leave_code(&mut self, end: End) {
        let State::Code(code) = std::mem::replace(&mut self.state, State::Text) else {
            return;
        };
        let end = match (end, code.opener) {
            (End::Text, Some(fence)) => End::Opener(fence, code.text.len()),
            (end, _) => end,
        };
        let at = match end {
            End::Closed(at) => at,
            End::Opener(fence, at) => {
                self.state = State::Line(Some(fence));
                at
            }
            End::Text => 0,
        };
        self.take(&code.text[code.shown.min(at)..at]);
        self.known += code.shown.saturating_sub(at);
        self.again.push_str(&code.text[at..]);
    }
}
