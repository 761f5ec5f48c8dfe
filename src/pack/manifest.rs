//! `pack.yaml` as it is written.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::condition::Condition;
use super::layer::{Layer, PerTier};
use super::manifest_places::NO_OPERATION;
use super::sections::StateSections;
use crate::models::{Format, Mode, OperationId, Permission, ReviewResult, StepOutcome, TurnResult};
use crate::text::glob::matches_path;
use crate::text::yaml::Placed;

/// A process as data: `pack.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// The version of this file's form.
    pub(super) format: Placed<u64>,
    /// The pack's name, which is its folder's.
    pub(super) name: Placed<String>,
    /// What the process is for.
    pub(super) description: String,
    /// The mode a session starts in.
    pub(super) start: Placed<Mode>,
    /// How the prompt is written unless the caller says otherwise.
    #[serde(default)]
    pub(super) rendering: Format,
    /// What separates layers in flat text.
    #[serde(default = "separator")]
    pub(super) separator: String,
    /// How many tokens of the window are kept for the reply.
    #[serde(default)]
    pub(super) reserve: Option<PerTier<u64>>,
    /// To how many percent of its room the history is cut when it overflows, so that its start stays the same for a
    /// while.
    #[serde(default)]
    pub(super) hysteresis: Option<Placed<u8>>,
    /// How often a mode may be entered, and how many turns in it may bring nothing, before a person is asked.
    #[serde(default)]
    pub(super) rounds: Option<Placed<u64>>,
    /// Other names of modes.
    #[serde(default)]
    pub(super) aliases: IndexMap<String, Placed<Mode>>,
    /// The variables that are filled.
    #[serde(default)]
    pub(super) variables: Vec<String>,
    /// What every template of the pack must hold.
    #[serde(default)]
    pub(super) sections: Vec<String>,
    /// Markers of the pack's own: their values, from mild to severe.
    #[serde(default)]
    pub(super) markers: IndexMap<String, Placed<Vec<String>>>,
    /// Other names of tags in replies, such as `mensaje` for `message`.
    #[serde(default)]
    pub(super) tags: IndexMap<String, Placed<String>>,
    /// The file whose words ask an agent again for what its reply lacks.
    #[serde(default)]
    pub(super) repair: Option<Placed<String>>,
    /// The actions of `actions.yaml`, where they may be used and what carries them out.
    #[serde(default)]
    pub(super) actions: IndexMap<String, Placed<ActionUse>>,
    /// The prompt's layers, in order.
    pub(super) layers: Vec<Placed<Layer>>,
    /// The modes, in order.
    pub(super) modes: IndexMap<Mode, Placed<ModeSpec>>,
}

fn separator() -> String {
    "\n\n---\n\n".to_owned()
}

/// Where an action may be used, and what carries it out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionUse {
    /// The modes that may use it.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// The operation that carries it out; without one, or with `none`, it is listed and not done.
    #[serde(default, deserialize_with = "operation_or_none")]
    pub operation: Option<OperationId>,
}

fn operation_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<OperationId>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name == NO_OPERATION {
        return Ok(None);
    }
    OperationId::new(name)
        .map(Some)
        .map_err(|error| de::Error::custom(error.message()))
}

/// A mode of the process.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeSpec {
    /// The shipped templates of the mode.
    #[serde(default)]
    pub templates: Vec<String>,
    /// What an agent may do.
    pub permission: Permission,
    /// The mode whose work is judged in this one: better by an agent of another vendor.
    #[serde(default)]
    pub judges: Option<Mode>,
    /// A mode, perhaps of another pack, whose agent is taken if none is set for this one.
    #[serde(default)]
    pub like: Option<Mode>,
    /// The verdicts that a reply may hold.
    #[serde(default)]
    pub verdicts: Vec<ReviewResult>,
    /// Whether a reply must hold one.
    #[serde(default)]
    pub verdict_required: bool,
    /// Markers of the pack that a reply must hold.
    #[serde(default)]
    pub markers: Vec<String>,
    /// Which sections of the session state are shown.
    #[serde(default)]
    pub state: StateSections,
    /// What must hold to leave the mode.
    #[serde(default)]
    pub gate: Option<Condition>,
    /// Whether a person is asked before the mode begins.
    #[serde(default)]
    pub approval: bool,
    /// Results of operations in the mode before after which a person must approve the mode, also with `--auto`.
    #[serde(default)]
    pub needs_person: IndexMap<OperationId, StepOutcome>,
    /// Where a person's objection in this mode leads; without one, to the mode itself.
    #[serde(default)]
    pub revise: Option<Mode>,
    /// The file whose open questions are put to a person when the mode is not left.
    #[serde(default)]
    pub questions: Option<String>,
    /// Whether several agents may be asked at once, of whom the most severe counts.
    #[serde(default)]
    pub panel: bool,
    /// Whether its tasks may be done one by one.
    #[serde(default)]
    pub by_task: bool,
    /// What is asked for if nobody says it: the session's request if this is not there.
    #[serde(default)]
    pub request: Option<String>,
    /// How the files that a reply updates are written, by pattern; a reply that does not keep to it is asked again.
    #[serde(default)]
    pub documents: IndexMap<String, Document>,
    /// What operations found, and the result of the turn that it makes of any better one.
    #[serde(default)]
    pub evidence: IndexMap<OperationId, IndexMap<StepOutcome, TurnResult>>,
    /// Whether a reply reports on tasks.
    #[serde(default)]
    pub task_status: bool,
    /// Which artifacts of the session the agent is shown; `*` stands for any name.
    #[serde(default)]
    pub artifacts: Vec<String>,
    /// Set if a turn is refused unless each pattern of `artifacts` matches a file.
    #[serde(default)]
    pub artifacts_required: bool,
    /// Which targets a reply may update; `*` stands for any name.
    #[serde(default)]
    pub updates: Vec<String>,
    /// What a reply of an agent without tools may change beside these.
    #[serde(default)]
    pub edits: Option<Edits>,
    /// The skeletons that the template is given.
    #[serde(default)]
    pub skeletons: Vec<String>,
    /// Variables that a template of this mode must use.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Words that a template of this mode must hold.
    #[serde(default)]
    pub focus: Vec<String>,
    /// Sentences that certain templates must hold word by word, by the template's name.
    #[serde(default)]
    pub sentences: IndexMap<String, Vec<String>>,
    /// Operations to run before the prompt is made.
    #[serde(default)]
    pub before: Vec<OperationId>,
    /// Operations that carry out what a reply asks for, or what is always done after it.
    #[serde(default)]
    pub after: Vec<OperationId>,
    /// Operations that are carried out if the session ends well with the turn.
    #[serde(default)]
    pub finish: Vec<OperationId>,
    /// Where a turn leads, by its result: a verdict, `FAILED`, or `otherwise`.
    pub next: IndexMap<TurnResult, NextTarget>,
}

impl ModeSpec {
    /// Returns true for the name of a document that the mode writes.
    #[must_use]
    pub fn is_document(&self, name: &str) -> bool {
        let patterns = self.documents.keys();
        patterns
            .into_iter()
            .any(|pattern| matches_path(pattern, name))
    }

    /// Returns true if a verdict keeps a session in the mode, whose own name is `mode`.
    #[must_use]
    pub fn stays_after(&self, mode: &Mode, verdict: ReviewResult) -> bool {
        self.next.get(&TurnResult::Verdict(verdict)) == Some(&NextTarget::Mode(mode.clone()))
    }
}

/// How a file is written.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Document {
    /// What changes, for whom and why.
    Proposal,
    /// Requirements and scenarios.
    Spec,
    /// Numbered tasks with boxes.
    Tasks,
}

/// What a reply may change that an agent with tools changes itself.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edits {
    /// The files of the work tree.
    Tree,
}

/// Where a turn leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextTarget {
    /// To a mode, perhaps the same one.
    Mode(Mode),
    /// To the end: the goal is reached.
    Done,
    /// To the end: the goal is given up.
    Stop,
}

impl<'de> Deserialize<'de> for NextTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mode = Mode::deserialize(deserializer)?;
        Ok(match mode.as_str() {
            "done" => Self::Done,
            "stop" => Self::Stop,
            _ => Self::Mode(mode),
        })
    }
}
