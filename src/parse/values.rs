//! Replies written as JSON, as Python values or as YAML: the same parts under other names.

use std::ops::Range;

use serde_json::Value;

use super::call;
use super::fields::yaml_values;
use super::scan::{Found, FoundEffect, Kind, Place};
use crate::models::{Code, EffectKind, Grammar, ReviewResult, THOUGHT_TAGS, Update, UpdateFormat};
use crate::text::lenient_json::{LenientValue, parse_lenient_json};

/// The largest reply that is read as a value.
const LARGEST: usize = 4 * 1024 * 1024;

/// The largest reply that is read as YAML.
const LARGEST_YAML: usize = 256 * 1024;

/// The most effects that are listed.
const MOST_EFFECTS: usize = 100;

const ACTIONS: [&str; 4] = ["actions", "action", "tool_calls", "tool_call"];
const UPDATES: [&str; 2] = ["content_updates", "content_update"];
const VERDICTS: [&str; 2] = ["review", "verdict"];

/// What a reply that is no XML holds.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) message: Option<String>,
    pub(super) thoughts: Vec<String>,
    pub(super) effects: Vec<FoundEffect>,
    /// The worst verdict in it: it does not count there.
    pub(super) verdict: Option<ReviewResult>,
    pub(super) problems: Vec<(Code, Range<usize>)>,
    /// Whether the text ended before the value did.
    pub(super) cut: bool,
    /// Where the value starts.
    pub(super) start: usize,
    /// Whether it is all of the reply, but for thoughts.
    pub(super) whole: bool,
}

/// Reads a reply all of which is a value, but for thoughts before it; `None` if it is prose.
pub(super) fn read_whole(text: &str, found: &Found, grammar: &Grammar) -> Option<Values> {
    let start = behind_thoughts(text, found);
    let from = start + text[start..].len() - text[start..].trim_start().len();
    let rest = text[from..].trim_end();
    if !rest.starts_with(['{', '[']) {
        return read(yaml_reply(rest, from, found.has_parts())?, grammar);
    }
    if rest.len() > LARGEST {
        return None;
    }
    let value = parse_lenient_json(rest)?;
    let whole = value.end == rest.len();
    whole
        .then(|| read(of_lenient(value, from, true), grammar))
        .flatten()
}

/// Reads a value that stands on lines of its own, with prose around it: it is quoted.
pub(super) fn read_quoted(text: &str, found: &Found, grammar: &Grammar) -> Option<Values> {
    let mut at = behind_thoughts(text, found);
    for line in text[at..].split_inclusive('\n') {
        let inner = line.trim_start();
        if inner.starts_with('{') {
            let start = at + line.len() - inner.len();
            let rest = &text[start..text.floor_char_boundary(start + LARGEST)];
            let value = parse_lenient_json(rest)?;
            let alone = rest[value.end..]
                .split('\n')
                .next()
                .is_some_and(|end| end.trim().is_empty());
            return alone
                .then(|| read(of_lenient(value, start, false), grammar))
                .flatten();
        }
        at += line.len();
    }
    None
}

/// Returns where a text goes on behind the thoughts that it starts with.
fn behind_thoughts(text: &str, found: &Found) -> usize {
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

fn read(candidate: Candidate, grammar: &Grammar) -> Option<Values> {
    let Candidate {
        value,
        span,
        code,
        cut,
        clear,
    } = candidate;
    let mut values = Values {
        message: None,
        thoughts: Vec::new(),
        effects: Vec::new(),
        verdict: None,
        problems: vec![(code, span.clone())],
        cut,
        start: span.start,
        whole: clear,
    };
    let mut reader = Reader {
        grammar,
        span,
        cut,
        clear,
        values: &mut values,
    };
    reader.top(&value).then_some(values)
}

/// A value in a reply, and how it stands there.
struct Candidate {
    value: Value,
    span: Range<usize>,
    code: Code,
    cut: bool,
    /// Whether it is clear that it is the reply, and not quoted in it.
    clear: bool,
}

fn of_lenient(read: LenientValue, from: usize, clear: bool) -> Candidate {
    let code = if read.is_python {
        Code::PythonReply
    } else {
        Code::JsonReply
    };
    Candidate {
        value: read.value,
        span: from..from + read.end,
        code,
        cut: read.is_cut,
        clear,
    }
}

/// Reads a reply as YAML. Prose with tags in it, such as `Verdict: <review>PASS</review>`, looks like YAML too: it is
/// only if there is a message among several parts, or a tag stands in a thought.
fn yaml_reply(text: &str, from: usize, tags: bool) -> Option<Candidate> {
    if text.len() > LARGEST_YAML
        || !is_known(&text.split([':', '\n']).next()?.trim().to_ascii_lowercase())
    {
        return None;
    }
    let value = yaml_values(text)?;
    let known = value.keys().all(|key| is_known(&key.to_ascii_lowercase()));
    let has = |names: &[&str]| {
        value
            .keys()
            .any(|key| names.contains(&key.to_ascii_lowercase().as_str()))
    };
    let thought = |(key, value): (&String, &Value)| {
        let thought = THOUGHT_TAGS.contains(&key.to_ascii_lowercase().as_str());
        thought && value.as_str().is_some_and(|text| text.contains('<'))
    };
    let meant =
        !tags || (value.len() > 1 && has(&["message", "response"])) || value.iter().any(thought);
    (known && meant).then(|| Candidate {
        value: Value::from(value),
        span: from..from + text.len(),
        code: Code::YamlReply,
        cut: false,
        clear: true,
    })
}

fn is_known(key: &str) -> bool {
    let lists = [
        &THOUGHT_TAGS[..],
        &ACTIONS,
        &UPDATES,
        &VERDICTS,
        &["message", "response", "task_status"],
    ];
    lists.iter().any(|list| list.contains(&key))
}

struct Reader<'a> {
    grammar: &'a Grammar,
    span: Range<usize>,
    cut: bool,
    clear: bool,
    values: &'a mut Values,
}

impl Reader<'_> {
    /// Reads a value that may be a reply; tells whether it is one.
    fn top(&mut self, value: &Value) -> bool {
        match value {
            Value::Object(object)
                if object.keys().any(|key| is_known(&key.to_ascii_lowercase())) =>
            {
                for (key, value) in object {
                    self.part(&key.to_ascii_lowercase(), value);
                }
                // Nothing but thoughts is prose with a label, unless tags stand in them that must not count.
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
                self.action(value);
                true
            }
            Value::Array(items) => {
                let is_call = |item: &Value| {
                    item.as_object()
                        .is_some_and(|object| call::is_call(object, self.grammar))
                };
                let calls = !items.is_empty() && items.iter().all(is_call);
                items
                    .iter()
                    .filter(|_| calls)
                    .for_each(|item| self.action(item));
                calls
            }
            _ => false,
        }
    }

    fn part(&mut self, key: &str, value: &Value) {
        if matches!(key, "message" | "response") && self.values.message.is_none() {
            self.values.message = value.as_str().map(|text| text.trim().to_owned());
        } else if THOUGHT_TAGS.contains(&key) {
            self.values
                .thoughts
                .extend(value.as_str().map(|text| text.trim().to_owned()));
        } else if ACTIONS.contains(&key) {
            each(value).iter().for_each(|item| self.action(item));
        } else if UPDATES.contains(&key) {
            each(value).iter().for_each(|item| self.update(item));
        } else if VERDICTS.contains(&key) {
            let verdict = value.as_str().and_then(super::review::named_verdict);
            self.values.verdict = self.values.verdict.max(verdict);
            self.push(
                EffectKind::Review,
                Err("a verdict must stand in <review>".to_owned()),
            );
        } else if key == "task_status" {
            self.push(
                EffectKind::TaskStatus(None),
                Err("it must stand in <task_status>".to_owned()),
            );
        }
    }

    fn action(&mut self, item: &Value) {
        if !self.grammar.knows_actions() {
            return;
        }
        let Value::Object(object) = item else {
            return self.push(
                EffectKind::Action(None),
                Err("it names no type, or not clearly".to_owned()),
            );
        };
        let what = EffectKind::action(call::named(object).map_or("", |(name, _)| name));
        let read =
            call::from_object(object, &item.to_string(), self.grammar).map(|(action, problems)| {
                let span = self.span.clone();
                self.values
                    .problems
                    .extend(problems.into_iter().map(|code| (code, span.clone())));
                Kind::Action(action)
            });
        self.push(what, read);
    }

    fn update(&mut self, item: &Value) {
        let text = |key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
        let target = text("target").filter(|target| !target.trim().is_empty());
        let what = EffectKind::update(target.as_deref().unwrap_or_default());
        let format = match item.get("format") {
            None | Some(Value::Null) => Some(UpdateFormat::Whole),
            Some(format) => format.as_str().and_then(UpdateFormat::read),
        };
        let update = match (target, text("content"), format) {
            (Some(target), Some(content), Some(format)) => Ok(Kind::Update(Update {
                target,
                content,
                format,
                span: 0..0,
            })),
            (None, ..) => Err("it names no target, or not clearly".to_owned()),
            (_, None, _) => Err("it holds no text".to_owned()),
            (.., None) => Err("its format is neither `whole` nor `diff`".to_owned()),
        };
        self.push(what, update);
    }

    fn push(&mut self, what: EffectKind, read: Result<Kind, String>) {
        let kind = match read {
            Ok(_) if self.cut => Kind::Refused("it may be cut off".to_owned()),
            Ok(_) if !self.clear => Kind::Refused("other text stands around it".to_owned()),
            Ok(kind) => kind,
            Err(reason) => Kind::Refused(reason),
        };
        if self.values.effects.len() < MOST_EFFECTS {
            let place = Place {
                what,
                span: self.span.clone(),
            };
            self.values.effects.push(FoundEffect { kind, place });
        }
    }
}

/// Returns the items of a list, or the value itself.
fn each(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        Value::Null => &[],
        other => std::slice::from_ref(other),
    }
}
