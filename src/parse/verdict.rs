//! Which verdict a response holds: the most severe one, never a guess.

use super::Grammar;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Marker, Response, ReviewResult};

/// Reads a verdict as agents write it: `PASS`, `**Pass**`, `needs revision.`, `PASS - nits`; `None` for anything else.
pub(super) fn read_value(text: &str) -> Option<ReviewResult> {
    let (verdict, rest) = split(text)?;
    let rest = rest.trim_start_matches(['*', '_', '`', '"', '\'', ' ', '\t']);
    let remark =
        rest.is_empty() || rest.starts_with(['.', '!', '-', '–', '—', ':', ',', ';', '(', '\n', '\r']);
    // A remark that names another verdict makes it an alternation.
    let second = || ReviewResult::ALL.iter().any(|other| split_after(rest, *other));
    (remark && !second()).then_some(verdict)
}

/// Returns the verdict that a text starts with, whatever follows.
pub(super) fn leading(text: &str) -> Option<ReviewResult> {
    split(text).map(|(verdict, _)| verdict)
}

/// Cuts off the verdict that a text starts with: its words may be joined by `_`, `-` or blanks, in any case.
fn split(text: &str) -> Option<(ReviewResult, &str)> {
    let decoration = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '"' | '\'');
    let text = text.trim_start_matches(decoration);
    ReviewResult::ALL.into_iter().find_map(|verdict| {
        let name = verdict.name();
        let head = text.get(..name.len())?;
        let same = head.bytes().zip(name.bytes()).all(|(a, b)| match b {
            b'_' => matches!(a, b'_' | b'-' | b' '),
            _ => a.eq_ignore_ascii_case(&b),
        });
        let rest = &text[head.len()..];
        (same && !rest.starts_with(|c: char| c.is_alphanumeric())).then_some((verdict, rest))
    })
}

/// Tells whether some word of a text starts a verdict.
fn split_after(text: &str, verdict: ReviewResult) -> bool {
    text.split_whitespace().any(|word| word.to_ascii_uppercase().contains(verdict.name()))
}

/// Returns the verdict of a response.
///
/// # Errors
///
/// `MissingReviewMarker` if the grammar requires one and none stands where it counts, or if PASS stands there and a
/// quoted verdict is worse: masking a text may never move a reading towards PASS. `VerdictNotAllowed` for a verdict
/// that the mode does not know.
pub fn verdict(response: &Response, grammar: &Grammar) -> Result<Option<ReviewResult>> {
    let found = response.markers.iter().filter_map(|marker| match marker {
        Marker::Review { verdict } => Some(*verdict),
        Marker::TaskStatus { .. } => None,
    });
    let found: Vec<ReviewResult> = found.collect();
    if let Some(stranger) = found.iter().find(|verdict| !grammar.verdicts.contains(verdict)) {
        let known: Vec<&str> = grammar.verdicts.iter().map(|verdict| verdict.name()).collect();
        return Err(Error::new(
            ErrorKind::VerdictNotAllowed,
            format!("{stranger} is no verdict of this mode"),
        )
        .with_hint(format!(
            "its verdicts: {}",
            if known.is_empty() { "none".into() } else { known.join(", ") }
        )));
    }
    let worst = found.into_iter().max();
    let contradicted = worst == Some(ReviewResult::Pass) && response.quoted_verdict > worst;
    match worst {
        Some(verdict) if !contradicted => Ok(Some(verdict)),
        None if !grammar.verdict_required => Ok(None),
        _ => Err(missing(response, contradicted)),
    }
}

fn missing(response: &Response, contradicted: bool) -> Error {
    let message = match response.quoted_verdict {
        Some(quoted) if contradicted => {
            format!("the reply says PASS, and {quoted} in a quote or in code")
        }
        Some(quoted) => format!("the only verdict, {quoted}, stands in a quote or in code"),
        None => "the reply holds no <review> verdict".to_owned(),
    };
    Error::new(ErrorKind::MissingReviewMarker, message)
        .with_hint("a missing verdict is never taken for PASS; ask again, or decide yourself")
}
