//! All changes on one page: how each stands, what it has cost, what it touches, and with whom it collides.

use std::collections::{BTreeMap, BTreeSet};
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
    pub standing: NextStep,
    /// The verdicts of its turns, in order.
    pub verdicts: Vec<(Mode, ReviewResult)>,
    /// Findings that are open, each with the mode that found it.
    pub findings: Vec<(Mode, Finding)>,
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
        !matches!(self.standing, NextStep::Over { .. })
    }
}

/// Returns all changes of a ledger, the one that something happened to last first.
///
/// # Errors
///
/// Those of the ledger and of packs.
pub fn changes(workspace: &Workspace, store: &dyn Store, git: &Git) -> Result<Vec<ChangeRow>> {
    let repository = workspace.repository(git).ok();
    let (mut rows, mut opinions, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
    for session in store.sessions()? {
        let events = store.events(&session)?;
        let judged = events.iter().find_map(|(_, event)| match event {
            Event::Started(started) => started.for_change.clone(),
            _ => None,
        });
        opinions.extend(judged.map(|change| (change, session.clone())));
        if events
            .iter()
            .any(|(_, event)| matches!(event, Event::Opened(_)))
        {
            let state = State::fold(events.iter().map(|(_, event)| event));
            let row = row(workspace, store, &session, &events, &state)?;
            if row.is_open() {
                wanted.extend(WantedSpecs::read(workspace, &session, &state));
            }
            rows.push(row);
        }
    }
    if let Some(repository) = repository {
        add_touches(repository, &wanted, &mut rows);
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
            let both: Vec<String> = row
                .touches
                .iter()
                .filter(|touch| touched.contains(touch))
                .cloned()
                .collect();
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
    session: &SessionId,
    events: &[(SystemTime, Event)],
    state: &State,
) -> Result<ChangeRow> {
    let other = match &state.change {
        Some(opened) => workspace.with_pack(&opened.pack)?,
        None => None,
    };
    let led_by = other.as_ref().unwrap_or(workspace);
    let standing = apply::next_step(&led_by.pack, state, led_by.rounds())?;
    let turns = TurnRecord::all(session, events);
    let verdict =
        |turn: &TurnRecord| Some((turn.started.mode.clone(), turn.replied.as_ref()?.verdict?));
    let entered = events.iter().filter(
        |(_, event)| matches!(event, Event::Entered { mode } if *mode == led_by.pack.start),
    );
    let last = events.last().map_or_else(clock::now, |(at, _)| *at);
    let tree = workspace
        .own_tree(session)
        .ok()
        .filter(|tree| tree.is_dir());
    let opened = state.change.clone();
    let spent = store.spent(&Scope::Session(session))?.amount;
    let request = opened
        .as_ref()
        .map(|opened| opened.request.clone())
        .unwrap_or_default();
    Ok(ChangeRow {
        change: session.clone(),
        request,
        mode: state.mode.clone(),
        standing,
        verdicts: turns.iter().filter_map(verdict).collect(),
        findings: open_findings(store, state)?,
        turns: state.turns,
        rounds: entered.count() as u64,
        spent,
        age_seconds: clock::now()
            .duration_since(last)
            .unwrap_or_default()
            .as_secs(),
        branch: opened
            .as_ref()
            .map(|opened| opened.branch.clone())
            .unwrap_or_default(),
        onto: opened.and_then(|opened| opened.onto),
        tree: tree.map(|tree| tree.display().to_string()),
        touches: Vec::new(),
        overlaps: Vec::new(),
    })
}

/// The specs that a change wants.
struct WantedSpecs {
    change: SessionId,
    /// Commit at which the change was opened.
    base: String,
    /// Path of each of the project's specs, and the text that the change wants it to have.
    specs: Vec<(String, String)>,
}

impl WantedSpecs {
    /// Reads the specs of a change; `None` if it has none, or if they cannot be read.
    fn read(workspace: &Workspace, session: &SessionId, state: &State) -> Option<Self> {
        let base = state.change.as_ref()?.base.clone();
        let tree = workspace.tree(Some(session));
        if !ops::has_change(&tree, session) {
            return None;
        }
        let found = ops::artifacts(&tree, session, &[paths::CHANGE_SPECS.to_owned()]).ok()?;
        let path = |name: String| paths::project_spec(&name);
        let specs = found
            .into_iter()
            .map(|(name, text)| (path(name), text))
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

    /// Returns what it adds, edits or removes of the project's specs at its base.
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

/// Adds to each row what its change touches. The specs of all changes with the same base are read at once.
fn add_touches(repository: &Repository, wanted: &[WantedSpecs], rows: &mut [ChangeRow]) {
    let mut paths: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for wanted in wanted {
        paths
            .entry(&wanted.base)
            .or_default()
            .extend(wanted.paths());
    }
    let texts_at = |base: &str, paths: Vec<&str>| repository.texts_at(base, &paths).ok();
    let bases: BTreeMap<&str, _> = paths
        .into_iter()
        .map(|(base, paths)| (base, texts_at(base, paths.into_iter().collect())))
        .collect();

    for wanted in wanted {
        let Some(row) = rows.iter_mut().find(|row| row.change == wanted.change) else {
            continue;
        };
        // One spec that cannot be read must not hide what other changes touch.
        let alone;
        let texts = match bases.get(wanted.base.as_str()) {
            Some(Some(texts)) => Some(texts),
            _ => {
                alone = texts_at(&wanted.base, wanted.paths().collect());
                alone.as_ref()
            }
        };
        row.touches = texts.map(|texts| wanted.touches(texts)).unwrap_or_default();
    }
}
