//! `<review>` tags: their spans and values.

use std::ops::Range;

use super::tag::{Tag, TagName, TagNames, parse_attributes};
use crate::models::ReviewResult;
use crate::text::invisible::is_invisible;

/// Maximum length of a marker's body: a value, and perhaps a remark.
pub(super) const MAX_MARKER_BYTES: usize = 500;

/// Number of characters at the start of a string that are searched for a verdict.
const MAX_LEAD_CHARS: usize = 80;

/// A `<review>` tag anywhere in the text.
#[derive(Clone, Debug)]
pub(super) struct ReviewTag {
    /// The element with its body, or only the opening tag if it is unclosed.
    pub(super) span: Range<usize>,
    pub(super) value: TagValue,
    /// The attribute `run`; `None` if it is missing or duplicated.
    pub(super) run: Option<String>,
    /// True if there is no attribute other than `run`.
    pub(super) is_plain: bool,
}

/// Value of a `<review>` tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagValue {
    Verdict(ReviewResult),
    /// Several values to choose from, as in instructions: `PASS|NEEDS_REVISION`.
    Choice,
    /// Anything else, with the most severe verdict that it mentions.
    Unreadable(Option<ReviewResult>),
}

/// Finds all `<review>` tags of a reply, including those in code, quotes and thoughts. A tag that
/// prose only mentions, such as "the <review> tag", is skipped.
pub(super) fn find_review_tags(text: &str, names: &TagNames) -> Vec<ReviewTag> {
    let mut tags = Vec::new();
    let mut resume_at = 0;

    for at in memchr::memchr_iter(b'<', text.as_bytes()) {
        if at < resume_at {
            continue;
        }
        let Some(tag) = names
            .read_tag(&text[at..])
            .filter(|tag| tag.name == TagName::Review)
        else {
            continue;
        };

        let read = if tag.closes {
            read_lost_tag(text, at, &tag)
        } else {
            read_tag(text, names, at, &tag)
        };
        if let Some(tag) = read {
            resume_at = tag.span.end;
            tags.push(tag);
        }
    }
    tags
}

fn read_tag(text: &str, names: &TagNames, at: usize, opener: &Tag<'_>) -> Option<ReviewTag> {
    let body_start = at + opener.length;
    let read = parse_attributes(opener.attributes);
    let run = read
        .as_ref()
        .and_then(|read| read.get("run"))
        .map(str::to_owned);
    let is_plain = read.is_some_and(|read| read.pairs.len() == usize::from(run.is_some()));

    let body_length = if opener.empty {
        None
    } else {
        marker_body_length(text, names, opener, body_start)
    };
    let Some(length) = body_length else {
        let after = &text[body_start..];
        // The end of a broken opening tag is unknown, so the verdict may be inside or after it.
        let is_broken = opener.empty || !opener.complete;
        let in_tag = named_verdict(opener.attributes).filter(|_| is_broken);
        let after_tag = || leading_verdict(after_bracket(after)).filter(|_| !opener.complete);
        let named = leading_verdict(after).or(in_tag).or_else(after_tag);

        let is_meant = named.is_some() || is_start_of_verdict(after);
        let value = TagValue::Unreadable(named);
        return is_meant.then_some(ReviewTag {
            span: at..body_start,
            value,
            run,
            is_plain,
        });
    };

    let body = &text[body_start..body_start + length];
    let closer = names
        .read_tag(&text[body_start + length..])
        .map_or(0, |tag| tag.length);
    let value = match read_value(body) {
        // A more severe verdict in an attribute contradicts the body.
        TagValue::Verdict(ReviewResult::Pass) => match named_verdict(opener.attributes) {
            Some(named) if named > ReviewResult::Pass => TagValue::Unreadable(Some(named)),
            _ => TagValue::Verdict(ReviewResult::Pass),
        },
        other => other,
    };
    Some(ReviewTag {
        span: at..body_start + length + closer,
        value,
        run,
        is_plain,
    })
}

/// Reads a closing tag whose opening tag is missing or broken. The verdict precedes it.
fn read_lost_tag(text: &str, at: usize, closer: &Tag<'_>) -> Option<ReviewTag> {
    let start = text.floor_char_boundary(at.saturating_sub(MAX_LEAD_CHARS));
    let before = text[start..at].rsplit('\n').next().unwrap_or_default();
    let named = named_verdict(before).filter(|verdict| *verdict > ReviewResult::Pass)?;
    let value = TagValue::Unreadable(Some(named));
    Some(ReviewTag {
        span: at..at + closer.length,
        value,
        run: None,
        is_plain: false,
    })
}

/// Returns the text after the next `>`, where the body of a broken opening tag may start.
fn after_bracket(text: &str) -> &str {
    let near = &text[..text.floor_char_boundary(MAX_MARKER_BYTES)];
    near.find('>').map_or("", |at| &text[at + 1..])
}

/// Returns the length of a marker's body. The next tag of the same name must close the marker; `None`
/// if that tag opens another marker, or if there is none within the maximum length.
pub(super) fn marker_body_length(
    text: &str,
    names: &TagNames,
    opener: &Tag<'_>,
    start: usize,
) -> Option<usize> {
    if !opener.complete {
        return None;
    }

    let near = &text.as_bytes()[start..text.len().min(start + MAX_MARKER_BYTES)];
    let same_name = |at: usize| {
        let tag = names
            .read_tag(text.get(start + at..)?)
            .filter(|tag| tag.name == opener.name)?;
        Some((at, tag.closes && tag.complete))
    };
    let (at, closes) = memchr::memchr_iter(b'<', near).find_map(same_name)?;
    closes.then_some(at)
}

/// Reads the body of a `<review>` tag.
///
/// `PASS` may be formatted or decorated (`**PASS**`, `✅ PASS!`), but nothing may be added to it. Anything more severe
/// may be followed by a remark: `NEEDS_CHANGES (line 12 leaks)`.
pub(super) fn read_value(body: &str) -> TagValue {
    let exact = body.trim().trim_matches(is_formatting).trim();
    if let Some((verdict, "")) = split_verdict(exact) {
        return TagValue::Verdict(verdict);
    }
    if is_choice(body) {
        return TagValue::Choice;
    }
    let words = without_tags(body);
    match leading_verdict(&words) {
        Some(verdict) if verdict > ReviewResult::Pass => TagValue::Verdict(verdict),
        _ => TagValue::Unreadable(named_verdict(&words)),
    }
}

/// Returns true for formatting and decoration that may surround a verdict.
pub(super) fn is_formatting(c: char) -> bool {
    is_quotation_mark(c)
        || c.is_whitespace()
        || is_invisible(c)
        || matches!(
            c,
            '*' | '_' | '!' | '.' | '✅' | '✔' | '✓' | '☑' | '👍' | '🎉' | '\u{FE0F}'
        )
}

/// Returns true for backticks and quotation marks.
pub(super) fn is_quotation_mark(c: char) -> bool {
    matches!(
        c,
        '`' | '"' | '\'' | '“' | '”' | '„' | '‘' | '’' | '«' | '»' | '‹' | '›'
    )
}

/// Returns the verdict at the start of a string, and the rest. The words of a verdict may be joined by
/// `_`, `-` or a space, and may be in upper or lower case.
pub(super) fn split_verdict(text: &str) -> Option<(ReviewResult, &str)> {
    ReviewResult::ALL.into_iter().find_map(|verdict| {
        let name = verdict.name();
        let head = text.get(..name.len())?;
        let is_same = head.bytes().zip(name.bytes()).all(|(a, b)| match b {
            b'_' => matches!(a, b'_' | b'-' | b' '),
            _ => a.eq_ignore_ascii_case(&b),
        });
        let rest = &text[head.len()..];
        (is_same && !rest.starts_with(|c: char| c.is_alphanumeric())).then_some((verdict, rest))
    })
}

/// Returns the verdict that a string starts with, whatever follows.
pub(super) fn leading_verdict(text: &str) -> Option<ReviewResult> {
    let near: String = text
        .chars()
        .take(MAX_LEAD_CHARS)
        .filter(|c| !is_invisible(*c))
        .collect();
    let near = near.split_whitespace().collect::<Vec<_>>().join(" ");

    let start = near.trim_start_matches(|c: char| !c.is_alphanumeric());
    let label = start
        .get(.."verdict".len())
        .filter(|label| label.eq_ignore_ascii_case("verdict"));
    let start = label.map_or(start, |label| {
        start[label.len()..].trim_start_matches(|c: char| !c.is_alphanumeric())
    });
    split_verdict(start).map(|(verdict, _)| verdict)
}

/// Returns the most severe verdict that `text` mentions.
pub(super) fn named_verdict(text: &str) -> Option<ReviewResult> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let names = |verdict: &ReviewResult| match verdict.name().split_once('_') {
        Some((first, second)) => words
            .windows(2)
            .any(|pair| is_word(pair[0], first) && is_word(pair[1], second)),
        None => words.iter().any(|word| is_word(word, verdict.name())),
    };
    ReviewResult::ALL.into_iter().filter(names).max()
}

fn is_word(word: &str, capitals: &str) -> bool {
    word.eq_ignore_ascii_case(capitals) || (!word.is_ascii() && word.to_uppercase() == capitals)
}

/// Returns true if a string is a choice between PASS and other verdicts: `PASS|NEEDS_REVISION`, `PASS
/// or REJECTED`, `PASS/…`.
fn is_choice(text: &str) -> bool {
    let parts: Vec<&str> = text
        .split(['|', '/'])
        .flat_map(|part| part.split(" or "))
        .collect();
    let value = |part: &str| {
        let part = part
            .trim_matches(|c: char| is_formatting(c) || matches!(c, '(' | ')' | '[' | ']' | '…'));
        if part.is_empty() {
            Some(None)
        } else {
            split_verdict(part)
                .filter(|(_, rest)| rest.is_empty())
                .map(|(verdict, _)| Some(verdict))
        }
    };

    let values: Option<Vec<_>> = parts.iter().map(|part| value(part)).collect();
    parts.len() > 1 && values.is_some_and(|values| values.contains(&Some(ReviewResult::Pass)))
}

/// Returns true if a string at the end of the reply may start a verdict.
fn is_start_of_verdict(text: &str) -> bool {
    let text = text.trim_start();
    let is_letter = |b: &u8| b.is_ascii_alphabetic() || *b == b'_';
    let length = text
        .bytes()
        .take(MAX_MARKER_BYTES)
        .take_while(is_letter)
        .count();

    let (word, rest) = text.split_at(length);
    let starts = |name: &str| {
        name.get(..length)
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    rest.trim().is_empty()
        && ReviewResult::ALL
            .iter()
            .any(|verdict| starts(verdict.name()))
}

/// Removes tags and comments, such as `<b>`.
fn without_tags(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        let end = if after.starts_with("!--") { "-->" } else { ">" };
        rest = after.split_once(end).map_or("", |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ReviewResult::{MajorIssues, NeedsChanges, NeedsRevision, Pass, Rejected};

    #[test]
    fn pass_may_be_formatted_and_nothing_may_be_added() {
        for body in [
            "PASS",
            " pass\n",
            "**PASS**",
            "✅ PASS",
            "PASS!",
            "`PASS`",
            "PASS 👍",
            "\"PASS\".",
        ] {
            assert_eq!(read_value(body), TagValue::Verdict(Pass), "{body}");
        }
        for body in [
            "PASS - fine",
            "PASS ⛔",
            "PASS ✘",
            "PASS (void)",
            "not PASS",
            "PASSED",
            "COMPASS",
            "PASS\u{20E0}",
            "ＰＡＳＳ",
            "PASS?",
            "~~PASS~~",
            "<b>PASS</b>",
            "",
            "TRUE",
            "PASS = false",
        ] {
            assert_eq!(
                read_value(body),
                TagValue::Unreadable(named_verdict(body)),
                "{body}"
            );
        }
    }

    #[test]
    fn a_severer_verdict_may_have_a_remark() {
        for (body, verdict) in [
            ("NEEDS_CHANGES", NeedsChanges),
            ("needs changes", NeedsChanges),
            ("**Needs-Revision**.", NeedsRevision),
            ("NEEDS_CHANGES (not PASS yet)", NeedsChanges),
            ("MAJOR_ISSUES: the key is logged", MajorIssues),
            ("<b>REJECTED</b>", Rejected),
            ("❌ NEEDS_CHANGES", NeedsChanges),
            ("⚠️ **Needs changes**", NeedsChanges),
            ("Verdict: NEEDS_CHANGES", NeedsChanges),
            ("NEEDS_CHANGES or MAJOR_ISSUES", NeedsChanges),
            ("NEEDS_CHANGES/", NeedsChanges),
        ] {
            assert_eq!(read_value(body), TagValue::Verdict(verdict), "{body}");
        }
    }

    #[test]
    fn a_choice_is_no_verdict() {
        for body in [
            "PASS|NEEDS_REVISION",
            "PASS | REJECTED",
            "PASS or NEEDS_CHANGES",
            "PASS/…",
            "(PASS|REJECTED)",
        ] {
            assert_eq!(read_value(body), TagValue::Choice, "{body}");
        }
        assert_eq!(
            read_value("PASS, but NEEDS_CHANGES"),
            TagValue::Unreadable(Some(NeedsChanges))
        );
    }
}
