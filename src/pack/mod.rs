//! Packs: processes as data. Modes, layers, prose, actions, permissions and verdicts, all checked when a pack is loaded.
//!
//! [`Pack::load`] finds a pack in the project, in the user's folder or among the shipped ones, [`Pack::from_files`] takes one
//! from memory, [`Pack::from_prompts`] a plain folder of prompts. [`Templates`] finds system templates of agents.
//!
//! ```
//! use agentd::models::Mode;
//! use agentd::{Pack, Places};
//!
//! let pack = Pack::load("sdd", &Places::default())?;
//! assert_eq!(pack.start.as_str(), "plan");
//! let review = pack.mode(&Mode::new("review")?)?;
//! assert!(review.verdict_required);
//! # Ok::<(), agentd::Error>(())
//! ```

mod actions;
mod builtin;
mod check;
mod check_layers;
mod check_process;
mod check_prose;
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
mod rule;
mod search_path;
mod sections;
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
pub use condition::Condition;
pub use delimiters::DelimiterLines;
pub use front_matter::{FrontMatter, VariableSpec};
pub use layer::{Layer, LayerContent, PerTier, file_for};
pub use lint::{LintFinding, lint};
pub use manifest::{ActionUse, Document, Edits, ModeSpec, NextTarget};
pub use placeholder::{Token, tokens};
pub use problem::{NamedOperation, OperationRole, PackProblem, PackReport, ProblemSeverity};
pub use rule::{FactValue, Facts, Rule, RuleFault};
pub use search_path::{
    Candidate, DEFINITIONS, Owner, Places, Prose, is_definition, is_read_definition,
};
pub use sections::{Section, StateSections};
pub use template::{SystemTemplateMetadata, Template};
pub use templates::{FoundTemplate, ListedTemplate, Templates};
pub use text::Text;

use crate::error::{Error, ErrorKind, Result};
use crate::models::{ActionSpec, Format, Mode, Tier};

/// A process that was loaded and holds together.
#[derive(Clone, Debug)]
pub struct Pack {
    /// The pack's name.
    pub name: String,
    /// What the process is for.
    pub description: String,
    /// Where its manifest was found, as people read it.
    pub origin: String,
    /// Who its manifest belongs to.
    pub owner: Owner,
    /// The mode a session starts in.
    pub start: Mode,
    /// How the prompt is written unless the caller says otherwise.
    pub rendering: Format,
    /// What separates layers in flat text.
    pub separator: String,
    /// How many tokens of the window are kept for the reply.
    pub reserve: Option<PerTier<u64>>,
    /// To how many percent of its room the history is cut when it overflows.
    pub hysteresis: Option<u8>,
    /// How often a mode may be entered, and how many turns in it may bring nothing, before a person is asked.
    pub rounds: u64,
    /// Other names of modes.
    pub aliases: IndexMap<String, Mode>,
    /// The variables that are filled.
    pub variables: Vec<String>,
    /// The headings that every template of the pack must hold.
    pub sections: Vec<String>,
    /// Markers of the pack's own: their values, from mild to severe.
    pub markers: IndexMap<String, Vec<String>>,
    /// Other names of tags in replies.
    pub tags: IndexMap<String, String>,
    /// The words that ask an agent again for what its reply lacks.
    pub repair: Option<Text>,
    /// What an agent may ask for.
    pub actions: IndexMap<String, ActionSpec>,
    /// Where each action may be used, and what carries it out.
    pub uses: IndexMap<String, ActionUse>,
    /// The prompt's layers, in order.
    pub layers: Vec<Layer>,
    /// The modes, in order.
    pub modes: IndexMap<Mode, ModeSpec>,
    /// The skeletons, by name.
    pub skeletons: BTreeMap<String, Prose>,
    /// The prose of the layers, by file name.
    pub texts: BTreeMap<String, Text>,
    /// The lists of actions that agents are shown, by mode and tier.
    action_lists: HashMap<(Mode, Tier), String>,
    /// The headings of its prompts.
    pub delimiters: DelimiterLines,
    places: Places,
    /// Folder of prompts that the pack was made from, if it has no manifest.
    prompts: Option<PathBuf>,
}

impl Pack {
    /// Loads a pack and checks all of it.
    ///
    /// # Errors
    ///
    /// `PackNotFound` naming the places searched; `PackInvalid` with the place, naming every fault that was found.
    pub fn load(name: &str, places: &Places) -> Result<Self> {
        Self::check(name, places)?.into_pack()
    }

    /// Checks all of a pack: problems that keep it from loading, and those that are only suspicious.
    ///
    /// Whether the operations that it names exist depends on the registry, so the report lists them.
    ///
    /// # Errors
    ///
    /// `NameInvalid`, and `PackNotFound` naming the places searched; a pack with faults is a report.
    pub fn check(name: &str, places: &Places) -> Result<PackReport> {
        // A pack's name is part of a path, so it obeys the rule for names before any file is looked at.
        let name = Mode::new(name).map_err(|_| {
            Error::new(
                ErrorKind::NameInvalid,
                format!("{name:?} is not a pack's name"),
            )
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
                format!("no pack `{name}`; searched, in order:{list}"),
            )
            .with_hint(format!("there are {}", Self::names(places).join(", "))));
        };
        Ok(check::check_pack(name.as_str(), &prose, places))
    }

    /// Loads a pack from memory: its files with their paths inside the pack's folder, such as `pack.yaml`.
    ///
    /// No file is opened. A file that is not given is taken from the shipped pack of the same name, if there is one.
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
        Self::load(name, &Places::default().with_files(files))
    }

    /// Returns the names of the packs at every place, sorted.
    #[must_use]
    pub fn names(places: &Places) -> Vec<String> {
        places
            .folders_with("packs", "pack.yaml")
            .into_iter()
            .filter(|name| Mode::new(name).is_ok())
            .collect()
    }

    /// Reads the pack again.
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

    /// Reads the prose files of the pack's folder that no layer names. One that cannot be read is no part of the pack.
    #[must_use]
    pub fn other_texts(&self) -> BTreeMap<String, Text> {
        let folder = format!("packs/{}", self.name);
        let names = self.places.names_in(&folder).into_iter();
        let names = names.filter(|name| !name.contains('/') && !self.texts.contains_key(name));
        let read = |name: String| {
            let prose = self.places.find(&format!("{folder}/{name}")).ok()??;
            let text = Text::read(&name, &prose).ok()?;
            Some((name, text))
        };
        names.filter_map(read).collect()
    }

    /// Returns a mode.
    ///
    /// # Errors
    ///
    /// `UnknownMode` naming the modes there are.
    pub fn mode(&self, mode: &Mode) -> Result<&ModeSpec> {
        self.modes.get(mode).ok_or_else(|| {
            let known: Vec<_> = self.modes.keys().map(Mode::as_str).collect();
            Error::new(
                ErrorKind::UnknownMode,
                format!("the pack `{}` has no mode `{mode}`", self.name),
            )
            .with_hint(format!("its modes are {}", known.join(", ")))
        })
    }

    /// Returns the mode that a name or an alias stands for.
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
        let used = self
            .uses
            .iter()
            .filter(move |(_, used)| used.modes.contains(mode));
        used.filter_map(|(name, _)| self.actions.get_key_value(name))
    }

    /// Returns the list of a mode's actions as an agent is shown it.
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
            let list = actions::available_actions(self.actions_of(&mode), tier);
            self.action_lists.insert((mode, tier), list);
        }
        self
    }

    /// Returns the text of a file for a tier: its own, or the next larger one.
    #[must_use]
    pub fn text(&self, file: &str, tier: Tier) -> Option<&Text> {
        let tiers = Tier::ALL.into_iter().rev().filter(|other| *other >= tier);
        tiers
            .filter_map(|tier| self.texts.get(&file_at(file, tier)))
            .next()
    }

    /// Returns the names of the blocks that callers may give to prompts of the pack.
    pub fn block_names(&self) -> impl Iterator<Item = &str> {
        self.layers
            .iter()
            .flat_map(|layer| layer.blocks.iter().map(String::as_str))
    }

    /// Tells whether a layer of the pack holds something.
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
