//! Checks of a proposal.

use super::Fault;
use super::filler::filler_fault;
use super::front_matter::{ProposalFrontMatter, shorten};
use crate::text::front_matter::split_front_matter;
use crate::text::markdown::{LineKind, MarkdownLine, markdown_lines};

/// Returns the faults of a proposal, by line.
#[must_use]
pub fn check_proposal(text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let split = split_front_matter(text);
    if split.is_unclosed {
        faults.push(
            Fault::new(1, "the front matter is not closed").with_hint("end it with a `---` line"),
        );
    }

    if let Some(head) = split.yaml {
        ProposalFrontMatter::check(head, &mut faults);
    }

    let lines = markdown_lines(split.body, split.body_line);
    let is_title = |line: &&MarkdownLine<'_>| matches!(line.kind, LineKind::Heading(1, title) if !title.is_empty());
    let first = lines.iter().find(|line| !line.is_blank());

    match first {
        None => faults.push(Fault::new(split.body_line, "the proposal is empty")),
        Some(first) if !lines.iter().any(|line| is_title(&line)) => {
            faults.push(Fault::new(first.number, "missing `# Title`"));
        }
        Some(first)
            if !lines
                .iter()
                .any(|line| !line.is_blank() && !matches!(line.kind, LineKind::Heading(..))) =>
        {
            faults.push(Fault::new(
                first.number,
                "the proposal has no text below its headings",
            ));
        }
        Some(_) => {}
    }

    for line in lines.iter().filter(|line| !line.is_code()) {
        faults.extend(filler_fault(line));
        if let Some(placeholder) = find_placeholder(line.text) {
            let message = format!("`{}` is still a placeholder", shorten(placeholder));
            let hint = "replace it; if it is a tag of your text, put it in backticks";
            faults.push(Fault::new(line.number, message).with_hint(hint));
        }
    }

    faults.sort_by_key(|fault| fault.line);
    faults
}

/// Returns the first placeholder of a line, such as `<Title>`, outside code spans.
fn find_placeholder(line: &str) -> Option<&str> {
    // Every second segment between backticks is code.
    line.split('`').step_by(2).find_map(|text| {
        let mut before = ' ';
        let mut start = None;
        for (at, c) in text.char_indices() {
            match (c, start) {
                // A type such as `Vec<String>` is not a placeholder.
                ('<', _) => start = (!before.is_alphanumeric()).then_some(at),
                ('>', Some(start)) if is_placeholder(&text[start + 1..at]) => {
                    return Some(&text[start..=at]);
                }
                ('>', _) => start = None,
                _ => {}
            }
            before = c;
        }
        None
    })
}

/// Returns true if the text between angle brackets is a placeholder rather than a tag or an
/// address.
fn is_placeholder(inner: &str) -> bool {
    let is_tag = inner.contains(['=', '/', '@', ':']) && !inner.contains(", ");
    inner.starts_with(char::is_alphabetic)
        && !is_tag
        && (inner.contains([' ', '-']) || inner.starts_with(char::is_uppercase))
}
