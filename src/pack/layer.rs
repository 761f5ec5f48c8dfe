//! The layers of a prompt, as a pack lists them.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde::Deserialize;

use super::condition::Condition;
use crate::models::{Class, ContextKind, Mode, Tier, Zone};
use crate::text::yaml::Placed;

/// A slot of the prompt.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// The layer's name, with which the ids of its blocks start.
    pub id: String,
    /// What fills it.
    pub holds: LayerContent,
    /// How hard its blocks hold their place.
    pub class: Class,
    /// How often its text changes.
    pub zone: Zone,
    /// When it is there at all.
    #[serde(default)]
    pub when: Option<Condition>,
    /// Its file in the pack; `{mode}` stands for the mode.
    #[serde(default)]
    pub(crate) text: Option<Placed<String>>,
    /// Files to choose from: the first whose condition holds.
    #[serde(default)]
    pub(crate) choose: Vec<Placed<TextChoice>>,
    /// Files that follow the text, or the instructions, in certain modes.
    #[serde(default)]
    pub(crate) adds: IndexMap<Mode, Vec<Placed<String>>>,
    /// The user's part of an example turn.
    #[serde(default)]
    pub(crate) user: Option<Placed<String>>,
    /// The agent's part of an example turn.
    #[serde(default)]
    pub(crate) assistant: Option<Placed<String>>,
    /// The largest tier at which the layer is empty.
    #[serde(default)]
    pub none_at: Option<Tier>,
    /// What stands over it in flat text; `{name}` stands for the name of a context item.
    #[serde(default)]
    pub heading: Option<String>,
    /// What stands before its text in flat text, on the same line.
    #[serde(default)]
    pub prefix: String,
    /// What separates it from what comes before, instead of the pack's separator.
    #[serde(default)]
    pub join: Option<String>,
    /// How many tokens its prose may have; `agentd pack check` holds it to that.
    #[serde(default)]
    pub budget: Option<PerTier<u64>>,
    /// How many tokens an elastic layer is sure of, as far as it has content.
    #[serde(default)]
    pub floor: Option<PerTier<u64>>,
    /// How many tokens an elastic layer takes at most.
    #[serde(default)]
    pub cap: Option<PerTier<u64>>,
    /// How many items an elastic layer takes at most.
    #[serde(default)]
    pub items: Option<PerTier<usize>>,
    /// Names of blocks that a caller may give to a layer of artifacts, such as `task`.
    #[serde(default)]
    pub blocks: Vec<String>,
    /// Categories of knowledge that others do not push out.
    #[serde(default)]
    pub keep: Vec<String>,
}

/// A file that is taken if its condition holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextChoice {
    /// When it is taken.
    pub(crate) when: Condition,
    /// The file.
    pub(crate) text: String,
    /// Variables that have the value of a fact.
    #[serde(default)]
    pub(crate) values: IndexMap<String, String>,
    /// Texts for variables that the request has no value for, unless it is strict.
    #[serde(default)]
    pub(crate) defaults: IndexMap<String, String>,
}

/// What fills a layer.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerContent {
    /// The system template.
    Template,
    /// Prose of the pack.
    Text,
    /// The session state, as XML.
    State,
    /// What is known, inside the session state.
    Knowledge,
    /// What the project says of itself.
    Project,
    /// Artifacts, or any other named texts.
    Artifacts,
    /// Files.
    Files,
    /// Thoughts.
    Thoughts,
    /// One example turn.
    Turn,
    /// What was said before.
    History,
    /// The user's text.
    Instructions,
}

impl LayerContent {
    /// Returns the kind of context item that fills the layer, if context does.
    #[must_use]
    pub fn context_kind(self) -> Option<ContextKind> {
        match self {
            Self::Artifacts => Some(ContextKind::Artifact),
            Self::Files => Some(ContextKind::File),
            Self::Thoughts => Some(ContextKind::Thought),
            _ => None,
        }
    }
}

/// A value for each tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerTier<T> {
    /// For the full tier.
    pub full: T,
    /// For the medium tier.
    pub medium: T,
    /// For the minimal tier.
    pub minimal: T,
}

impl<T: Copy> PerTier<T> {
    /// Returns the value for a tier.
    #[must_use]
    pub fn at(&self, tier: Tier) -> T {
        match tier {
            Tier::Full => self.full,
            Tier::Medium => self.medium,
            Tier::Minimal => self.minimal,
        }
    }
}

impl Layer {
    /// Returns the names of the prose files of the layer, such as `identity.md`; `{mode}` is not replaced.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.placed_files().map(|(file, _)| file)
    }

    /// Returns the files of the layer, each with its place in the manifest.
    pub(super) fn placed_files(&self) -> impl Iterator<Item = (&str, serde_saphyr::Location)> {
        let own = [&self.text, &self.user, &self.assistant]
            .into_iter()
            .flatten();
        let own = own.map(|file| (file.value.as_str(), file.referenced));
        let chosen = self
            .choose
            .iter()
            .map(|choice| (choice.value.text.as_str(), choice.referenced));
        let added = self
            .adds
            .values()
            .flatten()
            .map(|file| (file.value.as_str(), file.referenced));
        own.chain(chosen).chain(added)
    }

    /// Returns the conditions of the layer.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.when
            .iter()
            .chain(self.choose.iter().map(|choice| &choice.value.when))
    }

    /// Returns what stands over the layer's text, or over each of its items, in flat text.
    #[must_use]
    pub fn heading_text(&self) -> Cow<'_, str> {
        match (&self.heading, self.holds.context_kind()) {
            (Some(heading), _) => Cow::Borrowed(heading),
            (None, Some(kind)) => Cow::Owned(format!("# {}: {{name}}", kind.element())),
            (None, None) if self.holds == LayerContent::Instructions => {
                Cow::Borrowed("# instructions")
            }
            (None, None) => Cow::Borrowed(""),
        }
    }
}

/// Returns the name of a file for a mode.
#[must_use]
pub fn file_for(name: &str, mode: &Mode) -> String {
    name.replace("{mode}", mode.as_str())
}
