//! What the ledger keeps: the closed list of things that happen to a session.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Amount, BlobId, CallOutcome, Decision, Format, Marker, Mode, Nonce, Opened, OperationId,
    Permission, Process, ReviewResult, SegmentRef, SessionId, StepOutcome, UpdateFormat,
    UsageMetrics, Work,
};

/// One thing that happened to a session.
#[non_exhaustive]
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
    /// The session got a branch and a work tree of its own.
    Opened(Box<Opened>),
    /// A person has decided, or has said that it may be gone on without one.
    Decided {
        /// What was decided.
        decision: Decision,
        /// What was said to it.
        note: Option<String>,
    },
    /// A turn begins: its prompt is made.
    Started(Box<Started>),
    /// The turn's agent is about to be called.
    Called {
        /// The turn.
        turn: u64,
        /// The call's number in the turn, from 1.
        call: u64,
        /// Why it is called.
        why: Why,
        /// The prompt's segments if it is not the turn's own.
        prompt: Vec<SegmentRef>,
        /// The run it belongs to.
        run: String,
        /// What is set aside for it.
        reserved: Amount,
        /// The variables whose values its texts must not hold.
        secrets: Vec<String>,
    },
    /// The agent runs as a process.
    Launched {
        /// The turn.
        turn: u64,
        /// The call.
        call: u64,
        /// The process that guards the agent.
        process: Process,
    },
    /// A call came to its end.
    Answered(Box<Answered>),
    /// A reply was read, and what follows from it was decided.
    Replied {
        /// The turn.
        turn: u64,
        /// The markers that count.
        markers: Vec<Marker>,
        /// The verdict, if the reply holds one.
        verdict: Option<ReviewResult>,
        /// How much of it was asked for so unclearly that it is not done.
        unclear: u64,
        /// Why the turn cannot leave its mode, if it cannot.
        fault: Option<String>,
        /// Questions to a person that the reply asks instead of sending documents.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        questions: Vec<String>,
    },
    /// The program is about to do something that the reply asked for.
    Intended {
        /// The turn.
        turn: u64,
        /// What is to be done.
        intent: Intent,
    },
    /// Something intended was done, or was not.
    Settled {
        /// The turn.
        turn: u64,
        /// What became of it.
        settlement: StepResult,
    },
    /// The session is over.
    Ended {
        /// Whether it reached its goal.
        done: bool,
    },
}

impl Event {
    /// Returns the texts of the ledger that it names.
    #[must_use]
    pub fn texts(&self) -> Vec<&BlobId> {
        match self {
            Self::Started(started) => {
                let segments = started.prompt.iter().flat_map(|segment| &segment.texts);
                segments
                    .chain(&started.sent)
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
            | Self::Described { .. }
            | Self::Opened(_)
            | Self::Decided { .. }
            | Self::Launched { .. }
            | Self::Replied { .. }
            | Self::Ended { .. } => Vec::new(),
        }
    }
}

/// A turn as it begins: enough to read its reply, and to send its prompt once more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The turn's number in the session, from 1.
    pub turn: u64,
    /// The mode it is taken in.
    pub mode: Mode,
    /// The agent it goes to.
    pub agent: String,
    /// The model it is written for, if one was named.
    pub model: Option<String>,
    /// The pack.
    pub pack: String,
    /// The hash of all of the pack that the turn rests on.
    pub pack_hash: BlobId,
    /// What the agent may do to the work tree.
    pub permission: Permission,
    /// Commands that it may run as well, if it may edit.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Whether the session has a folder that updates go to.
    pub named: bool,
    /// The prompt, piece by piece.
    pub prompt: Vec<SegmentRef>,
    /// The prompt as it is sent, if it is not its pieces one after the other.
    pub sent: Option<BlobId>,
    /// The rendering.
    #[serde(default)]
    pub format: Format,
    /// The prompt's length in bytes.
    pub prompt_bytes: u64,
    /// The fit report, as JSON.
    pub fit: BlobId,
    /// The first turn of the history that the prompt shows, from 0.
    pub first_turn: Option<usize>,
    /// What verdicts of this turn name, if the prompt tells it.
    pub nonce: Option<Nonce>,
    /// The numbers of the change's tasks, if it has a list of them.
    pub tasks: Option<Vec<String>>,
    /// How often the agent may be asked again.
    pub repairs: u8,
    /// What the session's files held that a reply may update, if the agent cannot edit them itself.
    pub targets: Option<BTreeMap<String, BlobId>>,
    /// What the files of the work tree held that the prompt shows, if a reply may edit them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<BTreeMap<String, BlobId>>,
    /// The commit of the session's own work tree when the turn began, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The change that is judged, if the turn only gives an opinion on it; then nothing else follows from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_change: Option<SessionId>,
}

/// Why an agent is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// For the turn's reply.
    Ask,
    /// For what the reply lacked.
    Repair,
}

/// A call that came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The turn.
    pub turn: u64,
    /// The call.
    pub call: u64,
    /// How it ended.
    #[serde(flatten)]
    pub end: CallOutcome,
    /// What the agent said of a failure.
    pub detail: String,
    /// The reply, as it came.
    pub reply: BlobId,
    /// What the agent reports to have used.
    pub usage: UsageMetrics,
    /// What the budgets count for it.
    pub spent: Amount,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
    /// How many processes the agent had left behind.
    pub left_behind: u64,
    /// Whether it was found finished by a later run.
    pub salvaged: bool,
}

/// A request to run an operation on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The operation that does it.
    pub operation: OperationId,
    /// What it is done to.
    pub target: String,
    /// What it is done with.
    pub content: String,
    /// How that is written.
    pub format: UpdateFormat,
}

/// An effect as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The operation that does it.
    pub operation: OperationId,
    /// What it is done to.
    pub target: String,
    /// What the target shall hold; `None` if it shall be gone.
    pub content: Option<BlobId>,
    /// What the target held when this was decided; `None` if there was none.
    pub before: Option<BlobId>,
    /// Why it is not done, if that is known already; then the content is what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What the step is run for; `None` in ledgers of versions that did not record it. Use [`Intent::trigger`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<StepTrigger>,
}

impl Intent {
    /// Returns what the step is run for.
    ///
    /// When triggers were not recorded, replies could ask only for the two operations that write files.
    #[must_use]
    pub fn trigger(&self) -> StepTrigger {
        self.trigger.unwrap_or(match self.operation {
            OperationId::FilesWrite | OperationId::FilesEdit => StepTrigger::Reply,
            _ => StepTrigger::Always,
        })
    }
}

/// What a step is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepTrigger {
    /// The reply asks for it.
    Reply,
    /// It is run after every turn of its mode, or at the end of the session.
    Always,
}

/// What became of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResult {
    /// The operation that does it.
    pub operation: OperationId,
    /// What it was done to.
    pub target: String,
    /// Whether it was done.
    pub done: bool,
    /// What happened, in words.
    pub detail: String,
    /// What it came to, in one word that rules may ask for, such as `FAILED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<StepOutcome>,
    /// What it found, whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<BlobId>,
    /// The text of the report, until it is recorded.
    #[serde(skip)]
    pub text: Option<String>,
}

impl StepResult {
    /// Returns the settlement of an effect that was carried out; `detail` says what happened.
    pub fn done(effect: &Effect, detail: impl Into<String>) -> Self {
        Self::new(effect, true, detail.into())
    }

    /// Returns the settlement of an effect that was not carried out; `detail` says why.
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
        }
    }

    /// Returns the result with an outcome that rules may ask for, and the text of the report.
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
