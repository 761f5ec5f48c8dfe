//! Replies written as JSON, Python literals or YAML instead of tags.

use std::ops::Range;

use serde_json::Value;

use super::call;
use super::fields::read_yaml_values;
use super::scan::{EffectContent, EffectPlace, FoundEffect, ScanResult};
use crate::models::{
    EffectKind, Grammar, ProblemCode, ReviewResult, THOUGHT_TAGS, Update, UpdateFormat,
};
use crate::text::lenient_json::{LenientValue, parse_lenient_json};

/// Maximum size of a reply that is read as JSON or Python.
const MAX_VALUE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum size of a reply that is read as YAML.
const MAX_YAML_BYTES: usize = 256 * 1024;

/// Maximum number of effects that are listed.
const MAX_EFFECTS: usize = 100;

/// Keys that hold the actions of a reply.
pub(super) const ACTION_KEYS: [&str; 4] = ["actions", "action", "tool_calls", "tool_call"];
const UPDATE_KEYS: [&str; 2] = ["content_updates", "content_update"];
const VERDICT_KEYS: [&str; 2] = ["review", "verdict"];

/// Content of a reply written as structured data.
#[derive(Debug)]
pub(super) struct StructuredReply {
    pub(super) message: Option<String>,
    pub(super) thoughts: Vec<String>,
    pub(super) effects: Vec<FoundEffect>,
    /// Most severe verdict. It is not valid, because it is not in a tag.
    pub(super) verdict: Option<ReviewResult>,
    pub(super) problems: Vec<(ProblemCode, Range<usize>)>,
    /// True if the text ends before the value does.
    pub(super) cut: bool,
    /// Start offset of the value.
    pub(super) start: usize,
    /// True if the value is the whole reply, apart from leading thoughts.
    pub(super) whole: bool,
}

/// Reads a reply that is one value, apart from leading thoughts; `None` if it is prose.
pub(super) fn read_whole(
    text: &str,
    found: &ScanResult,
    grammar: &Grammar,
) -> Option<StructuredReply> {
    let start = skip_thoughts(text, found);
    let from = start + text[start..].len() - text[start..].trim_start().len();
    let rest = text[from..].trim_end();

    if !rest.starts_with(['{', '[']) {
        return read_candidate(candidate_from_yaml(rest, from, found.has_parts())?, grammar);
    }
    if rest.len() > MAX_VALUE_BYTES {
        return None;
    }

    let value = parse_lenient_json(rest)?;
    let is_whole = value.end == rest.len();
    is_whole
        .then(|| read_candidate(candidate_from_json(value, from, true), grammar))
        .flatten()
}

/// Reads a JSON object that shares no line with the prose around it. Such an object is a quote, so
/// its effects are refused.
pub(super) fn read_quoted(
    text: &str,
    found: &ScanResult,
    grammar: &Grammar,
) -> Option<StructuredReply> {
    let mut at = skip_thoughts(text, found);

    for line in text[at..].split_inclusive('\n') {
        let inner = line.trim_start();
        if inner.starts_with('{') {
            let start = at + line.len() - inner.len();
            let rest = &text[start..text.floor_char_boundary(start + MAX_VALUE_BYTES)];
            let value = parse_lenient_json(rest)?;

            let is_alone = rest[value.end..]
                .split('\n')
                .next()
                .is_some_and(|end| end.trim().is_empty());
            return is_alone
                .then(|| read_candidate(candidate_from_json(value, start, false), grammar))
                .flatten();
        }
        at += line.len();
    }
    None
}

/// Returns the offset after the thoughts at the start of the reply.
fn skip_thoughts(text: &str, found: &ScanResult) -> usize {
    let mut at = 0;
    for thought in &found.thoughts {
        let index = found
            .cuts
            .partition_point(|cut| cut.span.end <= thought.start);
        match found.cuts.get(index) {
            Some(cut) if text[at..cut.span.start.max(at)].trim().is_empty() => {
                at = cut.span.end.max(at)
            }
            _ => break,
        }
    }
    at
}

fn read_candidate(candidate: ValueCandidate, grammar: &Grammar) -> Option<StructuredReply> {
    let ValueCandidate {
        value,
        span,
        code,
        cut,
        clear,
    } = candidate;
    let mut values = StructuredReply {
        message: None,
        thoughts: Vec::new(),
        effects: Vec::new(),
        verdict: None,
        problems: vec![(code, span.clone())],
        cut,
        start: span.start,
        whole: clear,
    };

    let mut reader = ValueReader {
        grammar,
        span,
        cut,
        clear,
        values: &mut values,
    };
    reader.read_reply(&value).then_some(values)
}

/// A value found in a reply, before its content is read.
struct ValueCandidate {
    value: Value,
    span: Range<usize>,
    code: ProblemCode,
    cut: bool,
    /// True if the value is the reply itself rather than a quote in it.
    clear: bool,
}

fn candidate_from_json(read: LenientValue, from: usize, clear: bool) -> ValueCandidate {
    let code = if read.is_python {
        ProblemCode::PythonReply
    } else {
        ProblemCode::JsonReply
    };
    ValueCandidate {
        value: read.value,
        span: from..from + read.end,
        code,
        cut: read.is_cut,
        clear,
    }
}

/// Reads a reply as YAML. Prose with tags, such as `Verdict: <review>PASS</review>`, is valid YAML
/// too. A reply with tags is read as YAML only if it has a message among several keys, or a tag
/// inside a thought.
fn candidate_from_yaml(text: &str, from: usize, has_tags: bool) -> Option<ValueCandidate> {
    if text.len() > MAX_YAML_BYTES
        || !is_known_key(&text.split([':', '\n']).next()?.trim().to_ascii_lowercase())
    {
        return None;
    }

    let value = read_yaml_values(text)?;
    let is_known = value
        .keys()
        .all(|key| is_known_key(&key.to_ascii_lowercase()));
    let has = |names: &[&str]| {
        value
            .keys()
            .any(|key| names.contains(&key.to_ascii_lowercase().as_str()))
    };

    let has_tagged_thought = |(key, value): (&String, &Value)| {
        let is_thought = THOUGHT_TAGS.contains(&key.to_ascii_lowercase().as_str());
        is_thought && value.as_str().is_some_and(|text| text.contains('<'))
    };

    let is_meant = !has_tags
        || (value.len() > 1 && has(&["message", "response"]))
        || value.iter().any(has_tagged_thought);
    (is_known && is_meant).then(|| ValueCandidate {
        value: Value::from(value),
        span: from..from + text.len(),
        code: ProblemCode::YamlReply,
        cut: false,
        clear: true,
    })
}

fn is_known_key(key: &str) -> bool {
    let lists = [
        &THOUGHT_TAGS[..],
        &ACTION_KEYS,
        &UPDATE_KEYS,
        &VERDICT_KEYS,
        &["message", "response", "task_status"],
    ];
    lists.iter().any(|list| list.contains(&key))
}

struct ValueReader<'a> {
    grammar: &'a Grammar,
    span: Range<usize>,
    cut: bool,
    clear: bool,
    values: &'a mut StructuredReply,
}

impl ValueReader<'_> {
    /// Reads a value; returns true if it is a reply.
    fn read_reply(&mut self, value: &Value) -> bool {
        match value {
            Value::Object(object)
                if object
                    .keys()
                    .any(|key| is_known_key(&key.to_ascii_lowercase())) =>
            {
                for (key, value) in object {
                    self.read_part(&key.to_ascii_lowercase(), value);
                }
                // Thoughts alone are prose with a label, unless they contain tags, which must be
                // ignored.
                self.values.message.is_some()
                    || !self.values.effects.is_empty()
                    || self.values.verdict.is_some()
                    || self
                        .values
                        .thoughts
                        .iter()
                        .any(|thought| thought.contains('<'))
            }
            Value::Object(object) if call::is_call(object, self.grammar) => {
                self.read_action(value);
                true
            }
            Value::Array(items) => {
                let is_call = |item: &Value| {
                    item.as_object()
                        .is_some_and(|object| call::is_call(object, self.grammar))
                };
                let are_calls = !items.is_empty() && items.iter().all(is_call);
                items
                    .iter()
                    .filter(|_| are_calls)
                    .for_each(|item| self.read_action(item));
                are_calls
            }
            _ => false,
        }
    }

    fn read_part(&mut self, key: &str, value: &Value) {
        if matches!(key, "message" | "response") && self.values.message.is_none() {
            self.values.message = value.as_str().map(|text| text.trim().to_owned());
        } else if THOUGHT_TAGS.contains(&key) {
            self.values
                .thoughts
                .extend(value.as_str().map(|text| text.trim().to_owned()));
        } else if ACTION_KEYS.contains(&key) {
            items_of(value)
                .iter()
                .for_each(|item| self.read_action(item));
        } else if UPDATE_KEYS.contains(&key) {
            items_of(value)
                .iter()
                .for_each(|item| self.read_update(item));
        } else if VERDICT_KEYS.contains(&key) {
            let verdict = value.as_str().and_then(super::review::named_verdict);
            self.values.verdict = self.values.verdict.max(verdict);
            self.push_effect(
                EffectKind::Review,
                Err("the verdict must be in a <review> tag".to_owned()),
            );
        } else if key == "task_status" {
            self.push_effect(
                EffectKind::TaskStatus(None),
                Err("the status must be in a <task_status> tag".to_owned()),
            );
        }
    }

    fn read_action(&mut self, item: &Value) {
        if !self.grammar.knows_actions() {
            return;
        }
        let Value::Object(object) = item else {
            return self.push_effect(
                EffectKind::Action(None),
                Err("the action is not an object".to_owned()),
            );
        };

        let what = EffectKind::action(call::named_action(object).map_or("", |(name, _)| name));
        let read = call::read_action_object(object, &item.to_string(), self.grammar).map(
            |(action, problems)| {
                let span = self.span.clone();
                self.values
                    .problems
                    .extend(problems.into_iter().map(|code| (code, span.clone())));
                EffectContent::Action(action)
            },
        );

        self.push_effect(what, read);
    }

    fn read_update(&mut self, item: &Value) {
        let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
        let target = text("target").filter(|target| !target.trim().is_empty());
        let what = EffectKind::update(target.as_deref().unwrap_or_default());

        let format = match item.get("format") {
            None | Some(Value::Null) => Some(UpdateFormat::Whole),
            Some(format) => format.as_str().and_then(UpdateFormat::read),
        };

        let update = match (target, text("content"), format) {
            (Some(target), Some(content), Some(format)) => Ok(EffectContent::Update(Update {
                target,
                content,
                format,
                span: 0..0,
            })),
            (None, ..) => Err("the target is missing or empty".to_owned()),
            (_, None, _) => Err("the content is missing".to_owned()),
            (.., None) => Err("the format is neither `whole` nor `diff`".to_owned()),
        };
        self.push_effect(what, update);
    }

    fn push_effect(&mut self, what: EffectKind, read: Result<EffectContent, String>) {
        let kind = match read {
            Ok(_) if self.cut => EffectContent::Refused(
                "the JSON ends too early, so the value may be incomplete".to_owned(),
            ),
            Ok(_) if !self.clear => {
                EffectContent::Refused("there is other text around the JSON".to_owned())
            }
            Ok(kind) => kind,
            Err(reason) => EffectContent::Refused(reason),
        };

        if self.values.effects.len() < MAX_EFFECTS {
            let place = EffectPlace {
                what,
                span: self.span.clone(),
            };
            self.values.effects.push(FoundEffect { kind, place });
        }
    }
}

/// Returns the items of a list, or the value itself as the only item.
pub(super) fn items_of(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        Value::Null => &[],
        other => std::slice::from_ref(other),
    }
}
