//! Lists all changes with their next step, their cost, the specs that they touch, and overlaps with other changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::SystemTime;

use serde::Serialize;

use crate::apply::{self, NextStep};
use crate::error::Result;
use crate::models::{Amount, Event, Finding, Mode, ReviewResult, SessionId, State, paths};
use crate::ops::{self, Git, Repository};
use crate::orchestrator::clock;
use crate::orchestrator::turn::findings::open_findings;
use crate::orchestrator::turn::record::TurnRecord;
use crate::orchestrator::workspace::Workspace;
use crate::spec;
use crate::store::{BudgetScope, Store};

/// Summary of a change.
#[derive(Debug, Serialize)]
pub struct ChangeRow {
    /// Name of the change.
    pub change: SessionId,
    /// Request of the user.
    pub request: String,
    /// Current mode; called `phase` in JSON.
    #[serde(rename = "phase")]
    pub mode: Option<Mode>,
    /// Next step; `Over` if the change is done or abandoned.
    #[serde(flatten)]
    pub next: NextStep,
    /// Verdicts of the turns, in order, each with the mode of the turn.
    pub verdicts: Vec<(Mode, ReviewResult)>,
    /// Open findings, each with the mode that recorded it.
    pub findings: Vec<(Mode, Finding)>,
    /// Number of turns.
    pub turns: u64,
    /// Number of times that the change entered the first mode of its pack.
    pub rounds: u64,
    /// Tokens and money spent, including the sessions of reviewers.
    pub spent: Amount,
    /// Seconds since the last event of the change.
    pub age_seconds: u64,
    /// Branch of the change.
    pub branch: String,
    /// Target branch of the merge; `None` if the change started from a detached HEAD.
    pub onto: Option<String>,
    /// Path of the worktree; `None` if it does not exist.
    pub tree: Option<String>,
    /// Requirements and scenarios that the change adds, edits or removes, such as `login#R1`.
    pub touches: Vec<String>,
    /// Other open changes that touch the same requirements or scenarios, each with the shared ones.
    pub overlaps: Vec<(SessionId, Vec<String>)>,
}

impl ChangeRow {
    /// Returns true unless the change is done or abandoned.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.next, NextStep::Over { .. })
    }
}

/// Lists all changes of a ledger, the most recently active first.
///
/// # Errors
///
/// Fails if the ledger or the pack of a change cannot be read.
pub fn list_changes(workspace: &Workspace, store: &dyn Store, git: &Git) -> Result<Vec<ChangeRow>> {
    let mut rows = Vec::new();
    let mut reviewer_sessions = Vec::new();
    let mut wanted_specs = Vec::new();
    let mut last_events = HashMap::new();
    for session in store.sessions()? {
        let events = store.events(&session)?;
        if let Some(change) = reviewed_change(&events) {
            reviewer_sessions.push((change, session.clone()));
        }
        let is_change = events
            .iter()
            .any(|(_, event)| matches!(event, Event::Opened(_)));
        if !is_change {
            continue;
        }

        let state = State::fold(events.iter().map(|(_, event)| event));
        let row = change_row(workspace, store, &session, &events, &state)?;
        if row.is_open() {
            wanted_specs.extend(WantedSpecs::read(workspace, &session, &state));
        }
        rows.push(row);
        last_events.insert(session, events.last().map(|(at, _)| *at));
    }

    if let Ok(repository) = workspace.repository(git) {
        add_touches(repository, &wanted_specs, &mut rows);
    }
    for (change, session) in reviewer_sessions {
        let spent = store.spent(&BudgetScope::Session(&session))?.amount;
        if let Some(row) = rows.iter_mut().find(|row| row.change == change) {
            row.spent.tokens = row.spent.tokens.saturating_add(spent.tokens);
            row.spent.micro_dollars = row.spent.micro_dollars.saturating_add(spent.micro_dollars);
        }
    }

    // Sorted by the time of the last event, which is more precise than the age in seconds.
    rows.sort_by_key(|row| Reverse(last_events.get(&row.change).copied().flatten()));
    add_overlaps(&mut rows);
    Ok(rows)
}

/// Returns the change that the session of a reviewer belongs to; `None` for other sessions.
fn reviewed_change(events: &[(SystemTime, Event)]) -> Option<SessionId> {
    events.iter().find_map(|(_, event)| match event {
        Event::Started(started) => started.for_change.clone(),
        _ => None,
    })
}

/// Sets `overlaps` of all open changes.
fn add_overlaps(rows: &mut [ChangeRow]) {
    let open: Vec<(SessionId, Vec<String>)> = rows
        .iter()
        .filter(|row| row.is_open())
        .map(|row| (row.change.clone(), row.touches.clone()))
        .collect();

    for row in rows.iter_mut().filter(|row| row.is_open()) {
        for (other, touched) in open.iter().filter(|(other, _)| *other != row.change) {
            let common: Vec<String> = row
                .touches
                .iter()
                .filter(|touch| touched.contains(touch))
                .cloned()
                .collect();
            if !common.is_empty() {
                row.overlaps.push((other.clone(), common));
            }
        }
    }
}

/// Summarizes a change. `touches` and `overlaps` stay empty.
fn change_row(
    workspace: &Workspace,
    store: &dyn Store,
    session: &SessionId,
    events: &[(SystemTime, Event)],
    state: &State,
) -> Result<ChangeRow> {
    let opened = state.change.as_ref();
    let other_workspace = match opened {
        Some(opened) => workspace.with_pack(&opened.pack)?,
        None => None,
    };
    let workspace = other_workspace.as_ref().unwrap_or(workspace);
    let pack = &workspace.pack;

    let turns = TurnRecord::all(session, events);
    let verdicts = turns.iter().filter_map(|turn| {
        let verdict = turn.replied.as_ref()?.verdict?;
        Some((turn.started.mode.clone(), verdict))
    });
    let rounds = events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Entered { mode } if *mode == pack.start))
        .count();

    let now = clock::now();
    let last_event = events.last().map_or(now, |(at, _)| *at);
    let age = now.duration_since(last_event).unwrap_or_default();
    let tree = workspace.worktree_path(session).ok();

    Ok(ChangeRow {
        change: session.clone(),
        request: opened.map_or_else(String::new, |opened| opened.request.clone()),
        mode: state.mode.clone(),
        next: apply::next_step(pack, state, workspace.rounds())?,
        verdicts: verdicts.collect(),
        findings: open_findings(store, state)?,
        turns: state.turns,
        rounds: rounds as u64,
        spent: store.spent(&BudgetScope::Session(session))?.amount,
        age_seconds: age.as_secs(),
        branch: opened.map_or_else(String::new, |opened| opened.branch.clone()),
        onto: opened.and_then(|opened| opened.onto.clone()),
        tree: tree
            .filter(|tree| tree.is_dir())
            .map(|tree| tree.display().to_string()),
        touches: Vec::new(),
        overlaps: Vec::new(),
    })
}

/// The project's specs as they would be after a change.
struct WantedSpecs {
    change: SessionId,
    /// Commit at which the change was opened.
    base: String,
    /// Path of each spec in the project, and its text in the change.
    specs: Vec<(String, String)>,
}

impl WantedSpecs {
    /// Reads the specs of a change; `None` if the change has no folder, or if they cannot be read.
    fn read(workspace: &Workspace, session: &SessionId, state: &State) -> Option<Self> {
        let base = state.change.as_ref()?.base.clone();
        let tree = workspace.tree(Some(session));
        if !ops::has_change(&tree, session) {
            return None;
        }

        let artifacts = ops::artifacts(&tree, session, &[paths::CHANGE_SPECS.to_owned()]).ok()?;
        let specs = artifacts
            .into_iter()
            .map(|(name, text)| (paths::project_spec(&name), text))
            .collect();
        Some(Self {
            change: session.clone(),
            base,
            specs,
        })
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        self.specs.iter().map(|(path, _)| path.as_str())
    }

    /// Returns the requirements and scenarios that the change adds, edits or removes. `base` contains the specs at the
    /// base commit, by path.
    fn touches(&self, base: &BTreeMap<String, String>) -> Vec<String> {
        let mut touches = Vec::new();
        for (path, wanted) in &self.specs {
            let file = path
                .rsplit_once('/')
                .map_or(path.as_str(), |(_, file)| file);
            let id = file.trim_end_matches(".md");
            let parts = spec::touched(base.get(path).map(String::as_str), wanted);
            touches.extend(parts.into_iter().map(|part| format!("{id}#{part}")));
        }
        touches
    }
}

/// Sets `touches` of all changes in `wanted_specs`.
///
/// The specs of all changes with the same base commit are read with one git command. If that fails, they are read for
/// each change separately, so that an unreadable spec of one change does not affect the others.
fn add_touches(repository: &Repository, wanted_specs: &[WantedSpecs], rows: &mut [ChangeRow]) {
    let mut paths_by_base: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for wanted in wanted_specs {
        let paths = paths_by_base.entry(&wanted.base).or_default();
        paths.extend(wanted.paths());
    }

    let mut texts_by_base = BTreeMap::new();
    for (base, paths) in paths_by_base {
        let paths: Vec<&str> = paths.into_iter().collect();
        if let Ok(texts) = repository.texts_at(base, &paths) {
            texts_by_base.insert(base, texts);
        }
    }

    for wanted in wanted_specs {
        let Some(row) = rows.iter_mut().find(|row| row.change == wanted.change) else {
            continue;
        };
        row.touches = match texts_by_base.get(wanted.base.as_str()) {
            Some(texts) => wanted.touches(texts),
            None => {
                let paths: Vec<&str> = wanted.paths().collect();
                let texts = repository.texts_at(&wanted.base, &paths);
                texts.map_or_else(|_| Vec::new(), |texts| wanted.touches(&texts))
            }
        };
    }
}
