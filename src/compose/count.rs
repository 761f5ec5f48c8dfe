//! Counting tokens: o200k exactly, other families by a measured factor and a stated margin.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::models::{CountKind, TokenizerSpec};

/// A number of tokens, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The likely number.
    pub tokens: u64,
    /// A number that is hardly ever exceeded; budgets are kept by it.
    pub upper_bound: u64,
    /// How sure the count is.
    pub kind: CountKind,
}

/// Counts the tokens of one family. Counts are kept by content, so the same text is counted once.
#[derive(Debug)]
pub struct Counter {
    tokenizer: TokenizerSpec,
    cache: Mutex<HashMap<(u64, u64), u64>>,
}

impl Counter {
    /// Makes a counter. The vocabulary is loaded when it is first needed, and once for all counters.
    #[must_use]
    pub fn new(tokenizer: TokenizerSpec) -> Self {
        Self { tokenizer, cache: Mutex::default() }
    }

    /// Counts a text.
    #[must_use]
    pub fn count(&self, text: &str) -> Count {
        let exact = self.o200k(text);
        let TokenizerSpec { kind, margin, base, .. } = self.tokenizer;
        let factor = self.factor(text);
        let tokens = scaled(exact, factor);
        let upper_bound = if kind == CountKind::Exact { tokens } else { scaled(exact, factor * margin) };
        Count { tokens: tokens + base, upper_bound: upper_bound + base, kind }
    }

    fn o200k(&self, text: &str) -> u64 {
        let key = (hash(text, 0), hash(text, 1));
        if let Some(count) = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return *count;
        }
        let count = bpe_openai::o200k_base().count(text) as u64;
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).insert(key, count);
        count
    }

    /// Returns the factor of the script that needs most tokens among those that make up a tenth of a text.
    fn factor(&self, text: &str) -> f64 {
        let spec = &self.tokenizer;
        if spec.kind == CountKind::Exact || text.is_ascii() {
            return spec.ascii;
        }
        let mut seen = [0_usize; 5];
        let mut all = 0;
        for c in text.chars() {
            seen[script(c)] += 1;
            all += 1;
        }
        // Han characters beside kana are Japanese.
        if seen[JAPANESE] > 0 {
            seen[JAPANESE] += std::mem::take(&mut seen[CHINESE]);
        }
        let factors = [spec.ascii, spec.chinese, spec.japanese, spec.hindi, spec.emoji];
        let present = seen.iter().zip(factors).filter(|(count, _)| **count * 10 >= all);
        present.map(|(_, factor)| factor).fold(spec.ascii, f64::max)
    }
}

const CHINESE: usize = 1;
const JAPANESE: usize = 2;

/// Returns the class of a character: Latin and the like, Han, kana, another script, emoji.
fn script(c: char) -> usize {
    match c {
        '\0'..='\u{24F}' | '\u{2000}'..='\u{206F}' | '\u{2190}'..='\u{25FF}' => 0,
        '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' => CHINESE,
        '\u{3040}'..='\u{30FF}' => JAPANESE,
        '\u{2600}'..='\u{27BF}' | '\u{1F000}'..='\u{1FAFF}' => 4,
        _ => 3,
    }
}

fn hash(text: &str, salt: u8) -> u64 {
    let mut hasher = DefaultHasher::new();
    salt.hash(&mut hasher);
    text.hash(&mut hasher);
    hasher.finish()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of tokens is far below 2^52 and never negative"
)]
fn scaled(tokens: u64, factor: f64) -> u64 {
    (tokens as f64 * factor).ceil() as u64
}
