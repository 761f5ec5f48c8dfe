//! `agentd probe`: how well an agent keeps to the protocol, measured.

use agentd::compose::MIN_RELIABILITY_REPLIES;
use agentd::models::{AgentName, Condition, Share, Task, dollars, grouped};
use agentd::orchestrator::{ConditionEffect, Origin, Probe, ProbeReport, ProbeTurn, probe_agent};
use agentd::pack::PROBE_PACK;
use serde_json::{Value, json};

use super::session::CliSession;
use crate::args::{Args, ProbeArgs};
use crate::terminal::{self, Failure, Outcome};
use crate::{exit, project};

/// The columns of the table.
const COLUMNS: [&str; 5] = ["CONDITION", "TASK", "RIGHT", "SHARE", "95 % INTERVAL"];

/// What the share of all tasks is called.
const ALL: &str = "all";

pub(super) fn run(args: &Args, given: &ProbeArgs) -> Outcome {
    let agent = AgentName::new(given.agent.as_str())?;
    let workspace = project::workspace(args, Some(PROBE_PACK))?;
    let mut cli = CliSession::open(args, "agentd probe", workspace, &given.send, given.json)?;
    let driver = cli.driver(args, &agent)?;
    let wanted = Probe {
        agent,
        model: given.model.clone(),
        turns: given.turns.map(usize::from),
    };
    // What happens meanwhile is talk, whatever form the result has.
    let (report, shown) = cli.with_context(false, |context, _| {
        probe_agent(context, driver.as_ref(), &wanted, &mut progress)
    })?;
    let report = report?;
    if given.json {
        terminal::json(&envelope(&report))?;
    } else {
        table(&report)?;
        tell(&report);
    }
    shown.map_err(Failure::Output)?;
    match report.fault {
        Some(fault) => Err(fault.into()),
        None => Ok(exit::OK),
    }
}

/// Says how far a probe has come.
fn progress(asked: &ProbeTurn, done: usize, all: usize) {
    let came = match asked.right {
        Some(true) => "right",
        Some(false) => "wrong",
        None => asked.end.name(),
    };
    let ProbeTurn {
        condition,
        task,
        case,
        ..
    } = asked;
    terminal::note(format_args!(
        "{done} of {all}: {} {} {case}: {came}",
        condition.name(),
        task.name()
    ));
}

/// Returns every cell of the table: a condition, a task or all of them, and how many replies were right.
fn cells(report: &ProbeReport) -> Vec<(Condition, &'static str, Share)> {
    let tasks = || Task::ALL.into_iter().map(Some).chain([None]);
    let cells = Condition::ALL.into_iter().flat_map(|condition| {
        tasks().map(move |task| {
            (
                condition,
                task.map_or(ALL, Task::name),
                report.share(condition, task),
            )
        })
    });
    cells.filter(|(_, _, share)| share.all > 0).collect()
}

fn table(report: &ProbeReport) -> std::io::Result<()> {
    let rows = cells(report).into_iter().map(|(condition, task, share)| {
        let (low, high) = share.interval().unwrap_or((0.0, 1.0));
        [
            condition.name().to_owned(),
            task.to_owned(),
            format!("{}/{}", share.right, share.all),
            percent(share),
            format!("{:.0} to {:.0} %", low * 100.0, high * 100.0),
        ]
    });
    terminal::table(&COLUMNS, rows)
}

fn percent(share: Share) -> String {
    share
        .rate()
        .map_or_else(|| "-".to_owned(), |rate| format!("{:.0} %", rate * 100.0))
}

fn tell(report: &ProbeReport) {
    let model = report
        .model
        .as_ref()
        .map(|model| format!(" with {model}"))
        .unwrap_or_default();
    let (session, turns, agent) = (&report.session, report.asked.len(), &report.agent);
    terminal::row(
        "probe",
        format_args!("{session}: {turns} turns by {agent}{model}"),
    );
    let failed: Vec<String> = report
        .failed()
        .iter()
        .map(|(end, times)| format!("{times} {end}"))
        .collect();
    if !failed.is_empty() {
        terminal::row(
            "failed",
            format_args!(
                "{}; a call that failed is no wrong reply",
                failed.join(", ")
            ),
        );
    }
    let cost = Some(report.spent.micro_dollars).filter(|micros| *micros > 0);
    let cost = cost
        .map(|micros| format!(", {}", dollars(micros)))
        .unwrap_or_default();
    terminal::row(
        "used",
        format_args!("{} tokens{cost}", grouped(report.spent.tokens)),
    );
    let plain = report.share(Condition::Plain, None);
    if let Some(reliability) = plain.reliability() {
        let Share { right, all } = plain;
        terminal::row(
            "measures",
            format_args!(
                "{} without help: {right} of {all} right",
                reliability.name()
            ),
        );
    }
    for condition in [Condition::Reminder, Condition::Example] {
        let Some(help) = report.help(condition) else {
            continue;
        };
        let (helped, plain) = (percent(report.share(condition, None)), percent(plain));
        let words = match help {
            ConditionEffect::Helps => "helps",
            ConditionEffect::MayHelp => "may help; more turns would tell",
            ConditionEffect::DoesNotHelp => "does not help",
        };
        terminal::row(
            condition.name(),
            format_args!("{words}: {helped} against {plain}"),
        );
    }
    terminal::row("prompts", use_of(report));
}

/// Says what prompts make of the probe from now on.
fn use_of(report: &ProbeReport) -> String {
    let Share { right, all } = report.kept;
    match (&report.model, report.reliability) {
        (Some(model), Some((reliability, Origin::Measured))) => {
            let name = reliability.name();
            format!(
                "for {model} use {name}: {right} of {all} turns without help in the ledger were right"
            )
        }
        (Some(model), Some((reliability, Origin::Set))) => {
            format!(
                "for {model} use {}, as the settings say",
                reliability.name()
            )
        }
        (Some(model), Some((reliability, Origin::Guessed))) => {
            let name = reliability.name();
            format!(
                "for {model} use the guess {name}: {MIN_RELIABILITY_REPLIES} turns without help replace it, and there are {all}"
            )
        }
        _ => "use nothing of it: no model is named".to_owned(),
    }
}

fn envelope(report: &ProbeReport) -> Value {
    let cells = cells(report).into_iter().map(|(condition, task, share)| {
        json!({
            "condition": condition,
            "task": task,
            "right": share.right,
            "all": share.all,
            "share": share.rate(),
            "interval": share.interval(),
        })
    });
    json!({
        "format": 1,
        "agent": report.agent,
        "model": report.model,
        "session": report.session,
        "cells": cells.collect::<Vec<_>>(),
        "failed": report.failed(),
        "spent": report.spent,
        "measures": report.share(Condition::Plain, None).reliability(),
        "reminder": report.help(Condition::Reminder),
        "example": report.help(Condition::Example),
        "kept": report.kept,
        "used": report.reliability.map(|(xml, origin)| json!({"xml": xml, "origin": origin})),
        "asked": report.asked,
        "fault": report.fault.as_ref().map(|fault| json!({"kind": fault.kind().name(), "message": fault.message()})),
    })
}
