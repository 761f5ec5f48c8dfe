//! `agentd status` and `agentd change`: how changes stand.

use agentd::apply::NextStep;
use agentd::models::{SessionId, dollars};
use agentd::orchestrator::{ChangeRow, list_changes};
use agentd::{Error, ErrorKind, Result};

use super::session::look;
use crate::args::{Args, ChangeCommand};
use crate::exit;
use crate::human_time;
use crate::project;
use crate::terminal::{self, Outcome};

pub(super) fn status(args: &Args, json: bool) -> Outcome {
    let rows: Vec<ChangeRow> = all(args)?.into_iter().filter(ChangeRow::is_open).collect();
    print(&rows, json)?;
    if !json && rows.is_empty() {
        terminal::note("no change is open; `agentd run NAME \"what shall change\"` opens one");
    }
    if !json {
        tell_overlaps(&rows);
    }
    Ok(exit::OK)
}

pub(super) fn run(args: &Args, command: &ChangeCommand) -> Outcome {
    match command {
        ChangeCommand::List { json } => print(&all(args)?, *json)?,
        ChangeCommand::Show { change, json } => {
            let session = SessionId::new(change.as_str())?;
            let rows = all(args)?;
            let Some(row) = rows.iter().find(|row| row.change == session) else {
                return Err(Error::new(
                    ErrorKind::ChangeNotFound,
                    format!("there is no change `{session}`"),
                )
                .with_hint("`agentd change list` lists them")
                .into());
            };
            if *json {
                terminal::json(row)?
            } else {
                show(row)?
            }
        }
    }
    Ok(exit::OK)
}

fn all(args: &Args) -> Result<Vec<ChangeRow>> {
    let workspace = project::workspace(args, None)?;
    match look(&workspace.root, workspace.places.user.as_deref())? {
        Some(store) => list_changes(&workspace, &store, &project::git()),
        None => Ok(Vec::new()),
    }
}

fn print(rows: &[ChangeRow], json: bool) -> std::io::Result<()> {
    if json {
        return terminal::json(&rows);
    }
    if rows.is_empty() {
        return Ok(());
    }
    let heads = [
        "CHANGE", "PHASE", "STANDS", "VERDICTS", "ROUNDS", "TURNS", "COST", "AGE", "REQUEST",
    ];
    terminal::table(&heads, rows.iter().map(cells))
}

fn cells(row: &ChangeRow) -> [String; 9] {
    let last = row.verdicts.iter().rev().take(2).rev();
    let verdicts: Vec<String> = last
        .map(|(mode, verdict)| format!("{mode} {}", verdict.name()))
        .collect();
    [
        row.change.to_string(),
        row.mode
            .as_ref()
            .map_or_else(|| "-".to_owned(), ToString::to_string),
        stands(&row.standing).to_owned(),
        if verdicts.is_empty() {
            "-".to_owned()
        } else {
            verdicts.join(", ")
        },
        row.rounds.to_string(),
        row.turns.to_string(),
        cost(row),
        human_time::ago(row.age_seconds),
        row.request
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(40)
            .collect(),
    ]
}

fn cost(row: &ChangeRow) -> String {
    match (row.spent.micro_dollars, row.spent.tokens) {
        (0, 0) => "-".to_owned(),
        (0, tokens) => format!("{tokens} tokens"),
        (micros, _) => dollars(micros),
    }
}

/// Returns how a change stands, in a word or two.
fn stands(standing: &NextStep) -> &'static str {
    match standing {
        NextStep::Ready { .. } => "ready",
        NextStep::Approval { .. } | NextStep::Person { .. } => "waits for approval",
        NextStep::Answers { .. } => "waiting for your answers",
        NextStep::Rounds { .. } => "goes in circles",
        NextStep::Over { done: true } => "archived",
        NextStep::Over { done: false } => "given up",
    }
}

fn tell_overlaps(rows: &[ChangeRow]) {
    for row in rows {
        // Each pair once.
        for (other, both) in row.overlaps.iter().filter(|(other, _)| *other > row.change) {
            terminal::warning(format_args!(
                "{} and {other} both touch {}",
                row.change,
                both.join(", ")
            ));
        }
    }
}

fn show(row: &ChangeRow) -> std::io::Result<()> {
    let mut rows = vec![
        ("change", row.change.to_string()),
        ("request", row.request.clone()),
        (
            "phase",
            row.mode
                .as_ref()
                .map_or_else(|| "-".to_owned(), ToString::to_string),
        ),
        ("stands", stands(&row.standing).to_owned()),
        ("turns", format!("{} in {} rounds", row.turns, row.rounds)),
        ("cost", cost(row)),
        (
            "branch",
            format!(
                "{} onto {}",
                row.branch,
                row.onto.as_deref().unwrap_or("nothing")
            ),
        ),
    ];
    rows.extend(row.tree.iter().map(|tree| ("tree", tree.clone())));
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
            format!("{other} touches {} as well", both.join(", ")),
        ));
    }
    terminal::rows(&rows)
}
