//! The request for one prompt.

use std::sync::Arc;

use super::{Counter, MissingVariable, Variables};
use crate::error::Result;
use crate::models::{
    AgentName, Catalogue, ContextItem, CountKind, Format, ModelSpec, Nonce, PromptExpansion,
    TokenizerSpec,
};
use crate::pack::FoundTemplate;

/// Input of one prompt, apart from the pack and the session's state.
///
/// [`PromptRequest::new`] and [`PromptRequest::with_model`] cover most callers; set other fields with struct update syntax.
#[derive(Clone, Debug)]
pub struct PromptRequest {
    /// System template, for a pack with a layer that holds one; [`Templates::find`](crate::Templates::find) returns it.
    pub template: Option<Arc<FoundTemplate>>,
    /// Values of variables.
    pub variables: Variables,
    /// Texts of the pack by variable, such as skeletons: inserted verbatim where `variables` has no value.
    pub pack_texts: Variables,
    /// Facts for the conditions of layers, in addition to those of the program.
    pub facts: Variables,
    /// Treatment of a mandatory variable without a value.
    pub missing: MissingVariable,
    /// Context, in order.
    pub context: Vec<SourcedItem>,
    /// Description of the project, and its origin for reports.
    pub project: Option<(String, String)>,
    /// Text of the user.
    pub instructions: Option<String>,
    /// Nonce that the turn's verdict must carry. In modes with verdicts, the prompt has it in every `<review>` tag of the
    /// pack's own text.
    pub nonce: Option<Nonce>,
    /// Tools as JSON Schema; if empty, the actions of the mode.
    pub tools: Vec<serde_json::Value>,
    /// Rendering; `None` for the pack's default.
    pub format: Option<Format>,
    /// Maximum size of the prompt in bytes.
    pub max_bytes: usize,
    /// Agent that the prompt is for.
    pub agent: Option<AgentName>,
    /// True if that agent can read and edit files by itself.
    pub has_tools: bool,
    /// Model that the prompt is for; without one the prompt has no token budget.
    pub model: Option<ModelSpec>,
    /// Token counter. If `None`, the counter of the model's tokenizer family is used; without a model, o200k counts are
    /// used and reported as a guess.
    pub counter: Option<Arc<Counter>>,
    /// Tokens that the agent adds to every prompt.
    pub overhead: u64,
    /// Kinds of text that the agent would expand in a prompt, and that are escaped.
    pub expands: Vec<PromptExpansion>,
    /// Maximum number of items of sequences.
    pub limits: ItemLimits,
    /// Index of the first turn of the history in the previous prompt, for a pack that keeps the start of its history
    /// stable.
    pub previous: Option<usize>,
    /// Set to remind the agent to think aloud.
    pub thinking_reminder: bool,
    /// Set to count tokens even if the size in bytes already fits.
    pub count: bool,
}

/// A context item and its origin.
#[expect(missing_docs, reason = "`item` needs no explanation")]
#[derive(Clone, Debug, Default)]
pub struct SourcedItem {
    pub item: ContextItem,
    /// Origin, as shown in reports.
    pub source: String,
    /// True if the text comes from the pack, so that headings in it are not escaped.
    pub own: bool,
    /// True if the user named the item. If such an item does not fit, composing fails; other items may be omitted.
    pub named: bool,
}

/// Maximum number of items of sequences, instead of the pack's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemLimits {
    /// Turns of the history.
    pub turns: Option<usize>,
    /// Entries of the knowledge; smaller tiers keep the pack's limit if that is lower.
    pub entries: Option<usize>,
}

impl PromptRequest {
    /// Returns a request with the user's text.
    pub fn new(instructions: impl Into<String>) -> Self {
        Self {
            instructions: Some(instructions.into()),
            ..Self::default()
        }
    }

    /// Sets the model that the prompt is fitted to, and counts with its tokenizer family.
    ///
    /// A model that is not in the catalogue is treated as in [`Catalogue::find_or_assume`].
    #[must_use]
    pub fn with_model(mut self, catalogue: &Catalogue, id: &str) -> Self {
        let model = catalogue.find_or_assume(id);
        self.counter = Some(Arc::new(Counter::new(catalogue.tokenizer(&model))));
        self.model = Some(model);
        self
    }

    /// Returns the counter of the request, or else one for its model.
    pub(super) fn resolve_counter(&self) -> Result<Arc<Counter>> {
        if let Some(counter) = &self.counter {
            return Ok(Arc::clone(counter));
        }

        let tokenizer = match &self.model {
            Some(model) => Catalogue::built_in()?.tokenizer(model),
            // The model that reads the prompt is unknown and may have another vocabulary.
            None => TokenizerSpec {
                kind: CountKind::Guess,
                ..TokenizerSpec::default()
            },
        };

        Ok(Arc::new(Counter::new(tokenizer)))
    }
}

impl Default for PromptRequest {
    fn default() -> Self {
        Self {
            template: None,
            variables: Variables::new(),
            pack_texts: Variables::new(),
            facts: Variables::new(),
            missing: MissingVariable::Notice,
            context: Vec::new(),
            project: None,
            instructions: None,
            nonce: None,
            tools: Vec::new(),
            format: None,
            max_bytes: 32 * 1024 * 1024,
            agent: None,
            has_tools: true,
            model: None,
            counter: None,
            overhead: 0,
            expands: Vec::new(),
            limits: ItemLimits::default(),
            previous: None,
            thinking_reminder: true,
            count: false,
        }
    }
}
