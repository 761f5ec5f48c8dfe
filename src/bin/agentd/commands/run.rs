//! `agentd run` and the commands for one phase.

use std::io;
use std::path::PathBuf;

use agentd::apply::NextStep;
use agentd::config::{BranchFinish, CheckCommand};
use agentd::models::{AgentName, Decision, Mode, SessionId, paths};
use agentd::orchestrator::{
    ChangeEvent, ChangeOutcome, ChangeRequest, ChangeStatus, Decider, PersonDecision, Workspace,
    check_change_pack, check_change_start, decide, run_change,
};
use agentd::store::SqliteStore;
use agentd::{Error, ErrorKind, Result, ReviewResult};
use serde_json::json;

use super::input::read_argument;
use super::report;
use super::session::{CliSession, Watcher, print_report};
use crate::args::{Args, PhaseArgs, RunArgs, RunOptions};
use crate::terminal::{self, CommandResult, Failure};
use crate::{exit, humanize, project, signals};

/// Message of the error that ends a run if stdout is closed.
const STDOUT_CLOSED: &str = "stdout is closed";

pub(super) fn run(args: &Args, given: &RunArgs) -> CommandResult {
    let change = SessionId::new(given.change.as_str())?;
    let mut runner = ChangeRunner::open(args, "agentd run", &change, None, &given.options)?;
    runner.request.request = given.request.as_deref().map(read_argument).transpose()?;
    runner.run()
}

pub(super) fn plan(args: &Args, given: &RunArgs) -> CommandResult {
    let change = SessionId::new(given.change.as_str())?;
    let mut runner = ChangeRunner::open(args, "agentd plan", &change, None, &given.options)?;
    runner.request.request = given.request.as_deref().map(read_argument).transpose()?;
    runner.request.only = Some(Mode::new("plan")?);
    runner.run()
}

pub(super) fn phase(args: &Args, mode: &str, given: &PhaseArgs) -> CommandResult {
    let change = SessionId::new(given.change.as_str())?;
    let name = format!("agentd {mode}");
    let mut runner = ChangeRunner::open(args, &name, &change, None, &given.options)?;
    runner.request.only = Some(Mode::new(mode)?);
    runner.run()
}

/// Runs a change with the options of a command, and prints its progress and its status.
pub(super) struct ChangeRunner<'a> {
    options: &'a RunOptions,
    pub(super) cli: CliSession,
    pub(super) request: ChangeRequest,
}

impl<'a> ChangeRunner<'a> {
    /// Opens the project with the recorded pack of the change, or with `pack` for a new change.
    pub(super) fn open(
        args: &Args,
        name: &str,
        change: &SessionId,
        pack: Option<&str>,
        options: &'a RunOptions,
    ) -> Result<Self> {
        let recorded = project::find_pack(args, change)?;
        let workspace = project::workspace(args, recorded.as_deref().or(pack))?;
        Self::with_workspace(args, name, change, workspace, options)
    }

    /// Creates a runner for an open project.
    pub(super) fn with_workspace(
        args: &Args,
        name: &str,
        change: &SessionId,
        workspace: Workspace,
        options: &'a RunOptions,
    ) -> Result<Self> {
        let agent = options.agent.as_deref().map(AgentName::new).transpose()?;
        let request = ChangeRequest {
            agent,
            model: options.model.clone(),
            ..ChangeRequest::new(change.clone())
        };

        Ok(Self {
            cli: CliSession::open(args, name, workspace, &options.send, options.json)?,
            options,
            request,
        })
    }

    /// Records a decision without running the change.
    pub(super) fn decide(&mut self, decision: &PersonDecision) -> Result<ChangeStatus, Failure> {
        let change = &self.request.change;
        let (result, shown) = self.cli.with_context(self.options.json, |context, _| {
            decide(context, change, decision.decision, decision.note.as_deref())
        })?;
        let status = result?;
        shown.map_err(Failure::Output)?;
        Ok(status)
    }

    /// Runs the change, and prints its status.
    pub(super) fn run(self) -> CommandResult {
        self.run_after(None)
    }

    /// Records a decision, then runs the change, and prints its status.
    pub(super) fn run_after(mut self, decision: Option<&PersonDecision>) -> CommandResult {
        let options = self.options;
        let json = options.json;
        let request = &self.request;

        check_change_pack(&self.cli.workspace)?;
        if request.request.is_some() {
            self.check_start()?;
        }

        let mut printed = Ok(());
        let (result, shown) = self.cli.with_context(json, |context, watcher| {
            if let Some(PersonDecision { decision, note }) = decision {
                decide(context, &request.change, *decision, note.as_deref())?;
            }
            let mut decider = TerminalDecider {
                options,
                watcher: Some(watcher),
            };

            let mut progress = |event: ChangeEvent<'_>| {
                watcher.flush();
                printed = print_event(&event, json);
                if printed.is_err() || watcher.has_failed() {
                    return Err(Error::new(ErrorKind::FileUnusable, STDOUT_CLOSED));
                }
                Ok(())
            };
            run_change(context, request, &mut decider, &mut progress)
        })?;

        // A closed stdout is reported only if nothing else went wrong.
        let outcome = match (result, printed.and(shown)) {
            (Err(error), Ok(())) => return Err(error.into()),
            (Err(error), Err(_)) if error.message() != STDOUT_CLOSED => return Err(error.into()),
            (_, Err(output)) => return Err(Failure::Output(output)),
            (Ok(outcome), Ok(())) => outcome,
        };

        self.print_status(&outcome.status)?;
        Ok(exit_code(&outcome, self.request.only.is_some()))
    }

    /// Checks that the change can be started, before a ledger is created for it.
    fn check_start(&self) -> Result<()> {
        let workspace = &self.cli.workspace;
        if SqliteStore::open_existing(&workspace.root)?.is_some() {
            return Ok(());
        }
        let mut decider = TerminalDecider {
            options: self.options,
            watcher: None,
        };
        let trust = self.cli.run.trust;
        check_change_start(
            workspace,
            &self.cli.drivers,
            trust,
            &self.request,
            &mut decider,
        )
    }

    fn print_status(&self, status: &ChangeStatus) -> io::Result<()> {
        if self.options.json {
            return terminal::print_json_line(&json!({
                "event": "status", "change": status.change, "state": status.state,
                "tree": status.tree, "questions": status.questions(), "next": status.next,
            }));
        }
        let merges = self.cli.workspace.settings.change.finish == BranchFinish::Merge;
        print_next_step(status, merges);
        Ok(())
    }
}

fn print_event(event: &ChangeEvent<'_>, json: bool) -> io::Result<()> {
    match event {
        ChangeEvent::TurnTaken(report) => print_report(report, json),
        ChangeEvent::StepsRetried(results) if !json => {
            results.iter().for_each(report::print_step);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the exit code of a run, or of one phase.
fn exit_code(outcome: &ChangeOutcome, is_phase: bool) -> u8 {
    let status = &outcome.status;
    match status.next {
        NextStep::Over { done: false } => match status.state.progress.verdict {
            // Stopped by failing checks, or by a review that asks for changes.
            Some(ReviewResult::Pass | ReviewResult::NeedsChanges) => exit::FINDINGS,
            _ => exit::ABANDONED,
        },
        NextStep::Rounds { .. } | NextStep::Answers { .. } | NextStep::Person { .. } => {
            exit::FORBIDDEN
        }
        _ if is_phase && outcome.sent_back => exit::FINDINGS,
        _ => exit::OK,
    }
}

/// Makes decisions by the options of the command, or by asking on the terminal.
struct TerminalDecider<'a> {
    options: &'a RunOptions,
    /// `None` before the run starts.
    watcher: Option<&'a Watcher>,
}

impl Decider for TerminalDecider<'_> {
    fn decide(&mut self, status: &ChangeStatus) -> Result<Option<PersonDecision>> {
        match status.next {
            NextStep::Approval { .. } if self.options.auto => {
                Ok(Some(PersonDecision::new(Decision::Waive)))
            }
            NextStep::Answers { .. } if self.options.yes => {
                Ok(Some(PersonDecision::new(Decision::Waive)))
            }
            NextStep::Answers { .. } => {
                let answers = self.ask_all(&status.questions())?;
                Ok(answers.map(|note| PersonDecision::new(Decision::Revise).with_note(note)))
            }
            _ => Ok(None),
        }
    }

    fn accept_checks(&mut self, commands: &[CheckCommand]) -> Result<bool> {
        if !terminal::can_ask() {
            return Ok(false);
        }
        self.flush();
        for command in commands {
            terminal::eprint_row("check", &command.run);
        }
        let question = "these checks will run on the code that the agent writes; trust them? [y/N]";
        let answer = self.ask(question)?.unwrap_or_default();
        Ok(answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes"))
    }
}

impl TerminalDecider<'_> {
    /// Asks questions one by one. Returns `None` without a terminal, or if a question is not answered.
    fn ask_all(&self, questions: &[String]) -> Result<Option<String>> {
        if questions.is_empty() || !terminal::can_ask() {
            return Ok(None);
        }
        let mut notes = Vec::new();
        for question in questions {
            match self.ask(question)? {
                Some(answer) => notes.push(format!("**{question}**\n{answer}")),
                None => return Ok(None),
            }
        }
        Ok(Some(notes.join("\n\n")))
    }

    /// Waits until all progress so far is shown.
    fn flush(&self) {
        if let Some(watcher) = self.watcher {
            watcher.flush();
        }
    }

    fn ask(&self, question: &str) -> Result<Option<String>> {
        self.flush();
        signals::while_asking(|| terminal::ask_question(question)).map_err(|error| {
            Error::new(ErrorKind::FileUnusable, "cannot read the answer from stdin")
                .with_source(error)
        })
    }
}

/// Prints the status of a change, what to review, and the commands to continue.
fn print_next_step(status: &ChangeStatus, merges: bool) {
    let change = &status.change;
    match &status.next {
        NextStep::Ready { mode } => {
            terminal::eprint_row("next", format_args!("{mode}: `agentd run {change}`"));
        }
        NextStep::Approval { mode } | NextStep::Person { mode, .. } => {
            terminal::eprint_row("status", format_args!("awaiting approval before {mode}"));
            if let NextStep::Person { reason, .. } = &status.next {
                terminal::eprint_row("reason", reason);
            }
            terminal::eprint_row("review", review_folder(status).display());
            print_commands(&[
                format!("agentd approve {change}"),
                format!("agentd revise {change} --note \"…\""),
                format!("agentd reject {change}"),
            ]);
        }
        NextStep::Answers { mode, .. } => {
            terminal::eprint_row(
                "status",
                format_args!("awaiting answers to the questions of {mode}"),
            );
            for question in status.questions() {
                terminal::eprint_row("question", question);
            }
            print_commands(&[
                format!("agentd revise {change} --note \"the answers\""),
                format!("agentd approve {change}"),
            ]);
        }
        NextStep::Rounds { mode, rounds } => {
            let rounds = humanize::count(*rounds, "round");
            terminal::eprint_row(
                "status",
                format_args!("stuck: {mode} reached the limit of {rounds}"),
            );
            terminal::eprint_row("review", review_folder(status).display());
            print_commands(&[
                format!("agentd revise {change} --note \"…\""),
                format!("agentd approve {change}"),
                format!("agentd cancel {change}"),
            ]);
        }
        NextStep::Over { done: true } => print_done(status, merges),
        NextStep::Over { done: false } => {
            print_abandoned(status);
            if status.tree.is_dir() {
                terminal::eprint_row("review", review_folder(status).display());
            }
            terminal::eprint_row(
                "next",
                format_args!("to reopen it: agentd revise {change} --note \"…\""),
            );
        }
    }
}

/// Prints the commands that can continue a change, one per row.
fn print_commands(commands: &[String]) {
    for (index, command) in commands.iter().enumerate() {
        let label = if index == 0 { "next" } else { "" };
        terminal::eprint_row(label, command);
    }
}

/// Prints the branch that has the result of a finished change.
fn print_done(status: &ChangeStatus, merges: bool) {
    let change = &status.change;
    let opened = status.state.change.as_ref();
    match opened.and_then(|opened| opened.onto.as_ref()) {
        Some(onto) if merges => {
            terminal::eprint_row(
                "status",
                format_args!("done: {change} is merged into {onto}"),
            );
        }
        _ => terminal::eprint_row(
            "status",
            format_args!("done: {change} is on branch {}", branch_name(status)),
        ),
    }
}

/// Prints that a change is abandoned, with the branch that has its work.
pub(super) fn print_abandoned(status: &ChangeStatus) {
    terminal::eprint_row(
        "status",
        format_args!("abandoned: branch {} is kept", branch_name(status)),
    );
}

/// Returns the recorded branch of a change; empty if the change was not opened.
fn branch_name(status: &ChangeStatus) -> &str {
    let opened = status.state.change.as_ref();
    opened.map_or("", |opened| opened.branch.as_str())
}

/// Returns the folder of the change's documents, or its worktree if there are none.
fn review_folder(status: &ChangeStatus) -> PathBuf {
    let folder = status.tree.join(paths::change_folder(&status.change));
    if folder.is_dir() {
        folder
    } else {
        status.tree.clone()
    }
}
