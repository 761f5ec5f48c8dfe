//! Which verdict a response holds: the most severe one, never a guess.

use crate::error::{Error, ErrorKind, Result};
use crate::models::{Grammar, Marker, Response, ReviewResult, is_invisible};

/// Reads a verdict as agents write it: `PASS`, `**Pass**`, `needs revision.`, `PASS - nits`; `None` for anything else.
pub(super) fn read_value(text: &str) -> Option<ReviewResult> {
    if let Ok(verdict) = text.parse() {
        return Some(verdict);
    }
    let text = normal(text);
    let (verdict, rest) = split(&text)?;
    let spaced = rest.starts_with(' ');
    let rest = rest.trim_start_matches(['*', '_', '`', '"', '\'', ')', ']', ' ']);
    // One of several, of which the others are not written out, is none.
    let alternation = rest.starts_with(['|', '/']);
    let remark = !rest.contains(char::is_alphanumeric)
        || rest.starts_with(['.', '!', ':', ',', ';', '(', '–', '—'])
        || (spaced && rest.starts_with('-'));
    (remark && !alternation && !contradicts(rest, verdict)).then_some(verdict)
}

/// Returns the verdict that a text starts with, whatever follows.
pub(super) fn leading(text: &str) -> Option<ReviewResult> {
    let skipped = |c: char| is_decoration(c) || is_invisible(c);
    let first = text.chars().take(NEAR).find(|c| !skipped(*c))?;
    if !ReviewResult::ALL.iter().any(|verdict| verdict.name().starts_with(first.to_ascii_uppercase())) {
        return None;
    }
    // A verdict stands near the start; what follows need not be looked at.
    let near: String = text.chars().take(NEAR).collect();
    split(&normal(&near)).map(|(verdict, _)| verdict)
}

/// Returns the worst verdict that a text names anywhere.
pub(super) fn named(text: &str) -> Option<ReviewResult> {
    names_in(text, ReviewResult::ALL.map(ReviewResult::name)).filter_map(|name| name.parse().ok()).max()
}

/// Tells whether a text is a choice between verdicts, as instructions show it: `PASS|NEEDS_REVISION`.
pub(super) fn is_alternation(text: &str) -> bool {
    if !text.contains(['|', '/']) && !text.contains(" or ") {
        return false;
    }
    let parts: Vec<&str> = text.split(['|', '/']).flat_map(|part| part.split(" or ")).collect();
    let open = |part: &str| matches!(part.trim(), "..." | "…");
    parts.len() > 1 && parts.iter().all(|part| read_value(part).is_some() || open(part))
}

/// How far into a text a verdict is looked for.
const NEAR: usize = 80;

/// Returns a text with single blanks, and without what cannot be seen.
fn normal(text: &str) -> String {
    let seen: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    seen.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns which of several names in capitals a text holds, word for word.
fn names_in<const N: usize>(text: &str, names: [&'static str; N]) -> impl Iterator<Item = &'static str> {
    let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    std::iter::from_fn(move || Some((words.next()?, words.peek().copied().unwrap_or_default()))).filter_map(
        move |(word, next)| {
            names.into_iter().find(|name| match name.split_once('_') {
                Some((first, second)) => is_word(word, first) && is_word(next, second),
                None => is_word(word, name),
            })
        },
    )
}

/// Tells whether a word is the same as one in capitals.
fn is_word(word: &str, capitals: &str) -> bool {
    word.eq_ignore_ascii_case(capitals) || (!word.is_ascii() && word.to_uppercase() == capitals)
}

/// Tells whether a remark takes back what stands before it.
fn contradicts(remark: &str, verdict: ReviewResult) -> bool {
    let mut named = names_in(remark, ReviewResult::ALL.map(ReviewResult::name));
    named.any(|name| name != verdict.name()) || (verdict == ReviewResult::Pass && limits(remark))
}

/// Words that take back a PASS, or make it depend on something.
const LIMITS: [&str; 48] = [
    "NOT",
    "NO",
    "NONE",
    "NEVER",
    "CANNOT",
    "CANT",
    "T",
    "WON",
    "FAIL",
    "FAILS",
    "FAILED",
    "FAILING",
    "FAILURE",
    "REJECT",
    "UNLESS",
    "IF",
    "ONCE",
    "WHEN",
    "AFTER",
    "UNTIL",
    "BEFORE",
    "PENDING",
    "PROVIDED",
    "ASSUMING",
    "CONDITIONAL",
    "EXCEPT",
    "WITHHELD",
    "RETRACTED",
    "REVOKED",
    "WITHDRAWN",
    "REWORK",
    "NEEDS",
    "NEED",
    "MUST",
    "BLOCKED",
    "BROKEN",
    "MISSING",
    "ONLY",
    "ALMOST",
    "NEARLY",
    "PARTIALLY",
    "TBD",
    "TODO",
    "WOULD",
    "COULD",
    "INSTEAD",
    "WITHOUT",
    "BUT",
];

/// What a PASS may well be without.
const FAULTS: [&str; 24] = [
    "ISSUE",
    "ISSUES",
    "PROBLEM",
    "PROBLEMS",
    "REGRESSION",
    "REGRESSIONS",
    "BLOCKER",
    "BLOCKERS",
    "FINDING",
    "FINDINGS",
    "CONCERN",
    "CONCERNS",
    "FAILURE",
    "FAILURES",
    "ERROR",
    "ERRORS",
    "BUG",
    "BUGS",
    "DEFECTS",
    "GAPS",
    "NITS",
    "OBJECTIONS",
    "CHANGES",
    "FAILED",
];

/// Tells whether words limit a PASS. That it is without faults is no limit: `no blocking issues`, `nothing failed`.
pub(super) fn limits(text: &str) -> bool {
    if text.contains(['?', '❌', '✗', '…']) || text.contains("...") {
        return true;
    }
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_uppercase).collect();
    let mut at = 0;
    while at < words.len() {
        let without = matches!(words[at].as_str(), "NO" | "NOT" | "NOTHING" | "NONE" | "WITHOUT" | "ZERO");
        let fault = words[at + 1..].iter().take(4).position(|word| FAULTS.contains(&word.as_str()));
        match fault.filter(|_| without) {
            Some(fault) => at += fault + 2,
            None if LIMITS.contains(&words[at].as_str()) => return true,
            None => at += 1,
        }
    }
    false
}

/// Tells what may stand before a verdict.
fn is_decoration(c: char) -> bool {
    c.is_whitespace() || matches!(c, '*' | '_' | '`' | '"' | '\'' | '(' | '[' | '✅' | '✔' | '\u{FE0F}')
}

/// Cuts off the verdict that a text starts with: its words may be joined by `_`, `-` or a blank, in any case.
fn split(text: &str) -> Option<(ReviewResult, &str)> {
    let text = text.trim_start_matches(is_decoration);
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

/// Returns the verdict of a response.
///
/// # Errors
///
/// `MissingReviewMarker` if the grammar requires one and none stands where it counts, or if PASS or nothing stands
/// there and a quoted or unclear verdict is worse: masking a text may never move a reading towards PASS. `VerdictNotAllowed` for a verdict
/// that the mode does not know.
pub fn verdict(response: &Response, grammar: &Grammar) -> Result<Option<ReviewResult>> {
    let found = response.markers.iter().filter_map(|marker| match marker {
        Marker::Review { verdict } => Some(*verdict),
        Marker::TaskStatus { .. } | Marker::Named { .. } => None,
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
    let doubted = response.doubtful_verdict || response.quoted_verdict > Some(ReviewResult::Pass);
    match worst {
        Some(verdict) if verdict != ReviewResult::Pass || !doubted => Ok(Some(verdict)),
        // Where no verdict is known, one in a quote is a piece of text.
        None if !grammar.verdict_required && (grammar.verdicts.is_empty() || !doubted) => Ok(None),
        _ => Err(missing(response, worst)),
    }
}

/// Checks that a response holds the markers that its grammar requires.
///
/// # Errors
///
/// `MissingMarker` naming the first that is missing and its values.
pub fn required_markers(response: &Response, grammar: &Grammar) -> Result<()> {
    for spec in grammar.markers.iter().filter(|spec| spec.required) {
        let found = |marker: &Marker| matches!(marker, Marker::Named { name, .. } if *name == spec.name);
        if !response.markers.iter().any(found) {
            let message = format!("the reply holds no <{}> that can be read", spec.name);
            return Err(Error::new(ErrorKind::MissingMarker, message)
                .with_hint(format!("its values: {}", spec.values.join(", "))));
        }
    }
    Ok(())
}

fn missing(response: &Response, outside: Option<ReviewResult>) -> Error {
    let refused = response.proposals.iter().find(|proposal| proposal.what == "review");
    let message = match (response.quoted_verdict, outside) {
        _ if refused.is_some() && outside.is_none() => {
            format!("the verdict does not count: {}", refused.map_or("", |proposal| proposal.reason.as_str()))
        }
        (Some(quoted), Some(verdict)) => {
            format!("the reply says {verdict}, and {quoted} in a quote, in code or unclearly")
        }
        (Some(quoted), None) => {
            format!("the only verdict, {quoted}, stands in a quote, in code or is not clear")
        }
        (None, _) if response.doubtful_verdict => "the reply holds a <review> that cannot be read".to_owned(),
        (None, _) => "the reply holds no <review> verdict".to_owned(),
    };
    Error::new(ErrorKind::MissingReviewMarker, message)
        .with_hint("a missing verdict is never taken for PASS; ask again, or decide yourself")
}
