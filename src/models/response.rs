//! A reply as it came, and as it was read.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize, Serializer};

use super::{Action, CallOutcome, Marker, Problem, ReviewResult, UsageMetrics};

/// What an agent answered: the raw text, how it ended and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The text, as it came.
    pub text: String,
    /// What the call used.
    pub usage: UsageMetrics,
    /// How the call ended.
    pub end: CallOutcome,
    /// What the agent said of a failure.
    pub detail: String,
    /// How many processes the agent had left behind; none is alive any more.
    pub left_behind: u64,
    /// How often the agent called a tool on the way, and so asked its model once more; `None` if that is not known.
    pub tool_calls: Option<u64>,
}

impl Default for Reply {
    /// Returns an empty reply that came to its end, of an agent without tools.
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
    /// Returns a reply that came to its end.
    #[must_use]
    pub fn of(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// A reply as it was read: text for people, effects for the program, and what had to be tolerated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Response {
    /// What the agent thought aloud; never part of the message.
    pub thoughts: Vec<String>,
    /// What is for people to read.
    pub message: String,
    /// Text outside the message, if there is one.
    pub stray: String,
    /// What the agent asks the program to do, each in keeping with its schema.
    pub actions: Vec<Action>,
    /// New texts for targets.
    pub updates: Vec<Update>,
    /// Results that the agent reports.
    pub markers: Vec<Marker>,
    /// Why the verdict is unclear, in the order of the reply. Empty if the verdict counts, or if there is none.
    pub verdict_doubts: Vec<VerdictDoubt>,
    /// Questions to a person that the reply asks instead of sending documents.
    pub questions: Vec<String>,
    /// What was asked for but not clearly enough to be done.
    pub proposals: Vec<RejectedEffect>,
    /// What was tolerated.
    pub problems: Vec<Problem>,
    /// Whether all of it is there: the agent came to its end, and nothing was left open.
    pub complete: bool,
    /// How many messages in tags there are. Without any, everything that is left is the message.
    #[serde(skip)]
    pub messages: usize,
    /// The `run` that verdicts of this turn must carry; `None` if the prompt has none.
    #[serde(skip)]
    pub nonce: Option<String>,
}

/// A reason why a reply's verdict is unclear. An unclear verdict is asked for again; it never passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictDoubt {
    /// Rule that the reply missed.
    pub reason: String,
    /// Line of the reply, counted from 1.
    pub line: usize,
    /// Verdict of a tag that does not count, because it lacks this turn's `run` or is written in another form. The
    /// answer to a repair counts only if it is as severe.
    pub stated: Option<ReviewResult>,
    /// Where in the reply's bytes.
    pub span: Range<usize>,
}

/// New text for a target: `<content_update target="…">…</content_update>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Update {
    /// The target, as the agent wrote it.
    pub target: String,
    /// The new text, or what changes in the old one.
    pub content: String,
    /// Which of them it is.
    pub format: UpdateFormat,
    /// Where in the reply's bytes.
    pub span: Range<usize>,
}

/// How an update is written: its attribute `format`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpdateFormat {
    /// As the whole text.
    #[default]
    Whole,
    /// As a unified diff against the text that there is.
    Diff,
}

impl UpdateFormat {
    /// Reads the attribute's value; `None` for any that there is not.
    #[must_use]
    pub fn read(value: &str) -> Option<Self> {
        let is = |name: &str| value.trim().eq_ignore_ascii_case(name);
        if is("whole") {
            Some(Self::Whole)
        } else {
            is("diff").then_some(Self::Diff)
        }
    }
}

/// The part of a reply by which an agent asks for something, with its name as far as that could be read.
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
    /// Returns the report on a task.
    #[must_use]
    pub fn task_status(id: &str) -> Self {
        Self::TaskStatus(non_blank(id))
    }

    /// Returns the update of a target.
    #[must_use]
    pub fn update(target: &str) -> Self {
        Self::Update(non_blank(target))
    }

    /// Returns the action of a type.
    #[must_use]
    pub fn action(name: &str) -> Self {
        Self::Action(non_blank(name))
    }

    /// Returns true for actions, also for those without a readable type.
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

/// Something an agent asked for that is shown to people and never carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedEffect {
    /// The part of the reply that asks for it, such as `content_update proposal.md`.
    pub what: EffectKind,
    /// Why it is not carried out.
    pub reason: String,
    /// Its text, as the agent wrote it; empty if the proposal before it has the same.
    pub text: String,
    /// Line of the reply, counted from 1; `None` if it is not in the reply.
    pub line: Option<usize>,
    /// Where in the reply's bytes.
    pub span: Range<usize>,
    /// Whether it may be meant, so that it helps to ask for it again.
    #[serde(skip)]
    pub again: bool,
}
