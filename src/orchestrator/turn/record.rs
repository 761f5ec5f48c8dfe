//! Records of turns, built from the events of a session.

use std::time::SystemTime;

use serde::Serialize;

use super::ledger_text::ledger_text;
use super::prepare::{DEFAULT_REPLY_TOKENS, PreparedTurn, estimate_text_tokens, pack_hash};
use super::reply_reader::ReplyReader;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    AgentName, Amount, BlobId, CallEnd, CallOutcome, CallReason, Event, Intent, Marker, Mode,
    ProcessIdentity, Response, ReviewResult, SegmentRef, SessionId, StepResult, TurnStart,
};
use crate::orchestrator::workspace::Workspace;
use crate::parse;
use crate::store::{Store, TurnQuery};

/// Name of the newest turn of all sessions.
const LAST: &str = "last";

/// Record of a turn.
#[derive(Clone, Debug, Serialize)]
pub struct TurnRecord {
    /// Session of the turn.
    pub session: SessionId,
    /// Time at which the turn started.
    #[serde(skip)]
    pub at: SystemTime,
    /// Agent, prompt and rules that the turn started with.
    pub started: TurnStart,
    /// Calls of the agent, in order.
    pub calls: Vec<CallRecord>,
    /// Record of the parsed reply; `None` if no reply was parsed.
    pub replied: Option<ReplyRecord>,
    /// Results of the operations before the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<StepResult>,
    /// Steps that were planned.
    pub intents: Vec<Intent>,
    /// Results of the planned steps, in the order of `intents`. Shorter than `intents` if the turn is unfinished.
    pub settlements: Vec<StepResult>,
    /// Mode that the turn changed to; `None` if the mode stayed the same.
    pub next: Option<Mode>,
    /// True if the session reached its goal after the turn, false if it was abandoned; `None` if it continues.
    pub ended: Option<bool>,
    /// Time of the last reply or step result.
    #[serde(skip)]
    end: Option<SystemTime>,
}

/// Record of a call.
#[derive(Clone, Debug, Serialize)]
pub struct CallRecord {
    /// Reason for the call.
    pub why: CallReason,
    /// Prompt of a repair call; empty for a call with the turn's prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompt: Vec<SegmentRef>,
    /// Id of the run that made the call.
    pub run: String,
    /// Amount that was reserved for the call.
    pub reserved: Amount,
    /// Names of the variables whose values are redacted in the output of the call.
    pub secrets: Vec<String>,
    /// Process that supervises the agent; `None` if it was not started, or if the agent runs without a process.
    #[serde(skip)]
    pub guard: Option<ProcessIdentity>,
    /// End of the call; `None` while the call runs, or if it was interrupted and is not recovered yet.
    pub answered: Option<CallEnd>,
}

/// Record of a parsed reply.
#[derive(Clone, Debug, Serialize)]
pub struct ReplyRecord {
    /// Markers of the reply that are valid in the mode.
    pub markers: Vec<Marker>,
    /// Verdict of the reply; `None` if it has no clear verdict, or in a mode without verdicts.
    pub verdict: Option<ReviewResult>,
    /// Reason why the session could not leave the mode after the turn; `None` if it could.
    pub fault: Option<String>,
}

impl TurnRecord {
    /// Builds the records of all turns of a session from its events, in order.
    #[must_use]
    pub fn all(session: &SessionId, events: &[(SystemTime, Event)]) -> Vec<Self> {
        let mut turns: Vec<Self> = Vec::new();
        for (at, event) in events {
            if let Event::Started(started) = event {
                turns.push(Self::new(session, *at, started));
            } else if let Some(turn) = turns.last_mut() {
                turn.add_event(*at, event);
            }
        }
        turns
    }

    /// Builds the record of the last turn of a session from its events.
    #[must_use]
    pub fn last(session: &SessionId, events: &[(SystemTime, Event)]) -> Option<Self> {
        let start = events
            .iter()
            .rposition(|(_, event)| matches!(event, Event::Started(_)))?;
        Self::all(session, &events[start..]).pop()
    }

    /// Finds a turn by name: `SESSION/NUMBER`, `SESSION` for its last turn, or `last` for the newest of all sessions.
    ///
    /// # Errors
    ///
    /// `NameInvalid` if the name has another form, `TurnNotFound` if there is no such turn.
    pub fn find(store: &dyn Store, name: &str) -> Result<Self> {
        let (session, number) = match name.split_once('/') {
            Some((session, number)) => {
                let number = parse_turn_number(name, number)?;
                (SessionId::new(session)?, Some(number))
            }
            None if name == LAST => {
                let (session, number) = newest_turn(store)?;
                (session, Some(number))
            }
            None => (SessionId::new(name)?, None),
        };

        let mut turns = Self::all(&session, &store.events(&session)?);
        let found = match number {
            Some(number) => turns.into_iter().find(|turn| turn.started.turn == number),
            None => turns.pop(),
        };
        found.ok_or_else(|| {
            turn_not_found(
                &format!("unknown turn `{name}`"),
                "list turns with `agentd log`",
            )
        })
    }

    fn new(session: &SessionId, at: SystemTime, started: &TurnStart) -> Self {
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

    /// Adds an event that follows the start of the turn.
    fn add_event(&mut self, at: SystemTime, event: &Event) {
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
                self.replied = Some(ReplyRecord {
                    markers: markers.clone(),
                    verdict: *verdict,
                    fault: fault.clone(),
                });
            }
            Event::Intended { intent, .. } => self.intents.push(intent.clone()),
            // Results before the reply are those of the operations before the turn.
            Event::Settled { settlement, .. } if self.replied.is_none() => {
                self.found.push(settlement.clone())
            }
            Event::Settled { settlement, .. } => self.settlements.push(settlement.clone()),
            // A mode that the turn changed to is recorded in the same transaction as its end; a mode that is entered
            // later belongs to the next turn.
            Event::Entered { mode } if self.end == Some(at) => self.next = Some(mode.clone()),
            Event::Ended { done } => self.ended = Some(*done),
            Event::Entered { .. }
            | Event::Returned { .. }
            | Event::Undone { .. }
            | Event::StateChanged { .. }
            | Event::GateSkipped { .. }
            | Event::Described { .. }
            | Event::Opened(_)
            | Event::Decided { .. }
            | Event::Started(_) => {}
        }
    }

    /// Returns the name of the turn, `SESSION/NUMBER`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.session, self.started.turn)
    }

    /// Returns the end of the call that returned the reply of the turn. `None` if no call did, or if the user stopped
    /// the last call: such a turn has no reply until `agentd resume` calls the agent again.
    #[must_use]
    pub fn answered(&self) -> Option<&CallEnd> {
        if self.is_stopped() {
            return None;
        }

        let asked = self.calls.iter().filter(|call| call.why == CallReason::Ask);
        asked
            .filter_map(|call| call.answered.as_ref())
            .rfind(|answered| answered.end.is_ok())
    }

    /// Returns true if the user stopped the last call of the turn.
    fn is_stopped(&self) -> bool {
        let last = self.calls.last().and_then(|call| call.answered.as_ref());
        last.is_some_and(|answered| answered.end == CallOutcome::Stopped)
    }

    /// Returns true if a call has not ended, a reply was not read, or a planned step has no result.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        let has_open_call = self
            .calls
            .last()
            .is_some_and(|call| call.answered.is_none());
        let has_unread_reply = self.answered().is_some() && self.replied.is_none();
        let has_open_steps = self.intents.len() != self.settlements.len();
        has_open_call || has_unread_reply || has_open_steps
    }

    /// Returns the texts of the prompt's segments.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if a blob is missing in the ledger.
    pub fn segments(&self, store: &dyn Store) -> Result<Vec<String>> {
        let segments = self.started.prompt.iter();
        segments
            .map(|segment| join_texts(store, &segment.texts))
            .collect()
    }

    /// Returns the prompt of the turn, byte for byte as it was sent.
    ///
    /// # Errors
    ///
    /// `LedgerUnusable` if a part of the prompt is missing in the ledger.
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
    /// `TurnNotFound` if there is no such call, `LedgerUnusable` if a part of the prompt is missing in the ledger.
    pub fn call_prompt(&self, store: &dyn Store, number: usize) -> Result<String> {
        let call = self.call(number)?;
        if call.why == CallReason::Ask {
            return self.prompt(store);
        }
        let segments = call.prompt.iter();
        segments
            .map(|segment| join_texts(store, &segment.texts))
            .collect()
    }

    /// Returns the reply of one call; the first call is number 1.
    ///
    /// # Errors
    ///
    /// `TurnNotFound` if there is no such call or it has no reply yet, `LedgerUnusable` if the reply is missing in the
    /// ledger.
    pub fn call_reply(&self, store: &dyn Store, number: usize) -> Result<String> {
        let Some(answered) = &self.call(number)?.answered else {
            return Err(turn_not_found(
                &format!("call {number} of turn {} has no reply yet", self.name()),
                &format!(
                    "finish interrupted calls with `agentd resume {}`",
                    self.session
                ),
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
            let calls = match self.calls.len() {
                1 => "1 call".to_owned(),
                count => format!("{count} calls"),
            };
            turn_not_found(
                &format!("turn {name} has no call {number}: it has {calls}"),
                &format!("list calls with `agentd show {name}`"),
            )
        })
    }

    /// Returns the number of the call whose reply is the reply of the turn: the last call that succeeded, or else the
    /// last call that ended. Repair calls are ignored.
    #[must_use]
    pub fn reply_call(&self) -> Option<usize> {
        let asked = (1..)
            .zip(&self.calls)
            .filter(|(_, call)| call.why == CallReason::Ask);
        let ended = asked.filter_map(|(number, call)| Some((number, call.answered.as_ref()?)));
        let whole = ended
            .clone()
            .filter(|(_, answered)| answered.end.is_ok())
            .last();
        whole.or_else(|| ended.last()).map(|(number, _)| number)
    }

    /// Returns the reply of the turn, chosen by [`reply_call`](Self::reply_call), and the outcome of that call.
    ///
    /// # Errors
    ///
    /// `TurnNotFound` if there is no reply, `LedgerUnusable` if the reply is missing in the ledger.
    pub fn reply(&self, store: &dyn Store) -> Result<(String, CallOutcome)> {
        let call = self
            .reply_call()
            .map(|number| self.call(number))
            .transpose()?;
        let Some(answered) = call.and_then(|call| call.answered.as_ref()) else {
            return Err(turn_not_found(
                &format!("turn {} has no reply yet", self.name()),
                &format!("request one with `agentd resume {}`", self.session),
            ));
        };
        Ok((ledger_text(store, &answered.reply)?, answered.end.clone()))
    }

    /// Returns the reply, followed by the answers of its successful repair calls; empty if there is no complete reply.
    pub(crate) fn replies(&self, store: &dyn Store) -> Result<Vec<String>> {
        let Some(asked) = self.answered() else {
            return Ok(Vec::new());
        };
        let mut replies = vec![ledger_text(store, &asked.reply)?];

        let repairs = self
            .calls
            .iter()
            .filter(|call| call.why == CallReason::Repair);
        let answers = repairs.filter_map(|call| call.answered.as_ref());
        let counted = answers.filter(|answered| answered.call > asked.call && answered.end.is_ok());
        for answered in counted {
            replies.push(ledger_text(store, &answered.reply)?);
        }
        Ok(replies)
    }

    /// Parses the recorded reply with the current pack of a workspace. Returns the response, and its verdict or the
    /// error for a missing marker.
    ///
    /// # Errors
    ///
    /// `TurnNotFound` if there is no reply, `UnknownMode` if the pack does not have the mode, `TemplateNotFound` if it has no
    /// template for the mode.
    pub fn read_again(
        &self,
        workspace: &Workspace,
        store: &dyn Store,
    ) -> Result<(Response, Result<Option<ReviewResult>>)> {
        let sent = self.segments(store)?;
        let reader = ReplyReader::new(workspace, &self.started, &sent)?;
        let replies = self.replies(store)?;
        let response = if replies.is_empty() {
            let (reply, end) = self.reply(store)?;
            reader.read(&reply, &end)
        } else {
            reader.read_all(&replies)
        };

        let markers = parse::required_markers(&response, &reader.grammar);
        let verdict = markers.and(parse::verdict(&response, &reader.grammar));
        Ok((response, verdict))
    }

    /// Returns true if the pack and the template are the same as when the prompt was composed.
    pub(crate) fn has_unchanged_pack(&self, workspace: &Workspace) -> Result<bool> {
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
        Ok(pack_hash(workspace, template) == self.started.pack_hash)
    }

    /// Returns the turn in the form in which it can be continued. The price and the maximum output of its model are not
    /// set.
    pub(crate) fn to_prepared(&self, store: &dyn Store) -> Result<PreparedTurn> {
        let texts = self.segments(store)?;
        let prompt = self.prompt(store)?;
        let prompt_tokens = estimate_text_tokens(&prompt);

        // The first call reserved the tokens of the prompt plus the tokens of the reply.
        let reserved_tokens = self.calls.first().map_or(0, |call| call.reserved.tokens);
        let reply_tokens = reserved_tokens.saturating_sub(prompt_tokens);
        Ok(PreparedTurn {
            started: self.started.clone(),
            texts,
            prompt,
            fit: ledger_text(store, &self.started.fit)?,
            message: None,
            reply_tokens: reply_tokens.max(DEFAULT_REPLY_TOKENS),
            prompt_tokens,
            max_output: None,
            price: None,
            calls: self.calls.len() as u64,
            inspections: Vec::new(),
        })
    }
}

/// Returns the session and the number of the newest turn.
fn newest_turn(store: &dyn Store) -> Result<(SessionId, u64)> {
    let newest = TurnQuery {
        session: None,
        newest: 1,
    };
    match store.turns(&newest)?.pop() {
        Some(row) => Ok((row.session, row.turn)),
        None => Err(turn_not_found(
            "the ledger has no turns",
            "take one with `agentd turn`",
        )),
    }
}

fn join_texts(store: &dyn Store, texts: &[BlobId]) -> Result<String> {
    texts.iter().map(|id| ledger_text(store, id)).collect()
}

fn parse_turn_number(name: &str, number: &str) -> Result<u64> {
    number.parse().map_err(|_| {
        Error::new(
            ErrorKind::NameInvalid,
            format!("invalid turn name {name:?}"),
        )
        .with_hint(
            "use `SESSION/NUMBER`, `SESSION` for its last turn, or `last` for the newest turn",
        )
    })
}

fn turn_not_found(message: &str, hint: &str) -> Error {
    Error::new(ErrorKind::TurnNotFound, message).with_hint(hint)
}
