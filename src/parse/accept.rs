//! Builds the response from a scan: decides which effects, markers and verdicts are valid. All text
//! is kept, an effect must be unambiguous, and an unclear verdict never passes.

mod ambiguity;
mod markers;
mod verdicts;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use ambiguity::AlternativeReadings;

use super::context::ReplyContext;
use super::echo::{EchoSource, EchoSuspect, EchoTexts, find_echoes};
use super::foreign::{contains, foreign_elements, join_spans};
use super::placeholder::{PromptExamples, is_placeholder};
use super::scan::{
    EffectContent, EffectPlace, FoundEffect, HiddenSpan, MAX_REJECTED_EFFECTS, MarkerValue,
    MessageSpan, ScanResult,
};
use super::source_map::SourceText;
use super::tag::TagNames;
use crate::models::{
    Action, EffectKind, Grammar, Problem, ProblemCode, RejectedEffect, Response, Update,
    UpdateFormat,
};

/// Maximum number of actions in a reply.
const MAX_ACTIONS: usize = 64;

/// Maximum number of problems that are listed.
const MAX_PROBLEMS: usize = 256;

/// Notation of the scanned text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceForm {
    /// True if the tags were converted from another notation, and the reply has text outside them.
    pub(super) partly_converted: bool,
}

/// Builds the response from a scan.
pub(super) fn build_response(
    source: &SourceText<'_>,
    mut found: ScanResult,
    form: SourceForm,
    grammar: &Grammar,
    names: &TagNames,
    context: &ReplyContext<'_>,
) -> Response {
    let text: &str = &source.text;
    found.possible_thoughts.sort_by_key(|span| span.start);
    found.possible_thoughts = join_spans(std::mem::take(&mut found.possible_thoughts));

    let echoes = EchoReport::find(text, &found, context);
    let blocks = find_blocks(&found);

    let foreign = if found.effects.is_empty() {
        Vec::new()
    } else {
        foreign_elements(text, names, &blocks)
    };

    // Effects that another element quotes stay visible.
    found
        .cuts
        .retain(|cut| !(cut.effect && contains(&foreign, cut.span.start)));

    let mut builder = ResponseBuilder {
        text,
        source,
        form,
        grammar,
        context,
        messages: std::mem::take(&mut found.messages),
        readings: AlternativeReadings::new(text, found.unclear.clone()),
        foreign,
        blocks,
        unclosed_thought_from: found.unclosed_thought_from,
        unclosed_thought_reaches_end: found.unclosed_thought_reaches_end,
        tasks: HashMap::new(),
        rejected: Vec::new(),
        problems: std::mem::take(&mut found.problems),
        response: Response {
            complete: !(found.open || context.is_cut()),
            nonce: context.nonce.map(str::to_owned),
            ..Response::default()
        },
    };
    if context.is_cut() {
        builder
            .problems
            .push((ProblemCode::CutOff, text.len()..text.len()));
    }

    builder.add_thoughts(&found.thoughts);
    builder.add_texts(&found.cuts, found.end);
    let effects = std::mem::take(&mut found.effects);
    builder.add_effects(&mut found, effects, &echoes.effects);
    builder.add_markers(
        &found.markers,
        &echoes.markers,
        std::mem::take(&mut found.pack_marker_doubts),
    );
    builder.decide_verdict(&found, &echoes.reviews, names);
    builder.finish()
}

/// Origin of the text that each effect, marker and `<review>` tag repeats; `None` if it does not
/// repeat the prompt.
struct EchoReport {
    effects: Vec<Option<EchoSource>>,
    markers: Vec<Option<EchoSource>>,
    reviews: Vec<Option<EchoSource>>,
}

impl EchoReport {
    fn find(text: &str, found: &ScanResult, context: &ReplyContext<'_>) -> Self {
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
            .map(|(span, marker)| EchoSuspect { span, marker });

        let texts = EchoTexts {
            ours: &context.ours,
            sent: &context.sent,
            own_history: &context.own_history,
        };
        let mut found_echoes = find_echoes(text, &suspects.collect::<Vec<_>>(), texts);
        let reviews = found_echoes.split_off(found.effects.len() + found.markers.len());
        let markers = found_echoes.split_off(found.effects.len());
        Self {
            effects: found_echoes,
            markers,
            reviews,
        }
    }
}

/// Returns the spans of actions, updates and markers other than `<review>`. These may follow the
/// verdict line.
fn find_blocks(found: &ScanResult) -> Vec<Range<usize>> {
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

struct ResponseBuilder<'a> {
    text: &'a str,
    source: &'a SourceText<'a>,
    form: SourceForm,
    grammar: &'a Grammar,
    context: &'a ReplyContext<'a>,
    messages: Vec<MessageSpan>,
    /// Other readings of the text, under which an effect may be in code or in a thought.
    readings: AlternativeReadings<'a>,
    /// Spans of elements outside the protocol, which quote the effects in them.
    foreign: Vec<Range<usize>>,
    /// Spans of actions, updates and markers other than `<review>`.
    blocks: Vec<Range<usize>>,
    /// Offset from which an unclosed thought may extend over the following text.
    unclosed_thought_from: Option<usize>,
    unclosed_thought_reaches_end: bool,
    /// Index of each task's marker in the response, by task id.
    tasks: HashMap<String, usize>,
    rejected: Vec<(Range<usize>, RejectedEffect)>,
    problems: Vec<(ProblemCode, Range<usize>)>,
    response: Response,
}

impl<'a> ResponseBuilder<'a> {
    fn add_thoughts(&mut self, thoughts: &[Range<usize>]) {
        let thoughts = thoughts
            .iter()
            .map(|span| self.text[span.clone()].trim().to_owned());
        self.response.thoughts = thoughts.filter(|thought| !thought.is_empty()).collect();
    }

    /// Splits the visible text into the message and stray text outside it.
    fn add_texts(&mut self, cuts: &[HiddenSpan], end: usize) {
        let mut message = Vec::new();
        let mut stray = String::new();
        let mut at = 0;

        for MessageSpan { span, closed } in &self.messages {
            push_visible(self.text, at..span.start, cuts, false, &mut stray);
            let mut inside = String::new();
            push_visible(self.text, span.clone(), cuts, *closed, &mut inside);
            message.push(trim_owned(inside));
            at = span.end;
        }
        push_visible(self.text, at..end.max(at), cuts, false, &mut stray);

        let stray = trim_owned(stray);
        if let Some(second) = self.messages.get(1) {
            self.problems
                .push((ProblemCode::SecondMessage, second.span.clone()));
        }

        message.retain(|part| !part.is_empty());
        self.response.messages = self.messages.len();
        let has_message = !self.messages.is_empty();
        (self.response.message, self.response.stray) = if has_message {
            (join_parts(message), stray)
        } else {
            (stray, String::new())
        };

        if !self.context.outcome.has_reply() {
            // Output of a failed agent is not a message.
            self.problems
                .push((ProblemCode::FailedCall, 0..self.text.len()));
            let output = std::mem::take(&mut self.response.message);
            self.response.stray = [output, std::mem::take(&mut self.response.stray)]
                .join("\n")
                .trim()
                .to_owned();
        }
    }

    fn add_effects(
        &mut self,
        found: &mut ScanResult,
        effects: Vec<FoundEffect>,
        echoes: &[Option<EchoSource>],
    ) {
        let examples = PromptExamples::new(self.context, &effects);
        let mut updates = Vec::new();
        let mut actions = 0;

        for (FoundEffect { kind, place }, echo) in effects.into_iter().zip(echoes) {
            if contains(&self.foreign, place.span.start) {
                // An element outside the protocol quotes its content.
                self.problems
                    .push((ProblemCode::QuotedEffect, place.span.clone()));
                if place.what.is_action() {
                    found.hidden_action.get_or_insert(place.span);
                }
                continue;
            }

            let doubt = self.find_doubt(&place.span, *echo);
            match (kind, doubt) {
                (EffectContent::Refused(reason), _) => {
                    let again = match &place.what {
                        EffectKind::Review => false,
                        EffectKind::Action(Some(name)) => self.grammar.actions.contains_key(name),
                        _ => true,
                    };
                    self.reject(place, reason, again);
                }
                (_, Some((code, reason))) => {
                    self.problems.push((code, place.span.clone()));
                    self.reject(place, reason, code != ProblemCode::Echo);
                }
                (EffectContent::Action(_), None) if actions >= MAX_ACTIONS => {
                    self.reject(
                        place,
                        format!("too many actions: the limit is {MAX_ACTIONS} per reply"),
                        false,
                    );
                }
                (EffectContent::Action(action), None) => {
                    actions += 1;
                    if let Some(reason) = examples.find_copy(&action, self.grammar) {
                        self.problems
                            .push((ProblemCode::Placeholder, place.span.clone()));
                        self.reject(place, reason, false);
                    } else if self
                        .response
                        .actions
                        .iter()
                        .any(|earlier| earlier.is_same_request(&action))
                    {
                        self.problems
                            .push((ProblemCode::RepeatedEffect, place.span));
                    } else {
                        let span = self.source.raw_span(&place.span);
                        self.response.actions.push(Action { span, ..action });
                    }
                }
                (EffectContent::Update(update), None) if update.content.trim().is_empty() => {
                    self.reject(place, "the update is empty", true);
                }
                (EffectContent::Update(update), None)
                    if is_placeholder(&update.content) || is_placeholder(&update.target) =>
                {
                    self.problems
                        .push((ProblemCode::Placeholder, place.span.clone()));
                    self.reject(place, "the content or the target is a placeholder", false);
                }
                (EffectContent::Update(update), None) => updates.push((update, place)),
            }
        }

        self.add_updates(updates);
    }

    /// Adds the updates, and rejects those that set the same target to different contents.
    fn add_updates(&mut self, updates: Vec<(Update, EffectPlace)>) {
        let mut texts: HashMap<&str, (&str, UpdateFormat)> = HashMap::new();
        let mut contradicted: HashSet<String> = HashSet::new();
        for (update, _) in &updates {
            let text = (update.content.as_str(), update.format);
            if *texts.entry(&update.target).or_insert(text) != text {
                contradicted.insert(update.target.clone());
            }
        }

        let mut added = HashSet::new();
        for (update, place) in updates {
            if contradicted.contains(&update.target) {
                self.reject(place, "the target has two different contents", true);
            } else if added.insert(update.target.clone()) {
                let span = self.source.raw_span(&place.span);
                self.response.updates.push(Update { span, ..update });
            } else {
                self.problems
                    .push((ProblemCode::RepeatedEffect, place.span));
            }
        }
    }

    /// Returns the reason why an effect is ignored regardless of its content; `None` if it is not.
    fn find_doubt(
        &self,
        span: &Range<usize>,
        echo: Option<EchoSource>,
    ) -> Option<(ProblemCode, &'static str)> {
        if self.context.is_cut() {
            return Some((ProblemCode::CutOff, "the reply was cut off"));
        }

        let next = self
            .messages
            .partition_point(|message| message.span.end <= span.start);
        if self
            .messages
            .get(next)
            .is_some_and(|m| m.closed && m.span.contains(&span.start))
        {
            return Some((
                ProblemCode::EffectInMessage,
                "actions and updates inside the message are ignored",
            ));
        }

        if self.may_be_in_thought(span.start) {
            return Some((
                ProblemCode::RefusedEffect,
                "there is an unclosed thought before it",
            ));
        }
        if self.form.partly_converted {
            return Some((
                ProblemCode::RefusedEffect,
                "the tags are not written with `<` and `>`",
            ));
        }

        if let Some(reason) = self.readings.find_doubt(span) {
            return Some((ProblemCode::RefusedEffect, reason));
        }
        echo.map(|_| (ProblemCode::Echo, "the text repeats the prompt"))
    }

    /// Returns true if an unclosed thought may extend over an offset. If the message after the
    /// thought is closed, the thought ends with it at the latest, unless the thought may reach the
    /// end of the reply.
    fn may_be_in_thought(&self, at: usize) -> bool {
        self.unclosed_thought_from.is_some_and(|from| {
            let next = self
                .messages
                .partition_point(|message| message.span.start < from);
            let closed = self
                .messages
                .get(next)
                .is_some_and(|m| m.closed && at >= m.span.end);
            at >= from && (self.unclosed_thought_reaches_end || !closed)
        })
    }

    /// Records an effect that is not carried out. If `again` is true, a repair call requests it again.
    fn reject(&mut self, place: EffectPlace, reason: impl Into<String>, again: bool) {
        if self.rejected.len() < MAX_REJECTED_EFFECTS {
            // Several effects with one span, as in a JSON reply, share one copy of the text.
            let is_listed = self
                .rejected
                .last()
                .is_some_and(|(span, _)| *span == place.span);
            let text = if is_listed {
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
            self.rejected.push((place.span, proposal));
        }
    }

    /// Returns the line of an offset, counted from 1.
    fn line_of(&self, at: usize) -> usize {
        memchr::memchr_iter(b'\n', &self.text.as_bytes()[..at]).count() + 1
    }

    fn finish(mut self) -> Response {
        self.rejected.sort_by_key(|(span, _)| span.start);
        self.response.proposals = self
            .rejected
            .into_iter()
            .map(|(_, proposal)| proposal)
            .collect();

        self.problems.sort_by_key(|(_, span)| span.start);
        if self.problems.len() > MAX_PROBLEMS {
            self.problems.truncate(MAX_PROBLEMS);
            self.problems
                .push((ProblemCode::MoreProblems, self.text.len()..self.text.len()));
        }

        let problems = self.problems.into_iter();
        self.response.problems = problems
            .map(|(code, span)| Problem::new(code, self.source.raw_span(&span)))
            .collect();
        self.response
    }
}

/// Joins the parts of a message.
fn join_parts(mut parts: Vec<String>) -> String {
    if parts.len() == 1 {
        parts.remove(0)
    } else {
        parts.join("\n\n")
    }
}

/// Trims a string in place.
fn trim_owned(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    text.drain(..text.len() - text.trim_start().len());
    text
}

/// Appends the visible text of a span. With `keep_effects`, actions and updates stay visible.
fn push_visible(
    text: &str,
    span: Range<usize>,
    cuts: &[HiddenSpan],
    keep_effects: bool,
    out: &mut String,
) {
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
