//! From the bytes of a reply to a [`Response`]. Text is salvaged from anything; an effect must be clearly meant.
//!
//! [`parse()`] takes a whole reply, [`Stream`] takes it in pieces and returns the text that can be shown already.
//! [`verdict`] and [`required_markers`] judge the response, [`find_repair`] says what to ask the agent again.
//!
//! ```
//! use agentd::ReviewResult;
//! use agentd::parse::{Context, Grammar, Stream, parse_review_marker};
//!
//! assert_eq!(parse_review_marker("Fine.\n<review>PASS</review>")?, ReviewResult::Pass);
//!
//! let mut stream = Stream::new(&Grammar::any_review());
//! let mut shown = stream.push(b"<message>Looks ");
//! shown += &stream.push(b"good.</message>\n<rev");
//! let (rest, response) = stream.finish(&Context::default());
//! assert_eq!(shown + &rest, "Looks good.");
//! assert!(!response.complete);
//! # Ok::<(), agentd::Error>(())
//! ```

mod call;
mod clean;
mod code;
mod context;
mod convert;
mod echo;
mod fenced_blocks;
mod fields;
mod foreign;
mod judge;
mod line;
mod placeholder;
mod repair;
mod review;
mod scan;
mod source;
mod stream;
mod tag;
mod values;
mod verdict;
mod verdict_line;

use crate::models::{Code, Problem, Response, ReviewResult};

pub use crate::models::{Grammar, MarkerSpec};
use clean::{cleaned, is_wrapped};
pub use context::Context;
use fenced_blocks::without_fences;
use judge::{Form, judge};
pub use repair::{Repair, RepairKind, find_repair, merge_answer};
use review::TagValue;
use scan::{Found, scan};
use source::Source;
pub use stream::Stream;
use tag::Names;
pub use verdict::{parse_review_marker, required_markers, verdict};

/// Reads a reply. It returns for every input.
#[must_use]
pub fn parse(reply: impl AsRef<[u8]>, grammar: &Grammar, context: &Context<'_>) -> Response {
    let raw = reply.as_ref();
    let (source, replaced) = Source::decode(raw);
    let mut problems = Vec::new();
    if replaced {
        problems.push(Problem::new(Code::InvalidUtf8, 0..raw.len()));
    }
    let source = cleaned(source, &mut problems);
    let mut response = read(&source, grammar, context, &mut problems);
    problems.append(&mut response.problems);
    Response {
        problems,
        ..response
    }
}

/// Reads a text in the form that it has: with tags, with tags in another form, or as values.
fn read(
    source: &Source<'_>,
    grammar: &Grammar,
    context: &Context<'_>,
    problems: &mut Vec<Problem>,
) -> Response {
    let names = Names::of(grammar);
    let mut found = scan(&source.text, grammar, &names);
    if let Some(unwrapped) =
        without_fences(source, &found, grammar, &names, context.nonce.is_some())
    {
        problems.push(Problem::new(
            Code::FencedReply,
            source.raw_span(&(0..source.text.len())),
        ));
        return judge_tags(&unwrapped, grammar, &names, context);
    }
    if let Some(values) = values::read_whole(&source.text, &found, grammar) {
        // Tags in its texts are texts, but for those with this turn's `run`.
        let start = values.start;
        found.thoughts.retain(|thought| thought.end <= start);
        found.problems.retain(|(_, span)| span.end <= start);
        let Found {
            thoughts,
            problems,
            review_tags,
            ..
        } = found;
        let end = source.text.len();
        let mut found = Found {
            thoughts,
            problems,
            review_tags,
            end,
            ..Found::default()
        };
        found.quotes.push(start..end);
        return of_values(source, found, values, grammar, &names, context);
    }
    if (!found.has_tags() || found.has_review())
        && let Some(converted) = convert::convert(source, grammar, &names)
    {
        let inside = scan(&converted.source.text, grammar, &names);
        if found.has_tags() {
            found.other_form =
                severest(&inside).filter(|verdict| Some(*verdict) > severest(&found));
        } else if inside.has_tags() {
            problems.push(Problem::new(
                converted.code,
                source.raw_span(&(0..source.text.len())),
            ));
            let form = Form {
                partly_converted: !converted.whole,
            };
            return judge(&converted.source, inside, form, grammar, &names, context);
        }
    }
    if !found.has_parts()
        && let Some(values) = values::read_quoted(&source.text, &found, grammar)
    {
        return of_values(source, found, values, grammar, &names, context);
    }
    if !found.has_tags() && found.problems.is_empty() && is_wrapped(&source.text) {
        problems.push(Problem::new(
            Code::UnknownTag,
            source.raw_span(&(0..source.text.len())),
        ));
    }
    judge(source, found, Form::default(), grammar, &names, context)
}

/// Makes a response of a reply with tags.
fn judge_tags(
    source: &Source<'_>,
    grammar: &Grammar,
    names: &Names,
    context: &Context<'_>,
) -> Response {
    judge(
        source,
        scan(&source.text, grammar, names),
        Form::default(),
        grammar,
        names,
        context,
    )
}

/// Returns the most severe verdict among the tags outside thoughts, code and quotes, if it is more severe than PASS.
fn severest(found: &Found) -> Option<ReviewResult> {
    let verdicts = found.review_tags.iter().filter_map(|tag| {
        let marker = found
            .markers
            .binary_search_by_key(&tag.span.start, |marker| marker.span.start);
        match tag.value {
            TagValue::Verdict(verdict) => marker.ok().map(|_| verdict),
            TagValue::Choice | TagValue::Unreadable(_) => None,
        }
    });
    verdicts
        .max()
        .filter(|verdict| *verdict > ReviewResult::Pass)
}

/// Makes a response of a reply that is written as values.
fn of_values(
    source: &Source<'_>,
    mut found: Found,
    values: values::Values,
    grammar: &Grammar,
    names: &Names,
    context: &Context<'_>,
) -> Response {
    found.effects = values.effects;
    found.other_form = values.verdict;
    found.problems.extend(values.problems);
    found.open |= values.cut;
    let mut response = judge(source, found, Form::default(), grammar, names, context);
    if context.outcome.has_reply() && (values.whole || values.message.is_some()) {
        response.message = values.message.unwrap_or_default();
    }
    response.thoughts.extend(values.thoughts);
    response
}
