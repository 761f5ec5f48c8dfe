//! `agentd show`, `agentd diff` and `agentd export`: what the ledger holds.

use std::collections::{BTreeMap, BTreeSet};

use agentd::Result;
use agentd::models::{Finding, Response, SegmentRef, SessionId, Why, dollars};
use agentd::orchestrator::{
    CallRecord, TurnRecord, Workspace, format_utc, ledger_text, load_findings,
};
use agentd::store::{SqliteStore, Store};
use diffy::{DiffOptions, PatchFormatter};
use serde_json::{Value, json};

use super::report;
use super::session::{ledger, no_turn};
use crate::args::{Args, ShowArgs};
use crate::terminal::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, given: &ShowArgs) -> Outcome {
    let store = ledger(args)?;
    let turn = TurnRecord::find(&store, &given.turn)?;
    if given.prompt {
        terminal::text(&turn.call_prompt(&store, given.call.unwrap_or(1))?)?;
    } else if given.reply {
        print_reply(&store, &turn, given.call)?;
    } else if given.fit {
        let fit: Value =
            serde_json::from_str(&ledger_text(&store, &turn.started.fit)?).unwrap_or_default();
        terminal::json(&fit)?;
    } else if given.response {
        let (response, _) = turn.read_again(&workspace(args, &turn)?, &store)?;
        terminal::json(&response)?;
    } else if given.json {
        terminal::json(
            &json!({"started_at": format_utc(turn.at), "turn": turn, "findings": findings(&store, &turn)}),
        )?;
    } else {
        let read = workspace(args, &turn).and_then(|workspace| turn.read_again(&workspace, &store));
        tell(
            &store,
            &turn,
            read.ok().map(|(response, _)| response).as_ref(),
        )?;
    }
    Ok(exit::OK)
}

/// Opens the project with the pack of a turn.
pub(super) fn workspace(args: &Args, turn: &TurnRecord) -> Result<Workspace> {
    project::workspace(args, Some(&turn.started.pack))
}

fn tell(
    store: &SqliteStore,
    turn: &TurnRecord,
    read: Option<&Response>,
) -> Result<(), terminal::Failure> {
    let started = &turn.started;
    let mut rows = vec![
        ("turn", turn.name()),
        ("started", format_utc(turn.at)),
        (
            "mode",
            format!("{} of the pack {}", started.mode, started.pack),
        ),
        ("agent", started.agent.clone()),
    ];
    rows.extend(started.model.iter().map(|model| ("model", model.clone())));
    rows.push((
        "prompt",
        format!(
            "{} bytes in {} segments",
            started.prompt_bytes,
            started.prompt.len()
        ),
    ));
    rows.extend(
        turn.found
            .iter()
            .map(|found| ("found", found.detail.clone())),
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
                .map(|detail| ("said", detail)),
        );
    }
    if let Some(replied) = &turn.replied {
        rows.extend(
            replied
                .verdict
                .map(|verdict| ("verdict", verdict.name().to_owned())),
        );
        rows.extend(replied.fault.iter().map(|fault| ("fault", fault.clone())));
    }
    rows.extend(findings(store, turn).iter().map(report::finding));
    for settlement in turn
        .settlements
        .iter()
        .filter(|settlement| !report::is_list_of_findings(settlement))
    {
        let heading = if settlement.done { "done" } else { "not done" };
        rows.push((heading, settlement.detail.clone()));
    }
    let reply = turn
        .reply(store)
        .map(|(reply, _)| reply)
        .unwrap_or_default();
    for proposal in read.map_or(&[][..], |response| &response.proposals) {
        rows.push(("refused", format!("{}: {}", proposal.what, proposal.reason)));
    }
    rows.extend(
        read.map_or(&[][..], |response| &response.problems)
            .iter()
            .map(|problem| report::problem(problem, &reply)),
    );
    rows.extend(turn.next.iter().map(|mode| ("next", mode.to_string())));
    rows.extend(
        turn.ended
            .map(|done| ("next", if done { "done" } else { "stopped" }.to_owned())),
    );
    terminal::rows(&rows)?;
    if let Ok((reply, _)) = turn.reply(store) {
        terminal::note(format_args!(
            "--prompt, --reply ({} bytes), --response and --fit print those",
            reply.len()
        ));
    }
    Ok(())
}

/// Returns the findings that were noted after a turn, as far as the ledger has them.
fn findings(store: &SqliteStore, turn: &TurnRecord) -> Vec<Finding> {
    let noted = turn
        .settlements
        .iter()
        .rev()
        .find(|settlement| report::is_list_of_findings(settlement));
    let list = noted.and_then(|settlement| settlement.report.as_ref());
    list.and_then(|list| load_findings(store, list).ok())
        .unwrap_or_default()
}

/// Prints the reply of a call, by default the one that counts as the turn's; stderr says if there are others.
fn print_reply(
    store: &SqliteStore,
    turn: &TurnRecord,
    call: Option<usize>,
) -> Result<(), terminal::Failure> {
    if let Some(number) = call {
        return Ok(terminal::text(&turn.call_reply(store, number)?)?);
    }

    let (reply, _) = turn.reply(store)?;
    terminal::text(&reply)?;

    let calls = turn.calls.len();
    if let Some(number) = turn.reply_call().filter(|_| calls > 1) {
        terminal::note(format_args!(
            "this is the reply of call {number} of {calls}; `--call N` prints another, `agentd show {}` lists them",
            turn.name()
        ));
    }
    Ok(())
}

/// Returns a call on one line: number, reason, end, tokens, cost, duration.
fn describe_call(number: usize, call: &CallRecord) -> String {
    let why = match call.why {
        Why::Ask => "ask",
        Why::Repair => "repair",
    };
    let Some(answered) = &call.answered else {
        return format!("{number}: {why}, running");
    };

    let end = answered.end.name();
    let salvaged = if answered.salvaged {
        ", found later"
    } else {
        ""
    };
    let tokens = answered.spent.tokens;
    let cost = match answered.spent.micro_dollars {
        0 => String::new(),
        micros => format!(", {}", dollars(micros)),
    };
    let time = answered.milliseconds;
    let left = match answered.left_behind {
        0 => String::new(),
        left => format!(", leftover processes: {left}"),
    };
    format!("{number}: {why}, {end}{salvaged}, {tokens} tokens{cost}, {time} ms{left}")
}

pub(super) fn diff(args: &Args, old: &str, new: &str, json: bool) -> Outcome {
    let store = ledger(args)?;
    let (old, new) = (
        TurnRecord::find(&store, old)?,
        TurnRecord::find(&store, new)?,
    );
    let pairs = pairs(&old.started.prompt, &new.started.prompt);
    if json {
        let rows: Vec<Value> = pairs.iter().map(|pair| pair.json()).collect();
        terminal::json(&rows)?;
        return Ok(exit::OK);
    }
    let mut all = String::new();
    for pair in &pairs {
        let name = pair.name();
        match (pair.old, pair.new) {
            (Some(a), Some(b)) if a.texts == b.texts => {
                all.push_str(&format!("  {name}: the same, {} bytes\n", a.bytes));
            }
            (a, b) => {
                let read = |segment: Option<&SegmentRef>| {
                    let texts = segment.map_or(&[][..], |segment| &segment.texts);
                    texts
                        .iter()
                        .map(|id| ledger_text(&store, id))
                        .collect::<Result<String>>()
                };
                let (a, b) = (read(a)?, read(b)?);
                let mut options = DiffOptions::new();
                options.set_original_filename(format!("{}: {name}", old.name()));
                options.set_modified_filename(format!("{}: {name}", new.name()));
                let patch = options.create_patch(&a, &b);
                // As git and diff do, an empty context line keeps its leading space.
                let formatter = PatchFormatter::new().suppress_blank_empty(false);
                all.push_str(&formatter.fmt_patch(&patch).to_string());
            }
        }
    }
    terminal::text(&all)?;
    Ok(exit::OK)
}

/// A segment of the one prompt, and its counterpart in the other.
struct Pair<'a> {
    old: Option<&'a SegmentRef>,
    new: Option<&'a SegmentRef>,
}

impl Pair<'_> {
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

/// Pairs segments by block and part, in the new prompt's order; what is only in the old one follows.
fn pairs<'a>(old: &'a [SegmentRef], new: &'a [SegmentRef]) -> Vec<Pair<'a>> {
    let mut left: BTreeMap<(&str, &str), Vec<&SegmentRef>> = BTreeMap::new();
    for segment in old.iter().rev() {
        left.entry((&segment.block, &segment.part))
            .or_default()
            .push(segment);
    }
    let mut pairs: Vec<Pair<'a>> = new
        .iter()
        .map(|segment| {
            let old = left
                .get_mut(&(segment.block.as_str(), segment.part.as_str()))
                .and_then(Vec::pop);
            Pair {
                old,
                new: Some(segment),
            }
        })
        .collect();
    pairs.extend(left.into_values().flatten().map(|segment| Pair {
        old: Some(segment),
        new: None,
    }));
    pairs
}

pub(super) fn export(args: &Args, session: Option<&str>) -> Outcome {
    let store = ledger(args)?;
    let sessions: Vec<SessionId> = match session {
        Some(session) => vec![SessionId::new(session)?],
        None => store.sessions()?,
    };
    let mut lost = None;
    for session in &sessions {
        let events = store.events(session)?;
        if events.is_empty() {
            return Err(no_turn(session).into());
        }
        let mut texts = BTreeSet::new();
        for (at, event) in &events {
            texts.extend(event.texts().into_iter().cloned());
            terminal::json_line(
                &json!({"session": session, "at": format_utc(*at), "event": event}),
            )?;
        }
        for id in texts {
            let found = ledger_text(&store, &id);
            terminal::json_line(&json!({"hash": id, "text": found.as_ref().ok()}))?;
            // What is left of a damaged ledger is printed all the same.
            lost = lost.or(found.err());
        }
    }
    lost.map_or(Ok(exit::OK), |error| Err(error.into()))
}
