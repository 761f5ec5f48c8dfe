//! A probe: small requests to an agent, each a turn like any other, that show how well it keeps to the protocol.

mod cases;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::agent::Driver;
use crate::compose::Variables;
use crate::error::{Error, Result};
use crate::models::{
    AgentName, Amount, CallOutcome, Catalogue, Condition, Figure, Mode, Reliability, SessionId,
    Share, Task,
};
use crate::orchestrator::prompts::Origin;
use crate::orchestrator::random;
use crate::orchestrator::turn::TurnRequest;
use crate::orchestrator::turn::calibration as measure;
use crate::orchestrator::turn::{TurnContext, take_turn};
use crate::orchestrator::workspace::catalogue;
use crate::pack::PROBE_PACK;
use crate::store::Scope;
use cases::{Case, cases};

/// The variable that says what a prompt holds beside the rules.
const CONDITION: &str = "condition";

/// Who is probed, and how.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The agent.
    pub agent: AgentName,
    /// The model; without one, the agent's own.
    pub model: Option<String>,
    /// How many requests are made under each condition; without a number, each case once.
    pub turns: Option<usize>,
}

/// One request of a probe, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// The turn's number in the session.
    pub turn: u64,
    /// What the prompt held beside the rules.
    pub condition: Condition,
    /// What was asked for.
    pub task: Task,
    /// The name of the case.
    pub case: String,
    /// How the call ended.
    pub end: CallOutcome,
    /// Whether the reply is right; nothing is said of a call that failed.
    pub right: Option<bool>,
}

/// What a probe has shown.
#[derive(Debug, Serialize)]
pub struct ProbeReport {
    /// The agent.
    pub agent: String,
    /// Its model, if one is known.
    pub model: Option<String>,
    /// The session that holds the turns.
    pub session: SessionId,
    /// Every request, in order.
    pub asked: Vec<Asked>,
    /// What all of it has used.
    pub spent: Amount,
    /// How many of all replies without help in the ledger were right, those of earlier probes among them.
    pub kept: Share,
    /// How well the model keeps to the protocol, as prompts will have it from now on, and where that is known from.
    pub reliability: Option<(Reliability, Origin)>,
    /// Why the probe did not come to its end, if it did not.
    #[serde(skip)]
    pub fault: Option<Error>,
}

/// Whether something beside the rules helps an agent to keep to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Help {
    /// More replies were right, and hardly by chance.
    Helps,
    /// More replies were right; that may be chance.
    MayHelp,
    /// No more replies were right.
    DoesNotHelp,
}

impl ProbeReport {
    /// Returns how many replies under a condition were right, of one task or of all.
    #[must_use]
    pub fn share(&self, condition: Condition, task: Option<Task>) -> Share {
        let mut share = Share::default();
        let fits = |asked: &&Asked| {
            asked.condition == condition && task.is_none_or(|task| asked.task == task)
        };
        self.asked
            .iter()
            .filter(fits)
            .filter_map(|asked| asked.right)
            .for_each(|right| share.count(right));
        share
    }

    /// Returns how often calls failed, by the name of their end.
    #[must_use]
    pub fn failed(&self) -> BTreeMap<&'static str, u64> {
        let mut ends = BTreeMap::new();
        for asked in self.asked.iter().filter(|asked| asked.right.is_none()) {
            *ends.entry(asked.end.name()).or_default() += 1;
        }
        ends
    }

    /// Returns whether a condition helps; `None` if there is nothing to compare.
    #[must_use]
    pub fn help(&self, condition: Condition) -> Option<Help> {
        let plain = self.share(Condition::Plain, None).rate()?;
        let helped = self.share(condition, None);
        let (rate, (low, _)) = (helped.rate()?, helped.interval()?);
        Some(match (rate > plain, low > plain) {
            (true, true) => Help::Helps,
            (true, false) => Help::MayHelp,
            (false, _) => Help::DoesNotHelp,
        })
    }
}

/// After how many failed calls in a row a probe is given up.
const GIVE_UP: usize = 3;

/// Probes an agent. `told` hears of every request, how many there were so far and how many there will be.
///
/// # Errors
///
/// Whatever keeps the first turn from being taken. What keeps a later one from it is in the report.
pub fn probe(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    probe: &Probe,
    told: &mut dyn FnMut(&Asked, usize, usize),
) -> Result<ProbeReport> {
    let other = context.workspace.with_pack(PROBE_PACK)?;
    let context = &TurnContext {
        workspace: other.as_ref().unwrap_or(context.workspace),
        ..*context
    };
    let cases = cases(&context.workspace.places)?;
    let turns = probe.turns.unwrap_or(cases.len());
    let session = SessionId::new(format!("probe-{}", random::random_name()?))?;
    let ask = TurnRequest {
        agent: Some(probe.agent.clone()),
        model: probe.model.clone(),
        session: Some(session.clone()),
        ..TurnRequest::new(context.workspace.pack.start.clone(), "")
    };
    let model = context.workspace.model(&ask)?;
    let mut report = ProbeReport {
        agent: probe.agent.as_str().to_owned(),
        model,
        session,
        asked: Vec::new(),
        spent: Amount::default(),
        kept: Share::default(),
        reliability: None,
        fault: None,
    };
    // Case by case, so that one that is broken off has asked the same under every condition.
    let all = cases
        .iter()
        .cycle()
        .take(turns)
        .flat_map(|case| Condition::ALL.map(|condition| (case, condition)));
    for (case, condition) in all {
        match request(context, driver, &ask, case, condition) {
            Ok((asked, fault, hopeless)) => {
                keep(context, &report, &asked);
                report.asked.push(asked);
                let newest = report.asked.iter().rev().take(GIVE_UP);
                let all_failed = report.asked.len() >= GIVE_UP
                    && newest.into_iter().all(|asked| asked.right.is_none());
                report.fault = fault.filter(|_| hopeless || all_failed);
            }
            Err(error) if report.asked.is_empty() => return Err(error),
            Err(error) => report.fault = Some(error),
        }
        if report.fault.is_some() {
            break;
        }
        if let Some(asked) = report.asked.last() {
            told(asked, report.asked.len(), turns * Condition::ALL.len());
        }
    }
    report.spent = context.store.spent(&Scope::Run(&context.run.id))?.amount;
    let measured = measure::measured(context.workspace, context.store, &ask)?;
    if let Some(id) = &report.model {
        let settings = &context.workspace.settings;
        let model = catalogue(settings)?
            .find(id)
            .cloned()
            .unwrap_or_else(|| Catalogue::assumed(id));
        report.reliability = Some(Origin::of(settings, &model, &measured));
    }
    report.kept = measured.protocol;
    Ok(report)
}

/// Makes one request. Returns what came of it, how its call failed if it did, and whether another one would, too.
fn request(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    ask: &TurnRequest,
    case: &Case,
    condition: Condition,
) -> Result<(Asked, Option<Error>, bool)> {
    let variables = Variables::from([(CONDITION.to_owned(), condition.name().to_owned())]);
    let mode = Mode::new(case.task().name())?;
    let ask = TurnRequest {
        mode,
        instructions: case.ask.clone(),
        variables,
        ..ask.clone()
    };
    let report = take_turn(context, driver, &ask)?;
    let right = report.end.is_ok().then(|| case.is_right(&report));
    let asked = Asked {
        turn: report.turn,
        condition,
        task: case.task(),
        case: case.name.clone(),
        end: report.end.clone(),
        right,
    };
    // The next call would end no better.
    let hopeless = matches!(
        report.end,
        CallOutcome::Stopped
            | CallOutcome::Auth
            | CallOutcome::NotInstalled
            | CallOutcome::Quota { .. }
    );
    Ok((asked, report.fault.filter(|_| right.is_none()), hopeless))
}

/// Keeps what a request has shown.
fn keep(context: &TurnContext<'_>, report: &ProbeReport, asked: &Asked) {
    let Some(right) = asked.right else { return };
    let (condition, task, case) = (asked.condition, asked.task, asked.case.clone());
    let figure = Figure::Protocol {
        condition,
        task,
        case,
        right,
    };
    measure::keep(
        context.workspace,
        context.store,
        &report.agent,
        report.model.as_deref(),
        figure,
    );
}
