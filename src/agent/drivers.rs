//! Drivers by the name of their agent: built-in ones, those that a program registers, commands and models of servers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::http::HttpAgent;
use super::{CommandAgent, Containment, Driver, Echo, Salvaged, contain};
use crate::config::{AgentKind, Agents, Environment};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secrets;

/// Name of the agent that plays a script. A program registers one for it: [`Scripted`](super::Scripted).
pub const SCRIPTED: &str = "scripted";

/// Name of the agent that answers with its prompt.
pub const ECHO: &str = "echo";

/// Start of the name of an agent that gives a recorded reply; the name of the turn follows.
pub const REPLAY_PREFIX: &str = "replay:";

/// Returns true if an agent needs no definition: it plays what was written or recorded before, or echoes its prompt.
#[must_use]
pub fn is_builtin(name: &str) -> bool {
    matches!(name, SCRIPTED | ECHO) || name.starts_with(REPLAY_PREFIX)
}

/// Drivers of all agents, and what those that are commands or models of servers are started with.
#[derive(Debug, Default)]
pub struct Drivers {
    /// Their definitions.
    pub agents: Agents,
    /// The environment that they see a part of.
    pub environment: Environment,
    /// What is taken out of what they say.
    pub secrets: Secrets,
    /// The path of an agentd, or of a program whose `main` begins with `guard_main`.
    pub guard: PathBuf,
    /// What keeps their processes together.
    pub containment: Containment,
    /// Drivers that the program brings itself; they come before all definitions.
    pub registered: RegisteredDrivers,
}

/// Drivers that a program brings itself, by the name of their agent.
#[derive(Clone, Default)]
pub struct RegisteredDrivers(BTreeMap<String, Arc<dyn Driver>>);

impl RegisteredDrivers {
    /// Registers the driver of an agent, in place of one that was registered under that name before.
    pub fn register(&mut self, name: impl Into<String>, driver: impl Driver + 'static) {
        self.0.insert(name.into(), Arc::new(driver));
    }
}

impl fmt::Debug for RegisteredDrivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Drivers {
    /// Returns the driver of an agent. A recorded reply (`replay:TURN`) needs the ledger:
    /// [`find_driver`](crate::orchestrator::find_driver) finds that, too.
    ///
    /// # Errors
    ///
    /// `UnknownAgent` listing the known agents; `ScriptInvalid` if no script is registered for `scripted`.
    pub fn find(&self, name: &str) -> Result<Arc<dyn Driver>> {
        self.driver(name)?.ok_or_else(|| self.unknown(name))
    }

    /// Returns what came of a call that nobody waits for any more, as [`Driver::salvage`] does.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if what it left cannot be read, `UnknownAgent` if nobody knows how.
    pub fn salvage(&self, name: &str, folder: &Path, marker: &str) -> Result<Option<Salvaged>> {
        if let Some(driver) = self.driver(name)? {
            return driver.salvage(folder, marker);
        }
        if contain::marker_of(folder).as_deref() != Some(marker) {
            return Ok(None);
        }
        let message = format!("a reply of `{name}` waits to be read, and no definition says how");
        Err(Error::new(ErrorKind::UnknownAgent, message)
            .with_hint("put its definition back into agents.yaml, and try again"))
    }

    /// Returns the agent of a name that is a command.
    #[must_use]
    pub fn command(&self, name: &str) -> Option<CommandAgent> {
        let (AgentKind::Command(spec), _) = self.agents.known(name)? else {
            return None;
        };
        let Self {
            agents,
            environment,
            secrets,
            guard,
            containment,
            registered: _,
        } = self;
        Some(CommandAgent::new(
            spec,
            agents,
            environment,
            secrets,
            guard,
            *containment,
        ))
    }

    fn driver(&self, name: &str) -> Result<Option<Arc<dyn Driver>>> {
        if let Some(driver) = self.registered.0.get(name) {
            return Ok(Some(Arc::clone(driver)));
        }
        if name == ECHO {
            return Ok(Some(Arc::new(Echo)));
        }
        if let Some(agent) = self.command(name) {
            return Ok(Some(Arc::new(agent)));
        }
        Ok(match self.agents.known(name) {
            Some((AgentKind::Http(provider), Some(model))) => {
                Some(Arc::new(HttpAgent::new(provider, model, self)?))
            }
            _ => None,
        })
    }

    fn unknown(&self, name: &str) -> Error {
        if name == SCRIPTED {
            let message = "the agent `scripted` has no script";
            return Error::new(ErrorKind::ScriptInvalid, message)
                .with_hint("name one with --script FILE; `agentd turn --help` shows one");
        }
        let listed = |names: Vec<String>| {
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        };
        let providers: Vec<&str> = self
            .agents
            .providers()
            .map(|provider| provider.name.as_str())
            .collect();
        let provider = name.split(':').next().unwrap_or_default();
        if providers.contains(&provider) {
            return Error::new(
                ErrorKind::UnknownAgent,
                format!("`{name}` names a server, and no model of it"),
            )
            .with_hint(format!(
                "write `{provider}:MODEL`, with a model that the server has"
            ));
        }
        let agents = listed(
            self.agents
                .all()
                .map(|spec| format!("`{}`", spec.name))
                .collect(),
        );
        let models = listed(
            providers
                .iter()
                .map(|name| format!("`{name}:MODEL`"))
                .collect(),
        );
        Error::new(ErrorKind::UnknownAgent, format!("there is no agent `{name}`")).with_hint(format!(
            "agents.yaml describes {agents} and {models}; `scripted`, `echo` and `replay:TURN` are always there"
        ))
    }
}
