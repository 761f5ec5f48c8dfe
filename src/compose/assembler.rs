//! `PromptAssembler`: prompts of one pack for any model, from a work order, a history and a message.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;

use super::draft::{self, FittedPrompt};
use super::layers::PromptInputs;
use super::{Counter, Draft, Limits, Request};
use crate::error::Result;
use crate::models::{Catalogue, KnowledgeEntry, Mode, Turn, Work};
use crate::pack::Pack;

/// Model, mode and limits of one assembled prompt.
#[expect(missing_docs, reason = "the other fields say it by name")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyConfig {
    pub model_id: String,
    pub mode: Mode,
    /// Adds the reminder to think aloud, for models that need it.
    pub include_thinking_reminder: bool,
    /// Maximum number of knowledge entries.
    pub max_kb_entries: usize,
    /// Maximum number of turns of the history.
    pub max_conversation_turns: usize,
}

impl AssemblyConfig {
    /// Returns a configuration with the default limits: ten entries, ten turns.
    pub fn new(model_id: impl Into<String>, mode: Mode) -> Self {
        Self {
            model_id: model_id.into(),
            mode,
            include_thinking_reminder: true,
            max_kb_entries: 10,
            max_conversation_turns: 10,
        }
    }
}

/// Assembles prompts from a pack and ranked knowledge. Token counts and the pack's files are cached until
/// [`PromptAssembler::clear_cache`].
#[derive(Debug)]
pub struct PromptAssembler {
    knowledge: Vec<KnowledgeEntry>,
    catalogue: Catalogue,
    cache: Mutex<AssemblerCache>,
}

#[derive(Debug)]
struct AssemblerCache {
    pack: Arc<Pack>,
    stale: bool,
    counters: HashMap<String, Arc<Counter>>,
}

impl PromptAssembler {
    /// Returns an assembler for the shipped models. The entries are ranked, best first.
    ///
    /// # Errors
    ///
    /// None that a caller could cause: the shipped catalogue is checked by tests.
    pub fn new(pack: Pack, knowledge: Vec<KnowledgeEntry>) -> Result<Self> {
        let catalogue = Catalogue::built_in()?.clone();
        let cache = AssemblerCache {
            pack: Arc::new(pack),
            stale: false,
            counters: HashMap::new(),
        };
        Ok(Self {
            knowledge,
            catalogue,
            cache: Mutex::new(cache),
        })
    }

    /// Replaces the catalogue of models.
    #[must_use]
    pub fn with_catalogue(mut self, catalogue: Catalogue) -> Self {
        self.catalogue = catalogue;
        self
    }

    /// Assembles a prompt. Without `active_context`, the one of the work order is used.
    ///
    /// # Errors
    ///
    /// `UnknownMode`, or `BudgetTooSmall` with the numbers.
    pub fn assemble(
        &self,
        config: &AssemblyConfig,
        work_order: &Work,
        history: &[Turn],
        user_message: &str,
        active_context: Option<&IndexMap<String, String>>,
    ) -> Result<String> {
        self.compose_with(
            config,
            work_order,
            history,
            user_message,
            active_context,
            |composed| composed.text(),
        )
    }

    /// Assembles a prompt and reports which parts were cut, and why.
    ///
    /// # Errors
    ///
    /// Those of [`PromptAssembler::assemble`].
    pub fn draft(
        &self,
        config: &AssemblyConfig,
        work_order: &Work,
        history: &[Turn],
        user_message: &str,
        active_context: Option<&IndexMap<String, String>>,
    ) -> Result<Draft> {
        self.compose_with(
            config,
            work_order,
            history,
            user_message,
            active_context,
            |composed| composed.into_draft(),
        )
    }

    /// Clears the cached counts and makes the next prompt read the pack's files again.
    pub fn clear_cache(&self) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.stale = true;
        cache.counters.clear();
    }

    fn compose_with<T>(
        &self,
        config: &AssemblyConfig,
        work_order: &Work,
        history: &[Turn],
        user_message: &str,
        active_context: Option<&IndexMap<String, String>>,
        finish: impl FnOnce(FittedPrompt<'_>) -> Result<T>,
    ) -> Result<T> {
        let model = self.catalogue.find_or_assume(&config.model_id);
        let (pack, counter) = self.load_cached(&model.tokenizer, || {
            Counter::new(self.catalogue.tokenizer(&model))
        })?;
        pack.mode(&config.mode)?;
        let inputs = PromptInputs {
            mode: Some(&config.mode),
            work: work_order,
            active_context: active_context.unwrap_or(&work_order.active_context),
            knowledge: &self.knowledge,
            history,
        };

        let tier = model.tier;
        let request = Request {
            instructions: Some(user_message.to_owned()),
            model: Some(model),
            counter: Some(counter),
            limits: Limits {
                turns: Some(config.max_conversation_turns),
                entries: Some(config.max_kb_entries),
            },
            thinking_reminder: config.include_thinking_reminder,
            ..Request::default()
        };

        log::debug!("a prompt for {} ({} tier)", config.model_id, tier.name());
        finish(draft::assemble(&pack, inputs, request)?)
    }

    /// Returns the pack, reloaded if the cache was cleared, and the cached counter of a tokenizer.
    fn load_cached(
        &self,
        tokenizer: &str,
        make: impl FnOnce() -> Counter,
    ) -> Result<(Arc<Pack>, Arc<Counter>)> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.stale {
            cache.pack = Arc::new(cache.pack.reloaded()?);
            cache.stale = false;
        }

        let counter = cache
            .counters
            .entry(tokenizer.to_owned())
            .or_insert_with(|| Arc::new(make()))
            .clone();
        Ok((Arc::clone(&cache.pack), counter))
    }
}
