//! `agentd doctor`: which agents there are, what this machine gives to them, and whether the ledger is as recorded.

use std::path::PathBuf;
use std::thread;

use agentd::agent::{ContainmentFacts, find_command, network_filesystem};
use agentd::config::{AgentSpec, Tried};
use agentd::orchestrator::{TurnRequest, Workspace};
use agentd::store::{SqliteStore, Store};
use agentd::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::input::is_known;
use super::session::look;
use crate::args::Args;
use crate::terminal::{self, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, as_json: bool) -> Outcome {
    let root = project::root(args)?;
    let facts = ContainmentFacts::find(&project::own_file()?);
    let network = network_filesystem(&root);
    let machine = Machine::look(args);
    let ledger = match look(&root, project::places(args)?.user.as_deref()) {
        Ok(None) => None,
        Ok(Some(store)) => Some(Health::of(&store).unwrap_or_else(|error| Health::fault(&error))),
        Err(error) => Some(Health::fault(&error)),
    };
    if as_json {
        terminal::json(&json!({
            "agents": machine.as_ref().ok().map(Machine::json),
            "settings": machine.as_ref().err().map(|error| format!("{error:#}")),
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
        match &machine {
            Ok(machine) => terminal::rows(&machine.rows())?,
            Err(error) => terminal::rows(&[("settings", format!("no: {error:#}"))])?,
        }
        terminal::rows(&[
            (
                "guard",
                words(
                    &facts.guard,
                    "yes: all that an agent starts ends with its call",
                ),
            ),
            (
                "namespace",
                words(
                    &facts.namespace,
                    "yes: containment = \"namespace\" may be set",
                ),
            ),
            ("killed", format!("agentd: {}", facts.when_killed())),
            ("", format!("and its guard: {}", facts.when_guard_killed())),
            (
                "ledger",
                match &network {
                    None => "on a local file system".to_owned(),
                    Some(name) => format!("on {name}, a network file system, which may lose it"),
                },
            ),
            (
                "",
                ledger
                    .as_ref()
                    .map_or_else(|| "none was made yet".to_owned(), Health::words),
            ),
        ])?;
    }
    let sound = machine.is_ok_and(|machine| machine.choices.iter().all(|choice| choice.known));
    let whole = ledger.is_none_or(|health| health.faults.is_empty());
    Ok(
        if facts.guard.is_ok() && network.is_none() && whole && sound {
            exit::OK
        } else {
            exit::FINDINGS
        },
    )
}

/// The agents of this machine.
struct Machine {
    /// The names of all agents that are commands.
    described: Vec<String>,
    present: Vec<Present>,
    choices: Vec<Choice>,
    providers: Vec<Value>,
}

/// The agent that would be asked in a mode, and what is to be said of that.
struct Choice {
    mode: String,
    agent: Option<String>,
    note: String,
    known: bool,
}

impl Machine {
    fn look(args: &Args) -> Result<Self> {
        let workspace = project::workspace(args, None)?;
        let (present, choices) = (agents(&workspace)?, choices(&workspace)?);
        let described = workspace
            .agents()?
            .all()
            .map(|spec| spec.name.clone())
            .collect();
        Ok(Self {
            described,
            present,
            choices,
            providers: providers(&workspace)?,
        })
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows: Vec<_> = self
            .present
            .iter()
            .map(|agent| ("agent", agent.words()))
            .collect();
        if rows.is_empty() {
            let names = self.described.join(", ");
            rows.push(("agents", format!("none is on PATH of {names}")));
            rows.push((
                "",
                "or ask a model of a server: --agent ollama:MODEL".to_owned(),
            ));
        }
        let choice = |Choice {
                          mode, agent, note, ..
                      }: &Choice| {
            (
                "mode",
                format!("{mode}: {}{note}", agent.as_deref().unwrap_or("no agent")),
            )
        };
        rows.extend(self.choices.iter().map(choice));
        rows
    }

    fn json(&self) -> Value {
        let mode = |Choice {
                        mode,
                        agent,
                        note,
                        known,
                    }: &Choice| {
            let note = note.trim_start_matches(", which ");
            json!({"mode": mode, "agent": agent, "exists": known, "note": note})
        };
        json!({
            "present": self.present.iter().map(Present::json).collect::<Vec<_>>(),
            "modes": self.choices.iter().map(mode).collect::<Vec<_>>(),
            "providers": self.providers,
        })
    }
}

/// An agent whose command is on PATH.
struct Present {
    name: String,
    file: PathBuf,
    version: Result<String>,
    tried: Tried,
    tried_with: Option<String>,
}

impl Present {
    fn words(&self) -> String {
        let version = match (&self.version, &self.tried_with) {
            (Ok(version), Some(tried)) if version == tried => format!("{version}, which is known"),
            (Ok(version), Some(tried)) => format!("{version}; {tried} is known"),
            (Ok(version), None) => version.clone(),
            (Err(error), _) => format!("{error:#}"),
        };
        format!(
            "{} {version} ({}; {})",
            self.name,
            tried(self.tried),
            self.file.display()
        )
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "file": self.file,
            "version": self.version.as_ref().ok(),
            "why_no_version": self.version.as_ref().err().map(|error| format!("{error:#}")),
            "tried": self.tried,
            "tried_with": self.tried_with,
        })
    }
}

/// Returns the agents whose commands are on PATH; each is asked for its version, all at once.
fn agents(workspace: &Workspace) -> Result<Vec<Present>> {
    let Some(path) = workspace.path() else {
        return Ok(Vec::new());
    };
    let drivers = project::drivers(workspace)?;
    // Nothing of a project can have a say in what a command tells here.
    let folder = tempfile::tempdir().map_err(|error| {
        Error::new(ErrorKind::FileUnusable, "no temporary folder can be made").with_source(error)
    })?;
    let there = |spec: &AgentSpec| Some((spec.clone(), find_command(path, spec.command())?));
    let found: Vec<_> = drivers.agents.all().filter_map(there).collect();
    let ask = |spec: &AgentSpec| {
        if workspace.is_defined_by_project(&spec.name)? {
            let message = "it is not asked for its version: the project defines it";
            return Err(Error::new(ErrorKind::NotTrusted, message));
        }
        let folder = folder.path().join(&spec.name);
        std::fs::DirBuilder::new()
            .create(&folder)
            .map_err(|error| {
                Error::new(ErrorKind::FileUnusable, "no temporary folder can be made")
                    .with_source(error)
            })?;
        drivers
            .command(&spec.name)
            .map_or_else(|| Ok(String::new()), |agent| agent.version(&folder))
    };
    let versions: Vec<Result<String>> = thread::scope(|scope| {
        let asked: Vec<_> = found
            .iter()
            .map(|(spec, _)| scope.spawn(|| ask(spec)))
            .collect();
        let failed = || {
            Err(Error::new(
                ErrorKind::AgentUnusable,
                "it could not be asked for its version",
            ))
        };
        asked
            .into_iter()
            .map(|asked| asked.join().unwrap_or_else(|_| failed()))
            .collect()
    });
    let present = found
        .into_iter()
        .zip(versions)
        .map(|((spec, file), version)| {
            let AgentSpec {
                name,
                tried,
                tried_with,
                ..
            } = spec;
            Present {
                name,
                file,
                version,
                tried,
                tried_with,
            }
        });
    Ok(present.collect())
}

/// Returns for each mode the agent that would be asked, and what is to be said of that.
fn choices(workspace: &Workspace) -> Result<Vec<Choice>> {
    let described = workspace.agents()?;
    let mut choices = Vec::new();
    for mode in workspace.pack.modes.keys() {
        let agent = workspace.agent(&TurnRequest::new(mode.clone(), ""))?;
        let known = agent
            .as_ref()
            .is_none_or(|agent| is_known(described, agent.as_str()));
        let note = match workspace.judges_itself(mode)? {
            _ if !known => ", which does not exist".to_owned(),
            Some((judged, _)) => format!(", which lacks a second vendor: {judged} is by the same"),
            None => String::new(),
        };
        let agent = agent.map(|agent| agent.as_str().to_owned());
        choices.push(Choice {
            mode: mode.to_string(),
            agent,
            note,
            known,
        });
    }
    Ok(choices)
}

/// Returns the servers of models, and whether the variable that holds the key is set; the key itself is not looked at.
fn providers(workspace: &Workspace) -> Result<Vec<Value>> {
    let is_set = |key: &String| project::has_variable(key);
    let providers = workspace.agents()?.providers();
    Ok(providers
        .map(|provider| {
            let key = provider.key.as_ref();
            json!({"name": provider.name, "base_url": provider.base_url, "key": key, "key_is_set": key.map(is_set)})
        })
        .collect())
}

/// Returns how far an agent was tried, in words.
fn tried(tried: Tried) -> &'static str {
    match tried {
        Tried::Unknown => "described by you",
        Tried::Documented => "only read about",
        Tried::Help => "its help was read",
        Tried::Ran => "ran against a scripted server",
        Tried::Measured => "measured against a scripted server",
    }
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
        Self {
            events: 0,
            faults: vec![format!("{error:#}")],
        }
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
