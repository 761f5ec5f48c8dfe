//! Assembles the prompt of a turn: template, variables, context, layers, fit, render.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use super::turn::request::TurnRequest;
use super::turn::resolved::ResolvedTurn;
use super::workspace::{PromptContext, Workspace, gather, gather_session_documents};
use crate::compose::{
    self, Counter, Draft, FitReport, MissingVariable, ModelMeasurements, PromptRequest,
    TURN_VARIABLES, Variables,
};
use crate::config::Settings;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, Mode, ModelSpec, NoncePolicy, Reliability, State};
use crate::pack::{FoundTemplate, LayerContent, ModeSpec, Pack, ProseOwner};

/// Source of a model's reliability rating, which says how well it follows the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Estimate in the catalogue.
    Guessed,
    /// Value in the settings.
    Set,
    /// Measured by probes.
    Measured,
}

impl Origin {
    /// Returns the reliability of a model and its source. The settings take precedence over measurements, and
    /// measurements over the catalogue.
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

/// A composed prompt, and the inputs that it was composed from.
#[derive(Debug)]
pub struct Assembly {
    /// The prompt and its fit report.
    pub draft: Draft,
    /// Agent whose template was looked up.
    pub agent: AgentName,
    /// Model that the prompt is fitted to; `None` if neither the request nor the settings have one.
    pub model: Option<ModelSpec>,
    /// Measurements of the agent and the model.
    pub measured: ModelMeasurements,
    /// Source of the model's reliability.
    pub reliability: Origin,
    /// Template of the prompt, and the paths that were searched for it; `None` if the pack has no layer for a
    /// template.
    pub template: Option<Arc<FoundTemplate>>,
    /// Name and source of each template variable that has a value.
    pub sources: Vec<(String, String)>,
    /// Numbers of the change's tasks; `None` without a task list.
    pub tasks: Option<Vec<String>>,
    /// Files of the project that replace built-in ones.
    pub overrides: Vec<String>,
    /// Warnings about content that the prompt lacks. They have also been logged.
    pub warnings: Vec<String>,
}

/// Gathers the context for the prompt of a request: `project.md`, the project's tree, the artifacts and tasks of the
/// change, and the files of the request. Variables that the template does not use are not computed.
///
/// # Errors
///
/// `TemplateNotFound` if there is no template for the mode, `ChangeNotFound` if there is no such change, `FileUnusable`
/// if a file cannot be read.
pub fn assemble_context(workspace: &Workspace, request: &TurnRequest) -> Result<PromptContext> {
    gather_context(workspace, &ResolvedTurn::new(workspace, request)?)
}

/// Assembles a prompt: template, variables, context, layers, fit, render.
///
/// # Errors
///
/// `TemplateNotFound` if there is no template for the mode, which includes modes that the pack does not have. Also
/// fails if a file cannot be read, a variable is unknown or missing, or the prompt does not fit the model.
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
    let turn_request = &turn.request;
    let mut context = gather_context(workspace, turn)?;
    let mode = &turn_request.mode;
    let session_documents =
        gather_session_documents(workspace, mode, &state.document, &context.items);
    context.items.extend(session_documents.items);

    let target = PromptTarget::new(workspace, turn)?;
    check_variables(pack, turn.template.as_deref(), &turn_request.variables)?;
    if turn_request.work.is_some()
        && !pack.has_layer(LayerContent::State)
        && !pack.has_layer(LayerContent::History)
    {
        let name = &pack.name;
        log::warn!("the prompt omits the state file: pack `{name}` has no layer for it");
    }

    let is_strict = turn_request.strict || workspace.settings.strict;
    let has_nonce = workspace.settings.verdict_nonce != NoncePolicy::Off;
    // Facts can appear in the prompt, so they are taken from the redacted variables.
    let fact = |name: &String| Some((name.clone(), context.variables.get(name)?.clone()));
    let request = PromptRequest {
        template: turn.template.clone(),
        facts: turn_request.variables.keys().filter_map(fact).collect(),
        variables: context.variables,
        pack_texts: context.pack_texts,
        missing: if is_strict {
            MissingVariable::Error
        } else {
            MissingVariable::Notice
        },
        context: context.items,
        project: context.project,
        instructions: Some(
            workspace
                .secrets
                .redact(&turn_request.instructions)
                .into_owned(),
        ),
        nonce: turn_request.nonce.clone().filter(|_| has_nonce),
        format: turn.format,
        max_bytes: workspace.settings.max_prompt_bytes,
        agent: Some(turn.agent.clone()),
        has_tools: turn.has_tools,
        model: target.model.clone(),
        counter: target.counter.map(Arc::new),
        overhead: target.overhead,
        previous: state.first_turn,
        expands: turn.expands.clone(),
        count: turn_request.count,
        ..PromptRequest::default()
    };
    let draft = compose::compose(pack, state, &request)?;
    log_size(&turn_request.mode, &draft.fit_report);
    let mut warnings = session_documents.warnings;
    warnings.extend(missing_history_warning(pack, &draft));

    let mut sources = context.sources;
    for (name, source) in TURN_VARIABLES.iter().zip(["this turn", "the mode"]) {
        sources.push(((*name).to_owned(), source.to_owned()));
    }
    Ok(Assembly {
        draft,
        agent: turn.agent.clone(),
        model: target.model,
        measured: turn_request.measured,
        reliability: target.reliability,
        template: turn.template.clone(),
        sources,
        tasks: context.tasks,
        overrides: overrides(pack, turn.template.as_deref(), turn.spec),
        warnings,
    })
}

/// Logs the size of a prompt and of its layers.
fn log_size(mode: &Mode, fit: &FitReport) {
    let size = |bytes: usize, tokens: Option<u64>| match tokens {
        Some(tokens) => format!("{bytes} bytes, {tokens} tokens"),
        None => format!("{bytes} bytes"),
    };
    let total = size(fit.bytes, fit.tokens);
    log::debug!("prompt for {mode}: {} tier, {total}", fit.tier.name());
    for block in &fit.blocks {
        log::debug!("  {}: {}", block.block, size(block.bytes, block.tokens));
    }
}

/// Returns a warning if the session has earlier turns and none of them fits into the prompt.
fn missing_history_warning(pack: &Pack, draft: &Draft) -> Option<String> {
    let layers = pack.layers.iter();
    let mut history = layers.filter(|layer| layer.holds == LayerContent::History);
    let history = history.next()?;
    let blocks = &draft.fit_report.blocks;
    let block = blocks.iter().find(|block| block.block == history.id)?;
    let tier = draft.fit_report.tier;
    let shows_turns = history.items.is_none_or(|items| items.at(tier) > 0);
    if block.kept > 0 || block.of == 0 || !shows_turns {
        return None;
    }

    let noun = if block.of == 1 { "turn" } else { "turns" };
    let why = block.why.as_deref().unwrap_or("no room");
    let warning = format!(
        "the prompt shows no earlier turn: {} {noun} left out ({why})",
        block.of
    );
    log::warn!("{warning}");
    Some(warning)
}

fn gather_context(workspace: &Workspace, turn: &ResolvedTurn<'_>) -> Result<PromptContext> {
    let template = turn.template.as_deref().map(|found| &found.template);
    gather(workspace, &turn.request, turn.spec, template)
}

/// Model that a prompt is fitted to, and the counter for its tokens.
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
            // Capped, so that a wrong measurement leaves room for the prompt.
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

/// Checks that the pack declares or uses every variable of the caller, and that none of them is in [`TURN_VARIABLES`].
fn check_variables(
    pack: &Pack,
    template: Option<&FoundTemplate>,
    supplied: &Variables,
) -> Result<()> {
    let mut turn_variables = TURN_VARIABLES.iter();
    if let Some(name) = turn_variables.find(|name| supplied.contains_key(**name)) {
        let message = format!("cannot set `{name}`: agentd sets it in every turn");
        return Err(Error::new(ErrorKind::NameInvalid, message));
    }

    let texts = pack
        .texts
        .values()
        .chain(template.map(|found| &found.template.text));
    let used = texts.flat_map(|text| text.variables.iter().map(|variable| &variable.name));
    let known: BTreeSet<&String> = pack.variables.iter().chain(used).collect();
    let Some(unknown) = supplied.keys().find(|name| !known.contains(name)) else {
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

/// Returns the paths of the pack, template, skeleton and text files that come from the project.
fn overrides(pack: &Pack, template: Option<&FoundTemplate>, spec: &ModeSpec) -> Vec<String> {
    let mut files = vec![(pack.owner, &pack.origin)];
    if let Some(found) = template {
        let text = &found.template.text;
        files.push((text.owner, &text.origin));
    }
    for skeleton in pack.skeletons_of(spec) {
        files.push((skeleton.owner, &skeleton.origin));
    }
    // If the whole pack comes from the project, its texts are not listed individually.
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
