//! Makes a pack from a plain folder of prompts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use indexmap::IndexMap;

use super::builtin::BUILDER_PACK;
use super::delimiters::DelimiterLines;
use super::search_path::{self, ProseOwner};
use super::{Layer, Pack, ProseText, SearchPath};
use crate::error::{Error, ErrorKind, Result};
use crate::models::Mode;

/// Name of every pack made from a folder of prompts.
const PROMPTS_PACK_NAME: &str = "prompts";

impl Pack {
    /// Makes a pack for [`PromptBuilder`](crate::compose::PromptBuilder) from a folder of Markdown files, without a
    /// `pack.yaml`.
    ///
    /// Each `NAME.md` is a template, and also the identity of the mode NAME if that is a valid mode name, such as
    /// `task-agent`. The other layers and the aliases of modes are those of the shipped pack `taskqueue`:
    /// `chat_agent_system.md` is also found as `supervisor`.
    ///
    /// # Errors
    ///
    /// `TemplateNotFound` for a folder without a usable file, `FileUnusable` for a file that cannot be read, and
    /// `TemplateInvalid` with the location, for one with broken front matter.
    pub fn from_prompts(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let mut texts = BTreeMap::new();
        for (name, prose) in search_path::markdown_files(&folder)? {
            let text = ProseText::read(&name, &prose)?;
            texts.insert(name, text);
        }

        let shipped = Self::load(BUILDER_PACK, &SearchPath::default())?;
        let spec = &shipped.modes[&shipped.start];
        let identities = texts
            .keys()
            .filter_map(|file| Mode::new(file.strip_suffix(".md")?).ok());
        let modes: IndexMap<Mode, _> = identities.map(|mode| (mode, spec.clone())).collect();
        let Some(start) = modes.keys().next().cloned() else {
            let message = format!("`{}` has no prompts", folder.display());
            return Err(Error::new(ErrorKind::TemplateNotFound, message)
                .with_hint("a prompt is a file with the name of a mode, such as `task-agent.md`"));
        };

        // Of the layers with files, only those with `{mode}` in the name can be filled from the folder.
        let layers: Vec<Layer> = shipped
            .layers
            .iter()
            .filter(|layer| layer.files().all(|file| file.contains("{mode}")))
            .cloned()
            .collect();
        let used = texts
            .values()
            .flat_map(|text| &text.variables)
            .map(|variable| variable.name.clone());
        let mut variables = shipped.variables.clone();
        variables.extend(used);

        Ok(Self {
            name: PROMPTS_PACK_NAME.to_owned(),
            description: format!("Prompts of {}.", folder.display()),
            origin: folder.display().to_string(),
            owner: ProseOwner::User,
            start,
            aliases: keep_aliases(&shipped, &modes),
            variables,
            delimiters: DelimiterLines::collect(
                &shipped.separator,
                &shipped.sections,
                &layers,
                &texts,
            ),
            layers,
            modes,
            texts,
            prompts: Some(folder),
            ..shipped
        })
    }
}

/// Returns the shipped aliases for which the folder has exactly one of the two names; each points to that name.
fn keep_aliases<T>(shipped: &Pack, modes: &IndexMap<Mode, T>) -> IndexMap<String, Mode> {
    let mut aliases = IndexMap::new();
    for (alias, mode) in &shipped.aliases {
        let Ok(other) = Mode::new(alias.as_str()) else {
            continue;
        };
        match (modes.contains_key(mode), modes.contains_key(&other)) {
            (true, false) => aliases.insert(alias.clone(), mode.clone()),
            (false, true) => aliases.insert(mode.to_string(), other),
            (true, true) | (false, false) => None,
        };
    }

    aliases
}
