//! Parser for JSON as agents write it: with comments, trailing commas, single quotes, raw newlines and Python literals.

use serde_json::{Map, Number, Value};

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;

/// A parsed value, with the deviations that were tolerated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LenientValue {
    /// The value. Objects, lists and strings are closed if the text ends inside them.
    pub(crate) value: Value,
    /// Offset after the value.
    pub(crate) end: usize,
    /// True if the text ends before the value does.
    pub(crate) is_cut: bool,
    /// True if the value contains single quotes or Python literals.
    pub(crate) is_python: bool,
}

/// Parses the value at the start of `text`; `None` if there is none.
pub(crate) fn parse_lenient_json(text: &str) -> Option<LenientValue> {
    let mut parser = LenientJsonParser {
        text,
        at: 0,
        is_cut: false,
        is_python: false,
    };
    let value = parser.read_value(0)?;
    Some(LenientValue {
        value,
        end: parser.at,
        is_cut: parser.is_cut,
        is_python: parser.is_python,
    })
}

struct LenientJsonParser<'a> {
    text: &'a str,
    at: usize,
    is_cut: bool,
    is_python: bool,
}

impl<'a> LenientJsonParser<'a> {
    fn read_value(&mut self, depth: usize) -> Option<Value> {
        self.skip_space_and_comments();
        match self.peek()? {
            '{' if depth < MAX_DEPTH => self.read_object(depth).map(Value::from),
            '[' if depth < MAX_DEPTH => self.read_array(depth).map(Value::from),
            '"' | '\'' => self.read_string().map(Value::from),
            _ => self.read_word(),
        }
    }

    fn read_object(&mut self, depth: usize) -> Option<Map<String, Value>> {
        self.at += 1;
        let mut object = Map::new();
        loop {
            self.skip_space_and_comments();
            match self.peek() {
                None => {
                    self.is_cut = true;
                    return Some(object);
                }
                Some('}') => {
                    self.at += 1;
                    return Some(object);
                }
                Some(_) => {}
            }

            let key = self.read_key()?;
            self.skip_space_and_comments();
            if self.is_cut || self.peek().is_none() {
                self.is_cut = true;
                return Some(object);
            }
            if !self.take(':') {
                return None;
            }

            self.skip_space_and_comments();
            if self.peek().is_none() {
                self.is_cut = true;
                return Some(object);
            }
            let value = self.read_value(depth + 1)?;
            // A duplicate key is ambiguous.
            if object.insert(key, value).is_some() {
                return None;
            }
            self.read_separator('}')?;
        }
    }

    fn read_array(&mut self, depth: usize) -> Option<Vec<Value>> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_space_and_comments();
            match self.peek() {
                None => {
                    self.is_cut = true;
                    return Some(items);
                }
                Some(']') => {
                    self.at += 1;
                    return Some(items);
                }
                Some(_) => items.push(self.read_value(depth + 1)?),
            }
            self.read_separator(']')?;
        }
    }

    /// Reads the comma after an item. It may be missing before the closing bracket `end`.
    fn read_separator(&mut self, end: char) -> Option<()> {
        self.skip_space_and_comments();
        let is_separated = self.is_cut || self.take(',') || self.peek().is_none_or(|c| c == end);
        is_separated.then_some(())
    }

    fn read_key(&mut self) -> Option<String> {
        if matches!(self.peek()?, '"' | '\'') {
            return self.read_string();
        }
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')))
            .unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| rest[..end].to_owned())
    }

    /// Reads a string. An unescaped quote ends it only if the text after it can follow a string.
    fn read_string(&mut self) -> Option<String> {
        let quote = self.peek()?;
        self.is_python |= quote == '\'';
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(stop) = rest.find([quote, '\\']) else {
                self.is_cut = true;
                out.push_str(rest);
                self.at = self.text.len();
                return Some(out);
            };

            out.push_str(&rest[..stop]);
            self.at += stop;
            if rest[stop..].starts_with('\\') {
                self.read_escape(&mut out)?;
                continue;
            }

            self.at += 1;
            if self.ends_string() {
                return Some(out);
            }
            // Two adjacent strings are not a value.
            let next = self.text[self.at..].trim_start();
            if next.starts_with(['"', '\'']) {
                return None;
            }
            out.push(quote);
        }
    }

    /// Returns true if the text after a quote can follow a string.
    fn ends_string(&self) -> bool {
        let after = self.text[self.at..].trim_start();
        after.is_empty() || after.starts_with([',', '}', ']', ':'])
    }

    /// Reads an escape. Fails if it is unknown, because decoding it would lose a character.
    fn read_escape(&mut self, out: &mut String) -> Option<()> {
        let mut rest = self.text[self.at + 1..].chars();
        let Some(c) = rest.next() else {
            self.is_cut = true;
            self.at = self.text.len();
            return Some(());
        };
        self.at += 1 + c.len_utf8();
        match c {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{C}'),
            'u' => out.push(self.read_unicode_escape()),
            '\n' => {}
            '"' | '\'' | '\\' | '/' => out.push(c),
            _ => return None,
        }
        Some(())
    }

    /// Reads the digits after `\u`; a lone surrogate becomes the replacement character.
    fn read_unicode_escape(&mut self) -> char {
        let Some(first) = self.read_hex_digits() else {
            return char::REPLACEMENT_CHARACTER;
        };
        if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            if let Some(second) = self
                .read_hex_digits()
                .filter(|second| (0xDC00..0xE000).contains(second))
            {
                let joined = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
            self.at = before;
        }
        char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    fn read_hex_digits(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let value = u32::from_str_radix(digits, 16).ok()?;
        self.at += 4;
        Some(value)
    }

    /// Reads a number or a literal of JSON or Python. At the very end of the text it may be cut off.
    fn read_word(&mut self) -> Option<Value> {
        let rest = &self.text[self.at..];
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_')));
        self.is_cut |= end.is_none();
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();

        self.is_python |= matches!(word, "None" | "True" | "False");
        match word {
            "null" | "None" => Some(Value::Null),
            "true" | "True" => Some(true.into()),
            "false" | "False" => Some(false.into()),
            _ if self.is_cut && may_be_cut(word) => Some(Value::Null),
            _ => word.parse::<Number>().ok().map(Value::from),
        }
    }

    fn skip_space_and_comments(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let inner = rest.trim_start();
            self.at += rest.len() - inner.len();

            let comment = if inner.starts_with("//") || inner.starts_with('#') {
                inner.find('\n').unwrap_or(inner.len())
            } else if inner.starts_with("/*") {
                inner.find("*/").map_or(inner.len(), |end| end + 2)
            } else {
                return;
            };
            self.at += comment;
        }
    }

    fn take(&mut self, c: char) -> bool {
        let is_next = self.peek() == Some(c);
        if is_next {
            self.at += c.len_utf8();
        }
        is_next
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }
}

/// Returns true if a word at the end of the text may be the start of a number or of a known literal.
fn may_be_cut(word: &str) -> bool {
    let literals = ["null", "None", "true", "True", "false", "False"];
    let is_number = word
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    let is_literal_start = literals.iter().any(|literal| literal.starts_with(word));
    !word.is_empty() && (is_number || is_literal_start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn malformed_json_is_parsed_and_cut_json_is_marked() {
        let whole = |text: &str| {
            parse_lenient_json(text)
                .filter(|read| !read.is_cut && read.end == text.len())
                .map(|r| r.value)
        };
        let cases = [
            (
                r#"{"a": 1, "b": [true, null, "x"]}"#,
                json!({"a": 1, "b": [true, null, "x"]}),
            ),
            (
                "{\"a\": 1, /* c */ \"b\": 2, // d\n}",
                json!({"a": 1, "b": 2}),
            ),
            ("{'a': None, 'b': True}", json!({"a": null, "b": true})),
            ("{a: \"x\ny\"}", json!({"a": "x\ny"})),
            (
                r#"{"a": "She said "no" and left"}"#,
                json!({"a": "She said \"no\" and left"}),
            ),
            (
                r#"{"a": "\ud83d\ude00 \ud800 \n"}"#,
                json!({"a": "😀 \u{FFFD} \n"}),
            ),
            (r#"{"a": "see "b" # c"}"#, json!({"a": "see \"b\" # c"})),
            ("[1.5, -2,]", json!([1.5, -2])),
        ];
        for (text, value) in cases {
            assert_eq!(whole(text), Some(value), "{text}");
        }
        for text in [
            r#"{"a": "x"#,
            r#"{"a": 12"#,
            "{\"a\"",
            "[1, 2",
            "{",
            r#"{"a": "x\"#,
            "{\"a\":",
        ] {
            assert!(
                parse_lenient_json(text).is_some_and(|read| read.is_cut),
                "{text}"
            );
        }
        for text in [
            r#"["a" "b"]"#,
            r#"{"a": "\d"}"#,
            "",
            "x",
            "{1 2}",
            r#"{"a": 1, "a": 2}"#,
            r#"{"a" "b"}"#,
            "{\"a\": bare}",
            "}",
        ] {
            assert_eq!(parse_lenient_json(text), None, "{text}");
        }
        assert_eq!(parse_lenient_json(&"[".repeat(100_000)), None);
    }
}
