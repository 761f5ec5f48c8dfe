//! Definition of an agent that is a command: its arguments, its environment and the format of its output.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::argument::{Argument, OneOrMoreTexts};
use super::{EventCondition, EventRule, JsonPath, NamePattern, Switch};
use crate::models::{CallOutcome, Permission, PromptExpansion};

/// Definition of an agent that is a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// Name of the agent, which is its key in agents.yaml.
    #[serde(skip)]
    pub name: String,
    /// The command and its arguments.
    pub argv: Vec<Argument>,
    /// Way in which the command receives the prompt.
    #[serde(default)]
    pub prompt: PromptDelivery,
    /// Default model, for the placeholder `{model}`.
    pub model: Option<String>,
    /// True if the agent can read and edit files with its own tools.
    #[serde(default = "default_true")]
    pub tools: bool,
    /// Variables that this agent may see, in addition to those for all agents.
    #[serde(default)]
    pub environment: Vec<NamePattern>,
    /// Variables that the agent may never see; takes precedence over `environment`.
    #[serde(default)]
    pub unset: Vec<NamePattern>,
    /// Variables that are always set for the agent.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Arguments that enforce a permission; they replace `{permissions}` in `argv`.
    pub permissions: Option<Permissions>,
    /// Switches for the agent's own settings. `{name}` in `argv` is replaced by the arguments of a switch.
    #[serde(default)]
    pub switches: BTreeMap<String, Switch>,
    /// Project files whose instructions the agent follows by itself. The user must trust them first. A path that ends
    /// with `/` means all files below that folder.
    #[serde(default)]
    pub obeys: Vec<String>,
    /// Syntax that the agent would expand in a prompt.
    #[serde(default)]
    pub expands: Vec<PromptExpansion>,
    /// Maximum prompt length in characters; `None` if there is no limit.
    pub max_characters: Option<u64>,
    /// Maximum prompt length in bytes; `None` if there is no limit.
    pub max_bytes: Option<u64>,
    /// Arguments with which the command prints its version; empty if it cannot.
    #[serde(default)]
    pub version: Vec<String>,
    /// Version that this definition was tested with.
    pub tried_with: Option<String>,
    /// Format of the output.
    #[serde(default)]
    pub output: OutputSpec,
    /// Rules that classify failures of this agent; they come before the rules for all agents.
    #[serde(default)]
    pub ends: Vec<OutcomeRule>,
    /// Vendor of the agent's models; `None` if there are several.
    pub vendor: Option<String>,
    /// Extent to which this definition was tested.
    #[serde(default)]
    pub tried: TestExtent,
}

/// Extent to which the authors of a definition have tested it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestExtent {
    /// Not stated in the definition.
    #[default]
    Unknown,
    /// Written from documentation only.
    Documented,
    /// The agent was installed and its help text was read.
    Help,
    /// The agent ran against a scripted server.
    Ran,
    /// Every outcome of a call was measured against a scripted server.
    Measured,
}

/// Way in which an agent receives its prompt.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptDelivery {
    /// The prompt is written to stdin.
    #[default]
    Stdin,
    /// The prompt is in a file whose path replaces `{prompt_file}` in the arguments; stdin is empty.
    File,
}

/// Arguments that enforce each permission.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Permissions {
    /// Arguments that disable all tools. If `None`, a call without tools uses `read_only`.
    pub no_tools: Option<Vec<Argument>>,
    /// Arguments that allow reading only.
    pub read_only: Option<Vec<Argument>>,
    /// Arguments that allow editing the working tree.
    pub edit: Option<Vec<Argument>>,
    /// Argument that allows one command, added to `edit` for each allowed command.
    pub command: Option<Argument>,
}

impl Permissions {
    /// Returns the arguments for a permission; `None` if the agent has none to enforce it.
    #[must_use]
    pub fn arguments(&self, permission: Permission) -> Option<&[Argument]> {
        match permission {
            Permission::ReadOnly => self.read_only.as_deref(),
            Permission::Edit => self.edit.as_deref(),
        }
    }
}

/// Format of an agent's output.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// Syntax of the output.
    #[serde(default)]
    pub kind: OutputKind,
    /// Rules that find the text of the reply.
    #[serde(default)]
    pub text: Vec<EventRule>,
    /// Separator between two parts of the reply.
    #[serde(default)]
    pub join: String,
    /// Condition on the event that completes a reply.
    #[serde(default, rename = "final")]
    pub last: EventCondition,
    /// Rules that find the error messages of a failure.
    #[serde(default)]
    pub error: Vec<EventRule>,
    /// Conditions on events that show a tool call; `None` if the output does not show tool calls.
    pub tools: Option<Vec<EventCondition>>,
    /// Paths of token counts and cost.
    #[serde(default)]
    pub usage: UsageSpec,
    /// Exit codes that mean success.
    #[serde(default = "default_exit_codes")]
    pub exit_codes: Vec<i32>,
}

fn default_true() -> bool {
    true
}

fn default_exit_codes() -> Vec<i32> {
    vec![0]
}

impl Default for OutputSpec {
    fn default() -> Self {
        Self {
            kind: OutputKind::Text,
            text: Vec::new(),
            join: String::new(),
            last: EventCondition::default(),
            error: Vec::new(),
            tools: None,
            usage: UsageSpec::default(),
            exit_codes: default_exit_codes(),
        }
    }
}

/// Syntax of an agent's output.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputKind {
    /// Plain text: the reply and nothing else.
    #[default]
    Text,
    /// One JSON value, an event or a list of events; if there are several values, the last one is used.
    Json,
    /// One JSON event per line.
    Jsonl,
}

/// Paths of token counts and cost in an agent's events. Several values of one kind are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageSpec {
    /// Condition on the events whose usage is added up; `None` reads usage from the final event only.
    pub when: Option<EventCondition>,
    /// Prompt tokens.
    pub input: Option<PathList>,
    /// Prompt tokens that were read from a cache.
    pub cache_read: Option<PathList>,
    /// Prompt tokens that were written to a cache.
    pub cache_write: Option<PathList>,
    /// Reply tokens.
    pub output: Option<PathList>,
    /// Reply tokens that were spent on reasoning.
    pub reasoning: Option<PathList>,
    /// Cost in US dollars.
    pub cost_dollars: Option<PathList>,
    /// True if `input` includes the tokens of `cache_read`.
    #[serde(default)]
    pub input_includes_cache: bool,
}

/// One or several paths; written as a string or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathList(pub Vec<JsonPath>);

/// A rule that classifies a failed call. It applies if both a phrase and the exit code match.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeRule {
    /// Outcome of the call. Details such as a retry delay are read from the agent's message.
    #[serde(deserialize_with = "CallOutcome::deserialize_reported")]
    pub end: CallOutcome,
    /// Phrases, one of which must occur as whole words, ignoring case; an empty list matches every message.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Outputs in which the phrases are searched.
    #[serde(default = "all_sources", rename = "in")]
    pub places: Vec<FailureSource>,
    /// Exit codes, one of which must match; an empty list matches every exit.
    #[serde(default)]
    pub exit_codes: Vec<i32>,
}

fn all_sources() -> Vec<FailureSource> {
    vec![FailureSource::Error, FailureSource::Stderr]
}

/// Text in which an agent reports a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureSource {
    /// The error message in the agent's output, or the end of the output if there is no message.
    Error,
    /// The end of stderr.
    Stderr,
}

impl<'de> Deserialize<'de> for PathList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = deserializer.deserialize_any(OneOrMoreTexts)?;
        let paths = texts
            .into_iter()
            .map(JsonPath::new)
            .collect::<Result<Vec<_>, String>>();
        paths.map(Self).map_err(de::Error::custom)
    }
}

impl AgentSpec {
    /// Returns the command without its arguments; empty if there is none.
    #[must_use]
    pub fn command(&self) -> &str {
        self.argv
            .first()
            .and_then(|command| command.0.first())
            .map_or("", String::as_str)
    }

    /// Returns a message about the first problem of the definition; `None` if it is valid.
    pub(super) fn find_problem(&self) -> Option<String> {
        self.find_command_problem()
            .or_else(|| self.find_output_problem())
            .or_else(|| self.find_variable_problem())
    }

    fn find_variable_problem(&self) -> Option<String> {
        let is_invalid = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        let name = self.set.keys().find(is_invalid)?;
        Some(format!("invalid variable name {name:?} under `set`"))
    }

    fn find_command_problem(&self) -> Option<String> {
        let Some(Argument(command)) = self.argv.first() else {
            return Some("`argv` is empty".to_owned());
        };
        if !matches!(&command[..], [command] if !command.is_empty() && !command.contains('{')) {
            return Some(format!(
                "the first item of `argv` must be the command, without placeholders, not {:?}",
                command.join(" ")
            ));
        }

        let allow_command = self
            .permissions
            .as_ref()
            .and_then(|permissions| permissions.command.as_ref());
        if let Some(argument) =
            allow_command.filter(|argument| !argument.has_placeholder("command"))
        {
            return Some(format!(
                "`command` of `permissions` has no `{{command}}`: {}",
                argument.0.join(" ")
            ));
        }

        let permission_arguments: Vec<&Argument> = self
            .permissions
            .iter()
            .flat_map(|permissions| {
                [
                    &permissions.no_tools,
                    &permissions.read_only,
                    &permissions.edit,
                ]
            })
            .flatten()
            .flatten()
            .collect();
        let all_arguments: Vec<&Argument> = self
            .argv
            .iter()
            .chain(permission_arguments.iter().copied())
            .chain(self.switches.values().flat_map(Switch::arguments))
            .collect();
        let is_switch = |name: &str| self.switches.contains_key(name);
        let placeholder_problem = all_arguments
            .iter()
            .find_map(|argument| argument.find_problem(&is_switch, false))
            .or_else(|| allow_command?.find_problem(&is_switch, true));
        if placeholder_problem.is_some() {
            return placeholder_problem;
        }

        if let Some(name) = self.find_unplaced_switch() {
            return Some(format!(
                "switch `{name}` has arguments, but `{{{name}}}` is not in `argv`"
            ));
        }

        if permission_arguments
            .iter()
            .any(|argument| argument.is_permissions())
        {
            return Some("`{permissions}` is not allowed in `permissions`".to_owned());
        }
        let has_placeholder = self.argv.iter().any(Argument::is_permissions);
        match (&self.permissions, has_placeholder) {
            (Some(_), false) => {
                return Some("`permissions` is set, but `argv` has no `{permissions}`".to_owned());
            }
            (None, true) => {
                return Some("`argv` has `{permissions}`, but `permissions` is not set".to_owned());
            }
            (Some(_), true) | (None, false) => {}
        }

        let has_prompt_file = all_arguments
            .iter()
            .any(|argument| argument.has_placeholder("prompt_file"));
        match (self.prompt, has_prompt_file) {
            (PromptDelivery::File, false) => {
                Some("`prompt: file` is set, but `argv` has no `{prompt_file}`".to_owned())
            }
            (PromptDelivery::Stdin, true) => {
                Some("`argv` has `{prompt_file}`, but `prompt: file` is not set".to_owned())
            }
            (PromptDelivery::File, true) | (PromptDelivery::Stdin, false) => None,
        }
    }

    /// Returns a switch that has arguments but no placeholder in `argv`.
    fn find_unplaced_switch(&self) -> Option<&String> {
        let is_placed = |name: &String| {
            self.argv
                .iter()
                .any(|argument| argument.0 == [format!("{{{name}}}")])
        };
        self.switches
            .iter()
            .filter(|(_, switch)| switch.arguments().next().is_some())
            .map(|(name, _)| name)
            .find(|name| !is_placed(name))
    }

    fn find_output_problem(&self) -> Option<String> {
        let output = &self.output;
        let rules = self.ends.iter().find_map(OutcomeRule::find_problem);
        match output.kind {
            OutputKind::Text => {
                let plain = OutputSpec {
                    exit_codes: output.exit_codes.clone(),
                    ..OutputSpec::default()
                };
                (*output != plain)
                    .then(|| "`output` of kind `text` allows only `exit_codes`".to_owned())
            }
            OutputKind::Json | OutputKind::Jsonl if output.text.is_empty() => {
                Some("`output` needs `text`: rules that find the reply in the JSON".to_owned())
            }
            OutputKind::Jsonl if output.last.is_empty() => {
                Some("`output` needs `final`: a condition that matches the last event".to_owned())
            }
            OutputKind::Json | OutputKind::Jsonl
                if output.tools.iter().flatten().any(EventCondition::is_empty) =>
            {
                Some("a condition under `tools` is empty and would match every event".to_owned())
            }
            OutputKind::Json | OutputKind::Jsonl => None,
        }
        .or(rules)
    }
}

impl OutcomeRule {
    /// Returns a message if the rule would match every failure.
    pub(super) fn find_problem(&self) -> Option<String> {
        let is_unconditional = self.contains.is_empty() && self.exit_codes.is_empty();
        is_unconditional.then(|| "a rule of `ends` needs `contains` or `exit_codes`".to_owned())
    }
}
