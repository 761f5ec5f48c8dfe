//! One turn, from state to state:
//! before → layers → fit → render → agent → parse → apply → commit → after → settle → advance.

pub(crate) mod calibration;
mod call;
mod chunking;
mod document_checks;
mod find_driver;
pub(crate) mod findings;
mod instructions;
pub(crate) mod prepare;
mod progress;
mod read_only;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod redacted;
mod repairs;
pub(crate) mod reply_reader;
pub(crate) mod request;
mod resume;
pub(crate) mod site;

pub use calibration::{measured, measured_agents};
pub use find_driver::find_driver;
pub use findings::{noted_findings, open_findings};
pub use instructions::with_request;
pub use prepare::{next_state, tokens_roughly};
pub use progress::{
    AcceptNow, CommittedTrees, ProgressEvent, ProgressReceiver, ProgressSender, Run, StopFlag,
    progress_channel,
};
pub use record::{CallRecord, ReplyRecord, TurnRecord, text as ledger_text};
pub use recover::recover_all;
pub use reply_reader::MOST_REPAIRS;
pub use request::{ReviewTree, TurnRequest};
pub use resume::{replay, resume};

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::agent::{self, Driver, Drivers};
use crate::apply;
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{
    CallOutcome, ContextItem, Effect, Event, Finding, Marker, Mode, OperationId, RejectedEffect,
    Reply, Response, ReviewResult, SessionId, Started, State, StepOutcome, StepResult, TurnResult,
    UpdateFormat, UsageMetrics,
};
use crate::ops::{self, MergeLock, Operations, Site, Step, TurnEnd};
use crate::orchestrator::chance;
use crate::orchestrator::clock;
use crate::orchestrator::prompts::assemble;
use crate::orchestrator::workspace::Workspace;
use crate::pack::{ModeSpec, Target};
use crate::parse;
use crate::store::{Entry, Lease, Store, blob_id};
use calibration as measure;
use call::{Answer, folder};
use findings::complete_report;
use prepare::PreparedTurn;
use read_only::ReadOnlyGuard;
use reply_reader::ReplyReader;
use site::TurnSite;

/// How long it is waited between two looks at whether another change is being merged.
const A_MOMENT: Duration = Duration::from_millis(100);

/// What turns are taken with.
#[derive(Clone, Copy)]
pub struct TurnContext<'a> {
    /// The project, its settings and its pack.
    pub workspace: &'a Workspace,
    /// The ledger.
    pub store: &'a dyn Store,
    /// The agents there are; what an earlier run has left may be of any of them.
    pub drivers: &'a Drivers,
    /// The operations that packs may name.
    pub operations: &'a Operations,
    /// The run.
    pub run: &'a Run,
}

impl fmt::Debug for TurnContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnContext")
            .field("workspace", self.workspace)
            .field("run", self.run)
            .finish_non_exhaustive()
    }
}

/// What became of a turn.
#[derive(Debug, Serialize)]
pub struct TurnReport {
    /// The session it belongs to.
    pub session: SessionId,
    /// Its number in the session.
    pub turn: u64,
    /// The mode it was taken in.
    pub mode: Mode,
    /// The agent it went to.
    pub agent: String,
    /// The prompt's length in bytes.
    pub prompt_bytes: u64,
    /// How the last call for its reply ended.
    pub end: CallOutcome,
    /// How many processes the agent had left behind.
    pub left_behind: u64,
    /// The reply, as it came.
    #[serde(skip)]
    pub reply: String,
    /// The reply, as it was read.
    pub response: Response,
    /// What the user should know of the calls.
    pub warnings: Vec<String>,
    /// The verdict, if the reply holds one.
    pub verdict: Option<ReviewResult>,
    /// Findings of the reply and of the round before it, the most severe first.
    pub findings: Vec<Finding>,
    /// Reason why the turn's result is worse than the verdict of its reply.
    pub overruled: Option<Overruled>,
    /// What the calls used.
    pub usage: UsageMetrics,
    /// How often the agent was called.
    pub calls: u64,
    /// How often it was asked again for what its reply lacked.
    pub repairs: u64,
    /// What was done, and what could not be done.
    pub settlements: Vec<StepResult>,
    /// What was asked for and not done, with the reasons.
    pub proposals: Vec<RejectedEffect>,
    /// The state afterwards.
    pub state: State,
    /// What must hold to leave the mode and does not, if it is this that keeps the session.
    pub closed_gate: Option<String>,
    /// Why the mode cannot be left, if it cannot.
    #[serde(skip)]
    pub fault: Option<Error>,
}

/// A result that counts instead of the verdict of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Overruled {
    /// The result that counts, such as `NEEDS_CHANGES`.
    pub result: TurnResult,
    /// The operation whose result makes it worse.
    pub operation: OperationId,
    /// The reason, for people: `1 critical finding is open`.
    pub reason: String,
}

impl Overruled {
    /// Judges a reply's own result by what operations came to, as the mode's `evidence` says.
    pub(crate) fn find(
        spec: &ModeSpec,
        said: TurnResult,
        results: &BTreeMap<OperationId, StepResult>,
    ) -> Option<Self> {
        let (operation, result) = apply::worse(spec, said, results)?;
        let reason = results
            .get(operation)
            .map(|found| found.detail.clone())
            .unwrap_or_default();
        Some(Self {
            result,
            operation: operation.clone(),
            reason,
        })
    }
}

/// Takes one turn of a session.
///
/// # Errors
///
/// Whatever keeps the turn from being taken. Once the agent has answered, nothing does: what is wrong with its reply
/// is in the report.
pub fn take_turn(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    ask: &TurnRequest,
) -> Result<TurnReport> {
    prepare::check(context, ask)?;
    let ask = ask.without(&context.workspace.secrets);
    let session = match &ask.session {
        Some(session) => session.clone(),
        None => SessionId::new(format!("turn-{}", chance::word()))?,
    };
    recover::holding(context, &session, |lease| {
        let (_, state) = recover::recover(context, lease)?;
        prepare::check_pack(context, &state, &session)?;
        let opening = prepare::opening(&state, &ask);
        let (before, state) = (state.clone(), state.after(&opening));
        let judged = prepare::judged(context, &ask, &state)?;
        let grounds = match &ask.review {
            Some(tree) => TurnSite::of_review(context, tree)?,
            None => TurnSite::of(context, ask.works_on(), &judged)?,
        };
        grounds.check_trust(context, &ask.mode)?;
        let site = grounds.site(context, ask.works_on(), &judged);
        let spec = context.workspace.pack.mode(&ask.mode)?;
        let (mut found, mut findings) = (ask.found.clone(), Vec::new());
        for name in &spec.before {
            let looked = context.operations.find(name.as_str())?.before(&site)?; // before
            found.extend(looked.items);
            findings.extend(looked.settlement);
        }
        let left_out = left_out(context.operations, spec, &site)?;
        let ask = with_request(context.store, TurnRequest { found, ..ask })?;
        let model = context.workspace.model(&ask)?;
        let measured = measure::measured(context.workspace, context.store, &ask)?;
        let ask = TurnRequest {
            nonce: Some(chance::nonce()),
            model,
            measured,
            ..ask
        };
        let assembly = assemble(context.workspace, &state, &ask)?; // layers, fit, render
        let prepared = prepare::prepared(context, driver, &state, &ask, &assembly)?;
        let started = Started {
            commit: grounds.commit()?,
            ..prepared.started
        };
        let prepared = PreparedTurn {
            findings,
            started,
            ..prepared
        };
        fail::point("prepared")?;
        let mut turning = ActiveTurn::new(context, driver, lease, before, &prepared, &grounds);
        turning.warnings.extend(left_out);
        turning.carry_on(opening)
    })
}

/// Returns a warning that names the operations after the turn which a session cannot have that was not opened as a
/// change. One that nobody named has nothing to commit, so nothing is left out.
fn left_out(operations: &Operations, spec: &ModeSpec, site: &Site<'_>) -> Result<Option<String>> {
    let (None, Some(session)) = (&site.change, site.session) else {
        return Ok(None);
    };
    let names = spec
        .after
        .iter()
        .chain(&spec.finish)
        .map(OperationId::as_str);
    let needing = operations.needing_change(names)?;
    if needing.is_empty() {
        return Ok(None);
    }
    let warning = format!(
        "`{session}` was not opened as a change, so this is left out: {}",
        needing.join(", ")
    );
    log::warn!("{warning}");
    Ok(Some(warning))
}

/// Returns what a turn's prompt would show of what operations find, as far as that can be told without running or
/// writing anything.
///
/// # Errors
///
/// Whatever keeps it from being told.
pub fn preview(
    context: &TurnContext<'_>,
    state: &State,
    ask: &TurnRequest,
) -> Result<Vec<(ContextItem, String)>> {
    // That a mode is not there is an error of the prompt itself.
    let Some(spec) = context.workspace.pack.modes.get(&ask.mode) else {
        return Ok(Vec::new());
    };
    let grounds = TurnSite::of(context, ask.works_on(), state)?;
    let site = grounds.site(context, ask.works_on(), state);
    let mut found = Vec::new();
    for name in &spec.before {
        found.extend(
            context
                .operations
                .find(name.as_str())?
                .preview(&site)?
                .items,
        );
    }
    Ok(found)
}

/// A turn that is being taken.
pub(crate) struct ActiveTurn<'a> {
    pub(crate) context: &'a TurnContext<'a>,
    pub(crate) driver: &'a dyn Driver,
    pub(crate) lease: &'a Lease,
    pub(crate) prepared: &'a PreparedTurn,
    /// Where it works.
    pub(crate) grounds: &'a TurnSite,
    /// The state, as far as the ledger knows of it.
    pub(crate) state: State,
    /// How often the agent was called.
    pub(crate) calls: u64,
    /// How often it was asked again for what its reply lacked.
    pub(crate) repairs: u64,
    /// What the user should know of the calls.
    pub(crate) warnings: Vec<String>,
    /// What has happened and goes with the next record.
    unrecorded: Vec<Event>,
}

impl<'a> ActiveTurn<'a> {
    pub(crate) fn new(
        context: &'a TurnContext<'a>,
        driver: &'a dyn Driver,
        lease: &'a Lease,
        state: State,
        prepared: &'a PreparedTurn,
        grounds: &'a TurnSite,
    ) -> Self {
        let calls = prepared.calls;
        let (warnings, unrecorded) = (Vec::new(), Vec::new());
        Self {
            context,
            driver,
            lease,
            prepared,
            grounds,
            state,
            calls,
            repairs: 0,
            warnings,
            unrecorded,
        }
    }

    /// Returns where operations work, with what is true then.
    pub(crate) fn site<'s>(&'s self, state: &'s State) -> Site<'s> {
        let session = Some(&self.lease.session).filter(|_| self.prepared.started.named);
        self.grounds.site(self.context, session, state)
    }

    /// Returns a call, to compare the work tree before and after it.
    pub(crate) fn watched(&self, turn: u64, call: u64) -> ReadOnlyGuard<'a> {
        let workspace = self.context.workspace;
        let updates = workspace.updates(&self.prepared.started.mode);
        let (home, root) = (&workspace.root, &self.grounds.tree);
        ReadOnlyGuard {
            home,
            root,
            session: &self.lease.session,
            turn,
            call,
            updates,
        }
    }

    /// Records events, and what they name, in one transaction.
    pub(crate) fn commit(&mut self, events: &[Event], blobs: &[&[u8]]) -> Result<()> {
        let all = [std::mem::take(&mut self.unrecorded).as_slice(), events].concat();
        let entry = Entry {
            events: &all,
            blobs,
            budget: self.context.run.budget,
        };
        self.context
            .store
            .commit(self.lease, &entry, clock::now())?;
        for event in events {
            if let Event::Answered(answered) = event {
                self.clear(answered.turn, answered.call)?;
            }
        }
        self.state = std::mem::take(&mut self.state).after(events);
        Ok(())
    }

    /// Removes the files of a call: the ledger has all of it.
    fn clear(&self, turn: u64, call: u64) -> Result<()> {
        fail::point("kept")?;
        agent::discard(
            &self
                .context
                .workspace
                .root
                .join(folder(&self.lease.session, turn, call)),
        );
        self.watched(turn, call).forget();
        fail::point("cleared")
    }

    /// Begins a turn in which nobody is called; that is recorded together with what it comes to.
    pub(crate) fn open(&mut self, opening: Vec<Event>) {
        self.state = std::mem::take(&mut self.state).after(&opening);
        self.unrecorded = opening;
    }

    /// Takes the turn from the call on; `opening` is recorded with it.
    pub(crate) fn carry_on(mut self, opening: Vec<Event>) -> Result<TurnReport> {
        let answer = self.ask(opening)?; // agent
        fail::point("replied")?;
        if !answer.reply.end.is_ok() {
            return self.failed(&answer);
        }
        let prepared = self.prepared;
        let (reply, left_behind) = (answer.reply.text.clone(), answer.reply.left_behind);
        let reading = ReplyReader::of(self.context.workspace, &prepared.started, &prepared.texts)?;
        let (response, pending, usage) = self.repaired(&reading, answer)?; // parse
        // A repair call that edited files or was stopped by the user ends the turn: nothing of it is decided.
        let ends_turn = |answer: &&Answer| {
            matches!(
                answer.reply.end,
                CallOutcome::Edited { .. } | CallOutcome::Stopped
            )
        };
        if let Some(answer) = pending.as_ref().filter(ends_turn) {
            return self.failed(answer);
        }
        let report = self.decide(&reading, response, pending.as_ref(), None)?;
        Ok(TurnReport {
            reply,
            left_behind,
            usage,
            ..report
        })
    }

    /// Decides on a response, records it together with the call it came from, does what it asks for and goes on.
    /// `findings` are those of the turn if they are known already; else they are read from the response.
    pub(crate) fn decide(
        &mut self,
        reading: &ReplyReader<'_>,
        response: Response,
        last: Option<&Answer>,
        findings: Option<Vec<Finding>>,
    ) -> Result<TurnReport> {
        let pack = &self.context.workspace.pack;
        let verdict = parse::verdict(&response, &reading.grammar);
        let verdict = parse::required_markers(&response, &reading.grammar).and(verdict);
        let started = &self.prepared.started;
        let may_edit_tree = started.shown.is_some();
        let outcome = apply::apply(pack, &self.state, may_edit_tree, &response, verdict)?; // apply
        // Of an opinion on a change nothing follows but its verdict and its findings.
        let is_opinion = started.for_change.is_some();
        // Findings are noted together, once all of them are known.
        let effects = outcome
            .effects
            .into_iter()
            .filter(|effect| effect.operation != OperationId::FindingsNote);
        let effects = if is_opinion {
            Vec::new()
        } else {
            effects.collect()
        };
        let mut planned =
            self.context
                .operations
                .plan(&self.site(&self.state), effects, started)?;
        let mut findings = match findings {
            Some(findings) => Some(findings),
            None => self.findings(&response, &planned)?,
        };
        self.find_places(findings.as_deref_mut().unwrap_or_default());
        if let Some(findings) = findings.as_deref().filter(|_| started.named) {
            self.complete_report(findings, &mut planned)?;
        }
        if outcome.fault.is_none() && !is_opinion {
            let (markers, verdict) = (&response.markers, outcome.verdict);
            planned.extend(self.closing(&outcome.events, markers, verdict, findings.as_deref())?);
        }
        let turn = started.turn;
        let contents = planned
            .iter()
            .filter_map(|planned| planned.content.as_ref());
        let mut blobs: Vec<&[u8]> = contents.map(String::as_bytes).collect();
        blobs.extend(
            self.unrecorded
                .first()
                .map(|_| self.prepared.fit.as_bytes()),
        );
        let mut events = Vec::new();
        if let Some(answer) = last {
            events.push(Event::Answered(Box::new(answer.answered())));
            blobs.push(answer.reply.text.as_bytes());
        }
        events.extend(outcome.events);
        events.extend(planned.iter().map(|planned| Event::Intended {
            turn,
            intent: planned.intent(),
        }));
        if planned.is_empty() {
            events.extend(apply::advance(pack, &self.state.clone().after(&events))?); // advance
        }
        fail::point("committing")?;
        self.commit(&events, &blobs)?; // commit
        fail::point("committed")?;
        let settlements = self.settle(&planned)?;
        let (verdict, proposals, fault) = (outcome.verdict, outcome.proposals, outcome.fault);
        let findings = findings.unwrap_or_default();
        Ok(TurnReport {
            verdict,
            findings,
            settlements,
            proposals,
            fault,
            ..self.report(response)?
        })
    }

    /// Adds to the mode's report the findings that it does not have.
    fn complete_report(&self, findings: &[Finding], planned: &mut Vec<Step>) -> Result<()> {
        let (workspace, started) = (self.context.workspace, &self.prepared.started);
        let words = workspace
            .finding_action(&started.mode)
            .map(|(_, words)| words)
            .unwrap_or_default();
        complete_report(
            workspace.pack.mode(&started.mode)?,
            findings,
            &words,
            planned,
            |target, content| {
                let (operation, target) = (OperationId::FilesWrite, target.to_owned());
                let effect = Effect {
                    operation,
                    target,
                    content,
                    format: UpdateFormat::Whole,
                };
                self.context
                    .operations
                    .plan(&self.site(&self.state), vec![effect], started)
            },
        )
    }

    /// Tells whether a verdict keeps the session in its mode.
    pub(crate) fn stays(&self, spec: &ModeSpec, verdict: ReviewResult) -> bool {
        spec.next.get(&TurnResult::Verdict(verdict))
            == Some(&Target::Mode(self.prepared.started.mode.clone()))
    }

    /// Returns what is to be done after the turn, whatever the reply asks for; `events` are what it led to.
    fn closing(
        &self,
        events: &[Event],
        markers: &[Marker],
        verdict: Option<ReviewResult>,
        findings: Option<&[Finding]>,
    ) -> Result<Vec<Step>> {
        let started = &self.prepared.started;
        let spec = self.context.workspace.pack.mode(&started.mode)?;
        // The end of the session depends on its findings, which are noted only later.
        let noted = findings.map(|findings| settled(started.turn, &ops::noted(findings)));
        let state = self.state.clone().after(events).after(&noted);
        let ends = apply::advance(&self.context.workspace.pack, &state)?;
        let finish = if ends == Some(Event::Ended { done: true }) {
            spec.finish.as_slice()
        } else {
            &[]
        };
        let closing = TurnEnd {
            started,
            markers,
            verdict,
            findings,
            today: &clock::today(),
        };
        let site = self.site(&state);
        let mut planned = Vec::new();
        for name in spec.after.iter().chain(finish) {
            planned.extend(
                self.context
                    .operations
                    .find(name.as_str())?
                    .closing(&site, &closing),
            );
        }
        Ok(planned)
    }

    /// Tells why steps that were left must not be taken: what was reviewed is not what is there any more.
    pub(crate) fn stale(&self, planned: &[Step]) -> Result<Option<String>> {
        let mode = &self.prepared.started.mode;
        if self.state.change.is_none() || !planned.iter().any(Step::is_closing) {
            return Ok(None);
        }
        self.grounds.check_trust(self.context, mode)?;
        let spec = self.context.workspace.pack.mode(mode)?;
        if spec
            .before
            .iter()
            .all(|name| *name != OperationId::ReviewRequire)
        {
            return Ok(None);
        }
        let looked = self
            .context
            .operations
            .find(OperationId::ReviewRequire.as_str())?
            .before(&self.site(&self.state));
        match looked {
            Err(error) if error.kind() == ErrorKind::VerdictStale => Ok(Some(error.to_string())),
            looked => looked.map(|_| None),
        }
    }

    /// Records that nothing of what was intended is done.
    pub(crate) fn refuse_all(&mut self, planned: &[Step], why: &str) -> Result<()> {
        let turn = self.prepared.started.turn;
        let settled = |planned: &Step| Event::Settled {
            turn,
            settlement: planned.settled(false, why.to_owned()),
        };
        self.commit(&planned.iter().map(settled).collect::<Vec<_>>(), &[])
    }

    /// Does what is intended, records what became of it, and goes on to the next mode if nothing keeps the session.
    pub(crate) fn settle(&mut self, planned: &[Step]) -> Result<Vec<StepResult>> {
        let turn = self.prepared.started.turn;
        if planned.is_empty() {
            return Ok(Vec::new());
        }
        let _landing = self.landing(planned)?;
        let mut settlements: Vec<StepResult> = Vec::new();
        let mut recorded = 0;
        let mut failed = self.failed_before(planned);
        for planned in planned {
            if planned.is_closing() && recorded < settlements.len() {
                // What a step does to the tree may undo what is known of an earlier one, so that is not done again.
                self.settled(&settlements[recorded..], None)?;
                recorded = settlements.len();
                fail::point("noted")?;
            }
            let mut settlement = match failed.as_ref().filter(|_| planned.is_closing()) {
                Some(failed) => planned.settled(false, format!("{failed} was not done")),
                None => self
                    .context
                    .operations
                    .run(&self.site(&self.state), planned)?, // after
            };
            if !settlement.done {
                failed.get_or_insert_with(|| settlement.operation.clone());
            }
            settlement.report = settlement
                .text
                .as_ref()
                .map(|text| blob_id(text.as_bytes()));
            self.context
                .run
                .tell(ProgressEvent::Settled(settlement.clone()));
            settlements.push(settlement);
        }
        let last = settlements[recorded..]
            .iter()
            .map(|settlement| settled(turn, settlement));
        let state = self.state.clone().after(&last.collect::<Vec<_>>());
        let next = apply::advance(&self.context.workspace.pack, &state)?; // advance
        fail::point("settling")?;
        self.settled(&settlements[recorded..], next)?; // settle
        fail::point("settled")?;
        Ok(settlements)
    }

    /// Waits until no other change of the project is being merged, if that is what is planned.
    fn landing(&self, planned: &[Step]) -> Result<Option<MergeLock>> {
        if !planned.iter().any(Step::is_landing) {
            return Ok(None);
        }
        loop {
            if let Some(landing) = MergeLock::take(&self.context.workspace.root)? {
                return Ok(Some(landing));
            }
            if !self.pause(A_MOMENT)? {
                return Err(Error::new(
                    ErrorKind::AgentStopped,
                    "another change was being merged",
                ));
            }
        }
    }

    /// Returns an operation of this turn that was not done, and is not tried again now.
    fn failed_before(&self, planned: &[Step]) -> Option<OperationId> {
        let again = |operation: &OperationId, target: &str| {
            planned
                .iter()
                .any(|planned| planned.operation == *operation && planned.target == target)
        };
        let mut failed = self.state.progress.failed();
        failed
            .find(|(operation, target)| !again(operation, target))
            .map(|(operation, _)| operation.clone())
    }

    /// Records what became of effects, and what follows from that.
    fn settled(&mut self, settlements: &[StepResult], next: Option<Event>) -> Result<()> {
        let turn = self.prepared.started.turn;
        let mut events: Vec<Event> = settlements
            .iter()
            .map(|settlement| settled(turn, settlement))
            .collect();
        events.extend(next);
        let reports = settlements
            .iter()
            .filter_map(|settlement| settlement.text.as_ref());
        let reports: Vec<&[u8]> = reports.map(String::as_bytes).collect();
        self.commit(&events, &reports)
    }

    /// Records a call that failed; what it said is shown, and has no effect.
    fn failed(&mut self, answer: &Answer) -> Result<TurnReport> {
        self.record(answer)?;
        let prepared = self.prepared;
        let reading = ReplyReader::of(self.context.workspace, &prepared.started, &prepared.texts)?;
        let Reply {
            text,
            usage,
            end,
            detail,
            left_behind,
            ..
        } = answer.reply.clone();
        // That it is cut off, or no reply at all, is told by how the call ended.
        let said = Response {
            problems: Vec::new(),
            ..reading.read(&text, &end)
        };
        let report = self.report(said)?;
        let name = format!("{}/{}", self.lease.session, prepared.started.turn);
        let fault = end.error(&prepared.started.agent, &name, &detail);
        Ok(TurnReport {
            reply: text,
            usage,
            end,
            left_behind,
            fault,
            overruled: None,
            ..report
        })
    }

    /// Returns what the turn came to if what was seen makes it worse than what its reply says.
    fn overruled(&self, state: &State) -> Result<Option<Overruled>> {
        let mode = &self.prepared.started.mode;
        let left = state
            .left
            .as_ref()
            .filter(|left| left.mode == *mode && state.mode.as_ref() != Some(mode));
        let (verdict, results) = match left {
            Some(left) => (left.verdict, &left.results),
            None => (state.progress.verdict, &state.results),
        };
        let said = verdict.map_or(TurnResult::Otherwise, TurnResult::Verdict);
        // A task that is ticked is progress, though others are left.
        let on_the_way = |operation: &OperationId| {
            results
                .get(operation)
                .is_some_and(|found| found.result == Some(StepOutcome::Progress))
        };
        let worse = Overruled::find(self.context.workspace.pack.mode(mode)?, said, results);
        Ok(worse.filter(|worse| !on_the_way(&worse.operation)))
    }

    fn report(&self, response: Response) -> Result<TurnReport> {
        let started = &self.prepared.started;
        let state = self.state.clone();
        let stays = state.mode.as_ref() == Some(&started.mode) && state.ended.is_none();
        let gate = apply::closed_gate(&self.context.workspace.pack, &state)?;
        Ok(TurnReport {
            session: self.lease.session.clone(),
            turn: started.turn,
            mode: started.mode.clone(),
            agent: started.agent.clone(),
            prompt_bytes: started.prompt_bytes,
            end: CallOutcome::Ok,
            left_behind: 0,
            reply: String::new(),
            response,
            warnings: self.warnings.clone(),
            verdict: None,
            findings: Vec::new(),
            overruled: self.overruled(&state)?,
            usage: UsageMetrics::default(),
            calls: self.calls,
            repairs: self.repairs,
            settlements: Vec::new(),
            proposals: Vec::new(),
            closed_gate: gate.filter(|_| stays).map(|gate| gate.text().to_owned()),
            state,
            fault: None,
        })
    }
}

fn settled(turn: u64, settlement: &StepResult) -> Event {
    Event::Settled {
        turn,
        settlement: settlement.clone(),
    }
}
