//! Selection of the agent and the model of a turn.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::Workspace;
use crate::agent::{Drivers, find_command, is_builtin, path_of};
use crate::config::AgentKind;
use crate::error::Result;
use crate::models::{AgentName, Event, Mode, Permission, SessionId};
use crate::orchestrator::turn::request::TurnRequest;
use crate::pack::{DEFAULT_AGENTS, ModeSpec};
use crate::store::Store;

impl Workspace {
    /// Returns the agent of a request, or else the default agent of its mode; `None` if there is neither.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid; the error has its location.
    pub fn agent(&self, request: &TurnRequest) -> Result<Option<AgentName>> {
        match &request.agent {
            Some(agent) => Ok(Some(agent.clone())),
            None => self.default_agent(&request.mode),
        }
    }

    /// Returns drivers for the agents of the project, with its environment and secrets. `guard` is the program that
    /// calls [`guard_main`](crate::agent::guard_main): agents and checks run under it.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid; the error has its location.
    pub fn drivers(&self, guard: PathBuf) -> Result<Drivers> {
        Ok(Drivers {
            secrets: self.secrets.clone(),
            environment: self.options.environment.clone(),
            guard,
            containment: self.settings.containment,
            agents: self.agents()?.clone(),
            ..Drivers::default()
        })
    }

    /// Returns the model that a prompt is written for: the first one that is set of the request's model, the model in
    /// the agent's name, the mode's model from the settings, and the model of the agent's definition.
    ///
    /// The mode's model from the settings applies only to the mode's default agent: another agent may not offer it.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid; the error has its location.
    pub fn model(&self, request: &TurnRequest) -> Result<Option<String>> {
        if request.model.is_some() {
            return Ok(request.model.clone());
        }

        let agent = self.agent(request)?;
        let model_in_name = match &agent {
            Some(agent) => self
                .agents()?
                .known(agent.as_str())
                .and_then(|(_, model)| model),
            None => None,
        };
        let mode_settings = self.settings.modes.get(&request.mode);
        let mode_model = mode_settings.and_then(|mode| mode.model.as_ref());
        if let (None, Some(mode_model)) = (model_in_name, mode_model)
            && agent == self.default_agent(&request.mode)?
        {
            return Ok(Some(mode_model.clone()));
        }

        match agent {
            Some(agent) => Ok(self.agents()?.model(agent.as_str()).map(str::to_owned)),
            None => Ok(None),
        }
    }

    /// Returns the permission of an agent in a mode. Settings can restrict the pack's permission, not extend it.
    pub(crate) fn permission(&self, mode: &Mode, spec: &ModeSpec) -> Permission {
        let mode_settings = self.settings.modes.get(mode);
        match mode_settings.and_then(|mode| mode.permission) {
            Some(Permission::ReadOnly) => Permission::ReadOnly,
            Some(Permission::Edit) | None => spec.permission,
        }
    }

    /// Returns the `PATH` on which agents are looked up.
    #[must_use]
    pub fn path(&self) -> Option<&OsStr> {
        path_of(&self.options.environment)
    }

    /// Returns the default agents that are installed, in order of preference.
    pub fn installed_agents(&self) -> &[AgentName] {
        self.installed.get_or_init(|| {
            let Some(path) = self.path() else {
                return Vec::new();
            };

            // A custom definition may run a command with another name; shipped agents are named after their commands.
            let custom = self.custom_agents().unwrap_or_default();
            let is_installed = |name: &&str| match custom.find(name) {
                Some(spec) => find_command(path, spec.command()).is_some(),
                None => find_command(path, name).is_some(),
            };
            DEFAULT_AGENTS
                .lines()
                .map(str::trim)
                .filter(|line| !line.starts_with('#'))
                .filter(is_installed)
                .filter_map(|name| AgentName::new(name).ok())
                .collect()
        })
    }

    /// Compares the default agent of a mode with that of the mode whose work it judges. Returns the judged mode and
    /// the judge if both agents have the same vendor.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid; the error has its location.
    pub fn judges_itself(&self, mode: &Mode) -> Result<Option<(Mode, AgentName)>> {
        let Some(judged) = self.judged_mode(mode) else {
            return Ok(None);
        };
        let Some(judge) = self.default_agent(mode)? else {
            return Ok(None);
        };
        let Some(author) = self.default_agent(judged)? else {
            return Ok(None);
        };

        let is_same_vendor = self.vendor(&judge)? == self.vendor(&author)?;
        Ok(is_same_vendor.then(|| (judged.clone(), judge)))
    }

    /// Returns the judged mode and the author if a turn would judge the work of the same agent, or of another one of
    /// the same vendor.
    ///
    /// The author is the agent of the session's last turn in the judged mode. If there is no such turn and the request
    /// sets no judge, it is the default agent of the judged mode. Built-in agents have no vendor and are never
    /// reported.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid. Also fails if the ledger cannot be read.
    pub fn judges_own_work(
        &self,
        store: Option<&dyn Store>,
        request: &TurnRequest,
    ) -> Result<Option<(Mode, AgentName)>> {
        let Some(judged) = self.judged_mode(&request.mode) else {
            return Ok(None);
        };
        let judge = self.agent(request)?;
        let Some(judge) = judge.filter(|judge| !is_builtin(judge.as_str())) else {
            return Ok(None);
        };
        let author = match last_agent(store, request.works_on(), judged)? {
            None if request.agent.is_none() => self.default_agent(judged)?,
            author => author,
        };
        let Some(author) = author else {
            return Ok(None);
        };

        let is_same_vendor = self.vendor(&judge)? == self.vendor(&author)?;
        Ok(is_same_vendor.then(|| (judged.clone(), author)))
    }

    /// Returns the mode whose work a mode judges; `None` if it judges none.
    fn judged_mode(&self, mode: &Mode) -> Option<&Mode> {
        self.pack.modes.get(mode)?.judges.as_ref()
    }

    /// Returns the agent of a mode for requests without an agent. It comes from the settings of the mode, from the
    /// settings of its `like` mode, or from the installed agents. A mode that judges another mode gets an installed
    /// agent of another vendor if possible.
    fn default_agent(&self, mode: &Mode) -> Result<Option<AgentName>> {
        let configured = &self.settings.agents;
        if let Some(agent) = configured.get(mode) {
            return Ok(Some(agent.clone()));
        }
        let spec = self.pack.modes.get(mode);
        let like = spec.and_then(|spec| spec.like.as_ref());
        if let Some(agent) = like.and_then(|like| configured.get(like)) {
            return Ok(Some(agent.clone()));
        }

        let installed = self.installed_agents();
        let judged = self.judged_mode(mode).filter(|judged| *judged != mode);
        if let Some(judged) = judged
            && installed.len() > 1
            && let Some(author) = configured.get(judged).or(installed.first())
        {
            let author_vendor = self.vendor(author)?;
            for agent in installed {
                if self.vendor(agent)? != author_vendor {
                    return Ok(Some(agent.clone()));
                }
            }
        }
        Ok(installed.first().cloned())
    }

    /// Returns the vendor of an agent's models; if its definition has none, the agent's name without the model.
    fn vendor(&self, agent: &AgentName) -> Result<String> {
        let vendor = match self.agents()?.known(agent.as_str()) {
            Some((AgentKind::Command(spec), _)) => spec.vendor.clone(),
            Some((AgentKind::Http(provider), _)) => provider.vendor.clone(),
            None => None,
        };
        let name = agent.as_str().split(':').next().unwrap_or_default();
        Ok(vendor.unwrap_or_else(|| name.to_owned()))
    }
}

/// Returns the agent of a session's last turn in a mode.
fn last_agent(
    store: Option<&dyn Store>,
    session: Option<&SessionId>,
    mode: &Mode,
) -> Result<Option<AgentName>> {
    let (Some(store), Some(session)) = (store, session) else {
        return Ok(None);
    };

    let events = store.events(session)?;
    let last = events.iter().rev().find_map(|(_, event)| match event {
        Event::Started(started) if started.mode == *mode => Some(started.agent.as_str()),
        _ => None,
    });
    last.map(AgentName::new).transpose()
}
