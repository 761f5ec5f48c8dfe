//! Where both ends meet: prompts are assembled, turns are taken.

mod again;
mod call;
mod census;
mod chance;
mod changes;
mod checks;
mod choice;
mod clock;
mod context;
mod documents;
mod findings;
mod grounds;
mod init;
mod instructions;
mod lead;
mod measure;
mod panel;
mod pieces;
mod prepare;
mod probe;
mod probe_case;
mod project;
mod prompts;
mod reading;
mod recorded;
mod recover;
mod redacted;
mod repairs;
mod review;
mod run;
mod secret_files;
mod trust;
mod turn;
mod vendors;

pub use again::{replay, resume};
pub use changes::{ChangeRow, changes};
pub use checks::{accept_checks, check_checks};
pub use clock::utc;
pub use context::PromptContext;
pub use findings::{noted_findings, open_findings};
pub use init::{Created, init};
pub use instructions::with_request;
pub use lead::{Lead, decide, leave, next_ask, open_change, retry, with_files};
pub use measure::{measured, measured_agents};
pub use panel::judge;
pub use prepare::next_state;
pub use prepare::tokens_roughly;
pub use probe::{Asked, Help, Probe, ProbeReport, probe};
pub use project::ProjectFiles;
pub use prompts::{
    Ask, Assembly, Origin, Workspace, assemble, assemble_context, catalogue, secret_names, settings,
};
pub use reading::MOST_REPAIRS;
pub use recorded::{Recorded, RecordedCall, RecordedReply, text as ledger_text};
pub use recover::recover_all;
pub use review::{ReviewBase, Reviewed, review_tree};
pub use run::{AcceptNow, Run, Seen, Sign, Signs, Stop, Tended, signs};
pub use trust::{Definition, Standing, Trust, check_trust, definitions, knows_ledger, open_ledger};
pub use turn::{Desk, Overruled, TurnReport, preview, take};
pub use vendors::{ClaudeOrchestrator, CodexOrchestrator, GeminiOrchestrator};

use std::fmt;

use crate::agent::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, Marker, Mode, ReviewResult, SessionId, UsageMetrics};
use crate::parse::{self, Context, Grammar};

/// Returns the verdict of an agent's output, of all five the most severe. Verdicts in thoughts, quotes and code do
/// not count.
///
/// # Errors
///
/// `MissingReviewMarker` if no valid marker is found.
pub fn parse_review_marker(output: &str) -> Result<ReviewResult> {
    let grammar = Grammar::any_review();
    parse::verdict(
        &parse::parse(output, &grammar, &Context::default()),
        &grammar,
    )?
    .ok_or_else(|| {
        Error::new(
            ErrorKind::MissingReviewMarker,
            "the reply holds no <review> verdict",
        )
    })
}

/// Runs phases of changes with one agent. It keeps nothing between them: every call is complete.
#[derive(Clone, Copy)]
pub struct Orchestrator<'a> {
    /// What turns are taken with.
    pub desk: Desk<'a>,
    /// The agent's name.
    pub agent: &'a AgentName,
    /// The code that speaks to it.
    pub driver: &'a dyn Driver,
}

impl fmt::Debug for Orchestrator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orchestrator")
            .field("desk", &self.desk)
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
        let ask = Ask {
            agent: Some(self.agent.clone()),
            session: Some(SessionId::new(change_id)?),
            ..Ask::new(phase.clone(), instructions)
        };
        let report = take(&self.desk, self.driver, &ask)?;
        match report.fault {
            Some(fault) => Err(fault),
            None => Ok((report.reply, report.response.markers, report.usage)),
        }
    }
}
