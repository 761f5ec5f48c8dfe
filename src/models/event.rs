//! Events of sessions, which the ledger records.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Amount, BlobId, CallOutcome, ChangeOrigin, Decision, Format, Marker, Mode, Nonce, OperationId,
    Permission, ProcessIdentity, ReviewResult, SegmentRef, SessionId, StateChange, StateDocument,
    StepOutcome, UpdateFormat, UsageMetrics,
};

/// An event of a session.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The session entered a mode.
    Entered {
        #[expect(missing_docs, reason = "the name says it all")]
        mode: Mode,
    },
    /// The user went back to a mode. The session stays in it until the user leaves it.
    Returned {
        #[expect(missing_docs, reason = "the name says it all")]
        mode: Mode,
    },
    /// The user left a mode although its gate was closed.
    GateSkipped {
        /// The mode that was left.
        mode: Mode,
        /// The risk that later prompts show.
        risk: String,
    },
    /// The caller has set the state document of the session.
    Described {
        #[expect(missing_docs, reason = "the type says it all")]
        work: Box<StateDocument>,
    },
    /// The session was opened as a change, with its own branch and worktree.
    Opened(Box<ChangeOrigin>),
    /// The state document has changed, other than by the effect of a reply.
    StateChanged {
        /// Changes in order.
        changes: Vec<StateChange>,
        /// Cause of the changes.
        cause: ChangeCause,
    },
    /// The user has undone a message of a conversation.
    Undone {
        /// Numbers of its turns.
        turns: Vec<u64>,
        /// Changes that undo its effects, in order.
        changes: Vec<StateChange>,
    },
    /// The user has made a decision, or has waived it.
    Decided {
        #[expect(missing_docs, reason = "the name says it all")]
        decision: Decision,
        /// Note of the user.
        note: Option<String>,
    },
    /// A turn has started. Its prompt is composed but not sent yet.
    Started(Box<TurnStart>),
    /// The agent of a turn is about to be called.
    Called {
        /// Number of the turn in the session, from 1.
        turn: u64,
        /// Number of the call in the turn, from 1.
        call: u64,
        #[expect(missing_docs, reason = "the type says it all")]
        why: CallReason,
        /// Segments of the prompt; empty if it is the prompt of the turn.
        prompt: Vec<SegmentRef>,
        /// Id of the run that makes the call.
        run: String,
        /// Amount reserved in the budgets.
        reserved: Amount,
        /// Names of the variables whose values are redacted.
        secrets: Vec<String>,
    },
    /// The agent was started as a process.
    Launched {
        /// Number of the turn in the session, from 1.
        turn: u64,
        /// Number of the call in the turn, from 1.
        call: u64,
        /// Process that supervises the agent.
        process: ProcessIdentity,
    },
    /// A call has ended.
    Answered(Box<CallEnd>),
    /// A reply was parsed, and its effects were decided.
    Replied {
        /// Number of the turn in the session, from 1.
        turn: u64,
        /// Accepted markers.
        markers: Vec<Marker>,
        /// Accepted verdict.
        verdict: Option<ReviewResult>,
        /// Number of effects that are not carried out because they are ambiguous.
        unclear: u64,
        /// Reason why the session cannot leave the mode after this turn.
        fault: Option<String>,
        /// Questions to the user that the reply contains instead of documents.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        questions: Vec<String>,
        /// Requested effects that are not carried out, with the reasons.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<ActionResult>,
    },
    /// An effect is about to be carried out.
    Intended {
        /// Number of the turn in the session, from 1.
        turn: u64,
        #[expect(missing_docs, reason = "the type says it all")]
        intent: Intent,
    },
    /// An intended effect was carried out or has failed.
    Settled {
        /// Number of the turn in the session, from 1.
        turn: u64,
        #[expect(missing_docs, reason = "the type says it all")]
        settlement: StepResult,
    },
    /// The session has ended.
    Ended {
        /// True if the session reached its goal, false if it was abandoned.
        done: bool,
    },
}

impl Event {
    /// Returns the ids of all blobs that the event refers to.
    #[must_use]
    pub fn blob_ids(&self) -> Vec<&BlobId> {
        match self {
            Self::Started(started) => {
                let segments = started.prompt.iter().flat_map(|segment| &segment.texts);
                segments
                    .chain(&started.sent)
                    .chain(&started.message)
                    .chain([&started.fit])
                    .collect()
            }
            Self::Called { prompt, .. } => {
                prompt.iter().flat_map(|segment| &segment.texts).collect()
            }
            Self::Answered(answered) => vec![&answered.reply],
            Self::Intended { intent, .. } => intent.content.iter().collect(),
            Self::Settled { settlement, .. } => settlement.report.iter().collect(),
            Self::Entered { .. }
            | Self::Returned { .. }
            | Self::Undone { .. }
            | Self::GateSkipped { .. }
            | Self::Described { .. }
            | Self::StateChanged { .. }
            | Self::Opened(_)
            | Self::Decided { .. }
            | Self::Launched { .. }
            | Self::Replied { .. }
            | Self::Ended { .. } => Vec::new(),
        }
    }
}

/// Start of a turn: everything needed to parse its reply and to send its prompt again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStart {
    /// Number of the turn in the session, from 1.
    pub turn: u64,
    #[expect(missing_docs, reason = "the name says it all")]
    pub mode: Mode,
    /// Name of the agent.
    pub agent: String,
    /// Id of the model that the prompt is fitted to; `None` if it is unknown.
    pub model: Option<String>,
    /// Name of the pack.
    pub pack: String,
    /// Hash of everything that determines how the reply is parsed: the pack, the template and the nonce policy.
    pub pack_hash: BlobId,
    /// Access of the agent to the working tree.
    pub permission: Permission,
    /// Additional commands that an agent with edit access may run.
    #[serde(default)]
    pub commands: Vec<String>,
    /// True if the caller named the session, so that it has a folder for its documents. False for one-off sessions and
    /// for sessions of reviewers.
    pub named: bool,
    /// Segments of the prompt.
    pub prompt: Vec<SegmentRef>,
    /// Prompt as sent, if it is not the concatenation of its segments.
    pub sent: Option<BlobId>,
    /// Format of the prompt.
    #[serde(default)]
    pub format: Format,
    /// Length of the prompt as sent.
    pub prompt_bytes: u64,
    /// Message of the user, in a pack whose prompts show earlier turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<BlobId>,
    /// Fit report, as JSON.
    pub fit: BlobId,
    /// Index of the first history turn in the prompt, from 0.
    pub first_turn: Option<usize>,
    /// Nonce that verdicts of this turn must carry; `None` if the prompt has none.
    pub nonce: Option<Nonce>,
    /// Numbers of the change's tasks; `None` without a task list.
    pub tasks: Option<Vec<String>>,
    /// Maximum number of repair calls.
    pub repairs: u8,
    /// Content of the session's documents that the reply may update, by path; `None` if the agent edits them itself.
    pub targets: Option<BTreeMap<String, BlobId>>,
    /// Content of the files that the prompt shows, by path, if the reply may edit files of the working tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<BTreeMap<String, BlobId>>,
    /// Commit of the change's worktree when the turn started; `None` without a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Change under review, in the session of a reviewer. Such a turn has no effects except its verdict and its
    /// findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_change: Option<SessionId>,
}

/// Reason for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallReason {
    /// Call for the reply of a turn.
    Ask,
    /// Repair call: requests missing or unclear parts of the reply.
    Repair,
}

/// End of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnd {
    /// Number of the turn in the session, from 1.
    pub turn: u64,
    /// Number of the call in the turn, from 1.
    pub call: u64,
    /// Outcome of the call.
    #[serde(flatten)]
    pub end: CallOutcome,
    /// Error message of the agent, or empty.
    pub detail: String,
    /// Unparsed reply.
    pub reply: BlobId,
    /// Usage that the agent reports.
    pub usage: UsageMetrics,
    /// Usage charged to the budgets.
    pub spent: Amount,
    /// Duration of the call.
    pub milliseconds: u64,
    /// Number of leftover processes of the agent, which were killed.
    pub left_behind: u64,
    /// True if a later run recovered the reply of an interrupted call.
    pub salvaged: bool,
}

/// Cause of a change of the state document that no reply asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeCause {
    /// A file was edited outside of agentd.
    Files,
    /// The user gave a command.
    User,
}

/// Result of an action, as the next prompt shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionResult {
    /// Name of the action, or the kind of another effect such as `content_update`.
    pub action: String,
    /// Target of the effect; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,
    #[expect(missing_docs, reason = "the type says it all")]
    pub outcome: ActionOutcome,
    /// Description of the effect, or the reason why there is none.
    pub detail: String,
    /// Source text of a refused action; empty for others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionOutcome {
    /// It was carried out.
    Done,
    /// It was not carried out, because it is invalid or not permitted.
    Refused,
    /// It was permitted, but carrying it out failed.
    Failed,
}

impl ActionOutcome {
    /// Returns the outcome as it is spelt in data.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// A request to run an operation on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Action that requests it; `None` for an update.
    pub action: Option<String>,
    #[expect(missing_docs, reason = "the name says it all")]
    pub operation: OperationId,
    /// Path or other target of the operation.
    pub target: String,
    /// Input of the operation.
    pub content: String,
    /// Format of `content`.
    pub format: UpdateFormat,
}

/// An effect as recorded in the ledger before it is carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    #[expect(missing_docs, reason = "the name says it all")]
    pub operation: OperationId,
    /// Path or other target of the operation.
    pub target: String,
    /// New content of the target; `None` to remove it.
    pub content: Option<BlobId>,
    /// Content of the target when the effect was decided; `None` if the target did not exist.
    pub before: Option<BlobId>,
    /// Reason why the effect is refused; `None` if it is not. `content` of a refused effect is the requested content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Trigger of the step; `None` in ledgers of versions that did not record it. Use [`Intent::trigger`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<StepTrigger>,
    /// Action that requested the effect; `None` for an update and for steps that are always run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

impl Intent {
    /// Returns the trigger of the step.
    ///
    /// Versions that did not record triggers let replies request only the two operations that write files.
    #[must_use]
    pub fn trigger(&self) -> StepTrigger {
        self.trigger.unwrap_or(match self.operation {
            OperationId::FilesWrite | OperationId::FilesEdit => StepTrigger::Reply,
            _ => StepTrigger::Always,
        })
    }
}

/// Trigger of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepTrigger {
    /// A request in the reply.
    Reply,
    /// The end of every turn of the mode, or of the session.
    Always,
    /// A command of the user, which no turn records as an intent.
    Command,
}

/// Result of a step: whether it was done, and the details for the user and the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResult {
    #[expect(missing_docs, reason = "the name says it all")]
    pub operation: OperationId,
    /// Path or other target of the operation.
    pub target: String,
    /// True if the effect was carried out.
    pub done: bool,
    /// Description for the user.
    pub detail: String,
    /// Outcome that rules of a pack can test, such as `FAILED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<StepOutcome>,
    /// Full report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<BlobId>,
    /// Text of the report, until it is recorded.
    #[serde(skip)]
    pub text: Option<String>,
    /// Action that requested the effect, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Changes of the state document that the effect made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<StateChange>,
}

impl StepResult {
    /// Returns the result of an effect that was carried out.
    pub fn done(effect: &Effect, detail: impl Into<String>) -> Self {
        Self::new(effect, true, detail.into())
    }

    /// Returns the result of an effect that was not carried out; `detail` is the reason.
    pub fn not_done(effect: &Effect, detail: impl Into<String>) -> Self {
        Self::new(effect, false, detail.into())
    }

    fn new(effect: &Effect, done: bool, detail: String) -> Self {
        Self {
            operation: effect.operation.clone(),
            target: effect.target.clone(),
            done,
            detail,
            result: None,
            report: None,
            text: None,
            action: effect.action.clone(),
            changes: Vec::new(),
        }
    }

    /// Adds changes of the state document.
    #[must_use]
    pub fn with_changes(self, changes: Vec<StateChange>) -> Self {
        Self { changes, ..self }
    }

    /// Adds an outcome and the text of a report.
    #[must_use]
    pub fn with_outcome(self, outcome: StepOutcome, text: Option<String>) -> Self {
        Self {
            result: Some(outcome),
            text,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_without_a_trigger_gets_it_from_its_operation() {
        let cases = [
            ("files.write", StepTrigger::Reply),
            ("files.edit", StepTrigger::Reply),
            ("git.commit", StepTrigger::Always),
            ("findings.note", StepTrigger::Always),
        ];
        for (operation, expected) in cases {
            let json = format!(
                r#"{{"operation":"{operation}","target":"x","content":null,"before":null}}"#
            );
            let intent: Intent = serde_json::from_str(&json).unwrap();
            assert_eq!(intent.trigger(), expected, "{operation}");
            assert_eq!(serde_json::to_string(&intent).unwrap(), json);
        }
    }

    #[test]
    fn a_recorded_trigger_counts_more_than_the_operation() {
        let json = r#"{"operation":"bell.ring","target":"x","content":null,"before":null,"trigger":"reply"}"#;
        let intent: Intent = serde_json::from_str(json).unwrap();
        assert_eq!(intent.trigger(), StepTrigger::Reply);
        assert_eq!(serde_json::to_string(&intent).unwrap(), json);
    }
}
