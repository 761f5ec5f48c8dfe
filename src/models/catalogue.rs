//! The catalogue of models: what is shipped, and what the user adds.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::{CountKind, ModelSpec, Reliability, Tier, TokenizerSpec};
use crate::error::{Error, ErrorKind, Result};
use crate::text::yaml::{self, Placed};

/// The window of a model of which nothing is known.
const ASSUMED_WINDOW: u64 = 32_768;

/// The name of the tokenizer for models of which nothing is known.
const UNKNOWN: &str = "unknown";

/// The models that are known, and how their tokens are counted.
#[derive(Clone, Debug)]
pub struct Catalogue {
    models: Vec<ModelSpec>,
    tokenizers: BTreeMap<String, TokenizerSpec>,
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: Placed<u64>,
    #[expect(dead_code, reason = "the date is for people who read the file")]
    as_of: String,
    tokenizers: BTreeMap<String, TokenizerSpec>,
    models: Vec<Placed<ModelSpec>>,
}

impl Catalogue {
    /// Returns the catalogue that is compiled in. It is parsed once.
    ///
    /// # Errors
    ///
    /// None that a caller could cause: tests parse the compiled-in file.
    pub fn built_in() -> Result<&'static Self> {
        static PARSED: OnceLock<Catalogue> = OnceLock::new();
        if let Some(catalogue) = PARSED.get() {
            return Ok(catalogue);
        }

        let text = include_str!("../../data/models.yaml");
        let catalogue = Self::read(text, "built-in:data/models.yaml")?;
        Ok(PARSED.get_or_init(|| catalogue))
    }

    /// Reads a catalogue.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place, for a name that stands twice or a tokenizer that is not described.
    pub fn read(text: &str, origin: &str) -> Result<Self> {
        let written: Written = yaml::read(text, origin, 1, ErrorKind::ConfigInvalid)?;
        let invalid = |location, message: String| {
            Error::new(ErrorKind::ConfigInvalid, message)
                .with_place(yaml::place(text, origin, 1, location))
        };
        if written.format.value != 1 {
            let message = "only catalogues of format 1 are understood".to_owned();
            return Err(invalid(written.format.referenced, message));
        }
        let mut catalogue = Self {
            models: Vec::new(),
            tokenizers: written.tokenizers,
        };
        for model in written.models {
            catalogue
                .check(&model.value)
                .map_err(|message| invalid(model.referenced, message))?;
            let names = std::iter::once(&model.value.id).chain(&model.value.aliases);
            if let Some(name) = names
                .into_iter()
                .find(|name| catalogue.position(name).is_some())
            {
                return Err(invalid(
                    model.referenced,
                    format!("the name `{name}` stands twice"),
                ));
            }
            catalogue.models.push(model.value);
        }
        Ok(catalogue)
    }

    /// Adds a row of the user's; it replaces a shipped one of the same name.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` for a tokenizer that is not described.
    pub fn add(&mut self, model: ModelSpec) -> Result<()> {
        self.check(&model)
            .map_err(|message| Error::new(ErrorKind::ConfigInvalid, message))?;
        match self.position(&model.id) {
            Some(index) => self.models[index] = model,
            None => self.models.push(model),
        }
        Ok(())
    }

    /// Returns all models, in the catalogue's order.
    #[must_use]
    pub fn models(&self) -> &[ModelSpec] {
        &self.models
    }

    /// Returns a model by its name or an alias.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&ModelSpec> {
        self.position(name).map(|index| &self.models[index])
    }

    /// Returns a model, or for an unknown name what is assumed of it: a medium model, counted with care.
    #[must_use]
    pub fn find_or_assume(&self, name: &str) -> ModelSpec {
        if let Some(model) = self.find(name) {
            return model.clone();
        }
        log::warn!(
            "the model `{name}` is not in the catalogue: medium, {ASSUMED_WINDOW} tokens assumed; see `agentd models list`"
        );
        Self::assumed(name)
    }

    /// Returns what is assumed of a model of which nothing is known.
    #[must_use]
    pub fn assumed(name: &str) -> ModelSpec {
        ModelSpec {
            id: name.to_owned(),
            aliases: Vec::new(),
            provider: UNKNOWN.to_owned(),
            window: ASSUMED_WINDOW,
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

    /// Returns how a model's tokens are counted.
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
        let named = |model: &ModelSpec| {
            let mut names = std::iter::once(&model.id).chain(&model.aliases);
            let bare = name
                .split_once(':')
                .filter(|(provider, _)| provider.eq_ignore_ascii_case(&model.provider));
            names.any(|known| {
                known.eq_ignore_ascii_case(name)
                    || bare.is_some_and(|(_, bare)| known.eq_ignore_ascii_case(bare))
            })
        };
        self.models.iter().position(named)
    }

    fn check(&self, model: &ModelSpec) -> std::result::Result<(), String> {
        if !self.tokenizers.contains_key(&model.tokenizer) && model.tokenizer != UNKNOWN {
            return Err(format!(
                "`{}` names the tokenizer `{}`, which is not described",
                model.id, model.tokenizer
            ));
        }
        if model.window == 0 {
            return Err(format!("`{}` has no window", model.id));
        }
        Ok(())
    }
}
