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
    let model = known(workspace.catalogue()?, model);
    let agent = agent.map(AgentName::as_str).map(bare);

    let mut all = found(store, FigureKind::Protocol, agent, &model)?;
    if agent.is_some() {
        all.extend(found(store, FigureKind::Tokens, agent, &model)?);
    }
    Ok(Measured::from_measurements(&all))
}

/// Returns what was measured of a model, by the agents that speak to it.
///
/// # Errors
///
/// Those of the ledger.
pub fn measured_agents(store: &dyn Store, model: &str) -> Result<BTreeMap<String, Measured>> {
    let mut agents: BTreeMap<String, Vec<Measurement>> = BTreeMap::new();
    for kind in [FigureKind::Tokens, FigureKind::Protocol] {
        for measurement in found(store, kind, None, model)? {
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

fn found(
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

/// Returns a model's name as the catalogue has it, so that all its names have the same figures.
fn known(catalogue: &Catalogue, model: &str) -> String {
    catalogue
        .find(model)
        .map_or(model, |known| &known.id)
        .to_owned()
}

/// Returns an agent's name without the model that it may hold.
fn bare(agent: &str) -> &str {
    agent.split_once(':').map_or(agent, |(agent, _)| agent)
}

/// Keeps a figure of an agent and its model. That it cannot be kept is told, and undoes nothing.
pub(crate) fn keep(
    workspace: &Workspace,
    store: &dyn Store,
    agent: &str,
    model: Option<&str>,
    figure: Figure,
) {
    let keep = || {
        let catalogue = workspace.catalogue()?;
        let model = model.map(|model| known(catalogue, model));
        store.measure(
            &Measurement {
                agent: bare(agent).to_owned(),
                model,
                figure,
            },
            clock::now(),
        )
    };
    if let Err(error) = keep() {
        log::warn!("what was measured of `{agent}` is not kept: {error}");
    }
}
