//! Finds `{{NAME}}` placeholders in prose, in one pass.

use std::ops::Range;

use memchr::memmem;

/// A token of prose: literal text or a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// Literal text; the backslash of an escaped placeholder is already removed.
    Text(&'a str),
    /// Name of a variable and the offset of its `{{`.
    Variable(&'a str, usize),
}

/// Returns the tokens of a template, in order. The escaped `\{{NAME}}` is the literal text `{{NAME}}`.
pub fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut from = 0;
    let mut pending: Option<Token<'_>> = None;
    std::iter::from_fn(move || {
        if let Some(token) = pending.take() {
            return Some(token);
        }

        if from >= text.len() {
            return None;
        }

        let Some(found) = next_placeholder(text, from) else {
            let rest = &text[from..];
            from = text.len();
            return Some(Token::Text(rest));
        };
        let is_escaped = text[from..found.start].ends_with('\\');
        let before = &text[from..found.start - usize::from(is_escaped)];
        from = found.end;
        pending = Some(if is_escaped {
            Token::Text(&text[found])
        } else {
            Token::Variable(&text[found.start + 2..found.end - 2], found.start)
        });

        if before.is_empty() {
            pending.take()
        } else {
            Some(Token::Text(before))
        }
    })
}

/// Returns the next `{{NAME}}` at or after an offset.
fn next_placeholder(text: &str, mut from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    while let Some(hit) = memmem::find(&bytes[from..], b"{{") {
        // Of a run of braces, the last two open the placeholder.
        let run = bytes[from + hit..]
            .iter()
            .take_while(|&&b| b == b'{')
            .count();
        let name = from + hit + run;
        let length = bytes[name..]
            .iter()
            .take_while(|&&b| is_name_byte(b))
            .count();

        let is_name = length > 0 && !bytes[name].is_ascii_digit();
        if is_name && bytes[name + length..].starts_with(b"}}") {
            return Some(name - 2..name + length + 2);
        }

        from = name + length;
    }

    None
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// A `{{` with a name that is not a valid placeholder and would be sent as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StrayPlaceholder<'a> {
    /// Name after the braces, without spaces.
    pub(super) name: &'a str,
    /// Text between the braces.
    pub(super) inner: &'a str,
    /// True if `}}` follows on the same line.
    pub(super) is_closed: bool,
    /// Offset of the `{{`.
    pub(super) offset: usize,
}

/// Finds text that looks like a placeholder but is not: `{{NAME` without an end, and `{{ NAME }}`.
pub(super) fn stray_placeholders(text: &str) -> Vec<StrayPlaceholder<'_>> {
    let mut strays = Vec::new();
    let mut from = 0;
    while let Some(hit) = text[from..].find("{{") {
        let start = from + hit;
        let run = text[start..].bytes().take_while(|&b| b == b'{').count();
        let offset = start + run - 2;
        let rest = &text[offset + 2..];
        from = offset + 2;

        let line = rest.lines().next().unwrap_or_default();
        let (inner, is_closed) = match line.split_once("}}") {
            Some((inner, _)) => (inner, true),
            None => (line, false),
        };
        let begin = inner.trim_start();
        let length = begin.bytes().take_while(|&b| is_name_byte(b)).count();
        let name = &begin[..length];

        let is_name = length > 0 && !name.starts_with(|c: char| c.is_ascii_digit());
        let is_stray = if is_closed {
            inner.trim() == name && inner != name
        } else {
            // Without an end, only a name right after the braces looks like a placeholder.
            begin.len() == inner.len()
        };

        if is_name && is_stray {
            strays.push(StrayPlaceholder {
                name,
                inner,
                is_closed,
                offset,
            });
        }
    }

    strays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_placeholder_is_found() {
        type Found = (&'static str, bool, usize);
        let cases: [(&str, &[Found]); 9] = [
            ("{{A}} \\{{B}} {{{C}}}", &[]),
            ("x {{severity is 1", &[("severity", false, 2)]),
            ("{{severity} \n}}", &[("severity", false, 0)]),
            ("{{ severity }}", &[("severity", true, 0)]),
            (
                "{{severity }} {{x",
                &[("severity", true, 0), ("x", false, 14)],
            ),
            ("{{ user.name }} {{}} {{1}} {{ open", &[]),
            ("${{ secrets.KEY }}", &[]),
            ("{{é", &[]),
            ("{{", &[]),
        ];
        for (text, expected) in cases {
            let found: Vec<_> = stray_placeholders(text)
                .iter()
                .map(|stray| (stray.name, stray.is_closed, stray.offset))
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn only_whole_placeholders_count() {
        let cases: [(&str, &[Token<'_>]); 9] = [
            ("", &[]),
            ("plain", &[Token::Text("plain")]),
            ("{{A}}", &[Token::Variable("A", 0)]),
            (
                "x{{A}}{{b_1}}y",
                &[
                    Token::Text("x"),
                    Token::Variable("A", 1),
                    Token::Variable("b_1", 6),
                    Token::Text("y"),
                ],
            ),
            (r"\{{A}}", &[Token::Text("{{A}}")]),
            ("{{ A }}", &[Token::Text("{{ A }}")]),
            ("{{}} {{1}} {{A} }", &[Token::Text("{{}} {{1}} {{A} }")]),
            (
                "{{{A}}}",
                &[Token::Text("{"), Token::Variable("A", 1), Token::Text("}")],
            ),
            ("{{ {{A}}", &[Token::Text("{{ "), Token::Variable("A", 3)]),
        ];
        for (text, expected) in cases {
            assert_eq!(tokens(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
