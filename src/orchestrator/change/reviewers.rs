//! Several agents review a change at the same time, each in its own session; the most severe verdict counts.

use std::sync::Arc;
use std::thread;

use crate::agent::Driver;
use crate::apply;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    AgentName, Event, Finding, Format, Marker, Mode, Permission, Response, ReviewResult, SessionId,
    Started, State, Update, UpdateFormat, UsageMetrics,
};
use crate::orchestrator::turn::findings::{
    earlier, earlier_of_change, finding_action, findings_of, notes_findings, whole_updates,
};
use crate::orchestrator::turn::prepare::{PreparedTurn, hash_of};
use crate::orchestrator::turn::record::TurnRecord;
use crate::orchestrator::turn::recover::{recover, with_lease};
use crate::orchestrator::turn::reply_reader::ReplyReader;
use crate::orchestrator::turn::resolved::opening_events;
use crate::orchestrator::turn::site::TurnSite;
use crate::orchestrator::turn::{
    ActiveTurn, TurnContext, TurnReport, TurnRequest, apply_and_run, take_turn,
};
use crate::orchestrator::workspace::Workspace;
use crate::spec;
use crate::store::blob_id;

/// Name of several reviewers together.
const PANEL: &str = "panel";

/// The opinion of one reviewer.
struct Opinion {
    agent: String,
    verdict: ReviewResult,
    text: String,
    findings: Vec<Finding>,
    usage: UsageMetrics,
    turn: String,
}

/// Asks several agents at the same time for a review, and takes a turn of the change with the most severe of their
/// verdicts. An agent that has answered before the program was interrupted is not asked again.
///
/// # Errors
///
/// Anything that prevents one of them from answering: no verdict counts unless all are there.
pub(super) fn ask_reviewers(
    context: &TurnContext<'_>,
    reviewers: &[(AgentName, Arc<dyn Driver>)],
    request: &TurnRequest,
) -> Result<TurnReport> {
    let Some(change) = &request.session else {
        let message = "several agents review a change, and none was named";
        return Err(Error::new(ErrorKind::ChangeNotFound, message));
    };
    let state = context.store.state(change)?;
    let commit = TurnSite::for_session(context, Some(change), &state)?.commit()?;
    let commit = commit.as_deref();

    let opinions: Vec<Result<Opinion>> = thread::scope(|scope| {
        let asked = reviewers.iter().map(|(agent, driver)| {
            let own = own_session(change, &request.mode, agent, state.turns);
            scope.spawn(move || opinion(context, driver.as_ref(), agent, &own?, request, commit))
        });
        let asked: Vec<_> = asked.collect();
        asked
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(gone())))
            .collect()
    });
    let opinions = opinions.into_iter().collect::<Result<Vec<Opinion>>>()?;
    conclude(context, change, request, opinions)
}

fn gone() -> Error {
    Error::new(ErrorKind::AgentLost, "one of several agents was lost")
}

/// Returns the session of a reviewer: the same one again after an interruption.
fn own_session(
    session: &SessionId,
    mode: &Mode,
    agent: &AgentName,
    turns: u64,
) -> Result<SessionId> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let agent: String = agent.as_str().chars().map(plain).collect();
    let name = format!("{session}.{mode}.{}.{agent}", turns + 1);
    SessionId::new(name.clone()).or_else(|_| {
        let hash = blob_id(name.as_bytes()).to_string();
        SessionId::new(format!("{PANEL}.{}", hash.get(..16).unwrap_or_default()))
    })
}

/// Returns the opinion of an agent: its recorded one, or the answer to a new turn.
fn opinion(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    agent: &AgentName,
    own: &SessionId,
    ask: &TurnRequest,
    commit: Option<&str>,
) -> Result<Opinion> {
    let events = context.store.events(own)?;
    // An opinion on another state of the change is none on this one.
    let is_of_this = |turn: &TurnRecord| turn.started.commit.as_deref() == commit;
    let said =
        TurnRecord::last(own, &events).filter(|turn| !turn.is_unfinished() && is_of_this(turn));
    let before = said.and_then(|turn| Some((turn.replied.clone()?, turn)));
    if let Some((replied, turn)) = before.filter(|(replied, _)| replied.fault.is_none())
        && let Some(verdict) = replied.verdict
    {
        let (response, _) = turn.read_again(context.workspace, context.store)?;
        let earlier = match &ask.session {
            Some(change) => earlier_of_change(context.store, change, &ask.mode)?,
            None => Vec::new(),
        };
        let reports: Vec<&str> = whole_updates(&response).collect();
        return Ok(Opinion {
            agent: agent.to_string(),
            verdict,
            findings: findings_of(
                &context.workspace.pack,
                &ask.mode,
                &response,
                &reports,
                &earlier,
            ),
            text: words(&response),
            usage: UsageMetrics::default(),
            turn: turn.name(),
        });
    }
    let ask = TurnRequest {
        agent: Some(agent.clone()),
        for_change: ask.session.clone(),
        session: Some(own.clone()),
        ..ask.clone()
    };
    let report = take_turn(context, driver, &ask)?;
    let turn = format!("{}/{}", report.session, report.turn);
    match (report.fault, report.verdict) {
        (Some(fault), _) => Err(fault),
        (None, Some(verdict)) => {
            let (text, findings) = (words(&report.response), report.findings);
            Ok(Opinion {
                agent: agent.to_string(),
                verdict,
                text,
                findings,
                usage: report.usage,
                turn,
            })
        }
        (None, None) => Err(Error::new(
            ErrorKind::MissingReviewMarker,
            format!("{turn} has no verdict"),
        )),
    }
}

/// Returns what a response reports: its document, or its message.
fn words(response: &Response) -> String {
    let updates: Vec<&str> = response
        .updates
        .iter()
        .map(|update| update.content.trim())
        .collect();
    if updates.is_empty() {
        response.message.trim().to_owned()
    } else {
        updates.join("\n\n")
    }
}

/// Takes the turn of the session: all opinions in one document, the most severe verdict, the findings of all.
fn conclude(
    context: &TurnContext<'_>,
    session: &SessionId,
    ask: &TurnRequest,
    mut opinions: Vec<Opinion>,
) -> Result<TurnReport> {
    with_lease(context, session, |lease| {
        let mut session = recover(context, lease)?;
        let workspace = context.workspace;
        let earlier = earlier(context.store, &session.state, &ask.mode)?;
        let findings = join_findings(workspace, &ask.mode, &mut opinions, &earlier);
        let response = together(workspace, ask, &opinions)?;
        let usages = opinions.iter().map(|opinion| opinion.usage);
        let usage = usages.fold(UsageMetrics::default(), UsageMetrics::plus);

        let started = started(workspace, &session.state, ask)?;
        let mut opening = opening_events(&session.state, ask);
        opening.push(Event::Started(Box::new(started.clone())));
        let named = Some(&lease.session);
        let site = TurnSite::for_session(context, named, &session.state)?;
        session.defer(opening);
        let prepared = PreparedTurn::without_call(started);
        let reader = ReplyReader::new(workspace, &prepared.started, &[])?;
        let mut active = ActiveTurn::new(session, &prepared, &site);
        let report = apply_and_run(&mut active, &reader, response, findings)?;
        Ok(TurnReport { usage, ..report })
    })
}

/// Returns the findings of all opinions, if the mode notes some. An id that two agents have used for different findings
/// is changed in the text of the second.
fn join_findings(
    workspace: &Workspace,
    mode: &Mode,
    opinions: &mut [Opinion],
    earlier: &[Finding],
) -> Option<Vec<Finding>> {
    if !notes_findings(&workspace.pack, mode) {
        return None;
    }
    let lists: Vec<&[Finding]> = opinions
        .iter()
        .map(|opinion| opinion.findings.as_slice())
        .collect();
    let joined = apply::join_findings(&lists, earlier);
    let action = finding_action(&workspace.pack, mode);
    let words = action.map(|(_, words)| words).unwrap_or_default();
    for (opinion, renamed) in opinions.iter_mut().zip(joined.renamed) {
        for (from, to) in renamed {
            opinion.text = spec::rename_finding(&opinion.text, &words, &from, &to);
        }
    }
    Some(joined.findings)
}

/// Returns the turn as it begins: nothing is sent in it.
fn started(workspace: &Workspace, state: &State, ask: &TurnRequest) -> Result<Started> {
    let template = workspace.template(&AgentName::base(), &ask.mode)?;
    Ok(Started {
        turn: state.turns + 1,
        mode: ask.mode.clone(),
        agent: PANEL.to_owned(),
        model: None,
        pack: workspace.pack.name.clone(),
        pack_hash: hash_of(
            workspace,
            template.as_ref().map(|found| found.template.text.body()),
        ),
        permission: Permission::ReadOnly,
        commands: Vec::new(),
        named: true,
        prompt: Vec::new(),
        sent: None,
        format: Format::Xml,
        prompt_bytes: 0,
        fit: blob_id(b"{}"),
        first_turn: None,
        nonce: None,
        tasks: None,
        repairs: 0,
        targets: None,
        shown: None,
        for_change: None,
        commit: None,
    })
}

/// Returns all opinions as one response.
fn together(workspace: &Workspace, ask: &TurnRequest, opinions: &[Opinion]) -> Result<Response> {
    let verdict = opinions
        .iter()
        .map(|opinion| opinion.verdict)
        .max()
        .ok_or_else(gone)?;
    let spec = workspace.pack.mode(&ask.mode)?;
    let part = |opinion: &Opinion| {
        let Opinion {
            agent,
            verdict,
            text,
            turn,
            ..
        } = opinion;
        format!("# {agent}: {} ({turn})\n\n{text}\n", verdict.name())
    };
    let content = opinions.iter().map(part).collect::<Vec<_>>().join("\n");
    let lines = opinions
        .iter()
        .map(|opinion| format!("{}: {}", opinion.agent, opinion.verdict.name()));
    let target = spec.updates.first().cloned();
    let update = target.map(|target| Update {
        target,
        content,
        format: UpdateFormat::Whole,
        span: 0..0,
    });
    Ok(Response {
        message: lines.collect::<Vec<_>>().join("\n"),
        updates: update.into_iter().collect(),
        markers: vec![Marker::Review { verdict }],
        complete: true,
        ..Response::default()
    })
}
