//! `agentd doctor`: installed agents, process containment, and the integrity of the ledger.

use std::path::PathBuf;
use std::thread;

use agentd::agent::{ContainmentFacts, find_command, network_filesystem};
use agentd::config::{AgentSpec, TestExtent};
use agentd::orchestrator::{TurnRequest, Workspace};
use agentd::store::{SqliteStore, Store};
use agentd::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::input::is_known_agent;
use super::session::open_existing_ledger;
use crate::args::Args;
use crate::terminal::{self, CommandResult};
use crate::{exit, humanize, project};

pub(super) fn run(args: &Args, as_json: bool) -> CommandResult {
    let root = project::root(args)?;
    let facts = ContainmentFacts::find(&project::executable()?);
    let network = network_filesystem(&root);
    let overview = AgentOverview::load(args);
    let ledger = match open_existing_ledger(&root, project::places(args)?.user.as_deref()) {
        Ok(None) => None,
        Ok(Some(store)) => Some(
            LedgerHealth::check(&store).unwrap_or_else(|error| LedgerHealth::unreadable(&error)),
        ),
        Err(error) => Some(LedgerHealth::unreadable(&error)),
    };

    if as_json {
        terminal::print_json(&json!({
            "agents": overview.as_ref().ok().map(AgentOverview::json),
            "settings": overview.as_ref().err().map(|error| format!("{error:#}")),
            "guard": support_json(&facts.guard),
            "namespace": support_json(&facts.namespace),
            "when_agentd_is_killed": facts.when_killed(),
            "when_the_guard_is_killed_too": facts.when_guard_killed(),
            "network_file_system": network,
            "ledger": ledger.as_ref().map(|health| json!({"events": health.events, "faults": health.faults})),
        }))?;
    } else {
        let describe = |support: &Result<()>, supported: &str| match support {
            Ok(()) => supported.to_owned(),
            Err(error) => format!("no: {error:#}"),
        };

        match &overview {
            Ok(overview) => terminal::print_rows(&overview.rows())?,
            Err(error) => terminal::print_rows(&[("settings", format!("unusable: {error:#}"))])?,
        }
        terminal::print_rows(&[
            (
                "guard",
                describe(
                    &facts.guard,
                    "yes: all processes of an agent are killed when its call ends",
                ),
            ),
            (
                "namespace",
                describe(
                    &facts.namespace,
                    "yes: containment = \"namespace\" is supported",
                ),
            ),
            (
                "killed",
                format!("if agentd is killed: {}", facts.when_killed()),
            ),
            (
                "",
                format!("if its guard is killed, too: {}", facts.when_guard_killed()),
            ),
            (
                "ledger",
                match &network {
                    None => "on a local file system".to_owned(),
                    Some(name) => {
                        format!("on a network file system ({name}), where data may be lost")
                    }
                },
            ),
            (
                "",
                ledger
                    .as_ref()
                    .map_or_else(|| "none yet".to_owned(), LedgerHealth::describe),
            ),
        ])?;
    }

    let agents_exist =
        overview.is_ok_and(|overview| overview.choices.iter().all(|choice| choice.is_known));
    let ledger_is_sound = ledger.is_none_or(|health| health.faults.is_empty());
    Ok(
        if facts.guard.is_ok() && network.is_none() && ledger_is_sound && agents_exist {
            exit::OK
        } else {
            exit::FINDINGS
        },
    )
}

/// Agents on this machine, and the agent of each mode.
struct AgentOverview {
    /// Names of all agents that run as commands.
    defined: Vec<String>,
    present: Vec<InstalledAgent>,
    choices: Vec<ModeAgent>,
    providers: Vec<Value>,
}

/// The agent that a mode uses.
struct ModeAgent {
    mode: String,
    agent: Option<String>,
    /// Note for the user, such as a warning; empty if there is none.
    note: String,
    is_known: bool,
}

impl AgentOverview {
    fn load(args: &Args) -> Result<Self> {
        let workspace = project::workspace(args, None)?;
        let present = find_installed(&workspace)?;
        let choices = choose_agents(&workspace)?;
        let defined = workspace
            .agents()?
            .all()
            .map(|spec| spec.name.clone())
            .collect();
        Ok(Self {
            defined,
            present,
            choices,
            providers: list_providers(&workspace)?,
        })
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows: Vec<_> = self
            .present
            .iter()
            .map(|agent| ("agent", agent.describe()))
            .collect();
        if rows.is_empty() {
            let names = self.defined.join(", ");
            rows.push(("agents", format!("none found on PATH (looked for {names})")));
            rows.push((
                "",
                "a model served over HTTP needs no installed agent: --agent ollama:MODEL"
                    .to_owned(),
            ));
        }

        for choice in &self.choices {
            let agent = choice.agent.as_deref().unwrap_or("no agent");
            let note = match choice.note.as_str() {
                "" => String::new(),
                note => format!(" ({note})"),
            };
            rows.push(("mode", format!("{}: {agent}{note}", choice.mode)));
        }
        rows
    }

    fn json(&self) -> Value {
        let mode = |choice: &ModeAgent| {
            json!({
                "mode": choice.mode,
                "agent": choice.agent,
                "exists": choice.is_known,
                "note": choice.note,
            })
        };
        json!({
            "present": self.present.iter().map(InstalledAgent::json).collect::<Vec<_>>(),
            "modes": self.choices.iter().map(mode).collect::<Vec<_>>(),
            "providers": self.providers,
        })
    }
}

/// An agent whose command is on PATH.
struct InstalledAgent {
    name: String,
    file: PathBuf,
    version: Result<String>,
    tried: TestExtent,
    tried_with: Option<String>,
}

impl InstalledAgent {
    fn describe(&self) -> String {
        let version = match (&self.version, &self.tried_with) {
            (Ok(version), Some(tried)) if version == tried => format!("{version}, tested version"),
            (Ok(version), Some(tried)) => format!("{version}; tested version: {tried}"),
            (Ok(version), None) => version.clone(),
            (Err(error), _) => format!("{error:#}"),
        };
        format!(
            "{} {version} ({}; {})",
            self.name,
            describe_tried(self.tried),
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

/// Returns the agents whose commands are on PATH, with their versions. All version commands run in parallel.
fn find_installed(workspace: &Workspace) -> Result<Vec<InstalledAgent>> {
    let Some(path) = workspace.path() else {
        return Ok(Vec::new());
    };
    let drivers = project::drivers(workspace)?;
    // Version commands run in an empty folder, where no file of the project can influence them.
    let folder = tempfile::tempdir().map_err(|error| {
        Error::new(ErrorKind::FileUnusable, "cannot create a temporary folder").with_source(error)
    })?;

    let find_executable =
        |spec: &AgentSpec| Some((spec.clone(), find_command(path, spec.command())?));
    let installed: Vec<_> = drivers.agents.all().filter_map(find_executable).collect();

    let read_version = |spec: &AgentSpec| {
        if workspace.is_defined_by_project(&spec.name)? {
            let message = "version unknown: not run, because the project defines this agent";
            return Err(Error::new(ErrorKind::NotTrusted, message));
        }
        let folder = folder.path().join(&spec.name);
        std::fs::DirBuilder::new()
            .create(&folder)
            .map_err(|error| {
                Error::new(ErrorKind::FileUnusable, "cannot create a temporary folder")
                    .with_source(error)
            })?;
        drivers
            .command(&spec.name)
            .map_or_else(|| Ok(String::new()), |agent| agent.version(&folder))
    };

    let versions: Vec<Result<String>> = thread::scope(|scope| {
        let threads: Vec<_> = installed
            .iter()
            .map(|(spec, _)| scope.spawn(|| read_version(spec)))
            .collect();
        let panicked = || {
            Err(Error::new(
                ErrorKind::AgentUnusable,
                "version unknown: the thread that runs the version command panicked",
            ))
        };
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| panicked()))
            .collect()
    });

    let present = installed
        .into_iter()
        .zip(versions)
        .map(|((spec, file), version)| {
            let AgentSpec {
                name,
                tried,
                tried_with,
                ..
            } = spec;
            InstalledAgent {
                name,
                file,
                version,
                tried,
                tried_with,
            }
        });
    Ok(present.collect())
}

/// Returns the agent that each mode uses.
fn choose_agents(workspace: &Workspace) -> Result<Vec<ModeAgent>> {
    let agents = workspace.agents()?;
    let mut choices = Vec::new();
    for mode in workspace.pack.modes.keys() {
        let agent = workspace.agent(&TurnRequest::new(mode.clone(), ""))?;
        let is_known = agent
            .as_ref()
            .is_none_or(|agent| is_known_agent(agents, agent.as_str()));

        let note = match workspace.judges_itself(mode)? {
            _ if !is_known => "unknown agent".to_owned(),
            Some((judged, _)) => format!("warning: same vendor as the agent of {judged}"),
            None => String::new(),
        };

        let agent = agent.map(|agent| agent.as_str().to_owned());
        choices.push(ModeAgent {
            mode: mode.to_string(),
            agent,
            note,
            is_known,
        });
    }
    Ok(choices)
}

/// Returns the model providers, each with the name of its API key variable and whether that is set. The key itself
/// is not printed.
fn list_providers(workspace: &Workspace) -> Result<Vec<Value>> {
    let is_set = |key: &String| project::has_variable(key);
    let providers = workspace.agents()?.providers();
    Ok(providers
        .map(|provider| {
            let key = provider.key.as_ref();
            json!({"name": provider.name, "base_url": provider.base_url, "key": key, "key_is_set": key.map(is_set)})
        })
        .collect())
}

/// Describes the extent to which agentd's definition of an agent was tested.
fn describe_tried(tried: TestExtent) -> &'static str {
    match tried {
        TestExtent::Unknown => "defined by you",
        TestExtent::Documented => "from its documentation, untested",
        TestExtent::Help => "from its --help, untested",
        TestExtent::Ran => "tested against a scripted server",
        TestExtent::Measured => "measured against a scripted server",
    }
}

/// Result of verifying a ledger.
struct LedgerHealth {
    events: usize,
    /// Problems found; empty if the ledger is intact.
    faults: Vec<String>,
}

impl LedgerHealth {
    /// Reads and verifies the whole ledger.
    fn check(store: &SqliteStore) -> Result<Self> {
        let faults = store.verify()?;
        let mut events = 0;
        // The events of a damaged ledger may be unreadable.
        for session in store.sessions()?.iter().filter(|_| faults.is_empty()) {
            events += store.events(session)?.len();
        }
        Ok(Self { events, faults })
    }

    fn unreadable(error: &agentd::Error) -> Self {
        Self {
            events: 0,
            faults: vec![format!("{error:#}")],
        }
    }

    fn describe(&self) -> String {
        match self.faults.as_slice() {
            [] => format!(
                "ok: {} verified",
                humanize::count(self.events as u64, "event")
            ),
            [first] => format!("no: {first}"),
            [first, rest @ ..] => format!(
                "no: {first} (and {})",
                humanize::count(rest.len() as u64, "more problem")
            ),
        }
    }
}

fn support_json(support: &Result<()>) -> Value {
    json!({"works": support.is_ok(), "why_not": support.as_ref().err().map(|error| format!("{error:#}"))})
}
