//! `agentd status` and `agentd change`: lists of changes, and one change.

use agentd::apply::NextStep;
use agentd::models::{SessionId, dollars};
use agentd::orchestrator::{ChangeRow, list_changes};
use agentd::{Error, ErrorKind, Result};

use super::session::open_existing_ledger;
use crate::args::{Args, ChangeCommand};
use crate::exit;
use crate::humanize;
use crate::project;
use crate::terminal::{self, CommandResult};

/// Maximum number of verdicts that a list shows for each change. Older ones are omitted.
const MAX_VERDICTS: usize = 2;

/// Maximum number of characters that a list shows of a request.
const MAX_REQUEST_CHARS: usize = 40;

pub(super) fn status(args: &Args, json: bool) -> CommandResult {
    let changes = load_changes(args)?;
    let open: Vec<ChangeRow> = changes.into_iter().filter(ChangeRow::is_open).collect();

    print_list(&open, "open changes", json)?;
    if !json {
        warn_about_overlaps(&open);
    }
    Ok(exit::OK)
}

pub(super) fn run(args: &Args, command: &ChangeCommand) -> CommandResult {
    match command {
        ChangeCommand::List { json } => print_list(&load_changes(args)?, "changes", *json)?,
        ChangeCommand::Show { change, json } => {
            let session = SessionId::new(change.as_str())?;
            let rows = load_changes(args)?;
            let Some(row) = rows.iter().find(|row| row.change == session) else {
                return Err(Error::new(
                    ErrorKind::ChangeNotFound,
                    format!("unknown change `{session}`"),
                )
                .with_hint("list changes with `agentd change list`")
                .into());
            };

            if *json {
                terminal::print_json(row)?;
            } else {
                print_change(row)?;
            }
        }
    }
    Ok(exit::OK)
}

fn load_changes(args: &Args) -> Result<Vec<ChangeRow>> {
    let workspace = project::workspace(args, None)?;
    match open_existing_ledger(&workspace.root, workspace.places.user.as_deref())? {
        Some(store) => list_changes(&workspace, &store, &project::git()),
        None => Ok(Vec::new()),
    }
}

/// Prints a table of changes, or a note that there are no `what`.
fn print_list(rows: &[ChangeRow], what: &str, json: bool) -> std::io::Result<()> {
    if json {
        return terminal::print_json(&rows);
    }
    if rows.is_empty() {
        terminal::note(format_args!(
            "no {what}; start one with `agentd run NAME \"REQUEST\"`"
        ));
        return Ok(());
    }

    let headings = [
        "CHANGE", "PHASE", "STATUS", "VERDICTS", "ROUNDS", "TURNS", "COST", "AGE", "REQUEST",
    ];
    terminal::print_table(&headings, rows.iter().map(table_cells))
}

fn table_cells(row: &ChangeRow) -> [String; 9] {
    let last = row.verdicts.iter().rev().take(MAX_VERDICTS).rev();
    let verdicts: Vec<String> = last
        .map(|(mode, verdict)| format!("{mode} {}", verdict.name()))
        .collect();
    let request = row.request.lines().next().unwrap_or_default();

    [
        row.change.to_string(),
        phase(row),
        describe_status(&row.next).to_owned(),
        if verdicts.is_empty() {
            "-".to_owned()
        } else {
            verdicts.join(", ")
        },
        row.rounds.to_string(),
        row.turns.to_string(),
        cost(row),
        humanize::age(row.age_seconds),
        request.chars().take(MAX_REQUEST_CHARS).collect(),
    ]
}

fn cost(row: &ChangeRow) -> String {
    match (row.spent.micro_dollars, row.spent.tokens) {
        (0, 0) => "-".to_owned(),
        (0, tokens) => format!("{tokens} tokens"),
        (micros, _) => dollars(micros),
    }
}

fn phase(row: &ChangeRow) -> String {
    row.mode
        .as_ref()
        .map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// Returns the status of a change as lists show it.
fn describe_status(next: &NextStep) -> &'static str {
    match next {
        NextStep::Ready { .. } => "ready",
        NextStep::Approval { .. } | NextStep::Person { .. } => "awaiting approval",
        NextStep::Answers { .. } => "awaiting answers",
        NextStep::Rounds { .. } => "stuck: round limit reached",
        NextStep::Over { done: true } => "done",
        NextStep::Over { done: false } => "abandoned",
    }
}

/// Warns about open changes that touch the same requirement.
fn warn_about_overlaps(rows: &[ChangeRow]) {
    for row in rows {
        // Each pair is reported once.
        for (other, both) in row.overlaps.iter().filter(|(other, _)| *other > row.change) {
            terminal::warning(format_args!(
                "{} and {other} both touch {}",
                row.change,
                both.join(", ")
            ));
        }
    }
}

fn print_change(row: &ChangeRow) -> std::io::Result<()> {
    let turns = humanize::count(row.turns, "turn");
    let rounds = humanize::count(row.rounds, "round");

    let mut rows = vec![
        ("change", row.change.to_string()),
        ("request", row.request.clone()),
        ("phase", phase(row)),
        ("status", describe_status(&row.next).to_owned()),
        ("turns", format!("{turns} in {rounds}")),
        ("cost", cost(row)),
        (
            "branch",
            format!(
                "{}, based on {}",
                row.branch,
                row.onto.as_deref().unwrap_or("a detached commit")
            ),
        ),
    ];

    rows.extend(row.tree.iter().map(|tree| ("worktree", tree.clone())));
    rows.extend(
        row.verdicts
            .iter()
            .map(|(mode, verdict)| ("verdict", format!("{mode} {}", verdict.name()))),
    );
    rows.extend(
        row.findings
            .iter()
            .map(|(mode, finding)| ("finding", format!("{mode}: {finding}"))),
    );

    if !row.touches.is_empty() {
        rows.push(("touches", row.touches.join(", ")));
    }
    for (other, both) in &row.overlaps {
        rows.push((
            "overlap",
            format!("{other} also touches {}", both.join(", ")),
        ));
    }
    terminal::print_rows(&rows)
}
