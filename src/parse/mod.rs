//! From a reply's bytes to a response. Text is salvaged from anything; an effect must be clearly meant.

mod call;
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
mod tag;
mod values;
mod verdict;

use std::ops::Range;

use crate::models::{Code, Problem, Response};

pub use crate::models::{Grammar, MarkerSpec};
pub use context::{Context, Finish};
use judge::{Form, judge};
use line::Fence;
pub use repair::{merge, repair_request};
use scan::{Found, scan};
use source::{Source, escape_sequences};
use tag::Names;
pub use verdict::{required_markers, verdict};

/// The shortest reply that may stand twice.
const SHORTEST_REPEATED: usize = 40;

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

/// Takes from a text what was never part of it: a byte order mark, a terminal's escape sequences, a second copy, and a
/// fence around all of it.
fn cleaned<'a>(source: Source<'a>, problems: &mut Vec<Problem>) -> Source<'a> {
    let text: &str = &source.text;
    let mut cuts: Vec<Range<usize>> = Vec::new();
    if text.starts_with('\u{FEFF}') {
        cuts.push(0..3);
    }
    let escapes = escape_sequences(text);
    if let (Some(first), Some(last)) = (escapes.first(), escapes.last()) {
        problems.push(Problem::new(Code::EscapeSequences, source.raw_span(&(first.start..last.end))));
        cuts.extend(
            escapes
                .iter()
                .filter(|span| !cuts.first().is_some_and(|c| c.contains(&span.start)))
                .cloned()
                .collect::<Vec<_>>(),
        );
    }
    let source = if cuts.is_empty() { source } else { source.without(&cuts) };
    let source = match repeated(&source.text) {
        Some(half) => {
            problems.push(Problem::new(Code::RepeatedReply, source.raw_span(&half)));
            source.without(&[half])
        }
        None => source,
    };
    if let Some(converted) = convert::harmony(&source) {
        problems.push(Problem::new(Code::Harmony, source.raw_span(&(0..source.text.len()))));
        return converted;
    }
    match fenced(&source.text) {
        Some(inside) => {
            problems.push(Problem::new(Code::FencedReply, source.raw_span(&(0..source.text.len()))));
            source.without(&[0..inside.start, inside.end..source.text.len()])
        }
        None => source,
    }
}

/// Returns the second half of a text that is the same as the first.
fn repeated(text: &str) -> Option<Range<usize>> {
    let trimmed = text.trim();
    let start = text.len() - text.trim_start().len();
    if trimmed.len() < 2 * SHORTEST_REPEATED {
        return None;
    }
    let half = (0..3).find_map(|blanks| {
        let length = (trimmed.len() - blanks) / 2;
        let same = trimmed.is_char_boundary(length)
            && trimmed.is_char_boundary(trimmed.len() - length)
            && trimmed[..length] == trimmed[trimmed.len() - length..]
            && trimmed[length..trimmed.len() - length].trim().is_empty();
        same.then_some(length)
    })?;
    // Prose may well repeat itself; tags do not.
    trimmed[..half].contains("</").then_some(start + half..text.len())
}

/// Returns the inside of a fence that is the entire reply.
fn fenced(reply: &str) -> Option<Range<usize>> {
    let trimmed = reply.trim();
    let (first, rest) = trimmed.split_once('\n')?;
    let fence = Fence::opened_by(first).filter(|_| first.starts_with(['`', '~']))?;
    // A fence around code of another language is a quote, even if nothing else is said.
    let language = first.trim_start_matches(['`', '~']).trim().to_ascii_lowercase();
    let own =
        ["", "xml", "html", "json", "yaml", "yml", "python", "text", "txt", "plaintext", "markdown", "md"];
    if !own.contains(&language.as_str()) {
        return None;
    }
    let (inside, last) = rest.rsplit_once('\n')?;
    let start = reply.len() - reply.trim_start().len() + first.len() + 1;
    let only_fence = fence.is_closed_by(last) && !inside.lines().any(|line| fence.is_closed_by(line));
    only_fence.then_some(start..start + inside.len())
}

/// Reads a text in the form that it has: with tags, with tags in another form, or as values.
fn read(
    source: &Source<'_>,
    grammar: &Grammar,
    context: &Context<'_>,
    problems: &mut Vec<Problem>,
) -> Response {
    let names = Names::of(grammar);
    let found = scan(&source.text, grammar, &names);
    if !found.has_tags()
        && let Some(converted) = convert::convert(source, &names)
    {
        let inside = scan(&converted.source.text, grammar, &names);
        if inside.has_tags() {
            problems.push(Problem::new(converted.code, source.raw_span(&(0..source.text.len()))));
            let form = Form { partly_converted: !converted.whole };
            return judge(&converted.source, inside, form, grammar, context);
        }
    }
    if !found.has_parts()
        && let Some(values) = values::read(&source.text, &found, grammar)
    {
        return of_values(source, found, values, grammar, context);
    }
    if !found.has_tags() && is_wrapped(&source.text) {
        problems.push(Problem::new(Code::UnknownTag, source.raw_span(&(0..source.text.len()))));
    }
    judge(source, found, Form::default(), grammar, context)
}

/// Tells whether a text stands as a whole between two tags of one name.
fn is_wrapped(text: &str) -> bool {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('<') else { return false };
    let length = inner.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    length > 0 && text.ends_with(&format!("</{}>", &inner[..length]))
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
    if context.finish != Finish::Failed {
        response.message = values.message.unwrap_or_default();
    }
    response.thoughts.extend(values.thoughts);
    response
}
