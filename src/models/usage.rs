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
