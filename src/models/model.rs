//! Models: rows of the catalogue, and how a family's tokens are counted.

use serde::{Deserialize, Serialize};

/// How much prose a model gets at most: the longest rung of every ladder.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Essentials only.
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

    /// Returns the tier's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Medium => "medium",
            Self::Minimal => "minimal",
        }
    }
}

/// How well a model does something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// Seldom.
    Low,
    /// Often.
    #[default]
    Medium,
    /// Nearly always.
    High,
    /// Always, as far as is known.
    VeryHigh,
}

impl Reliability {
    /// Returns the word for it, as data spells it.
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

/// A row of the catalogue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The model's name.
    pub id: String,
    /// Other names for it.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Who serves it.
    pub provider: String,
    /// The most tokens of prompt and reply together.
    pub window: u64,
    /// The most tokens of a reply.
    #[serde(default)]
    pub max_output: Option<u64>,
    /// What it costs.
    #[serde(default)]
    pub price: Option<Price>,
    /// How its tokens are counted: a row of the tokenizers.
    pub tokenizer: String,
    /// How much prose it gets at most.
    pub tier: Tier,
    /// How well it keeps to the XML protocol.
    pub xml_reliability: Reliability,
    /// How well it follows instructions.
    pub instruction_following: Reliability,
    /// When it was or will be withdrawn.
    #[serde(default)]
    pub retired: Option<String>,
    /// Where the figures come from.
    pub source: String,
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of a prompt.
    pub input: f64,
    /// Of a reply.
    pub output: f64,
}

impl Price {
    /// Returns what tokens of a prompt and of a reply cost, in millionths of a US dollar.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a count is far below 2^52, and no price is negative"
    )]
    pub fn micro_dollars(&self, prompt: u64, reply: u64) -> u64 {
        // Dollars for a million tokens are millionths of a dollar for one.
        let cost = |tokens: u64, price: f64| (tokens as f64 * price.max(0.0)).ceil() as u64;
        cost(prompt, self.input).saturating_add(cost(reply, self.output))
    }
}

/// How sure a count is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CountKind {
    /// By the model's own vocabulary.
    Exact,
    /// By another vocabulary and a measured factor.
    Calibrated,
    /// By another vocabulary and an assumed factor.
    Guess,
}

/// How a family's count is had from an exact o200k count: a factor by script, and a margin that covers 99 % of texts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenizerSpec {
    /// How sure the count is.
    pub kind: CountKind,
    /// The factor for Latin script, code and markup.
    pub ascii: f64,
    /// The factor for Chinese.
    pub chinese: f64,
    /// The factor for Japanese.
    pub japanese: f64,
    /// The factor for Hindi, and for scripts of which nothing is known.
    pub hindi: f64,
    /// The factor for emoji.
    pub emoji: f64,
    /// What the product is multiplied with to be safe.
    pub margin: f64,
    /// Tokens that every call costs beside its text.
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
