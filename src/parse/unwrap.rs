//! Removes wrappers that are not part of a reply's content, such as a code fence around all of it.

use std::ops::Range;

use super::dialects;
use super::source_map::SourceText;
use crate::models::{Problem, ProblemCode};
use crate::text::markdown::{Fence, FenceRules};
use crate::text::terminal::find_escape_sequences;

/// Minimum length of a reply that is recognized as sent twice.
const MIN_REPEATED_BYTES: usize = 40;

const BYTE_ORDER_MARK: char = '\u{FEFF}';

/// Removes a byte order mark, terminal escape sequences, a second copy of the reply, and a code
/// fence around all of it. Rewrites lone carriage returns and channel marks.
pub(super) fn unwrap_reply<'a>(
    source: SourceText<'a>,
    problems: &mut Vec<Problem>,
) -> SourceText<'a> {
    let text: &str = &source.text;
    let mut cuts: Vec<Range<usize>> = Vec::new();
    if text.starts_with(BYTE_ORDER_MARK) {
        cuts.push(0..BYTE_ORDER_MARK.len_utf8());
    }

    let escapes = find_escape_sequences(text);
    if let (Some(first), Some(last)) = (escapes.first(), escapes.last()) {
        problems.push(Problem::new(
            ProblemCode::EscapeSequences,
            source.raw_span(&(first.start..last.end)),
        ));
    }
    cuts.extend(escapes);

    let source = if cuts.is_empty() {
        source
    } else {
        source.remove_spans(&cuts)
    };

    let returns = find_lone_returns(&source.text);
    let source = if returns.is_empty() {
        source
    } else {
        source.replace_spans(&returns)
    };

    let source = match find_repeated_half(&source.text) {
        Some(half) => {
            problems.push(Problem::new(
                ProblemCode::RepeatedReply,
                source.raw_span(&half),
            ));
            source.remove_spans(&[half])
        }
        None => source,
    };

    if let Some(converted) = dialects::convert_harmony(&source) {
        problems.push(Problem::new(
            ProblemCode::Harmony,
            source.raw_span(&(0..source.text.len())),
        ));
        return converted;
    }

    match find_enclosing_fence(&source.text) {
        Some(inside) => {
            problems.push(Problem::new(
                ProblemCode::FencedReply,
                source.raw_span(&(0..source.text.len())),
            ));
            source.remove_spans(&[0..inside.start, inside.end..source.text.len()])
        }
        None => source,
    }
}

/// Returns the carriage returns without a line feed, each with a line feed as its replacement.
fn find_lone_returns(text: &str) -> Vec<(Range<usize>, &'static str)> {
    let bytes = text.as_bytes();
    let is_lone = |at: &usize| bytes.get(at + 1) != Some(&b'\n');
    memchr::memchr_iter(b'\r', bytes)
        .filter(is_lone)
        .map(|at| (at..at + 1, "\n"))
        .collect()
}

/// Returns the second half of a reply if it repeats the first half. Up to two white-space characters
/// may separate them.
fn find_repeated_half(text: &str) -> Option<Range<usize>> {
    let trimmed = text.trim();
    let start = text.len() - text.trim_start().len();
    if trimmed.len() < 2 * MIN_REPEATED_BYTES {
        return None;
    }

    let half = (0..3).find_map(|separators| {
        let length = (trimmed.len() - separators) / 2;
        let same = trimmed.is_char_boundary(length)
            && trimmed.is_char_boundary(trimmed.len() - length)
            && trimmed[..length] == trimmed[trimmed.len() - length..]
            && trimmed[length..trimmed.len() - length].trim().is_empty();
        same.then_some(length)
    })?;
    // Prose may repeat itself, so only a reply with tags is treated as sent twice.
    trimmed[..half]
        .contains("</")
        .then_some(start + half..text.len())
}

/// Returns the span of the content of a fence that encloses the entire reply.
fn find_enclosing_fence(reply: &str) -> Option<Range<usize>> {
    let trimmed = reply.trim();
    let (first, rest) = trimmed.split_once('\n')?;
    let fence = Fence::open(first, FenceRules::Reply).filter(|_| first.starts_with(['`', '~']))?;

    // Agents put these labels on a fence around a whole reply. Any other label, such as `rust`, marks quoted code.
    let language = first
        .trim_start_matches(['`', '~'])
        .trim()
        .to_ascii_lowercase();
    let reply_languages = [
        "",
        "xml",
        "html",
        "json",
        "yaml",
        "yml",
        "python",
        "text",
        "txt",
        "plaintext",
        "markdown",
        "md",
    ];
    if !reply_languages.contains(&language.as_str()) {
        return None;
    }

    let (inside, last) = rest.rsplit_once('\n')?;
    let start = reply.len() - reply.trim_start().len() + first.len() + 1;
    let is_only_fence =
        fence.is_closed_by(last) && !inside.lines().any(|line| fence.is_closed_by(line));
    is_only_fence.then_some(start..start + inside.len())
}

/// Returns true if the text starts with an opening tag and ends with a closing tag of the same name.
pub(super) fn is_wrapped_in_element(text: &str) -> bool {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('<') else {
        return false;
    };
    let length = inner
        .bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
        .count();
    length > 0 && text.ends_with(&format!("</{}>", &inner[..length]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_around_the_whole_reply_is_taken_off_unless_it_names_another_language() {
        let inside = |reply: &'static str| find_enclosing_fence(reply).map(|span| &reply[span]);

        assert_eq!(inside("```\na\nb\n```\n"), Some("a\nb"));
        assert_eq!(inside("\n~~~~xml\na\n~~~~"), Some("a"));
        assert_eq!(inside("```rust\nfn main() {}\n```"), None, "code");
        assert_eq!(inside("```\na\n```\nand prose"), None, "prose follows");
        assert_eq!(inside("```\na\n```\n```\nb\n```"), None, "two fences");
        assert_eq!(inside("```\na"), None, "not closed");
    }

    #[test]
    fn a_reply_that_was_sent_twice_is_read_once() {
        let once = "<message>A reply that is long enough to be compared.</message>";
        let half = |reply: &str| find_repeated_half(reply).map(|span| span.start);

        assert_eq!(half(&format!("{once}{once}")), Some(once.len()));
        assert_eq!(half(&format!("{once}\n{once}\n")), Some(once.len()));
        assert_eq!(half(&format!("{once} and {once}")), None);
        let prose = "He said that it was late, and that it was cold outside. ";
        assert_eq!(half(&prose.repeat(2)), None, "prose may repeat itself");
        assert_eq!(half("<a></a><a></a>"), None, "too short to be sure");
    }

    #[test]
    fn only_carriage_returns_without_a_line_feed_end_a_line() {
        assert_eq!(
            find_lone_returns("a\rb\r\nc\r"),
            [(1..2, "\n"), (6..7, "\n")]
        );
    }
}
