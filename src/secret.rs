//! Redaction: replaces each secret of a run, plain or in a common encoding, with its name.
//!
//! ```
//! use agentd::secret::Secrets;
//!
//! let secrets = Secrets::new([("API_KEY".to_owned(), b"sk-1234567890".to_vec())]);
//! assert_eq!(secrets.redact("key=sk-1234567890"), "key=[secret API_KEY]");
//! assert_eq!(secrets.redact("c2stMTIzNDU2Nzg5MA=="), "[secret API_KEY]");
//! ```
//!
//! Agents, the ledger and terminal output all use this module, so it is not part of one of their modules.
//!
//! The search skips characters that a terminal does not show: escape sequences, control characters and invisible
//! characters would otherwise hide a secret that is readable on the screen. It also skips line breaks, with the
//! indentation and the marks of diffs, quotes and comments around them, because encoders break base64 into lines.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::text::invisible::is_invisible;
use crate::text::terminal::{TerminalFilter, filter_terminal_text};

/// Minimum length of a redacted value, and of a truncated value at the end of the searched text.
const MIN_SECRET_BYTES: usize = 8;

/// Delimiters of tags. Tags in the middle of a secret split it into parts.
const MARKS: [char; 4] = ['<', '>', '[', ']'];

/// Maximum number of bytes of a long text that are searched at once.
const MAX_CHUNK_BYTES: usize = 1024 * 1024;

/// The secrets of a run. Clones are cheap, and `Debug` does not print values.
#[derive(Clone, Default)]
pub struct Secrets(Option<Arc<KnownSecrets>>);

struct KnownSecrets {
    finder: AhoCorasick,
    /// Encoded values, in the order of the finder's patterns: sorted, so that a prefix can be looked up.
    forms: Vec<(String, Replacement)>,
    /// Length in bytes of the longest form.
    longest: usize,
    names: BTreeSet<String>,
    /// Visible characters of each value, without markup delimiters.
    values: Vec<(String, Replacement)>,
}

/// Text that replaces a secret: `[secret NAME]`.
type Replacement = Arc<str>;

/// Start and end offset of a part of a secret in the searched text.
type TextSpan = (usize, usize);

impl Secrets {
    /// Creates the set of secrets from names and values. Values of less than 8 bytes are ignored: they are too common.
    pub fn new(secrets: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let mut forms: BTreeMap<String, Replacement> = BTreeMap::new();
        let mut names = BTreeSet::new();
        let mut values = Vec::new();
        for (name, value) in secrets {
            if value.len() < MIN_SECRET_BYTES {
                continue;
            }
            let replacement: Replacement = format!("[secret {name}]").into();
            names.insert(name);
            let text = String::from_utf8_lossy(&value);
            values.push((
                keep_searchable(&text).replace(MARKS, ""),
                Arc::clone(&replacement),
            ));
            for form in encode_all(&value) {
                let searched = keep_searchable(&form);
                if searched.len() >= MIN_SECRET_BYTES {
                    forms
                        .entry(searched)
                        .or_insert_with(|| Arc::clone(&replacement));
                }
            }
        }
        if forms.is_empty() {
            return Self(None);
        }

        let forms: Vec<_> = forms.into_iter().collect();
        let built = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(forms.iter().map(|(form, _)| form));
        let Ok(finder) = built else {
            // Happens only with more patterns than fit in 31 bits, which an environment cannot hold.
            log::error!("too many secrets: nothing is redacted");
            return Self(None);
        };
        let longest = forms.iter().map(|(form, _)| form.len()).max();
        Self(longest.map(|longest| {
            Arc::new(KnownSecrets {
                finder,
                forms,
                longest,
                names,
                values,
            })
        }))
    }

    /// Returns the sorted names of the secrets that are redacted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .flat_map(|known| &known.names)
            .map(String::as_str)
    }

    /// Replaces each secret in `text` with `[secret NAME]`, including one that is truncated at the end of the text.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = &self.0 else {
            return Cow::Borrowed(text);
        };
        let is_searched_whole = !text.contains(['\n', '\\']) && is_seen_whole(text);
        if is_searched_whole
            && known.finder.find(text).is_none()
            && known.find_held_suffix(text).is_none()
        {
            return Cow::Borrowed(text);
        }

        let mut stream = self.stream();
        let mut redacted = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(rest.floor_char_boundary(MAX_CHUNK_BYTES));
            redacted.push_str(&stream.push(chunk));
            rest = later;
        }
        redacted.push_str(&stream.finish());
        if redacted == text {
            return Cow::Borrowed(text);
        }
        Cow::Owned(redacted)
    }

    /// Redacts a complete reply, including secrets that are split by markup. Drivers of this crate redact the output that
    /// they read; scripted replies and replies of other drivers arrive unredacted.
    #[must_use]
    pub fn redact_reply(&self, text: &str) -> String {
        let redacted = self.redact(text);
        self.redact_markup(&redacted).into_owned()
    }

    /// Replaces secrets that are split into parts by the markup of a complete reply. Parsing a reply removes tags, thoughts
    /// and CDATA markers, which would join the parts.
    #[must_use]
    pub fn redact_markup<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = self.0.as_ref().filter(|_| text.contains(MARKS)) else {
            return Cow::Borrowed(text);
        };
        let mut held = HeldText::new(LineReading::Joined);
        held.push(text);
        let parts: Vec<(TextSpan, &Replacement)> = known
            .values
            .iter()
            .flat_map(|(value, name)| {
                find_split_value(&held.seen, value)
                    .into_iter()
                    .map(move |part| (part, name))
            })
            .collect();
        if parts.is_empty() {
            return Cow::Borrowed(text);
        }

        let mut raw_parts: Vec<_> = parts
            .into_iter()
            .map(|((start, end), name)| (held.raw_start(start), held.raw_end(end), name))
            .collect();
        raw_parts.sort_by_key(|(start, end, _)| (*start, *end));

        let mut redacted = String::with_capacity(text.len());
        let mut at = 0;
        for (start, end, name) in raw_parts {
            if start >= at {
                redacted.push_str(&text[at..start]);
                redacted.push_str(name);
            }
            at = at.max(end);
        }
        redacted.push_str(&text[at..]);
        Cow::Owned(redacted)
    }

    /// Returns a redactor for text that arrives in chunks.
    #[must_use]
    pub fn stream(&self) -> Redactor {
        Redactor {
            secrets: self.clone(),
            stages: LineReading::ALL.map(HeldText::new),
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = self.0.as_ref().map_or(0, |known| known.forms.len());
        write!(f, "Secrets({forms} forms)")
    }
}

impl KnownSecrets {
    /// Returns the start of the longest suffix of the text that is a proper prefix of some form: from there on, the text
    /// may continue as a secret. `None` if there is no such suffix.
    fn find_held_suffix(&self, text: &str) -> Option<usize> {
        let from = text.len().saturating_sub(self.longest - 1);
        (from..text.len())
            .filter(|&at| text.is_char_boundary(at))
            .find(|&at| self.find_by_prefix(&text[at..]).is_some())
    }

    /// Returns the replacement of a form that has this proper prefix.
    fn find_by_prefix(&self, start: &str) -> Option<&Replacement> {
        let next = self
            .forms
            .partition_point(|(form, _)| form.as_str() <= start);
        self.forms
            .get(next)
            .filter(|(form, _)| form.starts_with(start))
            .map(|(_, name)| name)
    }
}

/// Replaces secrets in text that arrives in chunks. A secret may be split between chunks.
pub struct Redactor {
    secrets: Secrets,
    /// One stage per [`LineReading`]. The text passes through the stages in order; each holds back a suffix that may be the
    /// start of a secret.
    stages: [HeldText; LineReading::ALL.len()],
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: usize = self.stages.iter().map(|held| held.raw.len()).sum();
        write!(f, "Redactor({held} bytes held)")
    }
}

impl Redactor {
    /// Adds a chunk. Returns the text that can no longer be part of a secret, with secrets replaced.
    #[must_use]
    pub fn push(&mut self, chunk: &str) -> String {
        let mut shown = chunk.to_owned();
        if let Some(known) = &self.secrets.0 {
            for held in &mut self.stages {
                held.push(&shown);
                shown = held.release(known);
            }
        }
        shown
    }

    /// Ends the text. Returns the text that was held back, with secrets replaced.
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

/// Finds a value that markup splits into parts, and returns the offsets of the parts. The value must not contain
/// delimiters.
///
/// The text is split at the delimiters into runs. `reached` maps the length of each prefix of the value that has been
/// found so far to the offsets of its parts. Each run can complete a prefix to the whole value, extend it if the whole run
/// continues the value, or start a new prefix at its end. A run that fits nowhere is skipped, because tags between two
/// parts do not matter.
fn find_split_value(text: &str, value: &str) -> Vec<TextSpan> {
    if value.len() < MIN_SECRET_BYTES {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut reached: BTreeMap<usize, Vec<TextSpan>> = BTreeMap::new();
    let mut start = 0;
    for run in text.split(MARKS) {
        if run.is_empty() {
            start += 1;
            continue;
        }
        let end = start + run.len();
        let mut longer = Vec::new();
        for (&length, parts) in &reached {
            let rest = &value[length..];
            if run.starts_with(rest) {
                found.extend(parts.iter().cloned().chain([(start, start + rest.len())]));
            } else if rest.starts_with(run) {
                longer.push((
                    length + run.len(),
                    parts.iter().cloned().chain([(start, end)]).collect(),
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

/// Set of characters that the search skips next to a line break.
///
/// One reading is not enough. A line of base64 can start with `+`, which is also the mark of an added line in a diff, and
/// a secret can start with `n` after a backslash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineReading {
    /// Skips line breaks and the indentation after them.
    Joined,
    /// Also skips backslashes, and treats an escaped `\n` or `\r` of JSON as a line break.
    Unescaped,
    /// Also skips the first `+`, `-`, `>` or `#` of a line: the mark of a diff, a quote or a comment.
    Unmarked,
}

impl LineReading {
    const ALL: [Self; 3] = [Self::Joined, Self::Unescaped, Self::Unmarked];
}

/// A position in a line, as far as a [`LineReading`] depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePosition {
    Start,
    AfterMark,
    Words,
}

/// Text that a stage holds back: the raw text, and the characters of it that are searched.
struct HeldText {
    reading: LineReading,
    raw: String,
    /// The searched characters of `raw`, in their order.
    seen: String,
    /// Starts of the parts of `seen` that are contiguous in `raw`; they map offsets from `seen` to `raw`.
    parts: Vec<ContiguousPart>,
    terminal: TerminalFilter,
    position: LinePosition,
    /// True after a backslash.
    is_escaped: bool,
}

/// Offsets in `seen` and in `raw` at which a contiguous part starts.
struct ContiguousPart {
    seen: usize,
    raw: usize,
}

impl HeldText {
    fn new(reading: LineReading) -> Self {
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

    /// Adds a chunk of the text.
    fn push(&mut self, chunk: &str) {
        for line in chunk.split_inclusive('\n') {
            let has_escapes = self.reading != LineReading::Joined
                && (self.is_escaped || line.as_bytes().contains(&b'\\'));

            if !has_escapes && self.terminal == TerminalFilter::default() && is_seen_whole(line) {
                self.push_plain(line);
            } else {
                self.push_chars(line);
            }
        }
    }

    /// Adds a line without escapes and invisible characters. This is the fast path: the search skips only the line's
    /// indentation, its diff or quote mark, and its newline.
    fn push_plain(&mut self, line: &str) {
        let skipped_bytes = line
            .char_indices()
            .find(|(_, c)| !self.skips(*c))
            .map_or(line.len(), |(at, _)| at);
        let (skipped, rest) = line.split_at(skipped_bytes);

        self.raw.push_str(skipped);
        self.keep(rest.trim_end_matches('\n'));

        if rest.ends_with('\n') {
            self.raw.push('\n');
            self.position = LinePosition::Start;
        }
    }

    /// Adds text character by character.
    fn push_chars(&mut self, text: &str) {
        for c in text.chars() {
            let mut buffer = [0; 4];
            let c_text = &*c.encode_utf8(&mut buffer);
            let shown = self.terminal.push(c_text).chars().next();

            match shown {
                // `shown` can differ from `c`: a carriage return is shown as a newline.
                Some(shown) if !is_invisible(shown) && !self.skips(shown) => self.keep(c_text),
                _ => self.raw.push(c),
            }
        }
    }

    /// Adds text of which every character is searched.
    fn keep(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let seen = self.seen.len();
        let raw = self.raw.len();
        let is_contiguous = match self.parts.last() {
            Some(part) => raw - seen == part.raw - part.seen,
            None => raw == seen,
        };
        if !is_contiguous {
            self.parts.push(ContiguousPart { seen, raw });
        }
        self.raw.push_str(text);
        self.seen.push_str(text);
    }

    /// Returns true if the next shown character is skipped in the search.
    fn skips(&mut self, c: char) -> bool {
        let is_escaped = std::mem::take(&mut self.is_escaped);
        match c {
            '\n' => self.position = LinePosition::Start,
            '\\' if self.reading != LineReading::Joined => self.is_escaped = true,
            'n' | 'r' if is_escaped => self.position = LinePosition::Start,
            't' if is_escaped && self.position != LinePosition::Words => {}
            ' ' | '\t' if self.position != LinePosition::Words => {}
            '+' | '-' | '>' | '#'
                if self.reading == LineReading::Unmarked
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

    /// Removes and returns the text up to the point from which it may continue as a secret, with secrets replaced.
    ///
    /// That point is `hold`. A secret found before it cannot become a longer match later. If a match ends after `hold`, the
    /// point is determined again for the text after the match.
    fn release(&mut self, known: &KnownSecrets) -> String {
        let mut shown = String::with_capacity(self.raw.len());
        let mut at = 0;
        let mut raw_at = 0;
        let hold = loop {
            let hold = known
                .find_held_suffix(&self.seen[at..])
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
            if at <= hold {
                break hold;
            }
        };

        let raw_hold = self.raw_start(hold);
        shown.push_str(&self.raw[raw_at..raw_hold]);
        self.discard(hold, raw_hold);
        shown
    }

    /// Ends the text, and returns the rest with secrets replaced. A prefix of a secret at the end is replaced if it has at
    /// least 8 bytes.
    fn finish(&mut self, known: &KnownSecrets) -> String {
        let held = std::mem::replace(self, Self::new(self.reading));
        let seen = held.seen.as_str();
        let mut shown = String::new();
        let mut at = 0;
        let mut raw_at = 0;
        while at < seen.len() {
            let cut = known
                .find_held_suffix(&seen[at..])
                .map_or(seen.len(), |cut| at + cut);
            let found = known.finder.find(&seen[at..]);
            if let Some(found) = found.filter(|found| at + found.start() <= cut) {
                shown.push_str(&held.raw[raw_at..held.raw_start(at + found.start())]);
                shown.push_str(&known.forms[found.pattern().as_usize()].1);
                at += found.end();
                raw_at = held.raw_end(at);
                continue;
            }

            match known
                .find_by_prefix(&seen[cut..])
                .filter(|_| seen.len() - cut >= MIN_SECRET_BYTES)
            {
                Some(name) => {
                    shown.push_str(&held.raw[raw_at..held.raw_start(cut)]);
                    shown.push_str(name);
                    at = seen.len();
                    raw_at = held.raw.len();
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

    /// Converts an offset in `seen` to an offset in `raw`, by the contiguous part that contains `inside`.
    fn raw_offset(&self, at: usize, inside: usize) -> usize {
        let next = self.parts.partition_point(|part| part.seen <= inside);
        match next.checked_sub(1).and_then(|last| self.parts.get(last)) {
            Some(part) => part.raw + (at - part.seen),
            None => at,
        }
    }

    /// Removes the starts of both texts, up to these offsets.
    fn discard(&mut self, seen: usize, raw: usize) {
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

/// Returns the characters of `text` that are searched.
fn keep_searchable(text: &str) -> String {
    let mut held = HeldText::new(LineReading::Joined);
    held.push(text);
    held.seen
}

/// Returns true if a terminal shows every character of `text` as it is.
fn is_seen_whole(text: &str) -> bool {
    matches!(filter_terminal_text(text), Cow::Borrowed(_))
        && (text.is_ascii() || !text.contains(is_invisible))
}

/// Returns a value in every supported encoding.
fn encode_all(value: &[u8]) -> Vec<String> {
    let raw = String::from_utf8_lossy(value);
    let mut forms = vec![raw.clone().into_owned()];
    forms.extend(escape_json(&raw));
    forms.extend(escape_xml(&raw));

    // URL encoding: with the unreserved characters of RFC 3986, with those of JavaScript's encodeURIComponent, and with
    // every byte encoded.
    for kept in ["-_.~", "-_.~!*'()"] {
        forms.extend([
            encode_url(value, kept, b"0123456789ABCDEF"),
            encode_url(value, kept, b"0123456789abcdef"),
        ]);
    }
    forms.extend([b"0123456789ABCDEF", b"0123456789abcdef"].map(|digits| {
        let digit = |index: u8| char::from(digits[usize::from(index)]);
        value
            .iter()
            .flat_map(|byte| ['%', digit(byte >> 4), digit(byte & 15)])
            .collect::<String>()
    }));

    for symbols in [STANDARD_ALPHABET, URL_SAFE_ALPHABET] {
        for before in 0..3 {
            forms.extend(encode_base64(value, before, symbols));
        }
    }
    forms
}

/// Returns `text` as common JSON writers escape it: only what JSON requires, also `/`, also characters that are special
/// in HTML, also non-ASCII characters, and every character.
fn escape_json(text: &str) -> Vec<String> {
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
        let is_html_special = |c: char| matches!(c, '<' | '>' | '&' | '\'' | '=' | '+');
        let escape_if = |is_escaped: &dyn Fn(char) -> bool| -> String {
            plain
                .chars()
                .map(|c| {
                    if is_escaped(c) {
                        units(c, digits)
                    } else {
                        c.to_string()
                    }
                })
                .collect()
        };
        forms.push(escape_if(&is_html_special));
        forms.push(escape_if(&|c| matches!(c, '<' | '>' | '&')));
        forms.push(escape_if(&|c| !c.is_ascii()));
        forms.push(escape_if(&|c| !c.is_ascii()).replace('/', "\\/"));
        forms.push(text.chars().map(|c| units(c, digits)).collect());
    }
    forms
}

/// Returns `text` as common XML writers escape it: for element text, for attributes, and as numeric character references.
fn escape_xml(text: &str) -> Vec<String> {
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

fn encode_url(value: &[u8], kept: &str, digits: &[u8; 16]) -> String {
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

const STANDARD_ALPHABET: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE_ALPHABET: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the base64 forms of a value that comes after `before` (0 to 2) other bytes: one for a value that more bytes
/// follow, and two for a value at the end, without and with padding.
fn encode_base64(value: &[u8], before: usize, symbols: &[u8; 64]) -> Vec<String> {
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

    // The first and the last symbol may contain bits of the bytes around the value, so they are omitted.
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
