//! Reads the token counts from an error message about a prompt that is too large.

use std::collections::BTreeSet;

/// Minimum size of a context window. Smaller numbers in a message mean something else.
const MIN_WINDOW_TOKENS: u64 = 256;

/// A number in an error message, with its byte range.
#[derive(Clone, Copy, Debug)]
struct NumberSpan {
    value: u64,
    from: usize,
    to: usize,
}

/// Returns the tokens of a prompt and the maximum, if a message contains both.
///
/// A comparison with `>` is unambiguous. Otherwise the two largest numbers that can count tokens are taken, because the
/// prompt is larger than the maximum.
pub(super) fn parse_token_limit(text: &str) -> Option<(u64, u64)> {
    let numbers = find_numbers(text);
    find_comparison(text, &numbers).or_else(|| {
        let values: BTreeSet<u64> = numbers.iter().map(|number| number.value).collect();
        let mut largest = values
            .into_iter()
            .rev()
            .filter(|value| *value >= MIN_WINDOW_TOKENS);
        Some((largest.next()?, largest.next()?))
    })
}

/// Returns both sides of a comparison such as `208310 tokens > 200000` or `190000 + 20000 > 200000`.
fn find_comparison(text: &str, numbers: &[NumberSpan]) -> Option<(u64, u64)> {
    let between = |a: &NumberSpan, b: &NumberSpan| text[a.to..b.from].trim();
    let at = numbers
        .windows(2)
        .position(|pair| between(&pair[0], &pair[1]).ends_with('>'))?;
    let left = numbers[at];
    let right = numbers[at + 1];

    let addend = at
        .checked_sub(1)
        .map(|at| numbers[at])
        .filter(|addend| between(addend, &left) == "+");
    let tokens = left
        .value
        .saturating_add(addend.map_or(0, |addend| addend.value));
    let is_overflow = tokens > right.value && right.value >= MIN_WINDOW_TOKENS;
    is_overflow.then_some((tokens, right.value))
}

/// Returns the numbers in an error message that may count tokens: not parts of names, subtotals, status codes or bytes.
fn find_numbers(text: &str) -> Vec<NumberSpan> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(from) = text[at..]
        .find(|c: char| c.is_ascii_digit())
        .map(|from| at + from)
    {
        let to = number_end(text, from);
        at = to;

        let digits: String = text[from..to]
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        if let Ok(value) = digits.parse()
            && is_separate_word(text, from, to)
            && counts_tokens(text, from, to)
        {
            found.push(NumberSpan { value, from, to });
        }
    }
    found
}

/// Returns the offset at which a number ends, with or without commas between thousands.
fn number_end(text: &str, from: usize) -> usize {
    let count_digits = |at: usize| text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let mut to = from + count_digits(from);
    while text[to..].starts_with(',') && count_digits(to + 1) == 3 {
        to += 4;
    }
    to
}

/// Returns true if a number is not part of a name, a date, a version or an address.
fn is_separate_word(text: &str, from: usize, to: usize) -> bool {
    let mut after = text[to..].chars();
    let next = after.next();
    let second = after.next();
    let is_joined = match next {
        Some('-' | '.' | ':' | '/') => second.is_some_and(|c| c.is_ascii_digit()),
        next => next.is_some_and(|c| c.is_alphanumeric() || c == '_'),
    };

    let before = text[..from].chars().next_back();
    !is_joined && !before.is_some_and(|c| c.is_alphanumeric() || "_-./:#".contains(c))
}

/// Returns false if the words around a number show that it counts something other than tokens, or only a subtotal.
fn counts_tokens(text: &str, from: usize, to: usize) -> bool {
    let after = text[to..].trim_start_matches(' ');
    // Subtotals, as in `5000 tokens (4500 in the messages, 500 in the completion)`.
    if ["in ", "for the completion"]
        .iter()
        .any(|start| after.starts_with(start))
    {
        return false;
    }

    let is_break = |c: char| !c.is_alphanumeric();
    let before = text[..from].trim_end_matches(is_break);
    let previous_start = before.rfind(is_break).map_or(0, |at| at + 1);
    let previous_word = before[previous_start..].to_ascii_lowercase();
    let next_end = after.find(is_break).unwrap_or(after.len());
    let next_word = after[..next_end].to_ascii_lowercase();

    let is_unit = |word: &str| ["byte", "char"].iter().any(|unit| word.starts_with(unit));
    !is_unit(&previous_word)
        && !is_unit(&next_word)
        && !["status", "code", "error", "http"].contains(&previous_word.as_str())
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
            assert_eq!(parse_token_limit(text), numbers, "{text}");
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
            assert_eq!(parse_token_limit(text), None, "{text}");
        }
    }
}
