//! All changes on one page: how each stands, what it has cost, what it touches, and with whom it collides.

use std::time::SystemTime;

use serde::Serialize;

use super::clock;
use super::prompts::Workspace;
use super::recorded::Recorded;
use crate::apply::{self, Standing};
use crate::error::Result;
use crate::models::{Amount, Event, Mode, ReviewResult, SessionId, State};
use crate::ops::{self, Git, Repository, SPECS};
use crate::spec;
use crate::store::{Scope, Store};

/// A change on one line.
#[derive(Debug, Serialize)]
pub struct ChangeRow {
    /// Its name.
    pub change: SessionId,
    /// What was asked for.
    pub request: String,
    /// The mode it is in.
    #[serde(rename = "phase")]
    pub mode: Option<Mode>,
    /// How it stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// The verdicts of its turns, in order.
    pub verdicts: Vec<(Mode, ReviewResult)>,
    /// How many turns were taken.
    pub turns: u64,
    /// How often its loops were gone through.
    pub rounds: u64,
    /// What it has spent.
    pub spent: Amount,
    /// How long ago something happened to it last, in seconds.
    pub age_seconds: u64,
    /// Its branch.
    pub branch: String,
    /// The branch it goes back to.
    pub onto: Option<String>,
    /// Its work tree, if that is there.
    pub tree: Option<String>,
    /// The requirements and scenarios that it adds, edits or removes, as `spec#R1`.
    pub touches: Vec<String>,
    /// Other open changes that touch the same: each, and what.
    pub overlaps: Vec<(SessionId, Vec<String>)>,
}

impl ChangeRow {
    /// Tells whether it is not over.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.standing, Standing::Over { .. })
    }
}

/// Returns all changes of a ledger, the one that something happened to last first.
///
/// # Errors
///
/// Those of the ledger and of packs.
pub fn changes(workspace: &Workspace, store: &dyn Store, git: &Git) -> Result<Vec<ChangeRow>> {
    let repository = workspace.repository(git).ok();
    let (mut rows, mut opinions) = (Vec::new(), Vec::new());
    for session in store.sessions()? {
        let events = store.events(&session)?;
        let judged = events.iter().find_map(|(_, event)| match event {
            Event::Started(started) => started.for_change.clone(),
            _ => None,
        });
        opinions.extend(judged.map(|change| (change, session.clone())));
        if events.iter().any(|(_, event)| matches!(event, Event::Opened(_))) {
            rows.push(row(workspace, store, repository, &session, &events)?);
        }
    }
    // What agents have spent on an opinion was spent on the change.
    for (change, session) in opinions {
        let spent = store.spent(&Scope::Session(&session))?.amount;
        if let Some(row) = rows.iter_mut().find(|row| row.change == change) {
            row.spent.tokens = row.spent.tokens.saturating_add(spent.tokens);
            row.spent.micro_dollars = row.spent.micro_dollars.saturating_add(spent.micro_dollars);
        }
    }
    rows.sort_by_key(|row| row.age_seconds);
    let open: Vec<(SessionId, Vec<String>)> = rows
        .iter()
        .filter(|row| row.is_open())
        .map(|row| (row.change.clone(), row.touches.clone()))
        .collect();
    for row in rows.iter_mut().filter(|row| row.is_open()) {
        for (other, touched) in open.iter().filter(|(other, _)| *other != row.change) {
            let both: Vec<String> =
                row.touches.iter().filter(|touch| touched.contains(touch)).cloned().collect();
            if !both.is_empty() {
                row.overlaps.push((other.clone(), both));
            }
        }
    }
    Ok(rows)
}

fn row(
    workspace: &Workspace,
    store: &dyn Store,
    repository: Option<&Repository>,
    session: &SessionId,
    events: &[(SystemTime, Event)],
) -> Result<ChangeRow> {
    let state = State::fold(events.iter().map(|(_, event)| event));
    let other = match &state.change {
        Some(opened) => workspace.with_pack(&opened.pack)?,
        None => None,
    };
    let led_by = other.as_ref().unwrap_or(workspace);
    let standing = apply::standing(&led_by.pack, &state, led_by.rounds())?;
    let turns = Recorded::all(session, events);
    let verdict = |turn: &Recorded| Some((turn.started.mode.clone(), turn.replied.as_ref()?.verdict?));
    let entered = events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Entered { mode } if *mode == led_by.pack.start));
    let last = events.last().map_or_else(clock::now, |(at, _)| *at);
    let tree = workspace.own_tree(session).ok().filter(|tree| tree.is_dir());
    let touches = match (&standing, repository) {
        (Standing::Over { .. }, _) | (_, None) => Vec::new(),
        (_, Some(repository)) => touched(repository, workspace, session, &state).unwrap_or_default(),
    };
    let opened = state.change.clone();
    let spent = store.spent(&Scope::Session(session))?.amount;
    let request = opened.as_ref().map(|opened| opened.request.clone()).unwrap_or_default();
    Ok(ChangeRow {
        change: session.clone(),
        request,
        mode: state.mode.clone(),
        standing,
        verdicts: turns.iter().filter_map(verdict).collect(),
        turns: state.turns,
        rounds: entered.count() as u64,
        spent,
        age_seconds: clock::now().duration_since(last).unwrap_or_default().as_secs(),
        branch: opened.as_ref().map(|opened| opened.branch.clone()).unwrap_or_default(),
        onto: opened.and_then(|opened| opened.onto),
        tree: tree.map(|tree| tree.display().to_string()),
        touches,
        overlaps: Vec::new(),
    })
}

/// Returns what a change adds, edits or removes of the project's specs.
fn touched(
    repository: &Repository,
    workspace: &Workspace,
    session: &SessionId,
    state: &State,
) -> Result<Vec<String>> {
    let Some(opened) = &state.change else { return Ok(Vec::new()) };
    let tree = workspace.tree(Some(session));
    let mut touches = Vec::new();
    if !ops::has_change(&tree, session) {
        return Ok(touches);
    }
    for (name, wanted) in ops::artifacts(&tree, session, &["specs/*.md".to_owned()])? {
        let file = name.trim_start_matches("specs/");
        let base = repository.text_at(&opened.base, &format!("{SPECS}/{file}"))?;
        let id = file.trim_end_matches(".md");
        touches
            .extend(spec::touched(base.as_deref(), &wanted).into_iter().map(|part| format!("{id}#{part}")));
    }
    Ok(touches)
}
