//! Secrets of a run, found in a text in every common form and replaced by their names.
//!
//! ```
//! use agentd::secret::Secrets;
//!
//! let secrets = Secrets::new([("API_KEY".to_owned(), b"sk-1234567890".to_vec())]);
//! assert_eq!(secrets.redact("key=sk-1234567890"), "key=[secret API_KEY]");
//! assert_eq!(secrets.redact("c2stMTIzNDU2Nzg5MA=="), "[secret API_KEY]");
//! ```
//!
//! Agents, the ledger and the terminal all need this module, so it belongs to none of them.
//!
//! The search skips what showing a text removes: escape sequences, control characters and invisible characters would
//! otherwise hide a secret that is put together again on the screen. It skips line breaks as well, with the indentation and
//! the marks of diffs, quotes and comments around them, because encoders break base64 into lines.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::text::invisible::is_invisible;
use crate::text::terminal::{TerminalFilter, filter_terminal_text};

/// The shortest value that is looked for, and the shortest start of one at the end of a text.
const SHORTEST: usize = 8;

/// The characters that end a piece of text between marks, and begin the next.
const MARKS: [char; 4] = ['<', '>', '[', ']'];

/// Maximum size in bytes of what is searched at once in a long text.
const MAX_PIECE_BYTES: usize = 1024 * 1024;

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
            let text = String::from_utf8_lossy(&value);
            values.push((searchable(&text).replace(MARKS, ""), Arc::clone(&shown)));
            for form in forms_of(&value) {
                let seen = searchable(&form);
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
        let is_searched_whole = !text.contains(['\n', '\\']) && is_seen_whole(text);
        if is_searched_whole && known.finder.find(text).is_none() && known.hold(text).is_none() {
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
        if redacted == text {
            return Cow::Borrowed(text);
        }
        Cow::Owned(redacted)
    }

    /// Returns a whole reply without secrets, in any form and in pieces. Drivers of this crate redact what they read, but
    /// a scripted reply and the drivers of other programs come here as they are.
    #[must_use]
    pub fn redact_reply(&self, text: &str) -> String {
        let redacted = self.redact(text);
        self.redact_markup(&redacted).into_owned()
    }

    /// Returns a whole reply in which also those secrets are replaced that its markup keeps in pieces: reading it
    /// removes tags, thoughts and CDATA marks, and joins the text around them.
    #[must_use]
    pub fn redact_markup<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = self.0.as_ref().filter(|_| text.contains(MARKS)) else {
            return Cow::Borrowed(text);
        };
        let mut held = Held::new(ReplyReader::Joined);
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
            stages: ReplyReader::ALL.map(Held::new),
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
    /// One stage per reading, in the order in which the text passes them. Each holds back what may be the start of a
    /// secret.
    stages: [Held; ReplyReader::ALL.len()],
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: usize = self.stages.iter().map(|held| held.raw.len()).sum();
        write!(f, "Redactor({held} bytes held)")
    }
}

impl Redactor {
    /// Takes a piece, and returns what can be shown of the text so far and has not been returned yet.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        let mut shown = piece.to_owned();
        if let Some(known) = &self.secrets.0 {
            for held in &mut self.stages {
                held.push(&shown);
                shown = held.release(known);
            }
        }
        shown
    }

    /// Ends the text, and returns the rest of it.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        if let Some(known) = &self.secrets.0 {
            for held in &mut self.stages {
                held.push(&shown);
                shown = held.release(known);
                shown.push_str(&held.finish(known));
            }
        }
        shown
    }
}

/// Returns the places of the pieces of a value in a text, if it is in pieces there that only marks, and whatever is between
/// marks, keep apart. The value is without its own marks, which cannot be distinguished from those. The pieces before the last are searched for in every run of text without a mark: `reached` holds for
/// each length of the value's start the places of its pieces.
fn pieces_of(text: &str, value: &str) -> Vec<Piece> {
    if value.len() < SHORTEST {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut reached: BTreeMap<usize, Vec<Piece>> = BTreeMap::new();
    let mut start = 0;
    for run in text.split(MARKS) {
        if run.is_empty() {
            start += 1;
            continue;
        }
        let end = start + run.len();
        let mut longer = Vec::new();
        for (&length, pieces) in &reached {
            let rest = &value[length..];
            if run.starts_with(rest) {
                found.extend(pieces.iter().cloned().chain([(start, start + rest.len())]));
            } else if rest.starts_with(run) {
                longer.push((
                    length + run.len(),
                    pieces.iter().cloned().chain([(start, end)]).collect(),
                ));
            }
        }
        let starts =
            (1..value.len().min(run.len() + 1)).filter(|&length| value.is_char_boundary(length));
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

/// A way to read a text when secrets are looked for in it: what is left out next to a line break.
///
/// One is not enough. Base64 can begin a line with `+`, which is also the mark of an added line in a diff, and a secret can
/// begin with `n` after a backslash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyReader {
    /// Line breaks and the indentation after them are left out.
    Joined,
    /// Also backslashes: a `\n` or `\r` that JSON wrote is a line break.
    Unescaped,
    /// Also the first `+`, `-`, `>` or `#` of a line: diffs, quotes and comments put it there.
    Unmarked,
}

impl ReplyReader {
    const ALL: [Self; 3] = [Self::Joined, Self::Unescaped, Self::Unmarked];
}

/// A position in a line, as far as a [`ReplyReader`] depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePosition {
    Start,
    AfterMark,
    Words,
}

/// A text as it is, and what of it is searched.
struct Held {
    reading: ReplyReader,
    raw: String,
    /// A part of the characters of `raw`, in their order.
    seen: String,
    /// Each start of a part of `seen` that is contiguous in `raw`.
    parts: Vec<Part>,
    terminal: TerminalFilter,
    position: LinePosition,
    is_escaped: bool,
}

/// The offsets in both texts at which a contiguous part starts.
struct Part {
    seen: usize,
    raw: usize,
}

impl Held {
    fn new(reading: ReplyReader) -> Self {
        Self {
            reading,
            raw: String::new(),
            seen: String::new(),
            parts: Vec::new(),
            terminal: TerminalFilter::default(),
            position: LinePosition::Start,
            is_escaped: false,
        }
    }

    /// Adds a piece of the text.
    fn push(&mut self, piece: &str) {
        for line in piece.split_inclusive('\n') {
            let has_escapes = self.reading != ReplyReader::Joined
                && (self.is_escaped || line.as_bytes().contains(&b'\\'));

            if !has_escapes && self.terminal == TerminalFilter::default() && is_seen_whole(line) {
                self.push_plain(line);
            } else {
                self.push_chars(line);
            }
        }
    }

    /// Adds a line of which only its start and its end can be left out.
    fn push_plain(&mut self, line: &str) {
        let left_out = line
            .char_indices()
            .find(|(_, c)| !self.leaves_out(*c))
            .map_or(line.len(), |(at, _)| at);
        let (start, words) = line.split_at(left_out);

        self.raw.push_str(start);
        self.keep(words.trim_end_matches('\n'));

        if words.ends_with('\n') {
            self.raw.push('\n');
            self.position = LinePosition::Start;
        }
    }

    /// Adds a text character by character.
    fn push_chars(&mut self, text: &str) {
        for c in text.chars() {
            let mut buffer = [0; 4];
            let c_text = &*c.encode_utf8(&mut buffer);
            let shown = self.terminal.push(c_text).chars().next();

            match shown {
                // A carriage return is shown as a line end, so what is shown differs from `c`.
                Some(shown) if !is_invisible(shown) && !self.leaves_out(shown) => self.keep(c_text),
                _ => self.raw.push(c),
            }
        }
    }

    /// Adds a text that is searched whole.
    fn keep(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let (seen, raw) = (self.seen.len(), self.raw.len());
        let is_contiguous = match self.parts.last() {
            Some(part) => raw - seen == part.raw - part.seen,
            None => raw == seen,
        };
        if !is_contiguous {
            self.parts.push(Part { seen, raw });
        }
        self.raw.push_str(text);
        self.seen.push_str(text);
    }

    /// Returns true if the next character that a reader sees is left out of the search.
    fn leaves_out(&mut self, c: char) -> bool {
        let is_escaped = std::mem::take(&mut self.is_escaped);
        match c {
            '\n' => self.position = LinePosition::Start,
            '\\' if self.reading != ReplyReader::Joined => self.is_escaped = true,
            'n' | 'r' if is_escaped => self.position = LinePosition::Start,
            't' if is_escaped && self.position != LinePosition::Words => {}
            ' ' | '\t' if self.position != LinePosition::Words => {}
            '+' | '-' | '>' | '#'
                if self.reading == ReplyReader::Unmarked
                    && self.position == LinePosition::Start =>
            {
                self.position = LinePosition::AfterMark;
            }
            _ => {
                self.position = LinePosition::Words;
                return false;
            }
        }
        true
    }

    /// Returns what cannot be part of a secret that goes on after the text so far, with secrets replaced, and forgets it.
    fn release(&mut self, known: &Known) -> String {
        let mut shown = String::with_capacity(self.raw.len());
        let (mut at, mut raw_at) = (0, 0);
        // Before the place to hold at no form is incomplete, so what is found there stays as it is.
        let hold = loop {
            let hold = known
                .hold(&self.seen[at..])
                .map_or(self.seen.len(), |hold| at + hold);
            while let Some(found) = known
                .finder
                .find(&self.seen[at..])
                .filter(|found| at + found.start() < hold)
            {
                shown.push_str(&self.raw[raw_at..self.raw_start(at + found.start())]);
                shown.push_str(&known.forms[found.pattern().as_usize()].1);
                at += found.end();
                raw_at = self.raw_end(at);
            }
            // A secret that reached beyond it: what follows is judged anew.
            if at <= hold {
                break hold;
            }
        };
        let raw_hold = self.raw_start(hold);
        shown.push_str(&self.raw[raw_at..raw_hold]);
        self.forget(hold, raw_hold);
        shown
    }

    /// Ends the text, and returns the rest of it with secrets replaced, also one that the end cuts off.
    fn finish(&mut self, known: &Known) -> String {
        let held = std::mem::replace(self, Self::new(self.reading));
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

    /// Returns the offset in `raw` at which the character at an offset of `seen` starts.
    fn raw_start(&self, at: usize) -> usize {
        if at == self.seen.len() {
            return self.raw.len();
        }
        self.raw_offset(at, at)
    }

    /// Returns the offset in `raw` at which the character before an offset of `seen` ends.
    fn raw_end(&self, at: usize) -> usize {
        self.raw_offset(at, at.saturating_sub(1))
    }

    /// Returns the offset in `raw` of an offset in `seen`, by the part that an offset is in.
    fn raw_offset(&self, at: usize, inside: usize) -> usize {
        let next = self.parts.partition_point(|part| part.seen <= inside);
        match next.checked_sub(1).and_then(|last| self.parts.get(last)) {
            Some(part) => part.raw + (at - part.seen),
            None => at,
        }
    }

    /// Forgets the starts of both texts.
    fn forget(&mut self, seen: usize, raw: usize) {
        let is_emptied = seen == self.seen.len();
        self.raw.drain(..raw);
        self.seen.drain(..seen);
        if is_emptied {
            self.parts.clear();
            return;
        }

        let later = self.parts.partition_point(|part| part.seen <= seen);
        self.parts.drain(..later);
        for part in &mut self.parts {
            part.seen -= seen;
            part.raw -= raw;
        }
    }
}

/// Returns what is searched of a text.
fn searchable(text: &str) -> String {
    let mut held = Held::new(ReplyReader::Joined);
    held.push(text);
    held.seen
}

/// Returns true if a reader sees every character of a text as it is.
fn is_seen_whole(text: &str) -> bool {
    matches!(filter_terminal_text(text), Cow::Borrowed(_))
        && (text.is_ascii() || !text.contains(is_invisible))
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
