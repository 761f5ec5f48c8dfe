//! What is true of a session now: the fold of its events, nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{
    BlobId, CallOutcome, Decision, Event, Marker, Mode, Opened, OperationId, ReviewResult,
    StepOutcome, StepResult, TaskStatus, Why, Work,
};

/// What is true of a session now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    /// The current mode; none before the session has entered one.
    pub mode: Option<Mode>,
    /// The pack that leads the session; none before its first turn.
    pub pack: Option<String>,
    /// How many turns were started.
    pub turns: u64,
    /// How many of them in the current mode.
    pub mode_turns: u64,
    /// What was done in the current mode: how often, by operation.
    pub done: BTreeMap<OperationId, u64>,
    /// The first turn of the history that the last prompt showed, from 0.
    pub first_turn: Option<usize>,
    /// What the session works on.
    pub work: Work,
    /// How far the last turn has come.
    pub progress: Progress,
    /// Whether the session is over, and if so, whether it reached its goal.
    pub ended: Option<bool>,
    /// Its branch and work tree, if it has some of its own.
    pub change: Option<Opened>,
    /// Whether a person has let the session take its next turn.
    pub approved: bool,
    /// How often each mode was entered since a person last decided.
    pub rounds: BTreeMap<Mode, u64>,
    /// Number of turns in a row that have brought nothing in the current mode. A turn counts once its agent has answered
    /// or failed; one that was interrupted does not.
    pub fruitless: u64,
    /// What operations came to in the current mode.
    pub results: BTreeMap<OperationId, StepResult>,
    /// The last list of findings of each mode, as JSON in the ledger.
    pub findings: BTreeMap<Mode, BlobId>,
    /// What people said to it, in order.
    pub notes: Vec<String>,
    /// What the mode came to that was left last.
    pub left: Option<Left>,
}

/// What a mode came to that was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The mode.
    pub mode: Mode,
    /// The verdict of its last turn.
    pub verdict: Option<ReviewResult>,
    /// What operations came to in it.
    pub results: BTreeMap<OperationId, StepResult>,
}

/// How far the last turn has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// How often the agent was asked again for what its reply lacked.
    pub repairs: u64,
    /// A reply was read and committed.
    pub replied: bool,
    /// Its verdict.
    pub verdict: Option<ReviewResult>,
    /// The values of the pack's own markers, by name.
    pub markers: BTreeMap<String, String>,
    /// A task was reported as failed.
    pub task_failed: bool,
    /// Why the mode cannot be left, if it cannot.
    pub fault: Option<String>,
    /// Questions to a person that the reply asks instead of sending documents.
    pub questions: Vec<String>,
    /// Effects that are intended and not yet settled.
    pub open: u64,
    /// Effects that were asked for unclearly, or settled as not done.
    pub undone: u64,
    /// The turn is part of `State::fruitless`.
    #[serde(skip)]
    counted: bool,
    /// Those of them that were asked for unclearly.
    #[serde(skip)]
    unclear: u64,
    /// Those of them that were settled as not done.
    #[serde(skip)]
    failed: BTreeSet<(OperationId, String)>,
}

impl Progress {
    /// Returns the operations and targets of effects that were settled as not done.
    pub fn failed(&self) -> impl Iterator<Item = &(OperationId, String)> {
        self.failed.iter()
    }

    fn record_call(&mut self, why: Why) {
        match why {
            Why::Repair => self.repairs += 1,
            // The turn begins again: its earlier reply and repairs do not count.
            Why::Ask => self.repairs = 0,
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

    /// Returns the state that a list of events leads to.
    #[must_use]
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        Self::default().after(events)
    }

    /// Returns the state that further events lead to.
    #[must_use]
    pub fn after<'a>(mut self, events: impl IntoIterator<Item = &'a Event>) -> Self {
        for event in events {
            self.take(event);
        }
        self
    }

    /// Returns the state in which the next turn has begun, for a session without a ledger.
    #[must_use]
    pub fn begin_turn(mut self) -> Self {
        self.count_start();
        self
    }

    /// Returns the state after an effect of the current turn was carried out, or was not.
    #[must_use]
    pub fn settled(mut self, settlement: &StepResult) -> Self {
        self.settle(settlement);
        self
    }

    fn count_start(&mut self) {
        self.turns += 1;
        self.mode_turns += 1;
        self.approved = false;
        self.progress = Progress::default();
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Entered { mode } => {
                let results = std::mem::take(&mut self.results);
                let verdict = self.progress.verdict;
                self.left = self.mode.replace(mode.clone()).map(|mode| Left {
                    mode,
                    verdict,
                    results,
                });
                *self.rounds.entry(mode.clone()).or_default() += 1;
                self.approved = false;
                self.fruitless = 0;
                self.mode_turns = 0;
                self.done.clear();
                self.progress = Progress::default();
                // Whoever enters a mode of a session that is over takes it up again.
                self.ended = None;
            }
            Event::Described { work } => self.work = (**work).clone(),
            Event::Opened(opened) => self.change = Some((**opened).clone()),
            Event::Decided { decision, note } => {
                self.notes.extend(note.clone());
                self.approved = !matches!(decision, Decision::Reject | Decision::Cancel);
                // Who is not asked has not looked, so the count goes on.
                if *decision != Decision::Waive {
                    // The mode that goes on now has been entered, whoever let it.
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
                ..
            } => {
                self.progress.questions.clone_from(questions);
                self.count_turn();
                self.progress.unclear = *unclear;
                self.progress.undone = *unclear;
                self.progress.replied = true;
                self.progress.verdict = *verdict;
                self.progress.fault.clone_from(fault);
                let failed = |marker: &Marker| {
                    matches!(
                        marker,
                        Marker::TaskStatus {
                            status: TaskStatus::Failed,
                            ..
                        }
                    )
                };
                self.progress.task_failed = markers.iter().any(failed);
                for marker in markers {
                    if let Marker::Named { name, value } = marker {
                        self.progress.markers.insert(name.clone(), value.clone());
                    }
                }
            }
            Event::Called { why, .. } => self.progress.record_call(*why),
            Event::Launched { .. } => {}
            // An agent that fails in a repair takes nothing back; a user who stops it there stops the turn.
            Event::Answered(answered)
                if answered.end == CallOutcome::Stopped
                    || (!answered.end.is_ok() && self.progress.repairs == 0) =>
            {
                self.progress.fault = Some(format!("the agent's reply: {}", answered.end.name()));
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

    /// Counts the current turn, once, as one that has brought nothing so far.
    fn count_turn(&mut self) {
        if !self.progress.counted {
            self.progress.counted = true;
            self.fruitless += 1;
        }
    }

    /// Takes in what became of an effect.
    fn settle(&mut self, settlement: &StepResult) {
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
