//! Replies and results of commands on the terminal.

use std::io;

use agentd::models::{ActionOutcome, ActionResult};
use agentd::orchestrator::{ChatReply, CommandReport};

use crate::terminal;

/// Maximum number of lines of a refused action that are shown.
const MAX_REFUSED_LINES: usize = 5;

/// Prints a reply: the message and a line for each action on stdout, warnings on stderr; or all of it as a line of JSON.
pub(super) fn print_reply(reply: &ChatReply, json: bool) -> io::Result<()> {
    if json {
        return terminal::print_json_line(reply);
    }

    let mut text = String::new();
    if !reply.message.is_empty() {
        text.push_str(&reply.message);
        text.push('\n');
    }
    for action in &reply.actions {
        text.push_str(&action_line(action));
        text.push('\n');
    }
    terminal::print_text(&text)?;

    for action in &reply.actions {
        print_refused_text(action);
    }
    if reply.mode != reply.turn_mode {
        terminal::eprint_row("mode", &reply.mode);
    }
    for warning in &reply.warnings {
        terminal::warning(warning);
    }
    if reply.is_all_refused() {
        terminal::warning("nothing that the reply asked for was carried out");
    }
    Ok(())
}

/// Prints the result of a command: a line for each step on stdout, and the new mode on stderr; or all of it as a line of
/// JSON.
pub(super) fn print_command(report: &CommandReport, json: bool) -> io::Result<()> {
    if json {
        return terminal::print_json_line(report);
    }

    let lines: String = report
        .details
        .iter()
        .map(|detail| format!("✓ {}\n", detail.replace('\n', " ")))
        .collect();
    terminal::print_text(&lines)?;

    if report.mode != report.command_mode {
        terminal::eprint_row("mode", &report.mode);
    }
    if report.ended {
        terminal::eprint_row("session", "ended");
    }
    Ok(())
}

/// Returns the line of an action: `✓ save_decision: saved elena_arc` or `✗ write_template: not allowed in mode editor`.
fn action_line(action: &ActionResult) -> String {
    let mark = match action.outcome {
        ActionOutcome::Done => '✓',
        ActionOutcome::Refused | ActionOutcome::Failed => '✗',
    };
    format!("{mark} {}: {}", action.action, action.detail).replace('\n', " ")
}

/// Prints the start of a refused action on stderr.
fn print_refused_text(action: &ActionResult) {
    let mut lines = action.text.trim().lines();
    let mut shown: Vec<&str> = lines.by_ref().take(MAX_REFUSED_LINES).collect();
    if lines.next().is_some() {
        shown.push("…");
    }
    if !shown.is_empty() {
        terminal::eprint_row("refused", shown.join("\n"));
    }
}
