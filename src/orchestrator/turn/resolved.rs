//! A turn request with all defaults resolved.

use std::sync::Arc;

use super::calibration::measured_of;
use super::context::TurnContext;
use super::request::TurnRequest;
use crate::compose::ModelMeasurements;
use crate::error::Result;
use crate::models::{AgentName, Event, Format, Permission, PromptExpansion, SessionId, State};
use crate::orchestrator::random;
use crate::orchestrator::redacted::redacted_request;
use crate::orchestrator::workspace::Workspace;
use crate::pack::{FoundTemplate, ModeSpec, Pack};

/// A request with the agent, model, template, format and permission that the turn uses.
pub(crate) struct ResolvedTurn<'a> {
    /// The request, with secrets redacted and with the resolved agent.
    pub(crate) request: TurnRequest,
    pub(crate) spec: &'a ModeSpec,
    /// Agent of the request or of the mode; `BASE` if there is none.
    pub(crate) agent: AgentName,
    /// Template of the prompt; `None` if the pack has no layer for one.
    pub(crate) template: Option<Arc<FoundTemplate>>,
    /// Id of the model; `None` if neither the request nor the settings name one.
    pub(crate) model: Option<String>,
    /// Format of the prompt; `None` for the format of the pack.
    pub(crate) format: Option<Format>,
    /// True if the agent has its own tools to read and edit files, or if no agent is known.
    pub(crate) has_tools: bool,
    /// Permission of the mode, even if the agent has no tools to use it.
    pub(crate) permission: Permission,
    /// Syntax in prompts that the agent would expand or execute.
    pub(crate) expands: Vec<PromptExpansion>,
}

impl<'a> ResolvedTurn<'a> {
    /// Resolves the defaults of a request.
    ///
    /// # Errors
    ///
    /// `TemplateNotFound` if there is no template for the mode, which includes modes that the pack does not have;
    /// `UnknownMode` if the pack needs no template and does not have the mode; `ConfigInvalid` for invalid settings.
    pub(crate) fn new(workspace: &'a Workspace, request: &TurnRequest) -> Result<Self> {
        let found_agent = workspace.agent(request)?;
        let agent = found_agent.clone().unwrap_or_else(AgentName::base);
        // The template is looked up before the mode, so that an unknown mode is reported as a missing template.
        let template = workspace.template(&agent, &request.mode)?;
        let spec = workspace.pack.mode(&request.mode)?;

        let with_agent = TurnRequest {
            agent: found_agent,
            ..redacted_request(request, &workspace.secrets)
        };
        Ok(Self {
            spec,
            template,
            model: workspace.model(&with_agent)?,
            format: workspace.format(&with_agent)?,
            has_tools: workspace.has_tools(&with_agent)?,
            permission: workspace.permission(&request.mode, spec),
            expands: workspace.expands(&agent)?,
            request: with_agent,
            agent,
        })
    }

    /// Returns an error if the mode names an operation that is not registered.
    pub(crate) fn check_operations(&self, context: &TurnContext<'_>) -> Result<()> {
        let spec = self.spec;
        let actions = context.workspace.pack.uses.values();
        let action_operations = actions
            .filter(|action| action.modes.contains(&self.request.mode))
            .filter_map(|action| action.operation.as_ref());
        let after = spec.after.iter().chain(&spec.finish);
        context
            .operations
            .check_names(&spec.before, after, action_operations)
    }

    /// Returns the session of the turn. If the request names none, a new session with a random name is returned.
    pub(crate) fn session(&self) -> Result<SessionId> {
        match &self.request.session {
            Some(session) => Ok(session.clone()),
            None => SessionId::new(format!("turn-{}", random::random_name()?)),
        }
    }

    /// Returns the measurements of the agent and its model.
    pub(crate) fn measured(&self, context: &TurnContext<'_>) -> Result<ModelMeasurements> {
        let agent = self.request.agent.as_ref();
        measured_of(
            context.workspace,
            context.store,
            agent,
            self.model.as_deref(),
        )
    }

    /// Returns the message that later prompts of the session show, if the pack has a layer for them.
    pub(crate) fn message(&self, pack: &Pack) -> Option<String> {
        pack.is_chat().then(|| self.request.instructions.clone())
    }

    /// Returns the body of the template, if there is one.
    pub(crate) fn template_text(&self) -> Option<&str> {
        self.template
            .as_ref()
            .map(|found| found.template.text.body())
    }
}

/// Returns the events that are recorded before the turn of a request: entering the mode of the request, if the session
/// is not in it, and the new state document, if the request has one.
pub(crate) fn opening_events(state: &State, request: &TurnRequest) -> Vec<Event> {
    let mut events = Vec::new();
    if state.mode.as_ref() != Some(&request.mode) || state.ended.is_some() {
        events.push(Event::Entered {
            mode: request.mode.clone(),
        });
    }
    if let Some(work) = &request.work {
        events.push(Event::Described {
            work: Box::new(work.clone()),
        });
    }
    events
}
