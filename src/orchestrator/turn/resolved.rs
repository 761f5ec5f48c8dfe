//! A turn request with everything that it leaves open decided, once.

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
use crate::pack::{FoundTemplate, ModeSpec};

/// A request, and the agent, model, template, rendering and permission that it is taken with.
pub(crate) struct ResolvedTurn<'a> {
    /// The request without secrets.
    pub(crate) request: TurnRequest,
    pub(crate) spec: &'a ModeSpec,
    /// The agent of the request or of the mode; BASE if there is none.
    pub(crate) agent: AgentName,
    /// `None` if the pack has no layer for a template.
    pub(crate) template: Option<Arc<FoundTemplate>>,
    /// Id of the model; `None` if nothing names one.
    pub(crate) model: Option<String>,
    /// `None` for the rendering of the pack.
    pub(crate) format: Option<Format>,
    /// Set if the agent has tools to read and edit files.
    pub(crate) has_tools: bool,
    /// The permission of the mode, whether or not the agent has tools to use it.
    pub(crate) permission: Permission,
    /// Characters of a prompt that the agent would expand.
    pub(crate) expands: Vec<PromptExpansion>,
}

impl<'a> ResolvedTurn<'a> {
    /// Resolves a request.
    ///
    /// # Errors
    ///
    /// `TemplateNotFound` also for a mode that the pack does not have, `UnknownMode`, `ConfigInvalid`.
    pub(crate) fn new(workspace: &'a Workspace, request: &TurnRequest) -> Result<Self> {
        let named = workspace.agent(request)?;
        let agent = named.clone().unwrap_or_else(AgentName::base);
        // An unknown mode is reported as a missing template, as it is for a prompt.
        let template = workspace.template(&agent, &request.mode)?;
        let spec = workspace.pack.mode(&request.mode)?;

        let with_agent = TurnRequest {
            agent: named,
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

    /// Refuses a turn in a mode that names an operation which is not registered.
    pub(crate) fn check_operations(&self, context: &TurnContext<'_>) -> Result<()> {
        let spec = self.spec;
        let actions = context.workspace.pack.uses.values();
        let of_actions = actions
            .filter(|action| action.modes.contains(&self.request.mode))
            .filter_map(|action| action.operation.as_ref());
        let after = spec.after.iter().chain(&spec.finish);
        context
            .operations
            .check_names(&spec.before, after, of_actions)
    }

    /// Returns the session of the turn; one that is not named gets a new one.
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

    /// Returns the text of the template, if there is one.
    pub(crate) fn template_text(&self) -> Option<&str> {
        self.template
            .as_ref()
            .map(|found| found.template.text.body())
    }

    /// Returns the events that are recorded before the turn itself.
    pub(crate) fn opening_events(&self, state: &State) -> Vec<Event> {
        opening_events(state, &self.request)
    }
}

/// Returns the events that are recorded before the turn of a request: that its mode is entered, and its description.
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
