//! The verdict line: the line on which a PASS is valid, and the lines that contradict it.

use super::review::{is_formatting, is_quotation_mark, split_verdict};
use crate::models::ReviewResult;

/// Labels that may precede a verdict, in any case.
const LABELS: [&str; 2] = ["verdict", "final verdict"];

/// Maximum number of words in a label before a verdict without a tag: `My final verdict:
/// NEEDS_CHANGES`.
const MAX_LABEL_WORDS: usize = 3;

/// Returns true if a line holds only the tag between `before` and `after`, apart from a label,
/// formatting and decoration. Backticks and quotation marks around the tag are accepted only with
/// `allows_quotes`.
pub(super) fn is_verdict_line(before: &str, after: &str, allows_quotes: bool) -> bool {
    let quotes = |text: &str| text.chars().filter(|c| is_quotation_mark(*c)).count();
    let is_quoted = quotes(before) > 0 || quotes(after) > 0;
    // A mark on one side only belongs to a quotation that spans several lines.
    if quotes(before) % 2 != quotes(after) % 2 || (is_quoted && !allows_quotes) {
        return false;
    }
    is_label_or_blank(without_list_marker(before)) && after.chars().all(is_formatting)
}

/// Returns true if a line is one of [`LABELS`], apart from a list marker, formatting and separators.
pub(super) fn is_label(line: &str) -> bool {
    let label = without_list_marker(line).trim_matches(is_label_formatting);
    LABELS.iter().any(|text| label.eq_ignore_ascii_case(text))
}

fn is_label_or_blank(text: &str) -> bool {
    text.chars().all(is_formatting) || is_label(text)
}

/// Returns true for formatting around a label, and for the separator between a label and a verdict.
fn is_label_formatting(c: char) -> bool {
    is_formatting(c) || matches!(c, ':' | '-' | '–' | '—' | '=')
}

/// Removes the marker of a heading or of a list item.
fn without_list_marker(line: &str) -> &str {
    let line = line.trim_start().trim_start_matches('#').trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = line[digits..]
        .strip_prefix(['.', ')'])
        .filter(|_| digits > 0);
    let item = numbered.or_else(|| line.strip_prefix(['-', '*', '+']));
    item.filter(|item| item.starts_with([' ', '\t']))
        .unwrap_or(line)
}

/// Returns the verdict that a heading or a labelled line states without a tag, such as `#
/// NEEDS_CHANGES` or `Verdict: needs changes`. A sentence that mentions a verdict does not state
/// it.
pub(super) fn stated_verdict(line: &str) -> Option<ReviewResult> {
    let is_heading = line.trim_start().starts_with('#');
    let words = plain_words(line);
    let whole = StatedValue::read(&words);
    let is_item = !is_heading && without_list_marker(line).len() < line.trim_start().len();
    let is_prominent = |value: &StatedValue| is_heading || (value.is_alone && !is_item);
    if let Some(value) = whole.filter(|value| value.in_capitals && is_prominent(value)) {
        return Some(value.verdict);
    }

    if let Some(verdict) = labelled_verdict(&words) {
        return Some(verdict);
    }

    let (label, rest) = words.split_once(':')?;
    let value = StatedValue::read(rest)?;
    let is_label = label.split_whitespace().count() <= MAX_LABEL_WORDS;
    (value.in_capitals && value.is_alone && is_label).then_some(value.verdict)
}

/// Returns the verdict that follows the word "verdict" and a separator: `Verdict: …`, `**Verdict** — …`, `| Verdict | … |`.
fn labelled_verdict(words: &str) -> Option<ReviewResult> {
    let at = words.to_ascii_lowercase().rfind("verdict")?;
    let (label, rest) = words.split_at(at);
    let rest = &rest["verdict".len()..];
    let value = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
    let separator = &rest[..rest.len() - value.len()];
    let is_separated =
        separator.contains([':', '：', '=', '—', '–', '|']) || separator.contains(" - ");
    let is_label = label.split_whitespace().count() <= MAX_LABEL_WORDS;
    let value = StatedValue::read(value)?;
    (is_separated && is_label).then_some(value.verdict)
}

/// A verdict without tags, read from the start of a string.
struct StatedValue {
    verdict: ReviewResult,
    in_capitals: bool,
    /// True if no word follows.
    is_alone: bool,
}

impl StatedValue {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
        let (verdict, rest) = split_verdict(text)?;
        let in_capitals = !text[..text.len() - rest.len()].contains(char::is_lowercase);
        Some(Self {
            verdict,
            in_capitals,
            is_alone: !rest.contains(char::is_alphanumeric),
        })
    }
}

/// Returns a line without tags, entities and formatting.
fn plain_words(line: &str) -> String {
    let line = line
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"");

    let mut out = String::new();
    let mut is_tag = false;

    for c in without_list_marker(&line).chars() {
        match c {
            '<' => is_tag = true,
            '>' if is_tag => is_tag = false,
            '*' | '`' | '#' => {}
            c if !is_tag => out.push(c),
            _ => {}
        }
    }

    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ReviewResult::{MajorIssues, NeedsChanges, Rejected};

    #[test]
    fn a_verdict_line_holds_a_label_and_formatting_only() {
        for (before, after) in [
            ("", ""),
            ("**Verdict:** ", ""),
            ("Final verdict: `", "`"),
            ("### Verdict: ", ""),
            ("- Verdict: ", ""),
            ("3. ", ""),
            ("    ", " ✅"),
            ("\"", "\""),
            ("**", "**!"),
        ] {
            assert!(is_verdict_line(before, after, true), "{before}|{after}");
        }
        for (before, after) in [
            ("Not: ", ""),
            ("Premature: ", ""),
            ("I cannot say ", ""),
            ("> ", ""),
            ("| verdict | ", " |"),
            ("~~", "~~"),
            ("", " - withdrawn"),
            ("\\", ""),
            ("", "`"),
            ("☐ ", ""),
            ("+", ""),
            ("-", ""),
            (": ", ""),
            ("", " 🚫"),
            ("Das ist nicht ", ""),
        ] {
            assert!(!is_verdict_line(before, after, true), "{before}|{after}");
        }
        assert!(!is_verdict_line("`", "`", false) && is_verdict_line("**Verdict:** ", "", false));
    }

    #[test]
    fn headings_and_labels_state_verdicts_and_sentences_do_not() {
        for (line, verdict) in [
            ("# NEEDS_CHANGES", NeedsChanges),
            ("## NEEDS_CHANGES: the key is logged", NeedsChanges),
            ("**Final verdict: MAJOR_ISSUES**", MajorIssues),
            ("Verdict: needs changes", NeedsChanges),
            ("Verdict: NEEDS_CHANGES (line 12 leaks)", NeedsChanges),
            ("☒ NEEDS_CHANGES", NeedsChanges),
            ("<verdict>NEEDS_CHANGES</verdict>", NeedsChanges),
            ("&lt;review&gt;REJECTED&lt;/review&gt;", Rejected),
            ("REJECTED</review>", Rejected),
            ("Overall: REJECTED", Rejected),
            ("**Verdict** — NEEDS_CHANGES", NeedsChanges),
            ("Verdict = NEEDS_CHANGES", NeedsChanges),
            ("Verdict： NEEDS_CHANGES", NeedsChanges),
            ("| Verdict | NEEDS_CHANGES |", NeedsChanges),
            ("Verdict: needs changes, see F1.", NeedsChanges),
            ("Review: verdict: NEEDS_CHANGES", NeedsChanges),
        ] {
            assert_eq!(stated_verdict(line), Some(verdict), "{line}");
        }
        for line in [
            "NEEDS_CHANGES would be too harsh for a typo.",
            "I was close to sending it back: NEEDS_CHANGES would be fair for a larger diff.",
            "## Rejected alternatives",
            "Alternatives considered: rejected",
            "- the reason it was rejected",
            "",
            "# Review",
            "- NEEDS_CHANGES",
            "The verdict NEEDS_CHANGES would be too harsh.",
        ] {
            assert_eq!(stated_verdict(line), None, "{line}");
        }
    }
}
