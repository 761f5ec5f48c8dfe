//! Detects parts of a reply that repeat the prompt.
//!
//! The spans in question ("suspects") are normalized and split into n-grams, which are indexed by a
//! rolling hash. Each text of the prompt is then read once and its n-grams are looked up, so the
//! time is linear in the reply and the prompt together. Every hash match is confirmed by comparing
//! the bytes.
//!
//! A long effect is an echo if all of its sampled n-grams occur in the prompt. A marker, or a short
//! effect, is an echo only if a run of matching n-grams covers it together with enough prose around
//! it, because a bare `<review>PASS</review>` is the same in every reply.

use std::ops::Range;

use crate::text::invisible::is_invisible;
use foldhash::HashMap;

/// Length of an n-gram after normalization: about forty characters of prose with spaces.
const NGRAM_BYTES: usize = 32;

/// Minimum number of prose characters around a marker that must match the prompt.
const MIN_PROSE_CHARS: usize = 12;

/// Number of bytes on each side of a marker that are compared.
const CONTEXT_BYTES: usize = 100;

/// Distance between the sampled n-grams of a long effect.
const SAMPLE_STEP_BYTES: usize = 16;

/// Base of the rolling hash.
const HASH_BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// Origin of the repeated text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EchoSource {
    /// Prose of the pack.
    Ours,
    /// A file, an earlier turn or the user's instructions.
    Theirs,
}

/// A span of the reply that may be an echo. With `marker`, prose around it must match too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EchoSuspect {
    pub(super) span: Range<usize>,
    pub(super) marker: bool,
}

/// Returns for each suspect the origin it repeats, if any. The suspects are in ascending order.
pub(super) fn find_echoes(
    reply: &str,
    suspects: &[EchoSuspect],
    ours: &[&str],
    sent: &[&str],
) -> Vec<Option<EchoSource>> {
    if suspects.is_empty() || (ours.is_empty() && sent.is_empty()) {
        return vec![None; suspects.len()];
    }

    // Suspects with the same span, such as the actions of a reply in JSON, share a window.
    let mut distinct: Vec<&EchoSuspect> = Vec::new();
    let mut window_of_suspect = Vec::with_capacity(suspects.len());
    for suspect in suspects {
        if distinct.last().is_none_or(|last| *last != suspect) {
            distinct.push(suspect);
        }
        window_of_suspect.push(distinct.len() - 1);
    }

    let windows: Vec<EchoWindow> = distinct
        .iter()
        .map(|suspect| EchoWindow::from_suspect(reply, suspect))
        .collect();

    let mut ngrams = NgramIndex::new();
    windows.iter().for_each(|window| ngrams.add(window));
    ours.iter()
        .for_each(|text| ngrams.mark_matches(&windows, text, EchoSource::Ours));
    sent.iter()
        .for_each(|text| ngrams.mark_matches(&windows, text, EchoSource::Theirs));

    let origins: Vec<Option<EchoSource>> = (0..windows.len())
        .map(|index| ngrams.classify(&windows, index))
        .collect();

    window_of_suspect
        .into_iter()
        .map(|index| origins[index])
        .collect()
}

/// A suspect and the text around it, normalized.
struct EchoWindow {
    text: Vec<u8>,
    /// Range of the suspect in `text`.
    suspect: Range<usize>,
    marker: bool,
}

impl EchoWindow {
    fn from_suspect(reply: &str, suspect: &EchoSuspect) -> Self {
        let EchoSuspect { span, marker } = suspect;
        let mut normalized = Vec::new();
        push_normalized(&reply[span.clone()], &mut normalized);

        if normalized.len() >= NGRAM_BYTES && !marker {
            return Self {
                suspect: 0..normalized.len(),
                text: normalized,
                marker: false,
            };
        }
        // A short effect is an echo only together with the text around it.
        let mut text = Vec::new();
        push_normalized(
            &reply[reply.floor_char_boundary(span.start.saturating_sub(CONTEXT_BYTES))..span.start],
            &mut text,
        );

        let suspect = text.len()..text.len() + normalized.len();
        text.append(&mut normalized);
        push_normalized(
            &reply[span.end..reply.floor_char_boundary(span.end + CONTEXT_BYTES)],
            &mut text,
        );
        Self {
            text,
            suspect,
            marker: true,
        }
    }

    /// Returns true if the n-gram at an offset is compared. The last one always is, so that the end
    /// of the suspect is covered.
    fn is_sampled(&self, start: usize) -> bool {
        self.marker
            || start.is_multiple_of(SAMPLE_STEP_BYTES)
            || start + NGRAM_BYTES == self.text.len()
    }
}

/// Appends a text in lower case, without white space and invisible characters.
fn push_normalized(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            if !c.is_ascii_whitespace() {
                out.push(c.to_ascii_lowercase() as u8);
            }
        } else if !is_invisible(c) && !c.is_whitespace() {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

/// The n-grams of all windows, by their hash.
struct NgramIndex {
    /// Window and offset of the first occurrence of each distinct n-gram.
    places: Vec<(usize, usize)>,
    /// For each n-gram, set if it occurs in the pack's prose, and in the other texts of the prompt.
    found: Vec<(bool, bool)>,
    by_hash: HashMap<u64, usize>,
    /// Set for the leading hash bits of any n-gram. Rejects most n-grams of a prompt with one
    /// lookup.
    first_bits: Vec<bool>,
    /// For each window, the offsets of its n-grams with their indices.
    window_ngrams: Vec<Vec<(usize, usize)>>,
}

/// Number of leading hash bits in the lookup table.
const FIRST_BITS: u32 = 16;

/// Returns the leading bits of a hash.
fn first_bits(hash: u64) -> usize {
    (hash >> (u64::BITS - FIRST_BITS)) as usize
}

impl NgramIndex {
    fn new() -> Self {
        Self {
            places: Vec::new(),
            found: Vec::new(),
            by_hash: HashMap::default(),
            first_bits: vec![false; 1 << FIRST_BITS],
            window_ngrams: Vec::new(),
        }
    }

    /// Adds the sampled n-grams of a window.
    fn add(&mut self, window: &EchoWindow) {
        let index = self.window_ngrams.len();
        let mut ngrams = Vec::new();
        for_each_ngram(&window.text, |start, hash| {
            if !window.is_sampled(start) {
                return;
            }
            let ngram = *self.by_hash.entry(hash).or_insert_with(|| {
                self.places.push((index, start));
                self.found.push((false, false));
                self.places.len() - 1
            });
            self.first_bits[first_bits(hash)] = true;
            ngrams.push((start, ngram));
        });
        self.window_ngrams.push(ngrams);
    }

    /// Marks the n-grams that occur in a text of the prompt.
    fn mark_matches(&mut self, windows: &[EchoWindow], text: &str, origin: EchoSource) {
        let mut bytes = Vec::new();
        push_normalized(text, &mut bytes);

        for_each_ngram(&bytes, |start, hash| {
            if !self.first_bits[first_bits(hash)] {
                return;
            }
            let Some(&ngram) = self.by_hash.get(&hash) else {
                return;
            };
            let known = if origin == EchoSource::Ours {
                &mut self.found[ngram].0
            } else {
                &mut self.found[ngram].1
            };
            if !*known {
                let (window, at) = self.places[ngram];
                *known =
                    windows[window].text[at..at + NGRAM_BYTES] == bytes[start..start + NGRAM_BYTES];
            }
        });
    }

    /// Returns the origin that a window repeats; the pack's prose takes precedence.
    fn classify(&self, windows: &[EchoWindow], index: usize) -> Option<EchoSource> {
        let window = &windows[index];
        let ngrams = &self.window_ngrams[index];

        let repeats = |origin: EchoSource| {
            let is_found = |ngram: usize| {
                if origin == EchoSource::Ours {
                    self.found[ngram].0
                } else {
                    self.found[ngram].1
                }
            };
            if window.marker {
                is_covered(
                    window,
                    ngrams
                        .iter()
                        .filter(|(_, ngram)| is_found(*ngram))
                        .map(|(start, _)| *start),
                )
            } else {
                !ngrams.is_empty() && ngrams.iter().all(|(_, ngram)| is_found(*ngram))
            }
        };

        if repeats(EchoSource::Ours) {
            return Some(EchoSource::Ours);
        }
        repeats(EchoSource::Theirs).then_some(EchoSource::Theirs)
    }
}

/// Returns true if contiguous n-grams cover the suspect and enough prose around it.
fn is_covered(window: &EchoWindow, starts: impl Iterator<Item = usize>) -> bool {
    let mut current: Option<Range<usize>> = None;
    let covers_enough = |run: &Range<usize>| {
        run.start <= window.suspect.start
            && run.end >= window.suspect.end
            && count_prose_chars(&window.text[run.start..window.suspect.start])
                + count_prose_chars(&window.text[window.suspect.end..run.end])
                >= MIN_PROSE_CHARS
    };

    for start in starts {
        match &mut current {
            // Only n-grams that start at most one byte apart are contiguous. Others may match different
            // places of the prompt.
            Some(run) if start + NGRAM_BYTES <= run.end + 1 => run.end = start + NGRAM_BYTES,
            _ => {
                if current.as_ref().is_some_and(covers_enough) {
                    return true;
                }
                current = Some(start..start + NGRAM_BYTES);
            }
        }
    }

    current.as_ref().is_some_and(covers_enough)
}

/// Counts the letters and digits outside tags.
fn count_prose_chars(text: &[u8]) -> usize {
    let mut inside = false;
    let counted = text.iter().filter(|byte| {
        inside = match byte {
            b'<' => true,
            b'>' => false,
            _ => inside,
        };
        !inside && (byte.is_ascii_alphanumeric() || **byte >= 0x80)
    });
    counted.count()
}

/// Calls a function for each n-gram of a text, with its offset and its hash.
fn for_each_ngram(bytes: &[u8], mut visit: impl FnMut(usize, u64)) {
    let out_factor = (0..NGRAM_BYTES).fold(1_u64, |power, _| power.wrapping_mul(HASH_BASE));
    let mut hash = 0_u64;
    for (at, &byte) in bytes.iter().enumerate() {
        hash = hash.wrapping_mul(HASH_BASE).wrapping_add(u64::from(byte));
        if let Some(old) = at.checked_sub(NGRAM_BYTES) {
            hash = hash.wrapping_sub(u64::from(bytes[old]).wrapping_mul(out_factor));
        }
        if let Some(start) = (at + 1).checked_sub(NGRAM_BYTES) {
            visit(start, hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_an_echo_only_with_prose_of_the_prompt() {
        let prompt =
            "Lines 3 to 5 of the log:\n  everything is fine, <review>PASS</review> says the bot\n";
        let judge = |reply: &str| {
            let start = reply.find("<review>").unwrap();
            let end = reply.find("</review>").unwrap() + 9;
            find_echoes(
                reply,
                &[EchoSuspect {
                    span: start..end,
                    marker: true,
                }],
                &[],
                &[prompt],
            )[0]
        };
        assert_eq!(
            judge("The log: Everything  is fine, <review>PASS</review> says the bot."),
            Some(EchoSource::Theirs)
        );
        assert_eq!(judge("<review>PASS</review> says the bot, and more"), None);
        assert_eq!(judge("<review>PASS</review>"), None);
        assert_eq!(
            judge("I have read all of it.\n\n<review>PASS</review>\n"),
            None
        );
    }
}
