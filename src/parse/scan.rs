//! Scans a reply once, from left to right. Where elements overlap, the one that opens first wins.
//!
//! Code fences, code spans, quoted lines, comments and CDATA are content, never structure. Thoughts
//! are opaque. Only names of the grammar are tags; everything else is text. The scan only
//! collects: `accept` decides which parts are valid.

mod calls;
mod markers;
mod messages;

use std::ops::Range;

use memchr::{memchr, memchr3, memmem};

use super::code_spans::{CodeSpans, LineCodeSpans};
use super::quoted_lines::{LineQuote, find_line_quote};
use super::review::{ReviewTag, find_review_tags};
use super::tag::{Tag, TagName, TagNames, parse_attributes};
use crate::models::{Action, EffectKind, Grammar, ProblemCode, ReviewResult, TaskStatus, Update};
use calls::ActionTags;

/// Maximum number of rejected effects that are listed; further ones are dropped.
pub(super) const MAX_REJECTED_EFFECTS: usize = 256;
pub(super) use messages::MessageSpan;

/// Maximum number of problems that are listed.
const MAX_PROBLEMS: usize = 200;

/// Number of bytes at the end of a reply that are searched for a truncated tag.
const CUT_TAG_LOOKBACK_BYTES: usize = 300;

/// Result of a scan. Each list is in order of appearance.
#[derive(Debug, Default)]
pub(super) struct ScanResult {
    /// Spans of thoughts, without their tags.
    pub(super) thoughts: Vec<Range<usize>>,
    pub(super) messages: Vec<MessageSpan>,
    pub(super) effects: Vec<FoundEffect>,
    /// Number of refused actions among the effects.
    pub(super) refused: usize,
    pub(super) markers: Vec<FoundMarker>,
    /// Spans that are not part of the visible text.
    pub(super) cuts: Vec<HiddenSpan>,
    /// All `<review>` tags of the text.
    pub(super) review_tags: Vec<ReviewTag>,
    /// Most severe verdict that is not written as a tag, but for example as JSON.
    pub(super) other_form: Option<ReviewResult>,
    /// Code fences, code spans and block quotes, in order.
    pub(super) quotes: Vec<Range<usize>>,
    /// Code fences among `quotes`.
    pub(super) fences: Vec<Range<usize>>,
    /// First action in code, in a quote or in a comment.
    pub(super) hidden_action: Option<Range<usize>>,
    /// Spans that may belong to a thought whose tags do not pair.
    pub(super) possible_thoughts: Vec<Range<usize>>,
    /// Rank of the most severe ignored value of each pack marker; `usize::MAX` for an unreadable
    /// value.
    pub(super) pack_marker_doubts: Vec<Option<usize>>,
    pub(super) problems: Vec<(ProblemCode, Range<usize>)>,
    /// Spans after an update whose end is unclear. They may be part of the update.
    pub(super) unclear: Vec<Range<usize>>,
    /// Offset from which an unclosed thought may extend over the following text.
    pub(super) unclosed_thought_from: Option<usize>,
    /// True if that thought may extend to the end, because its closing tag is in code.
    pub(super) unclosed_thought_reaches_end: bool,
    /// True if the reply ends inside an unclosed tag, element, fence or comment.
    pub(super) open: bool,
    /// End offset of the reply; the text of another speaker may follow.
    pub(super) end: usize,
}

/// A span that is not part of the visible text.
#[derive(Clone, Debug)]
pub(super) struct HiddenSpan {
    pub(super) span: Range<usize>,
    /// True for an action or an update, which stays visible inside a message.
    pub(super) effect: bool,
    /// True if the span ends an unclosed message before it.
    pub(super) ends: bool,
}

/// An action or an update, readable or not.
#[derive(Debug)]
pub(super) struct FoundEffect {
    pub(super) kind: EffectContent,
    pub(super) place: EffectPlace,
}

/// Kind of an effect, such as `action save`, and its span.
#[derive(Clone, Debug)]
pub(super) struct EffectPlace {
    pub(super) what: EffectKind,
    pub(super) span: Range<usize>,
}

/// Content of an effect, or the reason why it is unclear.
#[derive(Debug)]
pub(super) enum EffectContent {
    Action(Action),
    Update(Update),
    Refused(String),
}

/// A readable marker.
#[derive(Clone, Debug)]
pub(super) struct FoundMarker {
    pub(super) span: Range<usize>,
    pub(super) value: MarkerValue,
}

#[derive(Clone, Debug)]
pub(super) enum MarkerValue {
    /// The verdict is decided later, from all `<review>` tags together.
    Review,
    Task {
        id: String,
        status: TaskStatus,
    },
    Pack {
        marker: usize,
        rank: usize,
    },
}

impl ScanResult {
    /// Returns true if any tag of the grammar was found outside code and quotes.
    pub(super) fn has_tags(&self) -> bool {
        self.has_parts() || !self.thoughts.is_empty()
    }

    /// Returns true if a `<review>` tag was found outside code, quotes and thoughts.
    pub(super) fn has_review(&self) -> bool {
        self.markers
            .iter()
            .any(|marker| matches!(marker.value, MarkerValue::Review))
    }

    /// Returns true if anything other than thoughts was found.
    pub(super) fn has_parts(&self) -> bool {
        !(self.messages.is_empty() && self.effects.is_empty() && self.markers.is_empty())
    }
}

/// Scans a reply for the tags of a grammar.
pub(super) fn scan(text: &str, grammar: &Grammar, names: &TagNames) -> ScanResult {
    let mut scanner = Scanner {
        text,
        at: 0,
        thought_end: 0,
        update_closer: 0,
        unclosed: false,
        grammar,
        names,
        spans: CodeSpans::default(),
        code: LineCodeSpans::default(),
        action_tags: None,
        message: None,
        found: ScanResult {
            end: text.len(),
            ..ScanResult::default()
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
    /// Offset up to which all text is known to be thought.
    thought_end: usize,
    /// Offset of the next closing tag of an update; `usize::MAX` if there is none.
    update_closer: usize,
    /// Set once the rest of the text is known to have no closing tag of a thought.
    unclosed: bool,
    grammar: &'a Grammar,
    names: &'a TagNames,
    spans: CodeSpans,
    /// Code spans of the line on which a tag inside a thought was last examined.
    code: LineCodeSpans,
    /// Tags of actions, collected at the first action.
    action_tags: Option<ActionTags>,
    /// Message that is not closed yet.
    message: Option<messages::OpenMessage>,
    found: ScanResult,
}

impl<'a> Scanner<'a> {
    fn run(&mut self) {
        let mut line_start = true;
        while self.at < self.found.end {
            if line_start && (self.skip_quoted_line() || self.end_at_other_speaker()) {
                continue;
            }
            line_start = false;

            match self.text.as_bytes()[self.at] {
                b'\n' => {
                    self.at += 1;
                    line_start = true;
                }
                b'`' => self.skip_code_span(),
                b'<' => line_start = self.read_markup(),
                // A backslash escapes only a backtick or a backslash, never a newline.
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

    /// Ends the scan: hides a truncated tag at the end of the reply, and closes an open message.
    fn finish(mut self) -> ScanResult {
        let tail = self
            .text
            .ceil_char_boundary(self.text.len().saturating_sub(CUT_TAG_LOOKBACK_BYTES));
        let last_bracket = self.text[tail..].rfind('<').map(|at| tail + at);
        let is_hidden = |at: usize| {
            self.found
                .cuts
                .last()
                .is_some_and(|cut| cut.span.contains(&at))
        };

        if let Some(at) =
            last_bracket.filter(|&at| !self.text[at..].contains(['>', '\n']) && !is_hidden(at))
            && self.names.may_start(self.text[at..].trim_end())
        {
            self.add_problem(ProblemCode::CutTag, at..self.text.len());
            self.hide(at..self.text.len(), false, true);
            self.found.open = true;
        }

        self.end_message();
        self.found
    }

    /// Skips a code fence or a quoted line at the start of a line. Returns false if there is none.
    fn skip_quoted_line(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let Some(quote) = find_line_quote(rest) else {
            return false;
        };

        let mut lines = rest.split_inclusive('\n');
        let mut length = lines.next().map_or(0, str::len);
        if let LineQuote::Fence(fence) = quote {
            let mut closed = false;
            for inner in lines {
                length += inner.len();
                if fence.is_closed_by(inner) {
                    // The message may end on the closing line of the fence.
                    length -= inner.find("</").map_or(0, |at| inner.len() - at);
                    closed = true;
                    break;
                }
            }
            self.found.open |= !closed;
        }

        let span = self.at..self.at + length;
        self.found.quotes.push(span.clone());
        if matches!(quote, LineQuote::Fence(_)) {
            self.found.fences.push(span.clone());
        }
        self.skip_content(span);
        true
    }

    /// Ends the reply where another speaker starts, if a message was closed before. Returns false
    /// otherwise.
    fn end_at_other_speaker(&mut self) -> bool {
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

        self.add_problem(ProblemCode::OtherSpeaker, self.at..self.text.len());
        self.found.end = self.at;
        self.skip_content(self.at..self.text.len());
        true
    }

    /// Skips a code span, which ends at a run of equally many backticks in the same paragraph.
    fn skip_code_span(&mut self) {
        if self.at >= self.spans.end {
            self.spans = CodeSpans::from_paragraph(self.text, self.at);
        }

        let (length, close) = self.spans.run(self.at);
        match close {
            Some(end) => {
                self.found.quotes.push(self.at..end);
                self.skip_content(self.at..end);
            }
            None => self.at += length,
        }
    }

    /// Skips a span in which tags have no effect, such as a code span. Reports a `QuotedEffect`
    /// problem if the span contains a tag that would take effect elsewhere.
    fn skip_content(&mut self, span: Range<usize>) {
        let text = &self.text[span.clone()];
        let mut has_effect = false;
        for at in memchr::memchr_iter(b'<', text.as_bytes()) {
            let Some(tag) = self.names.read_tag(&text[at..]).filter(|tag| !tag.closes) else {
                continue;
            };

            let after = &text[at + tag.length..];
            match tag.name {
                TagName::PackMarker(marker) => {
                    let body = after.split('<').next().unwrap_or_default();
                    self.doubt_pack_marker(marker, self.grammar.markers[marker].rank(body));
                    has_effect = true;
                }
                TagName::Call(_) => {
                    let action = span.start + at..span.end;
                    self.found.hidden_action.get_or_insert(action);
                    has_effect = true;
                }
                TagName::Update | TagName::TaskStatus => has_effect = true,
                TagName::Review | TagName::Thinking | TagName::Message | TagName::Wrapper => {}
            }
        }

        if has_effect {
            self.add_problem(ProblemCode::QuotedEffect, span.clone());
        }
        self.at = span.end;
    }

    /// Records the value of an ignored pack marker. The most severe value is kept.
    fn doubt_pack_marker(&mut self, marker: usize, rank: Option<usize>) {
        self.found
            .pack_marker_doubts
            .resize(self.grammar.markers.len(), None);
        self.found.pack_marker_doubts[marker] = self.found.pack_marker_doubts[marker].max(rank);
    }

    /// Reads text that starts with `<`. Returns true if the text after it is read like the start of
    /// a line.
    fn read_markup(&mut self) -> bool {
        let rest = &self.text[self.at..];
        if rest.starts_with("<!") && self.skip_comment() {
            return false;
        }
        let Some(tag) = self.names.read_tag(rest) else {
            // Only the last of several brackets can start a tag.
            self.at += rest.bytes().take_while(|&b| b == b'<').count();
            self.at -= usize::from(rest.starts_with("<<"));
            return false;
        };

        if tag.is_generic(&self.text[..self.at], rest) {
            self.at += tag.length;
            return false;
        }

        if tag.loose {
            self.add_problem(ProblemCode::LooseTag, self.at..self.at + tag.length);
        }

        match (tag.name, tag.closes) {
            (TagName::Thinking, false) => self.take_thought(tag),
            (TagName::Thinking, true) => self.close_unopened_thought(tag),
            (TagName::Message, false) => self.open_message(tag),
            (TagName::Message, true) => self.close_message(tag),
            (TagName::Update, false) => self.take_update(tag),
            (TagName::Review | TagName::TaskStatus | TagName::PackMarker(_), false) => {
                self.take_marker(tag)
            }
            (TagName::Call(call), false) => self.take_call(tag, call),
            (TagName::Wrapper, _) if self.message.is_some() || tag.empty => self.at += tag.length,
            (TagName::Wrapper, _) => self.skip_tag(self.at..self.at + tag.length),
            (_, true) => self.skip_stray_closer(tag),
        }

        matches!(
            tag.name,
            TagName::Thinking | TagName::Message | TagName::Update | TagName::Call(_)
        )
    }

    /// Skips a comment or a CDATA section. Both are content, so tags in them are ignored. If the
    /// end is missing, the rest of the reply belongs to it. Returns false if neither starts here.
    fn skip_comment(&mut self) -> bool {
        let rest = &self.text[self.at..];
        for (open, close) in [("<!--", "-->"), ("<![CDATA[", "]]>")] {
            if rest.starts_with(open) {
                let inner = memmem::find(rest.as_bytes(), close.as_bytes());
                let end = self.at + inner.map_or(rest.len(), |hit| hit + close.len());
                self.found.open |= inner.is_none();
                if open != "<!--" {
                    // The CDATA marks are not visible text.
                    self.hide(self.at..self.at + open.len(), false, false);
                    if inner.is_some() {
                        self.hide(end - close.len()..end, false, false);
                    }
                }
                self.skip_content(self.at..end);
                return true;
            }
        }
        false
    }

    /// Reads a thought, including nested ones.
    ///
    /// Agents do not always pair these tags. If the tags do not pair, the last closing tag ends the
    /// thought. Without a closing tag, the next message ends it, or the end of the reply. Text that
    /// may or may not belong to the thought is recorded in `possible_thoughts`, so that no verdict
    /// is taken from it.
    fn take_thought(&mut self, opener: Tag<'a>) {
        let body_start = self.at + opener.length;
        let mut depth = 1_usize;
        let mut at = body_start;
        let mut last: Option<Range<usize>> = None;
        // End of the first closing tag, and of the first one that is in code.
        let mut first = None;
        let mut hidden = None;
        let mut message = None;
        // Once no closing tag is left, only the next message matters.
        while !(self.unclosed && message.is_some())
            && let Some(hit) = memchr(b'<', &self.text.as_bytes()[at..])
        {
            at += hit;
            let is_relevant = |name| matches!(name, TagName::Thinking | TagName::Message);
            let Some(tag) = self
                .names
                .read_tag(&self.text[at..])
                .filter(|tag| is_relevant(tag.name))
            else {
                at += 1;
                continue;
            };

            let closes = tag.name == TagName::Thinking && tag.closes;
            first = first.or(Some(at + tag.length).filter(|_| closes));
            if self.code.contains(self.text, at) {
                hidden = hidden.or(Some(at + tag.length).filter(|_| closes));
                at += 1;
                continue;
            }

            match (tag.name, tag.closes) {
                (TagName::Thinking, true) => {
                    depth -= 1;
                    last = Some(at..at + tag.length);
                }
                (TagName::Thinking, false) => depth += 1,
                (_, false) if tag.complete => message = message.or(Some(at)),
                _ => {}
            }

            if depth == 0 {
                break;
            }
            at += tag.length;
        }

        self.unclosed |= last.is_none();
        // Without a closing tag, the next message ends the thought, or the end of the reply.
        let end = match (last, message) {
            (Some(closer), _) => closer,
            (None, Some(message)) => {
                self.found.unclosed_thought_from = Some(message);
                self.found.unclosed_thought_reaches_end |= hidden.is_some();
                self.add_problem(ProblemCode::UnclosedThought, self.at..message);
                message..message
            }
            (None, None) => {
                self.found.open = true;
                self.add_problem(ProblemCode::UnclosedThought, self.at..self.text.len());
                self.text.len()..self.text.len()
            }
        };

        self.found.thoughts.push(body_start..end.start);
        let start = self.at;
        // If the tags do not pair, or one is in code, the thought may have ended earlier. A verdict
        // after that place may be outside the thought.
        if let Some(from) = if depth == 0 {
            hidden
        } else {
            first.or(Some(body_start))
        } {
            let span = from.min(end.start)..end.start;
            self.found.possible_thoughts.push(span.clone());
            self.skip_content(span);
        }

        self.hide(start..end.end, false, true);
        self.at = end.end;
    }

    /// Treats all text before a closing tag as a thought: some agents omit the opening tag.
    fn close_unopened_thought(&mut self, closer: Tag<'a>) {
        self.add_problem(ProblemCode::UnopenedThought, self.thought_end..self.at);
        // A verdict in a thought is ignored, but it is uncertain that this was a thought.
        self.found.possible_thoughts.push(self.thought_end..self.at);
        for index in 0..self.found.markers.len() {
            if let MarkerValue::Pack { marker, rank } = self.found.markers[index].value {
                self.doubt_pack_marker(marker, Some(rank));
            }
        }

        self.found.markers.clear();
        self.found.effects.clear();
        self.found.refused = 0;
        self.found.messages.clear();
        self.message = None;

        // Thoughts and hidden spans are in ascending order, so only the newest are examined.
        while self
            .found
            .thoughts
            .pop_if(|thought| thought.end > self.thought_end)
            .is_some()
        {}
        self.found.thoughts.push(self.thought_end..self.at);
        while self
            .found
            .cuts
            .pop_if(|cut| cut.span.end > self.thought_end)
            .is_some()
        {}

        let end = self.at + closer.length;
        self.hide(self.thought_end..end, false, true);
        self.at = end;
        self.thought_end = end;
    }

    fn skip_stray_closer(&mut self, tag: Tag<'a>) {
        let span = self.at..self.at + tag.length;
        self.add_problem(ProblemCode::StrayCloser, span.clone());
        self.skip_tag(span);
    }

    fn add_problem(&mut self, code: ProblemCode, span: Range<usize>) {
        match self.found.problems.len() {
            0..MAX_PROBLEMS => self.found.problems.push((code, span)),
            MAX_PROBLEMS => self.found.problems.push((ProblemCode::MoreProblems, span)),
            _ => {}
        }
    }

    /// Reports attributes with missing or curly quotes.
    fn note_attributes(&mut self, tag: &Tag<'a>) {
        if parse_attributes(tag.attributes).is_some_and(|read| read.loose) {
            self.add_problem(ProblemCode::LooseAttribute, self.at..self.at + tag.length);
        }
    }

    /// Hides a span from the visible text.
    fn hide(&mut self, span: Range<usize>, effect: bool, ends: bool) {
        self.found.cuts.push(HiddenSpan { span, effect, ends });
    }

    /// Hides a tag and continues after it.
    fn skip_tag(&mut self, span: Range<usize>) {
        self.at = span.end;
        self.hide(span, false, false);
    }
}
