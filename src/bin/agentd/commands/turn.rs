//! `agentd turn`: one turn, from prompt to settled effects.

use std::path::Path;

use agentd::agent::Scripted;
use agentd::models::{Marker, State};
use agentd::orchestrator::{Ask, TurnReport, take};
use agentd::store::MemoryStore;
use agentd::{Error, ErrorKind, ops};
use serde_json::json;

use super::ask::{ask, from_here};
use crate::args::{Args, TurnArgs};
use crate::exit;
use crate::out::{self, Outcome};

pub(super) fn run(args: &Args, given: &TurnArgs) -> Outcome {
    let driver = scripted(args, given)?;
    let (workspace, ask) = ask(args, &given.ask, Some(&given.agent))?;
    let ask = Ask { repairs: given.repairs, ..ask };
    let report = take(&workspace, &MemoryStore::default(), &driver, &ask)?;
    if given.json {
        out::json(&json!({
            "report": report,
            "fault": report.fault.as_ref().map(|fault| json!({
                "kind": fault.kind().name(), "message": fault.message(), "hint": fault.hint(),
            })),
        }))?;
    } else {
        if !report.response.message.is_empty() {
            out::data(|out| writeln!(out, "{}", report.response.message))?;
        }
        tell(&report);
    }
    match report.fault {
        Some(fault) => Err(fault.into()),
        None => Ok(exit::OK),
    }
}

fn scripted(args: &Args, given: &TurnArgs) -> Result<Scripted, Error> {
    if given.agent != "scripted" {
        let message = format!("there is no driver for the agent `{}`", given.agent);
        return Err(Error::new(ErrorKind::UnknownAgent, message)
            .with_hint("this version drives `scripted`; `agentd prompt` shows what any agent would get"));
    }
    let path = from_here(args, given.script.as_deref().unwrap_or_else(|| Path::new("")))?;
    Scripted::read(&ops::read_text(&path)?, &path.display().to_string())
}

fn tell(report: &TurnReport) {
    out::row("turn", format_args!("{} by {}, {} bytes sent", report.mode, report.agent, report.prompt_bytes));
    if report.repairs > 0 {
        out::row("repairs", report.repairs);
    }
    if let Some(verdict) = report.verdict {
        out::row("verdict", verdict.name());
    }
    for marker in &report.response.markers {
        match marker {
            Marker::Named { name, value } => out::row("marker", format_args!("{name} {value}")),
            Marker::TaskStatus { id, status } => out::row("task", format_args!("{id} {}", status.name())),
            Marker::Review { .. } => {}
        }
    }
    for settlement in &report.settlements {
        if settlement.done {
            out::row("done", &settlement.detail);
        } else {
            out::row("not done", format_args!("{}: {}", settlement.target, settlement.detail));
        }
    }
    for proposal in &report.proposals {
        out::row("refused", format_args!("{}: {}", proposal.what, proposal.reason));
    }
    for problem in &report.response.problems {
        out::row("problem", format_args!("{} ({})", problem.message, problem.code));
    }
    if let Some(gate) = &report.closed_gate {
        out::row("gate", format_args!("does not hold: {gate}"));
    }
    out::row("next", next(&report.state));
}

fn next(state: &State) -> String {
    match (state.ended, &state.mode) {
        (Some(true), _) => "done".to_owned(),
        (Some(false), _) => "stopped".to_owned(),
        (None, Some(mode)) => mode.to_string(),
        (None, None) => "nothing".to_owned(),
    }
}
