//! Panel reviews: several agents review a change in parallel, each in its own session, and the most severe verdict
//! wins.

use std::sync::Arc;
use std::thread;

use crate::agent::Driver;
use crate::apply;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{
    AgentName, Event, Finding, Format, Marker, Mode, Permission, Response, ReviewResult, SessionId,
    State, TurnStart, Update, UpdateFormat, UsageMetrics,
};
use crate::orchestrator::turn::findings::{
    extract_findings, finding_action, notes_findings, open_findings_in_mode,
    open_findings_of_change, whole_updates,
};
use crate::orchestrator::turn::prepare::{PreparedTurn, pack_hash};
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

/// Agent name of the turn that combines the opinions of the reviewers.
const PANEL: &str = "panel";

/// Review by one agent.
struct Opinion {
    agent: String,
    verdict: ReviewResult,
    /// Report of the reviewer, or its message if it wrote none.
    text: String,
    findings: Vec<Finding>,
    /// Usage of the review in this run; empty if the opinion was recorded by an earlier run.
    usage: UsageMetrics,
    /// Name of the reviewer's turn.
    turn: String,
}

/// Asks several agents in parallel to review a change, then records one turn of the change with the most severe of their
/// verdicts. After an interruption, agents that have already answered are not called again.
///
/// # Errors
///
/// The error of the first reviewer that failed: the panel has a verdict only if all reviewers gave one.
pub(super) fn ask_reviewers(
    context: &TurnContext<'_>,
    reviewers: &[(AgentName, Arc<dyn Driver>)],
    request: &TurnRequest,
) -> Result<TurnReport> {
    let Some(change) = &request.session else {
        let message = "a panel review needs a change, but the request has no session";
        return Err(Error::new(ErrorKind::ChangeNotFound, message));
    };
    let state = context.store.state(change)?;
    let site = TurnSite::for_session(context, Some(change), &state)?;
    let commit = site.commit()?;
    let commit = commit.as_deref();

    let opinions: Vec<Result<Opinion>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (agent, driver) in reviewers {
            let reviewer_session = reviewer_session(change, &request.mode, agent, state.turns);
            threads.push(scope.spawn(move || {
                let reviewer_session = reviewer_session?;
                ask_reviewer(
                    context,
                    driver.as_ref(),
                    agent,
                    &reviewer_session,
                    request,
                    commit,
                )
            }));
        }
        threads
            .into_iter()
            .zip(reviewers)
            .map(|(thread, (agent, _))| thread.join().unwrap_or_else(|_| Err(reviewer_lost(agent))))
            .collect()
    });

    let opinions = opinions.into_iter().collect::<Result<Vec<Opinion>>>()?;
    combine_opinions(context, change, request, opinions)
}

/// Returns the error for a reviewer whose thread panicked.
fn reviewer_lost(agent: &AgentName) -> Error {
    let message = format!("the thread of reviewer `{agent}` panicked");
    Error::new(ErrorKind::AgentLost, message)
}

/// Returns the session of a reviewer. Its name depends only on the turn of the change and on the agent, so that a run
/// after an interruption finds the same session. A name that is too long for a session is replaced by its hash.
fn reviewer_session(
    change: &SessionId,
    mode: &Mode,
    agent: &AgentName,
    turns: u64,
) -> Result<SessionId> {
    let agent: String = agent
        .as_str()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let name = format!("{change}.{mode}.{}.{agent}", turns + 1);
    SessionId::new(name.clone()).or_else(|_| {
        let hash = blob_id(name.as_bytes()).to_string();
        SessionId::new(format!("{PANEL}.{}", hash.get(..16).unwrap_or_default()))
    })
}

/// Returns the opinion of an agent: the recorded one, or else that of a new turn in the reviewer's session.
fn ask_reviewer(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    agent: &AgentName,
    reviewer_session: &SessionId,
    request: &TurnRequest,
    commit: Option<&str>,
) -> Result<Opinion> {
    if let Some(opinion) = recorded_opinion(context, agent, reviewer_session, request, commit)? {
        return Ok(opinion);
    }

    let request = TurnRequest {
        agent: Some(agent.clone()),
        for_change: request.session.clone(),
        session: Some(reviewer_session.clone()),
        ..request.clone()
    };
    let report = take_turn(context, driver, &request)?;
    if let Some(fault) = report.fault {
        return Err(fault);
    }

    let turn = format!("{}/{}", report.session, report.turn);
    let Some(verdict) = report.verdict else {
        let message = format!("reviewer `{agent}` gave no verdict in turn {turn}");
        return Err(Error::new(ErrorKind::MissingReviewMarker, message));
    };
    Ok(Opinion {
        agent: agent.to_string(),
        verdict,
        text: report_text(&report.response),
        findings: report.findings,
        usage: report.usage,
        turn,
    })
}

/// Returns the opinion that the ledger has for a reviewer's session; `None` if the session has no turns, or if its last
/// turn is unfinished, failed, has no verdict, or reviewed another commit.
fn recorded_opinion(
    context: &TurnContext<'_>,
    agent: &AgentName,
    reviewer_session: &SessionId,
    request: &TurnRequest,
    commit: Option<&str>,
) -> Result<Option<Opinion>> {
    let events = context.store.events(reviewer_session)?;
    let Some(turn) = TurnRecord::last(reviewer_session, &events) else {
        return Ok(None);
    };
    let is_same_commit = turn.started.commit.as_deref() == commit;
    if turn.is_unfinished() || !is_same_commit {
        return Ok(None);
    }
    let replied = turn
        .replied
        .as_ref()
        .filter(|replied| replied.fault.is_none());
    let Some(verdict) = replied.and_then(|replied| replied.verdict) else {
        return Ok(None);
    };

    let (response, _) = turn.read_again(context.workspace, context.store)?;
    let earlier = match &request.session {
        Some(change) => open_findings_of_change(context.store, change, &request.mode)?,
        None => Vec::new(),
    };
    let reports: Vec<&str> = whole_updates(&response).collect();
    let pack = &context.workspace.pack;
    let findings = extract_findings(pack, &request.mode, &response, &reports, &earlier);
    Ok(Some(Opinion {
        agent: agent.to_string(),
        verdict,
        text: report_text(&response),
        findings,
        usage: UsageMetrics::default(),
        turn: turn.name(),
    }))
}

/// Returns the text of a review: the updates in the response, or its message if there are none.
fn report_text(response: &Response) -> String {
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

/// Takes a turn of the change that combines the opinions: one document, the most severe verdict, and the findings of
/// all reviewers. No agent is called in this turn.
fn combine_opinions(
    context: &TurnContext<'_>,
    change: &SessionId,
    request: &TurnRequest,
    mut opinions: Vec<Opinion>,
) -> Result<TurnReport> {
    with_lease(context, change, |lease| {
        let mut session = recover(context, lease)?;
        let workspace = context.workspace;

        let earlier = open_findings_in_mode(context.store, &session.state, &request.mode)?;
        let findings = join_findings(workspace, &request.mode, &mut opinions, &earlier);
        let response = combined_response(workspace, request, &opinions)?;
        let usage = opinions
            .iter()
            .map(|opinion| opinion.usage)
            .fold(UsageMetrics::default(), UsageMetrics::plus);

        let started = panel_turn(workspace, &session.state, request)?;
        let mut opening = opening_events(&session.state, request);
        opening.push(Event::Started(Box::new(started.clone())));
        let site = TurnSite::for_session(context, Some(&lease.session), &session.state)?;
        session.defer(opening);

        let prepared = PreparedTurn::without_call(started);
        let reader = ReplyReader::new(workspace, &prepared.started, &[])?;
        let mut active = ActiveTurn::new(session, &prepared, &site);
        let report = apply_and_run(&mut active, &reader, response, findings)?;
        Ok(TurnReport { usage, ..report })
    })
}

/// Joins the findings of all opinions; `None` if the mode does not record findings. If two agents used the same id for
/// different findings, the second finding gets a new id, also in the text of its opinion.
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

/// Returns the start of the turn that combines the opinions. The turn has no prompt.
fn panel_turn(workspace: &Workspace, state: &State, request: &TurnRequest) -> Result<TurnStart> {
    let template = workspace.template(&AgentName::base(), &request.mode)?;
    let template = template.as_ref().map(|found| found.template.text.body());
    Ok(TurnStart {
        turn: state.turns + 1,
        mode: request.mode.clone(),
        agent: PANEL.to_owned(),
        model: None,
        pack: workspace.pack.name.clone(),
        pack_hash: pack_hash(workspace, template),
        permission: Permission::ReadOnly,
        commands: Vec::new(),
        named: true,
        prompt: Vec::new(),
        sent: None,
        message: None,
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

/// Returns a response that combines all opinions: a document with a section per reviewer, and the most severe verdict.
fn combined_response(
    workspace: &Workspace,
    request: &TurnRequest,
    opinions: &[Opinion],
) -> Result<Response> {
    let verdicts = opinions.iter().map(|opinion| opinion.verdict);
    let Some(verdict) = verdicts.max() else {
        let message = "a panel review needs at least one reviewer";
        return Err(Error::new(ErrorKind::AgentLost, message));
    };

    let mut lines = Vec::new();
    let mut sections = Vec::new();
    for opinion in opinions {
        let agent = &opinion.agent;
        let verdict = opinion.verdict.name();
        lines.push(format!("{agent}: {verdict}"));
        sections.push(format!(
            "# {agent}: {verdict} ({})\n\n{}\n",
            opinion.turn, opinion.text
        ));
    }

    let spec = workspace.pack.mode(&request.mode)?;
    let update = spec.updates.first().map(|target| Update {
        target: target.clone(),
        content: sections.join("\n"),
        format: UpdateFormat::Whole,
        span: 0..0,
    });
    Ok(Response {
        message: lines.join("\n"),
        updates: update.into_iter().collect(),
        markers: vec![Marker::Review { verdict }],
        complete: true,
        ..Response::default()
    })
}
