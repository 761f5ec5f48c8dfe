//! Actions in all notations, and updates. Their bodies are opaque.

use std::ops::Range;

use foldhash::HashMap;
use memchr::memmem;

use super::{EffectContent, EffectPlace, FoundEffect, MAX_REJECTED_EFFECTS, Scanner};
use crate::models::{EffectKind, ProblemCode, Update, UpdateFormat};
use crate::parse::call;
use crate::parse::tag::{Attributes, CallForm, Tag, TagName, parse_attributes};

/// Maximum number of action tags that are paired. Later ones are treated as unclosed.
const MAX_TAGS: usize = 1_000_000;

/// Action tags from an offset on, each opening tag with its closing tag.
pub(super) struct ActionTags {
    tags: Vec<ActionTag>,
}

struct ActionTag {
    at: usize,
    end: usize,
    /// `None` for the opening tag of a message, an update or a thought, which ends an unclosed action.
    call: Option<CallForm>,
    closes: bool,
    /// Index of the closing tag; `None` for a closing or an unclosed tag.
    partner: Option<usize>,
}

impl ActionTags {
    /// Finds all action tags from an offset on, and pairs them by name.
    fn find_after(scanner: &Scanner<'_>, from: usize) -> Self {
        let mut tags: Vec<ActionTag> = Vec::new();
        let mut open: HashMap<CallForm, Vec<usize>> = HashMap::default();
        let mut tag_end = from;

        for hit in memchr::memchr_iter(b'<', &scanner.text.as_bytes()[from..]) {
            let at = from + hit;
            // Skip brackets inside the quoted attributes of a tag.
            if at < tag_end {
                continue;
            }

            let Some(tag) = scanner
                .names
                .read_tag(&scanner.text[at..])
                .filter(|tag| tag.complete)
            else {
                continue;
            };
            let closes = tag.closes;
            let end = at + tag.length;
            tag_end = end;

            match tag.name {
                TagName::Call(call) => {
                    let stack = open.entry(call).or_default();
                    if closes && let Some(opener) = stack.pop() {
                        tags[opener].partner = Some(tags.len());
                    } else if !closes && !tag.empty {
                        stack.push(tags.len());
                    }
                    tags.push(ActionTag {
                        at,
                        end,
                        call: Some(call),
                        closes,
                        partner: None,
                    });
                }
                TagName::Message | TagName::Update | TagName::Thinking if !closes => {
                    tags.push(ActionTag {
                        at,
                        end,
                        call: None,
                        closes,
                        partner: None,
                    });
                }
                _ => {}
            }

            if tags.len() >= MAX_TAGS {
                break;
            }
        }
        Self { tags }
    }

    fn index_at(&self, at: usize) -> Option<usize> {
        self.tags.binary_search_by_key(&at, |tag| tag.at).ok()
    }

    /// Returns the closing tag of the opening tag at an index, and true if another action of the
    /// same form opens in between.
    fn find_closer(&self, opener: usize) -> Option<(&ActionTag, bool)> {
        let partner = self.tags[opener].partner?;
        let call = self.tags[opener].call;
        let nested = self.tags[opener + 1..partner]
            .iter()
            .any(|tag| tag.call == call);
        Some((&self.tags[partner], nested))
    }

    /// Returns the last closing tag of the same form before the next opening tag of that form, and
    /// before the next message, update or thought.
    fn find_last_closer(&self, opener: usize) -> Option<&ActionTag> {
        let call = self.tags[opener].call;
        // Closing tags after another opening tag belong to that tag.
        let may_close = |tag: &&ActionTag| tag.call.is_some() && (tag.call != call || tag.closes);
        self.tags[opener + 1..]
            .iter()
            .take_while(may_close)
            .filter(|tag| tag.call == call)
            .last()
    }

    /// Returns the offset of the tag after an index.
    fn next_offset(&self, index: usize) -> Option<usize> {
        self.tags.get(index + 1).map(|tag| tag.at)
    }
}

impl<'a> Scanner<'a> {
    /// Reads an action.
    pub(super) fn take_call(&mut self, opener: Tag<'a>, call: CallForm) {
        let start = self.at + opener.length;
        if !opener.complete {
            // An incomplete tag is text, unless the reply ends in it.
            self.at = start;
            return;
        }

        if opener.empty {
            return self.read_call(&opener, call, &(start..start), start);
        }

        let action_tags = match self.action_tags.take() {
            Some(action_tags) => action_tags,
            None => ActionTags::find_after(self, self.at),
        };
        let index = action_tags.index_at(self.at);
        let closer = index.and_then(|index| action_tags.find_closer(index));

        match (closer, index) {
            (Some((closer, nested)), Some(index)) => {
                let body = start..closer.at;
                let end = closer.end;

                let last = action_tags
                    .find_last_closer(index)
                    .filter(|last| last.at > closer.at);

                if nested {
                    self.refuse_call(
                        &opener,
                        call,
                        "the action contains another action",
                        body,
                        end,
                    );
                } else if let Some(last) = last
                    && call::read_action(
                        call,
                        opener.attributes,
                        &self.text[body.clone()],
                        self.grammar,
                    )
                    .is_err()
                {
                    // The first closing tag is inside a field; the last one closes the action.
                    self.read_call(&opener, call, &(start..last.at), last.end);
                } else {
                    self.read_call(&opener, call, &body, end);
                }
            }
            // An unclosed opening tag may be only a mention of the action.
            _ if !self.is_meant(&opener, call) => self.at = start,
            _ => {
                let end = index
                    .and_then(|index| action_tags.next_offset(index))
                    .unwrap_or(self.text.len());
                self.found.open |= end == self.text.len();
                let end = end.max(start);
                self.refuse_call(
                    &opener,
                    call,
                    "the closing tag is missing, so the text may be incomplete",
                    start..end,
                    end,
                );
            }
        }

        self.action_tags = Some(action_tags);
    }

    /// Returns true if an unclosed opening tag is a request rather than a mention of its name.
    fn is_meant(&self, opener: &Tag<'a>, call: CallForm) -> bool {
        let name = || call::find_action_name(call, opener.attributes, "", self.grammar);
        match call {
            CallForm::Action => !opener.attributes.trim().is_empty(),
            CallForm::Tool => true,
            CallForm::Invoke | CallForm::Function => {
                name().is_some_and(|name| call::is_known_action(&name, self.grammar))
            }
            CallForm::Named(_) => false,
        }
    }

    fn read_call(&mut self, opener: &Tag<'a>, call: CallForm, body: &Range<usize>, end: usize) {
        match call::read_action(
            call,
            opener.attributes,
            &self.text[body.clone()],
            self.grammar,
        ) {
            Ok((action, problems)) => {
                let span = self.at..end;
                if call != CallForm::Action {
                    self.add_problem(ProblemCode::NativeCall, span.clone());
                }
                self.note_attributes(opener);
                problems
                    .into_iter()
                    .for_each(|code| self.add_problem(code, span.clone()));
                self.push_effect(
                    EffectKind::action(&action.name),
                    span,
                    EffectContent::Action(action),
                );
            }
            // An element that only looks like an action is text.
            Err(_) if matches!(call, CallForm::Named(_)) && body.is_empty() => self.at = body.start,
            Err(reason) => self.refuse_call(opener, call, &reason, body.clone(), end),
        }
    }

    fn refuse_call(
        &mut self,
        opener: &Tag<'a>,
        call: CallForm,
        reason: &str,
        body: Range<usize>,
        end: usize,
    ) {
        let span = self.at..end;
        self.skip_content(body.clone());
        if self.found.refused >= MAX_REJECTED_EFFECTS {
            // Rejected effects past the limit are not reported, so the name is not needed.
            self.hide(span, true, true);
            self.at = end;
            return;
        }

        let name = call::find_action_name(
            call,
            opener.attributes,
            &self.text[body.clone()],
            self.grammar,
        );
        let what = EffectKind::action(&name.unwrap_or_default());
        self.found.refused += 1;
        self.push_effect(what, span, EffectContent::Refused(reason.to_owned()));
    }

    fn push_effect(&mut self, what: EffectKind, span: Range<usize>, kind: EffectContent) {
        self.hide(span.clone(), true, true);
        self.at = span.end;
        self.found.effects.push(FoundEffect {
            kind,
            place: EffectPlace { what, span },
        });
    }

    /// Reads an update. Its body is opaque and extends to the last closing tag before the next
    /// update.
    ///
    /// The body may itself mention the closing tag. Of several closing tags, the last one ends the update if
    /// it is alone on its line and the others are not (see `ends_clearly`). Otherwise the end is
    /// unclear, the update is refused, and the span up to the last closing tag is recorded as
    /// unclear.
    pub(super) fn take_update(&mut self, opener: Tag<'a>) {
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
            // The reply mentions the tag in prose.
            self.at = start;
            return;
        }

        let (mut closers, region_end) = self.update_closers(rest);
        // A closing tag after a backtick is only mentioned, unless there is no other.
        if closers
            .iter()
            .any(|closer| !rest[..closer.start].ends_with('`'))
        {
            closers.retain(|closer| !rest[..closer.start].ends_with('`'));
        }

        let is_clear = closers.len() < 2 || self.ends_clearly(rest, &closers);
        let closer = if is_clear {
            closers.last()
        } else {
            closers.first()
        };

        let closer = closer.cloned().unwrap_or(region_end..region_end);
        let body = start..start + closer.start;

        let read = parse_attributes(opener.attributes);
        let target = read
            .as_ref()
            .and_then(|read| read.get("target"))
            .unwrap_or_default();
        let format = read
            .as_ref()
            .map_or(Some(UpdateFormat::Whole), update_format);

        let reason = match closers.len() {
            _ if !opener.complete || read.is_none() => "the opening tag is malformed",
            _ if opener.empty => "the update is empty",
            0 => "the closing tag is missing, so the text may be incomplete",
            _ if target.trim().is_empty() => {
                "the `target` attribute is missing, empty or duplicated"
            }
            _ if format.is_none() => "the format is neither `whole` nor `diff`",
            _ if !is_clear => "there are several closing tags, so the end is unclear",
            _ => "",
        };

        if let (false, Some(last)) = (is_clear, closers.last()) {
            // The text up to the last closing tag may still belong to the update.
            self.found
                .unclear
                .push(start + closer.end..start + last.end);
        }

        self.found.open |= closers.is_empty() && region_end == rest.len();
        let what = EffectKind::update(target);
        let span = self.at..start + closer.end;

        if reason.is_empty() {
            self.note_attributes(&opener);
            if read.is_some_and(|read| {
                read.pairs
                    .iter()
                    .any(|(name, _)| !is_update_attribute(name))
            }) {
                self.add_problem(ProblemCode::UnknownAttribute, self.at..start);
            }
            // A newline right after the opening tag is not part of the content.
            let body_text = &self.text[body];
            let content = body_text
                .strip_prefix("\r\n")
                .or_else(|| body_text.strip_prefix('\n'))
                .unwrap_or(body_text)
                .to_owned();
            let format = format.unwrap_or_default();
            let update = Update {
                target: target.to_owned(),
                content,
                format,
                span: 0..0,
            };
            self.push_effect(what, span, EffectContent::Update(update));
        } else {
            self.skip_content(start..start + closer.end);
            self.push_effect(what, span, EffectContent::Refused(reason.to_owned()));
        }
    }

    /// Returns true if the last of several closing tags is the right one: the others are text, and
    /// no other tag of the grammar is between them.
    fn ends_clearly(&self, text: &str, closers: &[Range<usize>]) -> bool {
        let (Some(first), Some(last)) = (closers.first(), closers.last()) else {
            return true;
        };

        let between = &text[first.end..last.start];
        let is_update = |name: TagName| name == TagName::Update;
        let mut tags = memchr::memchr_iter(b'<', between.as_bytes());

        ends_alone(text, closers)
            && !tags.any(|at| {
                self.names
                    .read_tag(&between[at..])
                    .is_some_and(|tag| !is_update(tag.name))
            })
    }

    /// Returns the closing tags of updates in a string, and the offset of the next update, or the
    /// end.
    fn update_closers(&self, text: &str) -> (Vec<Range<usize>>, usize) {
        let mut closers: Vec<Range<usize>> = Vec::new();
        // End of the examined text, and true if its last line is blank so far.
        let mut seen = 0;
        let mut is_blank = true;
        for at in memchr::memchr_iter(b'<', text.as_bytes()) {
            // Skip brackets inside the quoted attributes of a closing tag.
            if at < seen {
                continue;
            }

            match self.names.read_tag(&text[at..]) {
                Some(Tag {
                    name: TagName::Update,
                    closes: true,
                    complete: true,
                    length,
                    ..
                }) => {
                    closers.push(at..at + length);
                    seen = at + length;
                    is_blank = true;
                }
                Some(Tag {
                    name: TagName::Update,
                    closes: false,
                    complete: true,
                    ..
                }) => {
                    let stretch = &text[seen..at];
                    is_blank = match stretch.rfind('\n') {
                        Some(line) => stretch[line..].trim().is_empty(),
                        None => is_blank && stretch.trim().is_empty(),
                    };
                    if is_blank || !closers.is_empty() {
                        return (closers, at);
                    }
                    // In the middle of a line, the tag is only mentioned.
                    seen = at;
                }
                _ => {}
            }
        }
        (closers, text.len())
    }

    /// Returns true if an update is closed anywhere after an offset. With ascending offsets, the
    /// text is read once.
    fn update_closes_after(&mut self, at: usize) -> bool {
        if self.update_closer < at {
            let closer = memmem::find(&self.text.as_bytes()[at..], b"</content_update");
            self.update_closer = closer.map_or(usize::MAX, |hit| at + hit);
        }
        self.update_closer != usize::MAX
    }
}

/// Known attributes of an update.
const UPDATE_ATTRIBUTES: [&str; 2] = ["target", "format"];

fn is_update_attribute(attribute: &str) -> bool {
    UPDATE_ATTRIBUTES
        .iter()
        .any(|name| name.eq_ignore_ascii_case(attribute))
}

/// Returns the format that an update declares; `None` if it is unclear.
fn update_format(attributes: &Attributes<'_>) -> Option<UpdateFormat> {
    let has_format = attributes
        .pairs
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("format"));
    if has_format {
        attributes.get("format").and_then(UpdateFormat::read)
    } else {
        Some(UpdateFormat::Whole)
    }
}

/// Returns true if the last of several closing tags is alone on its line, and no other is. Then the
/// others are text.
fn ends_alone(text: &str, closers: &[Range<usize>]) -> bool {
    let is_space = |c: char| c != '\n' && c.is_whitespace();
    let is_alone = |closer: &Range<usize>| {
        let after = text[closer.end..].trim_start_matches(is_space);
        text[..closer.start]
            .trim_end_matches(is_space)
            .ends_with('\n')
            && (after.is_empty() || after.starts_with('\n'))
    };

    let Some((last, others)) = closers.split_last() else {
        return false;
    };
    is_alone(last) && !others.iter().any(is_alone)
}
