//! Token counts: exact for o200k; for other tokenizer families, the o200k count times a measured factor, with a margin.
//! Without the feature `tokenizer` there is no vocabulary, and every count is an estimate.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

use foldhash::fast::FixedState;
use foldhash::quality::RandomState;
use serde::Serialize;

use crate::models::{CountKind, TokenizerSpec};

/// Maximum number of cached counts; the cache is cleared when it is full.
const MAX_CACHED_COUNTS: usize = 1 << 20;

/// A number of tokens and its precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Likely number of tokens.
    pub tokens: u64,
    /// Number that is rarely exceeded; budgets are checked against it.
    pub upper_bound: u64,
    /// Precision of the count.
    pub kind: CountKind,
}

/// Counts the tokens of one tokenizer family. Counts are cached by content, so the same text is counted once.
#[derive(Debug)]
pub struct Counter {
    tokenizer: TokenizerSpec,
    /// Measured number of reported tokens per counted token.
    measured: f64,
    cache: RwLock<HashMap<(u64, u64), u64, FixedState>>,
    /// Two independent hashes form the cache key. Both are randomly seeded, so that no input can be made to collide.
    hashers: [RandomState; 2],
}

impl Counter {
    /// Returns a counter. The vocabulary is loaded on first use and shared by all counters.
    ///
    /// Without the feature `tokenizer`, the counter estimates with a larger margin, and all of its counts are guesses.
    #[must_use]
    pub fn new(tokenizer: TokenizerSpec) -> Self {
        #[cfg(not(feature = "tokenizer"))]
        let tokenizer = TokenizerSpec {
            kind: CountKind::Guess,
            margin: tokenizer.margin.max(1.0) * super::estimate::ESTIMATE_MARGIN,
            ..tokenizer
        };
        Self {
            tokenizer,
            measured: 1.0,
            cache: RwLock::default(),
            hashers: [RandomState::default(), RandomState::default()],
        }
    }

    /// Multiplies all further counts by a measured factor.
    #[must_use]
    pub fn corrected(mut self, factor: f64) -> Self {
        self.measured = factor;
        if cfg!(feature = "tokenizer") {
            self.tokenizer.kind = CountKind::Calibrated;
        }
        self
    }

    /// Counts the tokens of a prompt, including the base cost of its call.
    #[must_use]
    pub fn count(&self, text: &str) -> Count {
        let TokenizerSpec { kind, base, .. } = self.tokenizer;
        let tokens = scale_tokens(self.count_cached(text), self.factor(text));
        Count {
            tokens: tokens + base,
            upper_bound: self.max_tokens(text) + base,
            kind,
        }
    }

    /// Returns the upper bound for a part of a prompt, without the base cost of a call.
    #[must_use]
    pub fn max_tokens(&self, text: &str) -> u64 {
        let exact = self.count_cached(text);
        scale_tokens(exact, self.factor(text) * self.tokenizer.margin.max(1.0))
    }

    /// Returns the upper bound for any text of `bytes` bytes: no token is shorter than a byte.
    #[must_use]
    pub fn max_tokens_for_bytes(&self, bytes: usize) -> u64 {
        let TokenizerSpec {
            ascii,
            chinese,
            japanese,
            hindi,
            emoji,
            margin,
            ..
        } = self.tokenizer;

        let factor = [ascii, chinese, japanese, hindi, emoji]
            .into_iter()
            .fold(1.0, f64::max);
        scale_tokens(bytes as u64, factor * self.measured * margin.max(1.0))
    }

    /// Returns the base cost of every call in tokens, in addition to its text.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.tokenizer.base
    }

    /// Returns the precision of the counts.
    #[must_use]
    pub fn kind(&self) -> CountKind {
        self.tokenizer.kind
    }

    fn count_cached(&self, text: &str) -> u64 {
        let key = (
            self.hashers[0].hash_one(text),
            self.hashers[1].hash_one(text),
        );
        if let Some(count) = self
            .cache
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
        {
            return *count;
        }

        let count = count_o200k(text);
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= MAX_CACHED_COUNTS {
            cache.clear();
        }

        cache.insert(key, count);
        count
    }

    /// Returns the number of tokens of the tokenizer family per o200k token.
    fn factor(&self, text: &str) -> f64 {
        self.script_factor(text) * self.measured
    }

    /// Returns the largest factor among the scripts that make up at least a tenth of the text.
    fn script_factor(&self, text: &str) -> f64 {
        let spec = &self.tokenizer;
        if spec.kind == CountKind::Exact || text.is_ascii() {
            return spec.ascii;
        }

        let mut seen = [0_usize; 5];
        let mut all = 0;
        for c in text.chars() {
            seen[script_index(c)] += 1;
            all += 1;
        }

        // Han characters in a text with kana are Japanese.
        if seen[JAPANESE] > 0 {
            seen[JAPANESE] += std::mem::take(&mut seen[CHINESE]);
        }

        let factors = [
            spec.ascii,
            spec.chinese,
            spec.japanese,
            spec.hindi,
            spec.emoji,
        ];

        let relevant = seen
            .iter()
            .zip(factors)
            .filter(|(count, _)| **count * 10 >= all);
        relevant
            .map(|(_, factor)| factor)
            .fold(spec.ascii, f64::max)
    }
}

#[cfg(feature = "tokenizer")]
fn count_o200k(text: &str) -> u64 {
    bpe_openai::o200k_base().count(text) as u64
}

#[cfg(not(feature = "tokenizer"))]
fn count_o200k(text: &str) -> u64 {
    super::estimate::estimate_tokens(text)
}

const CHINESE: usize = 1;
const JAPANESE: usize = 2;

/// Returns the index of a character's script: 0 Latin and similar, 1 Han, 2 kana, 3 other scripts, 4 emoji.
fn script_index(c: char) -> usize {
    match c {
        '\0'..='\u{24F}' | '\u{2000}'..='\u{206F}' | '\u{2190}'..='\u{25FF}' => 0,
        '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' => CHINESE,
        '\u{3040}'..='\u{30FF}' => JAPANESE,
        '\u{2600}'..='\u{27BF}' | '\u{1F000}'..='\u{1FAFF}' => 4,
        _ => 3,
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of tokens is far below 2^52 and never negative"
)]
fn scale_tokens(tokens: u64, factor: f64) -> u64 {
    (tokens as f64 * factor).ceil() as u64
}

#[cfg(test)]
#[cfg(not(feature = "tokenizer"))]
mod tests {
    use super::*;

    /// Hand-counted tokens: `hello`, ` world`, with a margin of 60 %.
    #[test]
    fn without_a_vocabulary_every_count_is_a_guess() {
        let counter = Counter::new(TokenizerSpec::default());
        let expected = Count {
            tokens: 2,
            upper_bound: 4,
            kind: CountKind::Guess,
        };
        assert_eq!(counter.count("hello world"), expected);
        assert_eq!(counter.corrected(1.0).kind(), CountKind::Guess);
    }

    #[test]
    fn the_bound_by_bytes_is_never_below_an_estimate() {
        let counter = Counter::new(TokenizerSpec::default());
        for text in ["", "a b c", "++++", "🎉🎉", "{{{{}}}}", "今天"] {
            assert!(
                counter.max_tokens(text) <= counter.max_tokens_for_bytes(text.len()),
                "{text}"
            );
        }
    }
}
