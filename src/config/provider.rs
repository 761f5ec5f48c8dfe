//! Who serves models over HTTP: where, in which dialect, and which variable holds the key.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{EndRule, OutputSpec, Tried};

/// What is said of a `key` that is none.
pub(super) const NO_NAME: &str = "`key` names a variable, in capitals: it is not the key itself";

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
#[non_exhaustive]
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
        [Self::Openai, Self::Anthropic, Self::Gemini]
            .into_iter()
            .find(|dialect| dialect.name() == name)
    }
}

/// Tells whether an address without its scheme is this machine's own.
fn is_loopback(address: &str) -> bool {
    let host = address.split('/').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(host, _)| host),
    };
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

impl Provider {
    /// Returns what is wrong with it, in words.
    pub(super) fn fault(&self) -> Option<String> {
        let host = ["https://", "http://"]
            .iter()
            .find_map(|scheme| self.base_url.strip_prefix(scheme));
        if host.is_none_or(str::is_empty) || self.base_url.contains(['?', '#', ' ', '{', '}']) {
            return Some("`base_url` is no address like https://host/v1".to_owned());
        }
        // A key must not stand where it would be shown.
        if host.is_some_and(|host| {
            host.split('/')
                .next()
                .is_some_and(|host| host.contains('@'))
        }) {
            return Some(
                "`base_url` holds a user or a password: name a variable as `key`".to_owned(),
            );
        }
        let is_name = |key: &String| {
            !key.is_empty()
                && key
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        // It may be the key, so it is not repeated.
        if self.key.as_ref().is_some_and(|key| !is_name(key)) {
            return Some(NO_NAME.to_owned());
        }
        let is_plain = self.base_url.starts_with("http://") && !host.is_some_and(is_loopback);
        (is_plain && self.key.is_some()).then(|| {
            "`base_url` is http:// to another machine, where everyone on the way could read the key"
                .to_owned()
        })
    }
}
