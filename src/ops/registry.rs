//! The registry of operations: a pack calls one by its name.

use std::collections::HashMap;
use std::fmt;

use super::{
    Operation, Site, Step, archive, change, edit, evidence, files, findings, spec_merge, tasks,
};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Effect, OperationId, Started, StepResult};

/// The operations that packs may name.
///
/// ```
/// let operations = agentd::ops::Operations::shipped();
/// assert!(operations.find("checks.run").is_ok());
/// ```
#[derive(Default)]
pub struct Operations {
    registered: Vec<Box<dyn Operation + Send + Sync>>,
}

impl Operations {
    /// Returns a registry without any operation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a registry of the operations that are part of agentd.
    #[must_use]
    pub fn shipped() -> Self {
        let shipped: [Box<dyn Operation + Send + Sync>; 17] = [
            Box::new(change::Require),
            Box::new(files::Write),
            Box::new(edit::Edit),
            Box::new(evidence::Checks),
            Box::new(evidence::ChecksAgain),
            Box::new(evidence::ShowChecks),
            Box::new(evidence::ShowDiff),
            Box::new(evidence::ReviewRequire),
            Box::new(spec_merge::Show),
            Box::new(spec_merge::Merge),
            Box::new(tasks::Tick),
            Box::new(archive::Archive),
            Box::new(archive::Commit),
            Box::new(archive::Merge { squash: false }),
            Box::new(archive::Merge { squash: true }),
            Box::new(findings::Note),
            Box::new(findings::Show),
        ];

        let mut operations = Self::new();
        for operation in shipped {
            let name = operation.id();
            let registered = operations.register_boxed(operation);
            debug_assert!(registered.is_ok(), "{name} is registered twice");
        }
        operations
    }

    /// Adds an operation.
    ///
    /// # Errors
    ///
    /// `NameInvalid` if an operation of this name is registered already.
    pub fn register(&mut self, operation: impl Operation + Send + Sync + 'static) -> Result<()> {
        self.register_boxed(Box::new(operation))
    }

    fn register_boxed(&mut self, operation: Box<dyn Operation + Send + Sync>) -> Result<()> {
        let name = operation.id();
        if self.ids().any(|known| known == name) {
            let message = format!("an operation `{name}` is already registered");
            return Err(Error::new(ErrorKind::NameInvalid, message)
                .with_hint("register it under another name"));
        }
        self.registered.push(operation);
        Ok(())
    }

    /// Returns the names of all operations, in the order in which they were registered.
    pub fn ids(&self) -> impl Iterator<Item = OperationId> {
        self.registered.iter().map(|operation| operation.id())
    }

    /// Returns the operation with a name.
    ///
    /// # Errors
    ///
    /// `UnknownOperation` with a hint that lists the registered ones.
    pub fn find(&self, name: &str) -> Result<&dyn Operation> {
        let found = self
            .registered
            .iter()
            .find(|operation| operation.id().as_str() == name);
        match found {
            Some(operation) => Ok(operation.as_ref()),
            None => {
                let known: Vec<String> = self.ids().map(|id| id.to_string()).collect();
                let message = format!("there is no operation `{name}`");
                Err(Error::new(ErrorKind::UnknownOperation, message)
                    .with_hint(format!("there are {}", known.join(", "))))
            }
        }
    }

    /// Returns those of some operations that need a session which was opened as a change.
    ///
    /// # Errors
    ///
    /// `UnknownOperation`.
    pub fn needing_change<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<Vec<&'n str>> {
        let mut needing = Vec::new();
        for name in names {
            if self.find(name)?.needs_change() {
                needing.push(name);
            }
        }
        Ok(needing)
    }

    /// Plans the effects of a reply. Each is planned on what its target held when the prompt was made, if that is
    /// known, or on what it holds now; a later effect on the same target is planned on the result of the earlier one.
    ///
    /// # Errors
    ///
    /// `UnknownOperation`.
    pub fn plan(
        &self,
        site: &Site<'_>,
        effects: Vec<Effect>,
        started: &Started,
    ) -> Result<Vec<Step>> {
        let mut steps: Vec<Step> = Vec::new();
        let mut last: HashMap<(OperationId, String), usize> = HashMap::new();
        for effect in effects {
            let key = (effect.operation.clone(), effect.target.clone());
            let earlier = last.get(&key).map(|&index| &steps[index]);
            let operation = self.find(effect.operation.as_str())?;
            let step = operation.plan(site, effect, started, earlier);

            if step.refused.is_none() {
                last.insert(key, steps.len());
            }
            steps.push(step);
        }
        Ok(steps)
    }

    /// Runs a step, unless it was refused when it was planned.
    ///
    /// # Errors
    ///
    /// `UnknownOperation`, and whatever prevents the turn from continuing.
    pub fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        let operation = self.find(step.operation.as_str())?;
        match &step.refused {
            Some(reason) => {
                let detail = format!("cannot write {}: {reason}", step.target);
                Ok(step.settled(false, detail))
            }
            None => operation.carry_out(site, step),
        }
    }
}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}
