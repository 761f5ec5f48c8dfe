//! The registry of operations: packs call an operation by its name.

use std::collections::HashMap;
use std::fmt;

use super::{Act, Inspect, Operation, Site, Step, TurnEnd, operations};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Effect, OperationId, StepResult, TurnStart};

/// The operations that packs may name.
///
/// A program can add its own operations to the shipped ones:
///
/// ```
/// use agentd::ops::{Act, Operation, Operations, Site, Step};
/// use agentd::Result;
/// use agentd::models::{OperationId, StepResult};
///
/// /// Prints the content of a request.
/// struct Print(OperationId);
///
/// impl Operation for Print {
///     fn id(&self) -> OperationId {
///         self.0.clone()
///     }
/// }
///
/// impl Act for Print {
///     fn run(&self, _site: &Site<'_>, step: &Step) -> Result<StepResult> {
///         println!("{}", step.content.as_deref().unwrap_or_default());
///         Ok(step.done("printed"))
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let mut operations = Operations::shipped();
/// operations.register_act(Print(OperationId::new("text.print")?))?;
/// assert!(operations.find_act("text.print").is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Operations {
    /// Operations that run before a turn.
    inspecting: Vec<Box<dyn Inspect + Send + Sync>>,
    /// Operations that run after a turn or on request.
    acting: Vec<Box<dyn Act + Send + Sync>>,
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
        Self {
            inspecting: vec![
                Box::new(operations::ChangeRequire),
                Box::new(operations::ChecksRun),
                Box::new(operations::ChecksShow),
                Box::new(operations::FindingsShow),
                Box::new(operations::GitDiff),
                Box::new(operations::ReviewRequire),
                Box::new(operations::SpecsMerge),
                Box::new(operations::SpecsShow),
            ],
            acting: vec![
                Box::new(operations::ArtifactStatusSet),
                Box::new(operations::ArtifactWrite),
                Box::new(operations::ChangeArchive),
                Box::new(operations::ChecksAgain),
                Box::new(operations::ChecksRun),
                Box::new(operations::FilesEdit),
                Box::new(operations::FilesWrite),
                Box::new(operations::FindingsNote),
                Box::new(operations::GitCommit),
                Box::new(operations::GitMerge { squash: false }),
                Box::new(operations::GitMerge { squash: true }),
                Box::new(operations::KnowledgeSave),
                Box::new(operations::SpecsMerge),
                Box::new(operations::StateOperation::Add),
                Box::new(operations::StateOperation::Remove),
                Box::new(operations::StateOperation::Set),
                Box::new(operations::TasksTick),
            ],
        }
    }

    /// Adds an operation that modes may name under `before`.
    ///
    /// # Errors
    ///
    /// `NameInvalid` if an inspecting operation of this name is already registered.
    pub fn register_inspect(
        &mut self,
        operation: impl Inspect + Send + Sync + 'static,
    ) -> Result<()> {
        let id = operation.id();
        if self.find_inspect(id.as_str()).is_ok() {
            return Err(already_registered(&id));
        }

        self.inspecting.push(Box::new(operation));
        Ok(())
    }

    /// Adds an operation that modes may name under `after` and `finish`. Actions may name it, too, if it
    /// [can be requested](Act::can_be_requested).
    ///
    /// # Errors
    ///
    /// `NameInvalid` if an acting operation of this name is already registered.
    pub fn register_act(&mut self, operation: impl Act + Send + Sync + 'static) -> Result<()> {
        let id = operation.id();
        if self.find_act(id.as_str()).is_ok() {
            return Err(already_registered(&id));
        }

        self.acting.push(Box::new(operation));
        Ok(())
    }

    /// Returns the names of the operations that a mode may name under `before`, sorted.
    #[must_use]
    pub fn inspecting_ids(&self) -> Vec<OperationId> {
        let mut ids: Vec<OperationId> = self
            .inspecting
            .iter()
            .map(|operation| operation.id())
            .collect();
        ids.sort();
        ids
    }

    /// Returns the names of the operations that a mode may name under `after` and `finish`, sorted.
    #[must_use]
    pub fn acting_ids(&self) -> Vec<OperationId> {
        let mut ids: Vec<OperationId> =
            self.acting.iter().map(|operation| operation.id()).collect();
        ids.sort();
        ids
    }

    /// Returns the operation that a mode names under `before`.
    ///
    /// # Errors
    ///
    /// `UnknownOperation` if it is not registered, or only acts; the hint lists the inspecting operations.
    pub fn find_inspect(&self, name: &str) -> Result<&dyn Inspect> {
        let operation = self
            .inspecting
            .iter()
            .find(|operation| operation.id().as_str() == name);
        if let Some(operation) = operation {
            return Ok(operation.as_ref());
        }

        let message = if self.is_registered(name) {
            format!("operation `{name}` cannot run before a turn")
        } else {
            format!("unknown operation `{name}`")
        };
        let hint = format!("`before` allows {}", join(&self.inspecting_ids()));
        Err(Error::new(ErrorKind::UnknownOperation, message).with_hint(hint))
    }

    /// Returns the operation that a mode names under `after` or `finish`.
    ///
    /// # Errors
    ///
    /// `UnknownOperation` if it is not registered, or only inspects; the hint lists the acting operations.
    pub fn find_act(&self, name: &str) -> Result<&dyn Act> {
        let operation = self
            .acting
            .iter()
            .find(|operation| operation.id().as_str() == name);
        if let Some(operation) = operation {
            return Ok(operation.as_ref());
        }

        let message = if self.is_registered(name) {
            format!("operation `{name}` can only run before a turn")
        } else {
            format!("unknown operation `{name}`")
        };
        let hint = format!("`after` and `finish` allow {}", join(&self.acting_ids()));
        Err(Error::new(ErrorKind::UnknownOperation, message).with_hint(hint))
    }

    /// Returns the operation that an action of a pack uses.
    ///
    /// # Errors
    ///
    /// `UnknownOperation` if the operation is not registered, or if actions cannot request it; the hint lists the operations
    /// that actions can request.
    pub fn find_requested(&self, name: &str) -> Result<&dyn Act> {
        let can_be_requested = |operation: &OperationId| {
            self.find_act(operation.as_str())
                .is_ok_and(Act::can_be_requested)
        };
        let message = match self.find_act(name) {
            Ok(operation) if operation.can_be_requested() => return Ok(operation),
            Ok(_) => format!("actions cannot use the operation `{name}`"),
            Err(error) => error.message().to_owned(),
        };

        let mut ids = self.acting_ids();
        ids.retain(can_be_requested);
        let hint = format!("actions can use {}", join(&ids));
        Err(Error::new(ErrorKind::UnknownOperation, message).with_hint(hint))
    }

    /// Returns true if there is an operation of this name, of either kind.
    #[must_use]
    pub fn is_registered(&self, name: &str) -> bool {
        self.with_name(name).next().is_some()
    }

    /// Checks the names of a mode's operations: those under `before`, those under `after` and `finish`, and those of
    /// its actions.
    ///
    /// # Errors
    ///
    /// `UnknownOperation` for the first operation that is not registered or of the wrong kind.
    pub fn check_names<'n>(
        &self,
        before: impl IntoIterator<Item = &'n OperationId>,
        after: impl IntoIterator<Item = &'n OperationId>,
        actions: impl IntoIterator<Item = &'n OperationId>,
    ) -> Result<()> {
        for id in before {
            self.find_inspect(id.as_str())?;
        }
        for id in after {
            self.find_act(id.as_str())?;
        }
        for id in actions {
            self.find_requested(id.as_str())?;
        }
        Ok(())
    }

    /// Returns those of `names` that need a session opened as a change.
    ///
    /// # Errors
    ///
    /// `UnknownOperation` if a name is not registered.
    pub fn needing_change<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<Vec<&'n str>> {
        let mut needing = Vec::new();
        for name in names {
            if !self.is_registered(name) {
                let message = format!("unknown operation `{name}`");
                return Err(Error::new(ErrorKind::UnknownOperation, message));
            }
            if self.with_name(name).any(Operation::needs_change) {
                needing.push(name);
            }
        }
        Ok(needing)
    }

    /// Plans the step that an operation runs after every turn; `None` if it has nothing to do, or runs only on
    /// request.
    ///
    /// # Errors
    ///
    /// `UnknownOperation` if there is no acting operation of this name.
    pub fn plan_always(
        &self,
        name: &str,
        site: &Site<'_>,
        end: &TurnEnd<'_>,
    ) -> Result<Option<Step>> {
        Ok(self.find_act(name)?.plan_always(site, end))
    }

    /// Plans the steps for the effects that a reply requests.
    ///
    /// Each step is planned against the content that its target had when the prompt was created, or against the current
    /// content if that is unknown. A later effect on the same target is planned against the result of the earlier one.
    ///
    /// # Errors
    ///
    /// `UnknownOperation` for an effect of an operation that actions cannot request.
    pub fn plan_effects(
        &self,
        site: &Site<'_>,
        effects: Vec<Effect>,
        started: &TurnStart,
    ) -> Result<Vec<Step>> {
        let mut steps: Vec<Step> = Vec::new();
        let mut last: HashMap<(OperationId, String), usize> = HashMap::new();

        for effect in effects {
            let key = (effect.operation.clone(), effect.target.clone());
            let earlier = last.get(&key).map(|&index| &steps[index]);
            let operation = self.find_requested(effect.operation.as_str())?;
            let step = operation.plan_effect(site, effect, started, earlier);

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
    /// `UnknownOperation` if there is no such acting operation; errors of [`Act::run`].
    pub fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult> {
        let operation = self.find_act(step.operation.as_str())?;
        let Some(reason) = &step.refused else {
            return operation.run(site, step);
        };

        let target = &step.target;
        let detail = match &step.operation {
            OperationId::FilesEdit | OperationId::FilesWrite => {
                format!("cannot write {target}: {reason}")
            }
            other => format!("cannot run `{other}` for {target}: {reason}"),
        };
        Ok(step.not_done(detail))
    }

    /// Returns the operations with a name: at most one that inspects and one that acts.
    fn with_name<'o>(&'o self, name: &'o str) -> impl Iterator<Item = &'o dyn Operation> {
        let inspecting = self
            .inspecting
            .iter()
            .map(|operation| operation.as_ref() as &dyn Operation);
        let acting = self
            .acting
            .iter()
            .map(|operation| operation.as_ref() as &dyn Operation);
        inspecting
            .chain(acting)
            .filter(move |operation| operation.id().as_str() == name)
    }
}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations")
            .field("inspecting", &self.inspecting_ids())
            .field("acting", &self.acting_ids())
            .finish()
    }
}

fn already_registered(id: &OperationId) -> Error {
    let message = format!("operation `{id}` is already registered");
    Error::new(ErrorKind::NameInvalid, message).with_hint("register it under another name")
}

fn join(ids: &[OperationId]) -> String {
    let names: Vec<&str> = ids.iter().map(OperationId::as_str).collect();
    names.join(", ")
}
