//! From a reply's bytes to a response. Text is salvaged from anything; an effect must be clearly meant.

mod call;
mod clean;
mod code;
mod context;
mod convert;
mod echo;
mod fields;
mod judge;
mod line;
mod loose;
mod placeholder;
mod repair;
mod scan;
mod source;
mod stream;
mod tag;
mod values;
mod verdict;

use crate::models::{Code, Problem, Response};

pub use crate::models::{Grammar, MarkerSpec};
use clean::{cleaned, is_wrapped};
pub use context::{Context, Finish};
use judge::{Form, judge};
pub use repair::{merge, repair_request};
use scan::{Found, scan};
use source::Source;
pub use stream::Stream;
use tag::Names;
pub use verdict::{required_markers, verdict};

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
    Response { problems, ..response }
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
    if let Some(values) = values::read_whole(&source.text, &found, grammar) {
        // Tags in its texts are texts.
        let quoted = found.quoted.max(found.worst());
        let start = values.start;
        found.thoughts.retain(|thought| thought.end <= start);
        found.problems.retain(|(_, span)| span.end <= start);
        let Found { thoughts, problems, .. } = found;
        let found = Found { thoughts, problems, quoted, end: source.text.len(), ..Found::default() };
        return of_values(source, found, values, grammar, context);
    }
    if (!found.has_tags() || found.worst().is_some())
        && let Some(converted) = convert::convert(source, grammar, &names)
    {
        let inside = scan(&converted.source.text, grammar, &names);
        if found.has_tags() {
            // Beside a verdict, one in another form is as if quoted.
            found.quoted = found.quoted.max(inside.worst());
        } else if inside.has_tags() {
            problems.push(Problem::new(converted.code, source.raw_span(&(0..source.text.len()))));
            let form = Form { partly_converted: !converted.whole };
            return judge(&converted.source, inside, form, grammar, context);
        }
    }
    if !found.has_parts()
        && let Some(values) = values::read_quoted(&source.text, &found, grammar)
    {
        return of_values(source, found, values, grammar, context);
    }
    if !found.has_tags() && found.problems.is_empty() && is_wrapped(&source.text) {
        problems.push(Problem::new(Code::UnknownTag, source.raw_span(&(0..source.text.len()))));
    }
    judge(source, found, Form::default(), grammar, context)
}

/// Makes a response of a reply that is written as values.
fn of_values(
    source: &Source<'_>,
    mut found: Found,
    values: values::Values,
    grammar: &Grammar,
    context: &Context<'_>,
) -> Response {
    found.effects = values.effects;
    found.quoted = found.quoted.max(values.verdict);
    found.problems.extend(values.problems);
    found.open |= values.cut;
    let mut response = judge(source, found, Form::default(), grammar, context);
    if context.finish != Finish::Failed && (values.whole || values.message.is_some()) {
        response.message = values.message.unwrap_or_default();
    }
    response.thoughts.extend(values.thoughts);
    response
}
