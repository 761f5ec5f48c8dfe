//! Agents that are models served over HTTP. A request is built here and sent by a child process, the sender.
//!
//! Like the command of any other agent, the sender runs under a guard and writes JSON lines. So limits, killing and the
//! recovery of interrupted calls work in the same way.

mod anthropic;
mod error_body;
mod gemini;
mod messages;
mod openai;
mod response;
mod retry_after;
mod send;
mod sse;

use std::path::{Path, absolute};

use serde_json::{Map, Value};

pub(super) use send::send;

use super::builtin::ReadyReply;
use super::{AgentCall, CommandAgent, Driver, Drivers, RecoveredCall, RunningCall, guard};
use crate::config::{AgentSpec, Argument, Dialect, NamePattern, Permissions, Provider};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{CallOutcome, Reply};
use messages::ChatMessage;

/// A model served over HTTP.
#[derive(Debug)]
pub(super) struct HttpAgent {
    provider: Provider,
    model: String,
    /// True if the variable that holds the API key is set, or if no key is needed.
    has_key: bool,
    sender: CommandAgent,
}

/// Content of a request, independent of the dialect.
#[derive(Debug)]
struct ModelRequest<'a> {
    model: &'a str,
    messages: Vec<ChatMessage>,
    /// Maximum number of reply tokens in the provider's definition; `None` if it sets none.
    max_output: Option<u64>,
    /// Maximum number of reply tokens of the model; `None` if unknown.
    model_output: Option<u64>,
}

impl HttpAgent {
    /// Creates the agent for a model of a provider.
    ///
    /// # Errors
    ///
    /// `AgentUnusable` if the path of the guard, which runs the sender, is not UTF-8.
    pub(super) fn new(provider: &Provider, model: &str, drivers: &Drivers) -> Result<Self> {
        let Drivers {
            agents,
            environment,
            secrets,
            guard,
            containment,
            registered: _,
        } = drivers;
        let key = provider.key.as_deref();
        let has_key = key.is_none_or(|key| {
            environment
                .0
                .iter()
                .any(|(name, value)| name == key && !value.to_string_lossy().trim().is_empty())
        });

        let http = agents.http();
        let spec = AgentSpec {
            name: format!("{}:{model}", provider.name),
            argv: sender_argv(provider, guard)?,
            environment: key.map(NamePattern::new).into_iter().collect(),
            // The sender has no tools, so it needs no arguments to enforce a permission.
            permissions: Some(Permissions {
                no_tools: None,
                read_only: Some(Vec::new()),
                edit: Some(Vec::new()),
                command: None,
            }),
            output: http.output.clone(),
            ends: http.ends.clone(),
            ..AgentSpec::default()
        };
        let sender = CommandAgent::new(&spec, agents, environment, secrets, guard, *containment)
            // The rules for `Cut` look for words such as `max_tokens`, which the error message of a rejected request can
            // also contain. A truncated reply of the sender is recognized by its missing `end` line instead.
            .without_outcome(&CallOutcome::Cut);
        Ok(Self {
            provider: provider.clone(),
            model: model.to_owned(),
            has_key,
            sender,
        })
    }

    /// Builds the body of a request in the dialect of the server.
    fn build_body(&self, call: &AgentCall<'_>, model: &str) -> Result<String> {
        let request = ModelRequest {
            model,
            messages: messages::parse_messages(call.prompt, call.format)?,
            max_output: self.provider.max_output,
            model_output: call.max_output,
        };
        let mut body = Value::Object(match self.provider.dialect {
            Dialect::Openai => openai::build_body(&request),
            Dialect::Anthropic => anthropic::build_body(&request),
            Dialect::Gemini => gemini::build_body(&request),
        });
        merge_fields(&mut body, &self.provider.body);
        Ok(body.to_string())
    }
}

impl Driver for HttpAgent {
    fn spends(&self) -> bool {
        true
    }

    /// Returns false: a model without tools cannot change files.
    fn works_in_tree(&self) -> bool {
        false
    }

    fn start(&self, call: &AgentCall<'_>) -> Result<Box<dyn RunningCall + '_>> {
        if !self.has_key {
            let name = self.provider.key.as_deref().unwrap_or_default();
            let detail = format!("environment variable {name} with the API key is not set");
            return Ok(ReadyReply::boxed(Reply {
                end: CallOutcome::Auth,
                detail,
                ..Reply::default()
            }));
        }
        let model = call.model.unwrap_or(&self.model);
        let body = self.build_body(call, model)?;
        self.sender.start(&AgentCall {
            prompt: &body,
            model: Some(model),
            ..*call
        })
    }

    fn salvage(&self, folder: &Path, marker: &str) -> Result<Option<RecoveredCall>> {
        self.sender.salvage(folder, marker)
    }
}

/// Returns the command line of the sender. It contains the name of the variable that holds the key, not the key.
fn sender_argv(provider: &Provider, guard: &Path) -> Result<Vec<Argument>> {
    let program = absolute(guard)
        .ok()
        .and_then(|path| path.to_str().map(str::to_owned))
        .ok_or_else(|| {
            let message = format!("the path of this program is not UTF-8: {}", guard.display());
            Error::new(ErrorKind::AgentUnusable, message)
                .with_hint("move the program to a path that is UTF-8")
        })?;
    let texts = [
        &program,
        guard::GUARD_ARGUMENT,
        guard::ROLE_SEND,
        provider.dialect.name(),
        provider.base_url.trim_end_matches('/'),
        provider.key.as_deref().unwrap_or_default(),
        "{model}",
    ];
    Ok(texts
        .into_iter()
        .map(|text| Argument(vec![text.to_owned()]))
        .collect())
}

/// Merges fields into a value (JSON merge patch): `null` removes a field, objects are merged recursively.
fn merge_fields(value: &mut Value, patch: &Map<String, Value>) {
    let Value::Object(fields) = value else { return };
    for (name, new) in patch {
        match new {
            Value::Null => {
                fields.shift_remove(name);
            }
            Value::Object(inner) => {
                let field = fields
                    .entry(name)
                    .or_insert_with(|| Value::Object(Map::new()));
                if !field.is_object() {
                    *field = Value::Object(Map::new());
                }
                merge_fields(field, inner);
            }
            new => {
                fields.insert(name.clone(), new.clone());
            }
        }
    }
}
