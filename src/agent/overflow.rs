//! How many tokens a prompt has and how many are taken, read from what is said of a prompt that is too large.

use std::collections::BTreeSet;

/// The least that a window is: smaller numbers speak of something else.
const LEAST: u64 = 256;

/// A number of a text, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Number {
    value: u64,
    from: usize,
    to: usize,
}

/// Returns the tokens of a prompt and the most that are taken, if a text tells both.
pub(super) fn overflow(text: &str) -> Option<(u64, u64)> {
    let numbers = numbers(text);
    compared(text, &numbers).or_else(|| {
        let large: BTreeSet<u64> = numbers.iter().map(|number| number.value).collect();
        let mut large = large.into_iter().rev().filter(|value| *value >= LEAST);
        Some((large.next()?, large.next()?))
    })
}

/// Returns both sides of a comparison such as `208310 tokens > 200000` or `190000 + 20000 > 200000`.
fn compared(text: &str, numbers: &[Number]) -> Option<(u64, u64)> {
    let between = |a: &Number, b: &Number| text[a.to..b.from].trim();
    let at = numbers
        .windows(2)
        .position(|pair| between(&pair[0], &pair[1]).ends_with('>'))?;
    let [left, right] = [numbers[at], numbers[at + 1]];
    let more = at
        .checked_sub(1)
        .map(|at| numbers[at])
        .filter(|more| between(more, &left) == "+");
    let tokens = left.value.saturating_add(more.map_or(0, |more| more.value));
    (tokens > right.value && right.value >= LEAST).then_some((tokens, right.value))
}

/// Returns the numbers of a text that may count tokens: no parts of names or of a sum, no statuses, no bytes.
fn numbers(text: &str) -> Vec<Number> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(from) = text[at..]
        .find(|c: char| c.is_ascii_digit())
        .map(|from| at + from)
    {
        let to = end_of(text, from);
        at = to;
        let digits: String = text[from..to]
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        if let Ok(value) = digits.parse()
            && stands_alone(text, from, to)
            && counts_tokens(text, from, to)
        {
            found.push(Number { value, from, to });
        }
    }
    found
}

/// Returns where a number ends, its thousands being set apart by commas or not.
fn end_of(text: &str, from: usize) -> usize {
    let digits = |at: usize| text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let mut to = from + digits(from);
    while text[to..].starts_with(',') && digits(to + 1) == 3 {
        to += 4;
    }
    to
}

fn stands_alone(text: &str, from: usize, to: usize) -> bool {
    let mut after = text[to..].chars();
    let (next, second) = (after.next(), after.next());
    let joined = match next {
        Some('-' | '.' | ':' | '/') => second.is_some_and(|c| c.is_ascii_digit()),
        next => next.is_some_and(|c| c.is_alphanumeric() || c == '_'),
    };
    let before = text[..from].chars().next_back();
    !joined && !before.is_some_and(|c| c.is_alphanumeric() || "_-./:#".contains(c))
}

fn counts_tokens(text: &str, from: usize, to: usize) -> bool {
    let is_break = |c: char| !c.is_alphanumeric();
    let before = text[..from].trim_end_matches(is_break);
    let before = before[before.rfind(is_break).map_or(0, |at| at + 1)..].to_ascii_lowercase();
    let after = text[to..].trim_start_matches(' ');
    // As in `5000 tokens (4500 in the messages, 500 in the completion)`.
    if ["in ", "for the completion"]
        .iter()
        .any(|part| after.starts_with(part))
    {
        return false;
    }
    let after = after[..after.find(is_break).unwrap_or(after.len())].to_ascii_lowercase();
    let unit = |word: &str| ["byte", "char"].iter().any(|unit| word.starts_with(unit));
    !unit(&before)
        && !unit(&after)
        && !["status", "code", "error", "http"].contains(&before.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_are_read_in_every_known_form() {
        let openai = "status 400 Bad Request: context_length_exceeded: This model's maximum context length is 8192 tokens. However, your messages resulted in 14031 tokens. Please reduce the length of the messages.";
        let vllm = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the messages, 500 in the completion).";
        for (text, numbers) in [
            (openai, Some((14_031, 8_192))),
            (vllm, Some((5_000, 4_096))),
            (
                "prompt is too long: 208310 tokens > 200000 maximum",
                Some((208_310, 200_000)),
            ),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
                Some((210_000, 200_000)),
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some((1_200_000, 1_048_576)),
            ),
            (
                "request (14031 tokens) exceeds the available context size (8192 tokens), try increasing it",
                Some((14_031, 8_192)),
            ),
            (
                "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
                Some((537_812, 131_072)),
            ),
            (
                "a prompt of 1,200,000 tokens, limit 128,000",
                Some((1_200_000, 128_000)),
            ),
            (
                "an 8192-token window, and 9000 tokens",
                Some((9_000, 8_192)),
            ),
        ] {
            assert_eq!(overflow(text), numbers, "{text}");
        }
    }

    #[test]
    fn other_numbers_are_not_taken_for_tokens() {
        for text in [
            "status 413 Payload Too Large: too large, url: http://127.0.0.1:11434/v1/responses",
            "maximum context length is 8192 tokens",
            "request too large: 40000000 bytes, at most 33554432 bytes",
            "max_chars: 1048576, 2000000 characters",
            "gpt-4-0613 on 2026-11-16 at chunk.js:311457:19, request 1234abc, 3.14159",
            "prompt is too long: 300 > 200",
            "99999999999999999999999999 > 88888888888888888888888888",
            "1,",
            "",
        ] {
            assert_eq!(overflow(text), None, "{text}");
        }
    }
}
