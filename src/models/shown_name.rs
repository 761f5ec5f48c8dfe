//! File names in a line of text: a name must not start a line by itself.

use std::borrow::Cow;

/// Returns a file's name as one line that no terminal, diff or CI log obeys.
///
/// Unprintable characters are escaped as in Rust. So is the start of a command of a CI runner: GitHub's obeys a line that
/// starts with `::`, and `##[` wherever it is.
#[must_use]
pub fn shown_name(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.escape_debug().len() == 1 || matches!(c, '\'' | '"' | '\\');
    if name.chars().all(is_plain) && !name.starts_with("::") && !name.contains("##[") {
        return Cow::Borrowed(name);
    }
    let mut shown = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        if is_plain(c) {
            shown.push(c)
        } else {
            shown.extend(c.escape_debug())
        }
    }
    if let Some(rest) = shown.strip_prefix("::") {
        shown = format!("\\u{{3a}}:{rest}");
    }
    Cow::Owned(shown.replace("##[", "#\\u{23}["))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_no_command() {
        for (name, shown) in [
            ("src/größe 'x' \"y\".rs", "src/größe 'x' \"y\".rs"),
            ("a::b", "a::b"),
            ("a\n::error::b", "a\\n::error::b"),
            ("a\r::error::b", "a\\r::error::b"),
            ("::error::b", "\\u{3a}:error::b"),
            ("##[error]x", "#\\u{23}[error]x"),
            ("a/###[group]", "a/##\\u{23}[group]"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\u{202e}b\u{200b}", "a\\u{202e}b\\u{200b}"),
        ] {
            assert_eq!(shown_name(name), shown, "{name:?}");
        }
    }
}
