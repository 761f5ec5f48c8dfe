//! Filler lines: placeholders, such as `TBD`, instead of a description.

use super::Fault;
use crate::text::markdown::{LineKind, MarkdownLine};

/// Returns a fault for a filler line: `To be described.`, `TBD`, `…`.
pub(super) fn filler_fault(line: &MarkdownLine<'_>) -> Option<Fault> {
    let is_mark = |c: char| !c.is_alphanumeric() && c != '…' && c != '.';
    let text = line.text.trim_matches(is_mark);
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.trim_matches('.').to_lowercase())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();

    let is_filler = match words.as_slice() {
        ["tbd" | "todo" | "…" | ""] => !text.is_empty(),
        ["to", "be", _] => true,
        _ => false,
    };
    let is_text = line.kind == LineKind::Text && !line.is_blank();

    (is_text && is_filler).then(|| {
        Fault::new(
            line.number,
            format!("`{}` is filler text", line.text.trim()),
        )
        .with_hint("replace it with a description")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::markdown::markdown_lines;

    #[test]
    fn only_lines_that_say_nothing_else_are_fillers() {
        let is_filler = |text| filler_fault(&markdown_lines(text, 1)[0]).is_some();
        for text in [
            "To be described.",
            "TBD",
            "- todo",
            "**To be defined**",
            "…",
            "...",
        ] {
            assert!(is_filler(text), "{text}");
        }
        for text in [
            " ",
            "# TBD",
            "```",
            "The TODO list is empty.",
            "To be or not to be",
        ] {
            assert!(!is_filler(text), "{text}");
        }
    }
}
