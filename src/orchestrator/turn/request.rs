//! A request for one prompt or one turn.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::compose::{Measured, Variables};
use crate::models::{AgentName, Check, ContextItem, Format, Mode, Nonce, SessionId, Work};
use crate::ops::Diff;

/// What a prompt is asked for with.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// The mode.
    pub mode: Mode,
    /// The user's text.
    pub instructions: String,
    /// The agent; without one, the mode's from the settings, one that is on PATH, or BASE.
    pub agent: Option<AgentName>,
    /// What the session works on, as the caller describes it.
    pub work: Option<Work>,
    /// The session, such as a change.
    pub session: Option<SessionId>,
    /// The change whose files are shown, if it is not the session itself.
    pub for_change: Option<SessionId>,
    /// Files to show.
    pub files: Vec<PathBuf>,
    /// Artifacts to show.
    pub artifacts: Vec<PathBuf>,
    /// Whether files and artifacts that by their name hold secrets are shown, too.
    pub secret_files: bool,
    /// Named blocks of context, in the order in which the prompt has them. A name may come several times; each must be
    /// in `blocks` of a layer of the pack.
    pub blocks: Vec<NamedBlock>,
    /// Thoughts to hand on.
    pub thoughts: Vec<String>,
    /// Values of variables, before any that is found.
    pub variables: Variables,
    /// The nonce of the prompt, unless the settings say that there is none; a turn makes its own.
    pub nonce: Option<Nonce>,
    /// The rendering; without one, the pack's, or a chat for a model that has no tools where the pack writes flat text.
    pub format: Option<Format>,
    /// The model to write for; without one, the agent's own.
    pub model: Option<String>,
    /// Whether tokens are counted even if the bytes already fit.
    pub count: bool,
    /// Whether a missing mandatory variable is an error, whatever the settings say.
    pub strict: bool,
    /// How often the agent may be asked again for what its reply lacks; twice at most.
    pub repairs: u8,
    /// What was measured of the agent and its model; a turn looks it up itself.
    pub measured: Measured,
    /// What operations found before the turn.
    pub found: Vec<(ContextItem, String)>,
    /// The working tree to review, in a review without a change. [`review_tree`](crate::orchestrator::review_tree) sets
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
    /// Asks for a prompt in a mode with nothing but instructions.
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
            measured: Measured::default(),
            found: Vec::new(),
            review: None,
        }
    }
}

impl TurnRequest {
    /// Returns the session whose files the turn works with.
    #[must_use]
    pub fn works_on(&self) -> Option<&SessionId> {
        self.for_change.as_ref().or(self.session.as_ref())
    }
}
