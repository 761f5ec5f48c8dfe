//! Models and tokenizers of the catalogue.

use serde::{Deserialize, Serialize};

/// Size class of a model, which limits the level of detail of each layer in its prompts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Only essentials.
    Minimal,
    /// Summaries.
    #[default]
    Medium,
    /// Everything.
    Full,
}

impl Tier {
    /// All tiers, the largest first.
    pub const ALL: [Self; 3] = [Self::Full, Self::Medium, Self::Minimal];

    /// Returns the name of the tier.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Medium => "medium",
            Self::Minimal => "minimal",
        }
    }
}

/// Reliability of a model: share of replies that are correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// Less than 60 %.
    Low,
    /// At least 60 %.
    #[default]
    Medium,
    /// At least 85 %.
    High,
    /// At least 97 %.
    VeryHigh,
}

impl Reliability {
    /// Returns the name in data files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::VeryHigh => "very_high",
        }
    }
}

/// A model of the catalogue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Id of the model.
    pub id: String,
    /// Other names of the model.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Company that serves the model.
    pub provider: String,
    /// Context window: maximum tokens of prompt and reply together.
    pub window: u64,
    /// Maximum tokens of a reply; `None` if it is unknown.
    #[serde(default)]
    pub max_output: Option<u64>,
    /// Price; `None` if it is unknown.
    #[serde(default)]
    pub price: Option<Price>,
    /// Name of the tokenizer.
    pub tokenizer: String,
    #[expect(missing_docs, reason = "the type says it all")]
    pub tier: Tier,
    /// Compliance with the XML protocol.
    pub xml_reliability: Reliability,
    /// Compliance with instructions.
    pub instruction_following: Reliability,
    /// Date of retirement, past or announced; `None` if there is none.
    #[serde(default)]
    pub retired: Option<String>,
    /// Origin of the figures.
    pub source: String,
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price of prompts.
    pub input: f64,
    /// Price of replies.
    pub output: f64,
}

impl Price {
    /// Returns the cost in millionths of a US dollar of a prompt and a reply with these numbers of tokens.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a count is far below 2^52, and no price is negative"
    )]
    pub fn micro_dollars(&self, prompt: u64, reply: u64) -> u64 {
        // Dollars per million tokens are millionths of a dollar per token.
        let cost = |tokens: u64, price: f64| (tokens as f64 * price.max(0.0)).ceil() as u64;
        cost(prompt, self.input).saturating_add(cost(reply, self.output))
    }
}

/// Precision of a token count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CountKind {
    /// Counted with the vocabulary of the model.
    Exact,
    /// Counted with another vocabulary, times a measured factor.
    Calibrated,
    /// Counted with another vocabulary, times an assumed factor.
    Guess,
}

/// Conversion of o200k token counts to the tokenizer of a model family: a factor for each script, and a safety margin
/// that covers 99 % of texts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenizerSpec {
    /// Precision of the count.
    pub kind: CountKind,
    /// Factor for Latin script, code and markup.
    pub ascii: f64,
    /// Factor for Chinese.
    pub chinese: f64,
    /// Factor for Japanese.
    pub japanese: f64,
    /// Factor for Hindi and all other scripts.
    pub hindi: f64,
    /// Factor for emoji.
    pub emoji: f64,
    /// Safety factor.
    pub margin: f64,
    /// Fixed overhead of a call, in tokens.
    pub base: u64,
}

impl Default for TokenizerSpec {
    fn default() -> Self {
        let one = 1.0;
        Self {
            kind: CountKind::Exact,
            ascii: one,
            chinese: one,
            japanese: one,
            hindi: one,
            emoji: one,
            margin: one,
            base: 0,
        }
    }
}
