//! What the ledger keeps: the closed list of things that happen to a session.

use serde::{Deserialize, Serialize};

use super::{Marker, Mode, ReviewResult, UsageMetrics, Work};

/// One thing that happened to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The session entered a mode.
    Entered {
        /// The mode.
        mode: Mode,
    },
    /// The caller has described what the session works on.
    Described {
        /// What it works on.
        work: Box<Work>,
    },
    /// A prompt is about to be sent.
    Started {
        /// The turn's number in the session, from 1.
        turn: u64,
        /// The mode it is taken in.
        mode: Mode,
        /// The agent it goes to.
        agent: String,
        /// The prompt's length in bytes.
        prompt_bytes: u64,
        /// The first turn of the history that it shows, from 0.
        first_turn: Option<usize>,
    },
    /// The agent was asked again for what its reply lacked, and answered.
    Repaired {
        /// The turn.
        turn: u64,
        /// The answer, as it came.
        reply: String,
        /// What the call used.
        usage: UsageMetrics,
    },
    /// A reply was read, and what follows from it was decided.
    Replied {
        /// The turn.
        turn: u64,
        /// The reply, as it came.
        reply: String,
        /// The markers that count.
        markers: Vec<Marker>,
        /// The verdict, if the reply holds one.
        verdict: Option<ReviewResult>,
        /// How much of it was asked for so unclearly that it is not done.
        unclear: u64,
        /// Why the turn cannot leave its mode, if it cannot.
        fault: Option<String>,
        /// What the call used.
        usage: UsageMetrics,
    },
    /// The program is about to do something that the reply asked for.
    Intended {
        /// The turn.
        turn: u64,
        /// What is to be done.
        effect: Effect,
    },
    /// Something intended was done, or was not.
    Settled {
        /// The turn.
        turn: u64,
        /// What became of it.
        settlement: Settlement,
    },
    /// The session is over.
    Ended {
        /// Whether it reached its goal.
        done: bool,
    },
}

/// A request to run an operation on a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The operation's name, such as `files.write`.
    pub operation: String,
    /// What it is done to.
    pub target: String,
    /// What it is done with.
    pub content: String,
}

/// What became of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The operation's name.
    pub operation: String,
    /// What it was done to.
    pub target: String,
    /// Whether it was done.
    pub done: bool,
    /// What happened, in words.
    pub detail: String,
}
