//! Parses settings and agent definitions from the content of a file and its name. The caller reads the files.
//!
//! ```
//! use agentd::config::Settings;
//!
//! let user = Settings::default().overlaid("format = 1\npack = \"light\"", "~/.config/agentd/config.toml")?;
//! let project = user.overlaid("format = 1\n[prompt]\nstrict = true", "agentd/config.toml")?;
//! assert_eq!(project.pack.as_deref(), Some("light"));
//! assert!(project.strict);
//! # Ok::<(), agentd::Error>(())
//! ```

mod agent_spec;
mod agent_switches;
mod agents;
mod allowed_command;
mod argument;
mod environment;
mod json_matcher;
mod limits;
mod provider;
mod review;
mod secret_names;

use std::collections::BTreeMap;

pub use agent_spec::{
    AgentSpec, FailureSource, OutcomeRule, OutputKind, OutputSpec, PathList, Permissions,
    PromptDelivery, TestExtent, UsageSpec,
};
pub use agent_switches::{Switch, SwitchPosition, Switches};
pub use agents::{AgentKind, Agents, FailureRules};
pub use argument::{Argument, ArgumentValues};
pub use environment::{Environment, NamePattern};
pub use json_matcher::{EventCondition, EventRule, JsonPath};
pub use provider::{Dialect, HttpSpec, Provider};
pub use secret_names::SecretNames;
use serde::Deserialize;

pub use limits::{CallLimits, Containment};
pub use review::{
    BranchFinish, ChangeSettings, CheckCommand, ModeSettings, ReviewSettings, TaskPace,
};

use self::limits::{BudgetTable, LimitsTable};
use self::review::{ChangeTable, ModeTable, ReviewTable};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::models::{AgentName, Budget, Mode, ModelSpec, NoncePolicy};

/// Effective settings: defaults, overlaid by the user's file, the project's file and flags, in this order.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Default pack; `None` if no file sets one.
    pub pack: Option<String>,
    /// Requirement that a verdict carries the nonce of its turn.
    pub verdict_nonce: NoncePolicy,
    /// If true, a missing mandatory variable is an error instead of a visible notice.
    pub strict: bool,
    /// Maximum prompt size in bytes.
    pub max_prompt_bytes: usize,
    /// Limits of the directory listing in a prompt.
    pub structure: StructureLimits,
    /// Agent of a mode, where one is set.
    pub agents: BTreeMap<Mode, AgentName>,
    /// Commands that an agent may run in a mode with permission to edit.
    pub commands: BTreeMap<Mode, Vec<String>>,
    /// Model, permission and timeouts of a mode, where they are set.
    pub modes: BTreeMap<Mode, ModeSettings>,
    /// Checks of a review.
    pub review: ReviewSettings,
    /// Rounds, tasks and merging of a change.
    pub change: ChangeSettings,
    /// Agent switches that are set explicitly.
    pub switches: Switches,
    /// Models that are added to the catalogue.
    pub models: Vec<ModelSpec>,
    /// Mechanism that keeps the processes of an agent together.
    pub containment: Containment,
    /// Timeouts and output limit of a call to an agent.
    pub limits: CallLimits,
    /// Spending limits of a run and of a session.
    pub budget: Budget,
}

/// Limits of the directory listing in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructureLimits {
    /// Maximum number of entries of one folder.
    pub per_folder: usize,
    /// Maximum number of entries in total.
    pub total: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pack: None,
            verdict_nonce: NoncePolicy::default(),
            strict: false,
            max_prompt_bytes: 32 * 1024 * 1024,
            structure: StructureLimits {
                per_folder: 60,
                total: 400,
            },
            agents: BTreeMap::new(),
            commands: BTreeMap::new(),
            modes: BTreeMap::new(),
            review: ReviewSettings::default(),
            change: ChangeSettings::default(),
            switches: Switches::new(),
            models: Vec::new(),
            containment: Containment::default(),
            limits: CallLimits::default(),
            budget: Budget::default(),
        }
    }
}

/// A settings file as it is written. Unknown keys are errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    format: u64,
    pack: Option<String>,
    verdict_nonce: Option<NoncePolicy>,
    containment: Option<Containment>,
    #[serde(default)]
    prompt: PromptTable,
    #[serde(default)]
    structure: StructureTable,
    #[serde(default)]
    modes: BTreeMap<Mode, ModeTable>,
    #[serde(default)]
    agents: Switches,
    #[serde(default)]
    models: Vec<ModelSpec>,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    budget: BudgetTable,
    #[serde(default)]
    review: ReviewTable,
    #[serde(default)]
    change: ChangeTable,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PromptTable {
    strict: Option<bool>,
    max_bytes: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StructureTable {
    per_folder: Option<usize>,
    total: Option<usize>,
}

impl Settings {
    /// Returns these settings overlaid by those of a file: a key that the file does not set keeps its value.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid`, with the line and column, if the file is invalid.
    pub fn overlaid(mut self, text: &str, origin: &str) -> Result<Self> {
        let file: SettingsFile =
            toml::from_str(text).map_err(|error| invalid_file(text, origin, &error))?;
        if file.format != 1 {
            let message = format!("unsupported format {}; expected 1", file.format);
            let place = Place::at_offset(origin, text, text.find("format").unwrap_or(0));
            return Err(Error::new(ErrorKind::ConfigInvalid, message).with_place(place));
        }

        self.pack = file.pack.or(self.pack);
        self.verdict_nonce = file.verdict_nonce.unwrap_or(self.verdict_nonce);
        self.strict = file.prompt.strict.unwrap_or(self.strict);
        self.max_prompt_bytes = file.prompt.max_bytes.unwrap_or(self.max_prompt_bytes);
        self.structure.per_folder = file
            .structure
            .per_folder
            .unwrap_or(self.structure.per_folder);
        self.structure.total = file.structure.total.unwrap_or(self.structure.total);

        self.models.extend(file.models);
        for (agent, switches) in file.agents {
            self.switches.entry(agent).or_default().extend(switches);
        }

        self.containment = file.containment.unwrap_or(self.containment);
        file.limits.overlay(&mut self.limits);
        file.budget.overlay(&mut self.budget);
        file.review.overlay(&mut self.review);
        file.change.overlay(&mut self.change);

        for (mode, table) in file.modes {
            table.overlay(self.modes.entry(mode.clone()).or_default());
            if let Some(commands) = table.commands {
                let commands = commands.into_iter().map(|command| command.0).collect();
                self.commands.insert(mode.clone(), commands);
            }
            if let Some(agent) = table.agent {
                self.agents.insert(mode, agent.0);
            }
        }
        Ok(self)
    }
}

fn invalid_file(text: &str, origin: &str, error: &toml::de::Error) -> Error {
    let offset = error.span().map_or(0, |span| span.start);
    let message = error
        .message()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    Error::new(ErrorKind::ConfigInvalid, message)
        .with_place(Place::at_offset(origin, text, offset))
        .with_hint("the settings are explained in the file that `agentd init` writes")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::models::{BudgetLimits, Permission};

    #[test]
    fn later_files_overlay_earlier_ones_key_by_key() {
        let user = "format = 1\nverdict_nonce = \"off\"\n[modes.plan]\nagent = \"gemini\"\n[structure]\ntotal = 10\n";
        let settings = Settings::default()
            .overlaid(user, "user")
            .and_then(|user| user.overlaid("format = 1\n[prompt]\nstrict = true\n", "project"))
            .unwrap();
        assert!(settings.strict);
        assert_eq!(settings.verdict_nonce, NoncePolicy::Off);
        assert_eq!(Settings::default().verdict_nonce, NoncePolicy::On);
        assert_eq!(
            settings.structure,
            StructureLimits {
                per_folder: 60,
                total: 10
            }
        );
        assert_eq!(
            settings.agents[&Mode::new("plan").unwrap()].as_str(),
            "gemini"
        );
    }

    #[test]
    fn limits_and_budgets_are_set_one_by_one() {
        let defaults = Settings::default();
        let seconds = Duration::from_secs;
        let limits = CallLimits {
            wall: seconds(3_600),
            idle: seconds(600),
            grace: seconds(10),
            output: 33_554_432,
            max_wait: seconds(600),
        };
        assert_eq!(
            (defaults.limits, defaults.containment),
            (limits, Containment::Guard)
        );
        assert_eq!(defaults.budget, Budget::default());

        let user = "format = 1\ncontainment = \"namespace\"\n[limits]\nwall_seconds = 7200\ngrace_seconds = 0\n\
                    [budget.run]\ndollars = 0.1\nturns = 20\n[budget.session]\ndollars = 25\nminutes = 90\n";
        let project = "format = 1\n[limits]\nidle_seconds = 60\noutput_bytes = 1000\nmax_wait_seconds = 0\n\
                       [budget.run]\nturns = 5\ntokens = 2000000\n";
        let settings = defaults
            .overlaid(user, "user")
            .and_then(|user| user.overlaid(project, "project"))
            .unwrap();
        let limits = CallLimits {
            wall: seconds(7_200),
            idle: seconds(60),
            grace: seconds(0),
            output: 1_000,
            max_wait: seconds(0),
        };
        assert_eq!(
            (settings.limits, settings.containment),
            (limits, Containment::Namespace)
        );
        let run = BudgetLimits {
            tokens: Some(2_000_000),
            micro_dollars: Some(100_000),
            turns: Some(5),
            ..BudgetLimits::default()
        };
        let session = BudgetLimits {
            micro_dollars: Some(25_000_000),
            seconds: Some(5_400),
            ..BudgetLimits::default()
        };
        assert_eq!(settings.budget, Budget { run, session });
    }

    #[test]
    fn reviews_changes_and_modes_are_set_key_by_key() {
        let defaults = Settings::default();
        let review = ReviewSettings {
            commands: None,
            timeout: Duration::from_secs(900),
            scans: true,
            env: Vec::new(),
            accept_unshown: Vec::new(),
        };
        assert_eq!(defaults.review, review);
        let change = ChangeSettings {
            rounds: None,
            tasks: TaskPace::All,
            challengers: Vec::new(),
            finish: BranchFinish::Merge,
        };
        assert_eq!(defaults.change, change);

        let user = "format = 1\n[review]\ntimeout_seconds = 60\nscans = false\nenv = [\"A_KEY\"]\ncommands = [\"make\"]\n\
                    accept_unshown = [\"*.pdf\"]\n\
                    [change]\nrounds = 3\nchallengers = [\"codex\", \"gemini:pro\"]\n\
                    [modes.plan]\nmodel = \"opus\"\nwall_seconds = 60\n";
        let project = "format = 1\n[change]\ntasks = \"each\"\nfinish = \"branch\"\n\
                       [modes.plan]\nidle_seconds = 7\npermission = \"read-only\"\n\
                       [review]\ncommands = [\n  \"cargo test -- 'a|b'\",\n\
                       {name = \"slow\", run = \"./slow\", timeout_seconds = 5},\n]\n";
        let settings = defaults
            .overlaid(user, "user")
            .and_then(|user| user.overlaid(project, "project"))
            .unwrap();
        let slow = CheckCommand {
            name: "slow".to_owned(),
            run: "./slow".to_owned(),
            timeout: Some(Duration::from_secs(5)),
            tool: None,
        };
        let commands = Some(vec![CheckCommand::new("cargo test -- 'a|b'"), slow]);
        let review = ReviewSettings {
            commands,
            timeout: Duration::from_secs(60),
            scans: false,
            env: vec!["A_KEY".to_owned()],
            accept_unshown: vec!["*.pdf".to_owned()],
        };
        assert_eq!(settings.review, review);
        let challengers = ["codex", "gemini:pro"]
            .map(|name| AgentName::new(name).unwrap())
            .to_vec();
        let change = ChangeSettings {
            rounds: Some(3),
            tasks: TaskPace::Each,
            challengers,
            finish: BranchFinish::Branch,
        };
        assert_eq!(settings.change, change);
        let plan = &settings.modes[&Mode::new("plan").unwrap()];
        let expected = ModeSettings {
            model: Some("opus".to_owned()),
            permission: Some(Permission::ReadOnly),
            wall: Some(Duration::from_secs(60)),
            idle: Some(Duration::from_secs(7)),
        };
        assert_eq!(*plan, expected);
        assert_eq!(plan.limits(settings.limits).output, settings.limits.output);

        let none = Settings::default()
            .overlaid("format = 1\n[review]\ncommands = []\n", "project")
            .unwrap();
        assert_eq!(
            none.review.commands,
            Some(Vec::new()),
            "an empty list is not the same as no list"
        );
    }

    #[test]
    fn faults_are_placed() {
        let cases = [
            ("format = 1\nstrickt = true\n", 2),
            ("format = 1\nverdict_nonce = \"maybe\"\n", 2),
            ("format = 1\nverdict_nonce = true\n", 2),
            ("format = 1\n[modes.Plan]\nagent = \"x\"\n", 2),
            ("format = 1\n\n[modes.plan]\nagent = \"\"\n", 4),
            (
                "format = 1\n[modes.plan]\nagent = \"x\"\nmodel = \"--yolo\"\n",
                4,
            ),
            ("format = 1\n[modes.plan]\nmodel = \"\"\n", 3),
            ("format = 1\n[modes.plan]\npermission = \"edit\"\n", 3),
            ("format = 1\n[modes.plan]\nwall_seconds = 0\n", 3),
            ("format = 1\n[modes.plan]\ngrace_seconds = 1\n", 3),
            ("format = 1\n[review]\ncommand = [\"make\"]\n", 3),
            ("format = 1\n[review]\ncommands = \"make\"\n", 3),
            (
                "format = 1\n[review]\ncommands = [\n  \"make\",\n  \" \",\n]\n",
                5,
            ),
            (
                "format = 1\n[review]\ncommands = [\n  \"make\",\n  1,\n]\n",
                5,
            ),
            ("format = 1\n[review]\ncommands = [\"a\\nb\"]\n", 3),
            (
                "format = 1\n[review]\ncommands = [\n  \"rm x \\u202E# y\",\n]\n",
                4,
            ),
            (
                "format = 1\n[review]\ncommands = [\n  {name = \"tests\"},\n]\n",
                4,
            ),
            (
                "format = 1\n[review]\ncommands = [\n  {run = \"a\", when = \"b\"},\n]\n",
                4,
            ),
            (
                "format = 1\n[[review.commands]]\nrun = \"a\"\ntimeout_seconds = 0\n",
                4,
            ),
            (
                "format = 1\n[review]\nscans = true\ntimeout_seconds = 0\n",
                4,
            ),
            ("format = 1\n[review]\nscans = \"no\"\n", 3),
            ("format = 1\n[change]\nrounds = 0\n", 3),
            ("format = 1\n[change]\nrounds = 21\n", 3),
            ("format = 1\n[change]\ntasks = \"one\"\n", 3),
            ("format = 1\n[change]\nfinish = \"squash\"\n", 3),
            (
                "format = 1\n[change]\nchallengers = [\"codex\", \":x\"]\n",
                3,
            ),
            (
                "format = 1\n[change]\nchallengers = [\"codex\", \"codex\"]\n",
                3,
            ),
            ("format = 1\n[limits]\nwall = 1\n", 3),
            (
                "format = 1\n[limits]\nidle_seconds = 5\nwall_seconds = 0\n",
                4,
            ),
            ("format = 1\n[limits]\nidle_seconds = 31536001\n", 3),
            ("format = 1\n[limits]\ngrace_seconds = -1\n", 3),
            ("format = 1\n[limits]\noutput_bytes = 0\n", 3),
            ("format = 1\n[limits]\nmax_wait_seconds = \"1\"\n", 3),
            ("format = 1\ncontainment = \"none\"\n", 2),
            ("format = 1\n[budget]\ntokens = 1\n", 3),
            ("format = 1\n[budget.run]\ndollars = -0.5\n", 3),
            ("format = 1\n[budget.run]\ndollars = nan\n", 3),
            ("format = 1\n[budget.run]\ndollars = inf\n", 3),
            ("format = 1\n[budget.session]\nturns = 1.5\n", 3),
            (
                "format = 1\n[budget.session]\nminutes = 9223372036854775807\n",
                3,
            ),
            ("format = 2\n", 1),
            ("format = \n", 1),
            ("pack = \"sdd\"\n", 1),
        ];
        for (text, line) in cases {
            let error = Settings::default()
                .overlaid(text, "config.toml")
                .unwrap_err();
            assert_eq!(
                error.place().map(|place| place.line),
                Some(line),
                "{text}: {error:#}"
            );
        }
    }
}
