//! Request for a prompt or a turn.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::compose::{ModelMeasurements, Variables};
use crate::models::{AgentName, Check, ContextItem, Format, Mode, Nonce, SessionId, StateDocument};
use crate::ops::Diff;

/// A request for a prompt or a turn.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// Mode of the turn.
    pub mode: Mode,
    /// Instructions of the user, or of the phase of a change.
    pub instructions: String,
    /// Agent; `None` for the agent that the settings have for the mode, or else an installed one, or else `BASE`.
    pub agent: Option<AgentName>,
    /// State document of the session, which replaces the recorded one.
    pub work: Option<StateDocument>,
    /// Session of the turn, such as a change; `None` for a new session.
    pub session: Option<SessionId>,
    /// Change that a reviewer's session works on; `None` if the session works on its own files.
    pub for_change: Option<SessionId>,
    /// Files to show in the prompt.
    pub files: Vec<PathBuf>,
    /// Files to show in the prompt as artifacts.
    pub artifacts: Vec<PathBuf>,
    /// Allows files and artifacts with the name of a secret file, such as `.env`.
    pub secret_files: bool,
    /// Named blocks of context, in the order of the prompt. Every name must be listed in `blocks` of a layer of the
    /// pack, and may occur several times.
    pub blocks: Vec<NamedBlock>,
    /// Thoughts of earlier agents to show in the prompt.
    pub thoughts: Vec<String>,
    /// Values of template variables. They take precedence over values that agentd gathers.
    pub variables: Variables,
    /// Nonce of the prompt. [`take_turn`](crate::orchestrator::take_turn) sets a new one; it is not used if the
    /// settings turn nonces off.
    pub nonce: Option<Nonce>,
    /// Format of the prompt; `None` for the format of the pack, except that an agent with an HTTP API gets chat
    /// messages instead of flat text.
    pub format: Option<Format>,
    /// Model that the prompt is fitted to; `None` for the default model of the agent.
    pub model: Option<String>,
    /// Counts tokens even if the size in bytes already fits.
    pub count: bool,
    /// Makes a missing mandatory variable an error, whatever the settings say.
    pub strict: bool,
    /// Maximum number of repair calls, which request missing parts of the reply; values above
    /// [`MAX_REPAIRS`](crate::orchestrator::MAX_REPAIRS) are reduced to it.
    pub repairs: u8,
    /// Measurements of the agent and its model. [`take_turn`](crate::orchestrator::take_turn) looks them up in the
    /// ledger.
    pub measured: ModelMeasurements,
    /// Context items of the operations before the turn, each with its source.
    pub found: Vec<(ContextItem, String)>,
    /// Working tree under review, in a review without a change. Set by
    /// [`review_tree`](crate::orchestrator::review_tree).
    pub review: Option<ReviewTree>,
}

/// A named block of context, such as `task` or `upstream`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBlock {
    /// Name of the block.
    pub name: String,
    /// Text of the block, or the file that contains it.
    pub content: BlockContent,
}

/// Source of a block's text. A block with empty text is omitted from the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockContent {
    /// The text itself.
    Text(String),
    /// A UTF-8 file, read when the prompt is assembled.
    File(PathBuf),
}

/// The user's working tree compared with a commit, for the operations of a review without a change.
#[derive(Clone, Debug)]
pub struct ReviewTree {
    /// Commit that is checked out.
    pub(crate) head: String,
    /// Commit that the tree is compared with.
    pub(crate) base: String,
    pub(crate) diff: Arc<Diff>,
    /// True if `checks.run` runs the checks of the project; otherwise it does nothing.
    pub(crate) runs_checks: bool,
    /// Checks that have ended, added while the turn runs.
    pub(crate) checks: Arc<Mutex<Vec<Check>>>,
}

impl TurnRequest {
    /// Creates a request with a mode and instructions only.
    pub fn new(mode: Mode, instructions: impl Into<String>) -> Self {
        Self {
            mode,
            instructions: instructions.into(),
            agent: None,
            work: None,
            session: None,
            for_change: None,
            files: Vec::new(),
            artifacts: Vec::new(),
            secret_files: false,
            blocks: Vec::new(),
            thoughts: Vec::new(),
            variables: Variables::new(),
            nonce: None,
            format: None,
            model: None,
            count: false,
            strict: false,
            repairs: 0,
            measured: ModelMeasurements::default(),
            found: Vec::new(),
            review: None,
        }
    }

    /// Returns the session whose files the turn works with: `for_change`, or else `session`.
    #[must_use]
    pub fn works_on(&self) -> Option<&SessionId> {
        self.for_change.as_ref().or(self.session.as_ref())
    }
}
