//! The two kinds of operation: one inspects before a turn, the other acts after it.

use super::{Site, Step};
use crate::error::Result;
use crate::models::{
    ContextItem, Effect, Finding, Marker, OperationId, ReviewResult, StepResult, TurnStart,
};

/// An operation that packs call by its name. It also implements [`Inspect`], [`Act`] or both.
pub trait Operation {
    /// Returns the name by which packs call it.
    fn id(&self) -> OperationId;

    /// Returns true if it works only in a session that was opened as a change.
    ///
    /// Without a change, such an operation refuses the turn in [`Inspect::inspect`], and plans no step in
    /// [`Act::plan_always`]; the user is warned that it is left out.
    fn needs_change(&self) -> bool {
        false
    }
}

/// An operation that a mode names under `before`: it looks at something, and may refuse the turn.
pub trait Inspect: Operation {
    /// Inspects the site before a turn.
    ///
    /// # Errors
    ///
    /// The reason why the turn is refused.
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection>;

    /// Returns the part of the inspection that needs neither running nor writing anything, for `agentd prompt`.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be determined.
    fn preview(&self, _site: &Site<'_>) -> Result<Inspection> {
        Ok(Inspection::default())
    }
}

/// An operation that a mode names under `after` or `finish`: it does something after a turn.
///
/// Its steps are recorded before they are run, and are run again after a crash. [`Act::run`] must therefore be
/// idempotent: it looks for what an interrupted run has done, and leaves that as it is.
///
/// By default it is run when a reply asks for it, by an action or an update. One that is run after every turn
/// implements [`Act::plan_always`].
pub trait Act: Operation {
    /// Returns true if an action of a reply may ask for the operation.
    ///
    /// False for one that must only run when agentd itself plans it, such as `git.merge`: an agent must not choose when
    /// it runs, nor its content.
    fn can_be_requested(&self) -> bool {
        true
    }

    /// Plans the step that is run after every turn, whatever the reply asks for.
    ///
    /// Returns `None` if nothing is to be done, and for an operation that is only run on request.
    fn plan_always(&self, _site: &Site<'_>, _end: &TurnEnd<'_>) -> Option<Step> {
        None
    }

    /// Plans the step that an effect of a reply asks for.
    ///
    /// `earlier` is the step that an earlier effect of the same reply planned for the same target.
    fn plan_effect(
        &self,
        _site: &Site<'_>,
        effect: Effect,
        _started: &TurnStart,
        _earlier: Option<&Step>,
    ) -> Step {
        Step::on_request(effect, None)
    }

    /// Runs a step that this operation has planned. A failure is a result that is not done and gives the reason.
    ///
    /// # Errors
    ///
    /// Only a failure after which the turn cannot continue at all, such as a stop by the user.
    fn run(&self, site: &Site<'_>, step: &Step) -> Result<StepResult>;
}

/// The result of [`Inspect::inspect`].
#[derive(Debug, Default)]
pub struct Inspection {
    /// Items for the prompt, each with a description of its origin.
    pub items: Vec<(ContextItem, String)>,
    /// The result to record, for operations that have one.
    pub result: Option<StepResult>,
}

/// A turn whose reply was read: the input of [`Act::plan_always`].
#[derive(Clone, Copy, Debug)]
pub struct TurnEnd<'a> {
    /// The turn as it was started.
    pub started: &'a TurnStart,
    /// Markers of the reply that count.
    pub markers: &'a [Marker],
    /// Verdict of the reply, if it holds one.
    pub verdict: Option<ReviewResult>,
    /// Findings of the turn; `None` in a mode that records none.
    pub findings: Option<&'a [Finding]>,
    /// Current date as `YYYY-MM-DD`.
    pub today: &'a str,
}
