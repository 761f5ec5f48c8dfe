//! Agent definitions that are built in, of the user, and of the project.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::Deserialize;

use super::provider::INVALID_KEY_NAME;
use super::secret_names::password_in_url;
use super::{AgentSpec, Environment, HttpSpec, NamePattern, OutcomeRule, Provider, SecretNames};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, PromptExpansion};
use crate::text::yaml::{self, WithPlace};

/// Effective definitions: the built-in ones, overlaid by the user's file and the project's file, in this order.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    environment: Vec<NamePattern>,
    secrets: Vec<NamePattern>,
    secret_names: SecretNames,
    agents: BTreeMap<String, AgentSpec>,
    providers: BTreeMap<String, Provider>,
    failures: FailureRules,
    http: HttpSpec,
}

/// Kind of an agent, with its definition.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentKind<'a> {
    /// A command.
    Command(&'a AgentSpec),
    /// A model served over HTTP.
    Http(&'a Provider),
}

/// Rules that classify the failures of all agents.
#[derive(Clone, Debug, Default)]
pub struct FailureRules {
    /// Rules for the outcome of a call; the first that matches applies.
    pub ends: Vec<OutcomeRule>,
    /// Phrases that precede the time to wait after a rate limit.
    pub retry_after: Vec<String>,
    /// Phrases that precede the time at which a quota is reset.
    pub resets: Vec<String>,
}

/// A definitions file as it is written. Unknown keys are errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentsFile {
    format: WithPlace<u64>,
    #[serde(default)]
    environment: Vec<NamePattern>,
    #[serde(default)]
    secrets: Vec<NamePattern>,
    #[serde(default)]
    ends: Vec<WithPlace<OutcomeRule>>,
    #[serde(default)]
    retry_after: Vec<String>,
    #[serde(default)]
    resets: Vec<String>,
    #[serde(default)]
    agents: BTreeMap<String, WithPlace<AgentSpec>>,
    #[serde(default)]
    providers: BTreeMap<String, WithPlace<Provider>>,
    /// Output of agentd's own HTTP sender; only allowed in the built-in file.
    http: Option<WithPlace<HttpSpec>>,
}

impl Agents {
    /// Parses a definitions file. `origin` is its name in messages.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid`, with the line and column, if the file is invalid.
    pub fn read(text: &str, origin: &str) -> Result<Self> {
        Self::default().overlaid(text, origin)
    }

    /// Returns these definitions overlaid by those of a file: the file's lists are added, its agents replace agents of the
    /// same name, and its rules for failures come first.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid`, with the line and column, if the file is invalid.
    pub fn overlaid(mut self, text: &str, origin: &str) -> Result<Self> {
        let file: AgentsFile = yaml::read(text, origin, 1, ErrorKind::ConfigInvalid)?;
        let invalid = |location, message: String| {
            Error::new(ErrorKind::ConfigInvalid, message)
                .with_place(yaml::place(text, origin, 1, location))
                .with_hint("docs/reference/agents.md describes every key")
        };
        if file.format.value != 1 {
            let format = file.format.value;
            let message = format!("unsupported format {format} of agent definitions; expected 1");
            return Err(invalid(file.format.referenced, message));
        }

        let mut ends = Vec::new();
        for rule in file.ends {
            if let Some(problem) = rule.value.find_problem() {
                return Err(invalid(rule.referenced, problem));
            }
            ends.push(rule.value);
        }

        for (name, placed) in file.agents {
            let location = placed.referenced;
            AgentName::new(name.as_str())
                .map_err(|error| invalid(location, error.message().to_owned()))?;
            if let Some(problem) = placed.value.find_problem() {
                return Err(invalid(location, format!("`{name}`: {problem}")));
            }
            self.agents.insert(
                name.clone(),
                AgentSpec {
                    name,
                    ..placed.value
                },
            );
        }

        for (name, placed) in file.providers {
            let location = placed.referenced;
            if name.contains(':') {
                return Err(invalid(
                    location,
                    format!("`{name}`: provider names cannot contain `:`"),
                ));
            }
            AgentName::new(name.as_str())
                .map_err(|error| invalid(location, error.message().to_owned()))?;
            if let Some(problem) = placed.value.find_problem() {
                let error = invalid(location, format!("`{name}`: {problem}"))
                    .with_hint("docs/reference/http.md describes every key");
                return Err(if problem == INVALID_KEY_NAME {
                    error.without_text()
                } else {
                    error
                });
            }
            self.providers.insert(
                name.clone(),
                Provider {
                    name,
                    ..placed.value
                },
            );
        }

        if let Some(placed) = file.http {
            if self.http != HttpSpec::default() {
                return Err(invalid(
                    placed.referenced,
                    "`http` is built in and cannot be set".to_owned(),
                ));
            }
            self.http = placed.value;
        }

        ends.append(&mut self.failures.ends);
        self.failures.ends = ends;
        self.failures.retry_after.extend(file.retry_after);
        self.failures.resets.extend(file.resets);
        self.environment.extend(file.environment);
        self.secrets.extend(file.secrets);
        Ok(self)
    }

    /// Sets the rules for the names of secret variables, in the format of `data/secret_names.txt`.
    #[must_use]
    pub fn with_secrets(mut self, rules: &str) -> Self {
        self.secret_names = SecretNames::read(rules);
        self
    }

    /// Returns the definition of the command with exactly this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&AgentSpec> {
        self.agents.get(name)
    }

    /// Returns the agent of a name such as `claude`, `claude:opus` or `ollama:llama3.2:3b`, and the model in the name;
    /// `None` if the agent is unknown.
    #[must_use]
    pub fn known<'a>(&'a self, name: &'a str) -> Option<(AgentKind<'a>, Option<&'a str>)> {
        if let Some(spec) = self.find(name) {
            return Some((AgentKind::Command(spec), None));
        }

        // A command would take a model that starts with `-` for a flag.
        let is_model = |model: &str| !model.is_empty() && !model.starts_with('-');
        let (name, model) = name.split_once(':').filter(|(_, model)| is_model(model))?;
        let command = self.find(name).map(AgentKind::Command);
        let kind = command.or_else(|| self.providers.get(name).map(AgentKind::Http))?;
        Some((kind, Some(model)))
    }

    /// Returns the model of an agent: the one in its name, or the default of its definition.
    #[must_use]
    pub fn model<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match self.known(name)? {
            (_, Some(model)) => Some(model),
            (AgentKind::Command(spec), None) => spec.model.as_deref(),
            (AgentKind::Http(_), None) => None,
        }
    }

    /// Returns the syntax that an agent would expand in a prompt.
    #[must_use]
    pub fn expands(&self, name: &str) -> Vec<PromptExpansion> {
        match self.known(name) {
            Some((AgentKind::Command(spec), _)) => spec.expands.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the project files whose instructions an agent follows by itself.
    #[must_use]
    pub fn obeys<'a>(&'a self, name: &'a str) -> &'a [String] {
        match self.known(name) {
            Some((AgentKind::Command(spec), _)) => &spec.obeys,
            _ => &[],
        }
    }

    /// Returns true if an agent can read and edit files with its own tools, or if it is unknown.
    #[must_use]
    pub fn has_tools(&self, name: &str) -> bool {
        match self.known(name) {
            Some((AgentKind::Http(_), _)) => false,
            Some((AgentKind::Command(spec), _)) => spec.tools,
            None => true,
        }
    }

    /// Returns mutable references to the definitions of all commands.
    pub(super) fn specs_mut(&mut self) -> impl Iterator<Item = &mut AgentSpec> {
        self.agents.values_mut()
    }

    /// Returns the output format of agentd's own HTTP sender.
    #[must_use]
    pub fn http(&self) -> &HttpSpec {
        &self.http
    }

    /// Returns all HTTP providers, sorted by name.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.providers.values()
    }

    /// Returns the definitions of all commands, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = &AgentSpec> {
        self.agents.values()
    }

    /// Returns the rules that classify the failures of all agents.
    #[must_use]
    pub fn failures(&self) -> &FailureRules {
        &self.failures
    }

    /// Returns the environment of an agent: the variables that it may see, and those that its definition sets.
    #[must_use]
    pub fn variables(&self, spec: &AgentSpec, environment: &Environment) -> Environment {
        let has_match = |patterns: &[NamePattern], name: &str| {
            patterns.iter().any(|pattern| pattern.matches(name))
        };
        let is_visible = |name: &str| {
            let is_allowed =
                has_match(&self.environment, name) || has_match(&spec.environment, name);
            is_allowed && !has_match(&spec.unset, name) && !spec.set.contains_key(name)
        };

        let visible = environment
            .0
            .iter()
            .filter(|(name, _)| name.to_str().is_some_and(is_visible));
        let set = spec
            .set
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Environment(visible.cloned().chain(set).collect())
    }

    /// Returns the names and values to redact, from an environment and from the variables that definitions set. A
    /// variable is secret by its name, or because its value is a URL with a password; the password is then returned as
    /// well, under the same name.
    #[must_use]
    pub fn secrets(&self, environment: &Environment) -> Vec<(String, Vec<u8>)> {
        let inherited = environment.0.iter().filter_map(|(name, value)| {
            Some((
                name.to_str()?.to_owned(),
                value.as_encoded_bytes().to_owned(),
            ))
        });
        let set = self
            .agents
            .values()
            .flat_map(|spec| &spec.set)
            .map(|(name, value)| (name.clone(), value.clone().into_bytes()));
        let keys: Vec<&String> = self
            .providers
            .values()
            .filter_map(|provider| provider.key.as_ref())
            .collect();

        let mut secrets = Vec::new();
        for (name, value) in inherited.chain(set) {
            let password = std::str::from_utf8(&value)
                .ok()
                .and_then(password_in_url)
                .map(|password| password.as_bytes().to_owned());
            let is_secret_name = keys.contains(&&name)
                || self.secret_names.is_secret(&name)
                || self.secrets.iter().any(|pattern| pattern.matches(&name));
            if is_secret_name || password.is_some() {
                secrets.extend(password.map(|password| (name.clone(), password)));
                secrets.push((name, value));
            }
        }
        secrets
    }
}
