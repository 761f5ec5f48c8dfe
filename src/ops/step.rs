//! A step: one operation on one target, planned before it is recorded and run.

use super::fs::{apply_patch, with_line_endings_of};
use crate::error::Error;
use crate::models::{BlobId, Effect, Intent, OperationId, StepResult, StepTrigger, UpdateFormat};
use crate::store::blob_id;

/// Reason for refusing a step whose target was changed after the prompt was created.
pub(super) const TARGET_CHANGED: &str = "the file changed after the prompt was created";

/// One operation on one target, as it was planned.
///
/// The ledger keeps a step as an [`Intent`], with the hash of its content in place of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Operation that runs the step.
    pub operation: OperationId,
    /// Path or other object that the operation is run on; its format depends on the operation.
    pub target: String,
    /// New content of the target; `None` to remove it.
    pub content: Option<String>,
    /// Hash of the target's content when the step was planned; `None` if the target did not exist.
    pub before: Option<BlobId>,
    /// Reason why the step is not run, if known when it was planned. `content` is then the unchanged content of the
    /// reply.
    pub refused: Option<String>,
    /// Reason for running the step.
    pub trigger: StepTrigger,
    /// Action that requested it; `None` for an update and for steps that are always run.
    pub action: Option<String>,
}

impl Step {
    /// Returns a step that is run after every turn.
    pub fn always(
        operation: OperationId,
        target: impl Into<String>,
        content: impl Into<String>,
    ) -> Self {
        Self {
            operation,
            target: target.into(),
            content: Some(content.into()),
            before: None,
            refused: None,
            trigger: StepTrigger::Always,
            action: None,
        }
    }

    /// Returns a step for an effect of a reply, with the unchanged content of the effect.
    ///
    /// `before` is the hash of the content that the target must have when the step is run; `None` if it must not exist.
    #[must_use]
    pub fn on_request(effect: Effect, before: Option<BlobId>) -> Self {
        Self {
            operation: effect.operation,
            target: effect.target,
            content: Some(effect.content),
            before,
            refused: None,
            trigger: StepTrigger::Reply,
            action: effect.action,
        }
    }

    /// Returns a step of a command that the user gave. Its operation finds the target in the input.
    #[must_use]
    pub fn on_command(operation: OperationId, input: String) -> Self {
        Self {
            operation,
            target: String::new(),
            content: Some(input),
            before: None,
            refused: None,
            trigger: StepTrigger::Command,
            action: None,
        }
    }

    /// Returns a step that updates a file: applies a diff, or replaces the whole content and keeps its line endings.
    ///
    /// The step is refused if `current` does not have the hash `before`, or if the diff does not apply.
    pub(super) fn updating(effect: Effect, current: Option<&str>, before: Option<BlobId>) -> Self {
        if current.map(|text| blob_id(text.as_bytes())) != before {
            return Self::on_request(effect, before).refuse(TARGET_CHANGED);
        }

        let content = match (effect.format, current) {
            (UpdateFormat::Diff, _) => apply_patch(&effect.target, current, &effect.content),
            (UpdateFormat::Whole, Some(current)) => {
                Ok(Some(with_line_endings_of(current, &effect.content)))
            }
            (UpdateFormat::Whole, None) => Ok(Some(effect.content.clone())),
        };
        match content {
            Ok(content) => Self {
                content,
                ..Self::on_request(effect, before)
            },
            Err(reason) => Self::on_request(effect, before).refuse(reason),
        }
    }

    /// Returns a step that updates a file with the bytes `current`, which must be UTF-8.
    pub(super) fn updating_bytes(
        effect: Effect,
        current: Option<Vec<u8>>,
        before: Option<BlobId>,
    ) -> Self {
        match current.map(String::from_utf8).transpose() {
            Ok(current) => Self::updating(effect, current.as_deref(), before),
            Err(_) => Self::on_request(effect, before).refuse("the file is not UTF-8 text"),
        }
    }

    /// Returns the step marked as refused, so that it is not run.
    #[must_use]
    pub fn refuse(self, reason: impl Into<String>) -> Self {
        Self {
            refused: Some(reason.into()),
            ..self
        }
    }

    /// Returns true if the step is run after every turn, whatever the reply requests.
    #[must_use]
    pub fn is_always_run(&self) -> bool {
        self.trigger == StepTrigger::Always
    }

    /// Returns true if the user requested the step with a command.
    #[must_use]
    pub fn is_of_user(&self) -> bool {
        self.trigger == StepTrigger::Command
    }

    /// Returns true if the merge lock must be held while the step is run.
    #[must_use]
    pub fn needs_merge_lock(&self) -> bool {
        matches!(
            self.operation,
            OperationId::SpecsMerge | OperationId::GitMerge | OperationId::GitSquash
        )
    }

    /// Returns the hash of the new content; `None` if the target is removed.
    pub(super) fn after(&self) -> Option<BlobId> {
        self.content
            .as_ref()
            .map(|content| blob_id(content.as_bytes()))
    }

    /// Restores a step from its record in the ledger; `content` is the text whose hash the record has.
    #[must_use]
    pub fn from_intent(intent: &Intent, content: Option<String>) -> Self {
        Self {
            operation: intent.operation.clone(),
            target: intent.target.clone(),
            content,
            before: intent.before.clone(),
            refused: intent.refused.clone(),
            trigger: intent.trigger(),
            action: intent.action.clone(),
        }
    }

    /// Returns the record of this step in the ledger.
    #[must_use]
    pub fn intent(&self) -> Intent {
        Intent {
            operation: self.operation.clone(),
            target: self.target.clone(),
            content: self.after(),
            before: self.before.clone(),
            refused: self.refused.clone(),
            trigger: Some(self.trigger),
            action: self.action.clone(),
        }
    }

    /// Returns the result of a step that was run; `detail` says what was done.
    pub fn done(&self, detail: impl Into<String>) -> StepResult {
        self.settled(true, detail.into())
    }

    /// Returns the result of a step that failed or was not run; `detail` says why.
    pub fn not_done(&self, detail: impl Into<String>) -> StepResult {
        self.settled(false, detail.into())
    }

    /// Returns the result of a step that failed with an error, with the error's hint.
    pub(super) fn failed(&self, error: &Error) -> StepResult {
        let hint = error
            .hint()
            .map(|hint| format!(" ({hint})"))
            .unwrap_or_default();
        self.not_done(format!("{error}{hint}"))
    }

    /// Returns the result of a step that needs a change, in a session that was not opened as one.
    pub(super) fn without_change(&self) -> StepResult {
        self.not_done("the session is not a change")
    }

    /// Returns the result of this step.
    #[must_use]
    pub fn settled(&self, done: bool, detail: String) -> StepResult {
        StepResult {
            operation: self.operation.clone(),
            target: self.target.clone(),
            done,
            detail,
            result: None,
            report: None,
            text: None,
            action: self.action.clone(),
            changes: Vec::new(),
        }
    }
}
