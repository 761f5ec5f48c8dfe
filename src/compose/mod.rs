//! Composes the exact prompt from a pack, a state and a request: fill the layers, fit them to the window, render them.
//! Pure: the same input gives the same bytes.
//!
//! [`compose()`] does all of it. [`PromptBuilder`] assembles a prompt call by call, [`PromptAssembler`] composes many
//! prompts for one pack, and [`inject_variables`] fills a single text.
//!
//! ```
//! use agentd::compose::{PromptRequest, compose};
//! use agentd::models::{Format, Mode, State};
//! use agentd::{Pack, SearchPath};
//!
//! let pack = Pack::load("foreman", &SearchPath::default())?;
//! let state = State::in_mode(Mode::new("director")?);
//! let request = PromptRequest {
//!     format: Some(Format::Chat),
//!     ..PromptRequest::new("Where do we begin?")
//! };
//! let messages = compose(&pack, &state, &request)?.messages();
//! assert_eq!((messages[0].role, messages[1].role), ("system", "user"));
//! # Ok::<(), agentd::Error>(())
//! ```

mod assembler;
mod block;
mod budgets;
mod builder;
mod count;
mod delimiters;
mod draft;
#[cfg(any(test, not(feature = "tokenizer")))]
mod estimate;
mod example;
mod fit;
mod layers;
mod markdown;
mod measured;
mod mention_escape;
mod missing_layer;
mod render;
mod report;
mod request;
mod segments;
mod state_xml;
mod tools;
mod vars;

pub use assembler::{AssemblyConfig, KnowledgeSource, PromptAssembler, WorkOrder};
pub use budgets::{BudgetRow, budgets};
#[cfg(feature = "run")]
pub(crate) use builder::trim_block;
pub use builder::{ProjectMemory, PromptBuilder, RelevantRules};
pub use count::{Count, Counter};
pub use draft::{Draft, Message};
pub use measured::{Calibration, MIN_RELIABILITY_REPLIES, ModelMeasurements, seems_cut};
pub use report::{AbsentLayer, FitBlock, FitReport};
pub use request::{ItemLimits, PromptRequest, SourcedItem};
pub use tools::check_tools;
pub use vars::{MissingVariable, TURN_VARIABLES, VariableUse, Variables, inject_variables};

use crate::error::Result;
use crate::models::State;
use crate::pack::Pack;
use layers::PromptInputs;

/// Composes a prompt in the state's mode, or in the pack's first mode if the state has none.
///
/// # Errors
///
/// `UnknownMode` if the pack does not have the mode, `TemplateNotFound` if a layer needs a template that the request
/// lacks, `MissingVariable` if a mandatory variable has no value, `PromptInvalid` if the instructions are empty or the
/// pack has no layer for a context item, `ToolsInvalid` if a tool is invalid, and `BudgetTooSmall`, with the numbers, if
/// the prompt does not fit.
pub fn compose(pack: &Pack, state: &State, request: &PromptRequest) -> Result<Draft> {
    let mode = state.mode.as_ref().unwrap_or(&pack.start);
    pack.mode(mode)?;

    let document = &state.document;
    let inputs = PromptInputs {
        mode: Some(mode),
        document,
        results: &state.action_results,
        knowledge: &document.knowledge,
        history: &document.history,
        history_start: document.history_start,
        risks: &state.risks,
    };

    draft::assemble(pack, inputs, request.clone())?.into_draft()
}
