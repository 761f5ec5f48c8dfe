//! The orchestrators of three agents by name: thin types over one driver each.

use super::{Desk, Orchestrator};
use crate::agent::Driver;
use crate::error::Result;
use crate::models::{AgentName, Marker, Mode, UsageMetrics};

/// Declares the orchestrator of an agent.
macro_rules! orchestrator {
    ($(#[$doc:meta])* $name:ident, $agent:literal) => {
        $(#[$doc])*
        #[allow(missing_debug_implementations, reason = "a driver has nothing to show")]
        pub struct $name<'a> {
            desk: Desk<'a>,
            agent: AgentName,
            driver: Box<dyn Driver>,
        }

        impl<'a> $name<'a> {
            /// Finds the agent's driver among those of a desk.
            ///
            /// # Errors
            ///
            /// `UnknownAgent` if the definitions of the desk lack it.
            pub fn new(desk: Desk<'a>) -> Result<Self> {
                let agent = AgentName::new($agent)?;
                Ok(Self { desk, driver: desk.drivers.find($agent)?, agent })
            }

            /// Takes one turn of a change, as [`Orchestrator::run_phase`] does.
            ///
            /// # Errors
            ///
            /// Whatever keeps the turn from being taken, how the agent failed, or what its reply lacks.
            pub fn run_phase(
                &self,
                change_id: &str,
                phase: &Mode,
                instructions: &str,
            ) -> Result<(String, Vec<Marker>, UsageMetrics)> {
                let Self { desk, agent, driver } = self;
                Orchestrator { desk: *desk, agent, driver: driver.as_ref() }
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
