//! Problems of a pack, each with its location and a hint.

use std::fmt;

use serde::Serialize;

use super::Pack;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::models::OperationId;

/// A problem that a check of a pack found.
#[expect(missing_docs, reason = "`severity` needs no explanation")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackProblem {
    pub severity: ProblemSeverity,
    /// Place in the file that has to be changed.
    pub place: Place,
    /// Description of the problem.
    pub message: String,
    /// Suggestion for a fix.
    pub hint: Option<String>,
}

/// Severity of a problem of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProblemSeverity {
    /// The pack cannot work and is not loaded.
    Error,
    /// Probably a mistake; the pack is loaded.
    Warning,
}

impl fmt::Display for ProblemSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

impl fmt::Display for PackProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Result of checking a pack.
#[derive(Clone, Debug)]
pub struct PackReport {
    /// The pack, unless it has an error.
    pub pack: Option<Pack>,
    /// All problems, in the order in which they were found.
    pub problems: Vec<PackProblem>,
    /// Each location at which the manifest uses an operation. A registry, such as
    /// [`Operations::shipped`](crate::ops::Operations::shipped) in builds with `run`, knows which of them exist.
    pub operations: Vec<NamedOperation>,
}

/// A location at which a manifest uses an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedOperation {
    #[expect(missing_docs, reason = "the type says it all")]
    pub operation: OperationId,
    /// Line and column of the name.
    pub place: Place,
    /// Key under which it is named.
    pub role: OperationRole,
}

/// Key of a manifest under which an operation is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationRole {
    /// `before`: the operation runs before the prompt is composed.
    Before,
    /// `after` or `finish`: the operation runs after the reply.
    After,
    /// `operation` of an action: the operation runs if a reply requests the action.
    Action,
    /// `done(…)` in a gate: the gate depends on the operation's result.
    Gate,
}

impl PackReport {
    /// Returns a report of a file that cannot be read as a manifest.
    pub(super) fn unreadable(error: &Error, place: Place) -> Self {
        Self {
            pack: None,
            problems: vec![PackProblem {
                severity: ProblemSeverity::Error,
                place,
                message: error.message().to_owned(),
                hint: error.hint().map(str::to_owned),
            }],
            operations: Vec::new(),
        }
    }

    /// Returns the pack, or an error with all problems that are errors.
    pub(super) fn into_pack(self) -> Result<Pack> {
        let mut errors = self
            .problems
            .into_iter()
            .filter(|problem| problem.severity == ProblemSeverity::Error);
        let Some(first) = errors.next() else {
            return self
                .pack
                .ok_or_else(|| Error::new(ErrorKind::PackInvalid, "the pack cannot be loaded"));
        };

        let more: String = errors.map(|problem| format!("\n  {problem}")).collect();
        let message = if more.is_empty() {
            first.message
        } else {
            format!("{}; more errors:{more}", first.message)
        };
        let mut error = Error::new(ErrorKind::PackInvalid, message).with_place(first.place);
        if let Some(hint) = first.hint {
            error = error.with_hint(hint);
        }

        Err(error)
    }
}
