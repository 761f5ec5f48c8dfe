//! What the ledger keeps beside events: who holds a session, texts by their hash, a turn on one line.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Amount, CallOutcome, Mode, ReviewResult, SessionId};

/// The name of a text in the ledger: the hash of its bytes, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub String);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A process that can be told from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it was started, in the system's own ticks since it was booted.
    pub started: u64,
    /// Which boot of the system that was.
    pub boot: String,
    /// The namespace that its number belongs to, as a container has one of its own; empty if the system has none.
    #[serde(default)]
    pub namespace: String,
}

/// Who holds a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// What it is doing, such as `agentd turn`.
    pub name: String,
    /// The process.
    pub process: Process,
}

/// A session that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSession {
    /// The session.
    pub session: SessionId,
    /// Who holds it.
    pub holder: Holder,
    /// Since when.
    pub since: SystemTime,
    /// When the holder last said that it is there.
    pub seen: SystemTime,
    /// The number of its lease.
    pub fence: u64,
}

/// A segment of a prompt as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRef {
    /// The block's id.
    pub block: String,
    /// The part of the prompt that it fills, and its name there, as people read it.
    pub part: String,
    /// Where its content came from.
    pub source: String,
    /// Its bytes, piece by piece: what other turns share is kept once.
    pub texts: Vec<BlobId>,
    /// How many there are.
    pub bytes: u64,
}

/// A turn on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// The session.
    pub session: SessionId,
    /// The turn's number in it, from 1.
    pub turn: u64,
    /// The mode.
    pub mode: Mode,
    /// The agent.
    pub agent: String,
    /// The model, if one was named.
    pub model: Option<String>,
    /// When it was started.
    pub started: SystemTime,
    /// How often the agent was called.
    pub calls: u64,
    /// How the last call ended; `None` while it runs.
    pub end: Option<CallOutcome>,
    /// Whether the reply was read and committed.
    pub replied: bool,
    /// The verdict, if the reply holds one.
    pub verdict: Option<ReviewResult>,
    /// Why the mode could not be left, if it could not.
    pub fault: Option<String>,
    /// What all its calls have spent.
    pub spent: Amount,
    /// How long they took, in milliseconds.
    pub milliseconds: u64,
}

/// What an agent has used, over all its calls in one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// The session.
    pub session: SessionId,
    /// The agent.
    pub agent: String,
    /// The model, if one was named.
    pub model: Option<String>,
    /// How many turns it took.
    pub turns: u64,
    /// How often it was called.
    pub calls: u64,
    /// Tokens and money.
    pub spent: Amount,
    /// How long the calls took, in milliseconds.
    pub milliseconds: u64,
}
