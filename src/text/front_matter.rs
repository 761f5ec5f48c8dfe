//! Front matter: the YAML between two lines of `---` at the start of a document.

/// A document, split at its front matter. A byte order mark is part of neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrontMatterSplit<'a> {
    /// The YAML, from line 2 of the document on; `None` without front matter.
    pub(crate) yaml: Option<&'a str>,
    /// Everything after the front matter.
    pub(crate) body: &'a str,
    /// Number of the first line of the body, from 1.
    pub(crate) body_line: usize,
    /// True if the closing `---` is missing. The whole document is then the body.
    pub(crate) is_unclosed: bool,
}

/// Splits a document into front matter and body.
pub(crate) fn split_front_matter(text: &str) -> FrontMatterSplit<'_> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let without_yaml = |is_unclosed| FrontMatterSplit {
        yaml: None,
        body: text,
        body_line: 1,
        is_unclosed,
    };

    let mut lines = text.split_inclusive('\n');
    let Some(opener) = lines.next().filter(|line| is_marker(line)) else {
        return without_yaml(false);
    };

    let start = opener.len();
    let mut end = start;
    for (index, line) in lines.enumerate() {
        if is_marker(line) {
            return FrontMatterSplit {
                yaml: Some(&text[start..end]),
                body: &text[end + line.len()..],
                body_line: index + 3,
                is_unclosed: false,
            };
        }
        end += line.len();
    }
    without_yaml(true)
}

fn is_marker(line: &str) -> bool {
    line.trim_end() == "---"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_at_the_second_marker() {
        for (text, yaml, body, body_line) in [
            ("---\na: 1\n---\nbody\n", Some("a: 1\n"), "body\n", 4),
            (
                "\u{FEFF}---\r\na: 1\r\n--- \r\nbody",
                Some("a: 1\r\n"),
                "body",
                4,
            ),
            ("---\n---\n", Some(""), "", 3),
            ("---\n---", Some(""), "", 3),
            ("body\n---\n", None, "body\n---\n", 1),
            (" ---\na: 1\n---\n", None, " ---\na: 1\n---\n", 1),
            ("\u{FEFF}body", None, "body", 1),
            ("", None, "", 1),
        ] {
            let expected = FrontMatterSplit {
                yaml,
                body,
                body_line,
                is_unclosed: false,
            };
            assert_eq!(split_front_matter(text), expected, "{text:?}");
        }
    }

    #[test]
    fn front_matter_that_does_not_end_is_part_of_the_body() {
        for text in ["---\na: 1\n", "---", "---\na: 1\n ---\n"] {
            let split = split_front_matter(text);
            assert!(split.is_unclosed && split.yaml.is_none(), "{text:?}");
            assert_eq!(split.body, text);
        }
    }
}
