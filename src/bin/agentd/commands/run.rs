//! `agentd run` and its phases: a change is led on until it is done, given up, or waits for a person.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use agentd::agent::Driver;
use agentd::apply::NextStep;
use agentd::config::Finish;
use agentd::models::{AgentName, Decision, Mode, SessionId, State};
use agentd::orchestrator::{
    ChangeStatus, TurnContext, TurnReport, TurnRequest, Workspace, accept_checks, check_checks,
    decide, judge, leave, next_ask, open_change, retry, take_turn, with_files,
};
use agentd::store::{SqliteStore, Store};
use agentd::{Error, ErrorKind, Result, ReviewResult, spec};
use serde_json::json;

use super::input::text;
use super::report;
use super::session::Sending;
use crate::args::{Args, LeadArgs, PhaseArgs, RunArgs};
use crate::terminal::{self, Failure, Outcome};
use crate::{exit, project};

pub(super) fn run(args: &Args, given: &RunArgs) -> Outcome {
    let session = SessionId::new(given.change.as_str())?;
    let request = given.request.as_deref().map(text).transpose()?;
    Leader::open(args, "agentd run", &session, None, &given.lead)?.go(request, None)
}

pub(super) fn plan(args: &Args, given: &RunArgs) -> Outcome {
    let session = SessionId::new(given.change.as_str())?;
    let request = given.request.as_deref().map(text).transpose()?;
    Leader::open(args, "agentd plan", &session, None, &given.lead)?
        .go(request, Some(&Mode::new("plan")?))
}

pub(super) fn phase(args: &Args, mode: &str, given: &PhaseArgs) -> Outcome {
    let session = SessionId::new(given.change.as_str())?;
    let name = format!("agentd {mode}");
    Leader::open(args, &name, &session, None, &given.lead)?.go(None, Some(&Mode::new(mode)?))
}

/// Leads one change.
pub(super) struct Leader<'a> {
    args: &'a Args,
    given: &'a LeadArgs,
    pub(super) sending: Sending,
    session: SessionId,
    /// The drivers that were used: a script goes on where it was.
    drivers: BTreeMap<String, Arc<dyn Driver>>,
    /// Files of the project that every agent is shown.
    pub(super) files: Vec<PathBuf>,
    /// Whether it was made sure that a turn can be taken.
    begun: bool,
    /// Set once this run has warned of an agent that judges its own work.
    warned_of_own_work: bool,
}

impl<'a> Leader<'a> {
    /// Opens the project with the pack that leads the change, or with the one that shall.
    pub(super) fn open(
        args: &'a Args,
        name: &str,
        session: &SessionId,
        pack: Option<&str>,
        given: &'a LeadArgs,
    ) -> Result<Self> {
        let led = project::pack_of(args, session)?;
        let workspace = project::workspace(args, led.as_deref().or(pack))?;
        Self::with(name, workspace, session, args, given)
    }

    /// Leads a change of a project that is open already.
    pub(super) fn with(
        name: &str,
        workspace: Workspace,
        session: &SessionId,
        args: &'a Args,
        given: &'a LeadArgs,
    ) -> Result<Self> {
        let sending = Sending::open(args, name, workspace, &given.send, given.json)?;
        let (session, drivers) = (session.clone(), BTreeMap::new());
        let (files, begun, warned_of_own_work) = (Vec::new(), false, false);
        Ok(Self {
            args,
            given,
            sending,
            session,
            drivers,
            files,
            begun,
            warned_of_own_work,
        })
    }

    /// Gives an agent a driver of its own.
    pub(super) fn add(&mut self, agent: &str, driver: Arc<dyn Driver>) {
        self.drivers.insert(agent.to_owned(), driver);
    }

    /// Leads the change on; with a mode, only through one turn in that mode.
    pub(super) fn go(mut self, mut request: Option<String>, only: Option<&Mode>) -> Outcome {
        if request.is_some() && self.is_new()? {
            // Nothing is opened that could not be begun.
            self.begin()?;
            let mode = self.sending.workspace.pack.start.clone();
            let agent = self
                .given
                .agent
                .as_deref()
                .map(AgentName::new)
                .transpose()?;
            let agent = self.agent(&TurnRequest {
                agent,
                ..TurnRequest::new(mode, "")
            })?;
            self.prepare(&agent)?;
        }
        loop {
            let session = self.session.clone();
            let lead = self.context(None, |context| {
                open_change(context, &session, request.take().as_deref())
            })?;
            match (only, &lead.standing) {
                (Some(_), NextStep::Over { done }) => return Err(over(&session, *done).into()),
                // Naming the phase is no approval of what nobody has seen.
                (Some(mode), NextStep::Person { mode: next, .. }) if mode == next => {
                    return self.tell(&lead);
                }
                (Some(mode), _) => {
                    let sent_back = self.turn(&lead.state, mode)?;
                    let code = self.stand()?;
                    return Ok(if code == exit::OK && sent_back {
                        exit::FINDINGS
                    } else {
                        code
                    });
                }
                (None, _) => {}
            }
            match &lead.standing {
                NextStep::Ready { mode } => {
                    if self.tried_again(&lead.state)? {
                        continue;
                    }
                    let _led_on = self.turn(&lead.state, mode)?;
                }
                NextStep::Approval { .. } if self.given.auto => {
                    self.decided(Decision::Waive, None)?
                }
                NextStep::Answers { .. } if self.given.yes => {
                    self.decided(Decision::Waive, None)?
                }
                NextStep::Answers { .. } => match answers(&lead, &session)? {
                    Some(note) => self.decided(Decision::Revise, Some(&note))?,
                    None => return self.tell(&lead),
                },
                _ => return self.tell(&lead),
            }
        }
    }

    /// Tells whether the ledger has nothing of the change yet.
    fn is_new(&self) -> Result<bool> {
        let store = SqliteStore::open_existing(&self.sending.workspace.root)?;
        store.map_or(Ok(true), |store| {
            Ok(store.events(&self.session)?.is_empty())
        })
    }

    /// Makes sure, once and before anything is spent, that the project's own checks may be run: a person on a terminal
    /// is asked.
    fn begin(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let workspace = &self.sending.workspace;
        let commands = workspace.checks();
        if commands.is_empty() {
            log::warn!(
                "no checks of this project are known; name some under [review] in agentd/config.toml"
            );
        }
        let refused =
            match check_checks(workspace, &commands, self.sending.run.trust.covers_checks()) {
                Err(error) if error.kind() == ErrorKind::NotTrusted && terminal::can_ask() => error,
                result => return result.map_err(Failure::from),
            };
        commands
            .iter()
            .for_each(|command| terminal::row("check", &command.run));
        match terminal::ask(
            "these checks of the project would be run after the agent has changed it; accept them? [y/N]",
        )? {
            Some(answer)
                if answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes") =>
            {
                Ok(accept_checks(workspace, &commands)?)
            }
            _ => Err(refused.into()),
        }
    }

    /// Tells how the change stands.
    fn stand(mut self) -> Outcome {
        let session = self.session.clone();
        let lead = self.context(None, |context| open_change(context, &session, None))?;
        self.tell(&lead)
    }

    /// Does something with a desk; what happens is shown as a mode's replies are read.
    fn context<T>(
        &mut self,
        mode: Option<&Mode>,
        work: impl FnOnce(&TurnContext<'_>) -> Result<T>,
    ) -> Result<T, Failure> {
        let grammar = mode.and_then(|mode| self.sending.workspace.pack.grammar(mode).ok());
        let (result, shown) = self
            .sending
            .with_context(self.given.json, grammar.as_ref(), work)?;
        let value = result?;
        shown.map_err(Failure::Output)?;
        Ok(value)
    }

    /// Records what a person has decided.
    pub(super) fn decided(
        &mut self,
        decision: Decision,
        note: Option<&str>,
    ) -> Result<(), Failure> {
        let session = self.session.clone();
        self.context(None, |context| decide(context, &session, decision, note))
            .map(|_| ())
    }

    /// Tries again what could not be done after the last turn, if that is what keeps the change.
    fn tried_again(&mut self, state: &State) -> Result<bool, Failure> {
        if state.progress.undone == 0 {
            return Ok(false);
        }
        let session = self.session.clone();
        let Some(settlements) = self.context(None, |context| retry(context, &session))? else {
            return Ok(false);
        };
        if !self.given.json {
            settlements.iter().for_each(report::settlement);
        }
        match settlements.iter().find(|settlement| !settlement.done) {
            None => Ok(true),
            Some(failed) => Err(undone(&session, &failed.detail).into()),
        }
    }

    /// Takes one turn, and tells of it. Returns whether its verdict, as it counts, sends the work back.
    fn turn(&mut self, state: &State, mode: &Mode) -> Result<bool, Failure> {
        self.begin()?;
        let session = self.session.clone();
        let ask = next_ask(&self.sending.workspace, &session, state, mode)?;
        let agent = self
            .given
            .agent
            .as_deref()
            .map(AgentName::new)
            .transpose()?;
        let ask = TurnRequest {
            agent,
            model: self.given.model.clone(),
            ..ask
        };
        let ask = with_files(&self.sending.workspace, &self.files, ask)?;
        let mut agents = self.panel(mode);
        let is_panel = agents.len() > 1;
        if !is_panel {
            agents = vec![self.agent(&TurnRequest {
                agent: agents.pop().or(ask.agent.clone()),
                ..ask.clone()
            })?];
        }
        self.warn_of_own_work(&agents, &ask)?;
        for agent in &agents {
            self.prepare(agent)?;
        }
        let drivers = std::mem::take(&mut self.drivers);
        let asked = agents
            .iter()
            .filter_map(|agent| Some((agent, drivers.get(agent.as_str())?.as_ref())));
        let asked: Vec<(&AgentName, &dyn Driver)> = asked.collect();
        let taken = match asked.as_slice() {
            [(agent, driver)] => {
                let ask = TurnRequest {
                    agent: Some((*agent).clone()),
                    ..ask
                };
                self.context(Some(mode), |context| take_turn(context, *driver, &ask))
            }
            judges => self.context(Some(mode), |context| judge(context, judges, &ask)),
        };
        self.drivers = drivers;
        let report = taken?;
        self.told(report)
    }

    /// Returns the agents that are asked at once in a mode; none if it has one of its own.
    fn panel(&self, mode: &Mode) -> Vec<AgentName> {
        let workspace = &self.sending.workspace;
        let is_panel = workspace
            .pack
            .modes
            .get(mode)
            .is_some_and(|spec| spec.panel);
        let several = is_panel && self.given.agent.is_none();
        if several {
            workspace.settings.change.challengers.clone()
        } else {
            Vec::new()
        }
    }

    fn agent(&self, ask: &TurnRequest) -> Result<AgentName> {
        self.sending
            .workspace
            .agent(ask)?
            .ok_or_else(|| no_agent(&ask.mode))
    }

    /// Warns, once in a run, if nobody judges the work of an agent but the agent itself or others of its vendor.
    fn warn_of_own_work(&mut self, judges: &[AgentName], ask: &TurnRequest) -> Result<()> {
        if self.warned_of_own_work {
            return Ok(());
        }
        let store = SqliteStore::open_existing(&self.sending.workspace.root)?;
        let store = store.as_ref().map(|store| store as &dyn Store);
        let mut own = None;
        for judge in judges {
            let ask = TurnRequest {
                agent: Some(judge.clone()),
                ..ask.clone()
            };
            match self.sending.workspace.judges_own_work(store, &ask)? {
                Some((judged, author)) => own = Some((judge, judged, author)),
                None => return Ok(()),
            }
        }
        if let Some((judge, judged, author)) = own {
            warn_of_own_work(&ask.mode, judge, &judged, &author);
            self.warned_of_own_work = true;
        }
        Ok(())
    }

    /// Makes the driver of an agent ready, once.
    fn prepare(&mut self, agent: &AgentName) -> Result<()> {
        if !self.drivers.contains_key(agent.as_str()) {
            let driver = self.sending.driver(self.args, agent)?;
            self.drivers.insert(agent.as_str().to_owned(), driver);
        }
        Ok(())
    }

    fn told(&self, report: TurnReport) -> Result<bool, Failure> {
        let passes = |verdict| verdict == ReviewResult::Pass;
        let sent_back = !report.verdict.is_none_or(passes) || report.overruled.is_some();
        let undone = report.state.progress.undone > 0;
        let proposals = report
            .proposals
            .iter()
            .map(|proposal| format!("{}: {}", proposal.what, proposal.reason));
        let failed = report
            .settlements
            .iter()
            .filter(|settlement| !settlement.done);
        let what: Vec<String> = failed
            .map(|settlement| settlement.detail.clone())
            .chain(proposals)
            .collect();
        let session = report.session.clone();
        self.sending.tell(report)?;
        match what.first().filter(|_| undone) {
            Some(what) => Err(self::undone(&session, what).into()),
            None => Ok(sent_back),
        }
    }

    /// Tells how the change stands, and returns the exit code of that.
    fn tell(mut self, lead: &ChangeStatus) -> Outcome {
        let session = self.session.clone();
        if let NextStep::Over { done: true } = lead.standing {
            self.context(None, |context| leave(context, &session, &lead.state))?;
        }
        if self.given.json {
            terminal::json_line(&json!({
                "event": "standing", "change": session, "state": lead.state, "tree": lead.tree,
                "questions": questions(lead, &session), "stands": lead.standing,
            }))?;
        } else {
            let merges = self.sending.workspace.settings.change.finish == Finish::Merge;
            stands(lead, &session, merges);
        }
        Ok(match lead.standing {
            NextStep::Over { done: false } => match lead.state.progress.verdict {
                // One that passed was held up by its checks.
                Some(ReviewResult::Pass | ReviewResult::NeedsChanges) => exit::FINDINGS,
                _ => exit::GIVEN_UP,
            },
            NextStep::Rounds { .. } | NextStep::Answers { .. } | NextStep::Person { .. } => {
                exit::FORBIDDEN
            }
            _ => exit::OK,
        })
    }
}

/// Warns of an agent that judges its own work, or that of its vendor.
pub(super) fn warn_of_own_work(mode: &Mode, judge: &AgentName, judged: &Mode, author: &AgentName) {
    if judge == author {
        log::warn!(
            "{mode}: {judge} judges its own work ({judged}); set another agent under [modes.{mode}]"
        );
    } else {
        log::warn!(
            "{mode}: {judge} judges the work of {author} ({judged}), which is of the same vendor"
        );
    }
}

/// Returns the error for a mode that no agent is there for.
pub(super) fn no_agent(mode: &Mode) -> Error {
    let message = format!("no agent is named for the mode `{mode}`, and none was found on PATH");
    Error::new(ErrorKind::UnknownAgent, message).with_hint(format!(
        "`agentd doctor` shows what was looked for; name one with --agent, or under [modes.{mode}] in \
         agentd/config.toml; `agentd demo` needs none"
    ))
}

/// Returns the error for a phase of a change that is over.
fn over(session: &SessionId, done: bool) -> Error {
    let (what, hint) = match done {
        true => ("is done", "open another one".to_owned()),
        false => (
            "is given up",
            format!("`agentd revise {session} --note \"…\"` takes it up again"),
        ),
    };
    Error::new(ErrorKind::NotWaiting, format!("`{session}` {what}")).with_hint(hint)
}

fn undone(session: &SessionId, what: &str) -> Error {
    Error::new(
        ErrorKind::ReplyUnusable,
        format!("not all of the turn could be done: {what}"),
    )
    .with_hint(format!("`agentd run {session}` tries again"))
}

/// Says how a change stands, and what to do next.
fn stands(lead: &ChangeStatus, session: &SessionId, merges: bool) {
    let folder = lead.tree.join("agentd/changes").join(session.as_str());
    let folder = if folder.is_dir() {
        folder
    } else {
        lead.tree.clone()
    };
    let folder = folder.display().to_string();
    match &lead.standing {
        NextStep::Ready { mode } => {
            terminal::row("next", format_args!("{mode}: `agentd run {session}`"))
        }
        NextStep::Approval { mode } | NextStep::Person { mode, .. } => {
            terminal::row("waits", format_args!("for your approval before {mode}"));
            if let NextStep::Person { reason, .. } = &lead.standing {
                terminal::row("look at", reason);
            }
            terminal::row("read", folder);
            terminal::row(
                "then",
                format_args!(
                    "agentd approve {session} | agentd revise {session} --note \"…\" | agentd reject {session}"
                ),
            );
        }
        NextStep::Answers { mode, .. } => {
            terminal::row("waiting", format_args!("for your answers to {mode}"));
            questions(lead, session)
                .iter()
                .for_each(|question| terminal::row("question", question));
            terminal::row(
                "then",
                format_args!(
                    "agentd revise {session} --note \"the answers\" | agentd approve {session}"
                ),
            );
        }
        NextStep::Rounds { mode, rounds } => {
            terminal::row(
                "waits",
                format_args!("for you: {mode} has gone round {rounds} times without an end"),
            );
            terminal::row("read", folder);
            terminal::row(
                "then",
                format_args!(
                    "agentd revise {session} --note \"…\" | agentd approve {session} | agentd cancel {session}"
                ),
            );
        }
        NextStep::Over { done: true } => {
            match lead
                .state
                .change
                .as_ref()
                .and_then(|opened| opened.onto.as_ref())
                .filter(|_| merges)
            {
                Some(onto) => {
                    terminal::row("done", format_args!("{session}; see `git log {onto}`"))
                }
                None => terminal::row(
                    "done",
                    format_args!("{session}; it is on its branch agentd/{session}"),
                ),
            }
        }
        NextStep::Over { done: false } => {
            terminal::row("given up", format_args!("{session}; its branch stays"));
            if lead.tree.is_dir() {
                terminal::row("read", folder);
            }
            terminal::row(
                "then",
                format_args!("agentd revise {session} --note \"…\" takes it up again"),
            );
        }
    }
}

/// Returns what the agent asks.
fn questions(lead: &ChangeStatus, session: &SessionId) -> Vec<String> {
    let NextStep::Answers { file, .. } = &lead.standing else {
        return Vec::new();
    };
    if !lead.state.progress.questions.is_empty() {
        return lead.state.progress.questions.clone();
    }
    let path = format!("agentd/changes/{session}/{file}");
    let text = agentd::ops::read_project_text(&lead.tree, &path)
        .ok()
        .flatten();
    text.map(|text| spec::open_questions(&text))
        .unwrap_or_default()
}

/// Asks a person on a terminal; `None` if nobody is there, or nobody answers.
fn answers(lead: &ChangeStatus, session: &SessionId) -> Result<Option<String>, Failure> {
    let asked = questions(lead, session);
    if asked.is_empty() || !terminal::can_ask() {
        return Ok(None);
    }
    let mut notes = Vec::new();
    for question in &asked {
        match terminal::ask(question)? {
            Some(answer) => notes.push(format!("**{question}**\n{answer}")),
            None => return Ok(None),
        }
    }
    Ok(Some(notes.join("\n\n")))
}
