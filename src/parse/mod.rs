//! Turns the bytes of a reply into a [`Response`]. Text is salvaged from any input; an effect must be unambiguous.
//!
//! [`parse()`] takes a whole reply. [`Stream`] takes it in chunks and returns the text that can be shown so far.
//! [`verdict`] and [`required_markers`] check the response. [`find_repair`] returns the parts that
//! the agent must send again.
//!
//! ```
//! use agentd::ReviewResult;
//! use agentd::parse::{ReplyContext, Grammar, Stream, parse_review_marker};
//!
//! assert_eq!(parse_review_marker("Fine.\n<review>PASS</review>")?, ReviewResult::Pass);
//!
//! let mut stream = Stream::new(&Grammar::any_review());
//! let mut shown = stream.push(b"<message>Looks ");
//! shown += &stream.push(b"good.</message>\n<rev");
//! let (rest, response) = stream.finish(&ReplyContext::default());
//! assert_eq!(shown + &rest, "Looks good.");
//! assert!(!response.complete);
//! # Ok::<(), agentd::Error>(())
//! ```

mod accept;
mod call;
mod code_spans;
mod context;
mod dialects;
mod echo;
mod fenced_blocks;
mod fields;
mod foreign;
mod placeholder;
mod quoted_lines;
mod repair;
mod review;
mod scan;
mod source_map;
mod stream;
mod structured;
mod tag;
mod unaccepted_actions;
mod unwrap;
mod verdict;
mod verdict_line;

use crate::models::{Problem, ProblemCode, Response, ReviewResult};

pub use crate::models::{Grammar, MarkerSpec};
use accept::{SourceForm, build_response};
pub use context::ReplyContext;
use fenced_blocks::remove_block_fences;
pub use repair::{Repair, RepairKind, find_repair, merge_answer};
use review::TagValue;
use scan::{ScanResult, scan};
use source_map::SourceText;
pub use stream::Stream;
use tag::TagNames;
pub use unaccepted_actions::find_unaccepted_actions;
use unwrap::{is_wrapped_in_element, unwrap_reply};
pub use verdict::{parse_review_marker, required_markers, verdict};

/// Parses a reply. Never fails: every input yields a response, with its problems listed.
#[must_use]
pub fn parse(reply: impl AsRef<[u8]>, grammar: &Grammar, context: &ReplyContext<'_>) -> Response {
    let raw = reply.as_ref();
    let (source, replaced) = SourceText::decode(raw);

    let mut problems = Vec::new();
    if replaced {
        problems.push(Problem::new(ProblemCode::InvalidUtf8, 0..raw.len()));
    }

    let source = unwrap_reply(source, &mut problems);
    let mut response = read_source(&source, grammar, context, &mut problems);

    problems.append(&mut response.problems);
    Response {
        problems,
        ..response
    }
}

/// Reads a reply that is written with tags, as structured data such as JSON, or with tags in another
/// notation.
fn read_source(
    source: &SourceText<'_>,
    grammar: &Grammar,
    context: &ReplyContext<'_>,
    problems: &mut Vec<Problem>,
) -> Response {
    let names = TagNames::from_grammar(grammar);
    let mut found = scan(&source.text, grammar, &names);

    if let Some(unwrapped) =
        remove_block_fences(source, &found, grammar, &names, context.nonce.is_some())
    {
        problems.push(Problem::new(
            ProblemCode::FencedReply,
            source.raw_span(&(0..source.text.len())),
        ));
        return build_from_tags(&unwrapped, grammar, &names, context);
    }

    if let Some(values) = structured::read_whole(&source.text, &found, grammar) {
        // Tags inside the values are text, except verdicts with this turn's `run`.
        let start = values.start;
        found.thoughts.retain(|thought| thought.end <= start);
        found.problems.retain(|(_, span)| span.end <= start);
        let ScanResult {
            thoughts,
            problems,
            review_tags,
            ..
        } = found;

        let end = source.text.len();
        let mut found = ScanResult {
            thoughts,
            problems,
            review_tags,
            end,
            ..ScanResult::default()
        };

        found.quotes.push(start..end);
        return build_structured(source, found, values, grammar, &names, context);
    }

    if (!found.has_tags() || found.has_review())
        && let Some(converted) = dialects::convert_tags(source, grammar, &names)
    {
        let inside = scan(&converted.source.text, grammar, &names);
        if found.has_tags() {
            found.other_form = most_severe_verdict(&inside)
                .filter(|verdict| Some(*verdict) > most_severe_verdict(&found));
        } else if inside.has_tags() {
            problems.push(Problem::new(
                converted.code,
                source.raw_span(&(0..source.text.len())),
            ));
            let form = SourceForm {
                partly_converted: !converted.whole,
            };
            return build_response(&converted.source, inside, form, grammar, &names, context);
        }
    }

    if !found.has_parts()
        && let Some(values) = structured::read_quoted(&source.text, &found, grammar)
    {
        return build_structured(source, found, values, grammar, &names, context);
    }

    if !found.has_tags() && found.problems.is_empty() && is_wrapped_in_element(&source.text) {
        problems.push(Problem::new(
            ProblemCode::UnknownTag,
            source.raw_span(&(0..source.text.len())),
        ));
    }

    build_response(
        source,
        found,
        SourceForm::default(),
        grammar,
        &names,
        context,
    )
}

/// Builds the [`Response`] from a reply with tags.
fn build_from_tags(
    source: &SourceText<'_>,
    grammar: &Grammar,
    names: &TagNames,
    context: &ReplyContext<'_>,
) -> Response {
    build_response(
        source,
        scan(&source.text, grammar, names),
        SourceForm::default(),
        grammar,
        names,
        context,
    )
}

/// Returns the most severe verdict of the tags outside thoughts, code and quotes; `None` if it is
/// PASS or missing.
fn most_severe_verdict(found: &ScanResult) -> Option<ReviewResult> {
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

/// Builds the [`Response`] from a reply written as structured data.
fn build_structured(
    source: &SourceText<'_>,
    mut found: ScanResult,
    values: structured::StructuredReply,
    grammar: &Grammar,
    names: &TagNames,
    context: &ReplyContext<'_>,
) -> Response {
    found.effects = values.effects;
    found.other_form = values.verdict;
    found.problems.extend(values.problems);
    found.open |= values.cut;

    let mut response = build_response(
        source,
        found,
        SourceForm::default(),
        grammar,
        names,
        context,
    );

    if context.outcome.has_reply() && (values.whole || values.message.is_some()) {
        response.message = values.message.unwrap_or_default();
    }
    response.thoughts.extend(values.thoughts);
    response
}
