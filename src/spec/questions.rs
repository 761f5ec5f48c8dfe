//! Questions for the user: open questions of a proposal, and questions that a reply asks instead of
//! planning.

use crate::text::front_matter::split_front_matter;
use crate::text::markdown::{LineKind, MarkdownLine, markdown_lines};

/// Returns the unanswered questions of a proposal: items of `## Open questions` that end with `?`.
/// A remark in parentheses after the question mark, such as a recommendation, is part of the
/// question.
#[must_use]
pub fn open_questions(proposal: &str) -> Vec<String> {
    let split = split_front_matter(proposal);
    let mut is_inside = false;
    let section: Vec<MarkdownLine<'_>> = markdown_lines(split.body, split.body_line)
        .into_iter()
        .filter(|line| {
            if let LineKind::Heading(level, title) = line.kind {
                let is_section = level == 2 && title.eq_ignore_ascii_case("open questions");
                is_inside = is_section || (is_inside && level > 2);
            }
            is_inside
        })
        .collect();

    let mut items = list_items(&section);
    items.retain(|item| ends_with_question(item));
    items
}

/// Returns the questions in a message: list items that contain one, or else sentences.
#[must_use]
pub fn asked_questions(text: &str) -> Vec<String> {
    let lines = markdown_lines(text, 1);
    let mut items = list_items(&lines);
    items.retain(|item| sentences(item).any(|sentence| sentence.ends_with('?')));
    if !items.is_empty() {
        return items;
    }

    let prose = lines
        .iter()
        .filter(|line| !line.is_code())
        .map(|line| line.text.trim());
    let prose = prose.collect::<Vec<_>>().join("\n");
    let paragraphs = prose
        .split("\n\n")
        .map(|paragraph| paragraph.replace('\n', " "));
    let asked = paragraphs.flat_map(|paragraph| {
        let asked = sentences(&paragraph).filter(|sentence| sentence.ends_with('?'));
        asked.map(str::to_owned).collect::<Vec<_>>()
    });
    asked.collect()
}

/// Returns the items of lists, each with its continuation lines. Code is skipped.
fn list_items(lines: &[MarkdownLine<'_>]) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    // Indentation of the last item.
    let mut indent = 0;
    // True while the last item may continue on the next line.
    let mut can_continue = false;

    for line in lines.iter().filter(|line| !line.is_code()) {
        let text = line.text.trim();
        if matches!(line.kind, LineKind::Heading(..)) || line.is_blank() {
            can_continue = false;
            continue;
        }

        let item = item_text(text);
        let is_deeper = !items.is_empty() && line.indent() > indent;

        match (item, items.last_mut()) {
            (_, Some(last)) if is_deeper || (item.is_none() && can_continue) => {
                last.push(' ');
                last.push_str(item.unwrap_or(text));
            }
            (Some(item), _) => {
                indent = line.indent();
                items.push(item.to_owned());
                can_continue = true;
            }
            (None, _) => {}
        }
    }
    items
}

/// Returns the text of a list item.
fn item_text(text: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| text.strip_prefix(mark));
    let numbered = || {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_number = rest.len() < text.len();
        [". ", ") "]
            .iter()
            .find_map(|mark| rest.strip_prefix(mark))
            .filter(|_| is_number)
    };
    bullet.or_else(numbered).map(str::trim)
}

fn ends_with_question(item: &str) -> bool {
    let item = without_formatting(item);
    let remark = item.strip_suffix(')').and_then(|item| item.rfind('('));
    let question = remark.map_or(item, |at| without_formatting(&item[..at]));
    question.ends_with('?') || item.ends_with('?')
}

fn without_formatting(text: &str) -> &str {
    text.trim_end_matches(['*', '_', '`', '"', ' ', '.'])
}

/// Splits a string into sentences, each with its final punctuation. Punctuation in code spans is
/// ignored.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut in_code = false;
        let end = rest.char_indices().find(|(at, c)| {
            in_code ^= *c == '`';
            let ends = rest[at + c.len_utf8()..]
                .starts_with(|next: char| next.is_whitespace() || "*_\")".contains(next));
            !in_code && matches!(c, '.' | '?' | '!') && (ends || at + c.len_utf8() == rest.len())
        });

        let (sentence, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at + 1));
        rest = after;
        let sentence = sentence.trim_start_matches(['*', '_', '"', ')', ' ']);
        (!sentence.is_empty() || !rest.is_empty()).then_some(sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recommendation_in_parentheses_does_not_answer_a_question() {
        let proposal = "# A\n\n## Open questions\n\
                        1. SHA-256 or SHA-512?\n\
                        - Stay with `django-concat`, or move to `hmac`? (I'd recommend `hmac`.)\n\
                        - Is a breaking change fine? Yes, in 3.0.\n\
                        - (Assumed: no.)\n";
        assert_eq!(
            open_questions(proposal),
            [
                "SHA-256 or SHA-512?",
                "Stay with `django-concat`, or move to `hmac`? (I'd recommend `hmac`.)"
            ]
        );
    }

    #[test]
    fn questions_of_a_reply_are_the_items_of_its_list_or_its_sentences() {
        let listed = "Before I can plan this I need two decisions:\n\n\
                      1. **Digest.** SHA-256 or SHA-512? Every token would become invalid.\n\
                      2. Is a breaking change acceptable in 2.3?\n\
                      3. I will add tests.\n\nOnce I know these, I'll write the plan.\n";
        assert_eq!(
            asked_questions(listed),
            [
                "**Digest.** SHA-256 or SHA-512? Every token would become invalid.",
                "Is a breaking change acceptable in 2.3?"
            ]
        );
        let prose =
            "The request is thin. Which hash do you want? Version 2.3 uses `a?b`.\nIs it *urgent?*";
        assert_eq!(
            asked_questions(prose),
            ["Which hash do you want?", "Is it *urgent?"]
        );
        for none in [
            "I will plan it now.",
            "It reads `x?y=1`.",
            "```\nwhy?\n```",
            "See http://a/?b=c for more.",
        ] {
            assert_eq!(asked_questions(none), [""; 0], "{none}");
        }
    }
}
