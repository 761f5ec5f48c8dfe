//! Drivers by agent name: built-in agents, registered drivers, commands, and models served over HTTP.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::http::HttpAgent;
use super::{CommandAgent, Containment, Driver, Echo, RecoveredCall, contain};
use crate::config::{AgentKind, Agents, Environment};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secrets;

/// Name of the agent that plays a script. A program registers a [`Scripted`](super::Scripted) driver for it.
pub const SCRIPTED: &str = "scripted";

/// Name of the agent that replies with its prompt.
pub const ECHO: &str = "echo";

/// Prefix of the name of an agent that repeats a recorded reply; the name of the turn follows.
pub const REPLAY_PREFIX: &str = "replay:";

/// Returns true if an agent is built in: `scripted`, `echo` or `replay:TURN`.
#[must_use]
pub fn is_builtin(name: &str) -> bool {
    matches!(name, SCRIPTED | ECHO) || name.starts_with(REPLAY_PREFIX)
}

/// Drivers of all agents, and the context in which commands and HTTP senders are started.
#[derive(Debug, Default)]
pub struct Drivers {
    /// Definitions of commands and HTTP providers.
    pub agents: Agents,
    /// Environment of this program; each agent gets the variables that its definition allows.
    pub environment: Environment,
    /// Secrets that are redacted in replies.
    pub secrets: Secrets,
    /// Path of an agentd binary, or of a program whose `main` calls `guard_main` first.
    pub guard: PathBuf,
    /// Mechanism that keeps the processes of an agent together.
    pub containment: Containment,
    /// Drivers of the calling program; they take precedence over definitions.
    pub registered: RegisteredDrivers,
}

/// Drivers of the calling program, by agent name.
#[derive(Clone, Default)]
pub struct RegisteredDrivers(BTreeMap<String, Arc<dyn Driver>>);

impl RegisteredDrivers {
    /// Registers the driver of an agent. Replaces an earlier one of the same name.
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
    /// Returns the driver of an agent, except that of a recorded reply (`replay:TURN`). That driver needs the ledger; use
    /// [`find_driver`](crate::orchestrator::find_driver) to find it.
    ///
    /// # Errors
    ///
    /// `UnknownAgent`, with a list of the known agents, if the agent is unknown; `ScriptInvalid` if no script is registered for `scripted`.
    pub fn find(&self, name: &str) -> Result<Arc<dyn Driver>> {
        self.find_driver(name)?
            .ok_or_else(|| self.unknown_agent(name))
    }

    /// Recovers an interrupted call, as [`Driver::salvage`] does.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if the files of the call cannot be read; `UnknownAgent` if they exist and the agent has no definition.
    pub fn salvage(
        &self,
        name: &str,
        folder: &Path,
        marker: &str,
    ) -> Result<Option<RecoveredCall>> {
        if let Some(driver) = self.find_driver(name)? {
            return driver.salvage(folder, marker);
        }
        if contain::marker_of(folder).as_deref() != Some(marker) {
            return Ok(None);
        }
        let message = format!("cannot read the reply of `{name}`: the agent is not defined");
        Err(Error::new(ErrorKind::UnknownAgent, message)
            .with_hint("add its definition to agents.yaml, and run the command again"))
    }

    /// Returns the command agent of this name; `None` if the agent is not a command or is unknown.
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

    fn find_driver(&self, name: &str) -> Result<Option<Arc<dyn Driver>>> {
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

    fn unknown_agent(&self, name: &str) -> Error {
        if name == SCRIPTED {
            let message = "agent `scripted` needs a script";
            return Error::new(ErrorKind::ScriptInvalid, message)
                .with_hint("pass one with --script FILE; `agentd turn --help` shows an example");
        }

        let providers: Vec<&str> = self
            .agents
            .providers()
            .map(|provider| provider.name.as_str())
            .collect();
        let provider = name.split(':').next().unwrap_or_default();
        if providers.contains(&provider) {
            return Error::new(
                ErrorKind::UnknownAgent,
                format!("`{name}` is a provider; the model is missing"),
            )
            .with_hint(format!(
                "write `{provider}:MODEL`, with a model of that provider"
            ));
        }

        let join_names = |names: Vec<String>| {
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        };
        let agents = join_names(
            self.agents
                .all()
                .map(|spec| format!("`{}`", spec.name))
                .collect(),
        );
        let models = join_names(
            providers
                .iter()
                .map(|name| format!("`{name}:MODEL`"))
                .collect(),
        );
        Error::new(ErrorKind::UnknownAgent, format!("unknown agent `{name}`")).with_hint(format!(
            "known agents: {agents}, {models}, `scripted`, `echo` and `replay:TURN`; define others in agents.yaml"
        ))
    }
}
