//! Model servers with an HTTP API: address, API dialect and the variable that holds the API key.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{OutcomeRule, OutputSpec, TestExtent};

/// Problem of a `key` that is not the name of a variable.
pub(super) const INVALID_KEY_NAME: &str =
    "`key` must be the name of an environment variable, in upper case, not the key itself";

/// A server that serves models over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Name of the provider: the part of an agent's name before `:` and the model.
    #[serde(skip)]
    pub name: String,
    /// API that the server implements.
    pub dialect: Dialect,
    /// URL to which the path of a request is appended.
    pub base_url: String,
    /// Name of the variable that holds the API key; `None` if the server needs no key.
    pub key: Option<String>,
    /// Vendor of the server's models; `None` if there are several.
    pub vendor: Option<String>,
    /// Maximum number of reply tokens to request. In the Anthropic dialect it applies only if the limit of the model is
    /// unknown.
    pub max_output: Option<u64>,
    /// Fields that are merged into the body of a request; `null` removes a field.
    #[serde(default)]
    pub body: Map<String, Value>,
    /// Extent to which this definition was tested.
    #[serde(default)]
    pub tried: TestExtent,
}

/// Output format of agentd's own HTTP sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSpec {
    /// Format of the sender's stdout.
    pub output: OutputSpec,
    /// Rules that classify failed requests; they come before the rules for all agents.
    pub ends: Vec<OutcomeRule>,
}

/// API of a model server.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI's chat completions, which many servers implement.
    Openai,
    /// Anthropic's Messages API.
    Anthropic,
    /// Gemini's generateContent.
    Gemini,
}

impl Dialect {
    /// Returns the name used in agents.yaml.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Parses a name used in agents.yaml; `None` if it is unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Openai, Self::Anthropic, Self::Gemini]
            .into_iter()
            .find(|dialect| dialect.name() == name)
    }
}

/// Returns true if the host of an address without a scheme is `localhost` or a loopback IP address.
fn is_loopback(address: &str) -> bool {
    let authority = address.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host),
    };
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

impl Provider {
    /// Returns a message about the first problem of the definition; `None` if it is valid.
    pub(super) fn find_problem(&self) -> Option<String> {
        let address = ["https://", "http://"]
            .iter()
            .find_map(|scheme| self.base_url.strip_prefix(scheme));
        if address.is_none_or(str::is_empty) {
            return Some(
                "`base_url` must be an http or https URL, such as https://host/v1".to_owned(),
            );
        }
        if self.base_url.contains(['?', '#', ' ', '{', '}']) {
            return Some("`base_url` must not contain `?`, `#`, spaces or braces".to_owned());
        }

        // URLs are printed, so they must not hold credentials.
        let authority = address.and_then(|address| address.split('/').next());
        if authority.is_some_and(|authority| authority.contains('@')) {
            return Some(
                "`base_url` contains a user name or password; use `key` instead".to_owned(),
            );
        }

        let is_name = |key: &String| {
            !key.is_empty()
                && key
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        // The value may be the key itself, so the message does not repeat it.
        if self.key.as_ref().is_some_and(|key| !is_name(key)) {
            return Some(INVALID_KEY_NAME.to_owned());
        }

        let is_unencrypted =
            self.base_url.starts_with("http://") && !address.is_some_and(is_loopback);
        (is_unencrypted && self.key.is_some()).then(|| {
            "`base_url` would send the key unencrypted to another machine; use https://".to_owned()
        })
    }
}
