//! HTTP models, called by the built-in client.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use agentd::agent::{AgentCall, Containment, Drivers, Limits};
use agentd::config::{Agents, Environment};
use agentd::models::{CallOutcome, Format, Mode, Permission, Reply};
use agentd::secret::Secrets;
use serde_json::{Value, json};

use super::agent_output::shipped;
use super::waiting::HANG;

/// The API key in every request. Its variable matches no pattern of secret names.
pub(crate) const KEY: &str = "canary-5f3b9a1c7d";

/// The dialects and the path at which the server speaks each.
pub(crate) const DIALECTS: [(&str, &str); 3] = [
    ("openai", "/v1"),
    ("anthropic", "/v1"),
    ("gemini", "/v1beta"),
];

/// Returns the providers `my-openai`, `my-anthropic` and `my-gemini` at an address, with further keys for each.
pub(crate) fn providers(url: &str, more: &Value) -> Agents {
    let mut providers = json!({});
    for (dialect, path) in DIALECTS {
        let provider = &mut providers[format!("my-{dialect}")];
        *provider =
            json!({"dialect": dialect, "base_url": format!("{url}{path}"), "key": "UNLOCKER"});
        for (name, value) in more.as_object().into_iter().flatten() {
            provider[name] = value.clone();
        }
    }
    let written = json!({"format": 1, "providers": providers}).to_string();
    shipped().overlaid(&written, "agents.yaml").unwrap()
}

pub(crate) fn drivers(agents: Agents, variables: &[(&str, &str)]) -> Drivers {
    let variables = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let environment = Environment(variables.collect());
    let secrets = Secrets::new(agents.secrets(&environment));
    let guard = Path::new(env!("CARGO_BIN_EXE_agentd")).to_path_buf();
    Drivers {
        agents,
        environment,
        secrets,
        guard,
        containment: Containment::Guard,
        ..Drivers::default()
    }
}

/// One request to a model.
pub(crate) struct Ask<'a> {
    pub(crate) agent: &'a str,
    pub(crate) prompt: &'a str,
    pub(crate) format: Format,
    pub(crate) max_output: Option<u64>,
}

impl<'a> Ask<'a> {
    pub(crate) fn of(agent: &'a str) -> Self {
        Self {
            agent,
            prompt: "Say something.",
            format: Format::Xml,
            max_output: None,
        }
    }
}

pub(crate) fn ask(drivers: &Drivers, ask: &Ask<'_>) -> Result<Reply, agentd::Error> {
    let place = tempfile::tempdir().unwrap();
    let mode = Mode::new("plan").unwrap();
    let driver = drivers.find(ask.agent)?;
    let call = AgentCall {
        prompt: ask.prompt,
        format: ask.format,
        mode: &mode,
        permission: Permission::ReadOnly,
        tools: agentd::agent::Tools::Own,
        commands: &[],
        model: None,
        max_output: ask.max_output,
        root: place.path(),
        folder: &place.path().join("call"),
        marker: "http-agent-test",
        limits: Limits {
            grace: Duration::from_millis(200),
            ..Limits::default()
        },
    };
    let mut running = driver.start(&call)?;
    Ok(running.wait(HANG)?.unwrap())
}

/// Clears the text of a failure without a reply, where it holds output lines of the client.
pub(crate) fn forget_lines(reply: &mut Reply) {
    if matches!(reply.end, CallOutcome::Crashed { .. }) && reply.text.starts_with("{\"type\":\"") {
        reply.text.clear();
    }
}
