//! One pass over a reply, from left to right: the first opener owns its span.
//!
//! Code fences, code spans, quoted lines, comments and CDATA are content, never structure. Thinking is opaque. Only
//! the names of the grammar are tags; everything else is text. What is doubtful is never an effect, and a doubtful
//! verdict that is worse than PASS keeps a PASS from counting.

mod effects;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use memchr::{memchr, memchr3, memmem};

use super::Grammar;
use super::line::{Fence, is_quoted, may_be_masked, starts_block, strictly_fenced};
use super::tag::{self, Name, Tag};
use super::verdict::{is_alternation, leading, named, read_value};
use crate::models::{Marker, Problem, Proposal, Response, ReviewResult, TaskStatus, Update};

/// The longest body of a marker: a verdict, and perhaps a remark.
const LONGEST_MARKER: usize = 500;

/// Reads a whole reply.
pub(super) fn scan(reply: &str, grammar: &Grammar) -> Response {
    let inside = unwrap_fence(reply).unwrap_or(0..reply.len());
    let (text, base) = (&reply[inside.clone()], inside.start);
    let mut scanner = Scanner {
        text,
        base,
        at: 0,
        copied: 0,
        unthought: 0,
        update_closer: 0,
        passes: Vec::new(),
        grammar,
        spans: CodeSpans::default(),
        own_doubts: Vec::new(),
        response: Response::default(),
    };
    scanner.run();
    scanner.finish()
}

/// Returns the inside of a fence that is the entire reply.
fn unwrap_fence(reply: &str) -> Option<Range<usize>> {
    let trimmed = reply.trim();
    let (first, rest) = trimmed.split_once('\n')?;
    let fence = Fence::opened_by(first).filter(|_| first.len() < 64 && first.starts_with(['`', '~']))?;
    let (inside, last) = rest.rsplit_once('\n')?;
    let start = reply.len() - reply.trim_start().len() + first.len() + 1;
    let only_fence = fence.is_closed_by(last) && !inside.lines().any(|line| fence.is_closed_by(line));
    only_fence.then_some(start..start + inside.len())
}

struct Scanner<'a> {
    text: &'a str,
    /// The text's offset in the reply.
    base: usize,
    at: usize,
    /// Up to where the text is already in the message, or known not to belong there.
    copied: usize,
    /// Up to where everything is known to be thought.
    unthought: usize,
    /// Where the next update is closed, as far as was looked for; past the end if nowhere.
    update_closer: usize,
    /// Where each PASS stands.
    passes: Vec<usize>,
    grammar: &'a Grammar,
    spans: CodeSpans,
    /// The severest value of each own marker that does not count.
    own_doubts: Vec<Option<usize>>,
    response: Response,
}

/// The runs of backticks of the paragraph that was looked at last.
#[derive(Default)]
struct CodeSpans {
    end: usize,
    /// For each run its start, its length, and the end of the next run of the same length.
    runs: HashMap<usize, (usize, Option<usize>)>,
}

impl<'a> Scanner<'a> {
    fn run(&mut self) {
        let mut line_start = true;
        while self.at < self.text.len() {
            if line_start && self.skip_masked_line() {
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
                b'\\' => self.at += 1 + usize::from(self.text[self.at + 1..].starts_with(['`', '\\'])),
                _ => {
                    let rest = &self.text.as_bytes()[self.at..];
                    let next = memchr3(b'\n', b'`', b'<', rest).unwrap_or(rest.len());
                    self.at += memchr(b'\\', &rest[..next]).filter(|&at| at > 0).unwrap_or(next);
                }
            }
        }
        self.copy_up_to(self.text.len());
    }

    /// Trims the message, and refuses updates that contradict each other.
    fn finish(mut self) -> Response {
        self.response.message = self.response.message.trim().to_owned();
        self.drop_uncertain_passes();
        self.keep_worst_markers();
        let mut first: HashMap<String, String> = HashMap::new();
        let mut contradicted = HashSet::new();
        for Update { target, content } in &self.response.updates {
            if first.entry(target.clone()).or_insert_with(|| content.clone()) != content {
                contradicted.insert(target.clone());
            }
        }
        let updates = std::mem::take(&mut self.response.updates);
        for update in updates {
            if contradicted.contains(&update.target) {
                self.refuse(&update.target, "the same target is given two texts", &update.content);
            } else if first.remove(&update.target).is_some() {
                self.response.updates.push(update);
            }
        }
        self.response
    }

    /// Drops each PASS that another way of reading Markdown would find in code: only what no reading masks is a pass.
    fn drop_uncertain_passes(&mut self) {
        if self.passes.is_empty() {
            return;
        }
        let fenced = strictly_fenced(self.text);
        let mut code = LineCode::default();
        let mut masked = |&at: &usize| {
            let next = fenced.partition_point(|span| span.end <= at);
            let escaped = self.text[..at].ends_with('\\');
            escaped || fenced.get(next).is_some_and(|span| span.contains(&at)) || code.holds(self.text, at)
        };
        if self.passes.iter().any(&mut masked) {
            let pass = Marker::Review { verdict: ReviewResult::Pass };
            self.response.markers.retain(|marker| *marker != pass);
            self.problem(
                "uncertain_pass",
                "a PASS may stand in code, and does not count",
                0..self.text.len(),
            );
        }
    }

    /// Skips a fence or a quoted line that starts here.
    fn skip_masked_line(&mut self) -> bool {
        let rest = &self.text[self.at..];
        if !may_be_masked(rest) {
            return false;
        }
        let line = rest.split_inclusive('\n').next().unwrap_or_default();
        let mut length = line.len();
        if let Some(fence) = Fence::opened_by(line) {
            for inner in rest[line.len()..].split_inclusive('\n') {
                length += inner.len();
                if fence.is_closed_by(inner) {
                    break;
                }
            }
        } else if !is_quoted(line) {
            return false;
        }
        self.mask(self.at..self.at + length);
        true
    }

    /// Skips a code span: it ends at a run of as many backticks, in the same paragraph.
    fn skip_code_span(&mut self) {
        if self.at >= self.spans.end {
            self.spans = CodeSpans::of_paragraph(self.text, self.at);
        }
        let (length, close) = self.spans.runs.get(&self.at).copied().unwrap_or((1, None));
        match close {
            Some(end) => self.mask(self.at..end),
            None => self.at += length,
        }
    }

    /// Skips a span that is content, and tells what stands in it that would have counted elsewhere.
    fn mask(&mut self, span: Range<usize>) {
        let text = &self.text[span.clone()];
        let mut effect = false;
        for at in memchr::memchr_iter(b'<', text.as_bytes()) {
            match tag::read(&text[at..], self.grammar) {
                Some(Tag { name: Name::Review, closes: false, length, .. }) => {
                    let body = text[at + length..].split('<').next().unwrap_or_default();
                    if !is_alternation(body) {
                        self.doubt(&text[at + length..]);
                    }
                }
                Some(Tag { name: Name::Own(marker), closes: false, length, .. }) => {
                    let body = text[at + length..].split('<').next().unwrap_or_default();
                    self.doubt_own(marker, self.grammar.markers[marker].rank(body));
                    effect = true;
                }
                Some(Tag { name: Name::Update | Name::TaskStatus | Name::Action, closes: false, .. }) => {
                    effect = true
                }
                _ => {}
            }
        }
        if effect {
            self.problem("quoted_effect", "an effect in a quote or in code does not count", span.clone());
        }
        self.at = span.end;
    }

    /// Keeps a verdict that does not count in mind: beside it, PASS does not count either if it is worse.
    fn doubt(&mut self, after: &str) {
        let worst = self.response.quoted_verdict.max(leading(after));
        self.response.quoted_verdict = worst;
    }

    /// Reads what starts with `<`; tells whether a line may start behind it.
    fn markup(&mut self) -> bool {
        let rest = &self.text[self.at..];
        for (open, close) in [("<!--", "-->"), ("<![CDATA[", "]]>")] {
            if rest.starts_with(open) {
                // One that is not closed hides all that follows.
                let end = memmem::find(rest.as_bytes(), close.as_bytes())
                    .map_or(rest.len(), |hit| hit + close.len());
                self.mask(self.at..self.at + end);
                return false;
            }
        }
        let Some(tag) = tag::read(rest, self.grammar) else {
            if tag::looks_like_review(rest) {
                self.doubt_after_brackets(self.at);
            }
            self.at += 1;
            return false;
        };
        match (tag.name, tag.closes) {
            (Name::Thinking, false) => self.thinking(tag),
            (Name::Thinking, true) => self.orphan_thinking(tag),
            (Name::Message, _) => {
                // The message's own tags vanish; what stands between them is read like everything else.
                self.copy_up_to(self.at);
                self.skip_to(self.at + tag.length);
            }
            (Name::Update, false) => self.update(tag),
            (Name::Review | Name::TaskStatus | Name::Own(_), false) => self.marker(tag),
            (Name::Action, false) => self.action(tag),
            _ => self.at += tag.length,
        }
        matches!(tag.name, Name::Thinking | Name::Message | Name::Update | Name::Action)
    }

    /// Takes a thought, nested ones included. One that is not closed owns all that follows.
    fn thinking(&mut self, opener: Tag<'a>) {
        let body_start = self.at + opener.length;
        let mut depth = 1_usize;
        let mut code = LineCode::default();
        let mut at = body_start;
        let mut body_end = self.text.len();
        let mut end = self.text.len();
        while let Some(hit) = memchr(b'<', &self.text.as_bytes()[at..]) {
            at += hit;
            let tag = tag::read(&self.text[at..], self.grammar).filter(|tag| tag.name == Name::Thinking);
            let tag = tag.filter(|_| !code.holds(self.text, at));
            let Some(tag) = tag else {
                at += 1;
                continue;
            };
            depth = if tag.closes { depth - 1 } else { depth + 1 };
            if depth == 0 {
                (body_end, end) = (at, at + tag.length);
                break;
            }
            at += tag.length;
        }
        if depth > 0 {
            let words = "a thought is not closed; all that follows belongs to it";
            self.problem("unclosed_thought", words, self.at..end);
        }
        self.copy_up_to(self.at);
        self.response.thoughts.push(self.text[body_start..body_end].trim().to_owned());
        self.skip_to(end);
    }

    /// Takes all that came before for a thought: some agents leave out the opening tag.
    fn orphan_thinking(&mut self, closer: Tag<'a>) {
        let words = "a thought is closed that was not opened; all before it belongs to it";
        self.problem("unopened_thought", words, self.unthought..self.at);
        let worst = self.response.quoted_verdict.max(worst_verdict(&self.response));
        let Response { thoughts, problems, .. } = std::mem::take(&mut self.response);
        // What was thought is no verdict, but whether it was thought is not certain.
        self.response = Response { thoughts, problems, quoted_verdict: worst, ..Response::default() };
        self.passes.clear();
        self.response.thoughts.push(self.text[self.unthought..self.at].trim().to_owned());
        self.skip_to(self.at + closer.length);
        self.unthought = self.at;
    }

    /// Takes an update. Its body is opaque and reaches to the last closer before the next update; if there are several
    /// closers, nobody can tell where it ends.
    fn update(&mut self, opener: Tag<'a>) {
        let start = self.at + opener.length;
        let rest = &self.text[start..];
        if opener.attributes.trim().is_empty() && opener.complete && !self.update_closes_after(start) {
            // The tag is spoken of, and nothing more.
            self.at = start;
            return;
        }
        let (mut closers, mut last, mut region) = (0, 0..0, rest.len());
        for at in memchr::memchr_iter(b'<', rest.as_bytes()) {
            match tag::read(&rest[at..], self.grammar) {
                Some(Tag { name: Name::Update, closes: true, length, .. }) => {
                    closers += 1;
                    last = at..at + length;
                }
                Some(Tag { name: Name::Update, closes: false, complete: true, .. }) => {
                    region = at;
                    break;
                }
                _ => {}
            }
        }
        let (body, end) =
            if closers == 0 { (&rest[..region], region) } else { (&rest[..last.start], last.end) };
        let target = tag::attribute(opener.attributes, "target").unwrap_or_default();
        let reason = match (closers, target.is_empty()) {
            _ if !opener.complete => "its opening tag cannot be read",
            (0, _) => "it is not closed, so it may be cut off",
            (_, true) => "it names no target, or not clearly",
            (1, false) => "",
            (_, false) => "it is closed more than once, so its end is not clear",
        };
        self.copy_up_to(self.at);
        if reason.is_empty() {
            let content = body.strip_prefix('\n').unwrap_or(body).to_owned();
            self.response.updates.push(Update { target: target.to_owned(), content });
        } else {
            self.refuse(target, reason, body);
            self.mask(start..start + end);
        }
        self.skip_to(start + end);
    }

    /// Tells whether an update is closed somewhere behind an offset; asked in ascending order, a text is read once.
    fn update_closes_after(&mut self, at: usize) -> bool {
        if self.update_closer < at {
            let found = memmem::find(&self.text.as_bytes()[at..], b"</content_update");
            self.update_closer = found.map_or(usize::MAX, |hit| at + hit);
        }
        self.update_closer != usize::MAX
    }

    fn refuse(&mut self, target: &str, reason: &str, text: &str) {
        self.response.proposals.push(Proposal {
            what: format!("content_update {target}"),
            reason: reason.to_owned(),
            text: text.to_owned(),
        });
    }

    fn marker(&mut self, opener: Tag<'a>) {
        let start = self.at + opener.length;
        let near = &self.text.as_bytes()[start..self.text.len().min(start + LONGEST_MARKER)];
        // The next tag of the same name ends it; if that one opens, this one was only spoken of.
        let same = |at: usize| {
            let text = self.text.get(start + at..)?;
            let tag = tag::read(text, self.grammar).filter(|tag| tag.name == opener.name)?;
            Some((at, tag.closes && tag.complete))
        };
        let body_length = memchr::memchr_iter(b'<', near).find_map(same);
        let body_length = body_length.filter(|(_, closes)| *closes && opener.complete).map(|(at, _)| at);
        let body = body_length.and_then(|length| self.text.get(start..start + length));
        let marker = body.and_then(|body| match opener.name {
            Name::Review => read_value(&without_tags(body)).map(|verdict| Marker::Review { verdict }),
            Name::Own(index) => self.grammar.markers[index].read(body),
            _ => task_status(opener.attributes, body).filter(|_| self.grammar.task_status),
        });
        if opener.name == Name::Review {
            // A verdict in the tag itself is none, and contradicts the body.
            let in_tag = (!opener.attributes.is_empty()).then(|| named(opener.attributes)).flatten();
            self.response.quoted_verdict = self.response.quoted_verdict.max(in_tag);
        }
        let (Some(marker), Some(length)) = (marker, body_length) else {
            if opener.name == Name::Review {
                self.unreadable_review(start, body);
            }
            if let Name::Own(marker) = opener.name {
                self.doubt_own(marker, Some(usize::MAX));
            }
            self.problem("unreadable_marker", "a marker holds no value that can be read", self.at..start);
            self.at = start;
            return;
        };
        self.copy_up_to(self.at);
        if marker == (Marker::Review { verdict: ReviewResult::Pass }) {
            self.passes.push(self.at);
        }
        self.response.markers.push(marker);
        let closer = self.text.get(start + length..).and_then(|text| tag::read(text, self.grammar));
        let closer = closer.map_or(0, |tag| tag.length);
        self.skip_to(start + length + closer);
    }

    /// Notes a `<review>` that is there and cannot be read, unless it only shows which values there are.
    fn unreadable_review(&mut self, start: usize, body: Option<&str>) {
        match body {
            Some(body) if is_alternation(body) => {}
            Some(body) => {
                self.response.doubtful_verdict |= !body.trim().is_empty();
                self.response.quoted_verdict = self.response.quoted_verdict.max(named(body));
            }
            None => {
                self.doubt(&self.text[start..]);
                self.doubt_after_brackets(start);
            }
        }
    }

    /// Looks behind each `>` nearby: of a broken opening tag nobody can tell where it ends.
    fn doubt_after_brackets(&mut self, start: usize) {
        let near = &self.text.as_bytes()[start..self.text.len().min(start + LONGEST_MARKER)];
        for at in memchr::memchr_iter(b'>', near).take(4) {
            self.doubt(&self.text[start + at + 1..]);
        }
    }

    fn problem(&mut self, code: &'static str, message: &str, span: Range<usize>) {
        let span = span.start + self.base..span.end + self.base;
        self.response.problems.push(Problem { code, message: message.to_owned(), span });
    }

    fn copy_up_to(&mut self, end: usize) {
        if self.copied < end {
            self.response.message.push_str(&self.text[self.copied..end]);
            self.copied = end;
        }
    }

    fn skip_to(&mut self, end: usize) {
        self.at = end;
        self.copied = end;
    }
}

impl CodeSpans {
    /// Finds the runs of backticks from an offset to the end of its paragraph, each with its partner.
    fn of_paragraph(text: &str, from: usize) -> Self {
        let mut lines = text[from..].split_inclusive('\n');
        let first = lines.next().map_or(0, str::len);
        let end = from + first + lines.take_while(|line| !starts_block(line)).map(str::len).sum::<usize>();
        Self::between(text, from, end)
    }

    fn between(text: &str, from: usize, end: usize) -> Self {
        let mut found = Vec::new();
        let mut at = from;
        while let Some(hit) = memchr(b'`', &text.as_bytes()[at..end]) {
            let start = at + hit;
            let length = text.as_bytes()[start..end].iter().take_while(|&&b| b == b'`').count();
            found.push((start, length));
            at = start + length;
        }
        let mut next_of_length: HashMap<usize, usize> = HashMap::new();
        let mut runs = HashMap::with_capacity(found.len());
        for (start, length) in found.into_iter().rev() {
            let partner = next_of_length.insert(length, start + length);
            runs.insert(start, (length, partner));
        }
        Self { end, runs }
    }
}

/// The code spans of one line; asked in ascending order, a text is read once.
#[derive(Default)]
struct LineCode {
    line: Range<usize>,
    spans: Vec<Range<usize>>,
}

impl LineCode {
    /// Tells whether an offset stands in a code span of its own line.
    fn holds(&mut self, text: &str, at: usize) -> bool {
        if !self.line.contains(&at) {
            *self = Self::around(text, at);
        }
        let next = self.spans.partition_point(|span| span.end <= at);
        self.spans.get(next).is_some_and(|span| span.contains(&at))
    }

    fn around(text: &str, at: usize) -> Self {
        let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1);
        let runs = CodeSpans::between(text, start, end).runs;
        let mut spans = Vec::new();
        let mut from = start;
        while let Some(hit) = memchr(b'`', &text.as_bytes()[from..end]) {
            let run = from + hit;
            let escaped = text[start..run].bytes().rev().take_while(|&b| b == b'\\').count() % 2 == 1;
            let (length, close) = runs.get(&run).copied().unwrap_or((1, None));
            match close {
                _ if escaped => from = run + 1,
                Some(close) => {
                    spans.push(run..close);
                    from = close;
                }
                None => from = run + length,
            }
        }
        Self { line: start..end, spans }
    }
}

/// Returns a marker's body without markup inside it, such as `<b>`.
fn without_tags(body: &str) -> String {
    let mut out = String::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        rest = after.split_once('>').map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// Returns the worst verdict among the markers of a response.
fn worst_verdict(response: &Response) -> Option<ReviewResult> {
    let verdicts = response.markers.iter().filter_map(|marker| match marker {
        Marker::Review { verdict } => Some(*verdict),
        Marker::TaskStatus { .. } | Marker::Named { .. } => None,
    });
    verdicts.max()
}

fn task_status(attributes: &str, body: &str) -> Option<Marker> {
    let id = tag::attribute(attributes, "id")?.to_owned();
    let status = match body.trim().to_ascii_uppercase().as_str() {
        "COMPLETED" => TaskStatus::Completed,
        "FAILED" => TaskStatus::Failed,
        _ => return None,
    };
    Some(Marker::TaskStatus { id, status })
}
