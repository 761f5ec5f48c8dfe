//! A whole turn beside the bare start of the same child: what agentd adds around an agent.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use agentd::agent::{self, Drivers, Echo};
use agentd::config::{Agents, Environment};
use agentd::models::{AgentName, Event, LeaseHolder, Mode, ProcessIdentity, SessionId};
use agentd::ops::Operations;
use agentd::orchestrator::{
    Run, TurnContext, TurnRequest, Workspace, WorkspaceOptions, recover_all, take_turn,
};
use agentd::pack::AGENTS;
use agentd::store::{ClaimResult, LedgerEntry, SqliteStore, Store};

/// Number of turns, and of turns in each session.
const TURNS: usize = 300;
const EACH: usize = 20;

/// Number of interrupted sessions.
const LEFT: usize = 1_000;

/// An agent that reads its prompt and answers at once.
const CHILD: &str = "cat > /dev/null; echo '<review>PASS</review>'";

pub(crate) fn run() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let definitions = format!(
        "format: 1\nagents:\n  quick:\n    argv: [sh, -c, {}]\n    output: {{kind: text}}\n",
        serde_json::to_string(CHILD).unwrap()
    );
    let workspace = Workspace::open(root.to_path_buf(), WorkspaceOptions::default()).unwrap();
    let drivers = Drivers {
        agents: Agents::read(AGENTS, "shipped")
            .and_then(|agents| agents.overlaid(&definitions, "bench"))
            .unwrap(),
        environment: Environment(std::env::vars_os().collect()),
        guard: env!("CARGO_BIN_EXE_agentd").into(),
        ..Drivers::default()
    };
    let store = SqliteStore::open(root).unwrap();
    let driver = drivers.find("quick").unwrap();
    let mut taken = 0;
    let turn = || {
        let ask = TurnRequest {
            agent: Some(AgentName::new("quick").unwrap()),
            session: Some(SessionId::new(format!("bench-{}", taken / EACH)).unwrap()),
            ..TurnRequest::new(Mode::new("plan").unwrap(), "Add login")
        };
        taken += 1;
        let run = Run::new("bench").unwrap();
        let context = TurnContext {
            workspace: &workspace,
            store: &store,
            drivers: &drivers,
            operations: &Operations::shipped(),
            run: &run,
        };
        assert!(
            take_turn(&context, driver.as_ref(), &ask)
                .unwrap()
                .verdict
                .is_some()
        );
    };
    let prompt = root.join("prompt");
    fs::write(&prompt, "x".repeat(8_000)).unwrap();
    let (ours, bare) = interleaved(turn, || spawn(&prompt));
    let sync = fsync(root);
    for (name, at) in [("median", TURNS / 2), ("p99", TURNS * 99 / 100)] {
        super::row(&format!("turn around an agent, {name}"), ours[at], bare[at]);
        println!(
            "{:<44} {:>9.2} ms more",
            "",
            (ours[at].saturating_sub(bare[at])).as_secs_f64() * 1e3
        );
    }
    println!(
        "{:<44} {:>9.2} ms for one write with fsync, median",
        "",
        sync.as_secs_f64() * 1e3
    );
}

/// Takes the times of two things in turns, sorted.
fn interleaved(mut one: impl FnMut(), mut other: impl FnMut()) -> (Vec<Duration>, Vec<Duration>) {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let (mut ones, mut others): (Vec<_>, Vec<_>) = (0..TURNS)
        .map(|_| (time(&mut one), time(&mut other)))
        .unzip();
    ones.sort_unstable();
    others.sort_unstable();
    (ones, others)
}

/// Starts the same child with nothing around it.
fn spawn(prompt: &Path) {
    let input = fs::File::open(prompt).unwrap();
    let mut child = Command::new("sh");
    child.args(["-c", CHILD]).stdin(input).stdout(Stdio::null());
    assert!(child.status().unwrap().success());
}

/// Returns what it takes to write a page so that it outlasts a loss of power: a turn does this several times.
fn fsync(root: &Path) -> Duration {
    let path = root.join("page");
    let mut times: Vec<Duration> = (0..50)
        .map(|number| {
            let start = Instant::now();
            let mut file = fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(&path)
                .unwrap();
            std::io::Write::write_all(&mut file, &[number; 4096]).unwrap();
            file.sync_all().unwrap();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[25]
}

/// Brings to an end what a thousand killed runs have left, each with a call that nobody waits for.
pub(crate) fn recover() {
    let folder = tempfile::tempdir().unwrap();
    let workspace =
        Workspace::open(folder.path().to_path_buf(), WorkspaceOptions::default()).unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let (drivers, run) = (Drivers::default(), Run::new("bench").unwrap());
    let context = TurnContext {
        workspace: &workspace,
        store: &store,
        drivers: &drivers,
        operations: &Operations::shipped(),
        run: &run,
    };
    let gone = ProcessIdentity {
        started: 1,
        ..agent::this_process()
    };
    let holder = LeaseHolder {
        name: "agentd turn".to_owned(),
        process: gone,
    };
    for number in 0..LEFT {
        let session = SessionId::new(format!("left-{number}")).unwrap();
        let ask = TurnRequest {
            session: Some(session.clone()),
            ..TurnRequest::new(Mode::new("plan").unwrap(), "Add login")
        };
        take_turn(&context, &Echo, &ask).unwrap();
        // As if the run had been killed right after the call was recorded.
        let ClaimResult::Granted(lease) = store
            .claim(&session, &holder, None, SystemTime::now())
            .unwrap()
        else {
            unreachable!("nobody else is there")
        };
        let events = store.events(&session).unwrap();
        let mut again =
            events
                .into_iter()
                .map(|(_, event)| event)
                .filter_map(|event| match event {
                    Event::Started(mut started) => {
                        started.turn = 2;
                        Some(Event::Started(started))
                    }
                    Event::Called {
                        call,
                        why,
                        prompt,
                        run,
                        reserved,
                        secrets,
                        ..
                    } => Some(Event::Called {
                        turn: 2,
                        call,
                        why,
                        prompt,
                        run,
                        reserved,
                        secrets,
                    }),
                    _ => None,
                });
        let events: Vec<Event> = again.by_ref().collect();
        store
            .commit(
                &lease,
                &LedgerEntry {
                    events: &events,
                    ..LedgerEntry::default()
                },
                SystemTime::now(),
            )
            .unwrap();
    }
    let start = Instant::now();
    assert_eq!(recover_all(&context).unwrap().len(), LEFT);
    println!(
        "{:<44} {:>9.1} ms",
        "recovery of 1000 killed sessions",
        start.elapsed().as_secs_f64() * 1e3
    );
}
