//! Escapes text for the logs of CI services, whose runners execute commands that they find in the log.

use std::borrow::Cow;

/// Escapes commands to the runner of a CI service.
///
/// The runner of GitHub Actions executes lines that start with `::`, also after whitespace, and `##[` anywhere in a
/// line. The runners of Azure Pipelines and TeamCity execute `##vso[` and `##teamcity[`. A backslash is inserted to
/// break these sequences.
#[must_use]
pub fn escape_ci_commands(text: &str) -> Cow<'_, str> {
    let mut escaped = String::new();
    let mut copied = 0;
    let mut is_line_start = true;

    for (index, c) in text.char_indices() {
        let rest = &text[index..];
        let is_command = match c {
            ':' => is_line_start && rest.starts_with("::"),
            '#' => is_bracket_command(rest),
            _ => false,
        };
        if is_command {
            escaped.push_str(&text[copied..=index]);
            escaped.push('\\');
            copied = index + 1;
        }
        is_line_start = matches!(c, '\n' | '\r') || (is_line_start && c.is_whitespace());
    }

    if copied == 0 {
        return Cow::Borrowed(text);
    }
    escaped.push_str(&text[copied..]);
    Cow::Owned(escaped)
}

/// Returns true for a line that starts with `##[`, or with `##` and letters and `[`, such as `##vso[`.
fn is_bracket_command(text: &str) -> bool {
    text.strip_prefix("##").is_some_and(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_alphabetic())
            .starts_with('[')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_a_command() {
        for (text, shown) in [
            (
                "std::fs and a ## heading [x]",
                "std::fs and a ## heading [x]",
            ),
            ("## heading\n\na::b\n# [x]", "## heading\n\na::b\n# [x]"),
            ("::set-env name=A::b", ":\\:set-env name=A::b"),
            ("a\n  \t::error::b\n", "a\n  \t:\\:error::b\n"),
            ("a\r::error::b", "a\r:\\:error::b"),
            ("a\n\u{a0}\u{2028}::error", "a\n\u{a0}\u{2028}:\\:error"),
            ("x ##[command]y", "x #\\#[command]y"),
            ("x ###[command]y", "x ##\\#[command]y"),
            (
                "##vso[task.setvariable]##VSO[x]",
                "#\\#vso[task.setvariable]#\\#VSO[x]",
            ),
            ("##teamcity[x]", "#\\#teamcity[x]"),
            (":::x", ":\\::x"),
            ("é\n::é", "é\n:\\:é"),
        ] {
            assert_eq!(escape_ci_commands(text), shown, "{text:?}");
        }
    }
}
