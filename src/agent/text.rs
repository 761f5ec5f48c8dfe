//! Incremental UTF-8 decoding, and clipping of long texts.

use crate::secret::{Redactor, Secrets};

/// Decodes chunks of bytes that may be split inside a character. Invalid UTF-8 becomes U+FFFD.
#[derive(Debug, Default)]
pub(super) struct Utf8Decoder {
    /// Start of a character whose end has not arrived.
    pending: Vec<u8>,
}

impl Utf8Decoder {
    /// Adds bytes, and returns the complete characters.
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

    /// Ends the input. Returns U+FFFD if its last character is incomplete.
    pub(super) fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.pending).is_empty() {
            ""
        } else {
            "\u{FFFD}"
        }
    }
}

/// Number of bytes that are kept at the start and at the end of a long text.
const KEPT_BYTES: usize = 64 * 1024;

/// Start and end of a long text, with secrets redacted.
#[derive(Debug)]
pub(super) struct ClippedText {
    redactor: Redactor,
    head: String,
    tail: String,
    omitted_bytes: usize,
}

impl ClippedText {
    pub(super) fn new(secrets: &Secrets) -> Self {
        Self {
            redactor: secrets.stream(),
            head: String::new(),
            tail: String::new(),
            omitted_bytes: 0,
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        let text = self.redactor.push(text);
        self.keep(&text);
    }

    /// Ends the text, and returns its start and end with a note about the omitted bytes between them.
    pub(super) fn finish(&mut self) -> String {
        let text = self.redactor.finish();
        self.keep(&text);
        self.omitted_bytes += trim_to_end(&mut self.tail, KEPT_BYTES);
        let mut kept = std::mem::take(&mut self.head);
        if self.omitted_bytes > 0 {
            kept.push_str(&format!("\n[… {} bytes left out …]\n", self.omitted_bytes));
        }
        kept.push_str(&self.tail);
        kept
    }

    fn keep(&mut self, text: &str) {
        // The head is complete as soon as the tail has text.
        let room = if self.tail.is_empty() {
            KEPT_BYTES.saturating_sub(self.head.len())
        } else {
            0
        };
        let (first, rest) = text.split_at(text.floor_char_boundary(room));

        self.head.push_str(first);
        self.tail.push_str(rest);
        if self.tail.len() > 4 * KEPT_BYTES {
            self.omitted_bytes += trim_to_end(&mut self.tail, KEPT_BYTES);
        }
    }
}

/// Removes the start of `text` so that at most `max_bytes` remain. Returns the number of removed bytes.
pub(super) fn trim_to_end(text: &mut String, max_bytes: usize) -> usize {
    let cut = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
    text.drain(..cut);
    cut
}
