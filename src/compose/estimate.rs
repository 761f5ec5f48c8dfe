//! Token estimates without a vocabulary, from runs of characters of the same class, similar to the way o200k splits text.

/// Factor that turns an estimate into an upper bound. The worst measured case, Base64, takes 1.5 times the estimate; the
/// rest is headroom. A test compares estimates with o200k counts.
pub(super) const ESTIMATE_MARGIN: f64 = 1.6;

/// Estimates the o200k tokens of a string; never more than its bytes.
pub(super) fn estimate_tokens(text: &str) -> u64 {
    let mut tenths = 0;
    let mut run = CharRun {
        kind: CharClass::Space,
        length: 0,
    };

    let mut previous = ' ';
    for c in text.chars() {
        let kind = CharClass::from_char(c);
        // `CamelCase` is two words, `CAPITALS` is one.
        let starts_word = c.is_ascii_uppercase() && previous.is_ascii_lowercase();
        if kind == run.kind && !starts_word {
            run.length += 1;
        } else {
            tenths += run.tenths();
            run = CharRun { kind, length: 1 };
        }
        previous = c;
    }

    tenths += run.tenths();

    tenths.div_ceil(10).min(text.len() as u64)
}

/// Consecutive characters of one class.
struct CharRun {
    kind: CharClass,
    length: u64,
}

/// Classes of characters that o200k splits alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Word,
    Digit,
    Space,
    Newline,
    /// Other ASCII characters.
    Punctuation,
    /// Letters of other alphabets.
    Alphabet,
    /// Han characters, kana and Hangul.
    Ideograph,
    /// Emoji and rare symbols.
    Symbol,
}

impl CharClass {
    fn from_char(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' => Self::Word,
            '0'..='9' => Self::Digit,
            '\n' | '\r' => Self::Newline,
            ' ' | '\t' => Self::Space,
            '\0'..='\u{7F}' => Self::Punctuation,
            '\u{2E80}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}' => {
                Self::Ideograph
            }
            _ if c.is_alphabetic() && c < '\u{10000}' => Self::Alphabet,
            _ => Self::Symbol,
        }
    }
}

impl CharRun {
    /// Returns the estimated tokens of the run, in tenths.
    fn tenths(&self) -> u64 {
        let length = self.length;
        match self.kind {
            CharClass::Word => 10 + length.saturating_sub(1) / 8 * 10,
            CharClass::Digit => length.div_ceil(3) * 10,
            // The space before a word belongs to the word.
            CharClass::Space if length < 2 => 0,
            CharClass::Space | CharClass::Newline => 10 + length / 16 * 10,
            CharClass::Punctuation => length.div_ceil(2) * 10,
            CharClass::Alphabet => 5 + length * 4,
            CharClass::Ideograph => length * 8,
            CharClass::Symbol => length * 20,
        }
    }
}

#[cfg(test)]
#[cfg(feature = "tokenizer")]
mod tests {
    use super::*;
    use crate::pack::{SearchPath, builtin_names};

    const SAMPLES: [&str; 16] = [
        "",
        "x",
        "The quick brown fox jumps over the lazy dog, and nobody is surprised.",
        "pub(crate) fn floor_char_boundary(text: &str, offset: usize) -> usize {",
        "{\"a\":[1,2,{\"b\":null}],\"total\":12345.678}",
        "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQgZGF0YQ==",
        "deadbeef0123456789abcdef",
        "$$$###@@@!!!",
        "Größe und Übermut tun selten gut",
        "Привет, как дела сегодня утром?",
        "东京今天天气很好，我们去公园散步吧。",
        "東京の天気はどうですか。明日は雨が降るでしょう。",
        "오늘 날씨가 정말 좋네요",
        "आज मौसम बहुत अच्छा है, चलो पार्क में टहलने चलते हैं।",
        "مرحبا كيف حالك اليوم",
        "😀🎉🚀👩‍👩‍👧",
    ];

    /// Returns the samples, the shipped prose and data, and two long files of other kinds.
    fn texts() -> Vec<(String, String)> {
        let places = SearchPath::default();
        let shipped = builtin_names().map(|name| {
            let prose = places.find(name).unwrap().unwrap();
            (name.to_owned(), prose.text.into_owned())
        });
        let samples = SAMPLES.map(|text| (text.to_owned(), text.to_owned()));
        let long = [
            ("count.rs", include_str!("count.rs")),
            ("Cargo.lock", include_str!("../../Cargo.lock")),
        ];
        let long = long.map(|(name, text)| (name.to_owned(), text.to_owned()));
        shipped.chain(samples).chain(long).collect()
    }

    #[test]
    fn estimates_are_close_to_o200k_and_their_margin_covers_the_rest() {
        let mut estimated = 0;
        let mut counted = 0;
        for (name, text) in texts() {
            let exact = bpe_openai::o200k_base().count(&text) as u64;
            let estimate = estimate_tokens(&text);
            let upper_bound = estimate as f64 * ESTIMATE_MARGIN;
            assert!(exact as f64 <= upper_bound, "{name}: {exact}, {estimate}");
            estimated += estimate;
            counted += exact;
        }
        let ratio = estimated as f64 / counted as f64;
        assert!((0.95..1.2).contains(&ratio), "{ratio}");
    }

    #[test]
    fn no_text_has_more_tokens_than_bytes() {
        for text in ["\n\n", "a b c", "A.B.C", "++++", "1 2 3 4", "🎉", "é"] {
            assert!(estimate_tokens(text) <= text.len() as u64, "{text}");
        }
        assert_eq!(estimate_tokens(""), 0);
    }
}
