//! HTTP models: answers of a server with the reply they must give, and prompts with the request they must cause.

use agentd::ErrorKind;
use agentd::models::{CallOutcome, Format, Reply, UsageMetrics};
use agentd::text::yaml;
use libtest_mimic::Trial;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::http_agent::{Ask, KEY, ask, drivers, forget_lines, providers};
use crate::support::model_server_process::ModelServer;
use crate::trials_of;

pub(crate) fn trials() -> Vec<Trial> {
    let answers = trials_of("http/answers", check_answer);
    answers
        .into_iter()
        .chain(trials_of("http/requests", check_request))
        .collect()
}

/// The answer of a server and the expected reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerCase {
    dialect: String,
    #[serde(default = "ok_status")]
    status: u16,
    #[serde(default)]
    headers: Value,
    #[serde(default = "event_stream")]
    content_type: String,
    body: String,
    #[serde(default)]
    end: CallOutcome,
    #[serde(default)]
    text: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    usage: UsageMetrics,
}

fn ok_status() -> u16 {
    200
}

fn event_stream() -> String {
    "text/event-stream".to_owned()
}

fn check_answer(text: &str) {
    let case: AnswerCase = yaml::read(text, "case", 1, ErrorKind::ConfigInvalid).unwrap();
    let raw = json!({"status": case.status, "content_type": case.content_type, "body": case.body});
    let headers = if case.headers.is_null() {
        json!({})
    } else {
        case.headers
    };
    let server = ModelServer::start(&json!([{"raw": raw, "headers": headers}]));

    let drivers = drivers(providers(server.url(), &json!({})), &[("UNLOCKER", KEY)]);
    let mut reply = ask(&drivers, &Ask::of(&format!("my-{}:m", case.dialect))).unwrap();
    forget_lines(&mut reply);

    let AnswerCase {
        end,
        text,
        detail,
        usage,
        ..
    } = case;
    assert_eq!(
        reply,
        Reply {
            text,
            usage,
            end,
            detail,
            left_behind: 0,
            tool_calls: Some(0)
        }
    );
}

/// A prompt and the expected request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestCase {
    dialect: String,
    #[serde(default = "default_model")]
    model: String,
    #[serde(default)]
    format: Format,
    prompt: String,
    max_output: Option<u64>,
    /// Further keys of the provider.
    #[serde(default)]
    provider: Value,
    path: String,
    body: Value,
}

fn default_model() -> String {
    "m".to_owned()
}

fn check_request(text: &str) {
    let case: RequestCase = yaml::read(text, "case", 1, ErrorKind::ConfigInvalid).unwrap();
    let server = ModelServer::start(&json!([{"text": "Done."}]));
    let drivers = drivers(
        providers(server.url(), &case.provider),
        &[("UNLOCKER", KEY)],
    );

    let agent = format!("my-{}:{}", case.dialect, case.model);
    let request = Ask {
        agent: &agent,
        prompt: &case.prompt,
        format: case.format,
        max_output: case.max_output,
    };
    assert_eq!(ask(&drivers, &request).unwrap().text, "Done.");

    let body: Value = serde_json::from_str(&server.body(1)).unwrap();
    assert_eq!(body, case.body);
    assert_eq!(server.requests()[0]["path"], case.path);
}
