//! State of a session, computed from its events.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    ActionOutcome, ActionResult, BlobId, CallOutcome, CallReason, ChangeOrigin, Decision, Event,
    Marker, Mode, OperationId, ReviewResult, StateDocument, StepOutcome, StepResult, TaskStatus,
};

/// Current state of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    /// Current mode; `None` before the first.
    pub mode: Option<Mode>,
    /// Name of the pack; `None` before the first turn.
    pub pack: Option<String>,
    /// Number of turns started.
    pub turns: u64,
    /// Number of turns started in the current mode.
    pub mode_turns: u64,
    /// Number of effects carried out in the current mode, by operation.
    pub done: BTreeMap<OperationId, u64>,
    /// Index of the first history turn in the last prompt, from 0.
    pub first_turn: Option<usize>,
    /// State document that prompts show.
    #[serde(rename = "work")]
    pub document: StateDocument,
    /// Progress of the last turn.
    pub progress: Progress,
    /// True if the session reached its goal, false if it was abandoned; `None` while it is open.
    pub ended: Option<bool>,
    /// Origin of the change; `None` if the session is not a change.
    pub change: Option<ChangeOrigin>,
    /// True if the user has approved the next turn.
    pub approved: bool,
    /// Number of times that each mode was entered since the last decision of the user.
    pub rounds: BTreeMap<Mode, u64>,
    /// Number of consecutive turns without progress in the current mode. A turn is included once its agent has answered
    /// or failed; an interrupted turn is not included.
    pub fruitless: u64,
    /// Last result of each operation in the current mode.
    pub results: BTreeMap<OperationId, StepResult>,
    /// Last list of findings of each mode, as JSON in the ledger.
    pub findings: BTreeMap<Mode, BlobId>,
    /// Results of the actions of the last turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub action_results: Vec<ActionResult>,
    /// Notes of the user, in order.
    pub notes: Vec<String>,
    /// Risks of the gates that the user skipped, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<String>,
    /// True if the user went back to the current mode, so that only the user leaves it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_held: bool,
    /// Result of the previous mode; `None` in the first mode.
    #[serde(rename = "left")]
    pub previous: Option<PreviousMode>,
}

/// Result of the mode that the session was in before the current one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviousMode {
    #[expect(missing_docs, reason = "the name says it all")]
    pub mode: Mode,
    /// Verdict of its last turn.
    pub verdict: Option<ReviewResult>,
    /// Last result of each operation.
    pub results: BTreeMap<OperationId, StepResult>,
}

/// Progress of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Number of repair calls.
    pub repairs: u64,
    /// True if a reply was parsed and committed.
    pub replied: bool,
    /// Verdict of the reply.
    pub verdict: Option<ReviewResult>,
    /// Values of the pack's markers, by name.
    pub markers: BTreeMap<String, String>,
    /// True if a task was reported as failed.
    pub task_failed: bool,
    /// Reason why the session cannot leave the mode.
    pub fault: Option<String>,
    /// Questions to the user that the reply contains instead of documents.
    pub questions: Vec<String>,
    /// Number of intended effects without a result.
    pub open: u64,
    /// Number of effects that are unclear or have failed.
    pub undone: u64,
    /// True if the turn is counted in `State::fruitless`.
    #[serde(skip)]
    counted: bool,
    /// Number of unclear effects.
    #[serde(skip)]
    unclear: u64,
    /// Operation and target of each failed effect.
    #[serde(skip)]
    failed: BTreeSet<(OperationId, String)>,
}

impl Progress {
    /// Returns the operations and targets of failed effects.
    pub fn failed(&self) -> impl Iterator<Item = &(OperationId, String)> {
        self.failed.iter()
    }

    fn record_call(&mut self, why: CallReason) {
        match why {
            CallReason::Repair => self.repairs += 1,
            // The turn starts over, without its earlier reply and repairs.
            CallReason::Ask => self.repairs = 0,
        }
        self.fault = None;
    }
}

impl State {
    /// Returns the state of a session that has entered a mode and taken no turn.
    #[must_use]
    pub fn in_mode(mode: Mode) -> Self {
        Self::default().after([&Event::Entered { mode }])
    }

    /// Returns the state after a list of events.
    #[must_use]
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        Self::default().after(events)
    }

    /// Returns the state after further events.
    #[must_use]
    pub fn after<'a>(mut self, events: impl IntoIterator<Item = &'a Event>) -> Self {
        for event in events {
            self.apply_event(event);
        }
        self
    }

    /// Returns the state with the next turn started, for a session without a ledger.
    #[must_use]
    pub fn begin_turn(mut self) -> Self {
        self.count_start();
        self
    }

    /// Returns the state after the result of an effect of the current turn.
    #[must_use]
    pub fn settled(mut self, settlement: &StepResult) -> Self {
        self.settle(settlement);
        self
    }

    fn count_start(&mut self) {
        self.action_results.clear();
        self.turns += 1;
        self.mode_turns += 1;
        self.approved = false;
        self.progress = Progress::default();
    }

    fn apply_event(&mut self, event: &Event) {
        match event {
            Event::Entered { mode } => self.enter_mode(mode),
            Event::Returned { mode } => {
                self.enter_mode(mode);
                self.is_held = true;
            }
            Event::Undone { changes, .. } => {
                for change in changes {
                    self.document.apply_change(change);
                }
                self.action_results.clear();
                self.progress = Progress::default();
            }
            Event::GateSkipped { risk, .. } => self.risks.push(risk.clone()),
            Event::Described { work } => self.document = (**work).clone(),
            Event::StateChanged { changes, .. } => {
                for change in changes {
                    self.document.apply_change(change);
                }
            }
            Event::Opened(opened) => self.change = Some((**opened).clone()),
            Event::Decided { decision, note } => {
                self.notes.extend(note.clone());
                self.approved = !matches!(decision, Decision::Reject | Decision::Cancel);
                // If the decision was waived, the user has not looked at the work, so the limits keep counting.
                if *decision != Decision::Waive {
                    // The current mode was entered once.
                    self.rounds = self.mode.iter().map(|mode| (mode.clone(), 1)).collect();
                    self.fruitless = 0;
                }
            }
            Event::Started(started) => {
                self.count_start();
                self.first_turn = started.first_turn;
                self.turns = started.turn;
                self.pack = Some(started.pack.clone());
            }
            Event::Replied {
                markers,
                verdict,
                fault,
                unclear,
                questions,
                refused,
                ..
            } => {
                self.action_results.clone_from(refused);
                self.progress.questions.clone_from(questions);
                self.count_turn();
                self.progress.unclear = *unclear;
                self.progress.undone = *unclear;
                self.progress.replied = true;
                self.progress.verdict = *verdict;
                self.progress.fault.clone_from(fault);

                let is_failed_task = |marker: &Marker| {
                    matches!(
                        marker,
                        Marker::TaskStatus {
                            status: TaskStatus::Failed,
                            ..
                        }
                    )
                };
                self.progress.task_failed = markers.iter().any(is_failed_task);
                for marker in markers {
                    if let Marker::Named { name, value } = marker {
                        self.progress.markers.insert(name.clone(), value.clone());
                    }
                }
            }
            Event::Called { why, .. } => self.progress.record_call(*why),
            Event::Launched { .. } => {}
            // A failed repair call leaves the first reply valid; a repair stopped by the user stops the turn.
            Event::Answered(answered)
                if answered.end == CallOutcome::Stopped
                    || (!answered.end.is_ok() && self.progress.repairs == 0) =>
            {
                self.progress.fault = Some(format!(
                    "the call to the agent failed: {}",
                    answered.end.name()
                ));
                if !answered.end.is_interruption() {
                    self.count_turn();
                }
            }
            Event::Answered(_) => {}
            Event::Intended { .. } => self.progress.open += 1,
            Event::Settled { settlement, .. } => self.settle(settlement),
            Event::Ended { done } => self.ended = Some(*done),
        }
    }

    /// Resets everything that belongs to the previous mode, and keeps its result in `left`.
    fn enter_mode(&mut self, mode: &Mode) {
        let results = std::mem::take(&mut self.results);
        let verdict = self.progress.verdict;
        self.previous = self.mode.replace(mode.clone()).map(|mode| PreviousMode {
            mode,
            verdict,
            results,
        });

        *self.rounds.entry(mode.clone()).or_default() += 1;
        self.approved = false;
        self.fruitless = 0;
        self.mode_turns = 0;
        self.is_held = false;
        self.done.clear();
        self.progress = Progress::default();
        // Entering a mode reopens a session that has ended.
        self.ended = None;
    }

    /// Counts the current turn once as a turn without progress; `settle` resets the count on progress.
    fn count_turn(&mut self) {
        if !self.progress.counted {
            self.progress.counted = true;
            self.fruitless += 1;
        }
    }

    /// Applies the result of an effect.
    fn settle(&mut self, settlement: &StepResult) {
        if let Some(action) = &settlement.action {
            self.action_results.push(ActionResult {
                action: action.clone(),
                target: settlement.target.clone(),
                outcome: match settlement.done {
                    true => ActionOutcome::Done,
                    false => ActionOutcome::Failed,
                },
                detail: settlement.detail.clone(),
                text: String::new(),
            });
        }
        for change in settlement.changes.iter().filter(|_| settlement.done) {
            self.document.apply_change(change);
        }

        self.progress.open = self.progress.open.saturating_sub(1);
        if settlement.done {
            *self.done.entry(settlement.operation.clone()).or_default() += 1;
        }

        let key = (settlement.operation.clone(), settlement.target.clone());
        match settlement.done {
            true => self.progress.failed.remove(&key),
            false => self.progress.failed.insert(key),
        };
        self.progress.undone = self.progress.unclear + self.progress.failed.len() as u64;

        if settlement.result == Some(StepOutcome::Progress) {
            self.fruitless = 0;
        }
        if settlement.operation == OperationId::FindingsNote
            && let (Some(mode), Some(report)) = (&self.mode, &settlement.report)
        {
            self.findings.insert(mode.clone(), report.clone());
        }
        if settlement.result.is_some() {
            self.results
                .insert(settlement.operation.clone(), settlement.clone());
        }
    }
}
