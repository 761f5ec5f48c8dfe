//! What a call to an agent used.

use serde::{Deserialize, Serialize};

/// Tokens that an agent reports for one call; `None` where it reports nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageMetrics {
    /// Tokens of the prompt.
    pub input_tokens: Option<u64>,
    /// Tokens of the reply.
    pub output_tokens: Option<u64>,
}

impl UsageMetrics {
    /// Returns what two calls used together; what one of them does not report is not made up.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
        }
    }
}
