//! Detects echoes: parts of a reply that repeat the prompt.
//!
//! The spans that may be echoes ("suspects") are normalized and cut into n-grams, which are indexed by a
//! rolling hash. Each segment of the prompt is then read once and its n-grams are looked up, so the
//! time is linear in the reply and the prompt together. Every hash match is confirmed by comparing
//! the bytes.
//!
//! A long effect is an echo if all of its sampled n-grams occur in the prompt. A marker, or a short
//! effect, is an echo only if a run of matching n-grams covers it together with enough prose around
//! it, because a bare `<review>PASS</review>` is the same in every reply.

use std::ops::Range;

use crate::text::invisible::is_invisible;
use foldhash::HashMap;

/// Length of an n-gram, after normalization: about forty characters with spaces.
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
    /// A file, or the user's words.
    Theirs,
    /// The assistant's own words in an earlier turn. A repeated marker is an echo; a repeated effect is not, because the
    /// assistant may request it again.
    OwnHistory,
}

/// A span of the reply that may be an echo. With `marker`, the prose around it must also match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EchoSuspect {
    pub(super) span: Range<usize>,
    pub(super) marker: bool,
}

/// Texts that a reply may repeat, by their origin.
#[derive(Clone, Copy, Default)]
pub(super) struct EchoTexts<'a> {
    pub(super) ours: &'a [&'a str],
    pub(super) sent: &'a [&'a str],
    pub(super) own_history: &'a [&'a str],
}

/// Returns for each suspect the origin it repeats, if any. The suspects are in ascending order.
pub(super) fn find_echoes(
    reply: &str,
    suspects: &[EchoSuspect],
    texts: EchoTexts<'_>,
) -> Vec<Option<EchoSource>> {
    let sources = [
        (EchoSource::Ours, texts.ours),
        (EchoSource::Theirs, texts.sent),
        (EchoSource::OwnHistory, texts.own_history),
    ];
    if suspects.is_empty() || sources.iter().all(|(_, texts)| texts.is_empty()) {
        return vec![None; suspects.len()];
    }

    // Suspects with the same span, such as the actions of a reply in JSON, share a window.
    let mut places: Vec<&EchoSuspect> = Vec::new();
    let mut of_suspect = Vec::with_capacity(suspects.len());
    for suspect in suspects {
        if places.last().is_none_or(|last| *last != suspect) {
            places.push(suspect);
        }
        of_suspect.push(places.len() - 1);
    }

    let windows: Vec<EchoWindow> = places
        .iter()
        .map(|suspect| EchoWindow::from_suspect(reply, suspect))
        .collect();

    let mut ngrams = NgramIndex::new();
    windows.iter().for_each(|window| ngrams.add(window));
    for (source, texts) in sources {
        for text in texts {
            ngrams.mark_matches(&windows, text, source);
        }
    }

    let is_prompt_known = !texts.sent.is_empty();
    let judged: Vec<Option<EchoSource>> = (0..windows.len())
        .map(|index| ngrams.classify(&windows, index, is_prompt_known))
        .collect();

    of_suspect.into_iter().map(|index| judged[index]).collect()
}

/// A suspect and the text around it, normalized.
struct EchoWindow {
    text: Vec<u8>,
    /// Range of the suspect in `text`.
    suspect: Range<usize>,
    marker: bool,
    /// True for an action or update, which may repeat the assistant's own history and texts of the pack that were not
    /// sent.
    is_effect: bool,
}

impl EchoWindow {
    fn from_suspect(reply: &str, suspect: &EchoSuspect) -> Self {
        let EchoSuspect { span, marker } = suspect;
        let is_effect = !marker;
        let mut suspect_text = Vec::new();
        push_normalized(&reply[span.clone()], &mut suspect_text);

        if suspect_text.len() >= NGRAM_BYTES && !marker {
            return Self {
                suspect: 0..suspect_text.len(),
                text: suspect_text,
                marker: false,
                is_effect,
            };
        }
        // A short effect is an echo only together with the text around it.
        let mut text = Vec::new();
        push_normalized(
            &reply[reply.floor_char_boundary(span.start.saturating_sub(CONTEXT_BYTES))..span.start],
            &mut text,
        );

        let suspect = text.len()..text.len() + suspect_text.len();
        text.append(&mut suspect_text);
        push_normalized(
            &reply[span.end..reply.floor_char_boundary(span.end + CONTEXT_BYTES)],
            &mut text,
        );
        Self {
            text,
            suspect,
            marker: true,
            is_effect,
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

/// Appends a string in lower case, without white space and invisible characters.
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
    /// For each n-gram, the sources in which it occurs.
    sources: Vec<NgramSources>,
    by_hash: HashMap<u64, usize>,
    /// Set for the leading hash bits of any n-gram. Rejects most n-grams of a prompt with one
    /// lookup.
    first_bits: Vec<bool>,
    /// For each window, the offsets of its n-grams with their indices.
    runs: Vec<Vec<(usize, usize)>>,
}

/// Sources in which an n-gram occurs.
#[derive(Clone, Copy, Default)]
struct NgramSources {
    ours: bool,
    theirs: bool,
    own_history: bool,
}

impl NgramSources {
    fn get_mut(&mut self, source: EchoSource) -> &mut bool {
        match source {
            EchoSource::Ours => &mut self.ours,
            EchoSource::Theirs => &mut self.theirs,
            EchoSource::OwnHistory => &mut self.own_history,
        }
    }
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
            sources: Vec::new(),
            by_hash: HashMap::default(),
            first_bits: vec![false; 1 << FIRST_BITS],
            runs: Vec::new(),
        }
    }

    /// Adds the sampled n-grams of a window.
    fn add(&mut self, window: &EchoWindow) {
        let index = self.runs.len();
        let mut runs = Vec::new();
        for_each_ngram(&window.text, |start, hash| {
            if !window.is_sampled(start) {
                return;
            }
            let run = *self.by_hash.entry(hash).or_insert_with(|| {
                self.places.push((index, start));
                self.sources.push(NgramSources::default());
                self.places.len() - 1
            });
            self.first_bits[first_bits(hash)] = true;
            runs.push((start, run));
        });
        self.runs.push(runs);
    }

    /// Marks the n-grams that occur in a part of the prompt.
    fn mark_matches(&mut self, windows: &[EchoWindow], text: &str, source: EchoSource) {
        let mut bytes = Vec::new();
        push_normalized(text, &mut bytes);

        for_each_ngram(&bytes, |start, hash| {
            if !self.first_bits[first_bits(hash)] {
                return;
            }
            let Some(&run) = self.by_hash.get(&hash) else {
                return;
            };
            let occurs = self.sources[run].get_mut(source);
            if !*occurs {
                let (window, at) = self.places[run];
                *occurs =
                    windows[window].text[at..at + NGRAM_BYTES] == bytes[start..start + NGRAM_BYTES];
            }
        });
    }

    /// Returns the origin that a window repeats; the pack's prose takes precedence.
    fn classify(
        &self,
        windows: &[EchoWindow],
        index: usize,
        is_prompt_known: bool,
    ) -> Option<EchoSource> {
        let window = &windows[index];
        let runs = &self.runs[index];

        let repeats = |occurs: &dyn Fn(NgramSources) -> bool| {
            let occurs_in_source = |run: usize| occurs(self.sources[run]);
            if window.marker {
                is_covered(
                    window,
                    runs.iter()
                        .filter(|(_, run)| occurs_in_source(*run))
                        .map(|(start, _)| *start),
                )
            } else {
                !runs.is_empty() && runs.iter().all(|(_, run)| occurs_in_source(*run))
            }
        };

        // The pack's prose that was sent is also part of the prompt.
        let compares_pack = !(window.is_effect && is_prompt_known);
        if compares_pack && repeats(&|sources| sources.ours) {
            return Some(EchoSource::Ours);
        }
        if repeats(&|sources| sources.theirs) {
            return Some(EchoSource::Theirs);
        }

        // A marker that spans a message of the history and the text next to it is also an echo.
        let in_history =
            !window.is_effect && repeats(&|sources| sources.theirs || sources.own_history);
        in_history.then_some(EchoSource::OwnHistory)
    }
}

/// Returns true if contiguous n-grams cover the suspect and enough prose around it.
fn is_covered(window: &EchoWindow, starts: impl Iterator<Item = usize>) -> bool {
    let mut current: Option<Range<usize>> = None;
    let enough = |run: &Range<usize>| {
        run.start <= window.suspect.start
            && run.end >= window.suspect.end
            && count_prose_chars(&window.text[run.start..window.suspect.start])
                + count_prose_chars(&window.text[window.suspect.end..run.end])
                >= MIN_PROSE_CHARS
    };

    for start in starts {
        match &mut current {
            // N-grams that only touch may come from two places of the prompt.
            Some(run) if start + NGRAM_BYTES <= run.end + 1 => run.end = start + NGRAM_BYTES,
            _ => {
                if current.as_ref().is_some_and(enough) {
                    return true;
                }
                current = Some(start..start + NGRAM_BYTES);
            }
        }
    }

    current.as_ref().is_some_and(enough)
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

/// Calls a function for each n-gram of a string, with its offset and its hash.
fn for_each_ngram(bytes: &[u8], mut run: impl FnMut(usize, u64)) {
    let out_factor = (0..NGRAM_BYTES).fold(1_u64, |power, _| power.wrapping_mul(HASH_BASE));
    let mut hash = 0_u64;
    for (at, &byte) in bytes.iter().enumerate() {
        hash = hash.wrapping_mul(HASH_BASE).wrapping_add(u64::from(byte));
        if let Some(old) = at.checked_sub(NGRAM_BYTES) {
            hash = hash.wrapping_sub(u64::from(bytes[old]).wrapping_mul(out_factor));
        }
        if let Some(start) = (at + 1).checked_sub(NGRAM_BYTES) {
            run(start, hash);
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
                EchoTexts {
                    sent: &[prompt],
                    ..EchoTexts::default()
                },
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
