//! Runs a probe. Each request is a normal turn.

use super::cases::{ProbeCase, load_cases};
use super::report::{ProbeReport, ProbeTurn};
use crate::agent::Driver;
use crate::compose::Variables;
use crate::error::{Error, Result};
use crate::models::{
    AgentName, Amount, CallOutcome, Catalogue, ComplianceRate, MeasuredValue, Mode, ProbeCondition,
    SessionId,
};
use crate::orchestrator::prompts::Origin;
use crate::orchestrator::random;
use crate::orchestrator::turn::TurnRequest;
use crate::orchestrator::turn::calibration;
use crate::orchestrator::turn::{TurnContext, take_turn};
use crate::orchestrator::workspace::load_catalogue;
use crate::pack::PROBE_PACK;
use crate::store::BudgetScope;

/// Variable of the probe's prompts with the name of the condition.
const CONDITION: &str = "condition";

/// Number of failed calls in a row after which a probe stops.
const MAX_FAILED_CALLS: usize = 3;

/// Agent and number of requests of a probe.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Agent to measure.
    pub agent: AgentName,
    /// Model to measure; `None` for the default model of the agent.
    pub model: Option<String>,
    /// Number of requests under each condition; `None` for one request per case.
    pub turns: Option<usize>,
}

/// Result of one request.
struct ProbeResult {
    turn: ProbeTurn,
    /// Error of the call, if it failed.
    fault: Option<Error>,
    /// True if the next call would fail for the same reason.
    is_hopeless: bool,
}

/// Probes an agent. `on_turn` is called after each request, with its result, the number of requests so far, and the
/// number of all requests.
///
/// # Errors
///
/// Fails if the cases cannot be loaded, the first turn cannot be taken or the totals cannot be read. An error in a
/// later turn ends the probe, and is part of the report.
pub fn probe_agent(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    probe: &Probe,
    on_turn: &mut dyn FnMut(&ProbeTurn, usize, usize),
) -> Result<ProbeReport> {
    let probe_workspace = context.workspace.with_pack(PROBE_PACK)?;
    let context = &TurnContext {
        workspace: probe_workspace.as_ref().unwrap_or(context.workspace),
        ..*context
    };
    let cases = load_cases(&context.workspace.places)?;
    let turns = probe.turns.unwrap_or(cases.len());

    let session = SessionId::new(format!("probe-{}", random::random_name()?))?;
    let request = TurnRequest {
        agent: Some(probe.agent.clone()),
        model: probe.model.clone(),
        session: Some(session.clone()),
        ..TurnRequest::new(context.workspace.pack.start.clone(), "")
    };
    let mut report = ProbeReport {
        agent: probe.agent.as_str().to_owned(),
        model: context.workspace.model(&request)?,
        session,
        asked: Vec::new(),
        spent: Amount::default(),
        kept: ComplianceRate::default(),
        reliability: None,
        fault: None,
    };

    // Each case is requested under all conditions in a row: if the probe stops early, all conditions had the same cases.
    let requests = cases
        .iter()
        .cycle()
        .take(turns)
        .flat_map(|case| ProbeCondition::ALL.map(|condition| (case, condition)));
    for (case, condition) in requests {
        match ask_case(context, driver, &request, case, condition) {
            Ok(result) => {
                record_turn(context, &report, &result.turn);
                report.asked.push(result.turn);
                let is_over = result.is_hopeless || has_failed_repeatedly(&report.asked);
                report.fault = result.fault.filter(|_| is_over);
            }
            Err(error) if report.asked.is_empty() => return Err(error),
            Err(error) => report.fault = Some(error),
        }
        if report.fault.is_some() {
            break;
        }
        if let Some(turn) = report.asked.last() {
            on_turn(turn, report.asked.len(), turns * ProbeCondition::ALL.len());
        }
    }

    add_totals(context, &request, &mut report)?;
    Ok(report)
}

/// Returns true if the last [`MAX_FAILED_CALLS`] calls have failed.
fn has_failed_repeatedly(turns: &[ProbeTurn]) -> bool {
    let mut last = turns.iter().rev().take(MAX_FAILED_CALLS);
    turns.len() >= MAX_FAILED_CALLS && last.all(|turn| turn.right.is_none())
}

/// Adds the usage of this run to the report, and the measurements of all probes in the ledger.
fn add_totals(
    context: &TurnContext<'_>,
    request: &TurnRequest,
    report: &mut ProbeReport,
) -> Result<()> {
    report.spent = context
        .store
        .spent(&BudgetScope::Run(&context.run.id))?
        .amount;

    let measured = calibration::measured(context.workspace, context.store, request)?;
    if let Some(id) = &report.model {
        let settings = &context.workspace.settings;
        let model = load_catalogue(settings)?
            .find(id)
            .cloned()
            .unwrap_or_else(|| Catalogue::assumed(id));
        report.reliability = Some(Origin::resolve(settings, &model, &measured));
    }
    report.kept = measured.protocol;
    Ok(())
}

/// Takes the turn of a case under a condition.
fn ask_case(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    request: &TurnRequest,
    case: &ProbeCase,
    condition: ProbeCondition,
) -> Result<ProbeResult> {
    let request = TurnRequest {
        mode: Mode::new(case.task().name())?,
        instructions: case.ask.clone(),
        variables: Variables::from([(CONDITION.to_owned(), condition.name().to_owned())]),
        ..request.clone()
    };
    let report = take_turn(context, driver, &request)?;

    let right = report.end.is_ok().then(|| case.is_right(&report));
    let is_hopeless = matches!(
        report.end,
        CallOutcome::Stopped
            | CallOutcome::Auth
            | CallOutcome::NotInstalled
            | CallOutcome::Quota { .. }
    );
    Ok(ProbeResult {
        turn: ProbeTurn {
            turn: report.turn,
            condition,
            task: case.task(),
            case: case.name.clone(),
            end: report.end,
            right,
        },
        fault: report.fault.filter(|_| right.is_none()),
        is_hopeless,
    })
}

/// Records the measurement of a turn in the ledger. A failed call gives none.
fn record_turn(context: &TurnContext<'_>, report: &ProbeReport, turn: &ProbeTurn) {
    let Some(right) = turn.right else {
        return;
    };
    let figure = MeasuredValue::Protocol {
        condition: turn.condition,
        task: turn.task,
        case: turn.case.clone(),
        right,
    };
    calibration::record_figure(
        context.workspace,
        context.store,
        &report.agent,
        report.model.as_deref(),
        figure,
    );
}
