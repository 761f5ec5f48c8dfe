//! Decides the consequences of a parsed reply: permitted effects, events for the ledger, and the next mode. Pure: effects
//! are returned, and executed by the caller.
//!
//! [`apply()`] decides on the effects of a reply, [`advance`] on the next mode. [`take_reply`] does the former for a program
//! that keeps the [`State`] itself, without a ledger:
//!
//! ```
//! use agentd::apply::{advance, closed_gate, take_reply};
//! use agentd::models::State;
//! use agentd::parse::{ReplyContext, parse, verdict};
//! use agentd::{Pack, SearchPath};
//!
//! let pack = Pack::load("foreman", &SearchPath::default())?;
//! let grammar = pack.grammar(&pack.start)?;
//! let response = parse("<message>Who is she?</message>", &grammar, &ReplyContext::default());
//!
//! let (state, outcome) =
//!     take_reply(&pack, State::default(), &response, verdict(&response, &grammar))?;
//! assert!(outcome.effects.is_empty());
//! assert_eq!(advance(&pack, &state)?, None);
//! assert!(closed_gate(&pack, &state)?.is_some());
//! # Ok::<(), agentd::Error>(())
//! ```

mod action;
mod findings;
mod gate;
mod permit;
mod tree;

use std::collections::BTreeMap;

pub use findings::{JoinedFindings, collect_findings, finding_of_action, join_findings};
pub use gate::{GateChecklist, GateCondition, closed_gates, gate_checklist};
use permit::ReplyPermit;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::models::{
    ActionOutcome, ActionResult, Decision, Effect, EffectKind, Event, Mode, OperationId,
    RejectedEffect, Response, ReviewResult, State, StepResult, TurnResult, mean_completion,
};
use crate::pack::{FactValue, ManifestRule, ModeSpec, NextTarget, Pack, RuleFacts};

/// Consequences of a response.
#[derive(Debug)]
pub struct ReplyOutcome {
    /// Events to record in the ledger.
    pub events: Vec<Event>,
    /// Effects to execute.
    pub effects: Vec<Effect>,
    /// Rejected effects, with the reasons.
    pub proposals: Vec<RejectedEffect>,
    /// Verdict of the reply, if it has one.
    pub verdict: Option<ReviewResult>,
    /// Reason why the session cannot leave the mode, if there is one.
    pub fault: Option<Error>,
}

/// Decides on the consequences of a response in the state's mode.
///
/// `may_edit_tree` allows edits of files of the working tree that the prompt showed, for agents without tools in modes with
/// `edits: tree`.
///
/// # Errors
///
/// `UnknownMode` if the pack does not define the state's mode. A missing or unknown verdict is not an error but the fault
/// of the outcome, so that the reply is kept.
pub fn apply(
    pack: &Pack,
    state: &State,
    may_edit_tree: bool,
    response: &Response,
    verdict: Result<Option<ReviewResult>>,
) -> Result<ReplyOutcome> {
    let mode = state.mode.as_ref().unwrap_or(&pack.start);
    let permit = ReplyPermit {
        spec: pack.mode(mode)?,
        can_edit_tree: may_edit_tree,
    };

    let mut proposals = response.proposals.clone();
    let mut effects = Vec::new();
    for update in &response.updates {
        match permit.check_update(update) {
            Ok(effect) => effects.push(effect),
            Err(reason) => proposals.push(RejectedEffect {
                what: EffectKind::update(&update.target),
                reason,
                text: update.content.clone(),
                line: None,
                span: update.span.clone(),
                again: false,
            }),
        }
    }

    let mut action_effects = Vec::new();
    for action in &response.actions {
        match action::permit_action(pack, mode, action)
            .and_then(|effect| permit.check_effect(effect))
        {
            Ok(effect) => action_effects.push(effect),
            Err(reason) => {
                proposals.push(RejectedEffect {
                    what: EffectKind::action(&action.name),
                    reason,
                    text: action.text.clone(),
                    line: None,
                    span: action.span.clone(),
                    again: false,
                });
            }
        }
    }

    // A status is judged on what the other actions of the reply have written, whatever order the reply has them in.
    let after = &permit.spec.after;
    action_effects.sort_by_key(|effect| after.iter().position(|known| *known == effect.operation));
    effects.extend(action_effects);

    let (verdict, fault) = match verdict {
        Ok(verdict) => (verdict, None),
        Err(error) => (None, Some(error)),
    };
    let turn = state.turns;

    // A rejected verdict tag is not counted: if the mode requires a verdict, the turn has a fault already.
    let unclear = response
        .proposals
        .iter()
        .filter(|proposal| proposal.what != EffectKind::Review)
        .count() as u64;
    let events = vec![Event::Replied {
        turn,
        markers: response.markers.clone(),
        verdict,
        unclear,
        fault: fault.as_ref().map(ToString::to_string),
        questions: response.questions.clone(),
        refused: proposals.iter().map(refused_result).collect(),
    }];

    Ok(ReplyOutcome {
        events,
        effects,
        proposals,
        verdict,
        fault,
    })
}

/// Maximum length of the source text of a refused effect that the ledger keeps, in bytes. The reply has all of it.
const MAX_REFUSED_TEXT_BYTES: usize = 2_000;

/// Returns the result of an effect that is not carried out.
fn refused_result(refused: &RejectedEffect) -> ActionResult {
    let (kind, name) = match &refused.what {
        EffectKind::Review => ("review", None),
        EffectKind::TaskStatus(task) => ("task_status", task.clone()),
        EffectKind::Update(target) => ("content_update", target.clone()),
        EffectKind::Action(name) => ("action", name.clone()),
    };
    let is_action = refused.what.is_action();
    let cut = refused.text.floor_char_boundary(MAX_REFUSED_TEXT_BYTES);

    ActionResult {
        action: match &name {
            Some(name) if is_action => name.clone(),
            _ => kind.to_owned(),
        },
        target: name.filter(|_| !is_action).unwrap_or_default(),
        outcome: ActionOutcome::Refused,
        detail: refused.reason.clone(),
        text: refused.text[..cut].to_owned(),
    }
}

/// Applies a reply to a session without a ledger: begins a turn, decides on the consequences of the response, and returns
/// the state after it.
///
/// Afterwards, the caller executes [`ReplyOutcome::effects`] and adds each result with [`State::settled`]. Then [`advance`]
/// returns the event of entering the next mode, and [`closed_gate`] the gate that keeps the session in its mode, if one
/// does.
///
/// `verdict` is the result of [`parse::verdict`](crate::parse::verdict). The reply cannot edit a working tree.
///
/// # Errors
///
/// `UnknownMode` if the pack does not define the state's mode.
pub fn take_reply(
    pack: &Pack,
    state: State,
    response: &Response,
    verdict: Result<Option<ReviewResult>>,
) -> Result<(State, ReplyOutcome)> {
    let state = state.begin_turn();
    let outcome = apply(pack, &state, false, response, verdict)?;
    let intended = outcome.effects.len() as u64;
    let mut state = state.after(&outcome.events);
    state.progress.open += intended;
    Ok((state, outcome))
}

/// Returns the event of entering the next mode or of ending the session; `None` to stay in the mode.
///
/// The session stays as long as the last reply has a fault, an effect has no result or has failed, questions are open, the
/// user went back to the mode, or the gate is closed.
///
/// # Errors
///
/// `UnknownMode` if the pack does not define the state's mode.
pub fn advance(pack: &Pack, state: &State) -> Result<Option<Event>> {
    let mode = state.mode.as_ref().unwrap_or(&pack.start);
    let spec = pack.mode(mode)?;
    let progress = &state.progress;

    let is_settled = progress.replied && progress.fault.is_none() && progress.undone == 0;
    if !is_settled || !can_move_on(state) {
        return Ok(None);
    }

    // A gate does not prevent a session from stopping.
    let target = next_target(spec, state);
    if target != Some(&NextTarget::Stop) && closed_gate(pack, state)?.is_some() {
        return Ok(None);
    }
    Ok(target.and_then(|target| target_event(mode, target)))
}

/// Returns the event of entering the next mode or of ending the session after a command of the user; `None` to stay in
/// the mode.
///
/// Other than [`advance`], it needs no reply: an open gate is enough, even if the last reply had a fault or asked for
/// something that failed. The session stays in a mode without a gate, because no command can open one, and in a mode whose
/// `finish` operations would run at the end, because they belong to a turn.
///
/// # Errors
///
/// `UnknownMode` if the pack does not define the state's mode.
pub fn advance_after_command(pack: &Pack, state: &State) -> Result<Option<Event>> {
    let mode = state.mode.as_ref().unwrap_or(&pack.start);
    let spec = pack.mode(mode)?;
    let is_gate_open = spec.gate.is_some() && closed_gate(pack, state)?.is_none();
    if !is_gate_open || !can_move_on(state) {
        return Ok(None);
    }

    let target = next_target(spec, state);
    if target == Some(&NextTarget::Done) && !spec.finish.is_empty() {
        return Ok(None);
    }
    Ok(target.and_then(|target| target_event(mode, target)))
}

/// Returns true if nothing but the last reply and the gate can keep the session in its mode.
fn can_move_on(state: &State) -> bool {
    let progress = &state.progress;
    state.ended.is_none() && progress.open == 0 && progress.questions.is_empty() && !state.is_held
}

/// Returns the entry of `next` for the result of the last turn; without a turn, that of `otherwise`.
fn next_target<'p>(spec: &'p ModeSpec, state: &State) -> Option<&'p NextTarget> {
    let result = turn_result(spec, state);
    spec.next
        .get(&result)
        .or_else(|| spec.next.get(&TurnResult::Otherwise))
}

/// Returns the event of going from a mode to a target; `None` if the target is the mode itself.
fn target_event(mode: &Mode, target: &NextTarget) -> Option<Event> {
    match target {
        NextTarget::Mode(next) if next == mode => None,
        NextTarget::Mode(next) => Some(Event::Entered { mode: next.clone() }),
        NextTarget::Done => Some(Event::Ended { done: true }),
        NextTarget::Stop => Some(Event::Ended { done: false }),
    }
}

/// Returns the result of the last turn: the reply's result, or the result of the evidence if it is worse.
fn turn_result(spec: &ModeSpec, state: &State) -> TurnResult {
    let progress = &state.progress;
    let reply_result = match progress.verdict {
        Some(verdict) => TurnResult::Verdict(verdict),
        None if progress.task_failed => TurnResult::Failed,
        None => TurnResult::Otherwise,
    };
    overruled_by(spec, reply_result, &state.results).map_or(reply_result, |(_, result)| result)
}

/// Returns the operation whose evidence overrules the reply's result, and the worse result; `None` if no evidence does.
///
/// Evidence never improves a result. If several results of the evidence are worse than the reply's, the worst is returned.
#[must_use]
pub fn overruled_by<'a>(
    spec: &'a ModeSpec,
    reply_result: TurnResult,
    results: &BTreeMap<OperationId, StepResult>,
) -> Option<(&'a OperationId, TurnResult)> {
    let evidence = spec.evidence.iter().filter_map(|(operation, rules)| {
        let result = rules.get(results.get(operation)?.result.as_ref()?)?;
        Some((operation, *result))
    });
    let mut worst = None;
    for (operation, result) in evidence {
        if severity(result) > severity(worst.map_or(reply_result, |(_, worst)| worst)) {
            worst = Some((operation, result));
        }
    }
    worst
}

/// Returns the severity of a result for comparison. A failure is as severe as `NEEDS_REVISION`.
fn severity(result: TurnResult) -> Option<ReviewResult> {
    match result {
        TurnResult::Verdict(verdict) => Some(verdict),
        TurnResult::Failed => Some(ReviewResult::NeedsRevision),
        TurnResult::Otherwise => None,
    }
}

/// Next possible step of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum NextStep {
    /// The next turn can start.
    Ready {
        /// Mode of the turn.
        mode: Mode,
    },
    /// The user must approve the mode before it begins.
    Approval {
        /// Mode to approve.
        mode: Mode,
    },
    /// The user must approve the mode, and no setting waives the approval.
    Person {
        /// Mode to approve.
        mode: Mode,
        /// Files or facts that require the approval.
        reason: String,
    },
    /// The user must answer the agent's questions.
    Answers {
        /// Mode whose agent asked the questions.
        mode: Mode,
        /// File with the questions.
        file: String,
    },
    /// The limit of rounds is reached: the user must decide how to continue.
    Rounds {
        /// Mode that was entered too often or makes no progress.
        mode: Mode,
        /// Limit of rounds.
        rounds: u64,
    },
    /// The session has ended.
    Over {
        /// True if the session reached its goal.
        done: bool,
    },
}

/// Returns the next step of a session. A mode may be entered `rounds` times before the user must
/// decide how to continue.
///
/// # Errors
///
/// `UnknownMode` if the pack does not define the state's mode.
pub fn next_step(pack: &Pack, state: &State, rounds: u64) -> Result<NextStep> {
    let mode = state.mode.as_ref().unwrap_or(&pack.start);
    let spec = pack.mode(mode)?;
    let mode = mode.clone();
    if let Some(done) = state.ended {
        return Ok(NextStep::Over { done });
    }

    // The user's approval skips all other reasons to stop.
    if state.approved {
        return Ok(NextStep::Ready { mode });
    }

    let verdict = state.progress.verdict;
    let needs_answers = !state.progress.questions.is_empty()
        || verdict.is_some_and(|verdict| spec.stays_after(&mode, verdict));
    if let Some(file) = spec.questions.clone().filter(|_| needs_answers) {
        return Ok(NextStep::Answers { mode, file });
    }

    if state
        .rounds
        .get(&mode)
        .is_some_and(|entered| *entered > rounds)
        || state.fruitless >= rounds
    {
        return Ok(NextStep::Rounds { mode, rounds });
    }

    if state.mode_turns == 0
        && let Some(reason) = person_reason(spec, state)
    {
        return Ok(NextStep::Person { mode, reason });
    }

    // A mode that its review sends back to was approved when it was first entered.
    let judge = state
        .previous
        .as_ref()
        .and_then(|previous| pack.modes.get(&previous.mode))
        .and_then(|spec| spec.judges.as_ref());
    if spec.approval && state.mode_turns == 0 && judge != Some(&mode) {
        return Ok(NextStep::Approval { mode });
    }

    Ok(NextStep::Ready { mode })
}

/// Returns the detail of the first result of the previous mode that requires the user's approval; `None` if there is none.
fn person_reason(spec: &ModeSpec, state: &State) -> Option<String> {
    let results = &state.previous.as_ref()?.results;
    let decisive = spec.needs_person.iter().find_map(|(operation, outcome)| {
        results
            .get(operation)
            .filter(|result| result.result.as_ref() == Some(outcome))
    })?;
    Some(decisive.detail.clone())
}

/// Returns the event that follows from the user's decision. The caller records the decision after this event.
///
/// # Errors
///
/// `UnknownMode` if the pack does not define the state's mode.
pub fn decided(pack: &Pack, state: &State, decision: Decision) -> Result<Option<Event>> {
    let mode = state.mode.as_ref().unwrap_or(&pack.start);
    let spec = pack.mode(mode)?;
    let entered = |mode: &Mode| Some(Event::Entered { mode: mode.clone() });

    Ok(match decision {
        Decision::Reject | Decision::Cancel => Some(Event::Ended { done: false }),
        Decision::Revise => entered(spec.revise.as_ref().unwrap_or(mode)),
        // Approving questions that were asked in the reply, not in a document, keeps the mode: the agent then decides
        // itself.
        Decision::Approve | Decision::Waive if !state.progress.questions.is_empty() => None,
        // Approving a mode that asks questions continues without answers.
        Decision::Approve | Decision::Waive
            if matches!(next_step(pack, state, u64::MAX)?, NextStep::Answers { .. }) =>
        {
            match spec.next.get(&TurnResult::Otherwise) {
                Some(NextTarget::Mode(next)) => entered(next),
                _ => None,
            }
        }
        Decision::Approve | Decision::Waive => None,
    })
}

/// Returns the gate of the state's mode if it does not hold.
///
/// # Errors
///
/// `UnknownMode` if the pack does not define the state's mode.
pub fn closed_gate<'a>(pack: &'a Pack, state: &State) -> Result<Option<&'a ManifestRule>> {
    let spec = pack.mode(state.mode.as_ref().unwrap_or(&pack.start))?;
    Ok(spec
        .gate
        .as_ref()
        .filter(|gate| !gate.holds(&gate_facts(pack, state))))
}

/// Returns the facts that gates can test: counters, the last verdict and markers, the state document, and the number of
/// completed operations.
pub(crate) fn gate_facts(pack: &Pack, state: &State) -> RuleFacts {
    let progress = &state.progress;
    let mode = state.mode.as_ref().unwrap_or(&pack.start);
    // The same figure as in the prompts of the mode.
    let listed = pack.work_order(mode, &state.document);
    let mut facts = RuleFacts::default()
        .with("turns", count_value(state.turns))
        .with("mode_turns", count_value(state.mode_turns))
        .with(
            "failed",
            if progress.task_failed {
                "true"
            } else {
                "false"
            },
        )
        .with("percent", count_value(u64::from(mean_completion(&listed))));

    if let Some(verdict) = progress.verdict {
        facts = facts.with("verdict", verdict.name());
    }

    for (path, value) in state.document.values() {
        facts = facts.with_argument("state", &path, value.as_str());
    }

    for artifact in pack.artifact_progress(&state.document) {
        facts = facts.with_argument("status", &artifact.key(), artifact.status.name());
    }

    for (name, value) in &progress.markers {
        facts = facts.with_argument("marker", name, value.as_str());
    }

    for (operation, times) in &state.done {
        facts = facts.with_argument("done", operation.as_str(), count_value(*times));
    }

    facts
}

#[expect(clippy::cast_precision_loss, reason = "a count is far below 2^52")]
fn count_value(count: u64) -> FactValue {
    FactValue::Number(count as f64)
}
