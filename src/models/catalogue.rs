//! Catalogue of built-in and user-defined models.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::{CountKind, ModelSpec, Reliability, Tier, TokenizerSpec};
use crate::error::{Error, ErrorKind, Result};
use crate::text::yaml::{self, WithPlace};

/// Context window of an unknown model.
const ASSUMED_WINDOW_TOKENS: u64 = 32_768;

/// Tokenizer name and provider of an unknown model.
const UNKNOWN: &str = "unknown";

/// Known models and tokenizers.
#[derive(Clone, Debug)]
pub struct Catalogue {
    models: Vec<ModelSpec>,
    tokenizers: BTreeMap<String, TokenizerSpec>,
}

/// Format of a catalogue file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueFile {
    format: WithPlace<u64>,
    #[expect(dead_code, reason = "the date is for readers of the file")]
    as_of: String,
    tokenizers: BTreeMap<String, TokenizerSpec>,
    models: Vec<WithPlace<ModelSpec>>,
}

impl Catalogue {
    /// Returns the built-in catalogue, which is parsed once.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if the built-in file is invalid, which tests rule out.
    pub fn built_in() -> Result<&'static Self> {
        static PARSED: OnceLock<Catalogue> = OnceLock::new();
        if let Some(catalogue) = PARSED.get() {
            return Ok(catalogue);
        }

        let text = include_str!("../../data/models.yaml");
        let catalogue = Self::read(text, "built-in:data/models.yaml")?;
        Ok(PARSED.get_or_init(|| catalogue))
    }

    /// Parses a catalogue file.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the location, for invalid YAML, a duplicate name, an undefined tokenizer, or a model without a
    /// context window.
    pub fn read(text: &str, origin: &str) -> Result<Self> {
        let file: CatalogueFile = yaml::read(text, origin, 1, ErrorKind::ConfigInvalid)?;
        let invalid = |location, message: String| {
            Error::new(ErrorKind::ConfigInvalid, message)
                .with_place(yaml::place(text, origin, 1, location))
        };
        if file.format.value != 1 {
            let message = format!(
                "unsupported format {} of the model catalogue; expected 1",
                file.format.value
            );
            return Err(invalid(file.format.referenced, message));
        }

        let mut catalogue = Self {
            models: Vec::new(),
            tokenizers: file.tokenizers,
        };
        for model in file.models {
            catalogue
                .check(&model.value)
                .map_err(|message| invalid(model.referenced, message))?;

            let mut names = std::iter::once(&model.value.id).chain(&model.value.aliases);
            if let Some(name) = names.find(|name| catalogue.position(name).is_some()) {
                return Err(invalid(
                    model.referenced,
                    format!("duplicate model `{name}`"),
                ));
            }
            catalogue.models.push(model.value);
        }
        Ok(catalogue)
    }

    /// Adds a model, or replaces the one with the same name.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` for an undefined tokenizer or a model without a context window.
    pub fn add(&mut self, model: ModelSpec) -> Result<()> {
        self.check(&model)
            .map_err(|message| Error::new(ErrorKind::ConfigInvalid, message))?;
        match self.position(&model.id) {
            Some(index) => self.models[index] = model,
            None => self.models.push(model),
        }
        Ok(())
    }

    /// Returns all models, in the order of the file.
    #[must_use]
    pub fn models(&self) -> &[ModelSpec] {
        &self.models
    }

    /// Returns the model with an id or alias, ignoring case. The name may have the prefix `PROVIDER:`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&ModelSpec> {
        self.position(name).map(|index| &self.models[index])
    }

    /// Returns the model with a name, like [`Self::find`]. For an unknown name, logs a warning and returns
    /// [`Self::assumed`].
    #[must_use]
    pub fn find_or_assume(&self, name: &str) -> ModelSpec {
        if let Some(model) = self.find(name) {
            return model.clone();
        }
        log::warn!(
            "unknown model `{name}`: assuming tier medium, context window {ASSUMED_WINDOW_TOKENS} tokens; see `agentd models list`"
        );
        Self::assumed(name)
    }

    /// Returns default values for an unknown model.
    #[must_use]
    pub fn assumed(name: &str) -> ModelSpec {
        ModelSpec {
            id: name.to_owned(),
            aliases: Vec::new(),
            provider: UNKNOWN.to_owned(),
            window: ASSUMED_WINDOW_TOKENS,
            max_output: None,
            price: None,
            tokenizer: UNKNOWN.to_owned(),
            tier: Tier::Medium,
            xml_reliability: Reliability::Medium,
            instruction_following: Reliability::Medium,
            retired: None,
            source: "assumed".to_owned(),
        }
    }

    /// Returns the tokenizer of a model. For an unknown tokenizer, returns one with a safety margin of 100 %.
    #[must_use]
    pub fn tokenizer(&self, model: &ModelSpec) -> TokenizerSpec {
        let guess = || TokenizerSpec {
            kind: CountKind::Guess,
            margin: 2.0,
            ..TokenizerSpec::default()
        };
        self.tokenizers
            .get(&model.tokenizer)
            .cloned()
            .unwrap_or_else(guess)
    }

    fn position(&self, name: &str) -> Option<usize> {
        let has_name = |model: &ModelSpec| {
            let mut names = std::iter::once(&model.id).chain(&model.aliases);
            let bare = name
                .split_once(':')
                .filter(|(provider, _)| provider.eq_ignore_ascii_case(&model.provider));
            names.any(|candidate| {
                candidate.eq_ignore_ascii_case(name)
                    || bare.is_some_and(|(_, bare)| candidate.eq_ignore_ascii_case(bare))
            })
        };
        self.models.iter().position(has_name)
    }

    fn check(&self, model: &ModelSpec) -> std::result::Result<(), String> {
        if !self.tokenizers.contains_key(&model.tokenizer) && model.tokenizer != UNKNOWN {
            return Err(format!(
                "model `{}` has the unknown tokenizer `{}`",
                model.id, model.tokenizer
            ));
        }
        if model.window == 0 {
            return Err(format!("model `{}` has no context window", model.id));
        }
        Ok(())
    }
}
