//! The tables `[review]`, `[change]` and `[modes.NAME]` of the settings.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::allowed_command::AllowedCommand;
use super::limits::{BoundedNumber, CallLimits, MAX_SECONDS};
use crate::models::{AgentName, Permission};
use crate::text::terminal::filter_terminal_text;

const MAX_COMMAND_BYTES: usize = 4_096;

/// Maximum number of rounds of a loop that can be set.
const MAX_ROUNDS: u64 = 20;

/// A command that checks the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckCommand {
    /// Name in reports; by default the command itself.
    pub name: String,
    /// One line for a shell.
    pub run: String,
    /// Timeout; `None` uses [`ReviewSettings::timeout`].
    pub timeout: Option<Duration>,
    /// Tool of a security scan. The scan is skipped, without a failure, if the tool is not on `PATH`.
    pub tool: Option<String>,
}

impl CheckCommand {
    /// Creates a check from a shell command.
    #[must_use]
    pub fn new(run: &str) -> Self {
        Self {
            name: run.to_owned(),
            run: run.to_owned(),
            timeout: None,
            tool: None,
        }
    }

    /// Creates a security scan from a shell command and the tool that it needs.
    #[must_use]
    pub fn scan(run: &str, tool: &str) -> Self {
        Self {
            tool: Some(tool.to_owned()),
            ..Self::new(run)
        }
    }
}

/// Checks of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewSettings {
    /// Checks to run; `None` detects them from the project's files.
    pub commands: Option<Vec<CheckCommand>>,
    /// Timeout of each check that does not set its own.
    pub timeout: Duration,
    /// Enables security scans.
    pub scans: bool,
    /// Names of secret variables that checks may see.
    pub env: Vec<String>,
    /// Patterns of files that need not be shown to the reviewer for a review to pass; `*` matches any part of a name.
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

/// Settings of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSettings {
    /// Maximum number of rounds of a loop; `None` uses the limit of the pack.
    pub rounds: Option<u32>,
    /// Number of tasks that are implemented in one turn.
    pub tasks: TaskPace,
    /// Agents that all challenge a plan; if empty, the agent of the mode does.
    pub challengers: Vec<AgentName>,
    /// Handling of the change's branch when the change is archived.
    pub finish: BranchFinish,
}

/// Number of a change's tasks that are implemented in one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskPace {
    /// All tasks in one turn.
    #[default]
    All,
    /// One turn per task.
    Each,
}

/// Handling of a change's branch when the change is archived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BranchFinish {
    /// The branch is merged.
    #[default]
    Merge,
    /// The branch is kept for a pull request.
    Branch,
}

/// Settings of one mode, except its agent and its commands. A field that is `None` keeps the general setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeSettings {
    /// Model of the mode's agent.
    pub model: Option<String>,
    /// Permission of agents in the mode; it can only be lower than that of the pack.
    pub permission: Option<Permission>,
    /// Maximum time of a call from start to end.
    pub wall: Option<Duration>,
    /// Maximum time of a call without output.
    pub idle: Option<Duration>,
}

impl ModeSettings {
    /// Returns the limits with the timeouts of the mode in place of the general ones.
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
pub(super) struct ReviewTable {
    commands: Option<Vec<CheckEntry>>,
    timeout_seconds: Option<BoundedNumber<1, MAX_SECONDS>>,
    scans: Option<bool>,
    env: Option<Vec<VariableName>>,
    accept_unshown: Option<Vec<String>>,
}

impl ReviewTable {
    /// Overwrites the review settings that this table sets.
    pub(super) fn overlay(self, review: &mut ReviewSettings) {
        if let Some(commands) = self.commands {
            review.commands = Some(commands.into_iter().map(|entry| entry.0).collect());
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

/// Name of one variable. Patterns are refused: they could match more secrets than intended.
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
        Err(format!(
            "invalid variable name {name:?}: expected letters, digits and `_`"
        ))
    }
}

/// A check in the settings: a command, or a table with `run`.
#[derive(Debug)]
struct CheckEntry(CheckCommand);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckTable {
    name: Option<ReadableLine>,
    run: ReadableLine,
    timeout_seconds: Option<BoundedNumber<1, MAX_SECONDS>>,
}

/// One line of text without control sequences, so that the user sees exactly the text that is used.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct ReadableLine(String);

impl TryFrom<String> for ReadableLine {
    type Error = String;

    fn try_from(line: String) -> Result<Self, String> {
        let is_readable = !line.trim().is_empty()
            && !line.contains(['\n', '\r'])
            && filter_terminal_text(&line) == line;
        if is_readable && line.len() <= MAX_COMMAND_BYTES {
            return Ok(Self(line));
        }
        Err(format!(
            "invalid text {line:?}: expected one line of printable text, at most {MAX_COMMAND_BYTES} bytes"
        ))
    }
}

impl<'de> Deserialize<'de> for CheckEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CheckVisitor;

        impl<'de> Visitor<'de> for CheckVisitor {
            type Value = CheckEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command, or a table with `run`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<CheckEntry, E> {
                let line = ReadableLine::try_from(text.to_owned()).map_err(E::custom)?;
                Ok(CheckEntry(CheckCommand::new(&line.0)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CheckEntry, A::Error> {
                let table = CheckTable::deserialize(MapAccessDeserializer::new(map))?;
                let mut check = CheckCommand::new(&table.run.0);
                check.name = table.name.map_or(check.name, |name| name.0);
                check.timeout = table
                    .timeout_seconds
                    .map(|seconds| Duration::from_secs(seconds.0));
                Ok(CheckEntry(check))
            }
        }

        deserializer.deserialize_any(CheckVisitor)
    }
}

/// The table `[change]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeTable {
    rounds: Option<BoundedNumber<1, MAX_ROUNDS>>,
    tasks: Option<TaskPace>,
    challengers: Option<Challengers>,
    finish: Option<BranchFinish>,
}

impl ChangeTable {
    /// Overwrites the change settings that this table sets.
    pub(super) fn overlay(self, change: &mut ChangeSettings) {
        // `MAX_ROUNDS` fits into u32, so the conversion cannot fail.
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

/// Agents that challenge a plan, without duplicates.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Vec<AgentNameEntry>")]
struct Challengers(Vec<AgentName>);

impl TryFrom<Vec<AgentNameEntry>> for Challengers {
    type Error = String;

    fn try_from(entries: Vec<AgentNameEntry>) -> Result<Self, String> {
        let mut names: Vec<AgentName> = Vec::new();
        for AgentNameEntry(name) in entries {
            if names.contains(&name) {
                return Err(format!("duplicate agent `{name}` in `challengers`"));
            }
            names.push(name);
        }
        Ok(Self(names))
    }
}

/// An agent's name that is checked while the settings are read.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct AgentNameEntry(pub(super) AgentName);

impl TryFrom<String> for AgentNameEntry {
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
pub(super) struct ModeTable {
    pub(super) agent: Option<AgentNameEntry>,
    pub(super) commands: Option<Vec<AllowedCommand>>,
    model: Option<ModelName>,
    permission: Option<LoweredPermission>,
    wall_seconds: Option<BoundedNumber<1, MAX_SECONDS>>,
    idle_seconds: Option<BoundedNumber<1, MAX_SECONDS>>,
}

/// Permission that settings can set: only the lowest one, so that settings never extend the permission of a pack.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LoweredPermission {
    ReadOnly,
}

/// Name of a model that is passed to agents as an argument.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct ModelName(String);

impl TryFrom<String> for ModelName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let problem = if name.is_empty() {
            "it is empty"
        } else if name.starts_with('-') {
            // A command would take it for a flag.
            "it starts with `-`"
        } else if name.trim() != name {
            "it starts or ends with a space"
        } else if filter_terminal_text(&name) != name {
            "it contains control characters"
        } else {
            return Ok(Self(name));
        };
        Err(format!("invalid model name {name:?}: {problem}"))
    }
}

impl ModeTable {
    /// Overwrites the settings of the mode that this table sets.
    pub(super) fn overlay(&self, mode: &mut ModeSettings) {
        let seconds = |number: BoundedNumber<1, MAX_SECONDS>| Duration::from_secs(number.0);
        mode.model = self
            .model
            .as_ref()
            .map(|model| model.0.clone())
            .or(mode.model.take());
        mode.permission = self
            .permission
            .map(|LoweredPermission::ReadOnly| Permission::ReadOnly)
            .or(mode.permission);
        mode.wall = self.wall_seconds.map(seconds).or(mode.wall);
        mode.idle = self.idle_seconds.map(seconds).or(mode.idle);
    }
}
