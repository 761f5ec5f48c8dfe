//! Turns, changes and reviews. This module connects all others.
//!
//! A [`Workspace`] is an open project with its settings, agents and pack. A [`TurnContext`] adds the ledger, the
//! drivers, the operations and the [`Run`]. With it, [`take_turn`] takes one turn, [`review_tree`] reviews a working
//! tree, and [`open_change`] opens a change on a new branch. [`assemble`] only composes the prompt of a turn:
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
mod chat;
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
    LeaveWaiting, PersonDecision, ReviewBase, ReviewReport, check_change_pack, check_change_start,
    decide, list_changes, no_agent, open_change, review_tree, run_change, warn_of_own_work,
};
pub use chat::{
    ChatOptions, ChatPreview, ChatReply, CommandReport, UndoReport, chat_state, chat_turn,
    check_chat_pack, enter_mode, preview_chat, run_command, undo_message,
};
pub use clock::format_utc;
pub use probe::{ConditionEffect, Probe, ProbeReport, ProbeTurn, probe_agent};
pub use prompts::{Assembly, Origin, assemble, assemble_context};
pub use turn::{
    AcceptNow, BlockContent, CallRecord, CommittedTrees, MAX_REPAIRS, NamedBlock, ProgressEvent,
    ProgressReceiver, ProgressSender, ReplyRecord, ReviewTree, Run, StopFlag, TurnContext,
    TurnRecord, TurnReport, TurnRequest, VerdictOverride, estimate_tokens, find_driver,
    ledger_text, load_findings, measured, measured_agents, next_state, open_findings, preview,
    progress_channel, recover_all, replay, resume, take_turn, with_request,
};
pub use vendors::{ClaudeOrchestrator, CodexOrchestrator, GeminiOrchestrator};
pub use workspace::{
    CreatedFile, Definition, ProjectFiles, PromptContext, Trust, TrustStatus, Workspace,
    WorkspaceOptions, accept_checks, check_checks, check_trust, init_project, is_ledger_trusted,
    list_definitions, load_catalogue, load_settings, open_ledger, secret_variable_names,
};

use std::fmt;

use crate::agent::Driver;
use crate::error::Result;
use crate::models::{AgentName, Marker, Mode, SessionId, UsageMetrics};
pub use crate::parse::parse_review_marker;

/// Runs phases of changes with one agent. All state between phases is in the ledger.
#[derive(Clone, Copy)]
pub struct Orchestrator<'a> {
    /// Workspace, ledger, drivers, operations and run.
    pub context: TurnContext<'a>,
    /// Name of the agent.
    pub agent: &'a AgentName,
    /// Driver that calls the agent.
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
    /// Takes one turn of a change. Returns the unparsed reply, its markers, and the usage of all calls.
    ///
    /// # Errors
    ///
    /// Those of [`take_turn`], and the error of a failed call or of a reply without a required marker.
    pub fn run_phase(
        &self,
        change_id: &str,
        phase: &Mode,
        instructions: &str,
    ) -> Result<(String, Vec<Marker>, UsageMetrics)> {
        let request = TurnRequest {
            agent: Some(self.agent.clone()),
            session: Some(SessionId::new(change_id)?),
            ..TurnRequest::new(phase.clone(), instructions)
        };
        let report = take_turn(&self.context, self.driver, &request)?;
        match report.fault {
            Some(fault) => Err(fault),
            None => Ok((report.reply, report.response.markers, report.usage)),
        }
    }
}
