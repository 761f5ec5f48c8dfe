//! Values that must not be seen: found in a text in every common form, and replaced by their names.
//!
//! A room of its own, as the rooms that speak to agents, keep the ledger and print all need it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

/// The shortest value that is looked for, and the shortest start of one at the end of a text.
const SHORTEST: usize = 8;

/// The secrets of a run: cheap to clone, and silent about their values.
#[derive(Clone, Default)]
pub struct Secrets(Option<Arc<Known>>);

struct Known {
    finder: AhoCorasick,
    /// The forms in the order of the finder's patterns: sorted, so that a start can be looked up.
    forms: Vec<(String, Name)>,
    longest: usize,
    names: BTreeSet<String>,
}

/// What stands for a secret.
type Name = Arc<str>;

impl Secrets {
    /// Collects secrets by name and value. Values of less than 8 bytes are too common to be looked for.
    pub fn new(named: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let mut forms: BTreeMap<String, Name> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for (name, value) in named {
            if value.len() < SHORTEST {
                continue;
            }
            let shown: Name = format!("[secret {name}]").into();
            names.insert(name);
            for form in forms_of(&value) {
                forms.entry(form).or_insert_with(|| Arc::clone(&shown));
            }
        }
        // To look for nothing, nothing need be built.
        if forms.is_empty() {
            return Self(None);
        }
        let forms: Vec<_> = forms.into_iter().collect();
        let builder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(forms.iter().map(|(form, _)| form));
        let Ok(finder) = builder else {
            // Only more patterns than fit in 31 bits lead here, and an environment cannot hold so many.
            log::error!("the secrets are too many to be looked for");
            return Self(None);
        };
        let longest = forms.iter().map(|(form, _)| form.len()).max();
        Self(longest.map(|longest| Arc::new(Known { finder, forms, longest, names })))
    }

    /// Returns the names of those that are looked for, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|known| &known.names).map(String::as_str)
    }

    /// Returns a text in which each secret is replaced by `[secret NAME]`, also one that the text's end cuts off.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = &self.0 else { return Cow::Borrowed(text) };
        if known.finder.find(text).is_none() && known.hold(text).is_none() {
            return Cow::Borrowed(text);
        }
        let mut stream = self.stream();
        let mut redacted = stream.push(text);
        redacted.push_str(&stream.finish());
        Cow::Owned(redacted)
    }

    /// Returns what does the same to a text that comes in pieces.
    #[must_use]
    pub fn stream(&self) -> Redactor {
        Redactor { secrets: self.clone(), held: String::new() }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = self.0.as_ref().map_or(0, |known| known.forms.len());
        write!(f, "Secrets({forms} forms)")
    }
}

impl Known {
    /// Returns where the text may be in the middle of a secret: the longest end that some form starts with.
    fn hold(&self, text: &str) -> Option<usize> {
        let from = text.len().saturating_sub(self.longest - 1);
        (from..text.len())
            .filter(|&at| text.is_char_boundary(at))
            .find(|&at| self.starts(&text[at..]).is_some())
    }

    /// Returns the name of a form that goes on after this start.
    fn starts(&self, start: &str) -> Option<&Name> {
        let next = self.forms.partition_point(|(form, _)| form.as_str() <= start);
        self.forms.get(next).filter(|(form, _)| form.starts_with(start)).map(|(_, name)| name)
    }
}

/// Replaces secrets in a text that comes in pieces, however it is split.
pub struct Redactor {
    secrets: Secrets,
    /// What may be the start of a secret.
    held: String,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} bytes held)", self.held.len())
    }
}

impl Redactor {
    /// Takes a piece, and returns what can be shown of the text so far and has not been returned yet.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        let Some(known) = &self.secrets.0 else { return piece.to_owned() };
        self.held.push_str(piece);
        let mut shown = String::with_capacity(self.held.len());
        let mut rest = self.held.as_str();
        // Before the place to hold at no form is incomplete, so what is found there stays as it is.
        loop {
            let hold = known.hold(rest).unwrap_or(rest.len());
            let mut at = 0;
            while let Some(found) = known.finder.find(&rest[at..]).filter(|found| at + found.start() < hold) {
                shown.push_str(&rest[at..at + found.start()]);
                shown.push_str(&known.forms[found.pattern().as_usize()].1);
                at += found.end();
            }
            if at > hold {
                // A secret reached beyond it: what follows is judged anew.
                rest = &rest[at..];
                continue;
            }
            shown.push_str(&rest[at..hold]);
            rest = &rest[hold..];
            break;
        }
        self.held = rest.to_owned();
        shown
    }

    /// Ends the text, and returns the rest of it.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let Some(known) = &self.secrets.0 else { return String::new() };
        let held = std::mem::take(&mut self.held);
        let mut shown = String::new();
        let mut at = 0;
        while at < held.len() {
            let cut = known.hold(&held[at..]).map_or(held.len(), |cut| at + cut);
            let found = known.finder.find(&held[at..]);
            if let Some(found) = found.filter(|found| at + found.start() <= cut) {
                shown.push_str(&held[at..at + found.start()]);
                shown.push_str(&known.forms[found.pattern().as_usize()].1);
                at += found.end();
                continue;
            }
            match known.starts(&held[cut..]).filter(|_| held.len() - cut >= SHORTEST) {
                Some(name) => {
                    shown.push_str(&held[at..cut]);
                    shown.push_str(name);
                    at = held.len();
                }
                None => {
                    let next = held[cut..].chars().next().map_or(held.len(), |c| cut + c.len_utf8());
                    shown.push_str(&held[at..next]);
                    at = next;
                }
            }
        }
        shown
    }
}

/// Returns every form in which a value may stand in a text.
fn forms_of(value: &[u8]) -> Vec<String> {
    let raw = String::from_utf8_lossy(value);
    let quoted = serde_json::Value::from(raw.as_ref()).to_string();
    let mut forms = vec![quoted[1..quoted.len() - 1].to_owned(), raw.into_owned()];
    // What encoders leave as it is: RFC 3986, and JavaScript's encodeURIComponent.
    for kept in ["-_.~", "-_.~!*'()"] {
        forms.extend([
            url_encoded(value, kept, b"0123456789ABCDEF"),
            url_encoded(value, kept, b"0123456789abcdef"),
        ]);
    }
    for symbols in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            forms.extend(in_base64(value, before, symbols));
        }
    }
    forms
}

fn url_encoded(value: &[u8], kept: &str, digits: &[u8; 16]) -> String {
    let mut encoded = String::with_capacity(value.len());
    for &byte in value {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let digit = |index: u8| char::from(digits[usize::from(index)]);
            encoded.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    encoded
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns what a value looks like in base64 after so many bytes of something else, up to two: with something after
/// it, and at the end, with padding and without.
fn in_base64(value: &[u8], before: usize, symbols: &[u8; 64]) -> Vec<String> {
    let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(value.iter().copied()).collect();
    let mut encoded = String::new();
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |group, &byte| group << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        let symbol = |index: usize| char::from(symbols[(group >> (18 - 6 * index) & 63) as usize]);
        encoded.extend((0..=chunk.len()).map(symbol));
    }
    // The first and the last symbol may hold bits of what stands around the value.
    let first = (before * 8).div_ceil(6);
    let whole = bytes.len() * 8 / 6;
    let padding = "=".repeat((3 - bytes.len() % 3) % 3);
    let end = &encoded[first..];
    vec![encoded[first..whole].to_owned(), end.to_owned(), format!("{end}{padding}")]
}
