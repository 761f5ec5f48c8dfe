//! A reply that is still coming in: text to show while it does.
//!
//! The text follows the reading of `scan`, as far as that can be told from what is there. It takes one character after
//! the other, so what it shows depends on them alone, never on the pieces in which they come. What waits is bounded:
//! a tag by its line and its length, a code span by its paragraph, a marker by its length. Where only the end tells
//! how a text is read, such as a thought that is never closed, the rest is shown at the end.

mod code;
mod held;
mod shown;
mod tags;

use memchr::{memchr, memchr3};

use super::call;
use super::context::Context;
use super::line::{Masked, masked};
use super::tag::{Call, Name, Names, Tag};
use crate::models::{Grammar, Response};
use crate::text::markdown::{Fence, FenceRules};
use code::Code;
use held::{COMMENT, DATA, Held};
use shown::Shown;

/// What may stand behind the marks that close a fence.
const MESSAGE_END: &str = "</message";

/// The longest body of a marker that is waited for.
const LONGEST_MARKER: usize = 500;

/// A reply that is still coming in: text to show while it does, and the response at its end.
///
/// The text is provisional, and only text: what a reply asks for and what it says of itself is in the response alone.
/// Of a reply in another form than tags, such as JSON, it is the raw text. In a terminal it is shown as any text of
/// others: through [`TerminalFilter`](crate::text::terminal::TerminalFilter).
#[derive(Debug)]
pub struct Stream {
    raw: Vec<u8>,
    /// How much of it was read.
    read: usize,
    reader: Reader,
}

impl Stream {
    /// Starts a reply.
    #[must_use]
    pub fn new(grammar: &Grammar) -> Self {
        Self {
            raw: Vec::new(),
            read: 0,
            reader: Reader::new(grammar),
        }
    }

    /// Takes the next bytes, of any size, and returns the text that can be shown now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.raw.extend_from_slice(bytes);
        loop {
            let rest = &self.raw[self.read..];
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.reader.read(text);
                    self.read = self.raw.len();
                    break;
                }
                Err(error) => {
                    let valid = error.valid_up_to();
                    self.reader
                        .read(std::str::from_utf8(&rest[..valid]).unwrap_or_default());
                    self.read += valid;
                    // Bytes that may still become a character wait.
                    let Some(length) = error.error_len() else {
                        break;
                    };
                    self.reader.read("\u{FFFD}");
                    self.read += length;
                }
            }
        }
        self.reader.shown.take()
    }

    /// Ends the reply: returns the rest of the text, and the response, which is that of `parse` on the whole.
    #[must_use]
    pub fn finish(mut self, context: &Context<'_>) -> (String, Response) {
        if self.read < self.raw.len() {
            self.reader.read("\u{FFFD}");
        }
        self.reader.end();
        let response = super::parse(&self.raw, &self.reader.grammar, context);
        (self.reader.shown.take(), response)
    }
}

/// What the next character is a part of.
#[derive(Debug)]
enum State {
    /// The start of a line, of which nobody can tell yet whether it is quoted or opens a fence.
    Start,
    /// The start of a line that may be another's turn.
    Speaker,
    /// Another's turn, and all that follows.
    Over,
    Text,
    /// Behind a backslash.
    Escape,
    /// A run of backticks or tildes, perhaps at the start of a line.
    Run {
        mark: char,
        length: usize,
        first: bool,
    },
    Code(Code),
    /// The rest of a line that is content, and the fence that opens behind it.
    Line(Option<Fence>),
    /// A fence; whether this line may close it; and how much of the end of a message waits behind it.
    Fence {
        fence: Fence,
        fresh: bool,
        waits: usize,
    },
    /// A comment, and how many dashes were last.
    Comment(usize),
    /// CDATA, and how many brackets wait.
    Data(usize),
    Tag(Held),
    /// Behind a tag that closes an update, unless a sentence goes on there.
    Closed,
}

/// What the text is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Inside {
    Reply,
    Thought {
        depth: usize,
    },
    /// An action or an update; what is `spoken` of in brackets is text if nothing closes it; and one that is not closed
    /// reaches to the next tag.
    Element {
        name: Name,
        depth: usize,
        spoken: bool,
        cut: bool,
    },
    /// A marker, with its opening tag.
    Marker {
        name: Name,
        opener: String,
    },
}

/// Reads a reply one character after the other.
#[derive(Debug)]
struct Reader {
    grammar: Grammar,
    names: Names,
    shown: Shown,
    /// Whether nothing was read yet.
    fresh: bool,
    state: State,
    inside: Inside,
    /// How many messages are open.
    messages: usize,
    /// Whether one was closed.
    closed: bool,
    /// The line so far, where it may be quoted, or open or close a fence.
    line: String,
    /// What was read too far, and is read again.
    again: String,
    /// How many bytes of what is read again were shown before.
    known: usize,
    /// What stands in something hidden, from where it is read again if that is not closed.
    hidden: Option<String>,
    /// What is not closed any more.
    unclosed: Vec<Name>,
    /// Whether the reply is at its end.
    ended: bool,
}

impl Reader {
    fn new(grammar: &Grammar) -> Self {
        Self {
            grammar: grammar.clone(),
            names: Names::of(grammar),
            shown: Shown::default(),
            fresh: true,
            state: State::Start,
            inside: Inside::Reply,
            messages: 0,
            closed: false,
            line: String::new(),
            again: String::new(),
            known: 0,
            hidden: None,
            unclosed: Vec::new(),
            ended: false,
        }
    }

    /// Reads the next characters.
    fn read(&mut self, mut text: &str) {
        if self.fresh && !text.is_empty() {
            self.fresh = false;
            text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        }
        let mut at = 0;
        while at < text.len() {
            at += self.step(&text[at..]);
            self.read_again();
        }
    }

    /// Reads what was read too far, and what is read too far in it, before all that follows.
    fn read_again(&mut self) {
        let mut waiting: Vec<(String, usize)> = Vec::new();
        loop {
            if !self.again.is_empty() {
                waiting.push((std::mem::take(&mut self.again), 0));
            }
            let Some((text, at)) = waiting.last_mut() else {
                return;
            };
            *at += self.step(&text[*at..]);
            if *at == text.len() {
                waiting.pop();
            }
        }
    }

    /// Takes one character, or as many as mean nothing; returns their length, which is 0 where only the state changes.
    fn step(&mut self, text: &str) -> usize {
        let Some(c) = text.chars().next() else {
            return 0;
        };
        match self.state {
            State::Start => self.start(c),
            State::Speaker => self.speaker(c),
            State::Over => text.len(),
            State::Text => self.text(c, text),
            State::Escape => {
                self.state = State::Text;
                if matches!(c, '`' | '\\') {
                    self.take(&text[..1])
                } else {
                    0
                }
            }
            State::Run {
                mark,
                ref mut length,
                first,
            } if c == mark => {
                *length += 1;
                if first {
                    self.line.push(c);
                }
                self.take(&text[..1])
            }
            State::Run {
                mark,
                length,
                first,
            } => {
                let fence = if first && c != '^' {
                    Fence::open(&self.line, FenceRules::Reply)
                } else {
                    None
                };
                self.state = match (mark, fence) {
                    ('`', opener) => State::Code(Code::new(length, opener)),
                    (_, Some(fence)) => State::Line(Some(fence)),
                    (_, None) => State::Text,
                };
                0
            }
            State::Code(_) => self.code(c),
            State::Line(opened) => {
                let end = memchr(b'\n', text.as_bytes());
                if end.is_some() {
                    self.start_line();
                }
                if let (Some(fence), Some(_)) = (opened, end) {
                    self.state = State::Fence {
                        fence,
                        fresh: true,
                        waits: 0,
                    };
                }
                self.take(&text[..end.map_or(text.len(), |end| end + 1)])
            }
            State::Fence {
                fence,
                fresh,
                waits,
            } => self.fence(c, text, fence, fresh, waits),
            State::Comment(dashes) => {
                self.state = match c {
                    '-' => State::Comment(dashes + 1),
                    '>' if dashes >= 2 => State::Text,
                    _ => State::Comment(0),
                };
                self.take(&text[..c.len_utf8()])
            }
            State::Data(brackets) => self.data(c, brackets),
            State::Tag(ref mut held) => {
                if !held.push(c, &self.names) {
                    self.settle();
                }
                c.len_utf8()
            }
            State::Closed => self.behind_update(c),
        }
    }

    /// Takes text that means nothing: it is shown, or part of something hidden.
    fn take(&mut self, text: &str) -> usize {
        let known = self.known.min(text.len());
        self.known -= known;
        match &mut self.inside {
            Inside::Reply => self.shown.push(&text[known..]),
            _ => {
                if let Some(hidden) = &mut self.hidden {
                    hidden.push_str(text);
                }
            }
        }
        text.len()
    }

    fn take_char(&mut self, c: char) -> usize {
        self.take(c.encode_utf8(&mut [0; 4]))
    }

    fn start_line(&mut self) {
        self.line.clear();
        let others = self.closed && self.messages == 0 && !self.grammar.speakers.is_empty();
        self.state = if others { State::Speaker } else { State::Start };
    }

    /// Follows a line as long as it may start another's turn, which is no part of the reply.
    fn speaker(&mut self, c: char) -> usize {
        self.line.push(c);
        let line = &self.line;
        let mut turns = self.grammar.speakers.iter().map(|name| format!("{name}:"));
        match turns.find(|turn| {
            turn.get(..line.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(line))
        }) {
            Some(turn) if turn.len() == line.len() => self.state = State::Over,
            Some(_) => {}
            None => self.no_speaker(),
        }
        c.len_utf8()
    }

    fn no_speaker(&mut self) {
        self.again = std::mem::take(&mut self.line);
        self.state = State::Start;
    }

    fn start(&mut self, c: char) -> usize {
        match c {
            '\n' => self.start_line(),
            '>' => {
                self.line.push(c);
                let quoted = masked(&self.line) == Some(Masked::Quote);
                self.state = if quoted {
                    State::Line(None)
                } else {
                    State::Text
                };
            }
            '`' | '~' => {
                self.state = State::Run {
                    mark: c,
                    length: 0,
                    first: true,
                };
                return 0;
            }
            // What may stand in front of a quote or a fence: blanks and the marks of lists.
            c if c.is_whitespace() || c.is_ascii_digit() || "-*+.)".contains(c) => {
                self.line.push(c)
            }
            _ => {
                self.state = State::Text;
                return 0;
            }
        }
        self.take_char(c)
    }

    fn text(&mut self, c: char, text: &str) -> usize {
        let bytes = text.as_bytes();
        let length = match &self.inside {
            Inside::Reply => {
                let next = memchr3(b'\n', b'`', b'<', bytes).unwrap_or(bytes.len());
                memchr(b'\\', &bytes[..next]).unwrap_or(next)
            }
            Inside::Thought { .. } => memchr3(b'\\', b'`', b'<', bytes).unwrap_or(bytes.len()),
            Inside::Element { .. } => memchr(b'<', bytes).unwrap_or(bytes.len()),
            Inside::Marker { .. } => {
                if self
                    .hidden
                    .as_ref()
                    .is_some_and(|body| body.len() >= LONGEST_MARKER)
                {
                    self.give_up();
                    return 0;
                }
                if c == '<' { 0 } else { c.len_utf8() }
            }
        };
        if length > 0 {
            return self.take(&text[..length]);
        }
        match c {
            '<' => {
                self.state = State::Tag(Held::new());
                return 1;
            }
            '`' => {
                self.state = State::Run {
                    mark: c,
                    length: 0,
                    first: false,
                };
                return 0;
            }
            '\\' => self.state = State::Escape,
            _ => self.start_line(),
        }
        self.take_char(c)
    }

    fn fence(&mut self, c: char, text: &str, fence: Fence, fresh: bool, waits: usize) -> usize {
        let same = |fresh, waits| State::Fence {
            fence,
            fresh,
            waits,
        };
        if !fresh {
            let end = memchr(b'\n', text.as_bytes());
            self.state = same(end.is_some(), 0);
            return self.take(&text[..end.map_or(text.len(), |end| end + 1)]);
        }
        match c {
            // A message may end on the line that closes the fence.
            _ if waits > 0 && MESSAGE_END[waits..].starts_with(c.to_ascii_lowercase()) => {
                self.line.push(c);
                if waits + 1 < MESSAGE_END.len() {
                    self.state = same(true, waits + 1);
                } else {
                    let end = self.line.split_off(self.line.len() - MESSAGE_END.len());
                    self.start_line();
                    self.again.push_str(&end);
                }
                return 1;
            }
            _ if waits > 0 => {
                let held = self.line.split_off(self.line.len() - waits);
                self.take(&held);
                self.line.clear();
                self.state = same(false, 0);
                return 0;
            }
            '<' if fence.is_closed_by(&self.line) => {
                self.line.push(c);
                self.state = same(true, 1);
                return 1;
            }
            '\n' if fence.is_closed_by(&self.line) => self.start_line(),
            '\n' => self.line.clear(),
            c if c.is_whitespace() || matches!(c, '`' | '~') => self.line.push(c),
            _ => {
                self.line.clear();
                self.state = same(false, 0);
                return 0;
            }
        }
        self.take_char(c)
    }

    /// A text may speak of the tag that closes it: then the line goes on.
    fn behind_update(&mut self, c: char) -> usize {
        match c {
            '\n' | '<' => self.leave_update(),
            c if c.is_whitespace() => return self.take_char(c),
            _ => self.state = State::Text,
        }
        0
    }

    fn leave_update(&mut self) {
        self.again = self.hidden.take().unwrap_or_default();
        self.leave();
    }

    fn data(&mut self, c: char, brackets: usize) -> usize {
        match c {
            ']' if brackets < 2 => {
                self.state = State::Data(brackets + 1);
                return 1;
            }
            ']' => {}
            '>' if brackets == 2 => {
                self.state = State::Text;
                return 1;
            }
            _ => {
                self.take(&"]]"[..brackets]);
                self.state = State::Data(0);
            }
        }
        self.take_char(c)
    }

    /// Reads what was held as a tag, or as text if it is none.
    fn settle(&mut self) {
        let State::Tag(Held { text, .. }) = std::mem::replace(&mut self.state, State::Text) else {
            return;
        };
        if self.inside == Inside::Reply && text == COMMENT {
            // The dashes that open a comment may be those that close it.
            self.state = State::Comment(2);
            self.take(&text);
            return;
        }
        if self.inside == Inside::Reply && text == DATA {
            self.state = State::Data(0);
            return;
        }
        let length = match self.names.read(&text) {
            Some(tag) if self.tag(&tag, &text[..tag.length]) => tag.length,
            _ => self.take("<"),
        };
        self.again.push_str(&text[length..]);
    }

    /// Shows what the end of the reply has decided.
    fn end(&mut self) {
        self.ended = true;
        loop {
            match &mut self.state {
                State::Tag(held) => {
                    let open = self.inside == Inside::Reply && !held.text.contains(['>', '\n']);
                    if open && self.names.may_start(held.text.trim_end()) {
                        // The reply ends in the middle of a tag.
                        self.state = State::Text;
                    } else {
                        self.settle();
                    }
                }
                State::Code(_) => self.end_in_code(),
                State::Speaker => self.no_speaker(),
                State::Closed => self.leave_update(),
                State::Fence {
                    waits: waits @ 1.., ..
                } => {
                    let held = self.line.split_off(self.line.len() - std::mem::take(waits));
                    self.take(&held);
                }
                State::Data(brackets) => {
                    let brackets = std::mem::take(brackets);
                    self.take(&"]]"[..brackets]);
                }
                _ => {}
            }
            if self.again.is_empty() && self.hidden.is_some() {
                self.give_up();
            }
            if self.again.is_empty() {
                return;
            }
            self.read_again();
        }
    }
}
