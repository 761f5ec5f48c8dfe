//! `agentd probe`: measures how reliably an agent follows the reply protocol.

use agentd::compose::MIN_RELIABILITY_REPLIES;
use agentd::models::{AgentName, ComplianceRate, ProbeCondition, ProbeTask, dollars, grouped};
use agentd::orchestrator::{ConditionEffect, Origin, Probe, ProbeReport, ProbeTurn, probe_agent};
use agentd::pack::PROBE_PACK;
use serde_json::{Value, json};

use super::session::CliSession;
use crate::args::{Args, ProbeArgs};
use crate::terminal::{self, CommandResult, Failure};
use crate::{exit, humanize, project};

/// Columns of the result.
const COLUMNS: [&str; 5] = ["CONDITION", "TASK", "CORRECT", "RATE", "95 % INTERVAL"];

/// Name of the row with the sum of all tasks.
const ALL_TASKS: &str = "all";

pub(super) fn run(args: &Args, given: &ProbeArgs) -> CommandResult {
    let agent = AgentName::new(given.agent.as_str())?;
    let workspace = project::workspace(args, Some(PROBE_PACK))?;
    let mut cli = CliSession::open(args, "agentd probe", workspace, &given.send, given.json)?;
    let driver = cli.driver(args, &agent)?;
    let wanted = Probe {
        agent,
        model: given.model.clone(),
        turns: given.turns.map(usize::from),
    };

    // Progress goes to stderr even with --json: stdout gets a single object.
    let (report, shown) = cli.with_context(false, |context, _| {
        probe_agent(context, driver.as_ref(), &wanted, &mut print_progress)
    })?;
    let report = report?;

    if given.json {
        terminal::print_json(&envelope(&report))?;
    } else {
        print_rates(&report)?;
        print_summary(&report);
    }
    shown.map_err(Failure::Output)?;
    match report.fault {
        Some(fault) => Err(fault.into()),
        None => Ok(exit::OK),
    }
}

/// Prints the result of one request.
fn print_progress(turn: &ProbeTurn, done: usize, all: usize) {
    let result = match turn.right {
        Some(true) => "correct",
        Some(false) => "wrong",
        None => turn.end.name(),
    };
    let ProbeTurn {
        condition,
        task,
        case,
        ..
    } = turn;
    terminal::note(format_args!(
        "request {done} of {all}: {} {} {case}: {result}",
        condition.name(),
        task.name()
    ));
}

/// Returns the share of correct replies for each condition and task, and for all tasks of a condition.
fn list_shares(report: &ProbeReport) -> Vec<(ProbeCondition, &'static str, ComplianceRate)> {
    let tasks = || ProbeTask::ALL.into_iter().map(Some).chain([None]);
    let cells = ProbeCondition::ALL.into_iter().flat_map(|condition| {
        tasks().map(move |task| {
            (
                condition,
                task.map_or(ALL_TASKS, ProbeTask::name),
                report.share(condition, task),
            )
        })
    });
    cells.filter(|(_, _, share)| share.all > 0).collect()
}

fn print_rates(report: &ProbeReport) -> std::io::Result<()> {
    let rows = list_shares(report)
        .into_iter()
        .map(|(condition, task, share)| {
            let (low, high) = share.interval().unwrap_or((0.0, 1.0));
            [
                condition.name().to_owned(),
                task.to_owned(),
                format!("{}/{}", share.right, share.all),
                percent(share),
                format!("{:.0} to {:.0} %", low * 100.0, high * 100.0),
            ]
        });
    terminal::print_table(&COLUMNS, rows)
}

fn percent(share: ComplianceRate) -> String {
    share
        .rate()
        .map_or_else(|| "-".to_owned(), |rate| format!("{:.0} %", rate * 100.0))
}

fn print_summary(report: &ProbeReport) {
    let model = report
        .model
        .as_ref()
        .map(|model| format!(" with {model}"))
        .unwrap_or_default();
    let turns = humanize::count(report.asked.len() as u64, "turn");
    terminal::eprint_row(
        "probe",
        format_args!("{}: {turns} by {}{model}", report.session, report.agent),
    );

    let failed: Vec<String> = report
        .failed()
        .iter()
        .map(|(end, times)| format!("{times} {end}"))
        .collect();
    if !failed.is_empty() {
        terminal::eprint_row(
            "failed",
            format_args!(
                "{}; failed calls are not counted as wrong replies",
                failed.join(", ")
            ),
        );
    }

    let cost = match report.spent.micro_dollars {
        0 => String::new(),
        micros => format!(", {}", dollars(micros)),
    };
    terminal::eprint_row(
        "usage",
        format_args!("{} tokens{cost}", grouped(report.spent.tokens)),
    );

    let plain = report.share(ProbeCondition::Plain, None);
    if let Some(reliability) = plain.reliability() {
        let ComplianceRate { right, all } = plain;
        terminal::eprint_row(
            "measured",
            format_args!(
                "{} without help: {right} of {all} correct",
                reliability.name()
            ),
        );
    }
    for condition in [ProbeCondition::Reminder, ProbeCondition::Example] {
        let Some(help) = report.help(condition) else {
            continue;
        };
        let helped = percent(report.share(condition, None));
        let plain = percent(plain);
        let effect = match help {
            ConditionEffect::Helps => "helps",
            ConditionEffect::MayHelp => "may help (more turns needed)",
            ConditionEffect::DoesNotHelp => "does not help",
        };
        terminal::eprint_row(
            condition.name(),
            format_args!("{effect}: {helped} instead of {plain}"),
        );
    }
    terminal::eprint_row("prompts", describe_use(report));
}

/// Describes the reliability that later prompts assume, and its source.
fn describe_use(report: &ProbeReport) -> String {
    let ComplianceRate { right, all } = report.kept;
    match (&report.model, report.reliability) {
        (Some(model), Some((reliability, Origin::Measured))) => {
            let name = reliability.name();
            format!("for {model}: {name} (measured: {right} of {all} turns without help correct)")
        }
        (Some(model), Some((reliability, Origin::Set))) => {
            format!("for {model}: {} (from the settings)", reliability.name())
        }
        (Some(model), Some((reliability, Origin::Guessed))) => {
            let name = reliability.name();
            format!(
                "for {model}: {name} (guessed; {all} of {MIN_RELIABILITY_REPLIES} turns without help measured)"
            )
        }
        _ => "not affected: the model is unknown".to_owned(),
    }
}

fn envelope(report: &ProbeReport) -> Value {
    let cells = list_shares(report)
        .into_iter()
        .map(|(condition, task, share)| {
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
        "measures": report.share(ProbeCondition::Plain, None).reliability(),
        "reminder": report.help(ProbeCondition::Reminder),
        "example": report.help(ProbeCondition::Example),
        "kept": report.kept,
        "used": report.reliability.map(|(xml, origin)| json!({"xml": xml, "origin": origin})),
        "asked": report.asked,
        "fault": report.fault.as_ref().map(|fault| json!({"kind": fault.kind().name(), "message": fault.message()})),
    })
}
