//! Runs a change until it is done, abandoned, or waiting for the user.

use std::path::PathBuf;
use std::sync::Arc;

use super::close::close_change;
use super::decide::decide;
use super::decider::{Decider, PersonDecision};
use super::next_turn::{files_to_show, next_turn};
use super::open::{ChangeStatus, check_change_pack, open_change};
use super::retry::retry_steps;
use super::reviewers::ask_reviewers;
use crate::agent::{Driver, Drivers, REPLAY_PREFIX};
use crate::apply::NextStep;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, Mode, ReviewResult, SessionId, State, StepResult};
use crate::orchestrator::turn::{
    AcceptNow, TurnContext, TurnReport, TurnRequest, find_driver, take_turn,
};
use crate::orchestrator::workspace::{Workspace, accept_checks, check_checks};

/// Request to run a change.
#[derive(Clone, Debug)]
pub struct ChangeRequest {
    /// Name of the change.
    pub change: SessionId,
    /// Description of what the change should do; required to open a new change.
    pub request: Option<String>,
    /// Mode in which to take one turn, instead of running the change.
    pub only: Option<Mode>,
    /// Agent for all modes; `None` for the agents in the settings.
    pub agent: Option<AgentName>,
    /// Model for all modes; `None` for the models in the settings.
    pub model: Option<String>,
    /// Files of the project to show in every prompt.
    pub files: Vec<PathBuf>,
}

impl ChangeRequest {
    /// Creates a request to run a change with the agents and models in the settings.
    #[must_use]
    pub fn new(change: SessionId) -> Self {
        Self {
            change,
            request: None,
            only: None,
            agent: None,
            model: None,
            files: Vec::new(),
        }
    }

    /// Sets the description of what the change should do.
    #[must_use]
    pub fn with_request(self, request: impl Into<String>) -> Self {
        Self {
            request: Some(request.into()),
            ..self
        }
    }
}

/// Event in the run of a change. Events within a turn are sent through
/// [`Run::progress`](crate::orchestrator::Run::progress).
#[derive(Debug)]
#[non_exhaustive]
pub enum ChangeEvent<'a> {
    /// A turn was taken.
    TurnTaken(&'a TurnReport),
    /// Failed steps of an earlier turn were retried.
    StepsRetried(&'a [StepResult]),
}

/// Outcome of a run of a change.
#[derive(Debug)]
pub struct ChangeOutcome {
    /// Status of the change after the run. `status.next` says why the run ended.
    pub status: ChangeStatus,
    /// True if the verdict of the last turn in this run was not PASS, or was overruled.
    pub sent_back: bool,
}

/// Runs a change until it is done, abandoned, stuck, or waiting for a decision that `decider` does not make. With
/// `request.only`, takes one turn.
///
/// Every step is recorded before the next one, so the same call continues a change that was interrupted at any point.
/// `progress` is called after every turn; an error that it returns ends the run.
///
/// # Errors
///
/// Fails if a turn cannot be taken, its reply is unusable, or one of its steps fails. Also returns the errors of
/// `decider` and `progress`. Events that were recorded before the error are kept.
pub fn run_change(
    context: &TurnContext<'_>,
    request: &ChangeRequest,
    decider: &mut dyn Decider,
    progress: &mut dyn FnMut(ChangeEvent<'_>) -> Result<()>,
) -> Result<ChangeOutcome> {
    check_change_pack(context.workspace)?;
    let change = &request.change;
    if request.request.is_some() && context.store.events(change)?.is_empty() {
        let accept = context.run.trust;
        check_change_start(context.workspace, context.drivers, accept, request, decider)?;
        let agent = first_agent(context.workspace, request)?;
        find_driver(context.drivers, context.store, &agent)?;
    }
    let mut run = ChangeRun {
        context,
        request,
        decider,
        progress,
        are_checks_trusted: false,
        has_warned_of_own_work: false,
        sent_back: false,
    };
    let mut status = open_change(context, change, request.request.as_deref())?;
    if let Some(mode) = &request.only {
        return run.run_phase(status, mode);
    }

    loop {
        match &status.next {
            NextStep::Ready { mode } => {
                if !run.retry_steps(&status.state)? {
                    run.take_turn(&status.state, mode)?;
                }
            }
            NextStep::Over { .. } => return run.end(status),
            _ => match run.decider.decide(&status)? {
                Some(PersonDecision { decision, note }) => {
                    decide(context, change, decision, note.as_deref())?;
                }
                None => return run.end(status),
            },
        }
        status = open_change(context, change, None)?;
    }
}

/// Checks that the first turn of a new change can be taken. Writes nothing to the project, so it can be called before
/// the ledger is created. [`run_change`] performs the same check.
///
/// # Errors
///
/// `NotTrusted` if neither the user nor `decider` trusts the checks of the project; `UnknownAgent` if there is no
/// agent for the first mode; `ConfigInvalid` for invalid settings; and the errors of `decider`.
pub fn check_change_start(
    workspace: &Workspace,
    drivers: &Drivers,
    accept: AcceptNow,
    request: &ChangeRequest,
    decider: &mut dyn Decider,
) -> Result<()> {
    trust_project_checks(workspace, accept, decider)?;

    let agent = first_agent(workspace, request)?;
    // The driver of a recorded reply reads the ledger, which may not exist yet.
    if !agent.as_str().starts_with(REPLAY_PREFIX) {
        drivers.find(agent.as_str())?;
    }
    Ok(())
}

/// Returns the agent of a new change's first turn.
fn first_agent(workspace: &Workspace, request: &ChangeRequest) -> Result<AgentName> {
    let turn = TurnRequest {
        agent: request.agent.clone(),
        ..TurnRequest::new(workspace.pack.start.clone(), "")
    };
    agent_for(workspace, &turn)
}

/// Returns an error if the user does not trust the checks of the project, and `decider` does not trust them now.
fn trust_project_checks(
    workspace: &Workspace,
    accept: AcceptNow,
    decider: &mut dyn Decider,
) -> Result<()> {
    let commands = workspace.checks();
    match check_checks(workspace, &commands, accept.covers_checks()) {
        Err(error) if error.kind() == ErrorKind::NotTrusted => {
            if !decider.accept_checks(&commands)? {
                return Err(error);
            }
            accept_checks(workspace, &commands)
        }
        checked => checked,
    }
}

fn agent_for(workspace: &Workspace, turn: &TurnRequest) -> Result<AgentName> {
    let agent = workspace.agent(turn)?;
    agent.ok_or_else(|| no_agent(&turn.mode))
}

/// One run of a change.
struct ChangeRun<'a> {
    context: &'a TurnContext<'a>,
    request: &'a ChangeRequest,
    decider: &'a mut dyn Decider,
    progress: &'a mut dyn FnMut(ChangeEvent<'_>) -> Result<()>,
    are_checks_trusted: bool,
    has_warned_of_own_work: bool,
    sent_back: bool,
}

impl ChangeRun<'_> {
    /// Takes one turn in a mode.
    fn run_phase(mut self, status: ChangeStatus, mode: &Mode) -> Result<ChangeOutcome> {
        match &status.next {
            NextStep::Over { done } => return Err(change_over(&status.change, *done)),
            // The phase waits for a decision of the user, which a request for the phase does not replace.
            NextStep::Person { mode: next, .. } if mode == next => return self.end(status),
            _ => self.take_turn(&status.state, mode)?,
        }
        let status = open_change(self.context, &status.change, None)?;
        self.end(status)
    }

    /// Ends the run, and closes the change if it is done.
    fn end(self, status: ChangeStatus) -> Result<ChangeOutcome> {
        if status.next == (NextStep::Over { done: true }) {
            close_change(self.context, &status.change, &status.state)?;
        }
        Ok(ChangeOutcome {
            status,
            sent_back: self.sent_back,
        })
    }

    /// Returns an error if the commands of the project's checks are not trusted. Checked once, before the first turn.
    fn check_checks(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.are_checks_trusted, true) {
            return Ok(());
        }
        let workspace = self.context.workspace;
        if workspace.checks().is_empty() {
            log::warn!("no checks are configured; add some under [review] in agentd/config.toml");
        }
        trust_project_checks(workspace, self.context.run.trust, self.decider)
    }

    /// Retries the failed steps of the last turn. Returns false if there are none to retry.
    fn retry_steps(&mut self, state: &State) -> Result<bool> {
        if state.progress.undone == 0 {
            return Ok(false);
        }
        let Some(results) = retry_steps(self.context, &self.request.change)? else {
            return Ok(false);
        };
        (self.progress)(ChangeEvent::StepsRetried(&results))?;
        match results.iter().find(|result| !result.done) {
            None => Ok(true),
            Some(failed) => Err(not_all_done(&self.request.change, &failed.detail)),
        }
    }

    /// Takes one turn in a mode, with one agent or with several reviewers.
    fn take_turn(&mut self, state: &State, mode: &Mode) -> Result<()> {
        self.check_checks()?;
        let context = self.context;
        let workspace = context.workspace;
        let mut turn = next_turn(workspace, &self.request.change, state, mode)?;
        turn.agent = self.request.agent.clone();
        turn.model = self.request.model.clone();
        turn.files = files_to_show(workspace, &self.request.files, &turn)?;

        let mut agents = self.reviewers(mode);
        if let [] | [_] = agents.as_slice() {
            turn.agent = agents.pop().or(turn.agent);
            agents = vec![agent_for(workspace, &turn)?];
        }
        self.warn_of_own_work(&agents, &turn)?;
        let mut drivers: Vec<(AgentName, Arc<dyn Driver>)> = Vec::new();
        for agent in agents {
            let driver = find_driver(context.drivers, context.store, &agent)?;
            drivers.push((agent, driver));
        }

        let report = match drivers.as_slice() {
            [(agent, driver)] => {
                turn.agent = Some(agent.clone());
                take_turn(context, driver.as_ref(), &turn)?
            }
            reviewers => ask_reviewers(context, reviewers, &turn)?,
        };
        self.finish_turn(report)
    }

    /// Reports a turn to `progress`. Returns an error if its reply was unusable or one of its steps failed.
    fn finish_turn(&mut self, report: TurnReport) -> Result<()> {
        (self.progress)(ChangeEvent::TurnTaken(&report))?;

        let passes = report
            .verdict
            .is_none_or(|verdict| verdict == ReviewResult::Pass);
        self.sent_back = !passes || report.overruled.is_some();
        if let Some(fault) = report.fault {
            return Err(fault);
        }
        if report.state.progress.undone == 0 {
            return Ok(());
        }
        let failed = report.settlements.iter().find(|result| !result.done);
        let rejected = report.proposals.first();
        let reason = match (failed, rejected) {
            (Some(result), _) => result.detail.clone(),
            (None, Some(rejected)) => format!("{}: {}", rejected.what, rejected.reason),
            (None, None) => return Ok(()),
        };
        Err(not_all_done(&report.session, &reason))
    }

    /// Returns the agents of a panel review; empty if the mode has no panel, or if the request sets the agent.
    fn reviewers(&self, mode: &Mode) -> Vec<AgentName> {
        let workspace = self.context.workspace;
        let spec = workspace.pack.modes.get(mode);
        let has_panel = spec.is_some_and(|spec| spec.panel);
        if has_panel && self.request.agent.is_none() {
            workspace.settings.change.challengers.clone()
        } else {
            Vec::new()
        }
    }

    /// Logs a warning, once per run, if all reviewers of an agent's work are the agent itself or agents of the same
    /// vendor.
    fn warn_of_own_work(&mut self, reviewers: &[AgentName], turn: &TurnRequest) -> Result<()> {
        if self.has_warned_of_own_work {
            return Ok(());
        }
        let context = self.context;
        let mut last = None;
        for reviewer in reviewers {
            let turn = TurnRequest {
                agent: Some(reviewer.clone()),
                ..turn.clone()
            };
            let own_work = context
                .workspace
                .judges_own_work(Some(context.store), &turn)?;
            match own_work {
                Some((reviewed, author)) => last = Some((reviewer, reviewed, author)),
                None => return Ok(()),
            }
        }
        if let Some((reviewer, reviewed, author)) = last {
            warn_of_own_work(&turn.mode, reviewer, &reviewed, &author);
            self.has_warned_of_own_work = true;
        }
        Ok(())
    }
}

/// Logs a warning that an agent reviews its own work, or the work of another agent of the same vendor.
pub fn warn_of_own_work(mode: &Mode, reviewer: &AgentName, reviewed: &Mode, author: &AgentName) {
    if reviewer == author {
        log::warn!(
            "{mode}: {reviewer} reviews its own work ({reviewed}); set another agent under [modes.{mode}] in agentd/config.toml"
        );
    } else {
        log::warn!(
            "{mode}: {reviewer} reviews the work of {author} ({reviewed}), an agent of the same vendor"
        );
    }
}

/// Returns the error for a mode that has no agent.
#[must_use]
pub fn no_agent(mode: &Mode) -> Error {
    let message = format!("no agent is configured for mode `{mode}`, and none was found on PATH");
    Error::new(ErrorKind::UnknownAgent, message).with_hint(format!(
        "pass one with --agent, or set it under [modes.{mode}] in agentd/config.toml; list agents with `agentd doctor`"
    ))
}

/// Returns the error for a turn in a change that is done or abandoned.
fn change_over(change: &SessionId, done: bool) -> Error {
    let (what, hint) = match done {
        true => (
            "is done",
            "open another change with `agentd run NAME \"REQUEST\"`".to_owned(),
        ),
        false => (
            "was abandoned",
            format!("reopen it with `agentd revise {change} --note \"…\"`"),
        ),
    };
    Error::new(ErrorKind::NotWaiting, format!("change `{change}` {what}")).with_hint(hint)
}

/// Returns the error for a turn with a failed step or a refused effect.
fn not_all_done(change: &SessionId, reason: &str) -> Error {
    let message = format!("cannot complete the turn: {reason}");
    Error::new(ErrorKind::ReplyUnusable, message)
        .with_hint(format!("try again with `agentd run {change}`"))
}
