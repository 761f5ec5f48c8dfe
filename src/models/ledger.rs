//! Types of the ledger other than events: ids of blobs, holders of sessions, rows of lists.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Amount, CallOutcome, Mode, ReviewResult, SessionId};

/// Id of a blob in the ledger: the BLAKE3 hash of its bytes, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub String);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identity of a process, which distinguishes it from a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    #[expect(missing_docs, reason = "the name says it all")]
    pub pid: u32,
    /// Start time in clock ticks since boot; 0 on systems other than Linux.
    pub started: u64,
    /// Id of the system's current boot; empty on systems other than Linux.
    pub boot: String,
    /// Pid namespace, such as that of a container; empty if the system has none.
    #[serde(default)]
    pub namespace: String,
}

/// Holder of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    /// Command name shown to other processes that find the session locked, such as `agentd turn`.
    pub name: String,
    #[expect(missing_docs, reason = "the name says it all")]
    pub process: ProcessIdentity,
}

/// A session that a process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSession {
    #[expect(missing_docs, reason = "the name says it all")]
    pub session: SessionId,
    #[expect(missing_docs, reason = "the name says it all")]
    pub holder: LeaseHolder,
    /// Time of the claim.
    pub since: SystemTime,
    /// Time of the last heartbeat.
    pub seen: SystemTime,
    /// Fencing token of the lease.
    pub fence: u64,
}

/// A recorded segment of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRef {
    /// Id of the block.
    pub block: String,
    /// Part of the prompt and name of the item, for display.
    pub part: String,
    /// Origin of the content.
    pub source: String,
    /// Chunks of the text. Identical chunks are stored once.
    pub texts: Vec<BlobId>,
    /// Total length of the text.
    pub bytes: u64,
}

/// Summary of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    #[expect(missing_docs, reason = "the name says it all")]
    pub session: SessionId,
    /// Number of the turn in the session, from 1.
    pub turn: u64,
    #[expect(missing_docs, reason = "the name says it all")]
    pub mode: Mode,
    /// Name of the agent.
    pub agent: String,
    /// Id of the model; `None` if it is unknown.
    pub model: Option<String>,
    /// Start time.
    pub started: SystemTime,
    /// Number of calls.
    pub calls: u64,
    /// Outcome of the last call; `None` while it runs.
    pub end: Option<CallOutcome>,
    /// True if a reply was parsed and committed.
    pub replied: bool,
    /// Verdict of the reply.
    pub verdict: Option<ReviewResult>,
    /// Reason why the session could not leave the mode.
    pub fault: Option<String>,
    /// Tokens and money of all calls.
    pub spent: Amount,
    /// Total duration of all calls.
    pub milliseconds: u64,
}

/// Usage of an agent over all its calls in one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    #[expect(missing_docs, reason = "the name says it all")]
    pub session: SessionId,
    /// Name of the agent.
    pub agent: String,
    /// Id of the model; `None` if it is unknown.
    pub model: Option<String>,
    /// Number of turns.
    pub turns: u64,
    /// Number of calls.
    pub calls: u64,
    /// Tokens and money.
    pub spent: Amount,
    /// Total duration of all calls.
    pub milliseconds: u64,
}
