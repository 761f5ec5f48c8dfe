//! The report of a turn on stderr, one row per fact.

use std::ops::Range;

use agentd::models::{
    EffectKind, Finding, Marker, OperationId, Problem, ProblemCode, RejectedEffect, State,
    StepResult, UsageMetrics, dollars, findings_progress,
};
use agentd::orchestrator::{TurnReport, VerdictOverride};

use crate::{humanize, terminal};

/// Prints the report of a turn.
pub(super) fn print_turn(report: &TurnReport) {
    let TurnReport {
        session,
        turn,
        mode,
        agent,
        prompt_bytes,
        ..
    } = report;
    terminal::eprint_row(
        "turn",
        format_args!("{session}/{turn}: {mode} by {agent}, {prompt_bytes} bytes sent"),
    );

    if let Some(usage) = describe_usage(report.usage) {
        terminal::eprint_row("usage", usage);
    }
    if report.left_behind > 0 {
        let leftover = humanize::count(report.left_behind, "leftover process");
        terminal::eprint_row("killed", leftover);
    }
    if report.repairs > 0 {
        terminal::eprint_row("repairs", report.repairs);
    }
    if let Some(verdict) = report.verdict {
        terminal::eprint_row("verdict", verdict.name());
    }
    if let Some(overruled) = &report.overruled {
        terminal::eprint_row("effective verdict", describe_effective(overruled));
    }

    for (label, text) in report.findings.iter().map(finding_row) {
        terminal::eprint_row(label, text);
    }
    if let Some(progress) = findings_progress(&report.findings) {
        terminal::eprint_row("findings", progress);
    }

    for marker in &report.response.markers {
        match marker {
            Marker::Named { name, value } => {
                terminal::eprint_row("marker", format_args!("{name} {value}"))
            }
            Marker::TaskStatus { id, status } => {
                terminal::eprint_row("task", format_args!("{id} {}", status.name()))
            }
            Marker::Review { .. } => {}
        }
    }

    let steps = report.settlements.iter();
    steps
        .filter(|step| !is_findings_list(step))
        .for_each(print_step);
    for proposal in &report.proposals {
        terminal::eprint_row("refused", describe_refusal(proposal));
    }
    if is_all_refused(report) {
        terminal::warning("every effect that the reply asked for was refused");
    }
    for problem in &report.response.problems {
        let (label, text) = problem_row(problem, &report.reply);
        terminal::eprint_row(label, text);
    }

    if let Some(gate) = &report.closed_gate {
        terminal::eprint_row("gate", format_args!("not met: {gate}"));
    }
    terminal::eprint_row("next", describe_next(&report.state));
}

/// Returns the verdict that takes effect, and the reason.
pub(super) fn describe_effective(overruled: &VerdictOverride) -> String {
    format!("{}: {}", overruled.result, overruled.reason)
}

/// Returns the label and text of a finding.
pub(super) fn finding_row(finding: &Finding) -> (&'static str, String) {
    (
        if finding.is_open() {
            "finding"
        } else {
            "settled"
        },
        finding.to_string(),
    )
}

/// Returns true if a step has recorded findings, which are printed separately.
pub(super) fn is_findings_list(step: &StepResult) -> bool {
    step.operation == OperationId::FindingsNote && step.done
}

/// Returns the label and text of a problem in a reply, with its line.
pub(super) fn problem_row(problem: &Problem, reply: &str) -> (&'static str, String) {
    let label = if problem.code == ProblemCode::QuotedEffect {
        "ignored"
    } else {
        "problem"
    };
    (
        label,
        format!(
            "{} ({}){}",
            problem.message,
            problem.code,
            quote_line(reply, &problem.span)
        ),
    )
}

/// Returns the number and text of the line of a reply at which a span starts.
fn quote_line(reply: &str, span: &Range<usize>) -> String {
    let (Some(before), Some(within)) = (reply.get(..span.start), reply.get(span.clone())) else {
        return String::new();
    };
    // If the span is a block of code, its first line with a tag is quoted.
    let tag_line = within
        .lines()
        .position(|line| line.contains('<'))
        .unwrap_or_default();

    let number = before.matches('\n').count() + tag_line;
    let line: String = reply
        .lines()
        .nth(number)
        .unwrap_or_default()
        .trim()
        .chars()
        .take(MAX_LINE_CHARS)
        .collect();
    if line.is_empty() {
        String::new()
    } else {
        format!("\nline {} of the reply: {line}", number + 1)
    }
}

/// Returns true if a reply asked for actions or updates, and none of them was permitted.
fn is_all_refused(report: &TurnReport) -> bool {
    let response = &report.response;
    let asked = response.actions.len() + response.updates.len() + response.proposals.len();
    let mut refused = report.proposals.iter();
    asked == report.proposals.len() && refused.any(|effect| effect.what != EffectKind::Review)
}

/// Returns a refused effect with the reason, and the start of its text on the next line.
pub(super) fn describe_refusal(effect: &RejectedEffect) -> String {
    let RejectedEffect {
        what, reason, text, ..
    } = effect;
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.is_empty() {
        return format!("{what}: {reason}");
    }

    let shown: String = line.chars().take(MAX_REFUSED_CHARS).collect();
    let rest = if shown.len() < line.len() { "…" } else { "" };
    format!("{what}: {reason}\n{shown}{rest}")
}

/// Maximum number of characters printed of a refused effect.
const MAX_REFUSED_CHARS: usize = 200;

/// Maximum number of characters printed of a quoted line.
const MAX_LINE_CHARS: usize = 100;

/// Prints the result of a step.
pub(super) fn print_step(step: &StepResult) {
    if step.done {
        terminal::eprint_row("done", &step.detail);
    } else {
        let StepResult {
            operation,
            target,
            detail,
            ..
        } = step;
        let what = if target.is_empty() {
            operation.as_str()
        } else {
            target
        };
        terminal::eprint_row("not done", format_args!("{what}: {detail}"));
    }
}

/// Returns the tokens and cost that the agent reports, or `None` if it does not report them.
fn describe_usage(usage: UsageMetrics) -> Option<String> {
    let tokens = usage.tokens()?;
    let cost = usage
        .micro_dollars
        .map(|micros| format!(", {}", dollars(micros)))
        .unwrap_or_default();
    Some(format!("{tokens} tokens{cost}"))
}

fn describe_next(state: &State) -> String {
    match (state.ended, &state.mode) {
        (Some(true), _) => "done".to_owned(),
        (Some(false), _) => "stopped".to_owned(),
        (None, Some(mode)) => mode.to_string(),
        (None, None) => "-".to_owned(),
    }
}
