//! Which agent is asked: the one that is named, the one that is set, or one that is there.

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
    /// Returns the agent that is asked: the one that is named, the mode's from the settings, or one that is on PATH.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn agent(&self, ask: &TurnRequest) -> Result<Option<AgentName>> {
        match &ask.agent {
            Some(agent) => Ok(Some(agent.clone())),
            None => self.agent_of(&ask.mode),
        }
    }

    /// Returns drivers for the agents of the project, with the environment and the secrets of its options. `guard` is the
    /// program that calls [`guard_main`](crate::agent::guard_main): agents and checks run under it.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
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

    /// Returns the model to write for: the one that is named, in the agent's name or apart from it, the one that is set
    /// for the mode, or the one that the agent's definition names. What is set for a mode is for its own agent alone.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn model(&self, ask: &TurnRequest) -> Result<Option<String>> {
        if ask.model.is_some() {
            return Ok(ask.model.clone());
        }
        let agent = self.agent(ask)?;
        let named = match &agent {
            Some(agent) => self
                .agents()?
                .known(agent.as_str())
                .and_then(|(_, model)| model),
            None => None,
        };
        let set = self
            .settings
            .modes
            .get(&ask.mode)
            .and_then(|mode| mode.model.as_ref());
        if let (None, Some(set)) = (named, set)
            && agent == self.agent_of(&ask.mode)?
        {
            return Ok(Some(set.clone()));
        }
        let Some(agent) = agent else { return Ok(None) };
        Ok(self.agents()?.model(agent.as_str()).map(str::to_owned))
    }

    /// Returns what an agent may do in a mode: what the pack allows, or less if the settings say so.
    pub(crate) fn permission(&self, mode: &Mode, spec: &ModeSpec) -> Permission {
        let set = self
            .settings
            .modes
            .get(mode)
            .and_then(|mode| mode.permission);
        match set {
            Some(Permission::ReadOnly) => Permission::ReadOnly,
            Some(Permission::Edit) | None => spec.permission,
        }
    }

    /// Returns the `PATH` on which agents are looked up.
    #[must_use]
    pub fn path(&self) -> Option<&OsStr> {
        path_of(&self.options.environment)
    }

    /// Returns the agents that are on PATH and would be taken if nothing names one, the first first.
    pub fn present(&self) -> &[AgentName] {
        self.present.get_or_init(|| {
            let Some(path) = self.path() else {
                return Vec::new();
            };
            let names = DEFAULT_AGENTS
                .lines()
                .map(str::trim)
                .filter(|line| !line.starts_with('#'));
            // A definition of the user's own may be of another command; the shipped ones are called as they are named.
            let own = self.own_agents().unwrap_or_default();
            let command = |name: &str| {
                own.find(name)
                    .map_or(name.to_owned(), |spec| spec.command().to_owned())
            };
            let there = names.filter(|name| find_command(path, &command(name)).is_some());
            there.filter_map(|name| AgentName::new(name).ok()).collect()
        })
    }

    /// Tells of a mode that judges the work of another whether both are by the same vendor: the mode that is judged,
    /// and the agent.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn judges_itself(&self, mode: &Mode) -> Result<Option<(Mode, AgentName)>> {
        let Some(judged) = self
            .pack
            .modes
            .get(mode)
            .and_then(|spec| spec.judges.clone())
        else {
            return Ok(None);
        };
        let (Some(judge), Some(worker)) = (self.agent_of(mode)?, self.agent_of(&judged)?) else {
            return Ok(None);
        };
        Ok((self.vendor(&judge)? == self.vendor(&worker)?).then_some((judged, judge)))
    }

    /// Returns the author and the mode of the work that a turn judges, if the judge is the same agent or one of the same
    /// vendor. The author is the agent of the session's last turn in the judged mode; before there is one, the agent that
    /// would be chosen, unless a judge is named. Agents that only play a script are nobody's author.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place, and those of the ledger.
    pub fn judges_own_work(
        &self,
        store: Option<&dyn Store>,
        ask: &TurnRequest,
    ) -> Result<Option<(Mode, AgentName)>> {
        let Some(judged) = self
            .pack
            .modes
            .get(&ask.mode)
            .and_then(|spec| spec.judges.clone())
        else {
            return Ok(None);
        };
        let Some(judge) = self.agent(ask)?.filter(|judge| !is_builtin(judge.as_str())) else {
            return Ok(None);
        };
        let author = match last_agent(store, ask.works_on(), &judged)? {
            None if ask.agent.is_none() => self.agent_of(&judged)?,
            author => author,
        };
        let Some(author) = author else {
            return Ok(None);
        };
        Ok((self.vendor(&judge)? == self.vendor(&author)?).then_some((judged, author)))
    }

    /// Returns the agent of a mode that nothing else is said of.
    fn agent_of(&self, mode: &Mode) -> Result<Option<AgentName>> {
        if let Some(agent) = self.settings.agents.get(mode) {
            return Ok(Some(agent.clone()));
        }
        let like = self
            .pack
            .modes
            .get(mode)
            .and_then(|spec| spec.like.as_ref());
        if let Some(agent) = like.and_then(|like| self.settings.agents.get(like)) {
            return Ok(Some(agent.clone()));
        }
        let present = self.present();
        let judged = self
            .pack
            .modes
            .get(mode)
            .and_then(|spec| spec.judges.as_ref());
        if let Some(judged) = judged.filter(|judged| present.len() > 1 && *judged != mode)
            && let Some(worker) = self.settings.agents.get(judged).or(present.first())
        {
            // Who judges is better not of the same house as who is judged.
            let vendor = self.vendor(worker)?;
            for other in present {
                if self.vendor(other)? != vendor {
                    return Ok(Some(other.clone()));
                }
            }
        }
        Ok(present.first().cloned())
    }

    /// Returns who makes the models of an agent; if nothing is known of that, the agent's own name.
    fn vendor(&self, agent: &AgentName) -> Result<String> {
        let vendor = match self.agents()?.known(agent.as_str()) {
            Some((AgentKind::Command(spec), _)) => spec.vendor.clone(),
            Some((AgentKind::Http(provider), _)) => provider.vendor.clone(),
            None => None,
        };
        Ok(vendor.unwrap_or_else(|| {
            agent
                .as_str()
                .split(':')
                .next()
                .unwrap_or_default()
                .to_owned()
        }))
    }
}

/// Returns the agent of the last turn that a session took in a mode.
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
