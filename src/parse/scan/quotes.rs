//! Quotes in tags: what a tool printed, what a file holds, code.

use foldhash::HashMap;

use super::Scanner;
use crate::parse::tag::{Name, Tag};

/// Where each quote starts and ends.
pub(super) struct Quotes {
    spans: HashMap<usize, usize>,
}

impl Quotes {
    /// Pairs the tags of quotes by name, nested ones included.
    fn of(scanner: &Scanner<'_>) -> Self {
        let mut open: HashMap<usize, Vec<usize>> = HashMap::default();
        let mut spans = HashMap::default();
        for at in memchr::memchr_iter(b'<', scanner.text.as_bytes()) {
            let Some(tag) = scanner.names.read(&scanner.text[at..]) else { continue };
            let Name::Quote(quote) = tag.name else { continue };
            let openers = open.entry(quote).or_default();
            if !tag.closes && tag.complete && !tag.empty {
                openers.push(at);
            } else if tag.closes
                && let Some(opener) = openers.pop()
            {
                spans.insert(opener, at + tag.length);
            }
        }
        Self { spans }
    }
}

impl<'a> Scanner<'a> {
    /// Skips a quote; one that is not closed is text. One that is closed and was not opened may reach back.
    pub(super) fn quote(&mut self, tag: Tag<'a>) {
        if tag.closes {
            self.found.stray_quote = Some(self.at);
        }
        let quotes = match self.quotes.take() {
            Some(quotes) => quotes,
            None => Quotes::of(self),
        };
        match quotes.spans.get(&self.at).filter(|_| !tag.closes) {
            Some(&end) => self.mask(self.at..end),
            None => self.at += tag.length,
        }
        self.quotes = Some(quotes);
    }
}
