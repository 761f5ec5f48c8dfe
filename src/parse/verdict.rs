//! The verdict and the required markers of a response.

use super::{ReplyContext, parse};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Grammar, Marker, RejectedEffect, Response, ReviewResult};

/// Returns the most severe verdict in an agent's output, accepting the verdicts of every mode.
///
/// Verdicts in thoughts, quotes and code are ignored, and PASS is valid only as the last line. The `run` attribute is
/// not checked. For a reply to a prompt with a `run`, use [`parse()`] with [`ReplyContext::nonce`].
///
/// ```
/// use agentd::models::ReviewResult;
/// use agentd::parse::parse_review_marker;
///
/// let reply = "The tests pass.\n\n<review>PASS</review>";
/// assert_eq!(parse_review_marker(reply)?, ReviewResult::Pass);
/// assert!(parse_review_marker("Looks fine to me.").is_err());
/// # Ok::<(), agentd::Error>(())
/// ```
///
/// # Errors
///
/// `MissingReviewMarker` if the output has no verdict, or only an unclear one.
pub fn parse_review_marker(output: &str) -> Result<ReviewResult> {
    let grammar = Grammar::any_review();
    let response = parse(output, &grammar, &ReplyContext::default());
    verdict(&response, &grammar)?.ok_or_else(missing_verdict)
}

/// Returns the verdict of a response.
///
/// # Errors
///
/// `MissingReviewMarker` if the verdict is unclear, or missing where the grammar requires one. An unclear verdict
/// never passes. `VerdictNotAllowed` for a verdict that the mode does not define.
pub fn verdict(response: &Response, grammar: &Grammar) -> Result<Option<ReviewResult>> {
    let verdicts = response.markers.iter().filter_map(|marker| match marker {
        Marker::Review { verdict } => Some(*verdict),
        Marker::TaskStatus { .. } | Marker::Named { .. } => None,
    });
    match verdicts.max() {
        Some(verdict) if !grammar.verdicts.contains(&verdict) => {
            Err(disallowed_verdict(verdict, grammar))
        }
        Some(ReviewResult::Pass) => match unread_action(response) {
            Some(action) => Err(unclear_verdict(&format!(
                "cannot parse an action next to PASS: {}",
                action.reason
            ))),
            None => Ok(Some(ReviewResult::Pass)),
        },
        Some(verdict) => Ok(Some(verdict)),
        None => match response.verdict_doubts.first() {
            Some(doubt) => Err(unclear_verdict(&format!(
                "line {}: {}",
                doubt.line, doubt.reason
            ))),
            None if grammar.verdict_required => Err(missing_verdict()),
            None => Ok(None),
        },
    }
}

/// Returns an action that could not be read. In a mode with verdicts it may be a finding.
fn unread_action(response: &Response) -> Option<&RejectedEffect> {
    response
        .proposals
        .iter()
        .find(|proposal| proposal.what.is_action())
}

/// Checks that a response has all markers that the grammar requires.
///
/// # Errors
///
/// `MissingMarker` with the first missing marker and its values.
pub fn required_markers(response: &Response, grammar: &Grammar) -> Result<()> {
    for spec in grammar.markers.iter().filter(|spec| spec.required) {
        let is_required =
            |marker: &Marker| matches!(marker, Marker::Named { name, .. } if *name == spec.name);
        if !response.markers.iter().any(is_required) {
            let message = format!("the reply has no readable <{}>", spec.name);
            return Err(Error::new(ErrorKind::MissingMarker, message)
                .with_hint(format!("expected one of {}", spec.values.join(", "))));
        }
    }
    Ok(())
}

fn disallowed_verdict(verdict: ReviewResult, grammar: &Grammar) -> Error {
    let allowed: Vec<&str> = grammar
        .verdicts
        .iter()
        .map(|verdict| verdict.name())
        .collect();
    let hint = if allowed.is_empty() {
        "this mode has no verdicts".to_owned()
    } else {
        format!("expected one of {}", allowed.join(", "))
    };

    Error::new(
        ErrorKind::VerdictNotAllowed,
        format!("{verdict} is not a verdict of this mode"),
    )
    .with_hint(hint)
}

fn unclear_verdict(reason: &str) -> Error {
    Error::new(
        ErrorKind::MissingReviewMarker,
        format!("the verdict is unclear: {reason}"),
    )
    .with_hint("an unclear verdict never passes; ask again with `agentd turn --repairs 2`, or run `agentd review`")
}

fn missing_verdict() -> Error {
    Error::new(ErrorKind::MissingReviewMarker, "the reply has no verdict")
        .with_hint("a missing verdict never passes; ask again with `agentd turn --repairs 2`, or run `agentd review`")
}
