//! Decides which parts of a scan count: text is kept, effects must be clear, and no doubt makes a verdict milder.

mod certain;
mod markers;
mod verdicts;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use certain::Readings;

use super::context::Context;
use super::echo::{Echo, Suspect, echoes};
use super::foreign::{contains, foreign_elements, join_spans};
use super::placeholder::{Examples, is_blank};
use super::scan::{
    Cut, Found, FoundEffect, Kind, MAX_REJECTED_EFFECTS, MarkerValue, Message, Place,
};
use super::source::Source;
use super::tag::Names;
use crate::models::{
    Action, Code, EffectKind, Grammar, Problem, RejectedEffect, Response, Update, UpdateFormat,
};

/// The most actions of a reply.
const MOST_ACTIONS: usize = 64;

/// The most problems that are listed.
const MOST_PROBLEMS: usize = 256;

/// How a text came about that is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// Whether its tags were written in another form, and not all of the reply was.
    pub(super) partly_converted: bool,
}

/// Makes a response of what was found.
pub(super) fn judge(
    source: &Source<'_>,
    mut found: Found,
    form: Form,
    grammar: &Grammar,
    names: &Names,
    context: &Context<'_>,
) -> Response {
    let text: &str = &source.text;
    found.perhaps_thoughts.sort_by_key(|span| span.start);
    found.perhaps_thoughts = join_spans(std::mem::take(&mut found.perhaps_thoughts));
    let echoes = Echoes::find(text, &found, context);
    let blocks = blocks(&found);
    let foreign = if found.effects.is_empty() {
        Vec::new()
    } else {
        foreign_elements(text, names, &blocks)
    };
    // Quoted effects stay in the text.
    found
        .cuts
        .retain(|cut| !(cut.effect && contains(&foreign, cut.span.start)));

    let mut judge = Judge {
        text,
        source,
        form,
        grammar,
        context,
        messages: std::mem::take(&mut found.messages),
        readings: Readings::of(text, found.unclear.clone()),
        foreign,
        blocks,
        shaky: found.shaky,
        shaky_to_end: found.shaky_to_end,
        tasks: HashMap::new(),
        refused: Vec::new(),
        problems: std::mem::take(&mut found.problems),
        response: Response {
            complete: !(found.open || context.is_cut()),
            nonce: context.nonce.map(str::to_owned),
            ..Response::default()
        },
    };
    if context.is_cut() {
        judge.problems.push((Code::CutOff, text.len()..text.len()));
    }
    judge.thoughts(&found.thoughts);
    judge.texts(&found.cuts, found.end);
    let effects = std::mem::take(&mut found.effects);
    judge.effects(&mut found, effects, &echoes.effects);
    judge.markers(
        &found.markers,
        &echoes.markers,
        std::mem::take(&mut found.own_doubts),
    );
    judge.decide_verdict(&found, &echoes.reviews, names);
    judge.finish()
}

/// For each effect, marker and `<review>` tag, whether it repeats the prompt.
struct Echoes {
    effects: Vec<Option<Echo>>,
    markers: Vec<Option<Echo>>,
    reviews: Vec<Option<Echo>>,
}

impl Echoes {
    fn find(text: &str, found: &Found, context: &Context<'_>) -> Self {
        let effects = found
            .effects
            .iter()
            .map(|effect| (effect.place.span.clone(), false));
        let markers = found
            .markers
            .iter()
            .map(|marker| (marker.span.clone(), true));
        let reviews = found.review_tags.iter().map(|tag| (tag.span.clone(), true));
        let suspects = effects
            .chain(markers)
            .chain(reviews)
            .map(|(span, marker)| Suspect { span, marker });

        let mut found_echoes = echoes(
            text,
            &suspects.collect::<Vec<_>>(),
            &context.ours,
            &context.sent,
        );
        let reviews = found_echoes.split_off(found.effects.len() + found.markers.len());
        let markers = found_echoes.split_off(found.effects.len());
        Self {
            effects: found_echoes,
            markers,
            reviews,
        }
    }
}

/// Returns the spans of actions, updates and markers other than `<review>`, which may follow the last line.
fn blocks(found: &Found) -> Vec<Range<usize>> {
    let is_block = |value: &MarkerValue| !matches!(value, MarkerValue::Review);
    let markers = found
        .markers
        .iter()
        .filter(|marker| is_block(&marker.value))
        .map(|marker| &marker.span);
    let effects = found.effects.iter().map(|effect| &effect.place.span);
    let mut spans: Vec<Range<usize>> = effects.chain(markers).cloned().collect();
    spans.sort_by_key(|span| span.start);
    join_spans(spans)
}

struct Judge<'a> {
    text: &'a str,
    source: &'a Source<'a>,
    form: Form,
    grammar: &'a Grammar,
    context: &'a Context<'a>,
    messages: Vec<Message>,
    /// The other ways to read the text.
    readings: Readings<'a>,
    /// Elements that are not of the protocol, around effects.
    foreign: Vec<Range<usize>>,
    /// Actions, updates and markers other than `<review>`.
    blocks: Vec<Range<usize>>,
    /// From where a thought that is not closed may reach over what follows.
    shaky: Option<usize>,
    shaky_to_end: bool,
    /// Where each task's marker is among those of the response.
    tasks: HashMap<String, usize>,
    refused: Vec<(Range<usize>, RejectedEffect)>,
    problems: Vec<(Code, Range<usize>)>,
    response: Response,
}

impl<'a> Judge<'a> {
    fn thoughts(&mut self, thoughts: &[Range<usize>]) {
        let thoughts = thoughts
            .iter()
            .map(|span| self.text[span.clone()].trim().to_owned());
        self.response.thoughts = thoughts.filter(|thought| !thought.is_empty()).collect();
    }

    /// Sorts the text into the message and what stands outside it.
    fn texts(&mut self, cuts: &[Cut], end: usize) {
        let mut message = Vec::new();
        let mut stray = String::new();
        let mut at = 0;
        for Message { span, closed } in &self.messages {
            visible(self.text, at..span.start, cuts, false, &mut stray);
            let mut inside = String::new();
            visible(self.text, span.clone(), cuts, *closed, &mut inside);
            message.push(trimmed(inside));
            at = span.end;
        }
        visible(self.text, at..end.max(at), cuts, false, &mut stray);
        let stray = trimmed(stray);
        if let Some(second) = self.messages.get(1) {
            self.problems
                .push((Code::SecondMessage, second.span.clone()));
        }
        message.retain(|part| !part.is_empty());
        self.response.messages = self.messages.len();
        let has_message = !self.messages.is_empty();
        (self.response.message, self.response.stray) = if has_message {
            (joined(message), stray)
        } else {
            (stray, String::new())
        };
        if !self.context.outcome.has_reply() {
            // What a failed agent prints is no message of it.
            self.problems.push((Code::FailedCall, 0..self.text.len()));
            let said = std::mem::take(&mut self.response.message);
            self.response.stray = [said, std::mem::take(&mut self.response.stray)]
                .join("\n")
                .trim()
                .to_owned();
        }
    }

    fn effects(&mut self, found: &mut Found, effects: Vec<FoundEffect>, echoes: &[Option<Echo>]) {
        let examples = Examples::of(self.context, &effects);
        let mut updates = Vec::new();
        let mut actions = 0;
        for (FoundEffect { kind, place }, echo) in effects.into_iter().zip(echoes) {
            if contains(&self.foreign, place.span.start) {
                // An element that is not of the protocol quotes what it holds.
                self.problems.push((Code::QuotedEffect, place.span.clone()));
                if place.what.is_action() {
                    found.hidden_action.get_or_insert(place.span);
                }
                continue;
            }
            let doubt = self.doubt(&place.span, *echo);
            match (kind, doubt) {
                (Kind::Refused(reason), _) => {
                    let again = match &place.what {
                        EffectKind::Review => false,
                        EffectKind::Action(Some(name)) => self.grammar.actions.contains_key(name),
                        _ => true,
                    };
                    self.refuse(place, reason, again);
                }
                (_, Some((code, reason))) => {
                    self.problems.push((code, place.span.clone()));
                    self.refuse(place, reason, code != Code::Echo);
                }
                (Kind::Action(_), None) if actions >= MOST_ACTIONS => {
                    self.refuse(
                        place,
                        format!("a reply may ask for {MOST_ACTIONS} actions"),
                        false,
                    );
                }
                (Kind::Action(action), None) => {
                    actions += 1;
                    if let Some(reason) = examples.copied(&action, self.grammar) {
                        self.problems.push((Code::Placeholder, place.span.clone()));
                        self.refuse(place, reason, false);
                    } else if self
                        .response
                        .actions
                        .iter()
                        .any(|known| known.is_same_request(&action))
                    {
                        self.problems.push((Code::RepeatedEffect, place.span));
                    } else {
                        let span = self.source.raw_span(&place.span);
                        self.response.actions.push(Action { span, ..action });
                    }
                }
                (Kind::Update(update), None) if update.content.trim().is_empty() => {
                    self.refuse(place, "it holds no text", true);
                }
                (Kind::Update(update), None)
                    if is_blank(&update.content) || is_blank(&update.target) =>
                {
                    self.problems.push((Code::Placeholder, place.span.clone()));
                    self.refuse(place, "it is a placeholder", false);
                }
                (Kind::Update(update), None) => updates.push((update, place)),
            }
        }
        self.updates(updates);
    }

    /// Takes updates, unless they contradict each other.
    fn updates(&mut self, updates: Vec<(Update, Place)>) {
        let mut texts: HashMap<&str, (&str, UpdateFormat)> = HashMap::new();
        let mut contradicted: HashSet<String> = HashSet::new();
        for (update, _) in &updates {
            let text = (update.content.as_str(), update.format);
            if *texts.entry(&update.target).or_insert(text) != text {
                contradicted.insert(update.target.clone());
            }
        }
        let mut taken = HashSet::new();
        for (update, place) in updates {
            if contradicted.contains(&update.target) {
                self.refuse(place, "the same target is given two texts", true);
            } else if taken.insert(update.target.clone()) {
                let span = self.source.raw_span(&place.span);
                self.response.updates.push(Update { span, ..update });
            } else {
                self.problems.push((Code::RepeatedEffect, place.span));
            }
        }
    }

    /// Returns why an effect does not count, whatever it asks for.
    fn doubt(&self, span: &Range<usize>, echo: Option<Echo>) -> Option<(Code, &'static str)> {
        if self.context.is_cut() {
            return Some((Code::CutOff, "the reply was cut off"));
        }
        let next = self
            .messages
            .partition_point(|message| message.span.end <= span.start);
        if self
            .messages
            .get(next)
            .is_some_and(|m| m.closed && m.span.contains(&span.start))
        {
            return Some((Code::EffectInMessage, "it stands inside the message"));
        }
        if self.is_shaky(span.start) {
            return Some((Code::RefusedEffect, "a thought before it is not closed"));
        }
        if self.form.partly_converted {
            return Some((Code::RefusedEffect, "its tags are written in another form"));
        }
        if let Some(reason) = self.readings.doubt(span) {
            return Some((Code::RefusedEffect, reason));
        }
        echo.map(|_| (Code::Echo, "it repeats the prompt"))
    }

    /// Tells whether a thought that is not closed may reach over a place: up to the end of the message behind it.
    fn is_shaky(&self, at: usize) -> bool {
        self.shaky.is_some_and(|from| {
            let behind = self
                .messages
                .partition_point(|message| message.span.start < from);
            let closed = self
                .messages
                .get(behind)
                .is_some_and(|m| m.closed && at >= m.span.end);
            at >= from && (self.shaky_to_end || !closed)
        })
    }

    /// Lists what is not done. With `again`, it may be meant, and is asked for again.
    fn refuse(&mut self, place: Place, reason: impl Into<String>, again: bool) {
        if self.refused.len() < MAX_REJECTED_EFFECTS {
            // What is asked for in one place, as by a reply in JSON, is shown once: a copy for each would fill the memory.
            let shown = self
                .refused
                .last()
                .is_some_and(|(span, _)| *span == place.span);
            let text = if shown {
                String::new()
            } else {
                self.text[place.span.clone()].to_owned()
            };
            let span = self.source.raw_span(&place.span);
            let line = Some(self.line_of(place.span.start));
            let proposal = RejectedEffect {
                what: place.what,
                reason: reason.into(),
                text,
                line,
                span,
                again,
            };
            self.refused.push((place.span, proposal));
        }
    }

    /// Returns the line of an offset, counted from 1.
    fn line_of(&self, at: usize) -> usize {
        memchr::memchr_iter(b'\n', &self.text.as_bytes()[..at]).count() + 1
    }

    fn finish(mut self) -> Response {
        self.refused.sort_by_key(|(span, _)| span.start);
        self.response.proposals = self
            .refused
            .into_iter()
            .map(|(_, proposal)| proposal)
            .collect();
        self.problems.sort_by_key(|(_, span)| span.start);
        if self.problems.len() > MOST_PROBLEMS {
            self.problems.truncate(MOST_PROBLEMS);
            self.problems
                .push((Code::MoreProblems, self.text.len()..self.text.len()));
        }
        let problems = self.problems.into_iter();
        self.response.problems = problems
            .map(|(code, span)| Problem::new(code, self.source.raw_span(&span)))
            .collect();
        self.response
    }
}

/// Returns the parts of a message as one text.
fn joined(mut parts: Vec<String>) -> String {
    if parts.len() == 1 {
        parts.remove(0)
    } else {
        parts.join("\n\n")
    }
}

/// Returns a text without blanks around it.
fn trimmed(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    text.drain(..text.len() - text.trim_start().len());
    text
}

/// Adds what people are shown of a span: all but what is cut from it. A closed message keeps the effects inside it.
fn visible(text: &str, span: Range<usize>, cuts: &[Cut], keep_effects: bool, out: &mut String) {
    let mut at = span.start;
    let first = cuts.partition_point(|cut| cut.span.end <= span.start);
    for cut in cuts[first..]
        .iter()
        .take_while(|cut| cut.span.start < span.end)
    {
        if !(cut.effect && keep_effects) {
            out.push_str(&text[at..cut.span.start.max(at)]);
            at = cut.span.end.max(at);
        }
    }
    out.push_str(&text[at.min(span.end)..span.end]);
}
