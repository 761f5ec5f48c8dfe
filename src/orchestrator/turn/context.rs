//! Shared dependencies of turns: project, ledger, agents, operations and run.

use std::fmt;

use super::run::Run;
use crate::agent::Drivers;
use crate::ops::Operations;
use crate::orchestrator::workspace::Workspace;
use crate::store::Store;

/// Shared dependencies of turns. All fields are references, so a copy with one field replaced is cheap.
#[derive(Clone, Copy)]
pub struct TurnContext<'a> {
    /// The project, its settings and its pack.
    pub workspace: &'a Workspace,
    /// Ledger in which the turns are recorded.
    pub store: &'a dyn Store,
    /// Drivers of all known agents. Recovery may need any of them, for a turn of an interrupted run.
    pub drivers: &'a Drivers,
    /// Operations that packs can use.
    pub operations: &'a Operations,
    /// The run that the turns belong to.
    pub run: &'a Run,
}

impl fmt::Debug for TurnContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnContext")
            .field("workspace", self.workspace)
            .field("run", self.run)
            .finish_non_exhaustive()
    }
}
