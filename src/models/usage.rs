//! What a call to an agent used, and what it may use.

use serde::{Deserialize, Serialize};

/// What an agent reports for one call; `None` where it reports nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageMetrics {
    /// Tokens of the prompt that came from no cache.
    pub input_tokens: Option<u64>,
    /// Tokens of the prompt that came from a cache.
    pub cache_read_tokens: Option<u64>,
    /// Tokens of the prompt that were put into a cache.
    pub cache_write_tokens: Option<u64>,
    /// Tokens of the reply.
    pub output_tokens: Option<u64>,
    /// Tokens of the reply that were thoughts.
    pub reasoning_tokens: Option<u64>,
    /// What the agent says it cost, in millionths of a US dollar.
    pub micro_dollars: Option<u64>,
}

impl UsageMetrics {
    /// Returns what two calls used together; what one of them does not report is not made up.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            cache_read_tokens: sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: sum(self.cache_write_tokens, other.cache_write_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            reasoning_tokens: sum(self.reasoning_tokens, other.reasoning_tokens),
            micro_dollars: sum(self.micro_dollars, other.micro_dollars),
        }
    }

    /// Returns the tokens of the prompt that are reported, from a cache or not; `None` if none are.
    #[must_use]
    pub fn prompt_tokens(self) -> Option<u64> {
        let counts = [
            self.input_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
        ];
        counts.into_iter().flatten().reduce(u64::saturating_add)
    }

    /// Returns all tokens that are reported, of the prompt and of the reply; `None` if none are.
    #[must_use]
    pub fn tokens(self) -> Option<u64> {
        [self.prompt_tokens(), self.output_tokens]
            .into_iter()
            .flatten()
            .reduce(u64::saturating_add)
    }
}

/// Tokens and money, as a budget counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Tokens of prompts and replies.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub micro_dollars: u64,
}

/// What a scope has used so far: what calls have spent, and what running ones have reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Tokens and money.
    pub amount: Amount,
    /// Turns that were started.
    pub turns: u64,
    /// Seconds that calls have taken.
    pub seconds: u64,
}

/// The most that a scope may use; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// Tokens of prompts and replies.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub micro_dollars: Option<u64>,
    /// Turns.
    pub turns: Option<u64>,
    /// Seconds that calls take.
    pub seconds: Option<u64>,
}

/// The budgets that a call is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Of the run: one invocation of the program.
    pub run: Caps,
    /// Of the session, over all runs.
    pub session: Caps,
}

impl Caps {
    /// Returns why a call may not be made: what would be exceeded, in words. A new turn counts as one.
    #[must_use]
    pub fn exceeded(&self, spent: &Spent, reserve: Amount, new_turn: bool) -> Option<String> {
        let over = |cap: Option<u64>, used: u64, more: u64| {
            cap.filter(|cap| used.saturating_add(more) > *cap)
        };
        if let Some(cap) = over(self.turns, spent.turns, u64::from(new_turn)) {
            return Some(format!("{cap} turns, and {} are taken", spent.turns));
        }
        if let Some(cap) = over(self.seconds, spent.seconds, 1) {
            return Some(format!("{cap} seconds, and {} are used", spent.seconds));
        }
        if let Some(cap) = over(self.tokens, spent.amount.tokens, reserve.tokens) {
            return Some(format!(
                "{cap} tokens, {} are used, and the call may take {}",
                spent.amount.tokens, reserve.tokens
            ));
        }
        let cap = over(
            self.micro_dollars,
            spent.amount.micro_dollars,
            reserve.micro_dollars,
        )?;
        let [cap, used, more] =
            [cap, spent.amount.micro_dollars, reserve.micro_dollars].map(dollars);
        Some(format!(
            "{cap}, {used} is used, and the call may take {more}"
        ))
    }
}

/// Returns millionths of a US dollar as people write them.
#[must_use]
pub fn dollars(micros: u64) -> String {
    format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

/// Returns a number with its thousands set apart.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
