//! A request for one prompt or one turn.

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
    /// The user's text.
    pub instructions: String,
    /// Agent; `None` for the mode's from the settings, an installed one, or BASE.
    pub agent: Option<AgentName>,
    /// Description of the session's work, from the caller.
    pub work: Option<StateDocument>,
    /// Session, such as a change.
    pub session: Option<SessionId>,
    /// Change whose files are shown, if it is not the session itself.
    pub for_change: Option<SessionId>,
    /// Files to show.
    pub files: Vec<PathBuf>,
    /// Artifacts to show.
    pub artifacts: Vec<PathBuf>,
    /// Allows files and artifacts with the name of a secret file.
    pub secret_files: bool,
    /// Named blocks of context, in the order of the prompt. A name may occur several times; each must be in `blocks` of
    /// a layer of the pack.
    pub blocks: Vec<NamedBlock>,
    /// Thoughts of earlier agents to show.
    pub thoughts: Vec<String>,
    /// Values of variables. They replace gathered ones.
    pub variables: Variables,
    /// Nonce of the prompt, unless the settings turn nonces off. A turn creates its own.
    pub nonce: Option<Nonce>,
    /// Format; `None` for the pack's, or chat for a model with an HTTP API if the pack renders flat text.
    pub format: Option<Format>,
    /// Model that the prompt is written for; `None` for the agent's own.
    pub model: Option<String>,
    /// Counts tokens even if the size in bytes already fits.
    pub count: bool,
    /// Makes a missing mandatory variable an error, whatever the settings say.
    pub strict: bool,
    /// Number of times that the agent may be asked again for missing parts of its reply; at most
    /// [`MAX_REPAIRS`](crate::orchestrator::MAX_REPAIRS).
    pub repairs: u8,
    /// Measurements of the agent and its model. A turn looks them up itself.
    pub measured: ModelMeasurements,
    /// Items from the operations before the turn, each with its source.
    pub found: Vec<(ContextItem, String)>,
    /// Working tree to review, in a review without a change. [`review_tree`](crate::orchestrator::review_tree) sets
    /// it.
    pub review: Option<ReviewTree>,
}

/// A named block of context, such as `task` or `upstream`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBlock {
    /// Name of the block.
    pub name: String,
    /// Text of the block, or the file that has it.
    pub content: BlockContent,
}

/// Source of a block's text. A block without text is left out of the prompt.
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
    /// Set if `checks.run` runs the project's own checks; otherwise it does nothing.
    pub(crate) runs_checks: bool,
    /// Filled with each check that has ended.
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

    /// Returns the session whose files the turn works with.
    #[must_use]
    pub fn works_on(&self) -> Option<&SessionId> {
        self.for_change.as_ref().or(self.session.as_ref())
    }
}
