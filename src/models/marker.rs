//! Markers: tags with which a reply reports a result, such as a verdict.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Verdict: the value of a `<review>` marker. Later variants are more severe, and the most severe wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReviewResult {
    /// The output meets all criteria.
    Pass,
    /// A proposal needs refinement.
    NeedsRevision,
    /// An implementation needs adjustment.
    NeedsChanges,
    /// An implementation fails critically.
    MajorIssues,
    /// A proposal is fundamentally flawed.
    Rejected,
}

impl ReviewResult {
    /// All verdicts, the mildest first.
    pub const ALL: [Self; 5] = [
        Self::Pass,
        Self::NeedsRevision,
        Self::NeedsChanges,
        Self::MajorIssues,
        Self::Rejected,
    ];

    /// Returns the consequence of the verdict, which is the same in every mode.
    #[must_use]
    pub fn consequence(self) -> Consequence {
        match self {
            Self::Pass => Consequence::GoesOn,
            Self::NeedsRevision | Self::NeedsChanges => Consequence::IsSentBack,
            Self::MajorIssues | Self::Rejected => Consequence::Stops,
        }
    }

    /// Returns the verdict as it is written inside `<review>`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::NeedsRevision => "NEEDS_REVISION",
            Self::NeedsChanges => "NEEDS_CHANGES",
            Self::MajorIssues => "MAJOR_ISSUES",
            Self::Rejected => "REJECTED",
        }
    }
}

/// Effect of a verdict on the work that it judges. Later variants are more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consequence {
    /// The work continues in the next mode.
    GoesOn,
    /// The work is repeated.
    IsSentBack,
    /// The session stops.
    Stops,
}

impl fmt::Display for ReviewResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ReviewResult {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|verdict| verdict.name() == text)
            .ok_or(())
    }
}

/// Value of a `<task_status>` marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskStatus {
    /// The agent says that the task is done.
    Completed,
    /// The agent says that the task could not be done.
    Failed,
}

impl TaskStatus {
    /// Returns the status as it is written inside `<task_status>`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }
}

/// A marker in a reply, outside thoughts, quotes and code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "marker", rename_all = "snake_case")]
pub enum Marker {
    /// `<review>…</review>`.
    Review {
        #[expect(missing_docs, reason = "the name says it all")]
        verdict: ReviewResult,
    },
    /// A marker that the pack defines: `<name>VALUE</name>`.
    Named {
        #[expect(missing_docs, reason = "the name says it all")]
        name: String,
        /// Value in the spelling of the pack.
        value: String,
    },
    /// `<task_status id="…">…</task_status>`.
    TaskStatus {
        /// Number of the task, such as `1.2`.
        id: String,
        /// Status that the agent claims.
        status: TaskStatus,
    },
}
