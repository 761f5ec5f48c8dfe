//! One pass over a reply, from left to right: the first opener owns its span.
//!
//! Code fences, code spans, quoted lines, comments and CDATA are content, never structure. Thinking is opaque. Only
//! the names of the grammar are tags; everything else is text. What is found is judged later, with all of it at hand.

mod calls;
mod markers;
mod messages;

use std::ops::Range;

use memchr::{memchr, memchr3, memmem};

use super::code::{CodeSpans, LineCode};
use super::line::{Masked, masked};
use super::review::{ReviewTag, find_review_tags};
use super::tag::{Name, Names, Tag, attributes};
use crate::models::{Action, Code, EffectKind, Grammar, ReviewResult, TaskStatus, Update};
use calls::Elements;

/// Maximum number of rejected effects that are kept with their texts; further ones are counted.
pub(super) const MAX_REJECTED_EFFECTS: usize = 256;
pub(super) use messages::Message;

/// The most problems that are listed.
const MOST_PROBLEMS: usize = 200;

/// What a scan has found, in the order of its appearance.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Where thoughts stand, without their tags.
    pub(super) thoughts: Vec<Range<usize>>,
    pub(super) messages: Vec<Message>,
    pub(super) effects: Vec<FoundEffect>,
    /// How many actions among them are refused.
    pub(super) refused: usize,
    pub(super) markers: Vec<FoundMarker>,
    /// Spans that are not part of the text for people.
    pub(super) cuts: Vec<Cut>,
    /// All `<review>` tags of the text.
    pub(super) review_tags: Vec<ReviewTag>,
    /// The most severe verdict that is written in another form than a tag, such as JSON.
    pub(super) other_form: Option<ReviewResult>,
    /// Code fences, code spans and block quotes, in order.
    pub(super) quotes: Vec<Range<usize>>,
    /// The code fences among them.
    pub(super) fences: Vec<Range<usize>>,
    /// The first action in code, in a quote or in a comment.
    pub(super) hidden_action: Option<Range<usize>>,
    /// Spans that may belong to a thought whose tags do not pair.
    pub(super) perhaps_thoughts: Vec<Range<usize>>,
    /// The severest value of each own marker that does not count.
    pub(super) own_doubts: Vec<Option<usize>>,
    pub(super) problems: Vec<(Code, Range<usize>)>,
    /// Spans that may be part of something before them.
    pub(super) unclear: Vec<Range<usize>>,
    /// From where a thought that is not closed may reach over what follows.
    pub(super) shaky: Option<usize>,
    /// Whether it may reach to the end: it is closed in code, if at all.
    pub(super) shaky_to_end: bool,
    /// Whether something is open at the end.
    pub(super) open: bool,
    /// Where the reply ends: another may speak behind it.
    pub(super) end: usize,
}

/// A span that is not part of the text for people.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) span: Range<usize>,
    /// Whether it is an action or an update, which a message keeps if it stands inside.
    pub(super) effect: bool,
    /// Whether it ends a message that is not closed.
    pub(super) ends: bool,
}

/// An action or an update that was found.
#[derive(Debug)]
pub(super) struct FoundEffect {
    pub(super) kind: Kind,
    pub(super) place: Place,
}

/// What something would be, such as `action save`, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) what: EffectKind,
    pub(super) span: Range<usize>,
}

/// What an effect asks for, or why that is not clear.
#[derive(Debug)]
pub(super) enum Kind {
    Action(Action),
    Update(Update),
    Refused(String),
}

/// A marker that was found.
#[derive(Clone, Debug)]
pub(super) struct FoundMarker {
    pub(super) span: Range<usize>,
    pub(super) value: MarkerValue,
}

/// What a marker says.
#[derive(Clone, Debug)]
pub(super) enum MarkerValue {
    /// Which verdict counts is decided from all tags together.
    Review,
    Task {
        id: String,
        status: TaskStatus,
    },
    Own {
        marker: usize,
        rank: usize,
    },
}

impl Found {
    /// Tells whether any tag of the grammar was found where it counts.
    pub(super) fn has_tags(&self) -> bool {
        self.has_parts() || !self.thoughts.is_empty()
    }

    /// Returns whether a `<review>` tag was found outside code, quotes and thoughts.
    pub(super) fn has_review(&self) -> bool {
        self.markers
            .iter()
            .any(|marker| matches!(marker.value, MarkerValue::Review))
    }

    /// Tells whether more than thoughts was found.
    pub(super) fn has_parts(&self) -> bool {
        !(self.messages.is_empty() && self.effects.is_empty() && self.markers.is_empty())
    }
}

/// Reads a text.
pub(super) fn scan(text: &str, grammar: &Grammar, names: &Names) -> Found {
    let mut scanner = Scanner {
        text,
        at: 0,
        unthought: 0,
        update_closer: 0,
        unclosed: false,
        grammar,
        names,
        spans: CodeSpans::default(),
        code: LineCode::default(),
        elements: None,
        message: None,
        found: Found {
            end: text.len(),
            ..Found::default()
        },
    };
    scanner.run();
    let mut found = scanner.finish();
    found.review_tags = find_review_tags(text, names);
    found
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// Up to where everything is known to be thought.
    unthought: usize,
    /// Where the next update is closed, as far as was looked for; past the end if nowhere.
    update_closer: usize,
    /// Whether no thought is closed any more.
    unclosed: bool,
    grammar: &'a Grammar,
    names: &'a Names,
    spans: CodeSpans,
    /// The code of the line in which a thought was last looked at.
    code: LineCode,
    /// The tags of actions, once one was met.
    elements: Option<Elements>,
    /// The message that is open.
    message: Option<messages::Open>,
    found: Found,
}

impl<'a> Scanner<'a> {
    fn run(&mut self) {
        let mut line_start = true;
        while self.at < self.found.end {
            if line_start && (self.skip_masked_line() || self.other_speaker()) {
                continue;
            }
            line_start = false;
            match self.text.as_bytes()[self.at] {
                b'\n' => {
                    self.at += 1;
                    line_start = true;
                }
                b'`' => self.skip_code_span(),
                b'<' => line_start = self.markup(),
                // A backslash takes the meaning from a backtick, and from nothing else: not from a line's end.
                b'\\' => {
                    self.at += 1 + usize::from(self.text[self.at + 1..].starts_with(['`', '\\']))
                }
                _ => {
                    let rest = &self.text.as_bytes()[self.at..];
                    let next = memchr3(b'\n', b'`', b'<', rest).unwrap_or(rest.len());
                    self.at += memchr(b'\\', &rest[..next])
                        .filter(|&at| at > 0)
                        .unwrap_or(next);
                }
            }
        }
    }

    /// Closes what is open, and takes a tag from the text in whose middle the reply ends.
    fn finish(mut self) -> Found {
        let tail = self
            .text
            .ceil_char_boundary(self.text.len().saturating_sub(300));
        let cut = self.text[tail..].rfind('<').map(|at| tail + at);
        let covered = |at: usize| {
            self.found
                .cuts
                .last()
                .is_some_and(|cut| cut.span.contains(&at))
        };
        if let Some(at) = cut.filter(|&at| !self.text[at..].contains(['>', '\n']) && !covered(at))
            && self.names.may_start(self.text[at..].trim_end())
        {
            self.problem(Code::CutTag, at..self.text.len());
            self.cut(at..self.text.len(), false, true);
            self.found.open = true;
        }
        self.end_message();
        self.found
    }

    /// Skips a fence or a quoted line that starts here.
    fn skip_masked_line(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let Some(masked) = masked(rest) else {
            return false;
        };
        let mut lines = rest.split_inclusive('\n');
        let mut length = lines.next().map_or(0, str::len);
        if let Masked::Fence(fence) = masked {
            let mut closed = false;
            for inner in lines {
                length += inner.len();
                if fence.is_closed_by(inner) {
                    // A message may end on the same line.
                    length -= inner.find("</").map_or(0, |at| inner.len() - at);
                    closed = true;
                    break;
                }
            }
            self.found.open |= !closed;
        }
        let span = self.at..self.at + length;
        self.found.quotes.push(span.clone());
        if matches!(masked, Masked::Fence(_)) {
            self.found.fences.push(span.clone());
        }
        self.mask(span);
        true
    }

    /// Ends the reply where another's turn starts, if a message is closed before it.
    fn other_speaker(&mut self) -> bool {
        if self.message.is_some() || !self.found.messages.iter().any(|message| message.closed) {
            return false;
        }
        let rest = &self.text[self.at..];
        let starts = |name: &String| {
            rest.get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name))
                && rest[name.len()..].starts_with(':')
        };
        if !self.grammar.speakers.iter().any(starts) {
            return false;
        }
        self.problem(Code::OtherSpeaker, self.at..self.text.len());
        self.found.end = self.at;
        self.mask(self.at..self.text.len());
        true
    }

    /// Skips a code span: it ends at a run of as many backticks, in the same paragraph.
    fn skip_code_span(&mut self) {
        if self.at >= self.spans.end {
            self.spans = CodeSpans::of_paragraph(self.text, self.at);
        }
        let (length, close) = self.spans.run(self.at);
        match close {
            Some(end) => {
                self.found.quotes.push(self.at..end);
                self.mask(self.at..end);
            }
            None => self.at += length,
        }
    }

    /// Skips a span that is content, and tells what stands in it that would have counted elsewhere.
    fn mask(&mut self, span: Range<usize>) {
        let text = &self.text[span.clone()];
        let mut effect = false;
        for at in memchr::memchr_iter(b'<', text.as_bytes()) {
            let Some(tag) = self.names.read(&text[at..]).filter(|tag| !tag.closes) else {
                continue;
            };
            let after = &text[at + tag.length..];
            match tag.name {
                Name::Own(marker) => {
                    let body = after.split('<').next().unwrap_or_default();
                    self.doubt_own(marker, self.grammar.markers[marker].rank(body));
                    effect = true;
                }
                Name::Call(_) => {
                    let action = span.start + at..span.end;
                    self.found.hidden_action.get_or_insert(action);
                    effect = true;
                }
                Name::Update | Name::TaskStatus => effect = true,
                Name::Review | Name::Thinking | Name::Message | Name::Wrapper => {}
            }
        }
        if effect {
            self.problem(Code::QuotedEffect, span.clone());
        }
        self.at = span.end;
    }

    /// Keeps the severest value in mind that a marker has where it does not count.
    fn doubt_own(&mut self, marker: usize, rank: Option<usize>) {
        self.found
            .own_doubts
            .resize(self.grammar.markers.len(), None);
        self.found.own_doubts[marker] = self.found.own_doubts[marker].max(rank);
    }

    /// Reads what starts with `<`; tells whether a line may start behind it.
    fn markup(&mut self) -> bool {
        let rest = &self.text[self.at..];
        if rest.starts_with("<!") && self.content() {
            return false;
        }
        let Some(tag) = self.names.read(rest) else {
            // Of several brackets only the last may start a tag.
            self.at += rest.bytes().take_while(|&b| b == b'<').count();
            self.at -= usize::from(rest.starts_with("<<"));
            return false;
        };
        if tag.is_generic(&self.text[..self.at], rest) {
            self.at += tag.length;
            return false;
        }
        if tag.loose {
            self.problem(Code::LooseTag, self.at..self.at + tag.length);
        }
        match (tag.name, tag.closes) {
            (Name::Thinking, false) => self.thinking(tag),
            (Name::Thinking, true) => self.orphan_thinking(tag),
            (Name::Message, false) => self.open_message(tag),
            (Name::Message, true) => self.close_message(tag),
            (Name::Update, false) => self.update(tag),
            (Name::Review | Name::TaskStatus | Name::Own(_), false) => self.marker(tag),
            (Name::Call(call), false) => self.call(tag, call),
            (Name::Wrapper, _) if self.message.is_some() || tag.empty => self.at += tag.length,
            (Name::Wrapper, _) => self.take(self.at..self.at + tag.length),
            (_, true) => self.stray_closer(tag),
        }
        matches!(
            tag.name,
            Name::Thinking | Name::Message | Name::Update | Name::Call(_)
        )
    }

    /// Skips a comment or CDATA, which are content. One that is not closed hides all that follows.
    fn content(&mut self) -> bool {
        let rest = &self.text[self.at..];
        for (open, close) in [("<!--", "-->"), ("<![CDATA[", "]]>")] {
            if rest.starts_with(open) {
                let inner = memmem::find(rest.as_bytes(), close.as_bytes());
                let end = self.at + inner.map_or(rest.len(), |hit| hit + close.len());
                self.found.open |= inner.is_none();
                if open != "<!--" {
                    // The marks of CDATA are not part of the text.
                    self.cut(self.at..self.at + open.len(), false, false);
                    if inner.is_some() {
                        self.cut(end - close.len()..end, false, false);
                    }
                }
                self.mask(self.at..end);
                return true;
            }
        }
        false
    }

    /// Takes a thought, nested ones included.
    fn thinking(&mut self, opener: Tag<'a>) {
        let body_start = self.at + opener.length;
        let mut depth = 1_usize;
        let mut at = body_start;
        let mut last: Option<Range<usize>> = None;
        // Behind the first closer, and the first that stands in code.
        let (mut first, mut hidden) = (None, None);
        let mut message = None;
        // Where no thought is closed any more, the next message is all that matters.
        while !(self.unclosed && message.is_some())
            && let Some(hit) = memchr(b'<', &self.text.as_bytes()[at..])
        {
            at += hit;
            let known = |name| matches!(name, Name::Thinking | Name::Message);
            let Some(tag) = self
                .names
                .read(&self.text[at..])
                .filter(|tag| known(tag.name))
            else {
                at += 1;
                continue;
            };
            let closes = tag.name == Name::Thinking && tag.closes;
            first = first.or(Some(at + tag.length).filter(|_| closes));
            if self.code.holds(self.text, at) {
                hidden = hidden.or(Some(at + tag.length).filter(|_| closes));
                at += 1;
                continue;
            }
            match (tag.name, tag.closes) {
                (Name::Thinking, true) => {
                    depth -= 1;
                    last = Some(at..at + tag.length);
                }
                (Name::Thinking, false) => depth += 1,
                (_, false) if tag.complete => message = message.or(Some(at)),
                _ => {}
            }
            if depth == 0 {
                break;
            }
            at += tag.length;
        }
        self.unclosed |= last.is_none();
        // Where tags do not pair, the last one closes; without any, a message ends it, or nothing does.
        let end = match (last, message) {
            (Some(closer), _) => closer,
            (None, Some(message)) => {
                self.found.shaky = Some(message);
                self.found.shaky_to_end |= hidden.is_some();
                self.problem(Code::UnclosedThought, self.at..message);
                message..message
            }
            (None, None) => {
                self.found.open = true;
                self.problem(Code::UnclosedThought, self.at..self.text.len());
                self.text.len()..self.text.len()
            }
        };
        self.found.thoughts.push(body_start..end.start);
        let start = self.at;
        // Where the tags do not pair, or one stands in code, the thought may have ended before: a verdict behind that
        // place may be none of it.
        if let Some(from) = if depth == 0 {
            hidden
        } else {
            first.or(Some(body_start))
        } {
            let span = from.min(end.start)..end.start;
            self.found.perhaps_thoughts.push(span.clone());
            self.mask(span);
        }
        self.cut(start..end.end, false, true);
        self.at = end.end;
    }

    /// Takes all that came before for a thought: some agents leave out the opening tag.
    fn orphan_thinking(&mut self, closer: Tag<'a>) {
        self.problem(Code::UnopenedThought, self.unthought..self.at);
        // What was thought is no verdict, but whether it was thought is not certain.
        self.found.perhaps_thoughts.push(self.unthought..self.at);
        for index in 0..self.found.markers.len() {
            if let MarkerValue::Own { marker, rank } = self.found.markers[index].value {
                self.doubt_own(marker, Some(rank));
            }
        }
        self.found.markers.clear();
        self.found.effects.clear();
        self.found.refused = 0;
        self.found.messages.clear();
        self.message = None;
        // Both ascend, so that only what is new is looked at.
        while self
            .found
            .thoughts
            .pop_if(|thought| thought.end > self.unthought)
            .is_some()
        {}
        self.found.thoughts.push(self.unthought..self.at);
        while self
            .found
            .cuts
            .pop_if(|cut| cut.span.end > self.unthought)
            .is_some()
        {}
        let end = self.at + closer.length;
        self.cut(self.unthought..end, false, true);
        self.at = end;
        self.unthought = end;
    }

    fn stray_closer(&mut self, tag: Tag<'a>) {
        let span = self.at..self.at + tag.length;
        self.problem(Code::StrayCloser, span.clone());
        self.take(span);
    }

    fn problem(&mut self, code: Code, span: Range<usize>) {
        match self.found.problems.len() {
            0..MOST_PROBLEMS => self.found.problems.push((code, span)),
            MOST_PROBLEMS => self.found.problems.push((Code::MoreProblems, span)),
            _ => {}
        }
    }

    /// Notes attributes whose quotes are missing or curly.
    fn note_attributes(&mut self, tag: &Tag<'a>) {
        if attributes(tag.attributes).is_some_and(|read| read.loose) {
            self.problem(Code::LooseAttribute, self.at..self.at + tag.length);
        }
    }

    /// Keeps a span from the text for people.
    fn cut(&mut self, span: Range<usize>, effect: bool, ends: bool) {
        self.found.cuts.push(Cut { span, effect, ends });
    }

    /// Takes a tag from the text and goes on behind it.
    fn take(&mut self, span: Range<usize>) {
        self.at = span.end;
        self.cut(span, false, false);
    }
}
