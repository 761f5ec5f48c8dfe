//! Assembles the prompt of a turn: template, variables, context, layers, fit, render.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::turn::request::TurnRequest;
use super::turn::resolved::ResolvedTurn;
use super::workspace::{PromptContext, Workspace, gather};
use crate::compose::{self, Counter, Draft, Measured, Missing, Request, TURN_VARIABLES, Variables};
use crate::config::Settings;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, ModelSpec, NoncePolicy, Reliability, State};
use crate::pack::{FoundTemplate, LayerContent, ModeSpec, Owner, Pack};

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

/// Gathers what the prompt of a request is made from: project.md, the project's tree, the artifacts and tasks of the
/// change, and the files that are given. Parts that the template does not use are not looked for.
///
/// # Errors
///
/// `TemplateNotFound`, `ChangeNotFound`, and those of files that cannot be read.
pub fn assemble_context(workspace: &Workspace, request: &TurnRequest) -> Result<PromptContext> {
    gather_context(workspace, &ResolvedTurn::new(workspace, request)?)
}

/// Assembles a prompt: template, variables, context, layers, fit, render.
///
/// # Errors
///
/// `TemplateNotFound` also for a mode that the pack does not have, and anything that keeps the prompt from being
/// complete.
pub fn assemble(workspace: &Workspace, state: &State, request: &TurnRequest) -> Result<Assembly> {
    assemble_turn(workspace, state, &ResolvedTurn::new(workspace, request)?)
}

/// Assembles the prompt of a turn.
pub(crate) fn assemble_turn(
    workspace: &Workspace,
    state: &State,
    turn: &ResolvedTurn<'_>,
) -> Result<Assembly> {
    let pack = &workspace.pack;
    let asked = &turn.request;
    let context = gather_context(workspace, turn)?;
    let target = PromptTarget::new(workspace, turn)?;
    check_variables(pack, turn.template.as_deref(), &asked.variables)?;
    if asked.work.is_some()
        && !pack.has_layer(LayerContent::State)
        && !pack.has_layer(LayerContent::History)
    {
        let name = &pack.name;
        log::warn!("the pack `{name}` has no layer for what the state file says");
    }

    let is_strict = asked.strict || workspace.settings.strict;
    let has_nonce = workspace.settings.verdict_nonce != NoncePolicy::Off;
    // A fact may be shown in the prompt as well, so it is the value without secrets.
    let fact = |name: &String| Some((name.clone(), context.variables.get(name)?.clone()));
    let request = Request {
        template: turn.template.clone(),
        facts: asked.variables.keys().filter_map(fact).collect(),
        variables: context.variables,
        pack_texts: context.pack_texts,
        missing: if is_strict {
            Missing::Error
        } else {
            Missing::Notice
        },
        context: context.items,
        project: context.project,
        instructions: Some(workspace.secrets.redact(&asked.instructions).into_owned()),
        nonce: asked.nonce.clone().filter(|_| has_nonce),
        format: turn.format,
        max_bytes: workspace.settings.max_prompt_bytes,
        agent: Some(turn.agent.clone()),
        has_tools: turn.has_tools,
        model: target.model.clone(),
        counter: target.counter.map(Arc::new),
        overhead: target.overhead,
        previous: state.first_turn,
        expands: turn.expands.clone(),
        count: asked.count,
        ..Request::default()
    };
    let draft = compose::compose(pack, state, &request)?;

    let filled = ["this turn", "the mode"].map(str::to_owned);
    let filled = TURN_VARIABLES.map(str::to_owned).into_iter().zip(filled);
    let sources = context.sources.into_iter().chain(filled).collect();
    Ok(Assembly {
        draft,
        agent: turn.agent.clone(),
        model: target.model,
        measured: asked.measured,
        reliability: target.reliability,
        template: turn.template.clone(),
        sources,
        tasks: context.tasks,
        overrides: overrides(pack, turn.template.as_deref(), turn.spec),
    })
}

fn gather_context(workspace: &Workspace, turn: &ResolvedTurn<'_>) -> Result<PromptContext> {
    let template = turn.template.as_deref().map(|found| &found.template);
    gather(workspace, &turn.request, turn.spec, template)
}

/// The model that a prompt is written for, and how its tokens are counted.
struct PromptTarget {
    model: Option<ModelSpec>,
    reliability: Origin,
    counter: Option<Counter>,
    /// Tokens that the agent adds to every prompt.
    overhead: u64,
}

impl PromptTarget {
    /// Combines the catalogue and the settings with the measurements of the turn.
    fn new(workspace: &Workspace, turn: &ResolvedTurn<'_>) -> Result<Self> {
        let Some(id) = &turn.model else {
            return Ok(Self {
                model: None,
                reliability: Origin::Guessed,
                counter: None,
                overhead: 0,
            });
        };
        let catalogue = workspace.catalogue()?;
        let measured = &turn.request.measured;
        let model = catalogue.find_or_assume(id);

        let mut counter = Counter::new(catalogue.tokenizer(&model));
        let mut overhead = 0;
        if let Some(calibration) = measured.calibration.used() {
            counter = counter.corrected(calibration.factor);
            // A wrong figure must not keep every prompt from being sent.
            overhead = calibration.overhead.min(model.window / 2);
        }
        let (xml_reliability, reliability) = Origin::of(&workspace.settings, &model, measured);
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
