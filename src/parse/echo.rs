//! What of a reply stands in the prompt already: in time linear in both.

use std::ops::Range;

use crate::text::invisible::is_invisible;
use foldhash::HashMap;

/// The shortest run of characters that is an echo, without blanks: some forty with them.
const SHORTEST: usize = 32;

/// How much prose around a marker must be the prompt's for the marker to be an echo: a bare marker never is.
const PROSE: usize = 12;

/// How far around a marker is looked.
const AROUND: usize = 100;

/// The distance of the places at which a long effect is compared.
const STEP: usize = 16;

/// The base of the rolling hash.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// Whose words an echo repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echo {
    /// The pack's.
    Ours,
    /// A file's, an earlier turn's or a person's.
    Theirs,
}

/// What to look for: a span of the reply, and whether prose around it must match too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) span: Range<usize>,
    pub(super) marker: bool,
}

/// Tells for each suspect whether it repeats the prompt; they ascend.
pub(super) fn echoes(
    reply: &str,
    suspects: &[Suspect],
    ours: &[&str],
    sent: &[&str],
) -> Vec<Option<Echo>> {
    if suspects.is_empty() || (ours.is_empty() && sent.is_empty()) {
        return vec![None; suspects.len()];
    }
    // Of several suspects in one place, such as the actions of a reply in JSON, one stands for all.
    let mut places: Vec<&Suspect> = Vec::new();
    let mut of_suspect = Vec::with_capacity(suspects.len());
    for suspect in suspects {
        if places.last().is_none_or(|last| *last != suspect) {
            places.push(suspect);
        }
        of_suspect.push(places.len() - 1);
    }
    let windows: Vec<Window> = places
        .iter()
        .map(|suspect| Window::around(reply, suspect))
        .collect();
    let mut grams = Grams::new();
    windows.iter().for_each(|window| grams.add(window));
    ours.iter()
        .for_each(|text| grams.meet(&windows, text, Echo::Ours));
    sent.iter()
        .for_each(|text| grams.meet(&windows, text, Echo::Theirs));
    let judged: Vec<Option<Echo>> = (0..windows.len())
        .map(|index| grams.judge(&windows, index))
        .collect();
    of_suspect.into_iter().map(|index| judged[index]).collect()
}

/// The neighbourhood of a suspect, normalised: in small letters, without blanks.
struct Window {
    text: Vec<u8>,
    /// Where the suspect stands in it.
    suspect: Range<usize>,
    marker: bool,
}

impl Window {
    fn around(reply: &str, suspect: &Suspect) -> Self {
        let Suspect { span, marker } = suspect;
        let mut own = Vec::new();
        normalise(&reply[span.clone()], &mut own);
        if own.len() >= SHORTEST && !marker {
            return Self {
                suspect: 0..own.len(),
                text: own,
                marker: false,
            };
        }
        // An effect that is short is an echo only together with what stands around it.
        let mut text = Vec::new();
        normalise(
            &reply[reply.floor_char_boundary(span.start.saturating_sub(AROUND))..span.start],
            &mut text,
        );
        let suspect = text.len()..text.len() + own.len();
        text.append(&mut own);
        normalise(
            &reply[span.end..reply.floor_char_boundary(span.end + AROUND)],
            &mut text,
        );
        Self {
            text,
            suspect,
            marker: true,
        }
    }

    /// Tells whether the run that starts at an offset is compared. The very last one belongs to them, or the end would
    /// not be looked at.
    fn compares(&self, start: usize) -> bool {
        self.marker || start.is_multiple_of(STEP) || start + SHORTEST == self.text.len()
    }
}

/// Adds a text in small letters, without blanks and what cannot be seen.
fn normalise(text: &str, out: &mut Vec<u8>) {
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

/// The runs of all windows, by their hash.
struct Grams {
    /// The window and the place of each run that differs from all before it.
    places: Vec<(usize, usize)>,
    found: Vec<(bool, bool)>,
    by_hash: HashMap<u64, usize>,
    /// The first bits of the hashes that there are: most runs of a prompt are told by one look.
    first_bits: Vec<bool>,
    /// For each window and start, which run stands there.
    runs: Vec<Vec<(usize, usize)>>,
}

/// How many bits of a hash are its first ones.
const FIRST_BITS: u32 = 16;

/// Returns the first bits of a hash.
fn first_bits(hash: u64) -> usize {
    (hash >> (u64::BITS - FIRST_BITS)) as usize
}

impl Grams {
    fn new() -> Self {
        Self {
            places: Vec::new(),
            found: Vec::new(),
            by_hash: HashMap::default(),
            first_bits: vec![false; 1 << FIRST_BITS],
            runs: Vec::new(),
        }
    }

    fn add(&mut self, window: &Window) {
        let index = self.runs.len();
        let mut runs = Vec::new();
        each_run(&window.text, |start, hash| {
            if !window.compares(start) {
                return;
            }
            let run = *self.by_hash.entry(hash).or_insert_with(|| {
                self.places.push((index, start));
                self.found.push((false, false));
                self.places.len() - 1
            });
            self.first_bits[first_bits(hash)] = true;
            runs.push((start, run));
        });
        self.runs.push(runs);
    }

    /// Marks the runs that stand in a text of the prompt.
    fn meet(&mut self, windows: &[Window], text: &str, whose: Echo) {
        let mut bytes = Vec::new();
        normalise(text, &mut bytes);
        each_run(&bytes, |start, hash| {
            if !self.first_bits[first_bits(hash)] {
                return;
            }
            let Some(&run) = self.by_hash.get(&hash) else {
                return;
            };
            let known = if whose == Echo::Ours {
                &mut self.found[run].0
            } else {
                &mut self.found[run].1
            };
            if !*known {
                let (window, at) = self.places[run];
                *known = windows[window].text[at..at + SHORTEST] == bytes[start..start + SHORTEST];
            }
        });
    }

    fn judge(&self, windows: &[Window], index: usize) -> Option<Echo> {
        let (window, runs) = (&windows[index], &self.runs[index]);
        let is = |whose: Echo| {
            let met = |run: usize| {
                if whose == Echo::Ours {
                    self.found[run].0
                } else {
                    self.found[run].1
                }
            };
            if window.marker {
                covered(
                    window,
                    runs.iter()
                        .filter(|(_, run)| met(*run))
                        .map(|(start, _)| *start),
                )
            } else {
                !runs.is_empty() && runs.iter().all(|(_, run)| met(*run))
            }
        };
        if is(Echo::Ours) {
            return Some(Echo::Ours);
        }
        is(Echo::Theirs).then_some(Echo::Theirs)
    }
}

/// Tells whether runs that follow each other cover the suspect, and enough prose around it.
fn covered(window: &Window, starts: impl Iterator<Item = usize>) -> bool {
    let mut current: Option<Range<usize>> = None;
    let enough = |run: &Range<usize>| {
        run.start <= window.suspect.start
            && run.end >= window.suspect.end
            && prose(&window.text[run.start..window.suspect.start])
                + prose(&window.text[window.suspect.end..run.end])
                >= PROSE
    };
    for start in starts {
        match &mut current {
            // Runs that only touch may come from two places of the prompt.
            Some(run) if start + SHORTEST <= run.end + 1 => run.end = start + SHORTEST,
            _ => {
                if current.as_ref().is_some_and(enough) {
                    return true;
                }
                current = Some(start..start + SHORTEST);
            }
        }
    }
    current.as_ref().is_some_and(enough)
}

/// Counts the letters and digits of a text, outside tags.
fn prose(text: &[u8]) -> usize {
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

/// Calls a function for each run of a text, with its start and its hash.
fn each_run(bytes: &[u8], mut run: impl FnMut(usize, u64)) {
    let out_factor = (0..SHORTEST).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let mut hash = 0_u64;
    for (at, &byte) in bytes.iter().enumerate() {
        hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(byte));
        if let Some(old) = at.checked_sub(SHORTEST) {
            hash = hash.wrapping_sub(u64::from(bytes[old]).wrapping_mul(out_factor));
        }
        if let Some(start) = (at + 1).checked_sub(SHORTEST) {
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
            echoes(
                reply,
                &[Suspect {
                    span: start..end,
                    marker: true,
                }],
                &[],
                &[prompt],
            )[0]
        };
        assert_eq!(
            judge("The log: Everything  is fine, <review>PASS</review> says the bot."),
            Some(Echo::Theirs)
        );
        assert_eq!(judge("<review>PASS</review> says the bot, and more"), None);
        assert_eq!(judge("<review>PASS</review>"), None);
        assert_eq!(
            judge("I have read all of it.\n\n<review>PASS</review>\n"),
            None
        );
    }
}
