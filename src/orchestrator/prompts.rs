//! Assembles the prompt of a turn: template, variables, context, layers, fit, render.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::turn::request::TurnRequest;
use super::turn::resolved::ResolvedTurn;
use super::workspace::{PromptContext, Workspace, gather};
use crate::compose::{
    self, Counter, Draft, MissingVariable, ModelMeasurements, PromptRequest, TURN_VARIABLES,
    Variables,
};
use crate::config::Settings;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, ModelSpec, NoncePolicy, Reliability, State};
use crate::pack::{FoundTemplate, LayerContent, ModeSpec, Pack, ProseOwner};

/// Source of a model's reliability: its ability to follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Guess of the catalogue.
    Guessed,
    /// Value in the settings.
    Set,
    /// Measured by probes.
    Measured,
}

impl Origin {
    /// Returns the reliability of a model, and its source: the settings, then the measurements, then the catalogue.
    #[must_use]
    pub fn resolve(
        settings: &Settings,
        model: &ModelSpec,
        measured: &ModelMeasurements,
    ) -> (Reliability, Self) {
        if settings.models.iter().any(|set| set.id == model.id) {
            return (model.xml_reliability, Self::Set);
        }
        match measured.reliability() {
            Some(reliability) => (reliability, Self::Measured),
            None => (model.xml_reliability, Self::Guessed),
        }
    }
}

/// A composed prompt, and the inputs it was made from.
#[derive(Debug)]
pub struct Assembly {
    /// The prompt and its fit report.
    pub draft: Draft,
    /// Agent whose template was looked up.
    pub agent: AgentName,
    /// Model that the prompt is written for; `None` if none was named.
    pub model: Option<ModelSpec>,
    /// Measurements of the agent and the model.
    pub measured: ModelMeasurements,
    /// Source of the model's reliability.
    pub reliability: Origin,
    /// Template in use, and the places that were searched; `None` if the pack has no layer for a template.
    pub template: Option<Arc<FoundTemplate>>,
    /// Name and source of each variable that has a value.
    pub sources: Vec<(String, String)>,
    /// Numbers of the change's tasks; `None` without a task list.
    pub tasks: Option<Vec<String>>,
    /// Files of the project that replace shipped ones.
    pub overrides: Vec<String>,
}

/// Gathers the context of a request's prompt: project.md, the project's tree, the artifacts and tasks of the change, and
/// the files of the request. Variables that the template does not use are not computed.
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
/// `TemplateNotFound`, also for a mode that the pack does not have, and anything that prevents a complete prompt.
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
        log::warn!("pack `{name}` has no layer for the state file");
    }

    let is_strict = asked.strict || workspace.settings.strict;
    let has_nonce = workspace.settings.verdict_nonce != NoncePolicy::Off;
    // A fact may be shown in the prompt as well, so it is the value without secrets.
    let fact = |name: &String| Some((name.clone(), context.variables.get(name)?.clone()));
    let request = PromptRequest {
        template: turn.template.clone(),
        facts: asked.variables.keys().filter_map(fact).collect(),
        variables: context.variables,
        pack_texts: context.pack_texts,
        missing: if is_strict {
            MissingVariable::Error
        } else {
            MissingVariable::Notice
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
        ..PromptRequest::default()
    };
    let draft = compose::compose(pack, state, &request)?;

    let mut sources = context.sources;
    for (name, source) in TURN_VARIABLES.iter().zip(["this turn", "the mode"]) {
        sources.push(((*name).to_owned(), source.to_owned()));
    }
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
            // A wrong measurement must not leave every prompt without room.
            overhead = calibration.overhead.min(model.window / 2);
        }

        let (xml_reliability, reliability) = Origin::resolve(&workspace.settings, &model, measured);
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

/// Checks that the pack or one of its texts knows every variable that the caller sets, and that the caller sets none of
/// [`TURN_VARIABLES`].
fn check_variables(pack: &Pack, template: Option<&FoundTemplate>, given: &Variables) -> Result<()> {
    let mut turn_variables = TURN_VARIABLES.iter();
    if let Some(name) = turn_variables.find(|name| given.contains_key(**name)) {
        let message = format!("cannot set `{name}`: agentd sets it in every turn");
        return Err(Error::new(ErrorKind::NameInvalid, message));
    }

    let texts = pack
        .texts
        .values()
        .chain(template.map(|found| &found.template.text));
    let used = texts.flat_map(|text| text.variables.iter().map(|variable| &variable.name));
    let known: BTreeSet<&String> = pack.variables.iter().chain(used).collect();
    let Some(unknown) = given.keys().find(|name| !known.contains(name)) else {
        return Ok(());
    };

    let known: Vec<&str> = known.into_iter().map(String::as_str).collect();
    let list = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    let message = format!("pack `{}` has no variable `{unknown}`", pack.name);
    Err(Error::new(ErrorKind::NameInvalid, message).with_hint(format!("known variables: {list}")))
}

/// Returns the origins of the project's own files among the pack, the template, the skeletons and the texts.
fn overrides(pack: &Pack, template: Option<&FoundTemplate>, spec: &ModeSpec) -> Vec<String> {
    let mut files = vec![(pack.owner, &pack.origin)];
    if let Some(found) = template {
        let text = &found.template.text;
        files.push((text.owner, &text.origin));
    }
    for skeleton in pack.skeletons_of(spec) {
        files.push((skeleton.owner, &skeleton.origin));
    }
    // If the whole pack is the project's, its texts are not listed one by one.
    if pack.owner != ProseOwner::Project {
        for text in pack.texts.values() {
            files.push((text.owner, &text.origin));
        }
    }

    files
        .into_iter()
        .filter(|(owner, _)| *owner == ProseOwner::Project)
        .map(|(_, origin)| origin.clone())
        .collect()
}
