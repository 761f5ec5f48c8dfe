//! Converts a server's error response to a message that the failure rules can classify.

use serde_json::Value;
use ureq::http::{HeaderMap, StatusCode};

use super::retry_after;
use crate::agent::output_parser;

/// Maximum length of the shown part of a response that is not JSON.
const MAX_SHOWN_BYTES: usize = 500;

/// Returns the message of an error event; `None` for other events.
pub(super) fn event_error(event: &Value) -> Option<String> {
    let has_failed =
        !event["error"].is_null() || event["object"] == "error" || event["type"] == "error";
    has_failed.then(|| error_message(event, None)).flatten()
}

/// Returns the message of a response whose status is not success: status, error message and retry delay.
pub(super) fn response_error(status: StatusCode, headers: &HeaderMap, body: &str) -> String {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mut message = format!("status {}", status.as_u16());
    if let Some(reason) = status.canonical_reason() {
        message.push_str(&format!(" {reason}"));
    }

    let value = output_parser::parse_value(body);
    if let Some(reason) = value
        .and_then(|value| error_message(&value, Some(status)))
        .or_else(|| first_line(body))
    {
        message.push_str(&format!(": {reason}"));
    }

    if let Some(target) = header("location").filter(|_| status.is_redirection()) {
        message.push_str(&format!(": redirects to {target} are not followed"));
    }
    if let Some(seconds) = header("retry-after")
        .and_then(|after| retry_after::parse_retry_after(after, header("date")))
    {
        message.push_str(&format!(" (retry-after: {seconds})"));
    }
    message
}

/// Returns the start of `text`, joined into one line; `None` if the text is blank.
pub(super) fn first_line(text: &str) -> Option<String> {
    let start = &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)];
    let line = start.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}

/// Returns the error names (type, code, status) and the message of an error in any of the known formats.
fn error_message(value: &Value, status: Option<StatusCode>) -> Option<String> {
    let value = value.get(0).unwrap_or(value);
    let error = Some(&value["error"])
        .filter(|error| !error.is_null())
        .unwrap_or(value);
    if let Some(message) = error.as_str() {
        return Some(message.to_owned());
    }

    let text = [&error["message"], &error["detail"], &error["msg"]]
        .into_iter()
        .find(|text| !text.is_null());
    let message = match text {
        Some(Value::String(message)) => message.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };

    let mut parts: Vec<String> = Vec::new();
    for name in ["type", "code", "status"] {
        let name = match &error[name] {
            Value::String(name) => name.clone(),
            // The HTTP status is already part of the message.
            Value::Number(code)
                if status.is_none_or(|status| code.as_u64() != Some(status.as_u16().into())) =>
            {
                format!("code {code}")
            }
            _ => continue,
        };
        if !name.is_empty() && !parts.contains(&name) && !message.contains(&name) {
            parts.push(name);
        }
    }
    parts.extend(Some(message).filter(|message| !message.is_empty()));

    let delay = error["details"]
        .as_array()
        .into_iter()
        .flatten()
        .find_map(|detail| detail["retryDelay"].as_str())
        .map(|delay| format!(" (retryDelay: {delay})"))
        .unwrap_or_default();
    (!parts.is_empty()).then(|| parts.join(": ") + &delay)
}
