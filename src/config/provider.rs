//! Who serves models over HTTP: where, in which dialect, and which variable holds the key.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{EndRule, OutputSpec, Tried};

/// A server of models.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Its name, which stands before `:` and a model.
    #[serde(skip)]
    pub name: String,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Where it is: what stands before the path of a request.
    pub base_url: String,
    /// The variable that holds the key, if it needs one.
    pub key: Option<String>,
    /// Who makes its models, if that is one.
    pub vendor: Option<String>,
    /// The most tokens of a reply that are asked for; of Anthropic's dialect, where the model's own limit is not known.
    pub max_output: Option<u64>,
    /// What a request says beside the prompt; `null` takes something out of it.
    #[serde(default)]
    pub body: Map<String, Value>,
    /// How far it was tried.
    #[serde(default)]
    pub tried: Tried,
}

/// How what our own sender writes is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// Its output, which is that of an agent like any other.
    pub output: OutputSpec,
    /// How failures are told apart, before what holds for every agent.
    pub ends: Vec<EndRule>,
}

/// The language of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Chat completions, as OpenAI has defined them and many servers speak them.
    Openai,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's generateContent.
    Gemini,
}

impl Dialect {
    /// Returns the dialect's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the dialect of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Openai, Self::Anthropic, Self::Gemini].into_iter().find(|dialect| dialect.name() == name)
    }
}

impl Provider {
    /// Returns what is wrong with it, in words.
    pub(super) fn fault(&self) -> Option<String> {
        let host = ["https://", "http://"].iter().find_map(|scheme| self.base_url.strip_prefix(scheme));
        if host.is_none_or(str::is_empty) || self.base_url.contains(['?', '#', ' ', '{', '}']) {
            return Some("`base_url` is no address like https://host/v1".to_owned());
        }
        // A key must not stand where it would be shown.
        if host.is_some_and(|host| host.split('/').next().is_some_and(|host| host.contains('@'))) {
            return Some("`base_url` holds a user or a password: name a variable as `key`".to_owned());
        }
        self.key
            .as_ref()
            .filter(|key| key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
            .map(|key| format!("{key:?} is no variable's name: `key` names one, it is not the key itself"))
    }
}
