//! Text that starts with `<` and may become a tag.

use crate::parse::tag::TagNames;
use crate::text::invisible::is_invisible;

/// Maximum length of a name, including white space and a prefix.
const MAX_NAME_BYTES: usize = 100;

/// Maximum length of a tag, the same as in `tag.rs`.
const MAX_TAG_BYTES: usize = 2000;

/// Maximum number of white-space and invisible characters before a name.
const MAX_BLANKS: usize = 4;

/// Opening marks of comments and CDATA.
pub(super) const COMMENT_OPENER: &str = "<!--";
pub(super) const CDATA_OPENER: &str = "<![CDATA[";

/// Text that starts with `<`, while it is undecided whether it is a tag.
#[derive(Debug)]
pub(super) struct PendingTag {
    pub(super) text: String,
    /// True once the name has begun, after a prefix if there is one.
    named: bool,
    /// True if the name is one of the grammar and only the end of the tag is missing.
    known: bool,
    blanks: usize,
    quote: Option<char>,
    /// Last character after the name that is not a space.
    last: char,
}

impl PendingTag {
    /// Starts with a `<`.
    pub(super) fn new() -> Self {
        Self {
            text: "<".to_owned(),
            named: false,
            known: false,
            blanks: 0,
            quote: None,
            last: ' ',
        }
    }

    /// Adds a character. Returns true while more characters are needed.
    pub(super) fn push(&mut self, c: char, names: &TagNames) -> bool {
        let waits = if self.text == "<" && c == '!' || self.text.starts_with("<!") {
            self.text.push(c);
            let begins =
                |opener: &str| opener.len() > self.text.len() && opener.starts_with(&self.text);
            return begins(COMMENT_OPENER) || begins(CDATA_OPENER);
        } else if self.known {
            self.push_attribute_char(c)
        } else {
            self.push_name_char(c, names)
        };
        self.text.push(c);
        waits
            && self.text.len()
                < if self.known {
                    MAX_TAG_BYTES
                } else {
                    MAX_NAME_BYTES
                }
    }

    /// Tracks the name of the tag. Returns true while more characters are needed.
    fn push_name_char(&mut self, c: char, names: &TagNames) -> bool {
        let is_space = matches!(c, ' ' | '\t' | '\u{A0}') || is_invisible(c);
        match c {
            '/' if !self.named && !self.text.contains('/') => true,
            _ if matches!(self.text.as_str(), "<" | "</") => {
                self.named = c.is_ascii_alphabetic();
                self.blanks += usize::from(is_space);
                self.named || is_space
            }
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => {
                self.named = true;
                true
            }
            // The text before the colon was a prefix.
            ':' if self.named => {
                self.named = false;
                true
            }
            _ if is_space && !self.named => {
                self.blanks += 1;
                self.blanks <= MAX_BLANKS
            }
            c if is_invisible(c) => true,
            _ => {
                // The name ends here.
                self.known = names.read_tag(&format!("{}>", self.text)).is_some();
                let ends = matches!(c, '>' | '/' | '<' | '=') || c.is_whitespace();
                if self.known {
                    ends && self.push_attribute_char(c)
                } else {
                    c == '\u{A0}'
                }
            }
        }
    }

    /// Tracks the quotes of attributes: a bracket in quotes does not end the tag. Returns true while
    /// more characters are needed.
    fn push_attribute_char(&mut self, c: char) -> bool {
        match (self.quote, c) {
            (_, '\n') | (None, '<' | '>') => return false,
            (Some(open), _) if open == c => self.quote = None,
            (None, '"' | '\'') if self.last == '=' => self.quote = Some(c),
            _ => {}
        }
        self.last = if c == ' ' { self.last } else { c };
        true
    }
}
