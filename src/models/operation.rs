//! Names of operations, of their results, and of the results of turns.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Mode, ReviewResult};
use crate::error::{Error, ErrorKind, Result};

/// Name of an operation that a program registers, or of a result of such an operation.
///
/// Only the enums of this module create custom names, so a custom name is never one of the known names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomName(String);

impl CustomName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Defines an enum of known names with a variant for custom names. Values are compared, hashed and serialized by name.
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        $type:ident {
            $($(#[$doc:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$doc])* $variant,)*
            /// Any other name.
            Custom(CustomName),
        }

        impl $type {
            /// Returns the name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Custom(name) => name.as_str(),
                }
            }

            fn from_name(name: String) -> Self {
                match name.as_str() {
                    $($name => Self::$variant,)*
                    _ => Self::Custom(CustomName(name)),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.as_str().hash(state);
            }
        }

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                self.as_str().cmp(other.as_str())
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

named_enum! {
    /// Name of an operation, such as `files.write`.
    OperationId {
        /// Declares the status of an artifact.
        ArtifactStatus = "artifact.status",
        /// Writes fields of an artifact.
        ArtifactWrite = "artifact.write",
        /// Moves the folder of a change to the archive.
        ChangeArchive = "change.archive",
        /// Refuses a turn on a change without a proposal.
        ChangeRequire = "change.require",
        /// Runs the checks again if the target branch has changed.
        ChecksAgain = "checks.again",
        /// Runs the project's checks.
        ChecksRun = "checks.run",
        /// Shows the output of the last failed checks.
        ChecksShow = "checks.show",
        /// Writes and removes files of the working tree.
        FilesEdit = "files.edit",
        /// Writes files in the folder of the session.
        FilesWrite = "files.write",
        /// Records the findings of a turn.
        FindingsNote = "findings.note",
        /// Shows open findings.
        FindingsShow = "findings.show",
        /// Records a fact.
        KnowledgeSave = "knowledge.save",
        /// Adds an item to a list of the state document.
        StateAdd = "state.add",
        /// Removes a value of the state document.
        StateRemove = "state.remove",
        /// Sets a field of the state document.
        StateSet = "state.set",
        /// Commits the changes in the worktree.
        GitCommit = "git.commit",
        /// Shows the diff of a change.
        GitDiff = "git.diff",
        /// Merges the change's branch.
        GitMerge = "git.merge",
        /// Merges the change's branch as one commit.
        GitSquash = "git.squash",
        /// Refuses a turn unless the last review passed and its files are unchanged.
        ReviewRequire = "review.require",
        /// Merges the change's specs into those of the project.
        SpecsMerge = "specs.merge",
        /// Shows the project's specs.
        SpecsShow = "specs.show",
        /// Ticks tasks that are done.
        TasksTick = "tasks.tick",
    }
}

impl OperationId {
    /// Validates a name: two names by the rules of [`Mode`], joined by a dot.
    ///
    /// # Errors
    ///
    /// `NameInvalid` for any other text.
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let is_well_formed = name
            .split_once('.')
            .is_some_and(|(object, verb)| Mode::new(object).is_ok() && Mode::new(verb).is_ok());
        if !is_well_formed {
            let message =
                format!("invalid operation name {name:?}; expected a name such as `files.write`");
            return Err(Error::new(ErrorKind::NameInvalid, message));
        }
        Ok(Self::from_name(name))
    }
}

impl<'de> Deserialize<'de> for OperationId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(name).map_err(|error| de::Error::custom(error.message()))
    }
}

named_enum! {
    /// Result of an operation, which `evidence` and `needs_person` of a pack can test.
    StepOutcome {
        /// `checks.run`: all checks passed.
        Passed = "PASSED",
        /// `checks.run`: a check failed.
        Failed = "FAILED",
        /// `checks.run`: there are no checks. `findings.note`: no finding is open.
        None = "NONE",
        /// `git.diff`: the prompt shows all files that need review.
        Seen = "SEEN",
        /// `git.diff`: the user has to review files that the prompt does not show.
        PartlyShown = "PARTLY_SHOWN",
        /// `git.commit`: agentd or the agent created a commit.
        Committed = "COMMITTED",
        /// `git.commit`: there was nothing to commit.
        Nothing = "NOTHING",
        /// `specs.merge`: merged, and the target branch had not changed.
        Merged = "MERGED",
        /// `specs.merge`: merged, and the target branch had changed.
        Moved = "MOVED",
        /// `tasks.tick`: no file was changed.
        Unchanged = "UNCHANGED",
        /// `tasks.tick`: the agent reports all open tasks as done, but a check failed.
        Unverified = "UNVERIFIED",
        /// `tasks.tick`: all tasks are done.
        Done = "DONE",
        /// `tasks.tick`: some tasks were ticked, and others are still open.
        Progress = "PROGRESS",
        /// `tasks.tick`: tasks are open, and none was ticked. `findings.note`: only minor findings are open.
        Open = "OPEN",
        /// `findings.note`: a critical or major finding is open.
        Blocking = "BLOCKING",
    }
}

impl From<&str> for StepOutcome {
    fn from(word: &str) -> Self {
        Self::from_name(word.to_owned())
    }
}

impl<'de> Deserialize<'de> for StepOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from_name)
    }
}

/// Result of a turn: a key of a mode's `next`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnResult {
    /// A verdict, of the reply or of the evidence.
    Verdict(ReviewResult),
    /// A task failed, or the evidence says so.
    Failed,
    /// Anything else.
    Otherwise,
}

impl TurnResult {
    /// Parses a key of `next`; `None` for an unknown key.
    fn read(word: &str) -> Option<Self> {
        match word {
            "FAILED" => Some(Self::Failed),
            "otherwise" => Some(Self::Otherwise),
            verdict => verdict.parse().ok().map(Self::Verdict),
        }
    }

    /// Returns the verdict, if that is the result.
    #[must_use]
    pub fn verdict(self) -> Option<ReviewResult> {
        match self {
            Self::Verdict(verdict) => Some(verdict),
            Self::Failed | Self::Otherwise => None,
        }
    }

    /// Returns the key in `next`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Verdict(verdict) => verdict.name(),
            Self::Failed => "FAILED",
            Self::Otherwise => "otherwise",
        }
    }
}

impl fmt::Display for TurnResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for TurnResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for TurnResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Self::read(&word).ok_or_else(|| {
            de::Error::custom(format!(
                "unknown result `{word}`; expected a verdict, `FAILED` or `otherwise`"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_become_their_variants_and_others_stay_as_they_are() {
        assert_eq!(
            OperationId::new("checks.run").unwrap(),
            OperationId::ChecksRun
        );
        let own = OperationId::new("report.send").unwrap();
        assert!(matches!(&own, OperationId::Custom(name) if name.as_str() == "report.send"));

        assert_eq!(StepOutcome::from("FAILED"), StepOutcome::Failed);
        assert_eq!(StepOutcome::from("failed").as_str(), "failed");
        assert_ne!(StepOutcome::from("failed"), StepOutcome::Failed);
    }

    #[test]
    fn names_are_strings_in_json() {
        let json = r#"{"checks.run":"PASSED","report.send":"LATE"}"#;
        let read: std::collections::BTreeMap<OperationId, StepOutcome> =
            serde_json::from_str(json).unwrap();
        assert_eq!(read.get("checks.run"), Some(&StepOutcome::Passed));
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }

    #[test]
    fn an_operation_has_two_plain_words() {
        for name in [
            "",
            "checks",
            "checks.",
            ".run",
            "Checks.run",
            "a.b.c",
            "rm -rf",
        ] {
            assert!(OperationId::new(name).is_err(), "{name}");
        }
    }
}
