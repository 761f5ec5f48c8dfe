//! Replies of agents, before and after parsing.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize, Serializer};

use super::{Action, CallOutcome, Marker, Problem, ReviewResult, UsageMetrics};

/// Unparsed reply of an agent, with the outcome and the usage of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    #[expect(missing_docs, reason = "the name says it all")]
    pub text: String,
    #[expect(missing_docs, reason = "the name says it all")]
    pub usage: UsageMetrics,
    /// Outcome of the call.
    pub end: CallOutcome,
    /// Error message of the agent, or empty.
    pub detail: String,
    /// Number of leftover processes of the agent, which were killed.
    pub left_behind: u64,
    /// Number of tool calls, each of which causes another request to the model; `None` if it is unknown.
    pub tool_calls: Option<u64>,
}

impl Default for Reply {
    /// Returns an empty, complete reply of an agent without tools.
    fn default() -> Self {
        Self {
            text: String::new(),
            usage: UsageMetrics::default(),
            end: CallOutcome::default(),
            detail: String::new(),
            left_behind: 0,
            tool_calls: Some(0),
        }
    }
}

impl Reply {
    /// Returns a complete reply with this text and nothing else.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// Parsed reply: text for the user, effects for the program, and tolerated problems.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Response {
    /// Thoughts of the agent, which are not part of the message.
    pub thoughts: Vec<String>,
    /// Text for the user.
    pub message: String,
    /// Text outside the message tags; empty without such tags.
    pub stray: String,
    /// Requested actions, which match their schemas.
    pub actions: Vec<Action>,
    /// New contents for targets.
    pub updates: Vec<Update>,
    /// Accepted markers.
    pub markers: Vec<Marker>,
    /// Reasons why the verdict is unclear, in the order of the reply. Empty if the verdict is valid, or if there is none.
    pub verdict_doubts: Vec<VerdictDoubt>,
    /// Questions to the user that the reply contains instead of documents.
    pub questions: Vec<String>,
    /// Requests that were rejected because they are unclear or not allowed.
    pub proposals: Vec<RejectedEffect>,
    /// Tolerated deviations.
    pub problems: Vec<Problem>,
    /// True if the agent finished its reply and closed all tags.
    pub complete: bool,
    /// Number of `<message>` elements. If there are none, all text outside other elements is the message.
    #[serde(skip)]
    pub messages: usize,
    /// Nonce that verdicts of this turn must carry in `run`; `None` if the prompt has none.
    #[serde(skip)]
    pub nonce: Option<String>,
}

/// Reason why the verdict of a reply is unclear. An unclear verdict is requested again and never passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictDoubt {
    /// Rule that the reply violates.
    pub reason: String,
    /// Line of the reply, from 1.
    pub line: usize,
    /// Verdict that the reply states in an invalid form: without the `run` of this turn, or not in a `<review>` tag;
    /// `None` if it states none. The answer to the repair call is valid only if it is at least as severe.
    pub stated: Option<ReviewResult>,
    /// Byte range in the reply.
    pub span: Range<usize>,
}

/// New text for a target: `<content_update target="…">…</content_update>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Update {
    /// Target as written by the agent.
    pub target: String,
    /// New text, or a diff.
    pub content: String,
    /// Format of `content`.
    pub format: UpdateFormat,
    /// Byte range in the reply.
    pub span: Range<usize>,
}

/// Format of an update: its attribute `format`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpdateFormat {
    /// The complete new text of the target.
    #[default]
    Whole,
    /// A unified diff against the current text.
    Diff,
}

impl UpdateFormat {
    /// Parses the value of the attribute; `None` for an unknown one.
    #[must_use]
    pub fn read(value: &str) -> Option<Self> {
        let is_value = |name: &str| value.trim().eq_ignore_ascii_case(name);
        if is_value("whole") {
            Some(Self::Whole)
        } else {
            is_value("diff").then_some(Self::Diff)
        }
    }
}

/// Kind of request in a reply, with its name if that is readable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectKind {
    /// `<review>`.
    Review,
    /// `<task_status>` with the number of its task.
    TaskStatus(Option<String>),
    /// `<content_update>` with its target.
    Update(Option<String>),
    /// `<action>` with its type.
    Action(Option<String>),
}

impl EffectKind {
    /// Returns the kind for the status of a task.
    #[must_use]
    pub fn task_status(id: &str) -> Self {
        Self::TaskStatus(non_blank(id))
    }

    /// Returns the kind for an update of a target.
    #[must_use]
    pub fn update(target: &str) -> Self {
        Self::Update(non_blank(target))
    }

    /// Returns the kind for an action of a type.
    #[must_use]
    pub fn action(name: &str) -> Self {
        Self::Action(non_blank(name))
    }

    /// Returns true for actions, including those without a readable type.
    #[must_use]
    pub fn is_action(&self) -> bool {
        matches!(self, Self::Action(_))
    }

    /// Replaces the name.
    #[must_use]
    pub fn map_name(self, replace: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Review => Self::Review,
            Self::TaskStatus(id) => Self::TaskStatus(id.map(replace)),
            Self::Update(target) => Self::Update(target.map(replace)),
            Self::Action(name) => Self::Action(name.map(replace)),
        }
    }
}

fn non_blank(name: &str) -> Option<String> {
    (!name.trim().is_empty()).then(|| name.to_owned())
}

impl fmt::Display for EffectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tag, name) = match self {
            Self::Review => ("review", &None),
            Self::TaskStatus(id) => ("task_status", id),
            Self::Update(target) => ("content_update", target),
            Self::Action(name) => ("action", name),
        };
        f.write_str(tag)?;
        match name {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

impl Serialize for EffectKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A request in a reply that was rejected. It is shown to the user and never carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedEffect {
    /// Kind and name, such as `content_update proposal.md`.
    pub what: EffectKind,
    /// Reason for the rejection.
    pub reason: String,
    /// Source text in the reply; empty if it is the same as that of the previous rejected effect.
    pub text: String,
    /// Line of the reply, from 1; `None` if the request is not in the reply.
    pub line: Option<usize>,
    /// Byte range in the reply.
    pub span: Range<usize>,
    /// True if a repair call should request it again, because it was probably intended.
    #[serde(skip)]
    pub again: bool,
}
