//! Escaping of values in XML, so that no value is read as markup.

use std::borrow::Cow;

/// Position of a value in XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XmlPosition {
    /// Between two tags.
    Text,
    /// In an attribute with double quotes.
    Attribute,
}

/// Appends an escaped value to XML.
///
/// Replaces `&`, `<`, `>` and CR with references. In an attribute, also replaces double quotes, tabs and all kinds of line
/// breaks, because XML readers turn some of these into spaces. Characters that XML 1.0 forbids are replaced as in
/// [`replace_forbidden`].
pub fn push_escaped(out: &mut String, value: &str, position: XmlPosition) {
    let mut copied = 0;
    while let Some(hit) = value.as_bytes()[copied..]
        .iter()
        .position(|&byte| may_need_escape(byte))
    {
        let at = copied + hit;
        out.push_str(&value[copied..at]);

        let c = value[at..].chars().next().unwrap_or_default();
        push_escaped_char(out, c, position);
        copied = at + c.len_utf8();
    }
    out.push_str(&value[copied..]);
}

/// Returns a value as the text of an XML element. See [`push_escaped`].
#[must_use]
pub fn escape_text(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    push_escaped(&mut out, value, XmlPosition::Text);
    out
}

/// Returns a value as an XML attribute in double quotes. See [`push_escaped`].
#[must_use]
pub fn escape_attribute(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    push_escaped(&mut out, value, XmlPosition::Attribute);
    out
}

/// Replaces characters that XML 1.0 forbids. A control character becomes its Unicode control picture, such as `␀` for
/// NUL; U+FFFE and U+FFFF become U+FFFD.
#[must_use]
pub fn replace_forbidden<'t>(text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
    let text = text.into();
    if text.as_bytes().chunks(64).all(is_surely_allowed) {
        return text;
    }
    Cow::Owned(text.chars().map(allowed_char).collect())
}

/// Returns true if a byte can start a character that needs escaping in some position.
fn may_need_escape(byte: u8) -> bool {
    // 0xC2 starts U+0085, 0xE2 starts U+2028 and U+2029, 0xEF starts U+FFFE and U+FFFF.
    matches!(
        byte,
        0..0x20 | b'&' | b'<' | b'>' | b'"' | 0xC2 | 0xE2 | 0xEF
    )
}

fn push_escaped_char(out: &mut String, c: char, position: XmlPosition) {
    let in_attribute = position == XmlPosition::Attribute;
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' if in_attribute => out.push_str("&quot;"),
        '\r' => out.push_str("&#13;"),
        '\t' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' if in_attribute => {
            out.push_str(&format!("&#{};", u32::from(c)));
        }
        _ => out.push(allowed_char(c)),
    }
}

/// Returns a character, or its visible replacement if XML 1.0 forbids it.
fn allowed_char(c: char) -> char {
    match c {
        '\t' | '\n' | '\r' => c,
        '\0'..'\u{20}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or_default(),
        '\u{FFFE}' | '\u{FFFF}' => char::REPLACEMENT_CHARACTER,
        _ => c,
    }
}

/// Returns true if the bytes cannot contain a forbidden character, without a branch per byte. Returns false for some
/// allowed texts, too: 0xEF starts U+FFFE and U+FFFF, but also other characters.
fn is_surely_allowed(bytes: &[u8]) -> bool {
    let is_suspect = |b: u8| (b < 0x20) & (b != b'\t') & (b != b'\n') & (b != b'\r') | (b == 0xEF);
    !bytes.iter().fold(false, |found, &b| found | is_suspect(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row is a value, its form as text and its form as an attribute. Prompts, session state and actions once had
    /// different escapers, which did not agree on these values.
    #[test]
    fn one_escaper_for_prompts_session_state_and_actions() {
        for (value, text, attribute) in [
            ("a > b", "a &gt; b", "a &gt; b"),
            ("]]>", "]]&gt;", "]]&gt;"),
            ("say \"no\"", "say \"no\"", "say &quot;no&quot;"),
            ("a\tb\nc", "a\tb\nc", "a&#9;b&#10;c"),
            ("a\rb", "a&#13;b", "a&#13;b"),
            ("a\u{85}b", "a\u{85}b", "a&#133;b"),
            (
                "a\u{2028}b\u{2029}",
                "a\u{2028}b\u{2029}",
                "a&#8232;b&#8233;",
            ),
            ("\0\u{1B}[31m", "␀␛[31m", "␀␛[31m"),
            ("\u{FFFE}\u{FFFF}", "\u{FFFD}\u{FFFD}", "\u{FFFD}\u{FFFD}"),
        ] {
            assert_eq!(escape_text(value), text, "{value:?}");
            assert_eq!(escape_attribute(value), attribute, "{value:?}");
        }
    }

    #[test]
    fn values_without_markup_are_copied() {
        for value in ["", "plain", "it's é – 日本 🦀 \u{A0}", "\u{FEFF}x"] {
            assert_eq!(escape_text(value), value);
            assert_eq!(escape_attribute(value), value);
        }
        assert_eq!(escape_text("<a> & &lt;"), "&lt;a&gt; &amp; &amp;lt;");
    }

    #[test]
    fn forbidden_characters_become_visible_and_others_are_borrowed() {
        assert_eq!(
            replace_forbidden("a\0b\u{FFFE}\tc\r\n"),
            "a␀b\u{FFFD}\tc\r\n"
        );
        assert!(matches!(replace_forbidden("a\tb"), Cow::Borrowed("a\tb")));
    }
}
