//! `agentd show`, `agentd diff` and `agentd export`: turns and events of the ledger.

use std::collections::{BTreeMap, BTreeSet};

use agentd::Result;
use agentd::apply::apply;
use agentd::models::{
    CallReason, Finding, Problem, RejectedEffect, SegmentRef, SessionId, State, dollars,
};
use agentd::orchestrator::{CallRecord, TurnRecord, Workspace, format_utc, ledger_text};
use agentd::store::{SqliteStore, Store};
use diffy::{DiffOptions, PatchFormatter};
use serde_json::{Value, json};

use super::report;
use super::session::{no_turns_error, open_ledger_of};
use crate::args::{Args, ShowArgs};
use crate::terminal::{self, CommandResult};
use crate::{exit, humanize, project};

pub(super) fn run(args: &Args, given: &ShowArgs) -> CommandResult {
    let store = open_ledger_of(args)?;
    let turn = TurnRecord::find(&store, &given.turn)?;

    if given.prompt {
        terminal::print_text(&turn.call_prompt(&store, given.call.unwrap_or(1))?)?;
    } else if given.reply {
        print_reply(&store, &turn, given.call)?;
    } else if given.fit {
        let fit: Value =
            serde_json::from_str(&ledger_text(&store, &turn.started.fit)?).unwrap_or_default();
        terminal::print_json(&fit)?;
    } else if given.response {
        let (response, _) = turn.read_again(&open_workspace(args, &turn)?, &store)?;
        terminal::print_json(&response)?;
    } else if given.json {
        terminal::print_json(
            &json!({"started_at": format_utc(turn.at), "turn": turn, "findings": load_findings(&store, &turn)}),
        )?;
    } else {
        let workspace = open_workspace(args, &turn);
        let reading = workspace.and_then(|workspace| TurnReading::new(&workspace, &store, &turn));
        print_turn(&store, &turn, &reading.unwrap_or_default())?;
    }
    Ok(exit::OK)
}

/// Opens the project with the pack of a turn.
pub(super) fn open_workspace(args: &Args, turn: &TurnRecord) -> Result<Workspace> {
    project::workspace(args, Some(&turn.started.pack))
}

/// Problems and refused effects of a recorded reply, as it is parsed now.
#[derive(Default)]
struct TurnReading {
    problems: Vec<Problem>,
    refused: Vec<RejectedEffect>,
}

impl TurnReading {
    /// Parses the reply of a turn, and decides on its effects without executing any.
    fn new(workspace: &Workspace, store: &SqliteStore, turn: &TurnRecord) -> Result<Self> {
        let (response, verdict) = turn.read_again(workspace, store)?;
        let state = State {
            mode: Some(turn.started.mode.clone()),
            ..State::default()
        };
        // The shown files are recorded only if the reply may edit files of the working tree.
        let may_edit_tree = turn.started.shown.is_some();
        let outcome = apply(&workspace.pack, &state, may_edit_tree, &response, verdict)?;

        Ok(Self {
            problems: response.problems,
            refused: outcome.proposals,
        })
    }
}

/// Prints the record of a turn.
fn print_turn(
    store: &SqliteStore,
    turn: &TurnRecord,
    reading: &TurnReading,
) -> Result<(), terminal::Failure> {
    let started = &turn.started;
    let mut rows = vec![
        ("turn", turn.name()),
        ("started", format_utc(turn.at)),
        ("mode", format!("{} of pack {}", started.mode, started.pack)),
        ("agent", started.agent.clone()),
    ];
    rows.extend(started.model.iter().map(|model| ("model", model.clone())));
    rows.push((
        "prompt",
        format!(
            "{} bytes in {}",
            started.prompt_bytes,
            humanize::count(started.prompt.len() as u64, "segment")
        ),
    ));
    rows.extend(
        turn.found
            .iter()
            .map(|result| ("found", result.detail.clone())),
    );

    for (number, call) in (1..).zip(&turn.calls) {
        rows.push(("call", describe_call(number, call)));
        let detail = call
            .answered
            .as_ref()
            .map(|answered| answered.detail.trim().to_owned());
        rows.extend(
            detail
                .filter(|detail| !detail.is_empty())
                .map(|detail| ("output", detail)),
        );
    }

    if let Some(replied) = &turn.replied {
        rows.extend(
            replied
                .verdict
                .map(|verdict| ("verdict", verdict.name().to_owned())),
        );
        rows.extend(replied.fault.iter().map(|fault| ("error", fault.clone())));
    }
    rows.extend(load_findings(store, turn).iter().map(report::finding_row));

    let steps = turn.settlements.iter();
    for step in steps.filter(|step| !report::is_findings_list(step)) {
        let label = if step.done { "done" } else { "not done" };
        rows.push((label, step.detail.clone()));
    }

    let reply = turn
        .reply(store)
        .map(|(reply, _)| reply)
        .unwrap_or_default();
    for effect in &reading.refused {
        rows.push(("refused", report::describe_refusal(effect)));
    }
    let problems = reading.problems.iter();
    rows.extend(problems.map(|problem| report::problem_row(problem, &reply)));

    rows.extend(turn.next.iter().map(|mode| ("next", mode.to_string())));
    rows.extend(
        turn.ended
            .map(|done| ("next", if done { "done" } else { "stopped" }.to_owned())),
    );
    terminal::print_rows(&rows)?;

    if let Ok((reply, _)) = turn.reply(store) {
        terminal::note(format_args!(
            "print the parts with --prompt, --reply ({} bytes), --response or --fit",
            reply.len()
        ));
    }
    Ok(())
}

/// Returns the findings that were recorded after a turn; empty if the ledger cannot be read.
fn load_findings(store: &SqliteStore, turn: &TurnRecord) -> Vec<Finding> {
    let noted = turn
        .settlements
        .iter()
        .rev()
        .find(|step| report::is_findings_list(step));
    let list = noted.and_then(|step| step.report.as_ref());
    list.and_then(|list| agentd::orchestrator::load_findings(store, list).ok())
        .unwrap_or_default()
}

/// Prints the reply of a call, by default the effective reply of the turn. A note on stderr mentions other calls.
fn print_reply(
    store: &SqliteStore,
    turn: &TurnRecord,
    call: Option<usize>,
) -> Result<(), terminal::Failure> {
    if let Some(number) = call {
        return Ok(terminal::print_text(&turn.call_reply(store, number)?)?);
    }

    let (reply, _) = turn.reply(store)?;
    terminal::print_text(&reply)?;

    let calls = turn.calls.len();
    if let Some(number) = turn.reply_call().filter(|_| calls > 1) {
        terminal::note(format_args!(
            "this is the reply of call {number} of {calls}; print another reply with `--call N`; list calls with `agentd show {}`",
            turn.name()
        ));
    }
    Ok(())
}

/// Returns a call on one line: number, reason, outcome, tokens, cost, duration.
fn describe_call(number: usize, call: &CallRecord) -> String {
    let why = match call.why {
        CallReason::Ask => "ask",
        CallReason::Repair => "repair",
    };
    let Some(answered) = &call.answered else {
        return format!("{number}: {why}, not finished");
    };

    let end = answered.end.name();
    let salvaged = if answered.salvaged {
        ", recovered later"
    } else {
        ""
    };
    let tokens = answered.spent.tokens;
    let cost = match answered.spent.micro_dollars {
        0 => String::new(),
        micros => format!(", {}", dollars(micros)),
    };
    let time = humanize::duration(answered.milliseconds);
    let killed = match answered.left_behind {
        0 => String::new(),
        left => {
            let processes = humanize::count(left, "leftover process");
            format!(", killed {processes}")
        }
    };
    format!("{number}: {why}, {end}{salvaged}, {tokens} tokens{cost}, {time}{killed}")
}

pub(super) fn diff(args: &Args, old: &str, new: &str, json: bool) -> CommandResult {
    let store = open_ledger_of(args)?;
    let old = TurnRecord::find(&store, old)?;
    let new = TurnRecord::find(&store, new)?;
    let pairs = pair_segments(&old.started.prompt, &new.started.prompt);

    if json {
        let rows: Vec<Value> = pairs.iter().map(|pair| pair.json()).collect();
        terminal::print_json(&rows)?;
        return Ok(exit::OK);
    }

    let mut all = String::new();
    for pair in &pairs {
        let name = pair.name();
        match (pair.old, pair.new) {
            (Some(a), Some(b)) if a.texts == b.texts => {
                all.push_str(&format!("  {name}: unchanged, {} bytes\n", a.bytes));
            }
            (a, b) => {
                let read = |segment: Option<&SegmentRef>| {
                    let texts = segment.map_or(&[][..], |segment| &segment.texts);
                    texts
                        .iter()
                        .map(|id| ledger_text(&store, id))
                        .collect::<Result<String>>()
                };
                let old_text = read(a)?;
                let new_text = read(b)?;

                let mut options = DiffOptions::new();
                options.set_original_filename(format!("{}: {name}", old.name()));
                options.set_modified_filename(format!("{}: {name}", new.name()));
                let patch = options.create_patch(&old_text, &new_text);
                // Empty context lines keep their leading space, as in git and diff.
                let formatter = PatchFormatter::new().suppress_blank_empty(false);
                all.push_str(&formatter.fmt_patch(&patch).to_string());
            }
        }
    }
    terminal::print_text(&all)?;
    Ok(exit::OK)
}

/// A segment of one prompt, and its counterpart in the other.
struct SegmentPair<'a> {
    old: Option<&'a SegmentRef>,
    new: Option<&'a SegmentRef>,
}

impl SegmentPair<'_> {
    fn name(&self) -> String {
        let segment = self.new.or(self.old);
        segment.map_or_else(String::new, |segment| {
            format!("{} ({})", segment.block, segment.part)
        })
    }

    fn json(&self) -> Value {
        let change = match (self.old, self.new) {
            (Some(old), Some(new)) if old.texts == new.texts => "same",
            (Some(_), Some(_)) => "changed",
            (None, _) => "added",
            (_, None) => "removed",
        };
        json!({"change": change, "old": self.old, "new": self.new})
    }
}

/// Pairs segments by block and part, in the order of the new prompt. Segments that only the old prompt has come last.
fn pair_segments<'a>(old: &'a [SegmentRef], new: &'a [SegmentRef]) -> Vec<SegmentPair<'a>> {
    let mut unpaired: BTreeMap<(&str, &str), Vec<&SegmentRef>> = BTreeMap::new();
    for segment in old.iter().rev() {
        unpaired
            .entry((&segment.block, &segment.part))
            .or_default()
            .push(segment);
    }

    let mut pairs: Vec<SegmentPair<'a>> = new
        .iter()
        .map(|segment| {
            let old = unpaired
                .get_mut(&(segment.block.as_str(), segment.part.as_str()))
                .and_then(Vec::pop);
            SegmentPair {
                old,
                new: Some(segment),
            }
        })
        .collect();
    pairs.extend(unpaired.into_values().flatten().map(|segment| SegmentPair {
        old: Some(segment),
        new: None,
    }));
    pairs
}

pub(super) fn export(args: &Args, session: Option<&str>) -> CommandResult {
    let store = open_ledger_of(args)?;
    let sessions: Vec<SessionId> = match session {
        Some(session) => vec![SessionId::new(session)?],
        None => store.sessions()?,
    };

    let mut first_error = None;
    for session in &sessions {
        let events = store.events(session)?;
        if events.is_empty() {
            return Err(no_turns_error(session).into());
        }
        let mut blobs = BTreeSet::new();
        for (at, event) in &events {
            blobs.extend(event.blob_ids().into_iter().cloned());
            terminal::print_json_line(
                &json!({"session": session, "at": format_utc(*at), "event": event}),
            )?;
        }
        for id in blobs {
            let text = ledger_text(&store, &id);
            terminal::print_json_line(&json!({"hash": id, "text": text.as_ref().ok()}))?;
            // In a damaged ledger, the readable blobs are still printed.
            first_error = first_error.or(text.err());
        }
    }
    first_error.map_or(Ok(exit::OK), |error| Err(error.into()))
}
