//! The agents that are commands or models of servers, found by their names.

use std::path::{Path, PathBuf};

use super::http::HttpAgent;
use super::{CommandAgent, Containment, Driver, Salvaged, contain};
use crate::config::{Agents, Environment, Known};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secrets;

/// The agents that are commands or models of servers, and what all of them are started with.
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
}

impl Drivers {
    /// Returns the driver of an agent.
    ///
    /// # Errors
    ///
    /// `UnknownAgent` naming those there are.
    pub fn find(&self, name: &str) -> Result<Box<dyn Driver>> {
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
        let (Known::Command(spec), _) = self.agents.known(name)? else {
            return None;
        };
        let Self {
            agents,
            environment,
            secrets,
            guard,
            containment,
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

    fn driver(&self, name: &str) -> Result<Option<Box<dyn Driver>>> {
        if let Some(agent) = self.command(name) {
            return Ok(Some(Box::new(agent)));
        }
        Ok(match self.agents.known(name) {
            Some((Known::Http(provider), Some(model))) => {
                Some(Box::new(HttpAgent::new(provider, model, self)?))
            }
            _ => None,
        })
    }

    fn unknown(&self, name: &str) -> Error {
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
