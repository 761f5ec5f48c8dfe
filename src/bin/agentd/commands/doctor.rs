//! `agentd doctor`: what this machine gives to agents, and whether the ledger still says what was recorded.

use agentd::Result;
use agentd::agent::{ContainmentFacts, network_filesystem};
use agentd::store::{SqliteStore, Store};
use serde_json::{Value, json};

use super::sending::look;
use crate::args::Args;
use crate::out::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, as_json: bool) -> Outcome {
    let root = project::root(args)?;
    let facts = ContainmentFacts::find(&project::own_file()?);
    let network = network_filesystem(&root);
    let ledger = match look(&root, project::places(args)?.user.as_deref()) {
        Ok(None) => None,
        Ok(Some(store)) => Some(Health::of(&store).unwrap_or_else(|error| Health::fault(&error))),
        Err(error) => Some(Health::fault(&error)),
    };
    if as_json {
        out::json(&json!({
            "guard": state(&facts.guard),
            "namespace": state(&facts.namespace),
            "when_agentd_is_killed": facts.when_killed(),
            "when_the_guard_is_killed_too": facts.when_guard_killed(),
            "network_file_system": network,
            "ledger": ledger.as_ref().map(|health| json!({"events": health.events, "faults": health.faults})),
        }))?;
    } else {
        let words = |found: &Result<()>, good: &str| match found {
            Ok(()) => good.to_owned(),
            Err(error) => format!("no: {error:#}"),
        };
        out::rows(&[
            ("guard", words(&facts.guard, "yes: all that an agent starts ends with its call")),
            ("namespace", words(&facts.namespace, "yes: containment = \"namespace\" may be set")),
            ("killed", format!("agentd: {}", facts.when_killed())),
            ("", format!("and its guard: {}", facts.when_guard_killed())),
            (
                "ledger",
                match &network {
                    None => "on a local file system".to_owned(),
                    Some(name) => format!("on {name}, a network file system, which may lose it"),
                },
            ),
            ("", ledger.as_ref().map_or_else(|| "none was made yet".to_owned(), Health::words)),
        ])?;
    }
    let whole = ledger.is_none_or(|health| health.faults.is_empty());
    Ok(if facts.guard.is_ok() && network.is_none() && whole { exit::OK } else { exit::FINDINGS })
}

/// How a ledger stands.
struct Health {
    events: usize,
    /// What of it is not as it was recorded.
    faults: Vec<String>,
}

impl Health {
    /// Reads all of a ledger.
    fn of(store: &SqliteStore) -> Result<Self> {
        let faults = store.verify()?;
        let mut events = 0;
        // What is damaged need not be readable a second time.
        for session in store.sessions()?.iter().filter(|_| faults.is_empty()) {
            events += store.events(session)?.len();
        }
        Ok(Self { events, faults })
    }

    fn fault(error: &agentd::Error) -> Self {
        Self { events: 0, faults: vec![format!("{error:#}")] }
    }

    fn words(&self) -> String {
        match self.faults.as_slice() {
            [] => format!("ok: {} events, all as they were recorded", self.events),
            [first] => format!("no: {first}"),
            [first, more @ ..] => format!("no: {first} (and {} more)", more.len()),
        }
    }
}

fn state(found: &Result<()>) -> Value {
    json!({"works": found.is_ok(), "why_not": found.as_ref().err().map(|error| format!("{error:#}"))})
}
