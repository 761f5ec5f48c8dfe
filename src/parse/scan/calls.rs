//! Actions in all their forms, and updates: what stands between their tags is opaque.

use std::ops::Range;

use foldhash::HashMap;
use memchr::memmem;

use super::{FoundEffect, Kind, MAX_REJECTED_EFFECTS, Place, Scanner};
use crate::models::{Code, EffectKind, Update, UpdateFormat};
use crate::parse::call;
use crate::parse::tag::{Attributes, Call, Name, Tag, attributes};

/// The most tags of actions that are looked at; beyond them, none is closed.
const MOST_TAGS: usize = 1_000_000;

/// The tags of actions from some place on, each opener with its closer.
pub(super) struct Elements {
    tags: Vec<Element>,
}

struct Element {
    at: usize,
    end: usize,
    /// `None` for a tag that is no action's, and ends one that is not closed.
    call: Option<Call>,
    closes: bool,
    /// For an opener, the closer that pairs with it.
    partner: Option<usize>,
}

impl Elements {
    /// Finds all tags of actions behind an offset, and pairs them by name.
    fn after(scanner: &Scanner<'_>, from: usize) -> Self {
        let mut tags: Vec<Element> = Vec::new();
        let mut open: HashMap<Call, Vec<usize>> = HashMap::default();
        let mut behind = from;
        for hit in memchr::memchr_iter(b'<', &scanner.text.as_bytes()[from..]) {
            let at = from + hit;
            // What stands in the quotes of a tag is no tag.
            if at < behind {
                continue;
            }
            let Some(tag) = scanner
                .names
                .read(&scanner.text[at..])
                .filter(|tag| tag.complete)
            else {
                continue;
            };
            let (closes, end) = (tag.closes, at + tag.length);
            behind = end;
            match tag.name {
                Name::Call(call) => {
                    let stack = open.entry(call).or_default();
                    if closes && let Some(opener) = stack.pop() {
                        tags[opener].partner = Some(tags.len());
                    } else if !closes && !tag.empty {
                        stack.push(tags.len());
                    }
                    tags.push(Element {
                        at,
                        end,
                        call: Some(call),
                        closes,
                        partner: None,
                    });
                }
                Name::Message | Name::Update | Name::Thinking if !closes => {
                    tags.push(Element {
                        at,
                        end,
                        call: None,
                        closes,
                        partner: None,
                    });
                }
                _ => {}
            }
            if tags.len() >= MOST_TAGS {
                break;
            }
        }
        Self { tags }
    }

    fn index(&self, at: usize) -> Option<usize> {
        self.tags.binary_search_by_key(&at, |tag| tag.at).ok()
    }

    /// Returns the tag that closes the one at an index, and whether another of the same form opens in between.
    fn closer(&self, opener: usize) -> Option<(&Element, bool)> {
        let partner = self.tags[opener].partner?;
        let call = self.tags[opener].call;
        let nested = self.tags[opener + 1..partner]
            .iter()
            .any(|tag| tag.call == call);
        Some((&self.tags[partner], nested))
    }

    /// Returns the last closer of the same form behind an index and before the next opener.
    fn last_closer(&self, opener: usize) -> Option<&Element> {
        let call = self.tags[opener].call;
        // Behind another tag of ours, it is another's.
        let before = |tag: &&Element| tag.call.is_some() && (tag.call != call || tag.closes);
        self.tags[opener + 1..]
            .iter()
            .take_while(before)
            .filter(|tag| tag.call == call)
            .last()
    }

    /// Returns where the next tag behind an index stands.
    fn next(&self, index: usize) -> Option<usize> {
        self.tags.get(index + 1).map(|tag| tag.at)
    }
}

impl<'a> Scanner<'a> {
    /// Takes an action.
    pub(super) fn call(&mut self, opener: Tag<'a>, call: Call) {
        let start = self.at + opener.length;
        if !opener.complete {
            // Such a tag is text, unless the reply ends in it.
            self.at = start;
            return;
        }
        if opener.empty {
            return self.read_call(&opener, call, &(start..start), start);
        }
        let elements = match self.elements.take() {
            Some(elements) => elements,
            None => Elements::after(self, self.at),
        };
        let index = elements.index(self.at);
        let closer = index.and_then(|index| elements.closer(index));
        match (closer, index) {
            (Some((closer, nested)), Some(index)) => {
                let (body, end) = (start..closer.at, closer.end);
                let last = elements
                    .last_closer(index)
                    .filter(|last| last.at > closer.at);
                if nested {
                    self.refuse_call(&opener, call, "it holds another action", body, end);
                } else if let Some(last) = last
                    && call::read(
                        call,
                        opener.attributes,
                        &self.text[body.clone()],
                        self.grammar,
                    )
                    .is_err()
                {
                    // A closer inside a field is not the action's.
                    let (body, end) = (start..last.at, last.end);
                    self.read_call(&opener, call, &body, end);
                } else {
                    self.read_call(&opener, call, &body, end);
                }
            }
            // A name in brackets that is not closed is spoken of, and nothing more.
            _ if !self.is_meant(&opener, call) => self.at = start,
            _ => {
                let end = index
                    .and_then(|index| elements.next(index))
                    .unwrap_or(self.text.len());
                self.found.open |= end == self.text.len();
                let end = end.max(start);
                self.refuse_call(
                    &opener,
                    call,
                    "it is not closed, so it may be cut off",
                    start..end,
                    end,
                );
            }
        }
        self.elements = Some(elements);
    }

    /// Tells whether an opener that is not closed asks for something: a name in brackets may be spoken of.
    fn is_meant(&self, opener: &Tag<'a>, call: Call) -> bool {
        let name = || call::name(call, opener.attributes, "", self.grammar);
        match call {
            Call::Action => !opener.attributes.trim().is_empty(),
            Call::Tool => true,
            Call::Invoke | Call::Function => {
                name().is_some_and(|name| call::is_known(&name, self.grammar))
            }
            Call::Named(_) => false,
        }
    }

    fn read_call(&mut self, opener: &Tag<'a>, call: Call, body: &Range<usize>, end: usize) {
        match call::read(
            call,
            opener.attributes,
            &self.text[body.clone()],
            self.grammar,
        ) {
            Ok((action, problems)) => {
                let span = self.at..end;
                if call != Call::Action {
                    self.problem(Code::NativeCall, span.clone());
                }
                self.note_attributes(opener);
                problems
                    .into_iter()
                    .for_each(|code| self.problem(code, span.clone()));
                self.push(EffectKind::action(&action.name), span, Kind::Action(action));
            }
            // What only looks like a call of ours is text.
            Err(_) if matches!(call, Call::Named(_)) && body.is_empty() => self.at = body.start,
            Err(reason) => self.refuse_call(opener, call, &reason, body.clone(), end),
        }
    }

    fn refuse_call(
        &mut self,
        opener: &Tag<'a>,
        call: Call,
        reason: &str,
        body: Range<usize>,
        end: usize,
    ) {
        let span = self.at..end;
        self.mask(body.clone());
        if self.found.refused >= MAX_REJECTED_EFFECTS {
            // Nobody is told of it any more, so that it need not be read.
            self.cut(span, true, true);
            self.at = end;
            return;
        }
        let name = call::name(
            call,
            opener.attributes,
            &self.text[body.clone()],
            self.grammar,
        );
        let what = EffectKind::action(&name.unwrap_or_default());
        self.found.refused += 1;
        self.push(what, span, Kind::Refused(reason.to_owned()));
    }

    fn push(&mut self, what: EffectKind, span: Range<usize>, kind: Kind) {
        self.cut(span.clone(), true, true);
        self.at = span.end;
        self.found.effects.push(FoundEffect {
            kind,
            place: Place { what, span },
        });
    }

    /// Takes an update. Its body is opaque and reaches to the last closer before the next update.
    pub(super) fn update(&mut self, opener: Tag<'a>) {
        let start = self.at + opener.length;
        let rest = &self.text[start..];
        if !opener.complete && rest.is_empty() {
            // The reply ends in the tag.
            self.at = start;
            return;
        }
        if opener.attributes.trim().is_empty()
            && opener.complete
            && !self.update_closes_after(start)
        {
            // The tag is spoken of, and nothing more.
            self.at = start;
            return;
        }
        let (mut closers, region) = self.update_closers(rest);
        // One in code is spoken of, unless there is no other.
        if closers
            .iter()
            .any(|closer| !rest[..closer.start].ends_with('`'))
        {
            closers.retain(|closer| !rest[..closer.start].ends_with('`'));
        }
        let clear = closers.len() < 2 || self.ends_clearly(rest, &closers);
        let closer = if clear {
            closers.last()
        } else {
            closers.first()
        };
        let closer = closer.cloned().unwrap_or(region..region);
        let body = start..start + closer.start;
        let read = attributes(opener.attributes);
        let target = read
            .as_ref()
            .and_then(|read| read.get("target"))
            .unwrap_or_default();
        let format = read
            .as_ref()
            .map_or(Some(UpdateFormat::Whole), update_format);
        let reason = match closers.len() {
            _ if !opener.complete || read.is_none() => "its opening tag cannot be read",
            _ if opener.empty => "it holds no text",
            0 => "it is not closed, so it may be cut off",
            _ if target.trim().is_empty() => "it names no target, or not clearly",
            _ if format.is_none() => "its format is neither `whole` nor `diff`",
            _ if !clear => "it is closed more than once, so its end is not clear",
            _ => "",
        };
        if let (false, Some(last)) = (clear, closers.last()) {
            // What stands up to the last may still be its text.
            self.found
                .unclear
                .push(start + closer.end..start + last.end);
        }
        self.found.open |= closers.is_empty() && region == rest.len();
        let what = EffectKind::update(target);
        let span = self.at..start + closer.end;
        if reason.is_empty() {
            self.note_attributes(&opener);
            if read.is_some_and(|read| read.pairs.iter().any(|(name, _)| !is_known(name))) {
                self.problem(Code::UnknownAttribute, self.at..start);
            }
            let skip = usize::from(self.text[body.clone()].starts_with('\n'));
            let skip = skip + 2 * usize::from(self.text[body.clone()].starts_with("\r\n"));
            let content = self.text[body.start + skip..body.end].to_owned();
            let format = format.unwrap_or_default();
            let update = Update {
                target: target.to_owned(),
                content,
                format,
                span: 0..0,
            };
            self.push(what, span, Kind::Update(update));
        } else {
            self.mask(start..start + closer.end);
            self.push(what, span, Kind::Refused(reason.to_owned()));
        }
    }

    /// Tells whether the last of several closers is the right one: the others are text, and nothing of ours stands
    /// between them.
    fn ends_clearly(&self, text: &str, closers: &[Range<usize>]) -> bool {
        let (Some(first), Some(last)) = (closers.first(), closers.last()) else {
            return true;
        };
        let between = &text[first.end..last.start];
        let update = |name: Name| name == Name::Update;
        let mut tags = memchr::memchr_iter(b'<', between.as_bytes());
        ends_alone(text, closers)
            && !tags.any(|at| {
                self.names
                    .read(&between[at..])
                    .is_some_and(|tag| !update(tag.name))
            })
    }

    /// Returns the closers of updates in a text, and where the next update opens, or the end.
    fn update_closers(&self, text: &str) -> (Vec<Range<usize>>, usize) {
        let mut closers: Vec<Range<usize>> = Vec::new();
        // Up to where the text was looked at, and whether only blanks stand before it on its line.
        let (mut seen, mut blank) = (0, true);
        for at in memchr::memchr_iter(b'<', text.as_bytes()) {
            // What stands in the quotes of a closer is no tag.
            if at < seen {
                continue;
            }
            match self.names.read(&text[at..]) {
                Some(Tag {
                    name: Name::Update,
                    closes: true,
                    complete: true,
                    length,
                    ..
                }) => {
                    closers.push(at..at + length);
                    (seen, blank) = (at + length, true);
                }
                Some(Tag {
                    name: Name::Update,
                    closes: false,
                    complete: true,
                    ..
                }) => {
                    let stretch = &text[seen..at];
                    blank = match stretch.rfind('\n') {
                        Some(line) => stretch[line..].trim().is_empty(),
                        None => blank && stretch.trim().is_empty(),
                    };
                    if blank || !closers.is_empty() {
                        return (closers, at);
                    }
                    // In the middle of a line it is text that speaks of it.
                    seen = at;
                }
                _ => {}
            }
        }
        (closers, text.len())
    }

    /// Tells whether an update is closed somewhere behind an offset; asked in ascending order, a text is read once.
    fn update_closes_after(&mut self, at: usize) -> bool {
        if self.update_closer < at {
            let found = memmem::find(&self.text.as_bytes()[at..], b"</content_update");
            self.update_closer = found.map_or(usize::MAX, |hit| at + hit);
        }
        self.update_closer != usize::MAX
    }
}

/// The attributes of an update.
const ATTRIBUTES: [&str; 2] = ["target", "format"];

fn is_known(attribute: &str) -> bool {
    ATTRIBUTES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(attribute))
}

/// Returns the format that an update's attributes name; `None` if that is not clear.
fn update_format(attributes: &Attributes<'_>) -> Option<UpdateFormat> {
    let named = attributes
        .pairs
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("format"));
    if named {
        attributes.get("format").and_then(UpdateFormat::read)
    } else {
        Some(UpdateFormat::Whole)
    }
}

/// Tells whether the last of several closers stands alone on its line, and no other does: then the others are text.
fn ends_alone(text: &str, closers: &[Range<usize>]) -> bool {
    let blank = |c: char| c != '\n' && c.is_whitespace();
    let alone = |closer: &Range<usize>| {
        let after = text[closer.end..].trim_start_matches(blank);
        text[..closer.start].trim_end_matches(blank).ends_with('\n')
            && (after.is_empty() || after.starts_with('\n'))
    };
    let Some((last, others)) = closers.split_last() else {
        return false;
    };
    alone(last) && !others.iter().any(alone)
}
