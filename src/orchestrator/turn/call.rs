//! One call of an agent: recorded before it is made, watched while it runs, recorded when it ends.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::ActiveTurn;
use super::chunking::pieces;
use super::prepare::roughly;
use super::progress::ProgressEvent;
use crate::agent::{self, Call, Limits, Running, Tools};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::models::{
    Amount, Answered, CallOutcome, Event, Format, Permission, Reply, SegmentRef, SessionId,
    StepResult, UsageMetrics, Why,
};
use crate::orchestrator::clock;
use crate::parse::RepairKind;
use crate::store::{Marks, Scope, blob_id};

/// How long a look at a running agent takes.
const PATIENCE: Duration = Duration::from_millis(50);

/// How often the ledger is told that we are still there.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long to wait for an agent that does not say how long; twice as long the next time.
const PAUSE: u64 = 20;

/// A call that came to its end, and is not recorded yet.
#[derive(Debug)]
pub(crate) struct Answer {
    turn: u64,
    call: u64,
    pub(crate) reply: Reply,
    spent: Amount,
    milliseconds: u64,
}

impl Answer {
    /// Returns it as the ledger keeps it.
    pub(crate) fn answered(&self) -> Answered {
        Answered {
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

/// One call to be made.
struct CallRequest<'a> {
    why: Why,
    tools: Tools,
    prompt: &'a str,
    /// Parts of the prompt as the ledger keeps them; empty if they are those of the turn.
    segments: Vec<SegmentRef>,
    /// Amount reserved for it in the budgets.
    reserved: Amount,
}

/// Returns what the processes of a call are marked with.
pub(crate) fn marker(run: &str, turn: u64, call: u64) -> String {
    format!("{run}.{turn}.{call}")
}

/// The folder of what is kept of calls, below the project's root.
pub(crate) const CALLS: &str = ".agentd/calls";

/// Returns the folder of a call, below the project's root.
pub(crate) fn folder(session: &SessionId, turn: u64, call: u64) -> PathBuf {
    PathBuf::from(format!("{CALLS}/{session}.{turn}.{call}"))
}

impl ActiveTurn<'_> {
    /// Calls the agent for the turn's reply, and again if it asks to wait and that is not too long.
    pub(crate) fn ask(&mut self, mut opening: Vec<Event>) -> Result<Answer> {
        let prepared = self.prepared;
        let mut blobs: Vec<&[u8]> = Vec::new();
        if prepared.calls == 0 {
            opening.push(Event::Started(Box::new(prepared.started.clone())));
            let turn = prepared.started.turn;
            for finding in &prepared.findings {
                let report = finding.text.as_ref().map(|text| blob_id(text.as_bytes()));
                let settlement = StepResult {
                    report,
                    ..finding.clone()
                };
                self.context
                    .run
                    .tell(ProgressEvent::Settled(settlement.clone()));
                opening.push(Event::Settled { turn, settlement });
            }
            blobs.extend(
                prepared
                    .findings
                    .iter()
                    .filter_map(|finding| finding.text.as_deref())
                    .map(str::as_bytes),
            );
            let fresh = prepared.started.nonce.as_ref().map(|nonce| nonce.as_str());
            blobs.extend(
                prepared
                    .texts
                    .iter()
                    .flat_map(|text| pieces(text, fresh))
                    .map(str::as_bytes),
            );
            blobs.extend([prepared.fit.as_bytes()]);
            blobs.extend(
                prepared
                    .started
                    .sent
                    .as_ref()
                    .map(|_| prepared.prompt.as_bytes()),
            );
        }
        self.context.run.tell(ProgressEvent::Started {
            session: self.lease.session.clone(),
            turn: prepared.started.turn,
            mode: prepared.started.mode.clone(),
            agent: prepared.started.agent.clone(),
            model: prepared.started.model.clone(),
            prompt_bytes: prepared.started.prompt_bytes,
        });
        let (mut waited, mut pause) = (0_u64, PAUSE);
        loop {
            let reserved = prepared.reserve(prepared.prompt_tokens);
            let events = std::mem::take(&mut opening);
            let request = CallRequest {
                why: Why::Ask,
                tools: Tools::Own,
                prompt: &prepared.prompt,
                segments: Vec::new(),
                reserved,
            };
            let answer = self.call(request, events, &blobs)?;
            blobs.clear();
            let CallOutcome::RateLimited { retry_after } = answer.reply.end else {
                return Ok(answer);
            };
            // One that could edit files and has said something may have done half of its work.
            if prepared.started.permission == Permission::Edit
                && !answer.reply.text.trim().is_empty()
            {
                return Ok(answer);
            }
            let wait = retry_after.unwrap_or(pause).max(1);
            // An agent may ask for any time, and as often as it likes.
            waited = waited.saturating_add(wait);
            pause = pause.saturating_mul(2);
            if waited > self.context.run.limits.max_wait.as_secs()
                || self.context.run.stop.asked() > 0
            {
                return Ok(answer);
            }
            self.record(&answer)?;
            self.context.run.tell(ProgressEvent::Waiting {
                seconds: wait,
                why: answer.reply.detail.clone(),
            });
            if !self.pause(Duration::from_secs(wait))? {
                // The call is over and recorded; it is the wait that is stopped.
                return self.stopped("it had asked to wait").map_or(Ok(answer), Err);
            }
        }
    }

    /// Returns the error of a run that the user has stopped where no agent is at work.
    fn stopped(&self, why: &str) -> Option<Error> {
        let started = &self.prepared.started;
        let turn = format!("{}/{}", self.lease.session, started.turn);
        CallOutcome::Stopped
            .error(&started.agent, &turn, why)
            .filter(|_| self.context.run.stop.asked() > 0)
    }

    /// Calls the agent for what its reply lacked. A verdict is asked for without tools: the reply in the prompt is all
    /// that it may rest on.
    pub(crate) fn repair(&mut self, prompt: &str, kind: RepairKind) -> Result<Answer> {
        let segment = SegmentRef {
            block: "repair".to_owned(),
            part: "prompt".to_owned(),
            source: "what the reply lacked".to_owned(),
            texts: vec![blob_id(prompt.as_bytes())],
            bytes: prompt.len() as u64,
        };
        let reserved = self.prepared.reserve(roughly(prompt));
        let tools = if kind == RepairKind::Verdict {
            Tools::None
        } else {
            Tools::Own
        };
        let request = CallRequest {
            why: Why::Repair,
            tools,
            prompt,
            segments: vec![segment],
            reserved,
        };
        self.call(request, Vec::new(), &[prompt.as_bytes()])
    }

    /// Records a call that came to its end.
    pub(crate) fn record(&mut self, answer: &Answer) -> Result<()> {
        let answered = Event::Answered(Box::new(answer.answered()));
        self.commit(&[answered], &[answer.reply.text.as_bytes()])
    }

    /// Waits, and says meanwhile that we are still there; tells whether nobody has stopped us.
    pub(crate) fn pause(&self, pause: Duration) -> Result<bool> {
        let start = Instant::now();
        let mut beat = Instant::now();
        while start.elapsed() < pause {
            if self.context.run.stop.asked() > 0 {
                return Ok(false);
            }
            self.heartbeat(&mut beat)?;
            thread::sleep(PATIENCE.min(pause.saturating_sub(start.elapsed())));
        }
        Ok(true)
    }

    fn heartbeat(&self, beat: &mut Instant) -> Result<()> {
        if beat.elapsed() >= HEARTBEAT {
            self.context.store.heartbeat(self.lease, clock::now())?;
            *beat = Instant::now();
        }
        Ok(())
    }

    fn call(
        &mut self,
        request: CallRequest<'_>,
        mut events: Vec<Event>,
        blobs: &[&[u8]],
    ) -> Result<Answer> {
        let CallRequest {
            why,
            tools,
            prompt,
            segments,
            reserved,
        } = request;
        if let Some(stopped) = self.stopped("it was not called yet") {
            return Err(stopped);
        }
        let started = &self.prepared.started;
        let (turn, call) = (started.turn, self.calls + 1);
        let run = self.context.run;
        let reserved = if self.driver.spends() {
            reserved
        } else {
            Amount::default()
        };
        let limits = self.limits()?;
        let watched = self.watched(turn, call);
        let census = if self.driver.works_in_tree() {
            watched.before(started.permission)?
        } else {
            None
        };
        let secrets = self
            .context
            .drivers
            .secrets
            .names()
            .map(str::to_owned)
            .collect();
        let id = run.id.clone();
        events.push(Event::Called {
            turn,
            call,
            why,
            prompt: segments,
            run: id,
            reserved,
            secrets,
        });
        self.commit(&events, blobs)?;
        let marks = self.context.store.marks()?;
        self.calls = call;
        fail::point("called")?;
        run.tell(ProgressEvent::Called { call, why });

        let folder = self
            .context
            .workspace
            .root
            .join(folder(&self.lease.session, turn, call));
        let start = Instant::now();
        let call_to_agent = Call {
            prompt,
            format: if why == Why::Repair {
                Format::Xml
            } else {
                started.format
            },
            mode: &started.mode,
            permission: if tools == Tools::None {
                Permission::ReadOnly
            } else {
                started.permission
            },
            tools,
            commands: &started.commands,
            model: started.model.as_deref(),
            max_output: self.prepared.max_output,
            root: &self.grounds.tree,
            folder: &folder,
            marker: &marker(&run.id, turn, call),
            limits,
        };
        let driver = self.driver;
        let mut running = match driver.start(&call_to_agent) {
            Ok(running) => running,
            Err(error) => {
                // The call is over before it began, and has cost nothing.
                let reply = Reply {
                    end: CallOutcome::Crashed {
                        code: None,
                        signal: None,
                    },
                    detail: error.to_string(),
                    ..Reply::default()
                };
                self.record(&Answer {
                    turn,
                    call,
                    reply,
                    spent: Amount::default(),
                    milliseconds: 0,
                })?;
                agent::discard(&folder);
                return Err(error);
            }
        };
        let reply = match self.follow(running.as_mut(), call, &marks) {
            Err(error) if error.kind() == ErrorKind::LedgerChanged => {
                // A recovery of the session must not find a reply that counts.
                drop(running);
                agent::discard(&folder);
                return Err(error);
            }
            followed => followed?,
        };
        let reply = watched.after(census.as_ref(), reply, None)?;
        let text = self
            .context
            .workspace
            .secrets
            .redact_markup(&reply.text)
            .into_owned();
        let reply = Reply { text, ..reply };
        let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        run.tell(ProgressEvent::Answered {
            call,
            end: reply.end.clone(),
            usage: reply.usage,
            milliseconds,
            left_behind: reply.left_behind,
        });
        let spent = self.spent(prompt, &reply);
        self.compare(why, prompt, &reply);
        Ok(Answer {
            turn,
            call,
            reply,
            spent,
            milliseconds,
        })
    }

    /// Records the agent's process, waits for its end, and refuses its reply if the ledger was edited since `marks`.
    fn follow(&mut self, running: &mut dyn Running, call: u64, marks: &Marks) -> Result<Reply> {
        fail::point("launched")?;
        if let Some(process) = running.process() {
            let process = process.clone();
            let turn = self.prepared.started.turn;
            self.commit(
                &[Event::Launched {
                    turn,
                    call,
                    process,
                }],
                &[],
            )?;
        }
        fail::point("recorded")?;
        let reply = self.watch(running)?;
        self.context.store.check_unchanged(self.lease, marks)?;
        Ok(reply)
    }

    /// Waits for the agent's end, hands on what it says, and stops it when the run is stopped.
    fn watch(&self, running: &mut dyn Running) -> Result<Reply> {
        let run = self.context.run;
        let mut beat = Instant::now();
        let mut stopped = 0;
        loop {
            let reply = running.wait(PATIENCE)?;
            let text = running.said();
            if !text.is_empty() {
                run.tell(ProgressEvent::Said { text });
            }
            if let Some(reply) = reply {
                return Ok(reply);
            }
            let asked = run.stop.asked();
            if asked > stopped {
                running.stop(asked > 1);
                stopped = asked;
            }
            self.heartbeat(&mut beat)?;
        }
    }

    /// Returns the limits of a call: those of the mode or the run, and no more time than its budgets leave.
    fn limits(&self) -> Result<Limits> {
        let run = self.context.run;
        let scopes = [
            (run.budget.run.seconds, Scope::Run(&run.id)),
            (
                run.budget.session.seconds,
                Scope::Session(&self.lease.session),
            ),
        ];
        let mode = self
            .context
            .workspace
            .settings
            .modes
            .get(&self.prepared.started.mode);
        let mut limits = mode.map_or(run.limits, |mode| mode.limits(run.limits));
        for (cap, scope) in scopes {
            if let Some(cap) = cap {
                let left = cap.saturating_sub(self.context.store.spent(&scope)?.seconds);
                limits.wall = limits.wall.min(Duration::from_secs(left.max(1)));
            }
        }
        Ok(limits)
    }

    /// Returns what the budgets count for a call: what the agent reports, or else what its texts come to.
    fn spent(&self, prompt: &str, reply: &Reply) -> Amount {
        let refused = matches!(
            reply.end,
            CallOutcome::NotInstalled
                | CallOutcome::Auth
                | CallOutcome::Quota { .. }
                | CallOutcome::RateLimited { .. }
                | CallOutcome::TooLarge { .. }
        );
        if !self.driver.spends() || (refused && reply.usage == UsageMetrics::default()) {
            return Amount::default();
        }
        let amount = self.prepared.amount(
            reply
                .usage
                .prompt_tokens()
                .unwrap_or_else(|| roughly(prompt)),
            reply
                .usage
                .output_tokens
                .unwrap_or_else(|| roughly(&reply.text)),
        );
        Amount {
            micro_dollars: reply.usage.micro_dollars.unwrap_or(amount.micro_dollars),
            ..amount
        }
    }
}
