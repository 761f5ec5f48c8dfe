//! Opening a project: [`Workspace`] and its options.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::layers::{
    AGENTS_FILE, load_catalogue, load_settings, overlay_agents, secret_name_rules, shipped_agents,
};
use crate::config::{AgentKind, Agents, CheckCommand, Environment, Settings};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, Catalogue, Format, Mode, PromptExpansion, SessionId};
use crate::ops::{Git, Repository, check_commands};
use crate::orchestrator::turn::request::TurnRequest;
use crate::pack::{
    DEFAULT_PACK, FoundTemplate, LayerContent, Pack, Prose, ProseOwner, SearchPath, Templates,
};
use crate::secret::Secrets;

/// An open project. Parts that not every command needs are loaded on first use and then kept.
#[derive(Debug)]
pub struct Workspace {
    /// Root folder of the project.
    pub root: PathBuf,
    /// Settings of the user, overlaid by the project's.
    pub settings: Settings,
    /// Pack chosen by the options or the settings.
    pub pack: Pack,
    /// Templates, looked up by agent and mode.
    pub templates: Templates,
    /// Folders that settings, agents, packs and templates are read from; records the project's files that were used.
    pub places: SearchPath,
    /// Values that neither a prompt nor the ledger may contain.
    pub secrets: Secrets,
    /// Definitions of a review's base; `None` if those of the project's folder apply.
    pub(crate) base: Option<BaseDefinitions>,
    pub(super) options: WorkspaceOptions,
    /// Files with the user's and the project's agent definitions.
    agent_files: Vec<Prose>,
    agents: OnceLock<Agents>,
    catalogue: OnceLock<Catalogue>,
    /// Default agents that are installed.
    pub(super) installed: OnceLock<Vec<AgentName>>,
    repository: OnceLock<Repository>,
}

/// Options for opening a project.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceOptions {
    /// Folder with the user's own settings, agents, packs and templates.
    pub user: Option<PathBuf>,
    /// Name of the pack; `None` for the one in the settings, or else the default pack.
    pub pack: Option<String>,
    /// Environment variables. Agents are looked up on its `PATH`, and the values of its secret variables are redacted.
    pub environment: Environment,
    /// Folder for the worktrees of changes, outside the project. Changes cannot be opened without it.
    pub worktrees: Option<PathBuf>,
}

impl WorkspaceOptions {
    /// Uses this pack instead of the one in the settings.
    #[must_use]
    pub fn with_pack(self, pack: impl Into<String>) -> Self {
        Self {
            pack: Some(pack.into()),
            ..self
        }
    }

    /// Sets the folder with the user's own settings, agents, packs and templates.
    #[must_use]
    pub fn with_user(self, user: impl Into<PathBuf>) -> Self {
        Self {
            user: Some(user.into()),
            ..self
        }
    }

    /// Sets the folder for the worktrees of changes, outside the project.
    #[must_use]
    pub fn with_worktrees(self, folder: impl Into<PathBuf>) -> Self {
        Self {
            worktrees: Some(folder.into()),
            ..self
        }
    }
}

/// Definitions that a review takes from the commit it compares with.
#[derive(Clone, Debug)]
pub(crate) struct BaseDefinitions {
    pub(crate) commit: String,
    /// Check commands, from the settings and files of that commit.
    pub(crate) checks: Vec<CheckCommand>,
    /// Text of `agentd/project.md` at that commit.
    pub(crate) project_text: Option<String>,
}

impl Workspace {
    /// Opens a project: reads the settings and agent definitions of the user and the project, and loads the pack.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if settings or agent definitions are invalid; `PackNotFound` or `PackInvalid` if the pack cannot
    /// be loaded.
    pub fn open(root: PathBuf, options: WorkspaceOptions) -> Result<Self> {
        let places = SearchPath::new(Some(root.clone()), options.user.clone());
        Self::open_at(root, places, options)
    }

    /// Opens a project whose settings, agents and packs come from `places`, which may contain files in memory.
    ///
    /// # Errors
    ///
    /// Those of [`Workspace::open`].
    pub fn open_at(root: PathBuf, places: SearchPath, options: WorkspaceOptions) -> Result<Self> {
        let settings = load_settings(&places)?;
        let name = options.pack.as_deref().or(settings.pack.as_deref());
        let pack = Pack::load(name.unwrap_or(DEFAULT_PACK), &places)?;
        if options.pack.is_none() {
            warn_of_unknown_modes(&settings, &pack);
        }

        // Invalid definitions are reported now, not when one of their agents is called.
        let agent_files = places.layers(AGENTS_FILE)?;
        let secret_rules = overlay_agents(secret_name_rules(), &agent_files)?;
        let secrets = Secrets::new(secret_rules.secrets(&options.environment));

        Ok(Self {
            root,
            settings,
            pack,
            templates: Templates::new(places.clone()),
            places,
            secrets,
            base: None,
            options,
            agent_files,
            agents: OnceLock::new(),
            catalogue: OnceLock::new(),
            installed: OnceLock::new(),
            repository: OnceLock::new(),
        })
    }

    /// Returns the repository of the project; opens it on first use.
    pub(crate) fn repository(&self, git: &Git) -> Result<&Repository> {
        if let Some(repository) = self.repository.get() {
            return Ok(repository);
        }
        let opened = Repository::open(&self.root, git)?;
        Ok(self.repository.get_or_init(|| opened))
    }

    /// Returns the tree that a session works in: its worktree if that exists, or else the project's root.
    #[must_use]
    pub fn tree(&self, session: Option<&SessionId>) -> PathBuf {
        let worktrees = self.options.worktrees.as_ref();
        let worktree = worktrees
            .zip(session)
            .map(|(folder, session)| folder.join(session.as_str()));

        worktree
            .filter(|worktree| worktree.is_dir())
            .unwrap_or_else(|| self.root.clone())
    }

    /// Returns the path of a change's worktree, which need not exist.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if there is no folder for worktrees.
    pub fn worktree_path(&self, session: &SessionId) -> Result<PathBuf> {
        let Some(folder) = &self.options.worktrees else {
            let message = "cannot find a folder for the worktrees of changes";
            return Err(Error::new(ErrorKind::FileUnusable, message)
                .with_hint("set HOME or XDG_STATE_HOME"));
        };
        Ok(folder.join(session.as_str()))
    }

    /// Returns the number of rounds, and of turns without progress, after which a change waits for the user.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        let from_settings = self.settings.change.rounds;
        from_settings.map_or(self.pack.rounds, u64::from)
    }

    /// Returns the project's check commands: those of the settings, or those detected from its files. In a review they
    /// come from the base. Otherwise they come from the project's root, never from a worktree that an agent could have
    /// edited.
    #[must_use]
    pub fn checks(&self) -> Vec<CheckCommand> {
        match &self.base {
            Some(base) => base.checks.clone(),
            None => check_commands(&self.settings.review, &self.root),
        }
    }

    /// Returns all agent definitions: the shipped ones, overlaid by the user's and the project's.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid; the error has its location.
    pub fn agents(&self) -> Result<&Agents> {
        if let Some(agents) = self.agents.get() {
            return Ok(agents);
        }
        let agents = overlay_agents(shipped_agents()?, &self.agent_files)?;
        let agents = agents.switched(&self.settings.switches)?;
        Ok(self.agents.get_or_init(|| agents))
    }

    /// Returns the agent definitions of the user and the project, without the shipped ones.
    pub(crate) fn custom_agents(&self) -> Result<Agents> {
        overlay_agents(Agents::default(), &self.agent_files)
    }

    /// Returns true if the project itself defines an agent. The user may not trust that definition.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid; the error has its location.
    pub fn is_defined_by_project(&self, name: &str) -> Result<bool> {
        let project_files: Vec<Prose> = self
            .agent_files
            .iter()
            .filter(|file| file.owner == ProseOwner::Project)
            .cloned()
            .collect();
        let agents = overlay_agents(Agents::default(), &project_files)?;
        Ok(agents.find(name).is_some())
    }

    /// Returns the names and values of the secret variables in an environment and in the agent definitions.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid; the error has its location.
    pub fn secret_values(&self, environment: &Environment) -> Result<Vec<(String, Vec<u8>)>> {
        let secret_rules = overlay_agents(secret_name_rules(), &self.agent_files)?;
        Ok(secret_rules.secrets(environment))
    }

    /// Opens the same project with another pack; `None` if it already uses that pack.
    pub(crate) fn with_pack(&self, name: &str) -> Result<Option<Self>> {
        if self.pack.name == name {
            return Ok(None);
        }

        let options = self.options.clone().with_pack(name);
        let other = Self::open_at(self.root.clone(), self.places.clone(), options)?;
        Ok(Some(Self {
            base: self.base.clone(),
            secrets: self.secrets.clone(),
            ..other
        }))
    }

    /// Returns the model catalogue: the shipped models and those of the settings.
    pub(crate) fn catalogue(&self) -> Result<&Catalogue> {
        if let Some(catalogue) = self.catalogue.get() {
            return Ok(catalogue);
        }
        let catalogue = load_catalogue(&self.settings)?;
        Ok(self.catalogue.get_or_init(|| catalogue))
    }

    /// Returns the kinds of references that an agent expands in a prompt.
    pub(crate) fn expands(&self, agent: &AgentName) -> Result<Vec<PromptExpansion>> {
        // No prompt is sent to the agent BASE, so the definitions need not be read.
        if *agent == AgentName::base() {
            Ok(Vec::new())
        } else {
            Ok(self.agents()?.expands(agent.as_str()))
        }
    }

    /// Returns the format that replaces the pack's: the one in the request, or chat for a model with an HTTP API if the
    /// pack renders flat text. `None` if the pack's own format applies.
    pub(crate) fn format(&self, request: &TurnRequest) -> Result<Option<Format>> {
        match self.agent(request)? {
            Some(agent) if request.format.is_none() && self.pack.rendering == Format::Flat => {
                let known = self.agents()?.known(agent.as_str());
                let is_http = matches!(known, Some((AgentKind::Http(_), _)));
                Ok(is_http.then_some(Format::Chat))
            }
            _ => Ok(request.format),
        }
    }

    /// Returns true if the agent of a request can read and edit files with its own tools, or if no agent is known.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid; the error has its location.
    pub fn has_tools(&self, request: &TurnRequest) -> Result<bool> {
        match self.agent(request)? {
            Some(agent) => Ok(self.agents()?.has_tools(agent.as_str())),
            None => Ok(true),
        }
    }

    /// Returns the patterns of the files that replies of a mode may update.
    pub(crate) fn updates(&self, mode: &Mode) -> &[String] {
        self.pack.modes.get(mode).map_or(&[], |spec| &spec.updates)
    }

    /// Returns the template for an agent and a mode; `None` if the pack has no layer for a template.
    pub(crate) fn template(
        &self,
        agent: &AgentName,
        mode: &Mode,
    ) -> Result<Option<Arc<FoundTemplate>>> {
        if !self.pack.has_layer(LayerContent::Template) {
            return Ok(None);
        }

        let found = self.templates.find(agent, mode);
        found.map(Some).map_err(|error| match error.kind() {
            ErrorKind::TemplateNotFound => {
                let modes: Vec<_> = self.pack.modes.keys().map(Mode::as_str).collect();
                error.with_hint(format!(
                    "modes of pack `{}`: {}",
                    self.pack.name,
                    modes.join(", ")
                ))
            }
            _ => error,
        })
    }
}

/// Logs a warning for each mode in the settings that the pack does not have.
fn warn_of_unknown_modes(settings: &Settings, pack: &Pack) {
    let unknown = settings
        .modes
        .keys()
        .filter(|mode| !pack.modes.contains_key(*mode));
    for mode in unknown {
        let name = &pack.name;
        log::warn!("unknown mode `{mode}` in the settings: pack `{name}` has no such mode");
    }
}
