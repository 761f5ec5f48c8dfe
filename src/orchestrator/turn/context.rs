//! The context of turns: project, ledger, agents, operations and run.

use std::fmt;

use super::run::Run;
use crate::agent::Drivers;
use crate::ops::Operations;
use crate::orchestrator::workspace::Workspace;
use crate::store::Store;

/// The dependencies of a turn. It only borrows, so it is cheap to copy and to change in one field.
#[derive(Clone, Copy)]
pub struct TurnContext<'a> {
    /// The project, its settings and its pack.
    pub workspace: &'a Workspace,
    /// The ledger.
    pub store: &'a dyn Store,
    /// All known agents: a turn that an interrupted run left may belong to any of them.
    pub drivers: &'a Drivers,
    /// The operations that packs may name.
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
