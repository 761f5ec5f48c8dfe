//! Assembles the prompt of a turn: template, variables, context, layers, fit, render.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::turn::TurnRequest;
use super::workspace::{PromptContext, Workspace, gather};
use crate::compose::{self, Counter, Draft, Measured, Missing, Request, TURN_VARIABLES, Variables};
use crate::config::Settings;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, ModelSpec, NoncePolicy, Reliability, State};
use crate::pack::{FoundTemplate, Holds, ModeSpec, Owner, Pack};

/// Where it is known from how well a model keeps to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It is the catalogue's guess.
    Guessed,
    /// The settings say so.
    Set,
    /// Probes have shown it.
    Measured,
}

impl Origin {
    /// Returns how well a model keeps to the protocol by what was measured, and where that is known from.
    #[must_use]
    pub fn of(settings: &Settings, model: &ModelSpec, measured: &Measured) -> (Reliability, Self) {
        if settings.models.iter().any(|set| set.id == model.id) {
            return (model.xml_reliability, Self::Set);
        }
        let measured = measured
            .reliability()
            .map(|reliability| (reliability, Self::Measured));
        measured.unwrap_or((model.xml_reliability, Self::Guessed))
    }
}

/// A prompt, and how it came to be.
#[derive(Debug)]
pub struct Assembly {
    /// The prompt.
    pub draft: Draft,
    /// The agent whose template was asked for.
    pub agent: AgentName,
    /// The model it is written for, if one was named.
    pub model: Option<ModelSpec>,
    /// What was measured of the agent and the model.
    pub measured: Measured,
    /// Where the model's reliability comes from.
    pub reliability: Origin,
    /// The template that won, and what was searched, if the pack has a layer for one.
    pub template: Option<Arc<FoundTemplate>>,
    /// For each variable with a value, where it came from.
    pub sources: Vec<(String, String)>,
    /// The numbers of the change's tasks, if it has a list of them.
    pub tasks: Option<Vec<String>>,
    /// Files of the project that stand in for shipped ones.
    pub overrides: Vec<String>,
}

/// Gathers what the prompt of a change is made from: project.md, the project's tree, the change's artifacts and tasks,
/// and the files that are given. The change is the session of the ask; what the template does not use is not looked for.
///
/// # Errors
///
/// `TemplateNotFound`, `ChangeNotFound`, and those of files that cannot be read.
pub fn assemble_context(workspace: &Workspace, ask: &TurnRequest) -> Result<PromptContext> {
    let agent = workspace.agent(ask)?.unwrap_or_else(AgentName::base);
    let template = workspace.template(&agent, &ask.mode)?;
    let spec = workspace.pack.mode(&ask.mode)?;
    gather(
        workspace,
        ask,
        spec,
        template.as_deref().map(|found| &found.template),
    )
}

/// Assembles a prompt: template, variables, context, layers, fit, render.
///
/// # Errors
///
/// `TemplateNotFound` also for a mode that the pack does not have, and whatever else keeps the prompt from being whole.
pub fn assemble(workspace: &Workspace, state: &State, ask: &TurnRequest) -> Result<Assembly> {
    let pack = &workspace.pack;
    let agent = workspace.agent(ask)?.unwrap_or_else(AgentName::base);
    let template = workspace.template(&agent, &ask.mode)?;
    let spec = pack.mode(&ask.mode)?;
    let PromptContext {
        variables,
        pack_texts,
        mut sources,
        tasks,
        items,
        project,
    } = assemble_context(workspace, ask)?;
    let written_for = WrittenFor::of(workspace, ask)?;
    check_variables(pack, template.as_deref(), &ask.variables)?;
    if ask.work.is_some() && !pack.holds(Holds::State) && !pack.holds(Holds::History) {
        log::warn!(
            "the pack `{}` has no layer for what the state file says",
            pack.name
        );
    }
    let strict = ask.strict || workspace.settings.strict;
    // A fact may be told in the prompt as well, so it is the value without secrets.
    let told = |name: &String| Some((name.clone(), variables.get(name)?.clone()));
    let request = Request {
        template: template.clone(),
        facts: ask.variables.keys().filter_map(told).collect(),
        variables,
        pack_texts,
        missing: if strict {
            Missing::Error
        } else {
            Missing::Notice
        },
        context: items,
        project,
        instructions: Some(workspace.secrets.redact(&ask.instructions).into_owned()),
        nonce: ask
            .nonce
            .clone()
            .filter(|_| workspace.settings.verdict_nonce != NoncePolicy::Off),
        format: workspace.format(ask)?,
        max_bytes: workspace.settings.max_prompt_bytes,
        agent: Some(agent.clone()),
        has_tools: workspace.has_tools(ask)?,
        model: written_for.model.clone(),
        counter: written_for.counter.map(Arc::new),
        overhead: written_for.overhead,
        previous: state.first_turn,
        expands: workspace.expands(&agent)?,
        count: ask.count,
        ..Request::default()
    };
    let draft = compose::compose(pack, state, &request)?;
    let filled_from = ["this turn", "the mode"].map(str::to_owned);
    sources.extend(
        TURN_VARIABLES
            .map(str::to_owned)
            .into_iter()
            .zip(filled_from),
    );
    let overrides = overrides(pack, template.as_deref(), spec);
    let WrittenFor {
        model, reliability, ..
    } = written_for;
    let measured = ask.measured;
    Ok(Assembly {
        draft,
        agent,
        model,
        measured,
        reliability,
        template,
        sources,
        tasks,
        overrides,
    })
}

/// What is known of the model that a prompt is written for, and of the agent that it goes to.
struct WrittenFor {
    model: Option<ModelSpec>,
    reliability: Origin,
    counter: Option<Counter>,
    overhead: u64,
}

impl WrittenFor {
    /// Returns what the catalogue and the settings say, and what was measured.
    fn of(workspace: &Workspace, ask: &TurnRequest) -> Result<Self> {
        let Some(id) = workspace.model(ask)? else {
            return Ok(Self {
                model: None,
                reliability: Origin::Guessed,
                counter: None,
                overhead: 0,
            });
        };
        let catalogue = workspace.catalogue()?;
        let model = catalogue.find_or_assume(&id);
        let (mut counter, mut overhead) = (Counter::new(catalogue.tokenizer(&model)), 0);
        if let Some(calibration) = ask.measured.calibration.used() {
            counter = counter.corrected(calibration.factor);
            // However wrong a figure is, it shall not keep every prompt from being sent.
            overhead = calibration.overhead.min(model.window / 2);
        }
        let (xml_reliability, reliability) = Origin::of(&workspace.settings, &model, &ask.measured);
        Ok(Self {
            model: Some(ModelSpec {
                xml_reliability,
                ..model
            }),
            reliability,
            counter: Some(counter),
            overhead,
        })
    }
}

/// A variable that is given a value is one that the pack or a text of it knows.
fn check_variables(pack: &Pack, template: Option<&FoundTemplate>, given: &Variables) -> Result<()> {
    if let Some(name) = TURN_VARIABLES
        .iter()
        .find(|name| given.contains_key(**name))
    {
        let message = format!("`{name}` cannot be set: the program fills it for every turn");
        return Err(Error::new(ErrorKind::NameInvalid, message));
    }
    let texts = pack
        .texts
        .values()
        .chain(template.map(|found| &found.template.text));
    let listed = texts.flat_map(|text| text.variables.iter().map(|variable| &variable.name));
    let known: BTreeSet<&String> = pack.variables.iter().chain(listed).collect();
    match given.keys().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            let message = format!("the pack `{}` has no variable `{name}`", pack.name);
            Err(Error::new(ErrorKind::NameInvalid, message)
                .with_hint(format!("its variables: {known}")))
        }
    }
}

fn overrides(pack: &Pack, template: Option<&FoundTemplate>, spec: &ModeSpec) -> Vec<String> {
    let template = template.map(|found| (found.template.text.owner, &found.template.text.origin));
    let skeletons = pack
        .skeletons_of(spec)
        .map(|skeleton| (skeleton.owner, &skeleton.origin));
    // A pack that is the project's own is named once.
    let texts = pack.texts.values().filter(|_| pack.owner != Owner::Project);
    let texts = texts.map(|text| (text.owner, &text.origin));
    let files = std::iter::once((pack.owner, &pack.origin))
        .chain(template)
        .chain(skeletons)
        .chain(texts);
    files
        .filter(|(owner, _)| *owner == Owner::Project)
        .map(|(_, origin)| origin.clone())
        .collect()
}
