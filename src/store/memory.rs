//! The ledger in memory: gone with the process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{Lease, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Event, SessionId};

/// A ledger in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    sessions: Mutex<HashMap<SessionId, Session>>,
}

#[derive(Debug, Default)]
struct Session {
    fence: u64,
    held: Option<(String, SystemTime)>,
    events: Vec<Event>,
}

impl MemoryStore {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the session that a lease is good for.
fn leased<'a>(sessions: &'a mut HashMap<SessionId, Session>, lease: &Lease) -> Result<&'a mut Session> {
    let valid = |session: &&mut Session| session.held.is_some() && session.fence == lease.fence;
    sessions.get_mut(&lease.session).filter(valid).ok_or_else(|| {
        Error::new(ErrorKind::SessionBusy, format!("the lease on {} is no longer valid", lease.session))
    })
}

impl Store for MemoryStore {
    fn claim(&self, session: &SessionId, holder: &str, now: SystemTime) -> Result<Lease> {
        let mut sessions = self.sessions();
        let entry = sessions.entry(session.clone()).or_default();
        if let Some((other, since)) = &entry.held {
            let seconds = now.duration_since(*since).unwrap_or_default().as_secs();
            return Err(Error::new(
                ErrorKind::SessionBusy,
                format!("{session} has been held by {other} for {seconds} s"),
            ));
        }
        entry.held = Some((holder.to_owned(), now));
        entry.fence += 1;
        Ok(Lease { session: session.clone(), fence: entry.fence })
    }

    fn release(&self, lease: &Lease) -> Result<()> {
        leased(&mut self.sessions(), lease)?.held = None;
        Ok(())
    }

    fn commit(&self, lease: &Lease, events: &[Event], _now: SystemTime) -> Result<()> {
        leased(&mut self.sessions(), lease)?.events.extend_from_slice(events);
        Ok(())
    }

    fn events(&self, session: &SessionId) -> Result<Vec<Event>> {
        Ok(self.sessions().get(session).map(|session| session.events.clone()).unwrap_or_default())
    }
}
