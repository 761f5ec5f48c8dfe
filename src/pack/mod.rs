//! Packs: processes as data. A pack has modes, layers, prose, actions, permissions and verdicts, all checked on load.
//!
//! [`Pack::load`] finds a pack in the project, in the user's folder or among the shipped ones. [`Pack::from_files`] loads one
//! from memory, [`Pack::from_prompts`] a plain folder of prompts. [`Templates`] finds the system templates of agents.
//!
//! ```
//! use agentd::models::Mode;
//! use agentd::{Pack, SearchPath};
//!
//! let pack = Pack::load("sdd", &SearchPath::default())?;
//! assert_eq!(pack.start.as_str(), "plan");
//! let review = pack.mode(&Mode::new("review")?)?;
//! assert!(review.verdict_required);
//! # Ok::<(), agentd::Error>(())
//! ```

mod actions;
mod builtin;
mod check;
mod check_commands;
mod check_layers;
mod check_process;
mod check_prose;
mod command;
mod condition;
mod delimiters;
mod faults;
mod front_matter;
mod layer;
mod lint;
mod manifest;
mod manifest_places;
mod placeholder;
mod problem;
mod prompts;
mod reply;
mod required_value;
mod rule;
mod rule_facts;
mod search_path;
mod state_file;
mod template;
mod templates;
mod text;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

pub use actions::PLACEHOLDER as ACTIONS_PLACEHOLDER;
pub(crate) use builtin::{BUILDER_PACK, MISSING_VARIABLE};
use indexmap::IndexMap;

pub use builtin::{
    AGENTS, CONFIG_DRAFT, DEFAULT_AGENTS, DEFAULT_PACK, DEMO, DEMO_SCRIPT, NOTES_NOTICE,
    PACK_DRAFT, PROBE_PACK, PROJECT_DRAFT, REQUEST_NOTICE, SECRET_FILES, SECRET_NAMES,
    UNANSWERED_NOTICE, names as builtin_names,
};
pub use command::{BUILT_IN_COMMANDS, CommandSpec, CommandStep};
pub use condition::ManifestRule;
pub use delimiters::DelimiterLines;
pub use front_matter::{FrontMatter, VariableSpec};
pub use layer::{Layer, LayerContent, PerTier, file_for};
pub use lint::{LintFinding, lint};
pub use manifest::{ActionUse, Document, Edits, ModeSpec, NextTarget, ParameterSource};
pub use placeholder::{Token, tokens};
pub use problem::{NamedOperation, OperationRole, PackProblem, PackReport, ProblemSeverity};
pub use required_value::RequiredValue;
pub use rule::{Rule, RuleFault};
pub use rule_facts::{FactValue, RuleFacts};
pub use search_path::{
    Candidate, DEFINITIONS, Prose, ProseOwner, SearchPath, is_definition, is_read_definition,
};
pub use template::{SystemTemplateMetadata, Template};
pub use templates::{FoundTemplate, ListedTemplate, Templates};
pub use text::ProseText;

use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    ActionSpec, ArtifactProgress, ArtifactSpec, Format, Mode, SectionVisibility, StateDocument,
    StateSpec, Tier,
};

/// A pack that was loaded and checked: the modes, layers, prose and actions of a workflow.
#[expect(missing_docs, reason = "`name` needs no explanation")]
#[derive(Clone, Debug)]
pub struct Pack {
    pub name: String,
    /// Purpose of the process.
    pub description: String,
    /// Location of the manifest, for display.
    pub origin: String,
    /// Owner of the manifest.
    pub owner: ProseOwner,
    /// First mode of a session.
    pub start: Mode,
    /// Default rendering of prompts.
    pub rendering: Format,
    /// Separator of layers in flat text.
    pub separator: String,
    /// Tokens of the window reserved for the reply.
    pub reserve: Option<PerTier<u64>>,
    /// Percentage of its space to which an overflowing history is truncated.
    pub hysteresis: Option<u8>,
    /// Number of times that a mode may be entered, and of turns in it without progress, before the session stops
    /// for the user.
    pub rounds: u64,
    /// Aliases of modes.
    pub aliases: IndexMap<String, Mode>,
    /// Variables that prompts can use.
    pub variables: Vec<String>,
    /// Headings that every template of the pack must have.
    pub sections: Vec<String>,
    /// Markers defined by the pack, with their values from mild to severe.
    pub markers: IndexMap<String, Vec<String>>,
    /// Aliases of tags in replies.
    pub tags: IndexMap<String, String>,
    /// Text that asks an agent for the missing parts of its reply.
    pub repair: Option<ProseText>,
    /// Actions that an agent may request.
    pub actions: IndexMap<String, ActionSpec>,
    /// Modes and operation of each action.
    pub uses: IndexMap<String, ActionUse>,
    /// Commands of the user in a conversation, by name.
    pub commands: IndexMap<String, CommandSpec>,
    /// Sections of the session's state.
    pub state: StateSpec,
    /// Documents that a session produces, by key.
    pub artifacts: IndexMap<String, ArtifactSpec>,
    /// Layers of the prompt, in order.
    pub layers: Vec<Layer>,
    /// Modes, in order.
    pub modes: IndexMap<Mode, ModeSpec>,
    /// Skeletons by name.
    pub skeletons: BTreeMap<String, Prose>,
    /// Prose of the layers by file name.
    pub texts: BTreeMap<String, ProseText>,
    /// Rendered action lists by mode and tier.
    action_lists: HashMap<(Mode, Tier), String>,
    /// Lines that delimit the parts of prompts.
    pub delimiters: DelimiterLines,
    places: SearchPath,
    /// Folder of prompts that the pack was made from; `None` if it has a manifest.
    prompts: Option<PathBuf>,
}

/// Returns the progress of an artifact, as recorded in a state document.
fn progress_of(artifact: &ArtifactSpec, key: &str, document: &StateDocument) -> ArtifactProgress {
    match document.artifacts.get(key) {
        Some(record) => artifact.progress(record),
        None => artifact.not_started(),
    }
}

impl Pack {
    /// Loads and checks a pack.
    ///
    /// # Errors
    ///
    /// `NameInvalid` if the name is not valid, `PackNotFound` with the paths searched, `PackInvalid` with every error
    /// and its location.
    pub fn load(name: &str, places: &SearchPath) -> Result<Self> {
        Self::check(name, places)?.into_pack()
    }

    /// Checks a pack and reports errors, which prevent loading, and warnings.
    ///
    /// Which operations exist depends on the registry, so the report lists the operations instead of checking them.
    ///
    /// # Errors
    ///
    /// `NameInvalid` if the name is not valid, `PackNotFound` with the paths searched. Problems of the pack are in the
    /// report.
    pub fn check(name: &str, places: &SearchPath) -> Result<PackReport> {
        // The name becomes part of a path, so it is validated before any file is read.
        let name = Mode::new(name).map_err(|_| {
            Error::new(
                ErrorKind::NameInvalid,
                format!("invalid pack name {name:?}"),
            )
            .with_hint(format!("expected {}", Mode::RULE))
        })?;
        let file = format!("packs/{name}/pack.yaml");
        let Some(prose) = places.find(&file)? else {
            let searched = places.candidates(&file);
            let list: String = searched
                .iter()
                .map(|place| format!("\n  {}", place.origin))
                .collect();
            return Err(Error::new(
                ErrorKind::PackNotFound,
                format!("unknown pack `{name}`; searched, in order:{list}"),
            )
            .with_hint(format!("known packs: {}", Self::names(places).join(", "))));
        };

        Ok(check::check_pack(name.as_str(), &prose, places))
    }

    /// Loads a pack from memory: its files with their paths inside the pack's folder, such as `pack.yaml`.
    ///
    /// No file is opened. Missing files are taken from the shipped pack of the same name, if there is one.
    ///
    /// ```
    /// use agentd::Pack;
    ///
    /// let manifest = "
    /// format: 1
    /// name: greeter
    /// description: Greets people.
    /// start: greet
    /// layers:
    ///   - {id: identity, holds: text, text: identity.md, class: pinned, zone: stable}
    ///   - {id: request, holds: instructions, class: pinned, zone: turn}
    /// modes:
    ///   greet: {permission: read-only, next: {otherwise: done}}
    /// ";
    /// let files = [("pack.yaml", manifest), ("identity.md", "You greet people.")];
    /// let pack = Pack::from_files("greeter", files)?;
    /// assert_eq!(pack.start.as_str(), "greet");
    /// # Ok::<(), agentd::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Pack::load`].
    pub fn from_files<P, T>(name: &str, files: impl IntoIterator<Item = (P, T)>) -> Result<Self>
    where
        P: AsRef<str>,
        T: Into<Cow<'static, str>>,
    {
        let files = files
            .into_iter()
            .map(|(path, text)| (format!("packs/{name}/{}", path.as_ref()), text));
        Self::load(name, &SearchPath::default().with_files(files))
    }

    /// Returns the names of all packs, sorted.
    #[must_use]
    pub fn names(places: &SearchPath) -> Vec<String> {
        places
            .folders_with("packs", "pack.yaml")
            .into_iter()
            .filter(|name| Mode::new(name).is_ok())
            .collect()
    }

    /// Loads the pack again from the same location.
    ///
    /// # Errors
    ///
    /// Those of [`Pack::load`], or of [`Pack::from_prompts`] if it was made from a folder of prompts.
    pub fn reloaded(&self) -> Result<Self> {
        match &self.prompts {
            Some(folder) => Self::from_prompts(folder.clone()),
            None => Self::load(&self.name, &self.places),
        }
    }

    /// Reads the prose files of the pack's folder that no layer uses. Unreadable ones are skipped.
    #[must_use]
    pub fn other_texts(&self) -> BTreeMap<String, ProseText> {
        let folder = format!("packs/{}", self.name);
        let read = |name: String| {
            let prose = self.places.find(&format!("{folder}/{name}")).ok()??;
            let text = ProseText::read(&name, &prose).ok()?;
            Some((name, text))
        };

        self.places
            .names_in(&folder)
            .into_iter()
            .filter(|name| !name.contains('/') && !self.texts.contains_key(name))
            .filter_map(read)
            .collect()
    }

    /// Returns a mode.
    ///
    /// # Errors
    ///
    /// `UnknownMode` with the modes of the pack.
    pub fn mode(&self, mode: &Mode) -> Result<&ModeSpec> {
        self.modes.get(mode).ok_or_else(|| {
            let names: Vec<_> = self.modes.keys().map(Mode::as_str).collect();
            Error::new(
                ErrorKind::UnknownMode,
                format!("pack `{}` has no mode `{mode}`", self.name),
            )
            .with_hint(format!("known modes: {}", names.join(", ")))
        })
    }

    /// Resolves an alias to its mode; any other name is returned unchanged.
    #[must_use]
    pub fn resolved(&self, name: &Mode) -> Mode {
        self.aliases.get(name.as_str()).unwrap_or(name).clone()
    }

    /// Returns the skeletons of a mode, in order.
    pub fn skeletons_of(&self, spec: &ModeSpec) -> impl Iterator<Item = &Prose> {
        spec.skeletons
            .iter()
            .filter_map(|name| self.skeletons.get(name))
    }

    /// Returns the actions that a mode may use, in order.
    pub fn actions_of(&self, mode: &Mode) -> impl Iterator<Item = (&String, &ActionSpec)> {
        self.uses
            .iter()
            .filter(move |(_, used)| used.modes.contains(mode))
            .filter_map(|(name, _)| self.actions.get_key_value(name))
    }

    /// Returns the actions that prompts of a mode offer: those that it may use and that are available.
    pub fn offered_actions(&self, mode: &Mode) -> impl Iterator<Item = (&String, &ActionSpec)> {
        self.actions_of(mode)
            .filter(|(name, _)| self.uses.get(*name).is_some_and(|used| used.available))
    }

    /// Returns the commands of the user that a mode allows, in order.
    pub fn commands_of(&self, mode: &Mode) -> impl Iterator<Item = (&String, &CommandSpec)> {
        self.commands
            .iter()
            .filter(move |(_, command)| command.is_allowed_in(mode))
    }

    /// Returns the visibility of the state's sections in a mode.
    #[must_use]
    pub fn visibility(&self, mode: &Mode) -> SectionVisibility {
        self.state.modes.get(mode).cloned().unwrap_or_default()
    }

    /// Returns the artifacts that the prompts of a mode list, with their progress.
    ///
    /// A state file with a work order replaces the pack's own artifacts.
    #[must_use]
    pub fn work_order(&self, mode: &Mode, document: &StateDocument) -> Vec<ArtifactProgress> {
        if !document.work_order.is_empty() {
            return document.work_order.clone();
        }
        self.artifacts
            .iter()
            .filter(|(_, artifact)| artifact.is_listed_in(mode))
            .map(|(key, artifact)| progress_of(artifact, key, document))
            .collect()
    }

    /// Returns the position of a mode in the pack's order; `None` for an unknown mode.
    #[must_use]
    pub fn mode_index(&self, mode: &Mode) -> Option<usize> {
        self.modes.get_index_of(mode)
    }

    /// Returns all artifacts with their progress, whatever modes list them.
    #[must_use]
    pub fn artifact_progress(&self, document: &StateDocument) -> Vec<ArtifactProgress> {
        if !document.work_order.is_empty() {
            return document.work_order.clone();
        }
        self.artifacts
            .iter()
            .map(|(key, artifact)| progress_of(artifact, key, document))
            .collect()
    }

    /// Returns the rendered list of a mode's actions.
    #[must_use]
    pub fn action_list(&self, mode: &Mode, tier: Tier) -> &str {
        self.action_lists
            .get(&(mode.clone(), tier))
            .map_or("", String::as_str)
    }

    fn with_action_lists(mut self) -> Self {
        for (mode, tier) in self
            .modes
            .keys()
            .flat_map(|mode| Tier::ALL.map(|tier| (mode.clone(), tier)))
        {
            let list = actions::available_actions(self.offered_actions(&mode), tier);
            self.action_lists.insert((mode, tier), list);
        }
        self
    }

    /// Returns the text of a file for a tier, or else for the next larger tier that has one.
    #[must_use]
    pub fn text(&self, file: &str, tier: Tier) -> Option<&ProseText> {
        Tier::ALL
            .into_iter()
            .rev()
            .filter(|other| *other >= tier)
            .find_map(|tier| self.texts.get(&file_at(file, tier)))
    }

    /// Returns the names of the context blocks that callers may supply.
    pub fn block_names(&self) -> impl Iterator<Item = &str> {
        self.layers
            .iter()
            .flat_map(|layer| layer.blocks.iter().map(String::as_str))
    }

    /// Returns true for a pack of conversations: its prompts show earlier turns.
    #[must_use]
    pub fn is_chat(&self) -> bool {
        self.has_layer(LayerContent::History)
    }

    /// Returns true if the pack has a layer with this content.
    #[must_use]
    pub fn has_layer(&self, what: LayerContent) -> bool {
        self.layers.iter().any(|layer| layer.holds == what)
    }
}

/// Returns the name of a file for a tier: `identity.md`, `identity.medium.md`, `identity.minimal.md`.
fn file_at(file: &str, tier: Tier) -> String {
    match (tier, file.strip_suffix(".md")) {
        (Tier::Full, _) | (_, None) => file.to_owned(),
        (tier, Some(stem)) => format!("{stem}.{}.md", tier.name()),
    }
}
