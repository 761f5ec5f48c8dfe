//! Turns as the ledger has them: to be looked at, brought to an end, or taken once more.

use std::time::SystemTime;

use serde::Serialize;

use super::ledger_text::ledger_text;
use super::prepare::{DEFAULT_REPLY_TOKENS, PreparedTurn, hash_of, roughly};
use super::reply_reader::ReplyReader;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    AgentName, Amount, Answered, BlobId, CallOutcome, Event, Intent, Marker, Mode, Process,
    Response, ReviewResult, SegmentRef, SessionId, Started, StepResult, Why,
};
use crate::orchestrator::workspace::Workspace;
use crate::parse;
use crate::store::{Store, Turns};

/// The word for the newest turn of all.
const LAST: &str = "last";

/// A turn as the ledger has it.
#[derive(Clone, Debug, Serialize)]
pub struct TurnRecord {
    /// The session.
    pub session: SessionId,
    /// When it was started.
    #[serde(skip)]
    pub at: SystemTime,
    /// The turn as it began.
    pub started: Started,
    /// Its calls, in order.
    pub calls: Vec<CallRecord>,
    /// What was read from its reply, if that was read.
    pub replied: Option<ReplyRecord>,
    /// What operations found before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<StepResult>,
    /// What was to be done.
    pub intents: Vec<Intent>,
    /// What became of that.
    pub settlements: Vec<StepResult>,
    /// The mode that it led to, if it led to another.
    pub next: Option<Mode>,
    /// Whether the session ended with it, and if so, whether it reached its goal.
    pub ended: Option<bool>,
    /// When the last of it was decided or settled.
    #[serde(skip)]
    end: Option<SystemTime>,
}

/// A call as the ledger has it.
#[derive(Clone, Debug, Serialize)]
pub struct CallRecord {
    /// Why the agent was called.
    pub why: Why,
    /// Prompt of a repair call; empty for a call that got the turn's own prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompt: Vec<SegmentRef>,
    /// The run it belongs to.
    pub run: String,
    /// What was set aside for it.
    pub reserved: Amount,
    /// The variables whose values its texts must not hold.
    pub secrets: Vec<String>,
    /// Process that guards it; `None` if it was not started, or runs no process.
    #[serde(skip)]
    pub guard: Option<Process>,
    /// How it ended; `None` while it runs, or if nobody was there to see.
    pub answered: Option<Answered>,
}

/// What was read from a reply.
#[derive(Clone, Debug, Serialize)]
pub struct ReplyRecord {
    /// The markers that count.
    pub markers: Vec<Marker>,
    /// The verdict.
    pub verdict: Option<ReviewResult>,
    /// Why the mode could not be left, if it could not.
    pub fault: Option<String>,
}

impl TurnRecord {
    /// Returns the turns of a session, in order, from its events.
    #[must_use]
    pub fn all(session: &SessionId, events: &[(SystemTime, Event)]) -> Vec<Self> {
        let mut turns: Vec<Self> = Vec::new();
        for (at, event) in events {
            if let Event::Started(started) = event {
                turns.push(Self::begun(session, *at, started));
            } else if let Some(turn) = turns.last_mut() {
                turn.take(*at, event);
            }
        }
        turns
    }

    /// Returns the last turn of a session, from its events.
    #[must_use]
    pub fn last(session: &SessionId, events: &[(SystemTime, Event)]) -> Option<Self> {
        let start = events
            .iter()
            .rposition(|(_, event)| matches!(event, Event::Started(_)))?;
        Self::all(session, &events[start..]).pop()
    }

    /// Returns the turn that a text names: `SESSION/NUMBER`, `SESSION` for its last one, or `last` for the newest of all.
    ///
    /// # Errors
    ///
    /// `TurnNotFound` or `NameInvalid`.
    pub fn find(store: &dyn Store, name: &str) -> Result<Self> {
        let (session, number) = match name.split_once('/') {
            Some((session, number)) => (session.to_owned(), Some(turn_number(name, number)?)),
            None if name == LAST => match store
                .turns(&Turns {
                    session: None,
                    newest: 1,
                })?
                .pop()
            {
                Some(row) => (row.session.to_string(), Some(row.turn)),
                None => {
                    return Err(not_found(
                        "the ledger holds no turn yet",
                        "take one with `agentd turn`",
                    ));
                }
            },
            None => (name.to_owned(), None),
        };
        let session = SessionId::new(session)?;
        let mut turns = Self::all(&session, &store.events(&session)?);
        let found = match number {
            Some(number) => turns.into_iter().find(|turn| turn.started.turn == number),
            None => turns.pop(),
        };
        found.ok_or_else(|| {
            not_found(
                &format!("there is no turn `{name}`"),
                "`agentd log` lists the turns",
            )
        })
    }

    fn begun(session: &SessionId, at: SystemTime, started: &Started) -> Self {
        Self {
            session: session.clone(),
            at,
            started: started.clone(),
            calls: Vec::new(),
            replied: None,
            found: Vec::new(),
            intents: Vec::new(),
            settlements: Vec::new(),
            next: None,
            ended: None,
            end: None,
        }
    }

    fn take(&mut self, at: SystemTime, event: &Event) {
        if matches!(event, Event::Replied { .. } | Event::Settled { .. }) {
            self.end = Some(at);
        }
        match event {
            Event::Called {
                why,
                prompt,
                run,
                reserved,
                secrets,
                ..
            } => {
                self.calls.push(CallRecord {
                    why: *why,
                    prompt: prompt.clone(),
                    run: run.clone(),
                    reserved: *reserved,
                    secrets: secrets.clone(),
                    guard: None,
                    answered: None,
                });
            }
            Event::Launched { process, .. } => {
                if let Some(call) = self.calls.last_mut() {
                    call.guard = Some(process.clone());
                }
            }
            Event::Answered(answered) => {
                if let Some(call) = self.calls.last_mut() {
                    call.answered = Some((**answered).clone());
                }
            }
            Event::Replied {
                markers,
                verdict,
                fault,
                ..
            } => {
                let (markers, fault) = (markers.clone(), fault.clone());
                self.replied = Some(ReplyRecord {
                    markers,
                    verdict: *verdict,
                    fault,
                });
            }
            Event::Intended { intent, .. } => self.intents.push(intent.clone()),
            // What was found before the turn was not asked for by its reply.
            Event::Settled { settlement, .. } if self.replied.is_none() => {
                self.found.push(settlement.clone())
            }
            Event::Settled { settlement, .. } => self.settlements.push(settlement.clone()),
            // The mode that the turn led to is recorded with its end; a later one was chosen for the next turn.
            Event::Entered { mode } if self.end == Some(at) => self.next = Some(mode.clone()),
            Event::Ended { done } => self.ended = Some(*done),
            Event::Entered { .. }
            | Event::Described { .. }
            | Event::Opened(_)
            | Event::Decided { .. }
            | Event::Started(_) => {}
        }
    }

    /// Returns the name by which it can be found.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.session, self.started.turn)
    }

    /// Returns the call that gave the turn its reply. `None` if no call did, or if the user stopped the turn while the
    /// agent was asked again: such a turn has no reply until `agentd resume` calls the agent once more.
    #[must_use]
    pub fn answered(&self) -> Option<&Answered> {
        if self.is_stopped() {
            return None;
        }

        let asked = self.calls.iter().filter(|call| call.why == Why::Ask);
        asked
            .filter_map(|call| call.answered.as_ref())
            .rfind(|answered| answered.end.is_ok())
    }

    /// Returns true if the user stopped the last call of the turn.
    fn is_stopped(&self) -> bool {
        let last = self.calls.last().and_then(|call| call.answered.as_ref());
        last.is_some_and(|answered| answered.end == CallOutcome::Stopped)
    }

    /// Tells whether something of it was left undone: a call, a reply that was not read, effects that were not settled.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        let open = self
            .calls
            .last()
            .is_some_and(|call| call.answered.is_none());
        let unread = self.answered().is_some() && self.replied.is_none();
        open || unread || self.intents.len() != self.settlements.len()
    }

    /// Returns the texts of the prompt's segments.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger lacks one.
    pub fn segments(&self, store: &dyn Store) -> Result<Vec<String>> {
        let joined = |texts: &[BlobId]| {
            texts
                .iter()
                .map(|id| ledger_text(store, id))
                .collect::<Result<String>>()
        };
        self.started
            .prompt
            .iter()
            .map(|segment| joined(&segment.texts))
            .collect()
    }

    /// Returns the prompt of the turn, byte for byte as it was sent.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if the ledger lacks a part of it.
    pub fn prompt(&self, store: &dyn Store) -> Result<String> {
        match &self.started.sent {
            Some(sent) => ledger_text(store, sent),
            None => Ok(self.segments(store)?.concat()),
        }
    }

    /// Returns the prompt of one call, byte for byte as it was sent; the first call is number 1.
    ///
    /// # Errors
    ///
    /// `TurnNotFound` if there is no such call, `LedgerUnusable` if the ledger lacks a part of the prompt.
    pub fn call_prompt(&self, store: &dyn Store, number: usize) -> Result<String> {
        let call = self.call(number)?;
        if call.why == Why::Ask {
            return self.prompt(store);
        }
        call.prompt
            .iter()
            .flat_map(|segment| &segment.texts)
            .map(|id| ledger_text(store, id))
            .collect()
    }

    /// Returns the reply of one call; the first call is number 1.
    ///
    /// # Errors
    ///
    /// `TurnNotFound` if there is no such call or it has no reply yet, `LedgerUnusable` if the ledger lacks the reply.
    pub fn call_reply(&self, store: &dyn Store, number: usize) -> Result<String> {
        let Some(answered) = &self.call(number)?.answered else {
            return Err(not_found(
                &format!("call {number} of {} has no reply yet", self.name()),
                "`agentd resume` ends calls that were interrupted",
            ));
        };
        ledger_text(store, &answered.reply)
    }

    fn call(&self, number: usize) -> Result<&CallRecord> {
        let call = number
            .checked_sub(1)
            .and_then(|index| self.calls.get(index));
        call.ok_or_else(|| {
            let name = self.name();
            let calls = self.calls.len();
            not_found(
                &format!("{name} has no call {number}: its calls are numbered from 1 to {calls}"),
                &format!("`agentd show {name}` lists them"),
            )
        })
    }

    /// Returns the number of the call whose reply is the turn's: the one that gave a whole reply, or else the last one
    /// that was made for it and has ended. Repair calls do not count.
    #[must_use]
    pub fn reply_call(&self) -> Option<usize> {
        let asked = (1..)
            .zip(&self.calls)
            .filter(|(_, call)| call.why == Why::Ask);
        let ended = asked.filter_map(|(number, call)| Some((number, call.answered.as_ref()?)));
        let whole = ended
            .clone()
            .filter(|(_, answered)| answered.end.is_ok())
            .last();
        whole.or_else(|| ended.last()).map(|(number, _)| number)
    }

    /// Returns the reply of the turn, as `reply_call` chooses it, and how that call ended.
    ///
    /// # Errors
    ///
    /// `TurnNotFound` if nothing came, `LedgerUnusable` if the ledger lacks it.
    pub fn reply(&self, store: &dyn Store) -> Result<(String, CallOutcome)> {
        let call = self
            .reply_call()
            .map(|number| self.call(number))
            .transpose()?;
        let Some(answered) = call.and_then(|call| call.answered.as_ref()) else {
            return Err(not_found(
                &format!("{} has no reply yet", self.name()),
                "`agentd resume` asks for one",
            ));
        };
        Ok((ledger_text(store, &answered.reply)?, answered.end.clone()))
    }

    /// Returns the texts of the reply and of the repairs that followed it; none if there is no whole reply.
    pub(crate) fn replies(&self, store: &dyn Store) -> Result<Vec<String>> {
        let Some(asked) = self.answered() else {
            return Ok(Vec::new());
        };
        let mut replies = vec![ledger_text(store, &asked.reply)?];

        let repairs = self.calls.iter().filter(|call| call.why == Why::Repair);
        let answers = repairs.filter_map(|call| call.answered.as_ref());
        for answered in
            answers.filter(|answered| answered.call > asked.call && answered.end.is_ok())
        {
            replies.push(ledger_text(store, &answered.reply)?);
        }
        Ok(replies)
    }

    /// Reads the reply again with a workspace as it is now. Returns the response, and the verdict or why there is none.
    ///
    /// # Errors
    ///
    /// `TurnNotFound` if nothing came, and those of the pack.
    pub fn read_again(
        &self,
        workspace: &Workspace,
        store: &dyn Store,
    ) -> Result<(Response, Result<Option<ReviewResult>>)> {
        let sent = self.segments(store)?;
        let reading = ReplyReader::new(workspace, &self.started, &sent)?;
        let replies = self.replies(store)?;
        let response = if replies.is_empty() {
            let (reply, end) = self.reply(store)?;
            reading.read(&reply, &end)
        } else {
            reading.read_all(&replies)
        };
        let verdict = parse::verdict(&response, &reading.grammar);
        let verdict = parse::required_markers(&response, &reading.grammar).and(verdict);
        Ok((response, verdict))
    }

    /// Tells whether the pack still is as it was when the prompt was made.
    pub(crate) fn has_its_pack(&self, workspace: &Workspace) -> Result<bool> {
        let agent = AgentName::new(self.started.agent.as_str())?;
        let template = match workspace.template(&agent, &self.started.mode) {
            Ok(template) => template,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::TemplateNotFound | ErrorKind::TemplateInvalid
                ) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let template = template.as_ref().map(|found| found.template.text.body());
        Ok(hash_of(workspace, template) == self.started.pack_hash)
    }

    /// Returns the turn, ready to be carried on with.
    pub(crate) fn prepared(&self, store: &dyn Store) -> Result<PreparedTurn> {
        let (texts, prompt) = (self.segments(store)?, self.prompt(store)?);
        let prompt_tokens = roughly(&prompt);
        let reserved = self
            .calls
            .first()
            .map(|call| call.reserved)
            .unwrap_or_default();
        Ok(PreparedTurn {
            started: self.started.clone(),
            texts,
            prompt,
            fit: ledger_text(store, &self.started.fit)?,
            reply_tokens: reserved
                .tokens
                .saturating_sub(prompt_tokens)
                .max(DEFAULT_REPLY_TOKENS),
            prompt_tokens,
            max_output: None,
            price: None,
            calls: self.calls.len() as u64,
            inspections: Vec::new(),
        })
    }
}

fn turn_number(name: &str, number: &str) -> Result<u64> {
    number.parse().map_err(|_| {
        Error::new(
            ErrorKind::NameInvalid,
            format!("{name:?} does not name a turn"),
        )
        .with_hint(
            "write `SESSION/NUMBER`, `SESSION` for its last turn, or `last` for the newest of all",
        )
    })
}

fn not_found(message: &str, hint: &str) -> Error {
    Error::new(ErrorKind::TurnNotFound, message).with_hint(hint)
}
