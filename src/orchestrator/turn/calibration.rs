//! Measurements of agents and models, which are recorded after calls and looked up for prompts.

use std::collections::BTreeMap;

use super::request::TurnRequest;
use crate::compose::ModelMeasurements;
use crate::error::Result;
use crate::models::{AgentName, Catalogue, MeasuredKind, MeasuredValue, Measurement};
use crate::orchestrator::clock;
use crate::orchestrator::workspace::Workspace;
use crate::store::{MeasurementQuery, Store};

/// Returns the measurements of the agent and the model that a request uses. If there is no agent, returns only the
/// protocol compliance of the model, measured with all agents. Without a model, there are no measurements.
///
/// # Errors
///
/// `ConfigInvalid` for invalid settings; also fails if the ledger cannot be read.
pub fn measured(
    workspace: &Workspace,
    store: &dyn Store,
    request: &TurnRequest,
) -> Result<ModelMeasurements> {
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
) -> Result<ModelMeasurements> {
    let Some(model) = model else {
        return Ok(ModelMeasurements::default());
    };
    let model = catalogue_id(workspace.catalogue()?, model);
    let agent = agent.map(AgentName::as_str).map(without_model);

    let mut all = find_measurements(store, MeasuredKind::Protocol, agent, &model)?;
    if agent.is_some() {
        all.extend(find_measurements(
            store,
            MeasuredKind::Tokens,
            agent,
            &model,
        )?);
    }
    Ok(ModelMeasurements::from_measurements(&all))
}

/// Returns the measurements of a model, by agent.
///
/// # Errors
///
/// Fails if the ledger cannot be read.
pub fn measured_agents(
    store: &dyn Store,
    model: &str,
) -> Result<BTreeMap<String, ModelMeasurements>> {
    let mut agents: BTreeMap<String, Vec<Measurement>> = BTreeMap::new();
    for kind in [MeasuredKind::Tokens, MeasuredKind::Protocol] {
        for measurement in find_measurements(store, kind, None, model)? {
            agents
                .entry(measurement.agent.clone())
                .or_default()
                .push(measurement);
        }
    }
    Ok(agents
        .into_iter()
        .map(|(agent, all)| (agent, ModelMeasurements::from_measurements(&all)))
        .collect())
}

fn find_measurements(
    store: &dyn Store,
    kind: MeasuredKind,
    agent: Option<&str>,
    model: &str,
) -> Result<Vec<Measurement>> {
    let rows = store.measurements(&MeasurementQuery {
        kind,
        agent,
        model: Some(model),
    })?;
    Ok(rows
        .into_iter()
        .map(|(_, measurement)| measurement)
        .collect())
}

/// Returns the catalogue id of a model, so that measurements under its aliases are counted together.
fn catalogue_id(catalogue: &Catalogue, model: &str) -> String {
    catalogue
        .find(model)
        .map_or(model, |spec| &spec.id)
        .to_owned()
}

/// Returns the name of an agent without the model in `AGENT:MODEL`.
fn without_model(agent: &str) -> &str {
    agent.split_once(':').map_or(agent, |(agent, _)| agent)
}

/// Records a measurement of an agent and its model. An error is only logged: a turn must not fail because of it.
pub(crate) fn record_figure(
    workspace: &Workspace,
    store: &dyn Store,
    agent: &str,
    model: Option<&str>,
    figure: MeasuredValue,
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
        log::warn!("cannot record a measurement of `{agent}`: {error}");
    }
}
