//! The one way a prompt is assembled, whoever asks for it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::Serialize;

use super::context::{self, PromptContext};
use crate::compose::{self, Counter, Draft, Measured, Missing, Request, TURN_VARIABLES, Variables};
use crate::config::{Agents, CheckCommand, Environment, Known, Settings};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    AgentName, Catalogue, ContextItem, Expands, Format, Mode, ModelSpec, Nonce, NoncePolicy,
    Reliability, SessionId, State, TokenizerSpec, Work,
};
use crate::ops::{Git, Repository};
use crate::pack::{
    AGENTS, DEFAULT_PACK, Found, Holds, MODELS, ModeSpec, Owner, Pack, Places, Prose, SECRET_NAMES,
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
    /// What no prompt may hold.
    pub secrets: Secrets,
    /// The folder of work trees that sessions have of their own, outside of the project.
    pub worktrees: Option<PathBuf>,
    /// Where commands are looked for: an agent that is there is taken if nothing names one.
    pub path: Option<OsString>,
    /// The catalogue of models, once someone has asked for one.
    catalogue: OnceLock<Catalogue>,
    /// The agents that were found there.
    pub(super) present: OnceLock<Vec<AgentName>>,
    /// The repository, once someone has asked for it.
    repository: OnceLock<Repository>,
    /// Where definitions are taken from in a review; `None` where they are those of the project's folder.
    pub(super) base: Option<BaseDefinitions>,
}

/// Definitions that a review takes from the commit it compares with.
#[derive(Clone, Debug)]
pub(super) struct BaseDefinitions {
    /// The commit.
    pub(super) commit: String,
    /// The commands of the project's checks, as the settings and files of that commit name them.
    pub(super) checks: Vec<CheckCommand>,
    /// Text of `agentd/project.md` at that commit.
    pub(super) project_text: Option<String>,
}

impl Workspace {
    /// Opens a project: reads the user's and the project's settings and agents, and loads the pack that is named or set.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid`, `PackNotFound` or `PackInvalid`, with the place.
    pub fn open(root: PathBuf, user: Option<PathBuf>, pack: Option<&str>) -> Result<Self> {
        let places = Places::new(Some(root.clone()), user);
        Self::open_at(root, places, pack)
    }

    /// Opens a project with what is found at some places.
    pub(super) fn open_at(root: PathBuf, places: Places, pack: Option<&str>) -> Result<Self> {
        let settings = settings(&places)?;
        let is_default = pack.is_none();
        let pack = Pack::load(
            pack.or(settings.pack.as_deref()).unwrap_or(DEFAULT_PACK),
            &places,
        )?;
        // The settings name agents for a process, and a probe is none.
        let named = settings.modes.keys().filter(|_| is_default);
        for mode in named.filter(|mode| !pack.modes.contains_key(*mode)) {
            log::warn!(
                "the settings speak of `{mode}`, which is no mode of the pack `{}`",
                pack.name
            );
        }
        let (templates, secrets) = (Templates::new(places.clone()), Secrets::default());
        let own_agents = places.layers("agents.yaml")?;
        // One that cannot be used is told of at once, not when an agent of it is called.
        overlaid(Agents::default(), &own_agents)?;
        let agents = OnceLock::new();
        let (path, present, worktrees, catalogue) = (None, OnceLock::new(), None, OnceLock::new());
        let repository = OnceLock::new();
        Ok(Self {
            root,
            settings,
            pack,
            templates,
            places,
            own_agents,
            agents,
            secrets,
            worktrees,
            path,
            catalogue,
            present,
            repository,
            base: None,
        })
    }

    /// Returns the repository of the project.
    pub(super) fn repository(&self, git: &Git) -> Result<&Repository> {
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
            .worktrees
            .as_ref()
            .zip(session)
            .map(|(folder, session)| folder.join(session.as_str()));
        own.filter(|own| own.is_dir())
            .unwrap_or_else(|| self.root.clone())
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
    pub(super) fn own_agents(&self) -> Result<Agents> {
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

    /// Returns the names and values of an environment, and of what is set for agents, that must not be seen.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn secret_values(&self, environment: &Environment) -> Result<Vec<(String, Vec<u8>)>> {
        Ok(overlaid(shipped_secrets(), &self.own_agents)?.secrets(environment))
    }

    /// Returns the same project with another pack; `None` if it is the same one.
    pub(super) fn with_pack(&self, name: &str) -> Result<Option<Self>> {
        if self.pack.name == name {
            return Ok(None);
        }
        let other = match &self.base {
            // A review has its definitions from a commit, whichever pack it is about.
            Some(_) => Self::open_at(self.root.clone(), self.places.clone(), Some(name))?,
            None => Self::open(self.root.clone(), self.places.user.clone(), Some(name))?,
        };
        let (secrets, path, worktrees) = (
            self.secrets.clone(),
            self.path.clone(),
            self.worktrees.clone(),
        );
        Ok(Some(Self {
            secrets,
            path,
            worktrees,
            base: self.base.clone(),
            ..other
        }))
    }

    /// Returns the catalogue: the shipped models and those of the settings.
    pub(super) fn catalogue(&self) -> Result<&Catalogue> {
        if let Some(catalogue) = self.catalogue.get() {
            return Ok(catalogue);
        }
        let catalogue = catalogue(&self.settings)?;
        Ok(self.catalogue.get_or_init(|| catalogue))
    }

    /// Returns what an agent would expand in a prompt.
    fn expands(&self, agent: &AgentName) -> Result<Vec<Expands>> {
        // Nobody sends a prompt to BASE, so the definitions need not be read for it.
        if *agent == AgentName::base() {
            Ok(Vec::new())
        } else {
            Ok(self.agents()?.expands(agent.as_str()))
        }
    }

    /// Returns the rendering if it is not the pack's: the one that is named, or a chat for a model of a server where the
    /// pack writes flat text.
    fn format(&self, ask: &Ask) -> Result<Option<Format>> {
        match self.agent(ask)? {
            Some(agent) if ask.format.is_none() && self.pack.rendering == Format::Flat => {
                let known = self.agents()?.known(agent.as_str());
                Ok(matches!(known, Some((Known::Http(_), _))).then_some(Format::Chat))
            }
            _ => Ok(ask.format),
        }
    }

    /// Tells whether the agent that is asked has tools of its own to read and edit files with.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn has_tools(&self, ask: &Ask) -> Result<bool> {
        self.agent(ask)?.map_or(Ok(true), |agent| {
            Ok(self.agents()?.has_tools(agent.as_str()))
        })
    }

    /// Returns what replies of a mode may update.
    pub(super) fn updates(&self, mode: &Mode) -> &[String] {
        self.pack.modes.get(mode).map_or(&[], |spec| &spec.updates)
    }

    /// Returns the template for an agent and a mode, if the pack has a layer for one.
    pub(super) fn template(&self, agent: &AgentName, mode: &Mode) -> Result<Option<Arc<Found>>> {
        self.pack
            .holds(Holds::Template)
            .then(|| template(self, agent, mode))
            .transpose()
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
    let mut catalogue = Catalogue::read(MODELS, "built-in:data/models.yaml")?;
    for model in &settings.models {
        catalogue.add(model.clone())?;
    }
    Ok(catalogue)
}

/// What a prompt is asked for with.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The mode.
    pub mode: Mode,
    /// The user's text.
    pub instructions: String,
    /// The agent; without one, the mode's from the settings, one that is on PATH, or BASE.
    pub agent: Option<AgentName>,
    /// What the session works on, as the caller describes it.
    pub work: Option<Work>,
    /// The session, such as a change.
    pub session: Option<SessionId>,
    /// The change whose files are shown, if it is not the session itself.
    pub for_change: Option<SessionId>,
    /// Files to show.
    pub files: Vec<PathBuf>,
    /// Artifacts to show.
    pub artifacts: Vec<PathBuf>,
    /// Whether files and artifacts that by their name hold secrets are shown, too.
    pub secret_files: bool,
    /// Thoughts to hand on.
    pub thoughts: Vec<String>,
    /// Values of variables, before any that is found.
    pub variables: Variables,
    /// The nonce of the prompt, unless the settings say that there is none; a turn makes its own.
    pub nonce: Option<Nonce>,
    /// The rendering; without one, the pack's, or a chat for a model that has no tools where the pack writes flat text.
    pub format: Option<Format>,
    /// The model to write for; without one, the agent's own.
    pub model: Option<String>,
    /// Whether tokens are counted even if the bytes already fit.
    pub count: bool,
    /// Whether a missing mandatory variable is an error, whatever the settings say.
    pub strict: bool,
    /// How often the agent may be asked again for what its reply lacks; twice at most.
    pub repairs: u8,
    /// What was measured of the agent and its model; a turn looks it up itself.
    pub measured: Measured,
    /// What operations found before the turn.
    pub found: Vec<(ContextItem, String)>,
    /// Set if `found` already has the results of the mode's `before` operations: its `before` operations are not run then.
    pub has_evidence: bool,
}

impl Ask {
    /// Asks for a prompt in a mode with nothing but instructions.
    pub fn new(mode: Mode, instructions: impl Into<String>) -> Self {
        Self {
            mode,
            instructions: instructions.into(),
            agent: None,
            work: None,
            session: None,
            for_change: None,
            files: Vec::new(),
            artifacts: Vec::new(),
            secret_files: false,
            thoughts: Vec::new(),
            variables: Variables::new(),
            nonce: None,
            format: None,
            model: None,
            count: false,
            strict: false,
            repairs: 0,
            measured: Measured::default(),
            found: Vec::new(),
            has_evidence: false,
        }
    }
}

impl Ask {
    /// Returns the session whose files the turn works with.
    #[must_use]
    pub fn works_on(&self) -> Option<&SessionId> {
        self.for_change.as_ref().or(self.session.as_ref())
    }
}

/// Where it is known from how well a model keeps to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It is the catalogue's guess.
    Guessed,
    /// The settings say so.
    Set,
    /// Probes have shown it.
    Measured,
}

impl Origin {
    /// Returns how well a model keeps to the protocol by what was measured, and where that is known from.
    #[must_use]
    pub fn of(settings: &Settings, model: &ModelSpec, measured: &Measured) -> (Reliability, Self) {
        if settings.models.iter().any(|set| set.id == model.id) {
            return (model.xml_reliability, Self::Set);
        }
        let measured = measured
            .reliability()
            .map(|reliability| (reliability, Self::Measured));
        measured.unwrap_or((model.xml_reliability, Self::Guessed))
    }
}

/// A prompt, and how it came to be.
#[derive(Debug)]
pub struct Assembly {
    /// The prompt.
    pub draft: Draft,
    /// The agent whose template was asked for.
    pub agent: AgentName,
    /// The model it is written for, if one was named.
    pub model: Option<ModelSpec>,
    /// What was measured of the agent and the model.
    pub measured: Measured,
    /// Where the model's reliability comes from.
    pub reliability: Origin,
    /// The template that won, and what was searched, if the pack has a layer for one.
    pub template: Option<Arc<Found>>,
    /// For each variable with a value, where it came from.
    pub sources: Vec<(String, String)>,
    /// The numbers of the change's tasks, if it has a list of them.
    pub tasks: Option<Vec<String>>,
    /// Files of the project that stand in for shipped ones.
    pub overrides: Vec<String>,
}

/// Gathers what the prompt of a change is made from: project.md, the project's tree, the change's artifacts and tasks,
/// and the files that are given. The change is the session of the ask; what the template does not use is not looked for.
///
/// # Errors
///
/// `TemplateNotFound`, `ChangeNotFound`, and those of files that cannot be read.
pub fn assemble_context(workspace: &Workspace, ask: &Ask) -> Result<PromptContext> {
    let agent = workspace.agent(ask)?.unwrap_or_else(AgentName::base);
    let template = workspace.template(&agent, &ask.mode)?;
    let spec = workspace.pack.mode(&ask.mode)?;
    context::gather(
        workspace,
        ask,
        spec,
        template.as_deref().map(|found| &found.template),
    )
}

/// Assembles a prompt: template, variables, context, layers, fit, render.
///
/// # Errors
///
/// `TemplateNotFound` also for a mode that the pack does not have, and whatever else keeps the prompt from being whole.
pub fn assemble(workspace: &Workspace, state: &State, ask: &Ask) -> Result<Assembly> {
    let pack = &workspace.pack;
    let agent = workspace.agent(ask)?.unwrap_or_else(AgentName::base);
    let template = workspace.template(&agent, &ask.mode)?;
    let spec = pack.mode(&ask.mode)?;
    let PromptContext {
        variables,
        pack_texts,
        mut sources,
        tasks,
        items,
        project,
    } = assemble_context(workspace, ask)?;
    let written_for = WrittenFor::of(workspace, ask)?;
    check_variables(pack, template.as_deref(), &ask.variables)?;
    if ask.work.is_some() && !pack.holds(Holds::State) && !pack.holds(Holds::History) {
        log::warn!(
            "the pack `{}` has no layer for what the state file says",
            pack.name
        );
    }
    let strict = ask.strict || workspace.settings.strict;
    // A fact may be told in the prompt as well, so it is the value without secrets.
    let told = |name: &String| Some((name.clone(), variables.get(name)?.clone()));
    let request = Request {
        template: template.clone(),
        facts: ask.variables.keys().filter_map(told).collect(),
        variables,
        pack_texts,
        missing: if strict {
            Missing::Error
        } else {
            Missing::Notice
        },
        context: items,
        project,
        instructions: Some(workspace.secrets.redact(&ask.instructions).into_owned()),
        nonce: ask
            .nonce
            .clone()
            .filter(|_| workspace.settings.verdict_nonce != NoncePolicy::Off),
        format: workspace.format(ask)?,
        max_bytes: workspace.settings.max_prompt_bytes,
        agent: Some(agent.clone()),
        has_tools: workspace.has_tools(ask)?,
        model: written_for.model.clone(),
        counter: Arc::new(written_for.counter),
        overhead: written_for.overhead,
        previous: state.first_turn,
        expands: workspace.expands(&agent)?,
        count: ask.count,
        ..Request::default()
    };
    let draft = compose::compose(pack, state, request)?;
    let filled_from = ["this turn", "the mode"].map(str::to_owned);
    sources.extend(
        TURN_VARIABLES
            .map(str::to_owned)
            .into_iter()
            .zip(filled_from),
    );
    let overrides = overrides(pack, template.as_deref(), spec);
    let WrittenFor {
        model, reliability, ..
    } = written_for;
    let measured = ask.measured;
    Ok(Assembly {
        draft,
        agent,
        model,
        measured,
        reliability,
        template,
        sources,
        tasks,
        overrides,
    })
}

/// What is known of the model that a prompt is written for, and of the agent that it goes to.
struct WrittenFor {
    model: Option<ModelSpec>,
    reliability: Origin,
    counter: Counter,
    overhead: u64,
}

impl WrittenFor {
    /// Returns what the catalogue and the settings say, and what was measured.
    fn of(workspace: &Workspace, ask: &Ask) -> Result<Self> {
        let Some(id) = workspace.model(ask)? else {
            let counter = Counter::new(TokenizerSpec::default());
            return Ok(Self {
                model: None,
                reliability: Origin::Guessed,
                counter,
                overhead: 0,
            });
        };
        let catalogue = workspace.catalogue()?;
        let model = catalogue.find_or_assume(&id);
        let (mut counter, mut overhead) = (Counter::new(catalogue.tokenizer(&model)), 0);
        if let Some(calibration) = ask.measured.calibration.used() {
            counter = counter.corrected(calibration.factor);
            // However wrong a figure is, it shall not keep every prompt from being sent.
            overhead = calibration.overhead.min(model.window / 2);
        }
        let (xml_reliability, reliability) = Origin::of(&workspace.settings, &model, &ask.measured);
        Ok(Self {
            model: Some(ModelSpec {
                xml_reliability,
                ..model
            }),
            reliability,
            counter,
            overhead,
        })
    }
}

/// A variable that is given a value is one that the pack or a text of it knows.
fn check_variables(pack: &Pack, template: Option<&Found>, given: &Variables) -> Result<()> {
    if let Some(name) = TURN_VARIABLES
        .iter()
        .find(|name| given.contains_key(**name))
    {
        let message = format!("`{name}` cannot be set: the program fills it for every turn");
        return Err(Error::new(ErrorKind::NameInvalid, message));
    }
    let texts = pack
        .texts
        .values()
        .chain(template.map(|found| &found.template.text));
    let listed = texts.flat_map(|text| text.variables.iter().map(|variable| &variable.name));
    let known: BTreeSet<&String> = pack.variables.iter().chain(listed).collect();
    match given.keys().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            let message = format!("the pack `{}` has no variable `{name}`", pack.name);
            Err(Error::new(ErrorKind::NameInvalid, message)
                .with_hint(format!("its variables: {known}")))
        }
    }
}

fn template(workspace: &Workspace, agent: &AgentName, mode: &Mode) -> Result<Arc<Found>> {
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

fn overrides(pack: &Pack, template: Option<&Found>, spec: &ModeSpec) -> Vec<String> {
    let template = template.map(|found| (found.template.text.owner, &found.template.text.origin));
    let skeletons = pack
        .skeletons_of(spec)
        .map(|skeleton| (skeleton.owner, &skeleton.origin));
    // A pack that is the project's own is named once.
    let texts = pack.texts.values().filter(|_| pack.owner != Owner::Project);
    let texts = texts.map(|text| (text.owner, &text.origin));
    let files = std::iter::once((pack.owner, &pack.origin))
        .chain(template)
        .chain(skeletons)
        .chain(texts);
    files
        .filter(|(owner, _)| *owner == Owner::Project)
        .map(|(_, origin)| origin.clone())
        .collect()
}
