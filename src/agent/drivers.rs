//! The agents that are commands, found by their names.

use std::path::{Path, PathBuf};

use super::{CommandAgent, Containment, Driver, Salvaged, contain};
use crate::config::{Agents, Environment, Known};
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secrets;

/// The agents that are commands, and what all of them are started with.
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
        let Some(agent) = self.command(name) else {
            let known: Vec<String> = self.agents.all().map(|spec| format!("`{}`", spec.name)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Error::new(ErrorKind::UnknownAgent, format!("there is no agent `{name}`"))
                .with_hint(format!(
                    "agents.yaml describes {known}; `scripted`, `echo` and `replay:TURN` are always there"
                )));
        };
        Ok(Box::new(agent))
    }

    /// Returns what came of a call that nobody waits for any more, as [`Driver::salvage`] does.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if what it left cannot be read, `UnknownAgent` if nobody knows how.
    pub fn salvage(&self, name: &str, folder: &Path, marker: &str) -> Result<Option<Salvaged>> {
        if let Some(agent) = self.command(name) {
            return agent.salvage(folder, marker);
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
        let (Known::Command(spec), _) = self.agents.known(name)? else { return None };
        let Self { agents, environment, secrets, guard, containment } = self;
        Some(CommandAgent::new(spec, agents, environment, secrets, guard, *containment))
    }
}
