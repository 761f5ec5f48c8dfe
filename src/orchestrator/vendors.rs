//! Orchestrators for three agents by name, each a thin wrapper around [`Orchestrator`].

use std::sync::Arc;

use super::Orchestrator;
use super::TurnContext;
use crate::agent::Driver;
use crate::error::Result;
use crate::models::{AgentName, Marker, Mode, UsageMetrics};

/// Defines the orchestrator of one agent.
macro_rules! orchestrator {
    ($(#[$doc:meta])* $name:ident, $agent:literal) => {
        $(#[$doc])*
        #[allow(missing_debug_implementations, reason = "a driver has nothing to show")]
        pub struct $name<'a> {
            context: TurnContext<'a>,
            agent: AgentName,
            driver: Arc<dyn Driver>,
        }

        impl<'a> $name<'a> {
            /// Creates the orchestrator with the agent's driver from the context.
            ///
            /// # Errors
            ///
            /// `UnknownAgent` if the context does not define the agent.
            pub fn new(context: TurnContext<'a>) -> Result<Self> {
                let agent = AgentName::new($agent)?;
                Ok(Self { context, driver: context.drivers.find($agent)?, agent })
            }

            /// Takes one turn of a change; see [`Orchestrator::run_phase`].
            ///
            /// # Errors
            ///
            /// Those of [`Orchestrator::run_phase`].
            pub fn run_phase(
                &self,
                change_id: &str,
                phase: &Mode,
                instructions: &str,
            ) -> Result<(String, Vec<Marker>, UsageMetrics)> {
                let Self { context, agent, driver } = self;
                Orchestrator { context: *context, agent, driver: driver.as_ref() }
                    .run_phase(change_id, phase, instructions)
            }
        }
    };
}

orchestrator!(
    /// Runs phases of changes with `claude`.
    ClaudeOrchestrator,
    "claude"
);
orchestrator!(
    /// Runs phases of changes with `codex`.
    CodexOrchestrator,
    "codex"
);
orchestrator!(
    /// Runs phases of changes with `gemini`.
    GeminiOrchestrator,
    "gemini"
);
