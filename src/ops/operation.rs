//! The two kinds of operation: one inspects before a turn, the other acts after it.

use super::{Site, Step};
use crate::error::Result;
use crate::models::{
    ContextItem, Effect, Finding, Marker, OperationId, ReviewResult, StepResult, TurnStart,
};

/// An operation that packs call by name. Every operation also implements [`Inspect`], [`Act`] or both.
pub trait Operation {
    /// Returns the name by which packs call the operation.
    fn id(&self) -> OperationId;

    /// Returns true if the operation works only in a session that was opened as a change.
    ///
    /// Without a change, such an operation refuses the turn in [`Inspect::inspect`], and plans no step in
    /// [`Act::plan_always`]; the user is warned that it is skipped.
    fn needs_change(&self) -> bool {
        false
    }
}

/// An operation that a mode lists under `before`: it collects context for the prompt, and may refuse the turn.
pub trait Inspect: Operation {
    /// Inspects the site before a turn.
    ///
    /// # Errors
    ///
    /// Fails if the turn is refused; the message gives the reason.
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection>;

    /// Returns the part of the inspection that needs neither running nor writing anything, for `agentd prompt`.
    ///
    /// # Errors
    ///
    /// Fails if the preview cannot be computed.
    fn preview(&self, _site: &Site<'_>) -> Result<Inspection> {
        Ok(Inspection::default())
    }
}

/// An operation that a mode lists under `after` or `finish`: it runs after a turn.
///
/// Its steps are recorded before they are run, and are run again after a crash. [`Act::run`] must therefore be
/// idempotent: it detects the work of an interrupted run, and does not repeat it.
///
/// By default, an operation runs when a reply requests it with an action or an update. An operation that runs after
/// every turn implements [`Act::plan_always`].
pub trait Act: Operation {
    /// Returns true if an action of a reply may request the operation.
    ///
    /// False for an operation that only agentd itself may plan, such as `git.merge`: an agent must not decide when it
    /// runs or with which content.
    fn can_be_requested(&self) -> bool {
        true
    }

    /// Plans the step that is run after every turn, whatever the reply requests.
    ///
    /// Returns `None` if there is nothing to do, and for an operation that only runs on request.
    fn plan_always(&self, _site: &Site<'_>, _end: &TurnEnd<'_>) -> Option<Step> {
        None
    }

    /// Plans the step for an effect that a reply requests.
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

    /// Runs a step that this operation has planned. If the step fails, returns a result that is not done, with the
    /// reason.
    ///
    /// # Errors
    ///
    /// Fails only if the turn cannot continue at all, for example because the user stopped it.
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
    /// Valid markers of the reply.
    pub markers: &'a [Marker],
    /// Verdict of the reply, if it has one.
    pub verdict: Option<ReviewResult>,
    /// Findings of the turn; `None` in a mode that records none.
    pub findings: Option<&'a [Finding]>,
    /// Current date as `YYYY-MM-DD`.
    pub today: &'a str,
}
