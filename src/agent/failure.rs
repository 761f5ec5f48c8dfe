//! Classifies failed calls by the agent's error messages.

use super::token_limit_error::parse_token_limit;
use crate::config::{FailureRules, FailureSource, OutcomeRule};
use crate::models::CallOutcome;

/// Maximum length of the text about the reset of a quota.
const MAX_RESET_BYTES: usize = 60;

/// Returns the outcome of a failed call according to the first rule that matches; `None` if no rule does.
pub(super) fn classify_failure<'a>(
    mut rules: impl Iterator<Item = &'a OutcomeRule>,
    failures: &FailureRules,
    error: &str,
    stderr: &str,
    code: Option<i32>,
) -> Option<CallOutcome> {
    let sources = [
        (FailureSource::Error, normalize(error)),
        (FailureSource::Stderr, normalize(stderr)),
    ];
    let rule = rules.find(|rule| {
        let has_phrase = rule.contains.is_empty()
            || sources
                .iter()
                .any(|(source, text)| rule.places.contains(source) && has_phrase_of(rule, text));
        let has_exit_code =
            rule.exit_codes.is_empty() || code.is_some_and(|code| rule.exit_codes.contains(&code));
        has_phrase && has_exit_code
    })?;

    Some(match &rule.end {
        CallOutcome::Quota { .. } => CallOutcome::Quota {
            resets: find_reset(&failures.resets, &[error, stderr]),
        },
        CallOutcome::RateLimited { .. } => CallOutcome::RateLimited {
            retry_after: sources
                .iter()
                .find_map(|(_, text)| find_retry_after(&failures.retry_after, text)),
        },
        CallOutcome::TooLarge { .. } => {
            let lines = [error, stderr].into_iter().flat_map(str::lines);
            let (tokens, limit) = lines
                .filter(|line| has_phrase_of(rule, &normalize(line)))
                .find_map(parse_token_limit)
                .unzip();
            CallOutcome::TooLarge { tokens, limit }
        }
        without_details => without_details.clone(),
    })
}

/// Returns true if normalized text contains one of a rule's phrases.
fn has_phrase_of(rule: &OutcomeRule, text: &str) -> bool {
    rule.contains
        .iter()
        .any(|phrase| !find_phrase(text, &normalize(phrase)).is_empty())
}

/// Converts `text` to lower case, and each run of whitespace, quotes, backslashes, `:` and `=` to one space, so that
/// `"code": 429` and `code:429` are the same.
fn normalize(text: &str) -> String {
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

/// Returns the end offset of each occurrence of a phrase as whole words.
fn find_phrase(text: &str, phrase: &str) -> Vec<usize> {
    let is_word_char = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let is_inside_word =
        |outer: Option<char>, inner: Option<char>| is_word_char(outer) && is_word_char(inner);
    text.match_indices(phrase)
        .map(|(at, _)| (at, at + phrase.len()))
        .filter(|&(at, end)| {
            !is_inside_word(text[..at].chars().next_back(), phrase.chars().next())
                && !is_inside_word(text[end..].chars().next(), phrase.chars().next_back())
        })
        .map(|(_, end)| end)
        .collect()
}

/// Returns the seconds to wait: the last duration in normalized text that follows one of the phrases.
fn find_retry_after(phrases: &[String], text: &str) -> Option<u64> {
    let mut ends: Vec<usize> = phrases
        .iter()
        .flat_map(|phrase| find_phrase(text, &normalize(phrase)))
        .collect();
    ends.sort_unstable();
    ends.into_iter()
        .rev()
        .find_map(|end| parse_duration(text[end..].trim_start()))
}

/// Returns the seconds, rounded up, of a duration at the start of `text`, such as `30`, `2.5s`, `1m30s` or
/// `2 hours 5 minutes`.
fn parse_duration(text: &str) -> Option<u64> {
    let mut seconds = 0.0;
    let mut has_number = false;
    let mut rest = text;
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
        has_number = true;
        rest = after[letters..].trim_start();
    }
    has_number.then_some(seconds.ceil() as u64)
}

/// Returns the time at which a quota is reset, as worded in the first text that contains one.
fn find_reset(phrases: &[String], texts: &[&str]) -> Option<String> {
    texts
        .iter()
        .find_map(|text| find_reset_in_text(phrases, text))
}

fn find_reset_in_text(phrases: &[String], text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let occurrences = phrases.iter().flat_map(|phrase| {
        find_phrase(&lower, phrase)
            .into_iter()
            .map(move |end| (end, phrase))
    });
    // The first occurrence is used; if several phrases start there, the longest one.
    let (end, phrase) =
        occurrences.min_by_key(|(end, phrase)| (end - phrase.len(), usize::MAX - phrase.len()))?;

    let rest = text[end..].trim_start_matches([' ', ':', '=', '"', '\'']);
    let line = rest.split(['\n', '"', '|', '}']).next().unwrap_or_default();
    let sentence = line.split(". ").next().unwrap_or_default();
    let time = sentence[..sentence.floor_char_boundary(MAX_RESET_BYTES)]
        .trim()
        .trim_end_matches(['.', ',']);

    if time.is_empty() {
        return None;
    }
    let is_duration = phrase.ends_with(" in");
    Some(if is_duration {
        format!("in {time}")
    } else {
        time.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_match_whole_words() {
        for (text, phrase, times) in [
            ("status: 429", "status 429", 1),
            ("{\"code\":429}", "code: 429", 1),
            ("at chunk.js:311429:19", "429", 0),
            ("rate_limit_error", "rate_limit", 0),
            ("(429)", "(429)", 1),
            ("a RATE\n limit, a rate limit", "rate limit", 2),
        ] {
            assert_eq!(
                find_phrase(&normalize(text), &normalize(phrase)).len(),
                times,
                "{text}"
            );
        }
    }

    #[test]
    fn retry_delays_are_parsed_in_common_forms() {
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
            assert_eq!(
                find_retry_after(&leads, &normalize(text)),
                seconds,
                "{text}"
            );
        }
    }

    #[test]
    fn reset_times_keep_the_wording_of_the_agent() {
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
            assert_eq!(find_reset(&leads, &[text]).as_deref(), when, "{text}");
        }
    }
}
