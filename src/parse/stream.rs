//! Incremental reading of a reply, for text that can be shown while it arrives.
//!
//! The visible text follows the rules of `scan` as far as they can be applied to a prefix. The
//! reader takes one character at a time, so its output depends on the characters alone, never on
//! how they are split into chunks. Pending text is bounded: a tag by its line and its length, a
//! code span by its paragraph, a marker by its length. If only the end of the reply decides how a
//! text is read, as after a thought that is never closed, the rest is shown at the end.

mod pending_code;
mod pending_tag;
mod tags;
mod visible_text;

use memchr::{memchr, memchr3};

use super::call;
use super::context::ReplyContext;
use super::quoted_lines::{LineQuote, find_line_quote};
use super::tag::{CallForm, Tag, TagName, TagNames};
use crate::models::{Grammar, Response};
use crate::text::markdown::{Fence, FenceRules};
use pending_code::PendingCode;
use pending_tag::{CDATA_OPENER, COMMENT_OPENER, PendingTag};
use visible_text::VisibleText;

/// Closing tag that may follow a closing fence on its line.
const MESSAGE_CLOSER: &str = "</message";

/// Maximum length of a marker's body before it is treated as text.
const MAX_MARKER_BYTES: usize = 500;

/// A reply that arrives in chunks: visible text while it arrives, and the response at its end.
///
/// The visible text is provisional. Effects and markers are only in the response. If the reply is not
/// written in tags, for example in JSON, the visible text is the raw reply. Pass it through
/// [`TerminalFilter`](crate::text::terminal::TerminalFilter) before printing it to a terminal.
#[derive(Debug)]
pub struct Stream {
    raw: Vec<u8>,
    /// Number of bytes already read.
    read: usize,
    reader: StreamReader,
}

impl Stream {
    /// Starts a reply.
    #[must_use]
    pub fn new(grammar: &Grammar) -> Self {
        Self {
            raw: Vec::new(),
            read: 0,
            reader: StreamReader::new(grammar),
        }
    }

    /// Appends bytes of any length and returns the text that can be shown now.
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
                    // Wait for the rest of an incomplete character.
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

    /// Ends the reply. Returns the rest of the text, and the same response as `parse` for the whole
    /// reply.
    #[must_use]
    pub fn finish(mut self, context: &ReplyContext<'_>) -> (String, Response) {
        if self.read < self.raw.len() {
            self.reader.read("\u{FFFD}");
        }
        self.reader.end();
        let response = super::parse(&self.raw, &self.reader.grammar, context);
        (self.reader.shown.take(), response)
    }
}

/// Position of the next character.
#[derive(Debug)]
enum StreamPosition {
    /// Start of a line that may be quoted or open a fence.
    Start,
    /// Start of a line that may begin another speaker's turn.
    Speaker,
    /// Another speaker's turn, and everything after it.
    Over,
    Text,
    /// After a backslash.
    Escape,
    /// A run of backticks or tildes; `first` if it is at the start of a line.
    Run {
        mark: char,
        length: usize,
        first: bool,
    },
    Code(PendingCode),
    /// Rest of a line that is content, and the fence that it opens.
    Line(Option<Fence>),
    /// Inside a fence. `fresh` if this line may close it; `waits` is the length of the part of
    /// `</message` that was read after the closing fence.
    Fence {
        fence: Fence,
        fresh: bool,
        waits: usize,
    },
    /// Inside a comment, with the number of dashes right before the next character.
    Comment(usize),
    /// Inside CDATA, with the number of `]` that are held back, at most 2.
    Cdata(usize),
    Tag(PendingTag),
    /// After a closing tag of an update. If text follows on the line, the tag was only a mention.
    Closed,
}

/// Element that encloses the text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Enclosure {
    Reply,
    Thought {
        depth: usize,
    },
    /// An action or an update. With `may_be_mention`, its opening tag is text if nothing closes it.
    /// With `cut`, it is known to be unclosed and ends at the next tag.
    Element {
        name: TagName,
        depth: usize,
        may_be_mention: bool,
        cut: bool,
    },
    /// A marker and its opening tag.
    Marker {
        name: TagName,
        opener: String,
    },
}

/// Reads a reply character by character.
#[derive(Debug)]
struct StreamReader {
    grammar: Grammar,
    names: TagNames,
    shown: VisibleText,
    /// True until the first character is read.
    fresh: bool,
    state: StreamPosition,
    inside: Enclosure,
    /// Number of open messages.
    messages: usize,
    /// True if a message was closed.
    closed: bool,
    /// Start of the current line, buffered until it is clear if it is a quote, a code fence, or another speaker's turn.
    line: String,
    /// Text that was taken for code or for the start of a tag and is not. It is read again as plain
    /// text, before any new text.
    again: String,
    /// Number of bytes of the reread text that were already shown.
    already_shown: usize,
    /// Hidden text that is read again if its element turns out to be unclosed.
    hidden: Option<String>,
    /// Elements known to have no closing tag.
    unclosed: Vec<TagName>,
    /// Set at the end of the reply.
    ended: bool,
}

impl StreamReader {
    fn new(grammar: &Grammar) -> Self {
        Self {
            grammar: grammar.clone(),
            names: TagNames::from_grammar(grammar),
            shown: VisibleText::default(),
            fresh: true,
            state: StreamPosition::Start,
            inside: Enclosure::Reply,
            messages: 0,
            closed: false,
            line: String::new(),
            again: String::new(),
            already_shown: 0,
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

    /// Reads the text in `self.again` before any new text. Reading it may put text into `self.again`
    /// once more; that text is read before the rest.
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

    /// Reads one character, or a longer stretch of plain text. Returns the number of
    /// bytes read; 0 if only the state changes.
    fn step(&mut self, text: &str) -> usize {
        let Some(c) = text.chars().next() else {
            return 0;
        };
        match self.state {
            StreamPosition::Start => self.read_line_start(c),
            StreamPosition::Speaker => self.read_speaker(c),
            StreamPosition::Over => text.len(),
            StreamPosition::Text => self.read_text(c, text),
            StreamPosition::Escape => {
                self.state = StreamPosition::Text;
                if matches!(c, '`' | '\\') {
                    self.take(&text[..1])
                } else {
                    0
                }
            }
            StreamPosition::Run {
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
            StreamPosition::Run {
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
                    ('`', opener) => StreamPosition::Code(PendingCode::new(length, opener)),
                    (_, Some(fence)) => StreamPosition::Line(Some(fence)),
                    (_, None) => StreamPosition::Text,
                };
                0
            }
            StreamPosition::Code(_) => self.read_code(c),
            StreamPosition::Line(opened) => {
                let end = memchr(b'\n', text.as_bytes());
                if end.is_some() {
                    self.start_line();
                }
                if let (Some(fence), Some(_)) = (opened, end) {
                    self.state = StreamPosition::Fence {
                        fence,
                        fresh: true,
                        waits: 0,
                    };
                }
                self.take(&text[..end.map_or(text.len(), |end| end + 1)])
            }
            StreamPosition::Fence {
                fence,
                fresh,
                waits,
            } => self.read_fence(c, text, fence, fresh, waits),
            StreamPosition::Comment(dashes) => {
                self.state = match c {
                    '-' => StreamPosition::Comment(dashes + 1),
                    '>' if dashes >= 2 => StreamPosition::Text,
                    _ => StreamPosition::Comment(0),
                };
                self.take(&text[..c.len_utf8()])
            }
            StreamPosition::Cdata(brackets) => self.read_cdata(c, brackets),
            StreamPosition::Tag(ref mut held) => {
                if !held.push(c, &self.names) {
                    self.settle_tag();
                }
                c.len_utf8()
            }
            StreamPosition::Closed => self.read_after_update(c),
        }
    }

    /// Takes plain text: shows it, or adds it to the hidden text.
    fn take(&mut self, text: &str) -> usize {
        let shown_before = self.already_shown.min(text.len());
        self.already_shown -= shown_before;

        match &mut self.inside {
            Enclosure::Reply => self.shown.push(&text[shown_before..]),
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
        let may_be_other_speaker =
            self.closed && self.messages == 0 && !self.grammar.speakers.is_empty();
        self.state = if may_be_other_speaker {
            StreamPosition::Speaker
        } else {
            StreamPosition::Start
        };
    }

    /// Reads a line as long as it may start another speaker's turn, which is not part of the reply.
    fn read_speaker(&mut self, c: char) -> usize {
        self.line.push(c);
        let line = &self.line;
        let mut turns = self.grammar.speakers.iter().map(|name| format!("{name}:"));
        match turns.find(|turn| {
            turn.get(..line.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(line))
        }) {
            Some(turn) if turn.len() == line.len() => self.state = StreamPosition::Over,
            Some(_) => {}
            None => self.reread_speaker_line(),
        }
        c.len_utf8()
    }

    fn reread_speaker_line(&mut self) {
        self.again = std::mem::take(&mut self.line);
        self.state = StreamPosition::Start;
    }

    fn read_line_start(&mut self, c: char) -> usize {
        match c {
            '\n' => self.start_line(),
            '>' => {
                self.line.push(c);
                let quoted = find_line_quote(&self.line) == Some(LineQuote::Quote);
                self.state = if quoted {
                    StreamPosition::Line(None)
                } else {
                    StreamPosition::Text
                };
            }
            '`' | '~' => {
                self.state = StreamPosition::Run {
                    mark: c,
                    length: 0,
                    first: true,
                };
                return 0;
            }
            // White space and list markers may precede a quote or a fence.
            c if c.is_whitespace() || c.is_ascii_digit() || "-*+.)".contains(c) => {
                self.line.push(c)
            }
            _ => {
                self.state = StreamPosition::Text;
                return 0;
            }
        }
        self.take_char(c)
    }

    fn read_text(&mut self, c: char, text: &str) -> usize {
        let bytes = text.as_bytes();
        let length = match &self.inside {
            Enclosure::Reply => {
                let next = memchr3(b'\n', b'`', b'<', bytes).unwrap_or(bytes.len());
                memchr(b'\\', &bytes[..next]).unwrap_or(next)
            }
            Enclosure::Thought { .. } => memchr3(b'\\', b'`', b'<', bytes).unwrap_or(bytes.len()),
            Enclosure::Element { .. } => memchr(b'<', bytes).unwrap_or(bytes.len()),
            Enclosure::Marker { .. } => {
                if self
                    .hidden
                    .as_ref()
                    .is_some_and(|body| body.len() >= MAX_MARKER_BYTES)
                {
                    self.reread_hidden();
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
                self.state = StreamPosition::Tag(PendingTag::new());
                return 1;
            }
            '`' => {
                self.state = StreamPosition::Run {
                    mark: c,
                    length: 0,
                    first: false,
                };
                return 0;
            }
            '\\' => self.state = StreamPosition::Escape,
            _ => self.start_line(),
        }
        self.take_char(c)
    }

    fn read_fence(
        &mut self,
        c: char,
        text: &str,
        fence: Fence,
        fresh: bool,
        waits: usize,
    ) -> usize {
        let in_fence = |fresh, waits| StreamPosition::Fence {
            fence,
            fresh,
            waits,
        };

        if !fresh {
            let end = memchr(b'\n', text.as_bytes());
            self.state = in_fence(end.is_some(), 0);
            return self.take(&text[..end.map_or(text.len(), |end| end + 1)]);
        }

        match c {
            // A message may end on the closing line of the fence.
            _ if waits > 0 && MESSAGE_CLOSER[waits..].starts_with(c.to_ascii_lowercase()) => {
                self.line.push(c);
                if waits + 1 < MESSAGE_CLOSER.len() {
                    self.state = in_fence(true, waits + 1);
                } else {
                    let end = self.line.split_off(self.line.len() - MESSAGE_CLOSER.len());
                    self.start_line();
                    self.again.push_str(&end);
                }
                return 1;
            }
            _ if waits > 0 => {
                let held = self.line.split_off(self.line.len() - waits);
                self.take(&held);
                self.line.clear();
                self.state = in_fence(false, 0);
                return 0;
            }
            '<' if fence.is_closed_by(&self.line) => {
                self.line.push(c);
                self.state = in_fence(true, 1);
                return 1;
            }
            '\n' if fence.is_closed_by(&self.line) => self.start_line(),
            '\n' => self.line.clear(),
            c if c.is_whitespace() || matches!(c, '`' | '~') => self.line.push(c),
            _ => {
                self.line.clear();
                self.state = in_fence(false, 0);
                return 0;
            }
        }
        self.take_char(c)
    }

    /// Reads after a closing tag of an update. If the line continues, the tag was only a mention.
    fn read_after_update(&mut self, c: char) -> usize {
        match c {
            '\n' | '<' => self.leave_update(),
            c if c.is_whitespace() => return self.take_char(c),
            _ => self.state = StreamPosition::Text,
        }
        0
    }

    fn leave_update(&mut self) {
        self.again = self.hidden.take().unwrap_or_default();
        self.leave_element();
    }

    fn read_cdata(&mut self, c: char, brackets: usize) -> usize {
        match c {
            ']' if brackets < 2 => {
                self.state = StreamPosition::Cdata(brackets + 1);
                return 1;
            }
            ']' => {}
            '>' if brackets == 2 => {
                self.state = StreamPosition::Text;
                return 1;
            }
            _ => {
                self.take(&"]]"[..brackets]);
                self.state = StreamPosition::Cdata(0);
            }
        }
        self.take_char(c)
    }

    /// Ends the text that started with `<`: reads it as a tag, or as plain text if it is not a tag.
    fn settle_tag(&mut self) {
        let StreamPosition::Tag(PendingTag { text, .. }) =
            std::mem::replace(&mut self.state, StreamPosition::Text)
        else {
            return;
        };

        if self.inside == Enclosure::Reply && text == COMMENT_OPENER {
            // The dashes that open a comment may also close it.
            self.state = StreamPosition::Comment(2);
            self.take(&text);
            return;
        }

        if self.inside == Enclosure::Reply && text == CDATA_OPENER {
            self.state = StreamPosition::Cdata(0);
            return;
        }

        let length = match self.names.read_tag(&text) {
            Some(tag) if self.apply_tag(&tag, &text[..tag.length]) => tag.length,
            _ => self.take("<"),
        };
        self.again.push_str(&text[length..]);
    }

    /// Ends the reply: text that was still undecided is read as code, as a tag or as plain text.
    fn end(&mut self) {
        self.ended = true;
        loop {
            match &mut self.state {
                StreamPosition::Tag(held) => {
                    let open = self.inside == Enclosure::Reply && !held.text.contains(['>', '\n']);
                    if open && self.names.may_start(held.text.trim_end()) {
                        // The reply ends inside a tag, which stays hidden.
                        self.state = StreamPosition::Text;
                    } else {
                        self.settle_tag();
                    }
                }
                StreamPosition::Code(_) => self.end_in_code(),
                StreamPosition::Speaker => self.reread_speaker_line(),
                StreamPosition::Closed => self.leave_update(),
                StreamPosition::Fence {
                    waits: waits @ 1.., ..
                } => {
                    let held = self.line.split_off(self.line.len() - std::mem::take(waits));
                    self.take(&held);
                }
                StreamPosition::Cdata(brackets) => {
                    let brackets = std::mem::take(brackets);
                    self.take(&"]]"[..brackets]);
                }
                _ => {}
            }

            if self.again.is_empty() && self.hidden.is_some() {
                self.reread_hidden();
            }
            if self.again.is_empty() {
                return;
            }
            self.read_again();
        }
    }
}
