//! Measurements of agents and models: recorded after calls, looked up for prompts.

use std::collections::BTreeMap;

use super::request::TurnRequest;
use crate::compose::Measured;
use crate::error::Result;
use crate::models::{AgentName, Catalogue, Figure, FigureKind, Measurement};
use crate::orchestrator::clock;
use crate::orchestrator::workspace::Workspace;
use crate::store::{Figures, Store};

/// Returns the measurements of the agent and the model of a request. Without an agent, these are the model's with any
/// agent, and only how well it follows the protocol.
///
/// # Errors
///
/// Those of the ledger, and `ConfigInvalid`.
pub fn measured(
    workspace: &Workspace,
    store: &dyn Store,
    request: &TurnRequest,
) -> Result<Measured> {
    let model = workspace.model(request)?;
    let agent = workspace.agent(request)?;
    measured_of(workspace, store, agent.as_ref(), model.as_deref())
}

/// Returns the measurements of an agent and a model.
pub(crate) fn measured_of(
    workspace: &Workspace,
    store: &dyn Store,
    agent: Option<&AgentName>,
    model: Option<&str>,
) -> Result<Measured> {
    let Some(model) = model else {
        return Ok(Measured::default());
    };
    let model = catalogue_id(workspace.catalogue()?, model);
    let agent = agent.map(AgentName::as_str).map(without_model);

    let mut all = find_measurements(store, FigureKind::Protocol, agent, &model)?;
    if agent.is_some() {
        all.extend(find_measurements(store, FigureKind::Tokens, agent, &model)?);
    }
    Ok(Measured::from_measurements(&all))
}

/// Returns the measurements of a model, by the agent that was called with it.
///
/// # Errors
///
/// Those of the ledger.
pub fn measured_agents(store: &dyn Store, model: &str) -> Result<BTreeMap<String, Measured>> {
    let mut agents: BTreeMap<String, Vec<Measurement>> = BTreeMap::new();
    for kind in [FigureKind::Tokens, FigureKind::Protocol] {
        for measurement in find_measurements(store, kind, None, model)? {
            agents
                .entry(measurement.agent.clone())
                .or_default()
                .push(measurement);
        }
    }
    Ok(agents
        .into_iter()
        .map(|(agent, all)| (agent, Measured::from_measurements(&all)))
        .collect())
}

fn find_measurements(
    store: &dyn Store,
    kind: FigureKind,
    agent: Option<&str>,
    model: &str,
) -> Result<Vec<Measurement>> {
    let rows = store.measurements(&Figures {
        kind,
        agent,
        model: Some(model),
    })?;
    Ok(rows
        .into_iter()
        .map(|(_, measurement)| measurement)
        .collect())
}

/// Returns the id of a model in the catalogue, so that measurements under all its names count together.
fn catalogue_id(catalogue: &Catalogue, model: &str) -> String {
    catalogue
        .find(model)
        .map_or(model, |known| &known.id)
        .to_owned()
}

/// Returns the name of an agent without the model in `AGENT:MODEL`.
fn without_model(agent: &str) -> &str {
    agent.split_once(':').map_or(agent, |(agent, _)| agent)
}

/// Records a measurement of an agent and its model. A failure is logged; the turn counts without it.
pub(crate) fn record_figure(
    workspace: &Workspace,
    store: &dyn Store,
    agent: &str,
    model: Option<&str>,
    figure: Figure,
) {
    let record = || {
        let catalogue = workspace.catalogue()?;
        let model = model.map(|model| catalogue_id(catalogue, model));
        store.measure(
            &Measurement {
                agent: without_model(agent).to_owned(),
                model,
                figure,
            },
            clock::now(),
        )
    };
    if let Err(error) = record() {
        log::warn!("cannot save calibration data of `{agent}`: {error}");
    }
}
