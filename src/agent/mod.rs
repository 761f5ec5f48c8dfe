//! Agents: what receives a prompt and answers.

mod scripted;

pub use scripted::Scripted;

use crate::error::Result;
use crate::models::{Mode, Permission, Reply};

/// One call to an agent: complete in itself, with nothing remembered from an earlier one.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The whole prompt, as it is sent.
    pub prompt: &'a str,
    /// The mode it belongs to.
    pub mode: &'a Mode,
    /// What the agent may do to the work tree.
    pub permission: Permission,
}

/// Our code that speaks to a kind of agent.
///
/// Implementers send the prompt unchanged and keep nothing between calls that would change an answer.
pub trait Driver {
    /// Sends a prompt and waits for the reply.
    ///
    /// # Errors
    ///
    /// A typed end other than success; what to do next is its hint.
    fn send(&self, call: &Call<'_>) -> Result<Reply>;
}
