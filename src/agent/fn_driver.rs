//! A driver made of a function.

use std::fmt;
use std::path::Path;

use super::builtin::ReadyReply;
use super::{AgentCall, Driver, RecoveredCall, RunningCall};
use crate::error::Result;
use crate::models::Reply;

/// An agent that is a function of the calling program.
///
/// The function gets the whole call and returns the reply when it is complete. Agents that stream their reply, or that
/// must be stopped while they work, implement [`Driver`] instead.
///
/// ```
/// use agentd::agent::{Drivers, FnDriver};
/// use agentd::models::Reply;
///
/// let mut drivers = Drivers::default();
/// let shout = FnDriver::new(|call| Ok(Reply::from_text(call.prompt.to_uppercase())));
/// drivers.registered.register("shout", shout);
/// assert!(drivers.find("shout").is_ok());
/// ```
pub struct FnDriver<F> {
    answer: F,
    spends: bool,
}

impl<F> FnDriver<F>
where
    F: Fn(&AgentCall<'_>) -> Result<Reply> + Send + Sync,
{
    /// Returns a driver for a function that runs no command and costs nothing.
    pub fn new(answer: F) -> Self {
        Self {
            answer,
            spends: false,
        }
    }

    /// Returns a driver for a function that runs a command or calls a paid service. The calls count against budgets, and
    /// the definitions of the project must be trusted before the function is called.
    pub fn spending(answer: F) -> Self {
        Self {
            answer,
            spends: true,
        }
    }
}

impl<F> Driver for FnDriver<F>
where
    F: Fn(&AgentCall<'_>) -> Result<Reply> + Send + Sync,
{
    fn spends(&self) -> bool {
        self.spends
    }

    /// Returns true: the function may edit files, so a read-only call is always checked.
    fn works_in_tree(&self) -> bool {
        true
    }

    fn start(&self, call: &AgentCall<'_>) -> Result<Box<dyn RunningCall + '_>> {
        Ok(ReadyReply::boxed((self.answer)(call)?))
    }

    fn salvage(&self, _folder: &Path, _marker: &str) -> Result<Option<RecoveredCall>> {
        Ok(None)
    }
}

impl<F> fmt::Debug for FnDriver<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnDriver")
            .field("spends", &self.spends)
            .finish_non_exhaustive()
    }
}
