//! FailureRules told apart by what an agent says of them.

use super::overflow::overflow;
use crate::config::{FailureRules, FailureSource, OutcomeRule};
use crate::models::CallOutcome;

/// The longest text that tells when there is more.
const LONGEST_RESET: usize = 60;

/// Returns what a failure is by the first rule that fits.
pub(super) fn tell<'a>(
    mut rules: impl Iterator<Item = &'a OutcomeRule>,
    failures: &FailureRules,
    error: &str,
    stderr: &str,
    code: Option<i32>,
) -> Option<CallOutcome> {
    let places = [
        (FailureSource::Error, plain(error)),
        (FailureSource::Stderr, plain(stderr)),
    ];
    let rule = rules.find(|rule| {
        let said = rule.contains.is_empty()
            || places
                .iter()
                .any(|(place, text)| rule.places.contains(place) && says(rule, text));
        said && (rule.exit_codes.is_empty()
            || code.is_some_and(|code| rule.exit_codes.contains(&code)))
    })?;
    Some(match &rule.end {
        CallOutcome::Quota { .. } => CallOutcome::Quota {
            resets: reset(&failures.resets, &[error, stderr]),
        },
        CallOutcome::RateLimited { .. } => {
            let texts = places.iter().map(|(_, text)| text);
            let mut waits = texts.filter_map(|text| wait(&failures.retry_after, text));
            CallOutcome::RateLimited {
                retry_after: waits.next(),
            }
        }
        CallOutcome::TooLarge { .. } => {
            let lines = [error, stderr].into_iter().flat_map(str::lines);
            let (tokens, limit) = lines
                .filter(|line| says(rule, &plain(line)))
                .find_map(overflow)
                .unzip();
            CallOutcome::TooLarge { tokens, limit }
        }
        without_details => without_details.clone(),
    })
}

/// Tells whether one of a rule's words stands in a plain text.
fn says(rule: &OutcomeRule, text: &str) -> bool {
    rule.contains
        .iter()
        .any(|words| !found(text, &plain(words)).is_empty())
}

/// Returns a text in small letters, in which quotes, colons and the like are blanks and blanks are one each, so that
/// `"code": 429` and `code:429` are the same words.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        let c = if c.is_whitespace() || "\"'`\\:=".contains(c) {
            ' '
        } else {
            c.to_ascii_lowercase()
        };
        if c != ' ' || !plain.ends_with(' ') {
            plain.push(c);
        }
    }
    plain.trim().to_owned()
}

/// Returns where words stand in a text as whole words: the place after each.
fn found(text: &str, words: &str) -> Vec<usize> {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let joins = |outer: Option<char>, inner: Option<char>| part(outer) && part(inner);
    text.match_indices(words)
        .map(|(at, _)| (at, at + words.len()))
        .filter(|&(at, end)| {
            !joins(text[..at].chars().next_back(), words.chars().next())
                && !joins(text[end..].chars().next(), words.chars().next_back())
        })
        .map(|(_, end)| end)
        .collect()
}

/// Returns how many seconds to wait, as a text says it last.
fn wait(leads: &[String], text: &str) -> Option<u64> {
    let mut places: Vec<usize> = leads
        .iter()
        .flat_map(|lead| found(text, &plain(lead)))
        .collect();
    places.sort_unstable();
    places
        .into_iter()
        .rev()
        .find_map(|at| duration(text[at..].trim_start()))
}

/// Returns the seconds of a duration that a text starts with, such as `30`, `2.5s`, `1m30s` or `2 hours 5 minutes`.
fn duration(text: &str) -> Option<u64> {
    let (mut seconds, mut rest, mut is_one) = (0.0, text, false);
    loop {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else {
            break;
        };
        let after = rest[digits..].trim_start();
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let unit = match &after[..letters] {
            "ms" | "millis" | "milliseconds" => 0.001,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => 1.0,
        };
        seconds += number * unit;
        is_one = true;
        rest = after[letters..].trim_start();
    }
    is_one.then_some(seconds.ceil() as u64)
}

/// Returns when there is more, as the texts say it.
fn reset(leads: &[String], texts: &[&str]) -> Option<String> {
    texts.iter().find_map(|text| {
        let lower = text.to_ascii_lowercase();
        let places = leads
            .iter()
            .flat_map(|lead| found(&lower, lead).into_iter().map(move |end| (end, lead)));
        // Of the words that stand first, the longest.
        let (end, lead) =
            places.min_by_key(|(end, lead)| (end - lead.len(), usize::MAX - lead.len()))?;
        let rest = text[end..].trim_start_matches([' ', ':', '=', '"', '\'']);
        let line = rest.split(['\n', '"', '|', '}']).next().unwrap_or_default();
        let line = line.split(". ").next().unwrap_or_default();
        let said = line[..line.floor_char_boundary(LONGEST_RESET)]
            .trim()
            .trim_end_matches(['.', ',']);
        let is_span = lead.ends_with(" in");
        (!said.is_empty()).then(|| {
            if is_span {
                format!("in {said}")
            } else {
                said.to_owned()
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_words() {
        for (text, words, times) in [
            ("status: 429", "status 429", 1),
            ("{\"code\":429}", "code: 429", 1),
            ("at chunk.js:311429:19", "429", 0),
            ("rate_limit_error", "rate_limit", 0),
            ("(429)", "(429)", 1),
            ("a RATE\n limit, a rate limit", "rate limit", 2),
        ] {
            assert_eq!(found(&plain(text), &plain(words)).len(), times, "{text}");
        }
    }

    #[test]
    fn waits_are_read_in_every_usual_form() {
        let leads = ["retry-after", "try again in", "retryDelay"].map(str::to_owned);
        for (text, seconds) in [
            ("Retry-After: 30", Some(30)),
            ("retry-after=1", Some(1)),
            ("Please try again in 1.2s.", Some(2)),
            ("try again in 500ms", Some(1)),
            ("try again in 1m30s", Some(90)),
            ("try again in 2 hours 5 minutes.", Some(7_500)),
            ("\"retryDelay\": \"54s\"", Some(54)),
            ("retry-after: 5, then retry-after: 7", Some(7)),
            ("Retry-After: Wed, 21 Oct", None),
            ("try again later", None),
        ] {
            assert_eq!(wait(&leads, &plain(text)), seconds, "{text}");
        }
    }

    #[test]
    fn resets_are_told_as_the_agent_says_them() {
        let leads = ["resets", "resets at", "reset at", "try again in"].map(str::to_owned);
        for (text, when) in [
            (
                "Your limit will reset at 3pm (America/New_York).",
                Some("3pm (America/New_York)"),
            ),
            ("limit reached, resets at 10:30. Upgrade now", Some("10:30")),
            (
                "{\"resets\": \"2026-01-01T00:00:00Z\"}",
                Some("2026-01-01T00:00:00Z"),
            ),
            ("Try again in 3 days 4 hours.", Some("in 3 days 4 hours")),
            ("no more", None),
        ] {
            assert_eq!(reset(&leads, &[text]).as_deref(), when, "{text}");
        }
    }
}
