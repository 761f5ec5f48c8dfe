//! What a server says of a failure, in the words that all failures are told apart by.

use serde_json::Value;
use ureq::http::{HeaderMap, StatusCode};

use super::retry_after;
use crate::agent::output_parser;

/// How much is kept of an answer that is no JSON.
const MAX_SHOWN_BYTES: usize = 500;

/// Returns what an event says of a failure; `None` if it tells of none.
pub(super) fn event_error(event: &Value) -> Option<String> {
    let has_failed =
        !event["error"].is_null() || event["object"] == "error" || event["type"] == "error";
    has_failed.then(|| error_message(event, None)).flatten()
}

/// Returns what an answer of another status than success says.
pub(super) fn response_error(status: StatusCode, headers: &HeaderMap, body: &str) -> String {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mut told = format!("status {}", status.as_u16());
    if let Some(reason) = status.canonical_reason() {
        told = format!("{told} {reason}");
    }
    let value = output_parser::parse_value(body);
    if let Some(words) = value
        .and_then(|value| error_message(&value, Some(status)))
        .or_else(|| first_line(body))
    {
        told = format!("{told}: {words}");
    }
    if let Some(place) = header("location").filter(|_| status.is_redirection()) {
        told = format!("{told}: the server is at {place}, and redirects are not followed");
    }
    if let Some(seconds) = header("retry-after")
        .and_then(|after| retry_after::parse_retry_after(after, header("date")))
    {
        told = format!("{told} (retry-after: {seconds})");
    }
    told
}

/// Returns the start of a text, in one line; `None` if there is none.
pub(super) fn first_line(text: &str) -> Option<String> {
    let start = &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)];
    let line = start.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}

/// Returns the names and the message of a failure, in whichever of the known forms it is told.
fn error_message(value: &Value, status: Option<StatusCode>) -> Option<String> {
    let value = value.get(0).unwrap_or(value);
    let error = Some(&value["error"])
        .filter(|error| !error.is_null())
        .unwrap_or(value);
    if let Some(message) = error.as_str() {
        return Some(message.to_owned());
    }
    let said = [&error["message"], &error["detail"], &error["msg"]]
        .into_iter()
        .find(|said| !said.is_null());
    let message = match said {
        Some(Value::String(message)) => message.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let mut told: Vec<String> = Vec::new();
    for name in ["type", "code", "status"] {
        let name = match &error[name] {
            Value::String(name) => name.clone(),
            // A number that is no more than the answer's own status has been told.
            Value::Number(code)
                if status.is_none_or(|status| code.as_u64() != Some(status.as_u16().into())) =>
            {
                format!("code {code}")
            }
            _ => continue,
        };
        if !name.is_empty() && !told.contains(&name) && !message.contains(&name) {
            told.push(name);
        }
    }
    told.extend(Some(message).filter(|message| !message.is_empty()));
    let details = error["details"].as_array().into_iter().flatten();
    let delays = details.filter_map(|detail| detail["retryDelay"].as_str());
    let delay: String = delays
        .take(1)
        .map(|delay| format!(" (retryDelay: {delay})"))
        .collect();
    (!told.is_empty()).then(|| told.join(": ") + &delay)
}
