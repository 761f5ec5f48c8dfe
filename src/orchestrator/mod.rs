//! Turns, changes and reviews: where the other modules meet.
//!
//! A [`Workspace`] is an open project with its settings, agents and pack. A [`TurnContext`] adds the ledger, the drivers, the
//! operations and the [`Run`]. With it, [`take_turn`] takes one turn, [`review_tree`] reviews a working tree, and
//! [`open_change`] opens a change on a branch of its own. [`assemble`] only composes the prompt of a turn:
//!
//! ```
//! use agentd::models::{Mode, State};
//! use agentd::orchestrator::{TurnRequest, Workspace, WorkspaceOptions, assemble};
//!
//! # let project = tempfile::tempdir().unwrap();
//! # let project = project.path().to_path_buf();
//! let workspace = Workspace::open(project, WorkspaceOptions::default().with_pack("foreman"))?;
//! let request = TurnRequest::new(Mode::new("architect")?, "A thief learns to trust.");
//! let assembly = assemble(&workspace, &State::default(), &request)?;
//! assert!(assembly.draft.text().contains("A thief learns to trust."));
//! # Ok::<(), agentd::Error>(())
//! ```

mod change;
mod clock;
mod probe;
mod prompts;
mod random;
mod redacted;
mod turn;
mod vendors;
mod workspace;

pub use change::{
    ApproveAll, ChangeEvent, ChangeOutcome, ChangeRequest, ChangeRow, ChangeStatus, Decider,
    LeaveWaiting, PersonDecision, ReviewBase, Reviewed, changes, check_change_start, decide,
    no_agent, open_change, review_tree, run_change, warn_of_own_work,
};
pub use clock::utc;
pub use probe::{Asked, Help, Probe, ProbeReport, probe};
pub use prompts::{Assembly, Origin, assemble, assemble_context};
pub use turn::{
    AcceptNow, BlockContent, CallRecord, CommittedTrees, MOST_REPAIRS, NamedBlock, Overruled,
    ProgressEvent, ProgressReceiver, ProgressSender, ReplyRecord, ReviewTree, Run, StopFlag,
    TurnContext, TurnRecord, TurnReport, TurnRequest, find_driver, ledger_text, measured,
    measured_agents, next_state, noted_findings, open_findings, preview, progress_channel,
    recover_all, replay, resume, take_turn, tokens_roughly, with_request,
};
pub use vendors::{ClaudeOrchestrator, CodexOrchestrator, GeminiOrchestrator};
pub use workspace::{
    Created, Definition, ProjectFiles, PromptContext, Trust, TrustStatus, Workspace,
    WorkspaceOptions, accept_checks, catalogue, check_checks, check_trust, definitions, init,
    knows_ledger, open_ledger, secret_names, settings,
};

use std::fmt;

use crate::agent::Driver;
use crate::error::Result;
use crate::models::{AgentName, Marker, Mode, SessionId, UsageMetrics};
pub use crate::parse::parse_review_marker;

/// Runs phases of changes with one agent. It keeps nothing between them: every call is complete.
#[derive(Clone, Copy)]
pub struct Orchestrator<'a> {
    /// What turns are taken with.
    pub context: TurnContext<'a>,
    /// The agent's name.
    pub agent: &'a AgentName,
    /// The code that speaks to it.
    pub driver: &'a dyn Driver,
}

impl fmt::Debug for Orchestrator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orchestrator")
            .field("context", &self.context)
            .field("agent", self.agent)
            .finish_non_exhaustive()
    }
}

impl Orchestrator<'_> {
    /// Takes one turn of a change. Returns the reply as it came, its markers, and what the calls used.
    ///
    /// # Errors
    ///
    /// Whatever keeps the turn from being taken, how the agent failed, or what its reply lacks.
    pub fn run_phase(
        &self,
        change_id: &str,
        phase: &Mode,
        instructions: &str,
    ) -> Result<(String, Vec<Marker>, UsageMetrics)> {
        let ask = TurnRequest {
            agent: Some(self.agent.clone()),
            session: Some(SessionId::new(change_id)?),
            ..TurnRequest::new(phase.clone(), instructions)
        };
        let report = take_turn(&self.context, self.driver, &ask)?;
        match report.fault {
            Some(fault) => Err(fault),
            None => Ok((report.reply, report.response.markers, report.usage)),
        }
    }
}
