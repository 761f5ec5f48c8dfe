//! What is known of an agent that is a command: how it is started, and how its output is read.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::argument::{Argument, OneOrMore};
use super::{EventRule, JsonPath, NamePattern, Switch, When};
use crate::models::{CallOutcome, Expands, Permission};

/// A command that is an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// Its name.
    #[serde(skip)]
    pub name: String,
    /// The command and its arguments.
    pub argv: Vec<Argument>,
    /// How the prompt gets to it.
    #[serde(default)]
    pub prompt: PromptWay,
    /// The model that it is asked for unless another is named.
    pub model: Option<String>,
    /// Whether it has tools of its own to read and edit files with.
    #[serde(default = "yes")]
    pub tools: bool,
    /// Variables that it may see beside those that every agent may.
    #[serde(default)]
    pub environment: Vec<NamePattern>,
    /// Variables that it may not see, whatever else is said.
    #[serde(default)]
    pub unset: Vec<NamePattern>,
    /// Variables that it always gets.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Arguments that hold it to a permission, in the place of `{permissions}`.
    pub permissions: Option<Permissions>,
    /// What of its own settings it follows; `{name}` in `argv` stands for a switch's arguments.
    #[serde(default)]
    pub switches: BTreeMap<String, Switch>,
    /// Files of a project that it follows by itself, and that must have been accepted first; with a `/` at the end, all
    /// files below a folder.
    #[serde(default)]
    pub obeys: Vec<String>,
    /// What it would make of a prompt by itself.
    #[serde(default)]
    pub expands: Vec<Expands>,
    /// The longest prompt that it takes, in characters.
    pub max_characters: Option<u64>,
    /// The longest prompt that it takes, in bytes.
    pub max_bytes: Option<u64>,
    /// Arguments with which the command tells its version.
    #[serde(default)]
    pub version: Vec<String>,
    /// The version that it was tried with.
    pub tried_with: Option<String>,
    /// How its output is read.
    #[serde(default)]
    pub output: OutputSpec,
    /// How its failures are told apart, before what holds for every agent.
    #[serde(default)]
    pub ends: Vec<EndRule>,
    /// Who makes its models, if that is one.
    pub vendor: Option<String>,
    /// How far it was tried.
    #[serde(default)]
    pub tried: Tried,
}

/// How far something was tried by those who have described it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tried {
    /// Nothing is said.
    #[default]
    Unknown,
    /// It was only read about.
    Documented,
    /// It was installed, and its help read.
    Help,
    /// It ran against a scripted server.
    Ran,
    /// Every way in which it ends was measured against a scripted server.
    Measured,
}

/// How a prompt gets to an agent.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptWay {
    /// It reads the prompt from its standard input.
    #[default]
    Stdin,
    /// It reads the file that `{prompt_file}` names; its standard input is empty.
    File,
}

/// The arguments that hold an agent to each permission.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Permissions {
    /// It may use no tools; without these arguments, such a call is given those for reading.
    pub no_tools: Option<Vec<Argument>>,
    /// It may read.
    pub read_only: Option<Vec<Argument>>,
    /// It may edit the work tree.
    pub edit: Option<Vec<Argument>>,
    /// It may run a command as well: behind those of `edit`, once for each command.
    pub command: Option<Argument>,
}

impl Permissions {
    /// Returns the arguments for a permission; `None` if the agent cannot be held to it.
    #[must_use]
    pub fn arguments(&self, permission: Permission) -> Option<&[Argument]> {
        match permission {
            Permission::ReadOnly => self.read_only.as_deref(),
            Permission::Edit => self.edit.as_deref(),
        }
    }
}

/// How an agent's output is read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// What it consists of.
    #[serde(default)]
    pub kind: OutputKind,
    /// Where the reply's text stands.
    #[serde(default)]
    pub text: Vec<EventRule>,
    /// What is put between two texts.
    #[serde(default)]
    pub join: String,
    /// The event with which the agent says that it came to its end.
    #[serde(default, rename = "final")]
    pub last: When,
    /// The events that say that it failed, and where they say why.
    #[serde(default)]
    pub error: Vec<EventRule>,
    /// The events that show that it called a tool; `None` if it is not known how that shows.
    pub tools: Option<Vec<When>>,
    /// Where it tells what it used.
    #[serde(default)]
    pub usage: UsageSpec,
    /// The exit codes that a good end may have.
    #[serde(default = "zero")]
    pub exit_codes: Vec<i32>,
}

fn yes() -> bool {
    true
}

fn zero() -> Vec<i32> {
    vec![0]
}

impl Default for OutputSpec {
    fn default() -> Self {
        Self {
            kind: OutputKind::Text,
            text: Vec::new(),
            join: String::new(),
            last: When::default(),
            error: Vec::new(),
            tools: None,
            usage: UsageSpec::default(),
            exit_codes: zero(),
        }
    }
}

/// What an agent's output consists of.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputKind {
    /// The reply and nothing else.
    #[default]
    Text,
    /// A JSON value, the last one if there are several: an event, or a list of them.
    Json,
    /// An event on each line.
    Jsonl,
}

/// Where an agent tells what it used; several places are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageSpec {
    /// The events that tell it, added up; the final one if nothing is said.
    pub when: Option<When>,
    /// Tokens of the prompt.
    pub input: Option<PathList>,
    /// Tokens of the prompt that came from a cache.
    pub cache_read: Option<PathList>,
    /// Tokens of the prompt that were put into a cache.
    pub cache_write: Option<PathList>,
    /// Tokens of the reply.
    pub output: Option<PathList>,
    /// Tokens of the reply that were thoughts.
    pub reasoning: Option<PathList>,
    /// What it cost, in US dollars.
    pub cost_dollars: Option<PathList>,
    /// Whether `input` counts the tokens of `cache_read` too.
    #[serde(default)]
    pub input_includes_cache: bool,
}

/// One path or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathList(pub Vec<JsonPath>);

/// How a failure is told from others: what it is if everything named here fits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndRule {
    /// Outcome of the call, without its details: those come from the agent's words.
    #[serde(deserialize_with = "CallOutcome::deserialize_reported")]
    pub end: CallOutcome,
    /// Words of which one must stand there, as whole words; case does not matter.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Where they must stand.
    #[serde(default = "everywhere", rename = "in")]
    pub places: Vec<WordPlace>,
    /// Exit codes of which it must have one.
    #[serde(default)]
    pub exit_codes: Vec<i32>,
}

fn everywhere() -> Vec<WordPlace> {
    vec![WordPlace::Error, WordPlace::Stderr]
}

/// Where an agent speaks of its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WordPlace {
    /// In what its output says of the error; if it says nothing, at the end of its output.
    Error,
    /// At the end of its standard error.
    Stderr,
}

impl<'de> Deserialize<'de> for PathList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = deserializer.deserialize_any(OneOrMore)?;
        let paths = texts
            .into_iter()
            .map(JsonPath::new)
            .collect::<Result<Vec<_>, String>>();
        paths.map(Self).map_err(de::Error::custom)
    }
}

impl AgentSpec {
    /// Returns the command, without its arguments.
    #[must_use]
    pub fn command(&self) -> &str {
        self.argv
            .first()
            .and_then(|command| command.0.first())
            .map_or("", String::as_str)
    }

    /// Returns what is wrong with a definition, in words.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault_of_command()
            .or_else(|| self.fault_of_output())
            .or_else(|| {
                let names = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
                self.set
                    .keys()
                    .find(names)
                    .map(|name| format!("{name:?} cannot be set: it is no variable's name"))
            })
    }

    fn fault_of_command(&self) -> Option<String> {
        let Some(Argument(command)) = self.argv.first() else {
            return Some("`argv` is empty".to_owned());
        };
        if !matches!(&command[..], [command] if !command.is_empty() && !command.contains('{')) {
            return Some("the first of `argv` is the command: one plain text".to_owned());
        }
        let permissions = self.permissions.iter();
        let permissions = permissions
            .flat_map(|given| [&given.no_tools, &given.read_only, &given.edit])
            .flatten();
        let command = self.permissions.iter().flat_map(|given| &given.command);
        if let Some(argument) = command.clone().find(|argument| !argument.names("command")) {
            return Some(format!(
                "`command` of `permissions` lacks `{{command}}`: {}",
                argument.0.join(" ")
            ));
        }
        let switched = || self.switches.values().flat_map(Switch::arguments);
        let switches = |name: &str| self.switches.contains_key(name);
        let all = || {
            self.argv
                .iter()
                .chain(permissions.clone().flatten())
                .chain(switched())
        };
        if let Some(fault) = all().find_map(|argument| argument.fault(&switches, false)) {
            return Some(fault);
        }
        if let Some(fault) = command
            .clone()
            .find_map(|argument| argument.fault(&switches, true))
        {
            return Some(fault);
        }
        let placed = |name: &&String| {
            !self
                .argv
                .iter()
                .any(|argument| argument.0 == [format!("{{{name}}}")])
        };
        let idle = self
            .switches
            .iter()
            .filter(|(_, switch)| switch.arguments().next().is_some());
        if let Some(name) = idle.map(|(name, _)| name).find(placed) {
            return Some(format!(
                "the switch `{name}` has arguments, and `{{{name}}}` is not in `argv`"
            ));
        }
        if permissions.clone().flatten().any(Argument::is_permissions) {
            return Some("`{permissions}` cannot stand in `permissions`".to_owned());
        }
        let named = self.argv.iter().any(Argument::is_permissions);
        if named != self.permissions.is_some() {
            return Some("`permissions` and `{permissions}` in `argv` need each other".to_owned());
        }
        if all().any(|argument| argument.names("prompt_file")) != (self.prompt == PromptWay::File) {
            return Some("`prompt: file` and `{prompt_file}` in `argv` need each other".to_owned());
        }
        None
    }

    fn fault_of_output(&self) -> Option<String> {
        let output = &self.output;
        let rules = self.ends.iter().find_map(EndRule::fault);
        match output.kind {
            OutputKind::Text => {
                let plain = OutputSpec {
                    exit_codes: output.exit_codes.clone(),
                    ..OutputSpec::default()
                };
                (*output != plain).then(|| {
                    "output of the kind `text` has `exit_codes` and nothing else".to_owned()
                })
            }
            OutputKind::Json | OutputKind::Jsonl if output.text.is_empty() => {
                Some("`output` does not say where its `text` stands".to_owned())
            }
            OutputKind::Jsonl if output.last.is_empty() => {
                Some("`output` does not say which event is the `final` one".to_owned())
            }
            OutputKind::Json | OutputKind::Jsonl
                if output.tools.iter().flatten().any(When::is_empty) =>
            {
                Some(
                    "a condition under `tools` asks for nothing, so every event would fit"
                        .to_owned(),
                )
            }
            OutputKind::Json | OutputKind::Jsonl => None,
        }
        .or(rules)
    }
}

impl EndRule {
    /// Returns what is wrong with a rule, in words.
    pub(super) fn fault(&self) -> Option<String> {
        let idle = self.contains.is_empty() && self.exit_codes.is_empty();
        idle.then(|| "a rule of `ends` needs `contains` or `exit_codes`".to_owned())
    }
}
