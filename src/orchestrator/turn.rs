//! One turn, from state to state:
//! before → layers → fit → render → agent → parse → apply → commit → after → settle → advance.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::SystemTime;

use serde::Serialize;

use super::prompts::{Ask, Workspace, assemble};
use super::reading::Reading;
use crate::agent::{Call, Driver};
use crate::apply;
use crate::error::{Error, Result};
use crate::models::{
    Effect, Event, Mode, Nonce, Proposal, Reply, Response, ReviewResult, SessionId, Settlement, State,
    UsageMetrics,
};
use crate::ops::{self, Site};
use crate::pack::{ModeSpec, Pack};
use crate::parse;
use crate::store::{Lease, Store};

/// What became of a turn.
#[derive(Debug, Serialize)]
pub struct TurnReport {
    /// The mode it was taken in.
    pub mode: Mode,
    /// The agent it went to.
    pub agent: String,
    /// The prompt's length in bytes.
    pub prompt_bytes: usize,
    /// The reply, as it was read.
    pub response: Response,
    /// The verdict, if the reply holds one.
    pub verdict: Option<ReviewResult>,
    /// What the call used.
    pub usage: UsageMetrics,
    /// How often the agent was asked again for what its reply lacked.
    pub repairs: usize,
    /// What was done, and what could not be done.
    pub settlements: Vec<Settlement>,
    /// What was asked for and not done, with the reasons.
    pub proposals: Vec<Proposal>,
    /// The state afterwards.
    pub state: State,
    /// What must hold to leave the mode and does not, if it is this that keeps the session.
    pub closed_gate: Option<String>,
    /// Why the mode cannot be left, if it cannot.
    #[serde(skip)]
    pub fault: Option<Error>,
}

/// Takes one turn of a session.
///
/// # Errors
///
/// Whatever keeps the turn from being taken. Once a reply is there, nothing does: what is wrong with it is in the
/// report.
pub fn take(workspace: &Workspace, store: &dyn Store, driver: &dyn Driver, ask: &Ask) -> Result<TurnReport> {
    let spec = workspace.pack.mode(&ask.mode)?;
    resolve_operations(&workspace.pack, &ask.mode, spec)?;
    let session = ask.session.clone().map_or_else(|| SessionId::new("turn"), Ok)?;
    let lease = store.claim(&session, "agentd turn", now())?;
    let report = steps(workspace, store, driver, ask, spec, &lease);
    store.release(&lease)?;
    report
}

fn steps(
    workspace: &Workspace,
    store: &dyn Store,
    driver: &dyn Driver,
    ask: &Ask,
    spec: &ModeSpec,
    lease: &Lease,
) -> Result<TurnReport> {
    let pack = &workspace.pack;
    let site = Site { root: &workspace.root, session: ask.session.as_ref() };
    let state_now = || store.events(&lease.session).map(|events| State::fold(&events));
    if state_now()?.mode.as_ref() != Some(&ask.mode) {
        store.commit(lease, &[Event::Entered { mode: ask.mode.clone() }], now())?;
    }
    if let Some(work) = &ask.work {
        store.commit(lease, &[Event::Described { work: Box::new(work.clone()) }], now())?;
    }

    run_operations(&site, spec.before.iter().map(|name| name.as_str()), &[])?; // before
    let nonce = fresh_nonce();
    let ask = &Ask { nonce: Some(nonce), ..ask.clone() };
    let assembly = assemble(workspace, &state_now()?, ask)?; // layers, fit, render
    let (draft, agent) = (&assembly.draft, &assembly.agent);
    let prompt = draft.rendered();
    let turn = state_now()?.turns + 1;
    store.commit(
        lease,
        &[started(turn, ask, agent.as_str(), &prompt, draft.fit_report.first_turn)],
        now(),
    )?;

    let call = Call { prompt: &prompt, mode: &ask.mode, permission: spec.permission };
    let reply = driver.send(&call)?; // agent

    let reading = Reading::of(workspace, &assembly, &ask.mode)?;
    let (response, answers) = reading.repaired(reading.read(&reply), driver, &call, ask.repairs); // parse
    let asked_again: Vec<Event> = answers.iter().map(|answer| repaired(turn, answer)).collect();
    store.commit(lease, &asked_again, now())?;
    let verdict = parse::verdict(&response, &reading.grammar);
    let verdict = parse::required_markers(&response, &reading.grammar).and(verdict);
    let outcome = apply::apply(pack, &state_now()?, &reply, &response, verdict)?; // apply
    store.commit(lease, &outcome.events, now())?; // commit

    let after = spec.after.iter().map(|name| name.as_str());
    let settlements = run_operations(&site, after, &outcome.effects)?; // after
    let settled: Vec<Event> = settlements
        .iter()
        .map(|settlement| Event::Settled { turn, settlement: settlement.clone() })
        .collect();
    store.commit(lease, &settled, now())?; // settle

    if let Some(event) = apply::advance(pack, &state_now()?)? {
        store.commit(lease, &[event], now())?; // advance
    }
    let state = state_now()?;
    let stays = state.mode.as_ref() == Some(&ask.mode) && state.ended.is_none();
    let closed_gate = apply::closed_gate(pack, &state)?.filter(|_| stays).map(|gate| gate.text().to_owned());
    Ok(TurnReport {
        mode: ask.mode.clone(),
        agent: agent.as_str().to_owned(),
        prompt_bytes: prompt.len(),
        response,
        verdict: outcome.verdict,
        usage: answers.iter().fold(reply.usage, |used, answer| used.plus(answer.usage)),
        repairs: answers.len(),
        settlements,
        proposals: outcome.proposals,
        state,
        closed_gate,
        fault: outcome.fault,
    })
}

fn repaired(turn: u64, answer: &Reply) -> Event {
    Event::Repaired { turn, reply: answer.text.clone(), usage: answer.usage }
}

fn started(turn: u64, ask: &Ask, agent: &str, prompt: &str, first_turn: Option<usize>) -> Event {
    let (agent, prompt_bytes) = (agent.to_owned(), prompt.len() as u64);
    Event::Started { turn, mode: ask.mode.clone(), agent, prompt_bytes, first_turn }
}

/// Refuses a mode that names an operation which does not exist, before anything is spent.
fn resolve_operations(pack: &Pack, mode: &Mode, spec: &ModeSpec) -> Result<()> {
    let used = pack.uses.values().filter(|used| used.modes.contains(mode));
    let named = spec.before.iter().chain(&spec.after).chain(used.filter_map(|used| used.operation.as_ref()));
    let mut named = named.map(|name| name.as_str());
    named.try_for_each(|name| ops::operation(name).map(|_| ()))
}

/// Runs operations in order, each on the effects that name it.
fn run_operations<'a>(
    site: &Site<'_>,
    names: impl Iterator<Item = &'a str>,
    effects: &[Effect],
) -> Result<Vec<Settlement>> {
    let mut settlements = Vec::new();
    for name in names {
        let own: Vec<&Effect> = effects.iter().filter(|effect| effect.operation == name).collect();
        settlements.extend(ops::operation(name)?.run(site, &own)?);
    }
    Ok(settlements)
}

/// Returns a nonce that cannot be foreseen: std seeds its hash states from the system's randomness.
#[expect(clippy::disallowed_methods, reason = "chance comes in here and is handed on as a value")]
fn fresh_nonce() -> Nonce {
    let random = || u128::from(RandomState::new().build_hasher().finish());
    Nonce::from_number((random() << 64) | random())
}

#[expect(clippy::disallowed_methods, reason = "the wall clock is read here and handed on as a value")]
fn now() -> SystemTime {
    SystemTime::now()
}
