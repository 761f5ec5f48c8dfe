//! Usage of calls, and budgets for it.

use serde::{Deserialize, Serialize};

/// Usage that an agent reports for a call. Values that it does not report are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageMetrics {
    /// Tokens of the prompt that were not read from a cache.
    pub input_tokens: Option<u64>,
    /// Tokens of the prompt that were read from a cache.
    pub cache_read_tokens: Option<u64>,
    /// Tokens of the prompt that were written to a cache.
    pub cache_write_tokens: Option<u64>,
    /// Tokens of the reply.
    pub output_tokens: Option<u64>,
    /// Tokens of the reply that were used for reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Cost in millionths of a US dollar.
    pub micro_dollars: Option<u64>,
}

impl UsageMetrics {
    /// Returns the sum of two usages. A value that is unknown in either of them is `None`.
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

    /// Returns the reported tokens of the prompt, including cached ones; `None` if none are reported.
    #[must_use]
    pub fn prompt_tokens(self) -> Option<u64> {
        let counts = [
            self.input_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
        ];
        counts.into_iter().flatten().reduce(u64::saturating_add)
    }

    /// Returns the reported tokens of prompt and reply; `None` if none are reported.
    #[must_use]
    pub fn tokens(self) -> Option<u64> {
        [self.prompt_tokens(), self.output_tokens]
            .into_iter()
            .flatten()
            .reduce(u64::saturating_add)
    }
}

/// Amount of tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Tokens of prompts and replies.
    pub tokens: u64,
    /// Millionths of a US dollar.
    pub micro_dollars: u64,
}

/// Usage of a run or session: amounts spent by ended calls, and amounts reserved for running calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUsage {
    /// Tokens and money.
    pub amount: Amount,
    /// Number of turns started.
    pub turns: u64,
    /// Total duration of all calls.
    pub seconds: u64,
}

/// Limits of a run or session; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetLimits {
    /// Tokens of prompts and replies.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub micro_dollars: Option<u64>,
    /// Number of turns.
    pub turns: Option<u64>,
    /// Total duration of all calls.
    pub seconds: Option<u64>,
}

/// Limits that apply to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Limits of the run, which is one invocation of the program.
    pub run: BudgetLimits,
    /// Limits of the session, over all runs.
    pub session: BudgetLimits,
}

impl BudgetLimits {
    /// Returns a description of the limit that a call would exceed; `None` if it may be made. `is_new_turn` is true if
    /// the call is the first of its turn.
    #[must_use]
    pub fn exceeded(
        &self,
        spent: &BudgetUsage,
        reserve: Amount,
        is_new_turn: bool,
    ) -> Option<String> {
        let exceeded_cap = |cap: Option<u64>, used: u64, more: u64| {
            cap.filter(|cap| used.saturating_add(more) > *cap)
        };

        if let Some(cap) = exceeded_cap(self.turns, spent.turns, u64::from(is_new_turn)) {
            let used = spent.turns;
            return Some(format!(
                "{}; {used} {} taken",
                count(cap, "turn"),
                was(used)
            ));
        }

        if let Some(cap) = exceeded_cap(self.seconds, spent.seconds, 1) {
            let used = spent.seconds;
            return Some(format!(
                "{}; {used} {} used",
                count(cap, "second"),
                was(used)
            ));
        }

        if let Some(cap) = exceeded_cap(self.tokens, spent.amount.tokens, reserve.tokens) {
            let used = spent.amount.tokens;
            return Some(format!(
                "{}; {used} {} used, and the call may need {}",
                count(cap, "token"),
                was(used),
                reserve.tokens
            ));
        }

        let cap = exceeded_cap(
            self.micro_dollars,
            spent.amount.micro_dollars,
            reserve.micro_dollars,
        )?;
        let [cap, used, more] =
            [cap, spent.amount.micro_dollars, reserve.micro_dollars].map(dollars);
        Some(format!(
            "{cap}; {used} was used, and the call may need {more}"
        ))
    }
}

fn count(number: u64, unit: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural}")
}

fn was(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

/// Formats millionths of a US dollar, such as `$0.0123`.
#[must_use]
pub fn dollars(micros: u64) -> String {
    format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

/// Formats a number with thousands separators, such as `12,345`.
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
