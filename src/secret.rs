//! Values that must not be seen: found in a text in every common form, and replaced by their names.
//!
//! A room of its own, as the rooms that speak to agents, keep the ledger and print all need it.
//!
//! A secret is looked for in what a reader sees of a text: escape sequences, control characters and invisible characters
//! are left out of the search, because showing the text removes them, and would put the secret together again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::models::{Screen, is_invisible, screen};

/// The shortest value that is looked for, and the shortest start of one at the end of a text.
const SHORTEST: usize = 8;

/// The characters that end a piece of text between marks, and begin the next.
const MARKS: [char; 4] = ['<', '>', '[', ']'];

/// Maximum size in bytes of what is searched at once in a long text.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// The secrets of a run: cheap to clone, and silent about their values.
#[derive(Clone, Default)]
pub struct Secrets(Option<Arc<Known>>);

struct Known {
    finder: AhoCorasick,
    /// The forms in the order of the finder's patterns: sorted, so that a start can be looked up.
    forms: Vec<(String, Name)>,
    longest: usize,
    names: BTreeSet<String>,
    /// The values as a reader sees them.
    values: Vec<(String, Name)>,
}

/// What stands for a secret.
type Name = Arc<str>;

/// Where a piece of a secret starts and ends in a text.
type Piece = (usize, usize);

impl Secrets {
    /// Collects secrets by name and value. Values of less than 8 bytes are too common to be looked for.
    pub fn new(named: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let mut forms: BTreeMap<String, Name> = BTreeMap::new();
        let mut names = BTreeSet::new();
        let mut values = Vec::new();
        for (name, value) in named {
            if value.len() < SHORTEST {
                continue;
            }
            let shown: Name = format!("[secret {name}]").into();
            names.insert(name);
            values.push((seen(&String::from_utf8_lossy(&value)), Arc::clone(&shown)));
            for form in forms_of(&value) {
                let seen = seen(&form);
                if seen.len() >= SHORTEST {
                    forms.entry(seen).or_insert_with(|| Arc::clone(&shown));
                }
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
        Self(longest.map(|longest| {
            Arc::new(Known {
                finder,
                forms,
                longest,
                names,
                values,
            })
        }))
    }

    /// Returns the names of those that are looked for, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .flat_map(|known| &known.names)
            .map(String::as_str)
    }

    /// Returns a text in which each secret is replaced by `[secret NAME]`, also one that the text's end cuts off.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = &self.0 else {
            return Cow::Borrowed(text);
        };
        if is_seen_whole(text) && known.finder.find(text).is_none() && known.hold(text).is_none() {
            return Cow::Borrowed(text);
        }
        let mut stream = self.stream();
        let mut redacted = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, others) = rest.split_at(rest.floor_char_boundary(MAX_PIECE_BYTES));
            redacted.push_str(&stream.push(piece));
            rest = others;
        }
        redacted.push_str(&stream.finish());
        Cow::Owned(redacted)
    }

    /// Returns a whole reply in which also those secrets are replaced that its markup keeps in pieces: reading it
    /// removes tags, thoughts and CDATA marks, and joins the text around them.
    #[must_use]
    pub fn redact_markup<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = self.0.as_ref().filter(|_| text.contains(MARKS)) else {
            return Cow::Borrowed(text);
        };
        let mut held = Held::default();
        held.push(text);
        let pieces: Vec<(Piece, &Name)> = known
            .values
            .iter()
            .flat_map(|(value, name)| {
                pieces_of(&held.seen, value)
                    .into_iter()
                    .map(move |piece| (piece, name))
            })
            .collect();
        if pieces.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut pieces: Vec<_> = pieces
            .into_iter()
            .map(|((start, end), name)| (held.raw_start(start), held.raw_end(end), name))
            .collect();
        pieces.sort_by_key(|(start, end, _)| (*start, *end));
        let mut redacted = String::with_capacity(text.len());
        let mut at = 0;
        for (start, end, name) in pieces {
            if start >= at {
                redacted.push_str(&text[at..start]);
                redacted.push_str(name);
            }
            at = at.max(end);
        }
        redacted.push_str(&text[at..]);
        Cow::Owned(redacted)
    }

    /// Returns what does the same to a text that comes in pieces.
    #[must_use]
    pub fn stream(&self) -> Redactor {
        Redactor {
            secrets: self.clone(),
            held: Held::default(),
        }
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
        let next = self
            .forms
            .partition_point(|(form, _)| form.as_str() <= start);
        self.forms
            .get(next)
            .filter(|(form, _)| form.starts_with(start))
            .map(|(_, name)| name)
    }
}

/// Replaces secrets in a text that comes in pieces, however it is split.
pub struct Redactor {
    secrets: Secrets,
    /// What may be the start of a secret.
    held: Held,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} bytes held)", self.held.raw.len())
    }
}

impl Redactor {
    /// Takes a piece, and returns what can be shown of the text so far and has not been returned yet.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        let Some(known) = &self.secrets.0 else {
            return piece.to_owned();
        };
        self.held.push(piece);
        let held = &self.held;
        let mut shown = String::with_capacity(held.raw.len());
        let (mut at, mut raw_at) = (0, 0);
        // Before the place to hold at no form is incomplete, so what is found there stays as it is.
        let hold = loop {
            let hold = known
                .hold(&held.seen[at..])
                .map_or(held.seen.len(), |hold| at + hold);
            while let Some(found) = known
                .finder
                .find(&held.seen[at..])
                .filter(|found| at + found.start() < hold)
            {
                shown.push_str(&held.raw[raw_at..held.raw_start(at + found.start())]);
                shown.push_str(&known.forms[found.pattern().as_usize()].1);
                at += found.end();
                raw_at = held.raw_end(at);
            }
            // A secret that reached beyond it: what follows is judged anew.
            if at <= hold {
                break hold;
            }
        };
        let raw_hold = held.raw_start(hold);
        shown.push_str(&held.raw[raw_at..raw_hold]);
        self.held.forget(hold, raw_hold);
        shown
    }

    /// Ends the text, and returns the rest of it.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let Some(known) = &self.secrets.0 else {
            return String::new();
        };
        let held = std::mem::take(&mut self.held);
        let seen = held.seen.as_str();
        let mut shown = String::new();
        let (mut at, mut raw_at) = (0, 0);
        while at < seen.len() {
            let cut = known.hold(&seen[at..]).map_or(seen.len(), |cut| at + cut);
            let found = known.finder.find(&seen[at..]);
            if let Some(found) = found.filter(|found| at + found.start() <= cut) {
                shown.push_str(&held.raw[raw_at..held.raw_start(at + found.start())]);
                shown.push_str(&known.forms[found.pattern().as_usize()].1);
                at += found.end();
                raw_at = held.raw_end(at);
                continue;
            }
            match known
                .starts(&seen[cut..])
                .filter(|_| seen.len() - cut >= SHORTEST)
            {
                Some(name) => {
                    shown.push_str(&held.raw[raw_at..held.raw_start(cut)]);
                    shown.push_str(name);
                    (at, raw_at) = (seen.len(), held.raw.len());
                }
                None => {
                    at = seen[cut..]
                        .chars()
                        .next()
                        .map_or(seen.len(), |c| cut + c.len_utf8());
                    let raw_end = held.raw_end(at);
                    shown.push_str(&held.raw[raw_at..raw_end]);
                    raw_at = raw_end;
                }
            }
        }
        shown.push_str(&held.raw[raw_at..]);
        shown
    }
}

/// Returns the places of the pieces of a value in a text, if it is in pieces there that only marks, and whatever is between
/// marks, keep apart. The pieces before the last are searched for in every run of text without a mark: `reached` holds for
/// each length of the value's start the places of its pieces.
fn pieces_of(text: &str, value: &str) -> Vec<Piece> {
    // A value that contains a mark cannot be distinguished from markup.
    if value.len() < SHORTEST || value.contains(MARKS) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut reached: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
    let mut start = 0;
    for run in text.split(MARKS) {
        let end = start + run.len();
        let mut longer = Vec::new();
        for (&length, pieces) in &reached {
            let rest = &value[length..];
            if run.starts_with(rest) {
                found.extend(pieces.iter().cloned().chain([(start, start + rest.len())]));
            } else if !run.is_empty() && rest.starts_with(run) {
                longer.push((
                    length + run.len(),
                    pieces.iter().cloned().chain([(start, end)]).collect(),
                ));
            }
        }
        let starts = (1..value.len()).filter(|&length| value.is_char_boundary(length));
        longer.extend(
            starts
                .filter(|&length| run.ends_with(&value[..length]))
                .map(|length| (length, vec![(end - length, end)])),
        );
        reached.extend(longer);
        start = end + 1;
    }
    found
}

/// A text as it is, and what a reader sees of it.
#[derive(Default)]
struct Held {
    raw: String,
    seen: String,
    /// Where in `raw` the character of each byte of `seen` starts and ends; empty if both texts are the same.
    places: Vec<(usize, usize)>,
    screen: Screen,
}

impl Held {
    fn push(&mut self, piece: &str) {
        if self.places.is_empty() && self.screen == Screen::default() && is_seen_whole(piece) {
            self.raw.push_str(piece);
            self.seen.push_str(piece);
            return;
        }
        if self.places.is_empty() {
            self.places = self.seen.char_indices().flat_map(place_of).collect();
        }
        for c in piece.chars() {
            let start = self.raw.len();
            self.raw.push(c);
            let mut buffer = [0; 4];
            let shown = self.screen.push(c.encode_utf8(&mut buffer));
            for c in shown.chars().filter(|c| !is_invisible(*c)) {
                self.seen.push(c);
                self.places
                    .extend(std::iter::repeat_n((start, self.raw.len()), c.len_utf8()));
            }
        }
    }

    /// Returns where in the text as it is the character at a place of what is seen starts.
    fn raw_start(&self, at: usize) -> usize {
        if at == self.seen.len() {
            return self.raw.len();
        }
        self.places.get(at).map_or(at, |(start, _)| *start)
    }

    /// Returns where in the text as it is the character before a place of what is seen ends.
    fn raw_end(&self, at: usize) -> usize {
        at.checked_sub(1)
            .and_then(|last| self.places.get(last))
            .map_or(at, |(_, end)| *end)
    }

    /// Forgets the starts of both texts.
    fn forget(&mut self, seen: usize, raw: usize) {
        self.raw.drain(..raw);
        self.seen.drain(..seen);
        if !self.places.is_empty() {
            self.places.drain(..seen);
            self.places
                .iter_mut()
                .for_each(|(start, end)| (*start, *end) = (*start - raw, *end - raw));
        }
    }
}

fn place_of((at, c): (usize, char)) -> impl Iterator<Item = (usize, usize)> {
    std::iter::repeat_n((at, at + c.len_utf8()), c.len_utf8())
}

/// Returns what a reader sees of a text.
fn seen(text: &str) -> String {
    screen(text).chars().filter(|c| !is_invisible(*c)).collect()
}

/// Returns true if a reader sees every character of a text as it is.
fn is_seen_whole(text: &str) -> bool {
    matches!(screen(text), Cow::Borrowed(_)) && (text.is_ascii() || !text.contains(is_invisible))
}

/// Returns every form in which a value may stand in a text.
fn forms_of(value: &[u8]) -> Vec<String> {
    let raw = String::from_utf8_lossy(value);
    let mut forms = vec![raw.clone().into_owned()];
    forms.extend(in_json(&raw));
    forms.extend(in_xml(&raw));
    // Characters that encoders leave as they are: RFC 3986, and JavaScript's encodeURIComponent; and all of it encoded.
    for kept in ["-_.~", "-_.~!*'()"] {
        forms.extend([
            url_encoded(value, kept, b"0123456789ABCDEF"),
            url_encoded(value, kept, b"0123456789abcdef"),
        ]);
    }
    forms.extend([b"0123456789ABCDEF", b"0123456789abcdef"].map(|digits| {
        let digit = |index: u8| char::from(digits[usize::from(index)]);
        value
            .iter()
            .flat_map(|byte| ['%', digit(byte >> 4), digit(byte & 15)])
            .collect::<String>()
    }));
    for symbols in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            forms.extend(in_base64(value, before, symbols));
        }
    }
    forms
}

/// Returns a text as writers of JSON write it: as little escaped as can be, with `/`, with what HTML would obey, with all
/// that is not ASCII, and all of it.
fn in_json(text: &str) -> Vec<String> {
    let quoted = serde_json::Value::from(text).to_string();
    let plain = quoted[1..quoted.len() - 1].to_owned();
    let units = |c: char, digits: fn(u16) -> String| {
        let mut buffer = [0; 2];
        c.encode_utf16(&mut buffer)
            .iter()
            .map(|unit| digits(*unit))
            .collect::<String>()
    };
    let lower: fn(u16) -> String = |unit| format!("\\u{unit:04x}");
    let upper: fn(u16) -> String = |unit| format!("\\u{unit:04X}");
    let mut forms = vec![plain.replace('/', "\\/"), plain.clone()];
    for digits in [lower, upper] {
        let for_html = |c: char| matches!(c, '<' | '>' | '&' | '\'' | '=' | '+');
        let escaped = |escapes: &dyn Fn(char) -> bool| -> String {
            plain
                .chars()
                .map(|c| {
                    if escapes(c) {
                        units(c, digits)
                    } else {
                        c.to_string()
                    }
                })
                .collect()
        };
        forms.push(escaped(&for_html));
        forms.push(escaped(&|c| matches!(c, '<' | '>' | '&')));
        forms.push(escaped(&|c| !c.is_ascii()));
        forms.push(escaped(&|c| !c.is_ascii()).replace('/', "\\/"));
        forms.push(text.chars().map(|c| units(c, digits)).collect());
    }
    forms
}

/// Returns a text as writers of XML write it: with the entities that text needs, that attributes need, and by numbers.
fn in_xml(text: &str) -> Vec<String> {
    let text_only = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let mut forms = vec![
        text.replace('&', "&amp;").replace('<', "&lt;"),
        text_only.clone(),
    ];
    for (double, single) in [
        ("&quot;", "'"),
        ("&quot;", "&apos;"),
        ("&quot;", "&#39;"),
        ("&#34;", "&#39;"),
    ] {
        forms.push(text_only.replace('"', double).replace('\'', single));
    }
    forms.push(
        text.chars()
            .map(|c| format!("&#{};", u32::from(c)))
            .collect(),
    );
    forms.push(
        text.chars()
            .map(|c| format!("&#x{:x};", u32::from(c)))
            .collect(),
    );
    forms.push(
        text.chars()
            .map(|c| format!("&#x{:X};", u32::from(c)))
            .collect(),
    );
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
    let bytes: Vec<u8> = std::iter::repeat_n(0, before)
        .chain(value.iter().copied())
        .collect();
    let mut encoded = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .fold(0_u32, |group, &byte| group << 8 | u32::from(byte))
            << (8 * (3 - chunk.len()));
        let symbol = |index: usize| char::from(symbols[(group >> (18 - 6 * index) & 63) as usize]);
        encoded.extend((0..=chunk.len()).map(symbol));
    }
    // The first and the last symbol may hold bits of what stands around the value.
    let first = (before * 8).div_ceil(6);
    let whole = bytes.len() * 8 / 6;
    let padding = "=".repeat((3 - bytes.len() % 3) % 3);
    let end = &encoded[first..];
    vec![
        encoded[first..whole].to_owned(),
        end.to_owned(),
        format!("{end}{padding}"),
    ]
}
