//! `PromptAssembler`: prompts of one pack for any model, from a work order, a history and a message.
//!
//! Its types and fields have the names of the Writers Factory specification. The rest of the crate knows only the sections
//! that a pack declares.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::draft::{self, FittedPrompt};
use super::layers::PromptInputs;
use super::{Counter, Draft, ItemLimits, PromptRequest};
use crate::error::Result;
use crate::models::{
    ArtifactProgress, Catalogue, ConversationTurn, Format, KnowledgeEntry, Mode, StateDocument,
};
use crate::pack::Pack;

/// Section with the title of the project.
const PROJECT: &str = "project";

/// Section with the items in focus.
const ACTIVE_CONTEXT: &str = "active_context";

/// Model, mode and limits of one assembled prompt.
#[expect(missing_docs, reason = "the other names need no explanation")]
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
    /// Rendering; `None` for the pack's default. [`Format::Chat`] renders the messages of a chat.
    pub format: Option<Format>,
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
            format: None,
        }
    }
}

/// Knowledge base that an assembler queries for every prompt.
pub trait KnowledgeSource: Send + Sync {
    /// Returns the entries for a project, best first.
    ///
    /// A prompt shows at most `limit` of them. A source may return more: entries of the categories that the pack keeps
    /// are then preferred.
    ///
    /// # Errors
    ///
    /// Any error of the knowledge base; the prompt is then not assembled.
    fn context_for(&self, project: &str, limit: usize) -> Result<Vec<KnowledgeEntry>>;
}

/// Fixed list of entries, best first, for every project.
impl KnowledgeSource for Vec<KnowledgeEntry> {
    fn context_for(&self, _project: &str, _limit: usize) -> Result<Vec<KnowledgeEntry>> {
        Ok(self.clone())
    }
}

/// State of the work on a novel, with the names of the specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkOrder {
    /// Title of the project; empty if it has none yet.
    pub project_title: String,
    /// Name of the main character; empty if it is not known.
    pub protagonist_name: String,
    /// Templates of the novel and their status.
    pub templates: Vec<ArtifactProgress>,
    /// Ids of the registered notebooks, with their roles.
    pub notebooks: IndexMap<String, String>,
}

impl From<WorkOrder> for StateDocument {
    fn from(order: WorkOrder) -> Self {
        let mut project = Map::new();
        for (field, value) in [
            ("title", order.project_title),
            ("protagonist", order.protagonist_name),
        ] {
            if !value.is_empty() {
                project.insert(field.to_owned(), Value::String(value));
            }
        }
        let notebooks: Vec<Value> = order
            .notebooks
            .into_iter()
            .map(|(id, role)| json!({"id": id, "role": role}))
            .collect();

        let mut document = Self {
            work_order: order.templates,
            ..Self::default()
        };
        if !project.is_empty() {
            document
                .sections
                .insert(PROJECT.to_owned(), Value::Object(project));
        }
        if !notebooks.is_empty() {
            document
                .sections
                .insert("notebooks".to_owned(), Value::Array(notebooks));
        }
        document
    }
}

/// Assembles prompts from a pack and a knowledge base. Token counts and the pack's files are cached until
/// [`PromptAssembler::clear_cache`].
pub struct PromptAssembler {
    knowledge: Box<dyn KnowledgeSource>,
    catalogue: Catalogue,
    cache: Mutex<AssemblerCache>,
}

impl fmt::Debug for PromptAssembler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PromptAssembler")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct AssemblerCache {
    pack: Arc<Pack>,
    is_stale: bool,
    counters: HashMap<String, Arc<Counter>>,
}

impl PromptAssembler {
    /// Returns an assembler for the shipped models.
    ///
    /// # Errors
    ///
    /// Fails if the shipped catalogue is invalid, which tests rule out.
    pub fn new(pack: Pack, knowledge: impl KnowledgeSource + 'static) -> Result<Self> {
        let catalogue = Catalogue::built_in()?.clone();
        let cache = AssemblerCache {
            pack: Arc::new(pack),
            is_stale: false,
            counters: HashMap::new(),
        };
        Ok(Self {
            knowledge: Box::new(knowledge),
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
    /// `UnknownMode` if the pack does not have the mode; `BudgetTooSmall`, with the numbers of tokens, if the prompt does
    /// not fit; errors of the knowledge base.
    pub fn assemble(
        &self,
        config: &AssemblyConfig,
        work_order: &StateDocument,
        history: &[ConversationTurn],
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

    /// Assembles a prompt and reports which parts were shortened or omitted, and why.
    ///
    /// # Errors
    ///
    /// Those of [`PromptAssembler::assemble`].
    pub fn draft(
        &self,
        config: &AssemblyConfig,
        work_order: &StateDocument,
        history: &[ConversationTurn],
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
        cache.is_stale = true;
        cache.counters.clear();
    }

    fn compose_with<T>(
        &self,
        config: &AssemblyConfig,
        work_order: &StateDocument,
        history: &[ConversationTurn],
        user_message: &str,
        active_context: Option<&IndexMap<String, String>>,
        finish: impl FnOnce(FittedPrompt<'_>) -> Result<T>,
    ) -> Result<T> {
        let model = self.catalogue.find_or_assume(&config.model_id);
        let (pack, counter) = self.load_cached(&model.tokenizer, || {
            Counter::new(self.catalogue.tokenizer(&model))
        })?;
        pack.mode(&config.mode)?;
        let mut document = work_order.clone();
        if let Some(active_context) = active_context {
            let fields = active_context
                .iter()
                .map(|(name, value)| (name.clone(), Value::String(value.clone())))
                .collect();
            document
                .sections
                .insert(ACTIVE_CONTEXT.to_owned(), Value::Object(fields));
        }

        let project = document.value_at("project.title").and_then(Value::as_str);
        let knowledge = self
            .knowledge
            .context_for(project.unwrap_or_default(), config.max_kb_entries)?;
        let inputs = PromptInputs {
            mode: Some(&config.mode),
            document: &document,
            results: &[],
            knowledge: &knowledge,
            history,
            history_start: 0,
            risks: &[],
        };

        let tier = model.tier;
        let request = PromptRequest {
            instructions: Some(user_message.to_owned()),
            model: Some(model),
            counter: Some(counter),
            limits: ItemLimits {
                turns: Some(config.max_conversation_turns),
                entries: Some(config.max_kb_entries),
            },
            thinking_reminder: config.include_thinking_reminder,
            format: config.format,
            ..PromptRequest::default()
        };

        log::debug!(
            "composing a prompt for {} ({} tier)",
            config.model_id,
            tier.name()
        );
        finish(draft::assemble(&pack, inputs, request)?)
    }

    /// Returns the pack, reloaded if the cache was cleared, and the cached counter of a tokenizer.
    fn load_cached(
        &self,
        tokenizer: &str,
        make: impl FnOnce() -> Counter,
    ) -> Result<(Arc<Pack>, Arc<Counter>)> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.is_stale {
            cache.pack = Arc::new(cache.pack.reloaded()?);
            cache.is_stale = false;
        }

        let counter = cache
            .counters
            .entry(tokenizer.to_owned())
            .or_insert_with(|| Arc::new(make()))
            .clone();
        Ok((Arc::clone(&cache.pack), counter))
    }
}
