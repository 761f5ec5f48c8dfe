//! The project's own checks, and how changes are led: the tables `[review]`, `[change]` and `[modes.NAME]`.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::command_words::CommandWords;
use super::limits::{CallLimits, Within, YEAR};
use crate::models::{AgentName, Permission};
use crate::text::terminal::filter_terminal_text;

/// The longest command of a check.
const LONGEST: usize = 4_096;

/// The most rounds of a loop.
const MOST_ROUNDS: u64 = 20;

/// A command that checks the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckCommand {
    /// What it goes by; the command itself, unless something else is said.
    pub name: String,
    /// The command, one line for a shell.
    pub run: String,
    /// How long it may take, if not as long as all others.
    pub timeout: Option<Duration>,
    /// The tool of a security scan: without it on PATH the scan is not run, which is no failure.
    pub tool: Option<String>,
}

impl CheckCommand {
    /// Makes a check of a command.
    #[must_use]
    pub fn new(run: &str) -> Self {
        Self {
            name: run.to_owned(),
            run: run.to_owned(),
            timeout: None,
            tool: None,
        }
    }

    /// Makes a security scan of a command and the tool that it needs.
    #[must_use]
    pub fn scan(run: &str, tool: &str) -> Self {
        Self {
            tool: Some(tool.to_owned()),
            ..Self::new(run)
        }
    }
}

/// What a review runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewSettings {
    /// The project's own checks; without them they are looked for.
    pub commands: Option<Vec<CheckCommand>>,
    /// How long a check may take.
    pub timeout: Duration,
    /// Whether security scans are run.
    pub scans: bool,
    /// Names of secret variables that checks see all the same.
    pub env: Vec<String>,
    /// Patterns of files that a review may pass without having been shown them; `*` matches any part of a name.
    pub accept_unshown: Vec<String>,
}

impl Default for ReviewSettings {
    fn default() -> Self {
        Self {
            commands: None,
            timeout: Duration::from_secs(15 * 60),
            scans: true,
            accept_unshown: Vec::new(),
            env: Vec::new(),
        }
    }
}

/// How changes are led.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSettings {
    /// How often a loop may be gone through; without it, as often as the pack says.
    pub rounds: Option<u32>,
    /// Whether the tasks of a change are implemented at once or one by one.
    pub tasks: TaskPace,
    /// The agents that challenge a plan, all of them; none leaves it to the mode's own.
    pub challengers: Vec<AgentName>,
    /// What becomes of a change's branch.
    pub finish: Finish,
}

/// Whether the tasks of a change are implemented at once or one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskPace {
    /// All of them in one turn.
    #[default]
    All,
    /// Each in a turn of its own.
    Each,
}

/// What becomes of a change's branch when the change is archived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// It is merged.
    #[default]
    Merge,
    /// It is left for a pull request.
    Branch,
}

/// What is set for one mode beside its agent and its commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeSettings {
    /// The model that the mode's own agent is asked for.
    pub model: Option<String>,
    /// What agents may do in it, if that is less than the pack allows.
    pub permission: Option<Permission>,
    /// How long a call may take from start to end.
    pub wall: Option<Duration>,
    /// How long a call may take without a byte of output.
    pub idle: Option<Duration>,
}

impl ModeSettings {
    /// Returns limits with those of the mode in their places.
    #[must_use]
    pub fn limits(&self, limits: CallLimits) -> CallLimits {
        CallLimits {
            wall: self.wall.unwrap_or(limits.wall),
            idle: self.idle.unwrap_or(limits.idle),
            ..limits
        }
    }
}

/// The table `[review]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenReview {
    commands: Option<Vec<WrittenCheck>>,
    timeout_seconds: Option<Within<1, YEAR>>,
    scans: Option<bool>,
    env: Option<Vec<VariableName>>,
    accept_unshown: Option<Vec<String>>,
}

impl WrittenReview {
    /// Puts what is written in place of what held before.
    pub(super) fn overlay(self, review: &mut ReviewSettings) {
        if let Some(commands) = self.commands {
            review.commands = Some(commands.into_iter().map(|written| written.0).collect());
        }
        review.timeout = self
            .timeout_seconds
            .map_or(review.timeout, |seconds| Duration::from_secs(seconds.0));
        review.scans = self.scans.unwrap_or(review.scans);
        if let Some(accept_unshown) = self.accept_unshown {
            review.accept_unshown = accept_unshown;
        }
        if let Some(env) = self.env {
            review.env = env.into_iter().map(|name| name.0).collect();
        }
    }
}

/// The name of one variable; a pattern could let more through than someone thought of.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct VariableName(String);

impl TryFrom<String> for VariableName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_usable = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.is_empty() && name.chars().all(is_usable) {
            return Ok(Self(name));
        }
        Err(format!("{name:?} is not the name of a variable"))
    }
}

/// A check as it is written: its command, or a table.
#[derive(Debug)]
struct WrittenCheck(CheckCommand);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckTable {
    name: Option<Line>,
    run: Line,
    timeout_seconds: Option<Within<1, YEAR>>,
}

/// One line that a person can read as it is.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Line(String);

impl TryFrom<String> for Line {
    type Error = String;

    fn try_from(line: String) -> Result<Self, String> {
        let readable = !line.trim().is_empty()
            && !line.contains(['\n', '\r'])
            && filter_terminal_text(&line) == line;
        if readable && line.len() <= LONGEST {
            return Ok(Self(line));
        }
        Err(format!(
            "{line:?} is not one readable line of at most {LONGEST} bytes"
        ))
    }
}

impl<'de> Deserialize<'de> for WrittenCheck {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = WrittenCheck;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command, or a table with `run`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<WrittenCheck, E> {
                let line = Line::try_from(text.to_owned()).map_err(E::custom)?;
                Ok(WrittenCheck(CheckCommand::new(&line.0)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WrittenCheck, A::Error> {
                let table = CheckTable::deserialize(MapAccessDeserializer::new(map))?;
                let mut check = CheckCommand::new(&table.run.0);
                check.name = table.name.map_or(check.name, |name| name.0);
                check.timeout = table
                    .timeout_seconds
                    .map(|seconds| Duration::from_secs(seconds.0));
                Ok(WrittenCheck(check))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// The table `[change]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenChange {
    rounds: Option<Within<1, MOST_ROUNDS>>,
    tasks: Option<TaskPace>,
    challengers: Option<Challengers>,
    finish: Option<Finish>,
}

impl WrittenChange {
    /// Puts what is written in place of what held before.
    pub(super) fn overlay(self, change: &mut ChangeSettings) {
        // No number of rounds is too large for this.
        change.rounds = self
            .rounds
            .and_then(|rounds| u32::try_from(rounds.0).ok())
            .or(change.rounds);
        change.tasks = self.tasks.unwrap_or(change.tasks);
        change.finish = self.finish.unwrap_or(change.finish);
        if let Some(challengers) = self.challengers {
            change.challengers = challengers.0;
        }
    }
}

/// The agents that challenge a plan, none of them twice.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Vec<WrittenAgent>")]
struct Challengers(Vec<AgentName>);

impl TryFrom<Vec<WrittenAgent>> for Challengers {
    type Error = String;

    fn try_from(written: Vec<WrittenAgent>) -> Result<Self, String> {
        let mut names: Vec<AgentName> = Vec::new();
        for WrittenAgent(name) in written {
            if names.contains(&name) {
                return Err(format!("`{name}` is named twice"));
            }
            names.push(name);
        }
        Ok(Self(names))
    }
}

/// The name of an agent.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct WrittenAgent(pub(super) AgentName);

impl TryFrom<String> for WrittenAgent {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        AgentName::new(name)
            .map(Self)
            .map_err(|error| error.message().to_owned())
    }
}

/// A table `[modes.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenMode {
    pub(super) agent: Option<WrittenAgent>,
    pub(super) commands: Option<Vec<CommandWords>>,
    model: Option<WrittenModel>,
    permission: Option<Lowered>,
    wall_seconds: Option<Within<1, YEAR>>,
    idle_seconds: Option<Within<1, YEAR>>,
}

/// A permission that no pack's is below.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Lowered {
    ReadOnly,
}

/// The name of a model, which agents take as an argument.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct WrittenModel(String);

impl TryFrom<String> for WrittenModel {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        // What begins like a flag would be taken for one.
        if name.trim() == name
            && !name.is_empty()
            && !name.starts_with('-')
            && filter_terminal_text(&name) == name
        {
            return Ok(Self(name));
        }
        Err(format!("{name:?} is not a model's name"))
    }
}

impl WrittenMode {
    /// Puts what is written in place of what held before.
    pub(super) fn overlay(&self, mode: &mut ModeSettings) {
        let seconds = |number: Within<1, YEAR>| Duration::from_secs(number.0);
        mode.model = self
            .model
            .as_ref()
            .map(|model| model.0.clone())
            .or(mode.model.take());
        mode.permission = self
            .permission
            .map(|Lowered::ReadOnly| Permission::ReadOnly)
            .or(mode.permission);
        mode.wall = self.wall_seconds.map(seconds).or(mode.wall);
        mode.idle = self.idle_seconds.map(seconds).or(mode.idle);
    }
}
