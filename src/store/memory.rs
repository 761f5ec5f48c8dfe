//! Ledger in memory, which is lost when the process exits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::turn_index::{self, IndexedTurn, ScopeTotal, TurnIndex};
use super::{
    BudgetScope, ClaimResult, Lease, LedgerEntry, LedgerMarks, MAX_MEASUREMENTS, MeasurementQuery,
    Store, TurnQuery, blob_id,
};
use crate::error::Result;
use crate::models::{
    BlobId, BudgetUsage, Event, HeldSession, LeaseHolder, Measurement, SessionId, TurnRow, UsageRow,
};

/// A ledger in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    ledger: Mutex<MemoryLedger>,
}

#[derive(Debug, Default)]
struct MemoryLedger {
    sessions: BTreeMap<SessionId, MemorySession>,
    blobs: HashMap<BlobId, Vec<u8>>,
    derived: DerivedRows,
    /// All turns, in start order.
    order: Vec<(SessionId, u64)>,
    /// Oldest first.
    measurements: Vec<(SystemTime, Measurement)>,
}

#[derive(Debug, Default)]
struct MemorySession {
    fence: u64,
    held: Option<HeldSession>,
    events: Vec<(SystemTime, Event)>,
}

/// Indexed turns and totals, which are derived from events.
#[derive(Debug, Default)]
pub(super) struct DerivedRows {
    pub(super) turns: BTreeMap<(SessionId, u64), IndexedTurn>,
    pub(super) totals: HashMap<(&'static str, String), ScopeTotal>,
}

impl MemoryStore {
    fn ledger(&self) -> MutexGuard<'_, MemoryLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryLedger {
    /// Returns the session of a lease, or an error if the lease is void.
    fn find_leased(&mut self, lease: &Lease) -> Result<&mut MemorySession> {
        let is_valid = |session: &&mut MemorySession| {
            session
                .held
                .as_ref()
                .is_some_and(|held| held.fence == lease.fence)
        };
        self.sessions
            .get_mut(&lease.session)
            .filter(is_valid)
            .ok_or_else(|| turn_index::void_lease_error(&lease.session))
    }
}

impl Store for MemoryStore {
    fn claim(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        over: Option<u64>,
        now: SystemTime,
    ) -> Result<ClaimResult> {
        let mut ledger = self.ledger();
        let claimed = ledger.sessions.entry(session.clone()).or_default();
        if let Some(held) = &claimed.held
            && over != Some(held.fence)
        {
            return Ok(ClaimResult::Busy(held.clone()));
        }
        claimed.fence += 1;

        let fence = claimed.fence;
        let now = round_to_millis(now);
        claimed.held = Some(HeldSession {
            session: session.clone(),
            holder: holder.clone(),
            since: now,
            seen: now,
            fence,
        });

        Ok(ClaimResult::Granted(Lease {
            session: session.clone(),
            fence,
        }))
    }

    fn heartbeat(&self, lease: &Lease, now: SystemTime) -> Result<()> {
        if let Some(held) = &mut self.ledger().find_leased(lease)?.held {
            held.seen = round_to_millis(now);
        }
        Ok(())
    }

    fn release(&self, lease: &Lease) -> Result<()> {
        self.ledger().find_leased(lease)?.held = None;
        Ok(())
    }

    fn commit(&self, lease: &Lease, entry: &LedgerEntry<'_>, now: SystemTime) -> Result<()> {
        let now = round_to_millis(now);
        let mut ledger = self.ledger();
        ledger.find_leased(lease)?;

        let blobs: Vec<(BlobId, &[u8])> = entry
            .blobs
            .iter()
            .map(|bytes| (blob_id(bytes), *bytes))
            .collect();
        let added: HashSet<&BlobId> = blobs.iter().map(|(id, _)| id).collect();
        let is_present = |id: &BlobId| added.contains(id) || ledger.blobs.contains_key(id);
        if let Some(id) = entry
            .events
            .iter()
            .flat_map(Event::blob_ids)
            .find(|id| !is_present(id))
        {
            return Err(turn_index::missing_blob_error(id));
        }

        // The events are indexed in a draft first: if one is refused, nothing is recorded.
        let mut draft = DerivedDraft::new(&ledger.derived);
        for event in entry.events {
            turn_index::index_event(&mut draft, &lease.session, event, &entry.budget, now)?;
        }

        let changed = draft.into_changes();
        for (key, turn) in changed.turns {
            if ledger.derived.turns.insert(key.clone(), turn).is_none() {
                ledger.order.push(key);
            }
        }
        ledger.derived.totals.extend(changed.totals);

        for (id, bytes) in blobs {
            ledger.blobs.entry(id).or_insert_with(|| bytes.to_vec());
        }
        ledger
            .find_leased(lease)?
            .events
            .extend(entry.events.iter().map(|event| (now, event.clone())));
        Ok(())
    }

    /// Returns empty marks: no other process can write to this memory.
    fn marks(&self) -> Result<LedgerMarks> {
        Ok(LedgerMarks::default())
    }

    fn check_unchanged(&self, lease: &Lease, _: &LedgerMarks) -> Result<()> {
        self.ledger().find_leased(lease).map(|_| ())
    }

    fn events(&self, session: &SessionId) -> Result<Vec<(SystemTime, Event)>> {
        Ok(self
            .ledger()
            .sessions
            .get(session)
            .map(|recorded| recorded.events.clone())
            .unwrap_or_default())
    }

    fn blob(&self, id: &BlobId) -> Result<Option<Vec<u8>>> {
        Ok(self.ledger().blobs.get(id).cloned())
    }

    fn turns(&self, wanted: &TurnQuery<'_>) -> Result<Vec<TurnRow>> {
        let ledger = self.ledger();
        let matches =
            |key: &&(SessionId, u64)| wanted.session.is_none_or(|session| *session == key.0);
        let newest = ledger
            .order
            .iter()
            .rev()
            .filter(matches)
            .take(wanted.newest);
        let mut rows: Vec<TurnRow> = newest
            .filter_map(|key| ledger.derived.turns.get(key))
            .map(|turn| turn.row.clone())
            .collect();
        rows.reverse();
        Ok(rows)
    }

    fn sessions(&self) -> Result<Vec<SessionId>> {
        let ledger = self.ledger();
        let recorded = ledger
            .sessions
            .iter()
            .filter(|(_, session)| !session.events.is_empty());
        let mut names: Vec<SessionId> = recorded.map(|(name, _)| name.clone()).collect();
        names.sort();
        Ok(names)
    }

    fn held(&self) -> Result<Vec<HeldSession>> {
        Ok(self
            .ledger()
            .sessions
            .values()
            .filter_map(|session| session.held.clone())
            .collect())
    }

    fn spent(&self, scope: &BudgetScope<'_>) -> Result<BudgetUsage> {
        Ok(self.ledger().derived.total(scope).spent())
    }

    fn usage(&self, session: Option<&SessionId>) -> Result<Vec<UsageRow>> {
        let ledger = self.ledger();
        let rows = ledger
            .derived
            .turns
            .values()
            .map(|turn| turn.row.clone())
            .filter(|row| session.is_none_or(|session| *session == row.session));
        Ok(turn_index::sum_usage(rows))
    }

    fn measure(&self, measurement: &Measurement, now: SystemTime) -> Result<()> {
        let measurements = &mut self.ledger().measurements;
        measurements.push((round_to_millis(now), measurement.clone()));
        let kind = measurement.figure.kind();
        let is_same_series = |other: &Measurement| {
            (&other.agent, &other.model) == (&measurement.agent, &measurement.model)
                && other.figure.kind() == kind
        };

        let count = measurements
            .iter()
            .filter(|(_, other)| is_same_series(other))
            .count();
        if count > MAX_MEASUREMENTS
            && let Some(oldest) = measurements
                .iter()
                .position(|(_, other)| is_same_series(other))
        {
            measurements.remove(oldest);
        }
        Ok(())
    }

    fn measurements(
        &self,
        wanted: &MeasurementQuery<'_>,
    ) -> Result<Vec<(SystemTime, Measurement)>> {
        let matches = |(_, kept): &&(SystemTime, Measurement)| {
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
            .filter(matches)
            .cloned()
            .collect())
    }
}

impl DerivedRows {
    fn total(&self, scope: &BudgetScope<'_>) -> ScopeTotal {
        let (kind, name) = scope.key();
        self.totals
            .get(&(kind, name.to_owned()))
            .copied()
            .unwrap_or_default()
    }
}

/// Changes of a transaction on top of stored rows, which stay untouched until the transaction succeeds.
#[derive(Debug)]
pub(super) struct DerivedDraft<'a> {
    stored: &'a DerivedRows,
    changed: DerivedRows,
}

impl<'a> DerivedDraft<'a> {
    /// Starts a draft without changes.
    pub(super) fn new(stored: &'a DerivedRows) -> Self {
        Self {
            stored,
            changed: DerivedRows::default(),
        }
    }

    /// Returns the changed rows.
    pub(super) fn into_changes(self) -> DerivedRows {
        self.changed
    }
}

impl TurnIndex for DerivedDraft<'_> {
    fn last_turn(&self, session: &SessionId) -> Result<Option<u64>> {
        let all = (session.clone(), 0)..=(session.clone(), u64::MAX);
        let last = |rows: &DerivedRows| {
            rows.turns
                .range(all.clone())
                .next_back()
                .map(|((_, turn), _)| *turn)
        };
        Ok(last(self.stored).max(last(&self.changed)))
    }

    fn turn(&self, session: &SessionId, turn: u64) -> Result<Option<IndexedTurn>> {
        let key = (session.clone(), turn);
        Ok(self
            .changed
            .turns
            .get(&key)
            .or_else(|| self.stored.turns.get(&key))
            .cloned())
    }

    fn save_turn(&mut self, turn: IndexedTurn) -> Result<()> {
        self.changed
            .turns
            .insert((turn.row.session.clone(), turn.row.turn), turn);
        Ok(())
    }

    fn total(&self, scope: &BudgetScope<'_>) -> Result<ScopeTotal> {
        let (kind, name) = scope.key();
        let changed = self.changed.totals.get(&(kind, name.to_owned())).copied();
        Ok(changed.unwrap_or_else(|| self.stored.total(scope)))
    }

    fn save_total(&mut self, scope: &BudgetScope<'_>, total: ScopeTotal) -> Result<()> {
        let (kind, name) = scope.key();
        self.changed.totals.insert((kind, name.to_owned()), total);
        Ok(())
    }
}

/// Rounds a time to whole milliseconds, the precision of every store.
fn round_to_millis(time: SystemTime) -> SystemTime {
    turn_index::from_millis(turn_index::to_millis(time))
}
