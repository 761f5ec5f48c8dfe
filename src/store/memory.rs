//! The ledger in memory: gone with the process.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::turn_index::{self, Tallies, Tally, Total};
use super::{Claim, Entry, Figures, Lease, MOST_MEASUREMENTS, Marks, Scope, Store, Turns, blob_id};
use crate::error::Result;
use crate::models::{
    BlobId, Event, Held, Holder, Measurement, SessionId, Spent, TurnRow, UsageRow,
};

/// A ledger in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    ledger: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    sessions: BTreeMap<SessionId, Session>,
    blobs: HashMap<BlobId, Vec<u8>>,
    kept: Kept,
    /// All turns, in the order in which they were started.
    order: Vec<(SessionId, u64)>,
    /// What was measured, the newest last.
    measurements: Vec<(SystemTime, Measurement)>,
}

#[derive(Debug, Default)]
struct Session {
    fence: u64,
    held: Option<Held>,
    events: Vec<(SystemTime, Event)>,
}

/// Tallies and totals.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) tallies: BTreeMap<(SessionId, u64), Tally>,
    pub(super) totals: HashMap<(&'static str, String), Total>,
}

impl MemoryStore {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// Returns the session that a lease is good for.
    fn leased(&mut self, lease: &Lease) -> Result<&mut Session> {
        let valid = |session: &&mut Session| {
            session
                .held
                .as_ref()
                .is_some_and(|held| held.fence == lease.fence)
        };
        self.sessions
            .get_mut(&lease.session)
            .filter(valid)
            .ok_or_else(|| turn_index::void(&lease.session))
    }
}

impl Store for MemoryStore {
    fn claim(
        &self,
        session: &SessionId,
        holder: &Holder,
        over: Option<u64>,
        now: SystemTime,
    ) -> Result<Claim> {
        let mut ledger = self.ledger();
        let found = ledger.sessions.entry(session.clone()).or_default();
        if let Some(held) = &found.held
            && over != Some(held.fence)
        {
            return Ok(Claim::Busy(held.clone()));
        }
        found.fence += 1;
        let (fence, now) = (found.fence, whole(now));
        let held = Held {
            session: session.clone(),
            holder: holder.clone(),
            since: now,
            seen: now,
            fence,
        };
        found.held = Some(held);
        Ok(Claim::Granted(Lease {
            session: session.clone(),
            fence,
        }))
    }

    fn heartbeat(&self, lease: &Lease, now: SystemTime) -> Result<()> {
        if let Some(held) = &mut self.ledger().leased(lease)?.held {
            held.seen = whole(now);
        }
        Ok(())
    }

    fn release(&self, lease: &Lease) -> Result<()> {
        self.ledger().leased(lease)?.held = None;
        Ok(())
    }

    fn commit(&self, lease: &Lease, entry: &Entry<'_>, now: SystemTime) -> Result<()> {
        let now = whole(now);
        let mut ledger = self.ledger();
        ledger.leased(lease)?;
        let blobs: Vec<(BlobId, &[u8])> = entry
            .blobs
            .iter()
            .map(|bytes| (blob_id(bytes), *bytes))
            .collect();
        let added: HashSet<&BlobId> = blobs.iter().map(|(id, _)| id).collect();
        let there = |id: &BlobId| added.contains(id) || ledger.blobs.contains_key(id);
        if let Some(id) = entry
            .events
            .iter()
            .flat_map(Event::texts)
            .find(|id| !there(id))
        {
            return Err(turn_index::missing(id));
        }
        let mut draft = Draft::over(&ledger.kept);
        for event in entry.events {
            turn_index::count(&mut draft, &lease.session, event, &entry.budget, now)?;
        }
        let changed = draft.changed();
        for (key, tally) in changed.tallies {
            if ledger.kept.tallies.insert(key.clone(), tally).is_none() {
                ledger.order.push(key);
            }
        }
        ledger.kept.totals.extend(changed.totals);
        for (id, bytes) in blobs {
            ledger.blobs.entry(id).or_insert_with(|| bytes.to_vec());
        }
        ledger
            .leased(lease)?
            .events
            .extend(entry.events.iter().map(|event| (now, event.clone())));
        Ok(())
    }

    /// Nobody else can write to the memory of this process.
    fn marks(&self) -> Result<Marks> {
        Ok(Marks::default())
    }

    fn check_unchanged(&self, lease: &Lease, _: &Marks) -> Result<()> {
        self.ledger().leased(lease).map(|_| ())
    }

    fn events(&self, session: &SessionId) -> Result<Vec<(SystemTime, Event)>> {
        Ok(self
            .ledger()
            .sessions
            .get(session)
            .map(|found| found.events.clone())
            .unwrap_or_default())
    }

    fn blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>> {
        Ok(self.ledger().blobs.get(id).cloned())
    }

    fn turns(&self, wanted: &Turns<'_>) -> Result<Vec<TurnRow>> {
        let ledger = self.ledger();
        let asked =
            |key: &&(SessionId, u64)| wanted.session.is_none_or(|session| *session == key.0);
        let newest = ledger.order.iter().rev().filter(asked).take(wanted.newest);
        let mut rows: Vec<TurnRow> = newest
            .filter_map(|key| ledger.kept.tallies.get(key))
            .map(|tally| tally.row.clone())
            .collect();
        rows.reverse();
        Ok(rows)
    }

    fn sessions(&self) -> Result<Vec<SessionId>> {
        let ledger = self.ledger();
        let lived = ledger
            .sessions
            .iter()
            .filter(|(_, session)| !session.events.is_empty());
        let mut names: Vec<SessionId> = lived.map(|(name, _)| name.clone()).collect();
        names.sort();
        Ok(names)
    }

    fn held(&self) -> Result<Vec<Held>> {
        Ok(self
            .ledger()
            .sessions
            .values()
            .filter_map(|session| session.held.clone())
            .collect())
    }

    fn spent(&self, scope: &Scope<'_>) -> Result<Spent> {
        Ok(self.ledger().kept.total(scope).spent())
    }

    fn usage(&self, session: Option<&SessionId>) -> Result<Vec<UsageRow>> {
        let ledger = self.ledger();
        let tallies = ledger.kept.tallies.values();
        let asked =
            tallies.filter(|tally| session.is_none_or(|session| *session == tally.row.session));
        Ok(turn_index::usage_of(asked.map(|tally| tally.row.clone())))
    }

    fn measure(&self, measurement: &Measurement, now: SystemTime) -> Result<()> {
        let kept = &mut self.ledger().measurements;
        kept.push((whole(now), measurement.clone()));
        let kind = measurement.figure.kind();
        let alike = |other: &Measurement| {
            (&other.agent, &other.model) == (&measurement.agent, &measurement.model)
                && other.figure.kind() == kind
        };
        if kept.iter().filter(|(_, other)| alike(other)).count() > MOST_MEASUREMENTS
            && let Some(oldest) = kept.iter().position(|(_, other)| alike(other))
        {
            kept.remove(oldest);
        }
        Ok(())
    }

    fn measurements(&self, wanted: &Figures<'_>) -> Result<Vec<(SystemTime, Measurement)>> {
        let asked = |(_, kept): &&(SystemTime, Measurement)| {
            kept.figure.kind() == wanted.kind
                && wanted.agent.is_none_or(|agent| agent == kept.agent)
                && wanted
                    .model
                    .is_none_or(|model| kept.model.as_deref() == Some(model))
        };
        Ok(self
            .ledger()
            .measurements
            .iter()
            .filter(asked)
            .cloned()
            .collect())
    }
}

impl Kept {
    fn total(&self, scope: &Scope<'_>) -> Total {
        let (kind, name) = scope.key();
        self.totals
            .get(&(kind, name.to_owned()))
            .copied()
            .unwrap_or_default()
    }
}

/// What a transaction changes, over what is kept.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    kept: &'a Kept,
    changed: Kept,
}

impl<'a> Draft<'a> {
    /// Returns one that changes nothing yet.
    pub(super) fn over(kept: &'a Kept) -> Self {
        Self {
            kept,
            changed: Kept::default(),
        }
    }

    /// Returns what it changes.
    pub(super) fn changed(self) -> Kept {
        self.changed
    }
}

impl Tallies for Draft<'_> {
    fn last_turn(&self, session: &SessionId) -> Result<Option<u64>> {
        let all = (session.clone(), 0)..=(session.clone(), u64::MAX);
        let last = |kept: &Kept| {
            kept.tallies
                .range(all.clone())
                .next_back()
                .map(|((_, turn), _)| *turn)
        };
        Ok(last(self.kept).max(last(&self.changed)))
    }

    fn tally(&self, session: &SessionId, turn: u64) -> Result<Option<Tally>> {
        let key = (session.clone(), turn);
        Ok(self
            .changed
            .tallies
            .get(&key)
            .or_else(|| self.kept.tallies.get(&key))
            .cloned())
    }

    fn keep_tally(&mut self, tally: Tally) -> Result<()> {
        self.changed
            .tallies
            .insert((tally.row.session.clone(), tally.row.turn), tally);
        Ok(())
    }

    fn total(&self, scope: &Scope<'_>) -> Result<Total> {
        let (kind, name) = scope.key();
        let changed = self.changed.totals.get(&(kind, name.to_owned())).copied();
        Ok(changed.unwrap_or_else(|| self.kept.total(scope)))
    }

    fn keep_total(&mut self, scope: &Scope<'_>, total: Total) -> Result<()> {
        let (kind, name) = scope.key();
        self.changed.totals.insert((kind, name.to_owned()), total);
        Ok(())
    }
}

/// Returns a time as every store keeps it: in whole milliseconds.
fn whole(time: SystemTime) -> SystemTime {
    turn_index::from_millis(turn_index::to_millis(time))
}
