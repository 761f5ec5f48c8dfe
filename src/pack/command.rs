//! Commands that a pack declares for the user of a conversation.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::models::{ArtifactStatus, Mode, OperationId};

/// Names of the commands that every conversation has. A pack cannot declare them.
pub const BUILT_IN_COMMANDS: [&str; 7] =
    ["state", "prompt", "mode", "model", "undo", "help", "quit"];

/// A command that the user gives in a conversation as `/NAME`. Replies cannot give it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// Description in one line, which `/help` shows.
    pub description: String,
    /// Modes that allow the command; empty for all modes.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// Operations that the command runs, in order. If one is refused, none takes effect.
    pub steps: Vec<CommandStep>,
}

/// An operation of a command, with its input.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandStep {
    #[expect(missing_docs, reason = "the type says it all")]
    pub operation: OperationId,
    /// Input of the operation, by the names of its parameters.
    #[serde(default)]
    pub with: Map<String, Value>,
}

impl CommandSpec {
    /// Returns true if a mode allows the command.
    #[must_use]
    pub fn is_allowed_in(&self, mode: &Mode) -> bool {
        self.modes.is_empty() || self.modes.contains(mode)
    }

    /// Returns true if the command sets a field of the state to a value.
    #[must_use]
    pub fn sets_field(&self, path: &str, value: &str) -> bool {
        self.steps.iter().any(|step| {
            let given = step.with.get("value").map(value_text);
            step.operation == OperationId::StateSet
                && step.text("path") == Some(path)
                && given.as_deref() == Some(value)
        })
    }

    /// Returns true if the command declares the status of an artifact.
    #[must_use]
    pub fn declares_status(&self, artifact: &str, status: ArtifactStatus) -> bool {
        self.steps.iter().any(|step| {
            step.operation == OperationId::ArtifactStatus
                && step.text("artifact") == Some(artifact)
                && step.text("status") == Some(status.name())
        })
    }
}

impl CommandStep {
    /// Returns a parameter that is a string; `None` if it is missing or of another type.
    #[must_use]
    pub fn text(&self, parameter: &str) -> Option<&str> {
        self.with.get(parameter)?.as_str()
    }
}

/// Returns a value as rules compare it.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}
