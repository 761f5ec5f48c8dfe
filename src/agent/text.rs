//! Text out of bytes that come in pieces, and its ends where it is long.

use crate::secret::{Redactor, Secrets};

/// Decodes bytes that may be split anywhere; what is not UTF-8 becomes U+FFFD.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    /// The start of a character that has not come in whole.
    pending: Vec<u8>,
}

impl Utf8 {
    /// Takes bytes, and returns the characters that are whole.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        let mut joined = std::mem::take(&mut self.pending);
        let mut rest = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        let mut text = String::with_capacity(rest.len());
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => {
                    let (valid, broken) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(length) = error.error_len() else {
                        self.pending = broken.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &broken[length..];
                }
            }
        }
    }

    /// Ends the bytes, and returns what stands for a character that never came in whole.
    pub(super) fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.pending).is_empty() {
            ""
        } else {
            "\u{FFFD}"
        }
    }
}

/// How much of either end of a long text is kept.
const KEPT: usize = 64 * 1024;

/// The start and the end of a text, without its secrets.
#[derive(Debug)]
pub(super) struct Clip {
    redactor: Redactor,
    head: String,
    tail: String,
    left_out: usize,
}

impl Clip {
    pub(super) fn new(secrets: &Secrets) -> Self {
        Self {
            redactor: secrets.stream(),
            head: String::new(),
            tail: String::new(),
            left_out: 0,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        let text = self.redactor.push(text);
        self.keep(&text);
    }

    /// Ends the text, and returns what is kept of it.
    pub(super) fn finish(&mut self) -> String {
        let text = self.redactor.finish();
        self.keep(&text);
        self.left_out += trim_to_end(&mut self.tail, KEPT);
        let mut kept = std::mem::take(&mut self.head);
        if self.left_out > 0 {
            kept.push_str(&format!("\n[… {} bytes left out …]\n", self.left_out));
        }
        kept.push_str(&self.tail);
        kept
    }

    fn keep(&mut self, text: &str) {
        let room = KEPT.saturating_sub(self.head.len());
        let (first, rest) = text.split_at(text.floor_char_boundary(room));
        // Once something has gone to the end, the start is over.
        let (first, rest) = if self.tail.is_empty() {
            (first, rest)
        } else {
            ("", text)
        };
        self.head.push_str(first);
        self.tail.push_str(rest);
        if self.tail.len() > 4 * KEPT {
            self.left_out += trim_to_end(&mut self.tail, KEPT);
        }
    }
}

/// Keeps the end of a text, so many bytes at most, and returns how many went.
pub(super) fn trim_to_end(text: &mut String, most: usize) -> usize {
    let cut = text.ceil_char_boundary(text.len().saturating_sub(most));
    text.drain(..cut);
    cut
}
