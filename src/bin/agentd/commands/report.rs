//! What became of a turn, row by row.

use std::ops::Range;

use agentd::models::{
    Code, Finding, Marker, OperationId, Problem, State, StepResult, UsageMetrics, dollars,
    findings_progress,
};
use agentd::orchestrator::{Overruled, TurnReport};

use crate::terminal;

/// Tells what became of a turn.
pub(super) fn tell(report: &TurnReport) {
    let TurnReport {
        session,
        turn,
        mode,
        agent,
        prompt_bytes,
        ..
    } = report;
    terminal::row(
        "turn",
        format_args!("{session}/{turn}: {mode} by {agent}, {prompt_bytes} bytes sent"),
    );
    if let Some(usage) = usage(report.usage) {
        terminal::row("used", usage);
    }
    if report.left_behind > 0 {
        terminal::row(
            "left",
            format_args!(
                "behind by the agent, and ended: {} of its processes",
                report.left_behind
            ),
        );
    }
    if report.repairs > 0 {
        terminal::row("repairs", report.repairs);
    }
    if let Some(verdict) = report.verdict {
        terminal::row("verdict", verdict.name());
    }
    if let Some(overruled) = &report.overruled {
        terminal::row("counts as", counts_as(overruled));
    }
    for (heading, words) in report.findings.iter().map(finding) {
        terminal::row(heading, words);
    }
    if let Some(progress) = findings_progress(&report.findings) {
        terminal::row("findings", progress);
    }
    for marker in &report.response.markers {
        match marker {
            Marker::Named { name, value } => {
                terminal::row("marker", format_args!("{name} {value}"))
            }
            Marker::TaskStatus { id, status } => {
                terminal::row("task", format_args!("{id} {}", status.name()))
            }
            Marker::Review { .. } => {}
        }
    }
    let settlements = report.settlements.iter();
    settlements
        .filter(|settlement| !is_list_of_findings(settlement))
        .for_each(settlement);
    for proposal in &report.proposals {
        terminal::row(
            "refused",
            format_args!("{}: {}", proposal.what, proposal.reason),
        );
    }
    for problem in &report.response.problems {
        let (heading, words) = self::problem(problem, &report.reply);
        terminal::row(heading, words);
    }
    if let Some(gate) = &report.closed_gate {
        terminal::row("gate", format_args!("does not hold: {gate}"));
    }
    terminal::row("next", next(&report.state));
}

/// Returns the result that counts, and the reason.
pub(super) fn counts_as(overruled: &Overruled) -> String {
    format!("{}: {}", overruled.result, overruled.reason)
}

/// Returns a finding under its heading.
pub(super) fn finding(finding: &Finding) -> (&'static str, String) {
    (
        if finding.is_open() {
            "finding"
        } else {
            "settled"
        },
        finding.to_string(),
    )
}

/// Returns whether a settlement has a list of findings, which is shown by itself.
pub(super) fn is_list_of_findings(settlement: &StepResult) -> bool {
    settlement.operation == OperationId::FindingsNote && settlement.done
}

/// Returns what was tolerated or ignored in a reply, under its heading.
pub(super) fn problem(problem: &Problem, reply: &str) -> (&'static str, String) {
    let heading = if problem.code == Code::QuotedEffect {
        "ignored"
    } else {
        "problem"
    };
    (
        heading,
        format!(
            "{} ({}){}",
            problem.message,
            problem.code,
            place(reply, &problem.span)
        ),
    )
}

/// Returns where in a reply something stands, and the line itself.
fn place(reply: &str, span: &Range<usize>) -> String {
    let (Some(before), Some(within)) = (reply.get(..span.start), reply.get(span.clone())) else {
        return String::new();
    };
    // Of a whole block of code, the line that holds a tag.
    let inside = within
        .lines()
        .position(|line| line.contains('<'))
        .unwrap_or_default();
    let number = before.matches('\n').count() + inside;
    let line: String = reply
        .lines()
        .nth(number)
        .unwrap_or_default()
        .trim()
        .chars()
        .take(LINE)
        .collect();
    if line.is_empty() {
        String::new()
    } else {
        format!("\nline {} of the reply: {line}", number + 1)
    }
}

/// How much of a line of a reply is shown.
const LINE: usize = 100;

/// Tells what became of something that was to be done.
pub(super) fn settlement(settlement: &StepResult) {
    if settlement.done {
        terminal::row("done", &settlement.detail);
    } else {
        let StepResult {
            operation,
            target,
            detail,
            ..
        } = settlement;
        let what = if target.is_empty() {
            operation.as_str()
        } else {
            target
        };
        terminal::row("not done", format_args!("{what}: {detail}"));
    }
}

/// Returns what a call used, as far as the agent reports it.
fn usage(usage: UsageMetrics) -> Option<String> {
    let tokens = usage.tokens()?;
    let cost = usage
        .micro_dollars
        .map(|micros| format!(", {}", dollars(micros)))
        .unwrap_or_default();
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
