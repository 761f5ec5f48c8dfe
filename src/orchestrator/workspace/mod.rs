//! The opened project: settings, pack, templates, agents, and what the project may contribute to a prompt.

mod agents;
mod checks;
mod context;
mod init;
mod project_memory;
mod secret_files;
mod trust;

pub use checks::{accept_checks, check_checks};
pub use context::PromptContext;
pub(crate) use context::{PROJECT_FILE, gather};
pub use init::{Created, init};
pub use project_memory::ProjectFiles;
pub(crate) use secret_files::names_secrets;
pub(crate) use trust::doubt_ledger;
pub use trust::{
    Definition, Trust, TrustStatus, check_trust, definitions, knows_ledger, open_ledger,
};

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::config::{AgentKind, Agents, CheckCommand, Environment, Settings};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, Catalogue, Expands, Format, Mode, SessionId};
use crate::ops::{Git, Repository, check_commands};
use crate::orchestrator::turn::request::TurnRequest;
use crate::pack::{
    AGENTS, DEFAULT_PACK, FoundTemplate, LayerContent, Owner, Pack, Places, Prose, SECRET_NAMES,
    Templates,
};
use crate::secret::Secrets;

/// The settings file, in the project's `agentd/` and in the user's folder.
const SETTINGS: &str = "config.toml";

/// A project, its settings, its pack and its templates.
#[derive(Debug)]
pub struct Workspace {
    /// The project's root.
    pub root: PathBuf,
    /// The settings in force.
    pub settings: Settings,
    /// The pack in use.
    pub pack: Pack,
    /// The templates.
    pub templates: Templates,
    /// Where all of these were looked for, and what of the project's was used.
    pub places: Places,
    /// The user's and the project's definitions of agents, as they were read.
    own_agents: Vec<Prose>,
    /// All definitions of agents, once someone has asked for one.
    agents: OnceLock<Agents>,
    /// Values that no prompt and no ledger may contain.
    pub secrets: Secrets,
    options: WorkspaceOptions,
    /// The catalogue of models, once someone has asked for one.
    catalogue: OnceLock<Catalogue>,
    /// The agents that were found there.
    pub(crate) present: OnceLock<Vec<AgentName>>,
    /// The repository, once someone has asked for it.
    repository: OnceLock<Repository>,
    /// Where definitions are taken from in a review; `None` where they are those of the project's folder.
    pub(crate) base: Option<BaseDefinitions>,
}

/// Options for opening a project.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceOptions {
    /// Folder with the user's own settings, agents, packs and templates.
    pub user: Option<PathBuf>,
    /// Name of the pack; `None` for the one that the settings name.
    pub pack: Option<String>,
    /// Environment variables: agents are looked up on its `PATH`, and the values of secret variables are redacted.
    pub environment: Environment,
    /// Folder of the worktrees of changes, outside the project. Changes cannot be opened without it.
    pub worktrees: Option<PathBuf>,
}

impl WorkspaceOptions {
    /// Sets the pack.
    #[must_use]
    pub fn with_pack(self, pack: impl Into<String>) -> Self {
        Self {
            pack: Some(pack.into()),
            ..self
        }
    }

    /// Sets the folder of the user.
    #[must_use]
    pub fn with_user(self, user: impl Into<PathBuf>) -> Self {
        Self {
            user: Some(user.into()),
            ..self
        }
    }

    /// Sets the folder of worktrees.
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
    /// The commit.
    pub(crate) commit: String,
    /// The commands of the project's checks, as the settings and files of that commit name them.
    pub(crate) checks: Vec<CheckCommand>,
    /// Text of `agentd/project.md` at that commit.
    pub(crate) project_text: Option<String>,
}

impl Workspace {
    /// Opens a project: reads the settings and agents of the user and the project, and loads the pack.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid`, `PackNotFound` or `PackInvalid`, with the place.
    pub fn open(root: PathBuf, options: WorkspaceOptions) -> Result<Self> {
        let places = Places::new(Some(root.clone()), options.user.clone());
        Self::open_at(root, places, options)
    }

    /// Opens a project whose settings, agents and packs are read from the given places, which may hold files from memory.
    ///
    /// # Errors
    ///
    /// Those of [`Workspace::open`].
    pub fn open_at(root: PathBuf, places: Places, options: WorkspaceOptions) -> Result<Self> {
        let settings = settings(&places)?;
        let name = options.pack.as_deref().or(settings.pack.as_deref());
        let pack = Pack::load(name.unwrap_or(DEFAULT_PACK), &places)?;
        if options.pack.is_none() {
            warn_of_unknown_modes(&settings, &pack);
        }

        let own_agents = places.layers("agents.yaml")?;
        // Faulty definitions are reported now, not when one of their agents is called.
        let secrets = overlaid(shipped_secrets(), &own_agents)?.secrets(&options.environment);
        Ok(Self {
            root,
            settings,
            pack,
            templates: Templates::new(places.clone()),
            places,
            own_agents,
            secrets: Secrets::new(secrets),
            options,
            agents: OnceLock::new(),
            catalogue: OnceLock::new(),
            present: OnceLock::new(),
            repository: OnceLock::new(),
            base: None,
        })
    }

    /// Returns the repository of the project.
    pub(crate) fn repository(&self, git: &Git) -> Result<&Repository> {
        if let Some(repository) = self.repository.get() {
            return Ok(repository);
        }
        let opened = Repository::open(&self.root, git)?;
        Ok(self.repository.get_or_init(|| opened))
    }

    /// Returns the tree that a session works in: its own if it has one, or else the project's.
    #[must_use]
    pub fn tree(&self, session: Option<&SessionId>) -> PathBuf {
        let own = self
            .options
            .worktrees
            .as_ref()
            .zip(session)
            .map(|(folder, session)| folder.join(session.as_str()));
        own.filter(|own| own.is_dir())
            .unwrap_or_else(|| self.root.clone())
    }

    /// Returns the path of the worktree of a change.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if there is no folder for worktrees.
    pub fn own_tree(&self, session: &SessionId) -> Result<PathBuf> {
        let Some(folder) = &self.options.worktrees else {
            let message = "there is no home folder for the work trees of changes";
            return Err(Error::new(ErrorKind::FileUnusable, message)
                .with_hint("set HOME or XDG_STATE_HOME"));
        };
        Ok(folder.join(session.as_str()))
    }

    /// Returns the number of rounds, and of turns without progress, after which a change waits for a person.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        let set = self.settings.change.rounds;
        set.map_or(self.pack.rounds, u64::from)
    }

    /// Returns the project's checks: those of the settings, or those that its files suggest. They are those of the
    /// user's tree, never of a tree that an agent could have edited; in a review, those of the base.
    #[must_use]
    pub fn checks(&self) -> Vec<CheckCommand> {
        match &self.base {
            Some(base) => base.checks.clone(),
            None => check_commands(&self.settings.review, &self.root),
        }
    }

    /// Returns the definitions of agents that are commands: the shipped ones, overlaid by the user's and the project's.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn agents(&self) -> Result<&Agents> {
        if let Some(agents) = self.agents.get() {
            return Ok(agents);
        }
        let shipped = Agents::read(AGENTS, "built-in:data/agents.yaml")?;
        let all = overlaid(shipped, &self.own_agents)?.switched(&self.settings.switches)?;
        Ok(self.agents.get_or_init(|| all))
    }

    /// Returns the user's and the project's definitions of agents alone.
    pub(crate) fn own_agents(&self) -> Result<Agents> {
        overlaid(Agents::default(), &self.own_agents)
    }

    /// Tells whether an agent is defined by the project itself, whom nobody may have accepted.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn is_defined_by_project(&self, name: &str) -> Result<bool> {
        let of_project = self
            .own_agents
            .iter()
            .filter(|file| file.owner == Owner::Project);
        let of_project = of_project.cloned().collect::<Vec<_>>();
        Ok(overlaid(Agents::default(), &of_project)?
            .find(name)
            .is_some())
    }

    /// Returns the names and values of the secret variables of an environment, and of those that are set for agents.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn secret_values(&self, environment: &Environment) -> Result<Vec<(String, Vec<u8>)>> {
        Ok(overlaid(shipped_secrets(), &self.own_agents)?.secrets(environment))
    }

    /// Returns the same project with another pack; `None` if it is the same one.
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

    /// Returns the catalogue: the shipped models and those of the settings.
    pub(crate) fn catalogue(&self) -> Result<&Catalogue> {
        if let Some(catalogue) = self.catalogue.get() {
            return Ok(catalogue);
        }
        let catalogue = catalogue(&self.settings)?;
        Ok(self.catalogue.get_or_init(|| catalogue))
    }

    /// Returns what an agent would expand in a prompt.
    pub(crate) fn expands(&self, agent: &AgentName) -> Result<Vec<Expands>> {
        // Nobody sends a prompt to BASE, so the definitions need not be read for it.
        if *agent == AgentName::base() {
            Ok(Vec::new())
        } else {
            Ok(self.agents()?.expands(agent.as_str()))
        }
    }

    /// Returns the rendering if it is not the pack's: the one that is named, or a chat for a model of a server where the
    /// pack writes flat text.
    pub(crate) fn format(&self, ask: &TurnRequest) -> Result<Option<Format>> {
        match self.agent(ask)? {
            Some(agent) if ask.format.is_none() && self.pack.rendering == Format::Flat => {
                let known = self.agents()?.known(agent.as_str());
                Ok(matches!(known, Some((AgentKind::Http(_), _))).then_some(Format::Chat))
            }
            _ => Ok(ask.format),
        }
    }

    /// Tells whether the agent that is asked has tools of its own to read and edit files with.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn has_tools(&self, ask: &TurnRequest) -> Result<bool> {
        self.agent(ask)?.map_or(Ok(true), |agent| {
            Ok(self.agents()?.has_tools(agent.as_str()))
        })
    }

    /// Returns what replies of a mode may update.
    pub(crate) fn updates(&self, mode: &Mode) -> &[String] {
        self.pack.modes.get(mode).map_or(&[], |spec| &spec.updates)
    }

    /// Returns the template for an agent and a mode, if the pack has a layer for one.
    pub(crate) fn template(
        &self,
        agent: &AgentName,
        mode: &Mode,
    ) -> Result<Option<Arc<FoundTemplate>>> {
        self.pack
            .has_layer(LayerContent::Template)
            .then(|| template(self, agent, mode))
            .transpose()
    }
}

/// Warns of settings for modes that the pack does not have.
fn warn_of_unknown_modes(settings: &Settings, pack: &Pack) {
    let unknown = settings
        .modes
        .keys()
        .filter(|mode| !pack.modes.contains_key(*mode));
    for mode in unknown {
        let name = &pack.name;
        log::warn!("the settings speak of `{mode}`, which is no mode of the pack `{name}`");
    }
}

/// Returns the settings in force: the user's, overlaid by the project's.
///
/// # Errors
///
/// `ConfigInvalid` with the place.
pub fn settings(places: &Places) -> Result<Settings> {
    let mut files = places.layers(SETTINGS)?.into_iter();
    files.try_fold(Settings::default(), |settings, file| {
        settings.overlaid(&file.text, &file.origin)
    })
}

/// Returns the names of the secret variables in an environment, before a project is opened. Definitions of agents that
/// cannot be used name none; opening the project reports them.
#[must_use]
pub fn secret_names(places: &Places, environment: &Environment) -> Vec<String> {
    let files = places.layers("agents.yaml").unwrap_or_default();
    let known = overlaid(shipped_secrets(), &files).unwrap_or_else(|_| shipped_secrets());
    known
        .secrets(environment)
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// Returns definitions that know which variables are secret by their name, and no agent.
fn shipped_secrets() -> Agents {
    Agents::default().with_secrets(SECRET_NAMES)
}

fn overlaid(agents: Agents, files: &[Prose]) -> Result<Agents> {
    files.iter().try_fold(agents, |agents, file| {
        agents.overlaid(&file.text, &file.origin)
    })
}

/// Returns the catalogue: the shipped models and those of the settings.
///
/// # Errors
///
/// `ConfigInvalid` for a model of the settings that cannot be used.
pub fn catalogue(settings: &Settings) -> Result<Catalogue> {
    let mut catalogue = Catalogue::built_in()?.clone();
    for model in &settings.models {
        catalogue.add(model.clone())?;
    }
    Ok(catalogue)
}

fn template(workspace: &Workspace, agent: &AgentName, mode: &Mode) -> Result<Arc<FoundTemplate>> {
    workspace
        .templates
        .find(agent, mode)
        .map_err(|error| match error.kind() {
            ErrorKind::TemplateNotFound => {
                let modes: Vec<_> = workspace.pack.modes.keys().map(Mode::as_str).collect();
                error.with_hint(format!(
                    "the modes of the pack `{}` are {}",
                    workspace.pack.name,
                    modes.join(", ")
                ))
            }
            _ => error,
        })
}
