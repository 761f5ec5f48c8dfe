//! What became of a turn, row by row.

use agentd::models::{Marker, State, UsageMetrics, dollars};
use agentd::orchestrator::TurnReport;

use crate::out;

/// Tells what became of a turn.
pub(super) fn tell(report: &TurnReport) {
    let TurnReport { session, turn, mode, agent, prompt_bytes, .. } = report;
    out::row("turn", format_args!("{session}/{turn}: {mode} by {agent}, {prompt_bytes} bytes sent"));
    if let Some(usage) = usage(report.usage) {
        out::row("used", usage);
    }
    if report.left_behind > 0 {
        out::row(
            "left",
            format_args!("behind by the agent, and ended: {} of its processes", report.left_behind),
        );
    }
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

/// Returns what a call used, as far as the agent reports it.
fn usage(usage: UsageMetrics) -> Option<String> {
    let tokens = usage.tokens()?;
    let cost = usage.micro_dollars.map(|micros| format!(", {}", dollars(micros))).unwrap_or_default();
    Some(format!("{tokens} tokens{cost}"))
}

fn next(state: &State) -> String {
    match (state.ended, &state.mode) {
        (Some(true), _) => "done".to_owned(),
        (Some(false), _) => "stopped".to_owned(),
        (None, Some(mode)) => mode.to_string(),
        (None, None) => "nothing".to_owned(),
    }
}
