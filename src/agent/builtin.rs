//! Built-in agents that reply at once: an echo, and the replay of a recorded reply.

use std::path::Path;
use std::time::Duration;

use super::{AgentCall, Driver, RecoveredCall, RunningCall};
use crate::error::Result;
use crate::models::{ProcessIdentity, Reply};

/// An agent that replies with the prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl Driver for Echo {
    fn spends(&self) -> bool {
        false
    }

    fn start(&self, call: &AgentCall<'_>) -> Result<Box<dyn RunningCall + '_>> {
        Ok(ReadyReply::boxed(Reply::from_text(call.prompt)))
    }

    fn salvage(&self, _folder: &Path, _marker: &str) -> Result<Option<RecoveredCall>> {
        Ok(None)
    }
}

/// An agent that answers every prompt with the same recorded reply.
#[derive(Clone, Debug)]
pub struct Replay(Reply);

impl Replay {
    /// Returns an agent that gives this reply.
    #[must_use]
    pub fn new(reply: Reply) -> Self {
        Self(reply)
    }
}

impl Driver for Replay {
    fn spends(&self) -> bool {
        false
    }

    fn start(&self, _call: &AgentCall<'_>) -> Result<Box<dyn RunningCall + '_>> {
        Ok(ReadyReply::boxed(self.0.clone()))
    }

    fn salvage(&self, _folder: &Path, _marker: &str) -> Result<Option<RecoveredCall>> {
        Ok(None)
    }
}

/// A call whose reply is already complete.
#[derive(Debug)]
pub(super) struct ReadyReply {
    reply: Option<Reply>,
    /// Text that `said` has not returned yet.
    unreported: String,
}

impl ReadyReply {
    pub(super) fn boxed(reply: Reply) -> Box<dyn RunningCall> {
        Box::new(Self {
            unreported: reply.text.clone(),
            reply: Some(reply),
        })
    }
}

impl RunningCall for ReadyReply {
    fn process(&self) -> Option<&ProcessIdentity> {
        None
    }

    fn wait(&mut self, _patience: Duration) -> Result<Option<Reply>> {
        Ok(self.reply.take())
    }

    fn said(&mut self) -> String {
        std::mem::take(&mut self.unreported)
    }

    fn stop(&mut self, _at_once: bool) {}
}
