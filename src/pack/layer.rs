//! Layers of a prompt, as listed in a manifest.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde::Deserialize;

use super::condition::ManifestRule;
use crate::models::{CacheZone, ContextKind, Mode, RetentionClass, Tier};
use crate::text::yaml::WithPlace;

/// A part of the prompt: its content, its condition, and how it may be shortened.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Name of the layer, and prefix of the ids of its blocks.
    pub id: String,
    /// Kind of content.
    pub holds: LayerContent,
    /// Class that decides when blocks of the layer are shortened or omitted.
    pub class: RetentionClass,
    /// Cache zone, by how often the text changes.
    pub zone: CacheZone,
    /// Condition for including the layer.
    #[serde(default)]
    pub when: Option<ManifestRule>,
    /// File in the pack; `{mode}` is replaced by the mode.
    #[serde(default)]
    pub(crate) text: Option<WithPlace<String>>,
    /// Alternative files; the first one whose condition holds is used.
    #[serde(default)]
    pub(crate) choose: Vec<WithPlace<TextChoice>>,
    /// Files that are appended to the text, or to the instructions, by mode.
    #[serde(default)]
    pub(crate) adds: IndexMap<Mode, Vec<WithPlace<String>>>,
    /// File with the user's part of an example turn.
    #[serde(default)]
    pub(crate) user: Option<WithPlace<String>>,
    /// File with the agent's part of an example turn.
    #[serde(default)]
    pub(crate) assistant: Option<WithPlace<String>>,
    /// Largest tier at which the layer is empty.
    #[serde(default)]
    pub none_at: Option<Tier>,
    /// Heading in flat text; `{name}` is replaced by the name of a context item.
    #[serde(default)]
    pub heading: Option<String>,
    /// Prefix of the content in flat text, on the same line.
    #[serde(default)]
    pub prefix: String,
    /// Separator before the layer, instead of the pack's separator.
    #[serde(default)]
    pub join: Option<String>,
    /// Maximum tokens of the layer's prose; checked by `agentd pack check`.
    #[serde(default)]
    pub budget: Option<PerTier<u64>>,
    /// Minimum tokens of an elastic layer, unless its content is shorter.
    #[serde(default)]
    pub floor: Option<PerTier<u64>>,
    /// Maximum tokens of an elastic layer.
    #[serde(default)]
    pub cap: Option<PerTier<u64>>,
    /// Maximum number of items of an elastic layer.
    #[serde(default)]
    pub items: Option<PerTier<usize>>,
    /// Names of blocks that a caller may supply to a layer of artifacts, such as `task`.
    #[serde(default)]
    pub blocks: Vec<String>,
    /// Categories of knowledge that are included before all others.
    #[serde(default)]
    pub keep: Vec<String>,
    /// Set on a layer of artifacts to include the files of the pack's artifacts that the mode lists.
    #[serde(default)]
    pub mode_artifacts: bool,
    /// Path of the state field with the file that a layer of files includes, such as `active_context.file`.
    #[serde(default)]
    pub state_file: Option<String>,
}

/// A file that is used if its condition holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextChoice {
    pub(crate) when: ManifestRule,
    pub(crate) text: String,
    /// Variables that are set to the value of a fact.
    #[serde(default)]
    pub(crate) values: IndexMap<String, String>,
    /// Default values of variables, unless the request is strict.
    #[serde(default)]
    pub(crate) defaults: IndexMap<String, String>,
}

/// Kind of content of a layer.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerContent {
    /// The system template.
    Template,
    /// Prose of the pack.
    Text,
    /// The session state as XML.
    State,
    /// Knowledge entries, inside the session state.
    Knowledge,
    /// The project's description.
    Project,
    /// Context items that are artifacts, or any other named content.
    Artifacts,
    /// Context items that are files of the project.
    Files,
    /// Context items that are remarks from earlier steps.
    Thoughts,
    /// One example turn.
    Turn,
    /// Earlier turns.
    History,
    /// The user's text.
    Instructions,
}

impl LayerContent {
    /// Returns the kind of the layer's context items; `None` if the content is not context items.
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
#[expect(missing_docs, reason = "the fields are the names of the tiers")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerTier<T> {
    pub full: T,
    pub medium: T,
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

    /// Returns the files of the layer, each with its location in the manifest.
    pub(super) fn placed_files(&self) -> impl Iterator<Item = (&str, serde_saphyr::Location)> {
        let direct = [&self.text, &self.user, &self.assistant]
            .into_iter()
            .flatten()
            .map(|file| (file.value.as_str(), file.referenced));
        let chosen = self
            .choose
            .iter()
            .map(|choice| (choice.value.text.as_str(), choice.referenced));
        let added = self
            .adds
            .values()
            .flatten()
            .map(|file| (file.value.as_str(), file.referenced));

        direct.chain(chosen).chain(added)
    }

    /// Returns the conditions of the layer.
    pub(super) fn conditions(&self) -> impl Iterator<Item = &ManifestRule> {
        self.when
            .iter()
            .chain(self.choose.iter().map(|choice| &choice.value.when))
    }

    /// Returns true if the session adds items to the layer, in addition to those of the request.
    #[must_use]
    pub fn has_session_items(&self) -> bool {
        self.mode_artifacts || self.state_file.is_some()
    }

    /// Returns the heading of the layer, or of each of its items, in flat text; may be empty.
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

/// Replaces `{mode}` in a file name.
#[must_use]
pub fn file_for(name: &str, mode: &Mode) -> String {
    name.replace("{mode}", mode.as_str())
}
