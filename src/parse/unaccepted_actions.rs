//! Actions that a reply of a conversation wrote in a form that is not carried out: in a code fence, or as JSON next to
//! other text.
//!
//! Such an action may be an example, so it never takes effect. In a conversation the user and the agent learn of it,
//! because the agent would otherwise write it the same way again.

use std::ops::Range;

use serde_json::{Map, Value};

use super::call;
use super::context::ReplyContext;
use super::foreign::{contains, join_spans};
use super::scan::{EffectContent, FoundEffect, ScanResult, scan};
use super::structured::{ACTION_KEYS, items_of};
use super::tag::TagNames;
use crate::models::{Action, EffectKind, Grammar, RejectedEffect, Response};
use crate::text::lenient_json::parse_lenient_json;

/// Maximum number of actions that are reported.
const MAX_REPORTED: usize = 8;

/// Maximum number of actions that are compared with the prompt.
const MAX_EXAMINED: usize = 64;

/// Maximum number of values that are read as JSON outside of code fences.
const MAX_VALUES: usize = 8;

/// Maximum size of such a value, in bytes.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Returns the actions of a reply that were recognized and not accepted, each with the reason and the expected form.
///
/// Only whole actions with a name that the pack knows are returned, and none inside a message or a thought, where they
/// are a quote for the reader. Actions that the response already has, carried out or refused, are not returned again, and
/// neither are repetitions of the prompt.
#[must_use]
pub fn find_unaccepted_actions(
    reply: &str,
    response: &Response,
    grammar: &Grammar,
    context: &ReplyContext<'_>,
) -> Vec<RejectedEffect> {
    if !grammar.knows_actions() {
        return Vec::new();
    }
    let names = TagNames::from_grammar(grammar);
    let found = scan(reply, grammar, &names);
    let mut finder = ActionFinder {
        reply,
        response,
        grammar,
        context,
        examined: 0,
        rejected: Vec::new(),
    };

    let quoted = quoted_spans(&found);
    for fence in &found.fences {
        if !contains(&quoted, fence.start) && finder.rejected.len() < MAX_REPORTED {
            finder.read_fence(inside_fence(reply, fence), &names);
        }
    }
    finder.read_values(&found, &quoted);
    finder.rejected.sort_by_key(|effect| effect.span.start);
    finder.rejected
}

/// Returns the spans of closed messages, thoughts and effects.
fn quoted_spans(found: &ScanResult) -> Vec<Range<usize>> {
    let messages = found.messages.iter().filter(|message| message.closed);
    let effects = found.effects.iter();
    let mut spans: Vec<Range<usize>> = messages
        .map(|message| message.span.clone())
        .chain(effects.map(|effect| effect.place.span.clone()))
        .chain(found.thoughts.iter().cloned())
        .collect();
    spans.sort_by_key(|span| span.start);
    join_spans(spans)
}

/// Returns the span of the lines between the first and the last line of a fence.
fn inside_fence(reply: &str, fence: &Range<usize>) -> Range<usize> {
    let text = &reply[fence.clone()];
    let start = text.find('\n').map_or(text.len(), |end| end + 1);
    let body = text[start..].trim_end();
    let last = body.rfind('\n').map_or(0, |end| end + 1);
    let is_closing = body[last..].trim_start().starts_with(['`', '~']);
    let length = if is_closing { last } else { body.len() };
    fence.start + start..fence.start + start + length
}

struct ActionFinder<'a> {
    reply: &'a str,
    response: &'a Response,
    grammar: &'a Grammar,
    context: &'a ReplyContext<'a>,
    /// Number of actions that were compared with the prompt.
    examined: usize,
    rejected: Vec<RejectedEffect>,
}

/// An action in a form that is not carried out.
struct UnacceptedAction {
    name: String,
    /// The request; `None` if its parameters are unreadable.
    action: Option<Action>,
    span: Range<usize>,
}

impl ActionFinder<'_> {
    /// Reads the content of a code fence: actions in tags, or one JSON value.
    fn read_fence(&mut self, span: Range<usize>, names: &TagNames) {
        let reason = "it is in a code fence: write the <action> tag without one";
        let inner = &self.reply[span.clone()];
        if inner.trim_start().starts_with(['{', '[']) {
            let start = span.end - inner.trim_start().len();
            let (found, _) = self.read_json(start, inner.trim());
            for action in found {
                self.reject(action, reason);
            }
            return;
        }

        for FoundEffect { kind, place } in scan(inner, self.grammar, names).effects {
            let EffectKind::Action(Some(name)) = place.what else {
                continue;
            };
            let is_closed = inner[place.span.clone()].contains("</");
            let action = match kind {
                EffectContent::Action(action) => Some(action),
                EffectContent::Refused(_) if is_closed => None,
                EffectContent::Refused(_) | EffectContent::Update(_) => continue,
            };
            let found = UnacceptedAction {
                name,
                action,
                span: span.start + place.span.start..span.start + place.span.end,
            };
            self.reject(found, reason);
        }
    }

    /// Reads JSON objects that start a line outside of messages, thoughts, effects and code.
    fn read_values(&mut self, found: &ScanResult, quoted: &[Range<usize>]) {
        let mut values = 0;
        let mut line_start = 0;
        let mut next = 0;
        for line in self.reply.split_inclusive('\n') {
            let start = line_start + line.len() - line.trim_start().len();
            line_start += line.len();
            let is_in_other = contains(&found.quotes, start) || contains(quoted, start);
            if !line.trim_start().starts_with('{') || start < next || is_in_other {
                continue;
            }

            values += 1;
            if values > MAX_VALUES {
                break;
            }
            let end = self.reply.floor_char_boundary(start + MAX_VALUE_BYTES);
            let (found, length) = self.read_json(start, &self.reply[start..end]);
            next = start + length;
            for action in found {
                let reason = "it is JSON: write an <action> tag with one tag per parameter";
                self.reject(action, reason);
            }
        }
    }

    /// Reads the actions in a JSON value at the start of a string, and the length of the value.
    fn read_json(&self, start: usize, text: &str) -> (Vec<UnacceptedAction>, usize) {
        let Some(read) = parse_lenient_json(text).filter(|read| !read.is_cut) else {
            return (Vec::new(), 0);
        };
        let is_call = |object: &Map<String, Value>| call::is_call(object, self.grammar);
        let items: Vec<&Value> = match &read.value {
            Value::Object(object) if !is_call(object) => ACTION_KEYS
                .iter()
                .filter_map(|key| object.get(*key))
                .flat_map(items_of)
                .collect(),
            value => items_of(value).iter().collect(),
        };

        let calls = items
            .into_iter()
            .filter_map(Value::as_object)
            .filter(|object| is_call(object));
        let actions = calls.filter_map(|object| {
            let (name, _) = call::named_action(object)?;
            let action = call::read_action_object(object, "", self.grammar);
            Some(UnacceptedAction {
                name: name.to_owned(),
                action: action.ok().map(|(action, _)| action),
                span: start..start + read.end,
            })
        });
        (actions.collect(), read.end)
    }

    /// Adds an action with its reason, unless it is unknown or already in the response.
    fn reject(&mut self, found: UnacceptedAction, reason: &str) {
        let UnacceptedAction { name, action, span } = found;
        let mut accepted = self.response.actions.iter();
        let is_accepted =
            action.is_some_and(|action| accepted.any(|known| known.is_same_request(&action)));
        let overlaps = |known: &Range<usize>| known.start < span.end && span.start < known.end;
        let accepted_spans = self.response.actions.iter().map(|known| &known.span);
        let rejected_spans = self.response.proposals.iter().map(|known| &known.span);
        let is_listed = accepted_spans.chain(rejected_spans).any(overlaps);

        let is_known = call::is_known_action(&name, self.grammar);
        let is_new = is_known && !is_accepted && !is_listed;
        if !is_new || self.examined >= MAX_EXAMINED {
            return;
        }
        self.examined += 1;

        let text = &self.reply[span.clone()];
        let mut prompt = self.context.sent.iter().chain(&self.context.ours);
        let is_echo = prompt.any(|sent| sent.contains(text));
        if is_echo || self.rejected.len() >= MAX_REPORTED {
            return;
        }

        self.rejected.push(RejectedEffect {
            what: EffectKind::action(&name),
            reason: reason.to_owned(),
            text: text.to_owned(),
            line: Some(self.reply[..span.start].matches('\n').count() + 1),
            span,
            again: false,
        });
    }
}
