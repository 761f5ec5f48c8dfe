//! Calls of a turn to its agent. A call is recorded before the agent is started, watched while it runs, and recorded
//! again when it ends.

use std::path::Path;
use std::time::{Duration, Instant};

use super::active_turn::ActiveTurn;
use super::call_error::call_error;
use super::call_files::{folder, marker};
use super::chunking::split_chunks;
use super::prepare::estimate_text_tokens;
use super::progress::ProgressEvent;
use super::session::Heartbeat;
use super::token_check::compare_tokens;
use crate::agent::{self, AgentCall, Driver, Limits, RunningCall, Tools};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{
    Amount, CallEnd, CallOutcome, CallReason, Event, Format, Permission, Reply, SegmentRef,
    StepResult, UsageMetrics,
};
use crate::orchestrator::workspace::{Workspace, distrust_ledger};
use crate::parse::RepairKind;
use crate::store::{BudgetScope, blob_id};

/// Poll interval while an agent runs.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Seconds to wait if a rate-limited agent does not report a wait time; doubled after every call.
const DEFAULT_RETRY_SECONDS: u64 = 20;

/// A call that has ended but is not recorded yet.
#[derive(Debug)]
pub(crate) struct EndedCall {
    turn: u64,
    call: u64,
    pub(crate) reply: Reply,
    spent: Amount,
    milliseconds: u64,
}

impl EndedCall {
    /// Returns the record of the call for the ledger.
    pub(crate) fn answered(&self) -> CallEnd {
        CallEnd {
            turn: self.turn,
            call: self.call,
            end: self.reply.end.clone(),
            detail: self.reply.detail.clone(),
            reply: blob_id(self.reply.text.as_bytes()),
            usage: self.reply.usage,
            spent: self.spent,
            milliseconds: self.milliseconds,
            left_behind: self.reply.left_behind,
            salvaged: false,
        }
    }
}

/// A call to be made.
struct CallRequest<'a> {
    why: CallReason,
    tools: Tools,
    prompt: &'a str,
    /// Segments to record with this call; empty for the turn's own prompt, whose segments are in `TurnStart`.
    segments: Vec<SegmentRef>,
    /// Amount reserved for the call in the budgets.
    reserved: Amount,
}

/// Calls the agent of a turn.
pub(crate) struct AgentCalls<'t, 'a> {
    pub(crate) turn: &'t mut ActiveTurn<'a>,
    driver: &'t dyn Driver,
}

impl<'t, 'a> AgentCalls<'t, 'a> {
    pub(crate) fn new(turn: &'t mut ActiveTurn<'a>, driver: &'t dyn Driver) -> Self {
        Self { turn, driver }
    }

    /// Calls the agent for the reply of the turn. If the agent is rate limited, waits and retries, up to `max_wait` in
    /// total.
    pub(crate) fn ask(&mut self, mut opening: Vec<Event>) -> Result<EndedCall> {
        let prepared = self.turn.prepared;
        let started = &prepared.started;
        let run = self.turn.session.context.run;
        let is_first = prepared.calls == 0;
        if is_first {
            opening.extend(self.start_events());
        }
        let mut blobs = if is_first {
            self.start_blobs()
        } else {
            Vec::new()
        };
        run.report(ProgressEvent::Started {
            session: self.turn.session.lease.session.clone(),
            turn: started.turn,
            mode: started.mode.clone(),
            agent: started.agent.clone(),
            model: started.model.clone(),
            prompt_bytes: started.prompt_bytes,
        });

        let mut waited = 0_u64;
        let mut pause = DEFAULT_RETRY_SECONDS;
        loop {
            let request = CallRequest {
                why: CallReason::Ask,
                tools: Tools::Own,
                prompt: &prepared.prompt,
                segments: Vec::new(),
                reserved: prepared.reserve(prepared.prompt_tokens),
            };
            let answer = self.call(&request, std::mem::take(&mut opening), &blobs)?;
            blobs.clear();
            let CallOutcome::RateLimited { retry_after } = answer.reply.end else {
                return Ok(answer);
            };
            // An agent that can edit files and has written output may have edited some already, so it is not called
            // again.
            let has_output = !answer.reply.text.trim().is_empty();
            if started.permission == Permission::Edit && has_output {
                return Ok(answer);
            }

            // The wait time comes from the agent and may be any number, so the sums saturate.
            let wait = retry_after.unwrap_or(pause).max(1);
            waited = waited.saturating_add(wait);
            pause = pause.saturating_mul(2);
            if waited > run.limits.max_wait.as_secs() || run.stop.asked() > 0 {
                return Ok(answer);
            }
            self.record(&answer)?;
            run.report(ProgressEvent::Waiting {
                seconds: wait,
                why: answer.reply.detail.clone(),
            });
            if !self
                .turn
                .session
                .pause(Duration::from_secs(wait), &mut Heartbeat::new())?
            {
                // The call is already recorded; only the wait was stopped.
                let stopped = self.stopped_error("it was waiting for its rate limit to end");
                return stopped.map_or(Ok(answer), Err);
            }
        }
    }

    /// Returns the first events of the turn: its start, and the results of the operations before it.
    fn start_events(&self) -> Vec<Event> {
        let prepared = self.turn.prepared;
        let turn = prepared.started.turn;
        let mut events = vec![Event::Started(Box::new(prepared.started.clone()))];
        for inspection in &prepared.inspections {
            let text = inspection.text.as_ref();
            let settlement = StepResult {
                report: text.map(|text| blob_id(text.as_bytes())),
                ..inspection.clone()
            };
            let run = self.turn.session.context.run;
            run.report(ProgressEvent::Settled(settlement.clone()));
            events.push(Event::Settled { turn, settlement });
        }
        events
    }

    /// Returns the contents of the blobs that the events of [`Self::start_events`] refer to.
    fn start_blobs(&self) -> Vec<&'a [u8]> {
        let prepared = self.turn.prepared;
        let fresh = prepared.started.nonce.as_ref().map(|nonce| nonce.as_str());
        let inspections = prepared.inspections.iter();
        let reports = inspections.filter_map(|inspection| inspection.text.as_deref());
        let segments = prepared
            .texts
            .iter()
            .flat_map(|text| split_chunks(text, fresh));
        let sent = prepared.started.sent.as_ref();

        reports
            .chain(segments)
            .chain([prepared.fit.as_str()])
            .chain(sent.map(|_| prepared.prompt.as_str()))
            .chain(prepared.message.as_deref())
            .map(str::as_bytes)
            .collect()
    }

    /// Returns an error if the user has asked the run to stop; `why` is the end of its message.
    fn stopped_error(&self, why: &str) -> Option<Error> {
        let started = self.turn.started();
        let session = &self.turn.session;
        let turn = format!("{}/{}", session.lease.session, started.turn);
        call_error(&CallOutcome::Stopped, &started.agent, &turn, why)
            .filter(|_| session.context.run.stop.asked() > 0)
    }

    /// Makes a repair call for missing parts of the reply. A missing verdict is requested without tools, so that it
    /// depends only on the reply, which the prompt contains.
    pub(crate) fn repair(&mut self, prompt: &str, kind: RepairKind) -> Result<EndedCall> {
        let segment = SegmentRef {
            block: "repair".to_owned(),
            part: "prompt".to_owned(),
            source: "parts missing in the reply".to_owned(),
            texts: vec![blob_id(prompt.as_bytes())],
            bytes: prompt.len() as u64,
        };
        let tools = if kind == RepairKind::Verdict {
            Tools::None
        } else {
            Tools::Own
        };
        let request = CallRequest {
            why: CallReason::Repair,
            tools,
            prompt,
            segments: vec![segment],
            reserved: self.turn.prepared.reserve(estimate_text_tokens(prompt)),
        };
        self.call(&request, Vec::new(), &[prompt.as_bytes()])
    }

    /// Records a call that has ended.
    pub(crate) fn record(&mut self, answer: &EndedCall) -> Result<()> {
        record_answer(self.turn, answer)
    }

    fn call(
        &mut self,
        request: &CallRequest<'_>,
        events: Vec<Event>,
        blobs: &[&[u8]],
    ) -> Result<EndedCall> {
        if let Some(stopped) = self.stopped_error("it had not been called yet") {
            return Err(stopped);
        }
        let context = self.turn.session.context;
        let run = context.run;
        let started = self.turn.started();
        let turn = started.turn;
        let call = self.turn.calls + 1;
        let limits = self.limits()?;
        let guard = self.turn.read_only_guard(call);
        let snapshot = if self.driver.works_in_tree() {
            guard.before(started.permission)?
        } else {
            None
        };

        let why = request.why;
        self.record_call(call, request, events, blobs)?;
        let ledger_marks = context.store.marks()?;
        self.turn.calls = call;
        fail::point("called")?;
        run.report(ProgressEvent::Called { call, why });

        // Start the agent.
        let session = &self.turn.session.lease.session;
        let folder = context.workspace.root.join(folder(session, turn, call));
        let start = Instant::now();

        let call_to_agent = AgentCall {
            prompt: request.prompt,
            format: if why == CallReason::Repair {
                Format::Xml
            } else {
                started.format
            },
            mode: &started.mode,
            permission: if request.tools == Tools::None {
                Permission::ReadOnly
            } else {
                started.permission
            },
            tools: request.tools,
            commands: &started.commands,
            model: started.model.as_deref(),
            max_output: self.turn.prepared.max_output,
            root: &self.turn.site.tree,
            folder: &folder,
            marker: &marker(&run.id, turn, call),
            limits,
        };

        let mut running = match self.driver.start(&call_to_agent) {
            Ok(running) => running,
            Err(error) => {
                let detail = context
                    .workspace
                    .secrets
                    .redact(&error.to_string())
                    .into_owned();
                self.record(&not_started(turn, call, detail))?;
                agent::discard(&folder);
                return Err(error);
            }
        };

        // Wait for the agent to end, and discard its reply if the ledger was edited meanwhile.
        let followed = self.follow(running.as_mut(), call);
        drop(running);
        let reply = match followed {
            Err(error) if error.kind() == ErrorKind::LedgerChanged => {
                return Err(discard_reply(context.workspace, &folder, error));
            }
            followed => followed?,
        };
        if let Err(error) = context
            .store
            .check_unchanged(self.turn.session.lease, &ledger_marks)
        {
            return Err(discard_reply(context.workspace, &folder, error));
        }
        let reply = guard.after(snapshot.as_ref(), reply, None)?;
        let text = context.workspace.secrets.redact_reply(&reply.text);
        let detail = context.workspace.secrets.redact(&reply.detail).into_owned();
        let reply = Reply {
            text,
            detail,
            ..reply
        };

        let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        run.report(ProgressEvent::Answered {
            call,
            end: reply.end.clone(),
            usage: reply.usage,
            milliseconds,
            left_behind: reply.left_behind,
        });
        let warning = compare_tokens(self.turn, why, request.prompt, &reply);
        self.turn.warnings.extend(warning);
        Ok(EndedCall {
            turn,
            call,
            spent: self.spent(request.prompt, &reply),
            reply,
            milliseconds,
        })
    }

    /// Records that the agent is about to be called, together with `events` and their blobs.
    fn record_call(
        &mut self,
        call: u64,
        request: &CallRequest<'_>,
        mut events: Vec<Event>,
        blobs: &[&[u8]],
    ) -> Result<()> {
        let context = self.turn.session.context;
        let reserved = if self.driver.spends() {
            request.reserved
        } else {
            Amount::default()
        };
        let secrets = context.drivers.secrets.names();

        events.push(Event::Called {
            turn: self.turn.started().turn,
            call,
            why: request.why,
            prompt: request.segments.clone(),
            run: context.run.id.clone(),
            reserved,
            secrets: secrets.map(str::to_owned).collect(),
        });
        self.turn.commit(&events, blobs)
    }

    /// Records the process of the agent, and waits until it ends.
    fn follow(&mut self, running: &mut dyn RunningCall, call: u64) -> Result<Reply> {
        fail::point("launched")?;
        if let Some(process) = running.process() {
            let launched = Event::Launched {
                turn: self.turn.started().turn,
                call,
                process: process.clone(),
            };
            self.turn.commit(&[launched], &[])?;
        }
        fail::point("recorded")?;
        self.wait_for_end(running)
    }

    /// Waits until the agent ends. Meanwhile, reports its output as progress events, renews the lease, and stops the
    /// agent if the run is asked to stop.
    fn wait_for_end(&self, running: &mut dyn RunningCall) -> Result<Reply> {
        let session = &self.turn.session;
        let run = session.context.run;
        let mut heartbeat = Heartbeat::new();
        let mut handled_stops = 0;
        loop {
            let reply = running.wait(POLL_INTERVAL)?;
            let text = running.said();
            if !text.is_empty() {
                run.report(ProgressEvent::Said { text });
            }
            if let Some(reply) = reply {
                return Ok(reply);
            }

            let stop_requests = run.stop.asked();
            if stop_requests > handled_stops {
                running.stop(stop_requests > 1);
                handled_stops = stop_requests;
            }
            heartbeat.beat(session)?;
        }
    }

    /// Returns the limits of a call: those of the mode, or else those of the run, with the time limit reduced to what
    /// is left of the time budgets.
    fn limits(&self) -> Result<Limits> {
        let session = &self.turn.session;
        let context = session.context;
        let run = context.run;
        let mode = context
            .workspace
            .settings
            .modes
            .get(&self.turn.started().mode);
        let mut limits = mode.map_or(run.limits, |mode| mode.limits(run.limits));

        let run_cap = (run.budget.run.seconds, BudgetScope::Run(&run.id));
        let session_cap = (
            run.budget.session.seconds,
            BudgetScope::Session(&session.lease.session),
        );
        for (cap, scope) in [run_cap, session_cap] {
            if let Some(cap) = cap {
                let left = cap.saturating_sub(context.store.spent(&scope)?.seconds);
                limits.wall = limits.wall.min(Duration::from_secs(left.max(1)));
            }
        }
        Ok(limits)
    }

    /// Returns the amount that a call costs in the budgets: the reported usage, with estimates for missing values.
    fn spent(&self, prompt: &str, reply: &Reply) -> Amount {
        let was_refused = matches!(
            reply.end,
            CallOutcome::NotInstalled
                | CallOutcome::Auth
                | CallOutcome::Quota { .. }
                | CallOutcome::RateLimited { .. }
                | CallOutcome::TooLarge { .. }
        );
        let has_no_usage = reply.usage == UsageMetrics::default();
        if !self.driver.spends() || (was_refused && has_no_usage) {
            return Amount::default();
        }

        let usage = &reply.usage;
        let prompt_tokens = usage
            .prompt_tokens()
            .unwrap_or_else(|| estimate_text_tokens(prompt));
        let reply_tokens = usage
            .output_tokens
            .unwrap_or_else(|| estimate_text_tokens(&reply.text));
        let estimate = self.turn.prepared.amount(prompt_tokens, reply_tokens);
        Amount {
            micro_dollars: usage.micro_dollars.unwrap_or(estimate.micro_dollars),
            ..estimate
        }
    }
}

/// Removes the files of a call after which the ledger was found edited or could not be read, so that a later recovery
/// does not use the reply. The ledger itself is marked as not trusted, so that later runs refuse it.
fn discard_reply(workspace: &Workspace, folder: &Path, error: Error) -> Error {
    agent::discard(folder);
    if matches!(
        error.kind(),
        ErrorKind::LedgerChanged | ErrorKind::LedgerUnusable
    ) {
        distrust_ledger(workspace, &error);
    }
    error
}

/// Records a call that has ended.
pub(crate) fn record_answer(turn: &mut ActiveTurn<'_>, answer: &EndedCall) -> Result<()> {
    let answered = Event::Answered(Box::new(answer.answered()));
    turn.commit(&[answered], &[answer.reply.text.as_bytes()])
}

/// Returns the end of a call whose agent could not be started. Nothing was spent.
fn not_started(turn: u64, call: u64, detail: String) -> EndedCall {
    let reply = Reply {
        end: CallOutcome::Crashed {
            code: None,
            signal: None,
        },
        detail,
        ..Reply::default()
    };
    EndedCall {
        turn,
        call,
        reply,
        spent: Amount::default(),
        milliseconds: 0,
    }
}
