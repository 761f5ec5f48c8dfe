//! From a pack, a state and a request to the exact prompt: layers, fit, render. Pure: the same input gives the same bytes.

mod assembler;
mod budgets;
mod builder;
mod count;
mod draft;
mod entry;
mod fit;
mod frame;
mod layers;
mod markdown;
mod measured;
mod pieces;
mod render;
mod report;
mod sent;
mod state_xml;
mod tools;
mod vars;

use std::sync::Arc;

pub use assembler::{AssemblyConfig, PromptAssembler};
pub use budgets::{BudgetRow, budgets};
pub use builder::{ProjectMemory, PromptBuilder, RelevantRules};
pub use count::{Count, Counter};
pub use draft::{Draft, Message};
pub use measured::{Calibration, ENOUGH_REPLIES, Measured, seems_cut};
pub use report::{Absent, FitBlock, FitReport};
pub use tools::check_tools;
pub use vars::{Missing, TURN_VARIABLES, VariableUse, Variables, inject_variables};

use crate::error::Result;
use crate::models::{
    AgentName, ContextItem, Expands, Format, ModelSpec, Nonce, State, TokenizerSpec,
};
use crate::pack::{Found, Pack};
use layers::View;

/// What a turn asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The system template, for a pack that has a layer for one.
    pub template: Option<Arc<Found>>,
    /// The values of variables.
    pub variables: Variables,
    /// Texts of the pack by variable, such as skeletons: inserted verbatim where `variables` has no value.
    pub pack_texts: Variables,
    /// What conditions of layers may ask for, beside what is known anyway.
    pub facts: Variables,
    /// What happens where a mandatory one has no value.
    pub missing: Missing,
    /// The context, in order.
    pub context: Vec<Given>,
    /// What the project says of itself, and where it says so.
    pub project: Option<(String, String)>,
    /// The user's text.
    pub instructions: Option<String>,
    /// Nonce that the turn's verdict must carry. In modes with verdicts, the prompt has it in every `<review>` tag of the
    /// pack's own text.
    pub nonce: Option<Nonce>,
    /// The tools, as JSON Schema; without any, the mode's actions are.
    pub tools: Vec<serde_json::Value>,
    /// The rendering; without one, the pack's.
    pub format: Option<Format>,
    /// The largest prompt, in bytes.
    pub max_bytes: usize,
    /// The agent that the prompt is for.
    pub agent: Option<AgentName>,
    /// Whether that agent has tools of its own to read and edit files with.
    pub has_tools: bool,
    /// The model that the prompt is for; without one, nothing is shortened for its sake.
    pub model: Option<ModelSpec>,
    /// How tokens are counted.
    pub counter: Arc<Counter>,
    /// What the agent adds to every prompt, in tokens.
    pub overhead: u64,
    /// What the agent would expand in a prompt, and must not find.
    pub expands: Vec<Expands>,
    /// How many items of sequences are taken at most.
    pub limits: Limits,
    /// The first turn that was kept last time, for a pack that keeps the start of its history stable.
    pub previous: Option<usize>,
    /// Whether the agent is reminded to think aloud.
    pub thinking_reminder: bool,
    /// Whether tokens are counted even if the bytes already fit.
    pub count: bool,
}

/// A context item, and where it came from.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The item.
    pub item: ContextItem,
    /// Where it came from, in words.
    pub source: String,
    /// Whether its text is the pack's own: then nothing in it has to be kept from passing for a heading.
    pub own: bool,
    /// Set if a person named it: if it does not fit, the prompt is refused. Any other item may be left out.
    pub named: bool,
}

/// How many items of sequences are taken at most, instead of what the pack says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Turns of the history.
    pub turns: Option<usize>,
    /// Entries of the knowledge; the smaller tiers keep what the pack says if that is less.
    pub entries: Option<usize>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            template: None,
            variables: Variables::new(),
            pack_texts: Variables::new(),
            facts: Variables::new(),
            missing: Missing::Notice,
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
            counter: Arc::new(Counter::new(TokenizerSpec::default())),
            overhead: 0,
            expands: Vec::new(),
            limits: Limits::default(),
            previous: None,
            thinking_reminder: true,
            count: false,
        }
    }
}

/// Composes a prompt.
///
/// # Errors
///
/// `UnknownMode`, `MissingVariable`, `PromptInvalid` or `BudgetTooSmall`: nothing is sent that is not whole.
pub fn compose(pack: &Pack, state: &State, request: Request) -> Result<Draft> {
    let mode = state.mode.as_ref().unwrap_or(&pack.start);
    pack.mode(mode)?;
    let work = &state.work;
    let view = View {
        mode: Some(mode),
        work,
        active_context: &work.active_context,
        knowledge: &work.knowledge,
        history: &work.history,
    };
    draft::assemble(pack, view, request)?.into_draft()
}
