//! The definitions of agents that are commands: what is shipped, what the user adds, what the project adds.

use std::collections::BTreeMap;
use std::ffi::OsString;

use serde::Deserialize;

use super::provider::NO_NAME;
use super::secret_names::password_in_url;
use super::{AgentSpec, EndRule, Environment, HttpSpec, NamePattern, Provider, SecretNames};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{AgentName, Expands};
use crate::text::yaml::{self, Placed};

/// The definitions in force: the shipped ones, overlaid by the user's file and the project's, in this order.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    environment: Vec<NamePattern>,
    secrets: Vec<NamePattern>,
    secret_names: SecretNames,
    agents: BTreeMap<String, AgentSpec>,
    providers: BTreeMap<String, Provider>,
    failures: Failures,
    http: HttpSpec,
}

/// An agent that is known by its name.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// It is a command.
    Command(&'a AgentSpec),
    /// It is a model of a server.
    Http(&'a Provider),
}

/// How the failures of every agent are told apart.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    /// What a failure is, the first rule that fits.
    pub ends: Vec<EndRule>,
    /// Words that stand before how long to wait.
    pub retry_after: Vec<String>,
    /// Words that stand before when there is more.
    pub resets: Vec<String>,
}

/// The file as it is written. Any other key is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: Placed<u64>,
    #[serde(default)]
    environment: Vec<NamePattern>,
    #[serde(default)]
    secrets: Vec<NamePattern>,
    #[serde(default)]
    ends: Vec<Placed<EndRule>>,
    #[serde(default)]
    retry_after: Vec<String>,
    #[serde(default)]
    resets: Vec<String>,
    #[serde(default)]
    agents: BTreeMap<String, Placed<AgentSpec>>,
    #[serde(default)]
    providers: BTreeMap<String, Placed<Provider>>,
    /// In the shipped file alone: it speaks of what the program itself writes.
    http: Option<Placed<HttpSpec>>,
}

impl Agents {
    /// Reads definitions.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn read(text: &str, origin: &str) -> Result<Self> {
        Self::default().overlaid(text, origin)
    }

    /// Returns these definitions overlaid by those of a file: its lists are added, its agents replace those of the
    /// same name, and its rules for failures come first.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn overlaid(mut self, text: &str, origin: &str) -> Result<Self> {
        let written: Written = yaml::read(text, origin, 1, ErrorKind::ConfigInvalid)?;
        let invalid = |location, message: String| {
            Error::new(ErrorKind::ConfigInvalid, message)
                .with_place(yaml::place(text, origin, 1, location))
                .with_hint("docs/reference/agents.md describes every key")
        };
        if written.format.value != 1 {
            let message = "only definitions of agents of format 1 are understood".to_owned();
            return Err(invalid(written.format.referenced, message));
        }
        let mut ends = Vec::new();
        for rule in written.ends {
            if let Some(fault) = rule.value.fault() {
                return Err(invalid(rule.referenced, fault));
            }
            ends.push(rule.value);
        }
        for (name, placed) in written.agents {
            let location = placed.referenced;
            let named = AgentName::new(name.as_str());
            named.map_err(|error| invalid(location, error.message().to_owned()))?;
            if let Some(fault) = placed.value.fault() {
                return Err(invalid(location, format!("`{name}`: {fault}")));
            }
            self.agents.insert(
                name.clone(),
                AgentSpec {
                    name,
                    ..placed.value
                },
            );
        }
        for (name, placed) in written.providers {
            let location = placed.referenced;
            if name.contains(':') {
                return Err(invalid(
                    location,
                    format!("`{name}`: a provider's name holds no `:`"),
                ));
            }
            let named = AgentName::new(name.as_str());
            named.map_err(|error| invalid(location, error.message().to_owned()))?;
            if let Some(fault) = placed.value.fault() {
                let error = invalid(location, format!("`{name}`: {fault}"))
                    .with_hint("docs/reference/http.md describes every key");
                return Err(if fault == NO_NAME {
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
        if let Some(placed) = written.http {
            if self.http != HttpSpec::default() {
                return Err(invalid(
                    placed.referenced,
                    "`http` is the program's own".to_owned(),
                ));
            }
            self.http = placed.value;
        }
        ends.append(&mut self.failures.ends);
        self.failures.ends = ends;
        self.failures.retry_after.extend(written.retry_after);
        self.failures.resets.extend(written.resets);
        self.environment.extend(written.environment);
        self.secrets.extend(written.secrets);
        Ok(self)
    }

    /// Returns these definitions with rules for the names of secret variables.
    #[must_use]
    pub fn with_secrets(mut self, rules: &str) -> Self {
        self.secret_names = SecretNames::read(rules);
        self
    }

    /// Returns a definition by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&AgentSpec> {
        self.agents.get(name)
    }

    /// Returns the agent of a name such as `claude`, `claude:opus` or `ollama:llama3.2:3b`, and the model in it.
    #[must_use]
    pub fn known<'a>(&'a self, name: &'a str) -> Option<(Known<'a>, Option<&'a str>)> {
        if let Some(spec) = self.find(name) {
            return Some((Known::Command(spec), None));
        }
        // What begins like a flag would be taken for one.
        let is_model = |model: &str| !model.is_empty() && !model.starts_with('-');
        let (name, model) = name.split_once(':').filter(|(_, model)| is_model(model))?;
        let command = self.find(name).map(Known::Command);
        let known = command.or_else(|| self.providers.get(name).map(Known::Http))?;
        Some((known, Some(model)))
    }

    /// Returns the model of an agent: the one in its name, or the one that its definition names.
    #[must_use]
    pub fn model<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match self.known(name)? {
            (_, Some(model)) => Some(model),
            (Known::Command(spec), None) => spec.model.as_deref(),
            (Known::Http(_), None) => None,
        }
    }

    /// Returns what an agent would expand in a prompt.
    #[must_use]
    pub fn expands(&self, name: &str) -> Vec<Expands> {
        match self.known(name) {
            Some((Known::Command(spec), _)) => spec.expands.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the files of a project that an agent follows by itself.
    #[must_use]
    pub fn obeys<'a>(&'a self, name: &'a str) -> &'a [String] {
        match self.known(name) {
            Some((Known::Command(spec), _)) => &spec.obeys,
            _ => &[],
        }
    }

    /// Tells whether an agent has tools of its own to read and edit files with.
    #[must_use]
    pub fn has_tools(&self, name: &str) -> bool {
        match self.known(name) {
            Some((Known::Http(_), _)) => false,
            Some((Known::Command(spec), _)) => spec.tools,
            None => true,
        }
    }

    /// Returns all definitions, to be changed.
    pub(super) fn specs_mut(&mut self) -> impl Iterator<Item = &mut AgentSpec> {
        self.agents.values_mut()
    }

    /// Returns how what our own sender writes is read.
    #[must_use]
    pub fn http(&self) -> &HttpSpec {
        &self.http
    }

    /// Returns all servers of models, by name.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.providers.values()
    }

    /// Returns all definitions, by name.
    pub fn all(&self) -> impl Iterator<Item = &AgentSpec> {
        self.agents.values()
    }

    /// Returns how the failures of every agent are told apart.
    #[must_use]
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Returns the variables that an agent gets: what it may see of an environment, and what is set for it.
    #[must_use]
    pub fn variables(&self, spec: &AgentSpec, environment: &Environment) -> Environment {
        let fits = |patterns: &[NamePattern], name: &str| {
            patterns.iter().any(|pattern| pattern.fits(name))
        };
        let seen = environment.0.iter().filter(|(name, _)| {
            name.to_str().is_some_and(|name| {
                (fits(&self.environment, name) || fits(&spec.environment, name))
                    && !fits(&spec.unset, name)
                    && !spec.set.contains_key(name)
            })
        });
        let set = spec
            .set
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Environment(seen.cloned().chain(set).collect())
    }

    /// Returns the names and values that must not be seen: of an environment, and of what is set for agents. A variable is
    /// secret by its name, or by a password in its value, which is then returned as well.
    #[must_use]
    pub fn secrets(&self, environment: &Environment) -> Vec<(String, Vec<u8>)> {
        let seen = environment.0.iter().filter_map(|(name, value)| {
            Some((
                name.to_str()?.to_owned(),
                value.as_encoded_bytes().to_owned(),
            ))
        });
        let set = self.agents.values().flat_map(|spec| &spec.set);
        let set = set.map(|(name, value)| (name.clone(), value.clone().into_bytes()));
        let keys: Vec<&String> = self
            .providers
            .values()
            .filter_map(|provider| provider.key.as_ref())
            .collect();

        let mut secrets = Vec::new();
        for (name, value) in seen.chain(set) {
            let password = std::str::from_utf8(&value).ok().and_then(password_in_url);
            let password = password.map(|password| password.as_bytes().to_owned());
            let is_named = keys.contains(&&name)
                || self.secret_names.is_secret(&name)
                || self.secrets.iter().any(|pattern| pattern.fits(&name));
            if is_named || password.is_some() {
                secrets.extend(password.map(|password| (name.clone(), password)));
                secrets.push((name, value));
            }
        }
        secrets
    }
}
