//! One pass over a reply, from left to right: the first opener owns its span.
//!
//! Code fences, code spans, quoted lines, comments and CDATA are content, never structure. Thinking is opaque. Only
//! the names of the grammar are tags; everything else is text.

use std::collections::HashMap;
use std::ops::Range;

use memchr::memmem;

use super::Grammar;
use super::verdict::read_value;
use crate::models::{Marker, Problem, Proposal, Response, TaskStatus, Update};

/// The spellings of thinking.
const THINKING: [&str; 4] = ["thought", "thinking", "think", "reasoning"];

/// The longest body of a marker; a verdict is one word or two.
const LONGEST_MARKER: usize = 64;

/// Reads a whole reply.
pub(super) fn scan(reply: &str, grammar: &Grammar) -> Response {
    let inside = unwrap_fence(reply).unwrap_or(0..reply.len());
    let (text, base) = (&reply[inside.clone()], inside.start);
    let mut scanner = Scanner {
        text,
        base,
        at: 0,
        copied: 0,
        grammar,
        no_closer: HashMap::new(),
        response: Response::default(),
    };
    scanner.run();
    let message = scanner.response.message.trim().to_owned();
    Response { message, ..scanner.response }
}

/// Returns the inside of a fence that is the entire reply.
fn unwrap_fence(reply: &str) -> Option<Range<usize>> {
    let trimmed = reply.trim();
    let (first, rest) = trimmed.split_once('\n')?;
    let fence = Fence::opened_by(first).filter(|_| first.len() < LONGEST_MARKER)?;
    let (inside, last) = rest.rsplit_once('\n')?;
    let start = reply.len() - reply.trim_start().len() + first.len() + 1;
    let only_fence = fence.is_closed_by(last) && !inside.lines().any(|line| fence.is_closed_by(line));
    only_fence.then_some(start..start + inside.len())
}

/// An open code fence: its character and length.
#[derive(Clone, Copy)]
struct Fence(u8, usize);

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let indented = line.len() - line.trim_start_matches(' ').len();
        let mark = *line.trim_start_matches(' ').as_bytes().first()?;
        let length = line.trim_start_matches(' ').bytes().take_while(|&b| b == mark).count();
        (indented < 4 && length >= 3 && matches!(mark, b'`' | b'~')).then_some(Self(mark, length))
    }

    fn is_closed_by(self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.1 && line.bytes().all(|b| b == self.0)
    }
}

struct Scanner<'a> {
    text: &'a str,
    /// The text's offset in the reply.
    base: usize,
    at: usize,
    /// Up to where the text is already in the message, or known not to belong there.
    copied: usize,
    grammar: &'a Grammar,
    /// Names for which there is no closing tag at or after an offset: keeps the pass linear.
    no_closer: HashMap<&'a str, usize>,
    response: Response,
}

/// An opening tag of the grammar.
struct Opener<'a> {
    name: &'a str,
    attributes: &'a str,
    start: usize,
    end: usize,
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
                b'<' => self.markup(),
                _ => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += memchr::memchr3(b'\n', b'`', b'<', rest).unwrap_or(rest.len());
                }
            }
        }
        self.copy_up_to(self.text.len());
    }

    /// Skips a fence or a quoted line that starts here.
    fn skip_masked_line(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let line = rest.split_inclusive('\n').next().unwrap_or_default();
        let end = if let Some(fence) = Fence::opened_by(line) {
            let body = &rest[line.len()..];
            let mut length = line.len();
            for inner in body.split_inclusive('\n') {
                length += inner.len();
                if fence.is_closed_by(inner) {
                    break;
                }
            }
            self.at + length
        } else if line.trim_start().starts_with('>') {
            self.at + line.len()
        } else {
            return false;
        };
        self.mask(self.at..end);
        true
    }

    fn skip_code_span(&mut self) {
        let rest = &self.text[self.at..];
        let ticks = rest.bytes().take_while(|&b| b == b'`').count();
        // A code span ends at a run of the same length, in the same paragraph.
        let paragraph = &rest[..rest.find("\n\n").unwrap_or(rest.len())];
        let mut at = ticks;
        while let Some(hit) = memchr::memchr(b'`', &paragraph.as_bytes()[at.min(paragraph.len())..]) {
            let start = at + hit;
            let run = paragraph[start..].bytes().take_while(|&b| b == b'`').count();
            if run == ticks {
                self.mask(self.at..self.at + start + run);
                return;
            }
            at = start + run;
        }
        self.at += ticks;
    }

    /// Notes the worst verdict of a span that is content, and skips it.
    fn mask(&mut self, span: Range<usize>) {
        let bytes = &self.text.as_bytes()[span.clone()];
        for start in memmem::find_iter(bytes, b"<review") {
            let near = &bytes[start..bytes.len().min(start + 2 * LONGEST_MARKER)];
            let value = near.split(|&b| b == b'>' || b == b'<').nth(2).unwrap_or_default();
            let verdict = str::from_utf8(value).ok().and_then(read_value);
            self.response.quoted_verdict = self.response.quoted_verdict.max(verdict);
        }
        for tag in ["<content_update", "<task_status"] {
            if memmem::find(bytes, tag.as_bytes()).is_some() {
                let words = format!("{tag}> stands in a quote or in code, and does not count");
                self.problem("quoted_effect", &words, span.clone());
            }
        }
        self.at = span.end;
    }

    fn markup(&mut self) {
        let rest = &self.text[self.at..];
        for (open, close) in [("<!--", "-->"), ("<![CDATA[", "]]>")] {
            if rest.starts_with(open) {
                match self.find_closer(close, self.at + open.len()) {
                    Some(end) => self.mask(self.at..end + close.len()),
                    None => self.at += open.len(),
                }
                return;
            }
        }
        match self.opener() {
            Some(opener) => self.element(&opener),
            None => self.at += 1,
        }
    }

    /// Reads the opening tag that starts here, if it is one of the grammar.
    fn opener(&self) -> Option<Opener<'a>> {
        let inside = &self.text[self.at + 1..];
        let length = inside.bytes().take_while(|&b| b.is_ascii_alphanumeric() || b == b'_').count();
        let name = &inside[..length];
        let known = THINKING.contains(&name)
            || matches!(name, "review" | "task_status" | "content_update" | "message");
        if !known || !inside[length..].starts_with(['>', ' ', '\t', '\n']) {
            return None;
        }
        let close = memchr::memchr2(b'>', b'<', &inside.as_bytes()[length..])? + length;
        let complete = inside.as_bytes()[close] == b'>';
        let end = self.at + 1 + close + 1;
        complete.then_some(Opener { name, attributes: &inside[length..close], start: self.at, end })
    }

    fn element(&mut self, opener: &Opener<'a>) {
        if opener.name == "message" {
            // The message's own tags vanish; what stands between them is read like everything else.
            self.copy_up_to(opener.start);
            self.skip_to(opener.end);
            return;
        }
        let closer = match opener.name {
            "thought" => "</thought>",
            "thinking" => "</thinking>",
            "think" => "</think>",
            "reasoning" => "</reasoning>",
            "review" => "</review>",
            "task_status" => "</task_status>",
            _ => "</content_update>",
        };
        let found = self.find_closer(closer, opener.end);
        let body = &self.text[opener.end..found.unwrap_or(self.text.len())];
        let end = found.map_or(self.text.len(), |at| at + closer.len());
        if THINKING.contains(&opener.name) {
            self.copy_up_to(opener.start);
            self.response.thoughts.push(body.trim().to_owned());
            if found.is_none() {
                self.problem(
                    "unclosed_thought",
                    "a thought is not closed; all that follows belongs to it",
                    opener.start..end,
                );
            }
            self.skip_to(end);
        } else if opener.name == "content_update" {
            self.copy_up_to(opener.start);
            self.update(opener, body, found.is_some());
            self.skip_to(end);
        } else {
            self.marker(opener, body, end, found.is_some());
        }
    }

    fn update(&mut self, opener: &Opener<'a>, body: &str, closed: bool) {
        let target = attribute(opener.attributes, "target").unwrap_or_default().to_owned();
        let reason = match (closed, target.is_empty()) {
            (true, false) => {
                let content = body.strip_prefix('\n').unwrap_or(body).to_owned();
                self.response.updates.push(Update { target, content });
                return;
            }
            (false, _) => "it is not closed, so it may be cut off",
            (true, true) => "it names no target",
        };
        let (what, text) = (format!("content_update {target}"), body.to_owned());
        self.response.proposals.push(Proposal { what, reason: reason.to_owned(), text });
    }

    fn marker(&mut self, opener: &Opener<'a>, body: &str, end: usize, closed: bool) {
        let short = closed && body.len() <= LONGEST_MARKER;
        let marker = match opener.name {
            _ if !short => None,
            "review" => read_value(body).map(|verdict| Marker::Review { verdict }),
            _ => task_status(opener.attributes, body).filter(|_| self.grammar.task_status),
        };
        let Some(marker) = marker else {
            let words = format!("<{}> holds no value that can be read", opener.name);
            self.problem("unreadable_marker", &words, opener.start..opener.end);
            self.at = opener.end;
            return;
        };
        self.copy_up_to(opener.start);
        self.response.markers.push(marker);
        self.skip_to(end);
    }

    fn find_closer(&mut self, closer: &'static str, from: usize) -> Option<usize> {
        if self.no_closer.get(closer).is_some_and(|&known| from >= known) {
            return None;
        }
        let found = memmem::find(&self.text.as_bytes()[from..], closer.as_bytes()).map(|hit| from + hit);
        if found.is_none() {
            self.no_closer.insert(closer, from);
        }
        found
    }

    fn problem(&mut self, code: &'static str, message: &str, span: Range<usize>) {
        let span = span.start + self.base..span.end + self.base;
        self.response.problems.push(Problem { code, message: message.to_owned(), span });
    }

    fn copy_up_to(&mut self, end: usize) {
        if self.copied < end {
            self.response.message.push_str(&self.text[self.copied..end].replace("</message>", ""));
            self.copied = end;
        }
    }

    fn skip_to(&mut self, end: usize) {
        self.at = end;
        self.copied = end;
    }
}

fn task_status(attributes: &str, body: &str) -> Option<Marker> {
    let id = attribute(attributes, "id")?.to_owned();
    let status = match body.trim().to_ascii_uppercase().as_str() {
        "COMPLETED" => TaskStatus::Completed,
        "FAILED" => TaskStatus::Failed,
        _ => return None,
    };
    Some(Marker::TaskStatus { id, status })
}

/// Returns an attribute's value, in either kind of quotes.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let starts =
        attributes.match_indices(name).filter(|(at, _)| attributes[..*at].ends_with(char::is_whitespace));
    let after = &attributes[starts.map(|(at, _)| at).next()? + name.len()..];
    let value = after.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    value[1..].split_once(quote).map(|(value, _)| value)
}
