//! What starts with `<`, as long as it may become a tag.

use crate::parse::tag::Names;
use crate::text::invisible::is_invisible;

/// The longest name that is waited for, blanks and a prefix included.
const LONGEST_NAME: usize = 100;

/// The longest tag that is waited for. The reader looks for brackets in quotes no further, either.
const LONGEST_TAG: usize = 2000;

/// The most blanks and invisible characters before a name.
const MOST_BLANKS: usize = 4;

/// The openers of content that starts with `<`: a comment and CDATA.
pub(super) const COMMENT: &str = "<!--";
pub(super) const DATA: &str = "<![CDATA[";

/// A text that starts with `<`, of which nobody can tell yet what it is.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) text: String,
    /// Whether its name has begun, behind a prefix if there is one.
    named: bool,
    /// Whether it has a name of the grammar, and only its end is missing.
    known: bool,
    blanks: usize,
    quote: Option<char>,
    /// The last character behind the name that is no blank.
    last: char,
}

impl Held {
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

    /// Takes a character; tells whether what the text is depends on those that follow.
    pub(super) fn push(&mut self, c: char, names: &Names) -> bool {
        let waits = if self.text == "<" && c == '!' || self.text.starts_with("<!") {
            self.text.push(c);
            let begins =
                |opener: &str| opener.len() > self.text.len() && opener.starts_with(&self.text);
            return begins(COMMENT) || begins(DATA);
        } else if self.known {
            self.in_attributes(c)
        } else {
            self.in_name(c, names)
        };
        self.text.push(c);
        waits
            && self.text.len()
                < if self.known {
                    LONGEST_TAG
                } else {
                    LONGEST_NAME
                }
    }

    fn in_name(&mut self, c: char, names: &Names) -> bool {
        let blank = matches!(c, ' ' | '\t' | '\u{A0}') || is_invisible(c);
        match c {
            '/' if !self.named && !self.text.contains('/') => true,
            _ if matches!(self.text.as_str(), "<" | "</") => {
                self.named = c.is_ascii_alphabetic();
                self.blanks += usize::from(blank);
                self.named || blank
            }
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => {
                self.named = true;
                true
            }
            // What stood before was a prefix.
            ':' if self.named => {
                self.named = false;
                true
            }
            _ if blank && !self.named => {
                self.blanks += 1;
                self.blanks <= MOST_BLANKS
            }
            c if is_invisible(c) => true,
            _ => {
                // The name ends here. Whether it is one of the grammar, the reader tells.
                self.known = names.read(&format!("{}>", self.text)).is_some();
                let ends = matches!(c, '>' | '/' | '<' | '=') || c.is_whitespace();
                if self.known {
                    ends && self.in_attributes(c)
                } else {
                    c == '\u{A0}'
                }
            }
        }
    }

    /// Follows the quotes of attributes as the reader does: a bracket in quotes ends no tag.
    fn in_attributes(&mut self, c: char) -> bool {
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
