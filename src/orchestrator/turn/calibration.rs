//! Figures that are measured: taken from calls, and looked up for prompts.

use std::collections::BTreeMap;

use super::ActiveTurn;
use super::request::TurnRequest;
use crate::compose::{Counter, Measured, seems_cut};
use crate::error::Result;
use crate::models::{
    AgentName, Catalogue, Figure, FigureKind, Format, Measurement, Reply, Why, grouped,
};
use crate::orchestrator::clock;
use crate::orchestrator::workspace::Workspace;
use crate::store::{Figures, Store};

/// Returns what was measured of the agent and the model that a prompt is asked for. Where no agent is named, that is
/// how well the model keeps to the protocol, whoever speaks to it.
///
/// # Errors
///
/// Those of the ledger, and `ConfigInvalid`.
pub fn measured(workspace: &Workspace, store: &dyn Store, ask: &TurnRequest) -> Result<Measured> {
    let Some(model) = workspace.model(ask)? else {
        return Ok(Measured::default());
    };
    let model = known(workspace.catalogue()?, &model);
    let agent = workspace.agent(ask)?;
    let agent = agent.as_ref().map(AgentName::as_str).map(bare);
    let mut all = found(store, FigureKind::Protocol, agent, &model)?;
    if agent.is_some() {
        all.extend(found(store, FigureKind::Tokens, agent, &model)?);
    }
    Ok(Measured::of(&all))
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
        .map(|(agent, all)| (agent, Measured::of(&all)))
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

impl ActiveTurn<'_> {
    /// Compares the tokens that an agent reports of a prompt with our own count, keeps both if they are of one request,
    /// and warns if the prompt seems to have been cut.
    pub(crate) fn compare(&mut self, why: Why, prompt: &str, reply: &Reply) {
        let started = &self.prepared.started;
        let reported = reply.usage.input_tokens.and(reply.usage.prompt_tokens());
        let (Some(model), Some(reported), true) = (&started.model, reported, reply.end.is_ok())
        else {
            return;
        };
        let Ok(ours) = self.count(model, why, prompt) else {
            return;
        };
        if reply.tool_calls == Some(0) {
            let figure = Figure::Tokens { ours, reported };
            keep(
                self.context.workspace,
                self.context.store,
                &started.agent,
                Some(model),
                figure,
            );
        }
        if seems_cut(ours, reported) {
            let (agent, reported, ours) = (&started.agent, grouped(reported), grouped(ours));
            let cut = "it may have been cut before it reached the model";
            let warning =
                format!("{agent} reports {reported} tokens for a prompt of about {ours}: {cut}");
            log::warn!("{warning}");
            self.warnings.push(warning);
        }
    }

    /// Returns how many tokens a prompt has for a model, most likely, and without what was measured before.
    fn count(&self, model: &str, why: Why, prompt: &str) -> Result<u64> {
        let catalogue = self.context.workspace.catalogue()?;
        let tokenizer = catalogue
            .find(model)
            .map(|known| catalogue.tokenizer(known))
            .unwrap_or_default();
        let counter = Counter::new(tokenizer);
        // Of a prompt that is sent as JSON, its texts are what the model reads.
        let is_text = matches!(self.prepared.started.format, Format::Xml | Format::Flat);
        let tokens = match why {
            Why::Ask if !is_text => counter.count(&self.prepared.texts.concat()).tokens,
            Why::Ask | Why::Repair => counter.count(prompt).tokens,
        };
        Ok(tokens)
    }
}
