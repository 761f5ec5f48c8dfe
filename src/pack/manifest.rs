//! Format of `pack.yaml`.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::command::CommandSpec;
use super::condition::ManifestRule;
use super::layer::{Layer, PerTier};
use super::manifest_places::NO_OPERATION;
use crate::models::{Format, Mode, OperationId, Permission, ReviewResult, StepOutcome, TurnResult};
use crate::text::glob::matches_path;
use crate::text::yaml::WithPlace;

/// Content of `pack.yaml`: the modes of a process, their order, and the layers of its prompts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// Version of the format.
    pub(super) format: WithPlace<u64>,
    /// Name of the pack; equals the name of its folder.
    pub(super) name: WithPlace<String>,
    /// Purpose of the process.
    pub(super) description: String,
    /// First mode of a session.
    pub(super) start: WithPlace<Mode>,
    /// Default rendering of prompts.
    #[serde(default)]
    pub(super) rendering: Format,
    /// Separator of layers in flat text.
    #[serde(default = "default_separator")]
    pub(super) separator: String,
    /// Tokens of the window reserved for the reply.
    #[serde(default)]
    pub(super) reserve: Option<PerTier<u64>>,
    /// Percentage of its token limit to which the history is truncated once it exceeds the limit. The free rest lets the
    /// next turns be appended without truncating again, so that the start of the prompt stays cacheable.
    #[serde(default)]
    pub(super) hysteresis: Option<WithPlace<u8>>,
    /// Limit of rounds: how often a mode may be entered, and how many turns in a row may make no progress in it. At the
    /// limit, the session stops and waits for the user.
    #[serde(default)]
    pub(super) rounds: Option<WithPlace<u64>>,
    /// Aliases of modes.
    #[serde(default)]
    pub(super) aliases: IndexMap<String, WithPlace<Mode>>,
    /// Variables that prompts can use.
    #[serde(default)]
    pub(super) variables: Vec<String>,
    /// Headings that every template of the pack must have.
    #[serde(default)]
    pub(super) sections: Vec<String>,
    /// Markers defined by the pack, with their values from mild to severe.
    #[serde(default)]
    pub(super) markers: IndexMap<String, WithPlace<Vec<String>>>,
    /// Aliases of tags in replies, such as `mensaje` for `message`.
    #[serde(default)]
    pub(super) tags: IndexMap<String, WithPlace<String>>,
    /// File with the text that asks an agent for the missing parts of its reply.
    #[serde(default)]
    pub(super) repair: Option<WithPlace<String>>,
    /// Modes and operation of each action in `actions.yaml`.
    #[serde(default)]
    pub(super) actions: IndexMap<String, WithPlace<ActionUse>>,
    /// Commands of the user in a conversation.
    #[serde(default)]
    pub(super) commands: IndexMap<String, WithPlace<CommandSpec>>,
    /// Layers of the prompt, in order.
    pub(super) layers: Vec<WithPlace<Layer>>,
    /// Modes, in order.
    pub(super) modes: IndexMap<Mode, WithPlace<ModeSpec>>,
}

fn default_separator() -> String {
    "\n\n---\n\n".to_owned()
}

/// Returns a hint that lists the modes.
pub(super) fn mode_hint(manifest: &Manifest) -> String {
    let modes: Vec<&str> = manifest.modes.keys().map(Mode::as_str).collect();
    format!("known modes: {}", modes.join(", "))
}

/// Modes and operation of an action.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionUse {
    /// Modes that may use it.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// Operation that executes it. Without one, or with `none`, requests are recorded but not
    /// executed.
    #[serde(default, deserialize_with = "operation_or_none")]
    pub operation: Option<OperationId>,
    /// Input of the operation, by the names of its parameters. Without it, all parameters of the action are passed.
    #[serde(default)]
    pub with: IndexMap<String, ParameterSource>,
    /// True for an action whose result the agent gets at once, in a follow-up call.
    #[serde(default)]
    pub answers: bool,
    /// False for an action that is not available yet: prompts do not offer it, and requests for it are refused.
    #[serde(default = "available_by_default")]
    pub available: bool,
}

fn available_by_default() -> bool {
    true
}

/// Value of an operation's parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterSource {
    /// The value of a parameter of the action.
    Parameter(String),
    /// A fixed value.
    Value(serde_json::Value),
}

impl<'de> Deserialize<'de> for ParameterSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct FixedValue {
            value: serde_json::Value,
        }

        struct SourceVisitor;

        impl<'de> de::Visitor<'de> for SourceVisitor {
            type Value = ParameterSource;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("the name of a parameter, or {value: X}")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<ParameterSource, E> {
                Ok(ParameterSource::Parameter(name.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ParameterSource, A::Error> {
                let fixed = FixedValue::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(ParameterSource::Value(fixed.value))
            }
        }

        deserializer.deserialize_any(SourceVisitor)
    }
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

/// Definition of a mode in `pack.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeSpec {
    /// Shipped templates of the mode.
    #[serde(default)]
    pub templates: Vec<String>,
    /// Permission of the agent.
    pub permission: Permission,
    /// Mode whose work this one judges, preferably with an agent of another vendor.
    #[serde(default)]
    pub judges: Option<Mode>,
    /// Mode, perhaps of another pack, whose agent is used if none is set for this one.
    #[serde(default)]
    pub like: Option<Mode>,
    /// Verdicts that a reply may have.
    #[serde(default)]
    pub verdicts: Vec<ReviewResult>,
    /// True if a reply must have a verdict.
    #[serde(default)]
    pub verdict_required: bool,
    /// Markers of the pack that a reply must have.
    #[serde(default)]
    pub markers: Vec<String>,
    /// Condition for leaving the mode.
    #[serde(default)]
    pub gate: Option<ManifestRule>,
    /// True if the user must approve before the mode begins.
    #[serde(default)]
    pub approval: bool,
    /// Operation results of the previous mode after which the user must approve this mode, even with `--auto`.
    #[serde(default)]
    pub needs_person: IndexMap<OperationId, StepOutcome>,
    /// Mode to enter after the user objects; by default this mode.
    #[serde(default)]
    pub revise: Option<Mode>,
    /// File whose open questions are shown to the user if the session stays in the mode.
    #[serde(default)]
    pub questions: Option<String>,
    /// True if several agents may review in parallel; the most severe verdict wins.
    #[serde(default)]
    pub panel: bool,
    /// True if each task may be done in a separate turn.
    #[serde(default)]
    pub by_task: bool,
    /// Default request of a turn; `None` for the session's request.
    #[serde(default)]
    pub request: Option<String>,
    /// Required formats of the documents that a reply updates, by path pattern. If a document violates its
    /// format, the agent is asked to repair it.
    #[serde(default)]
    pub documents: IndexMap<String, Document>,
    /// Results by operation and outcome. If an operation has the outcome, the result replaces the result that the
    /// reply claims, unless the claimed one is worse.
    #[serde(default)]
    pub evidence: IndexMap<OperationId, IndexMap<StepOutcome, TurnResult>>,
    /// True if a reply reports the status of tasks.
    #[serde(default)]
    pub task_status: bool,
    /// Patterns of session artifacts that the prompt includes; `*` matches any name.
    #[serde(default)]
    pub artifacts: Vec<String>,
    /// True if every pattern of `artifacts` must match a file; a turn fails otherwise.
    #[serde(default)]
    pub artifacts_required: bool,
    /// Patterns of targets that a reply may update; `*` matches any name.
    #[serde(default)]
    pub updates: Vec<String>,
    /// Other files that a reply of an agent without tools may change.
    #[serde(default)]
    pub edits: Option<Edits>,
    /// Names of the files `skeletons/NAME.md` that replace `{{SKELETON}}` in the template.
    #[serde(default)]
    pub skeletons: Vec<String>,
    /// Variables that a template of this mode must use.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Words that a template of this mode must mention.
    #[serde(default)]
    pub focus: Vec<String>,
    /// Sentences that a template must have verbatim, by the template's name.
    #[serde(default)]
    pub sentences: IndexMap<String, Vec<String>>,
    /// Operations that run before the prompt is composed.
    #[serde(default)]
    pub before: Vec<OperationId>,
    /// Operations that run after the reply: some after every turn, others only if the reply requests them.
    #[serde(default)]
    pub after: Vec<OperationId>,
    /// Operations that run if the session ends successfully with the turn.
    #[serde(default)]
    pub finish: Vec<OperationId>,
    /// Next step by the result of a turn: a verdict, `FAILED`, or `otherwise`.
    pub next: IndexMap<TurnResult, NextTarget>,
}

impl ModeSpec {
    /// Returns true if `documents` has a format for a file.
    #[must_use]
    pub fn is_document(&self, name: &str) -> bool {
        self.documents
            .keys()
            .any(|pattern| matches_path(pattern, name))
    }

    /// Returns true if a session stays in this mode after `verdict`. `mode` is the name of this mode.
    #[must_use]
    pub fn stays_after(&self, mode: &Mode, verdict: ReviewResult) -> bool {
        self.next.get(&TurnResult::Verdict(verdict)) == Some(&NextTarget::Mode(mode.clone()))
    }
}

/// Format of a Markdown document that a reply writes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Document {
    /// Description of a change, its users and its reasons.
    Proposal,
    /// Requirements and scenarios.
    Spec,
    /// Numbered tasks with checkboxes.
    Tasks,
}

/// Scope of edits by replies of agents without tools.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Edits {
    /// Files of the working tree.
    Tree,
}

/// Next step of a session after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextTarget {
    /// Enter a mode, or stay in the same one.
    Mode(Mode),
    /// End with the goal reached.
    Done,
    /// End without reaching the goal.
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
