//! Anthropic's Messages API.

use serde_json::{Map, Value, json};

use super::ModelRequest;
use super::messages::split_system;
use super::response::{EventStreamState, StopReason};

/// Path of a request.
pub(super) const PATH: &str = "/messages";

/// Value of the header `anthropic-version`.
pub(super) const API_VERSION: &str = "2023-06-01";

/// Maximum number of reply tokens if the limit of the model is unknown. The API requires a limit in every request.
const DEFAULT_MAX_TOKENS: u64 = 8_192;

pub(super) fn build_body(request: &ModelRequest<'_>) -> Map<String, Value> {
    let (system, messages) = split_system(&request.messages);
    let mut body = Map::new();
    body.insert("model".to_owned(), request.model.into());
    let limit = request
        .model_output
        .or(request.max_output)
        .unwrap_or(DEFAULT_MAX_TOKENS);
    body.insert("max_tokens".to_owned(), limit.into());
    if !system.is_empty() {
        body.insert("system".to_owned(), system.into());
    }
    body.insert("messages".to_owned(), json!(messages));
    body.insert("stream".to_owned(), true.into());
    body
}

/// Reads an event of a stream, or a complete response.
pub(super) fn read_event(event: &Value, state: &mut EventStreamState) {
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => read_usage(&event["message"]["usage"], state),
        "content_block_start" => read_block(&event["content_block"], state),
        "content_block_delta" => read_block(&event["delta"], state),
        "message_delta" => {
            read_usage(&event["usage"], state);
            read_stop_reason(&event["delta"]["stop_reason"], state);
        }
        "message_stop" => state.is_done = true,
        "message" => {
            event["content"]
                .as_array()
                .into_iter()
                .flatten()
                .for_each(|part| read_block(part, state));
            read_usage(&event["usage"], state);
            read_stop_reason(&event["stop_reason"], state);
        }
        _ => {}
    }
}

fn read_block(block: &Value, state: &mut EventStreamState) {
    state.push_text(&block["text"]);
    state.note_thought(&block["thinking"]);
}

fn read_stop_reason(reason: &Value, state: &mut EventStreamState) {
    if let Some(reason) = reason.as_str() {
        state.stop = Some(match reason {
            "end_turn" | "stop_sequence" => StopReason::End,
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "refusal" => StopReason::Refusal(reason.to_owned()),
            other => StopReason::Other(other.to_owned()),
        });
    }
}

/// Updates the token counts; a later count replaces an earlier one.
fn read_usage(usage: &Value, state: &mut EventStreamState) {
    let used = &mut state.usage;
    for (count, name) in [
        (&mut used.input, "input_tokens"),
        (&mut used.cache_read, "cache_read_input_tokens"),
        (&mut used.cache_write, "cache_creation_input_tokens"),
        (&mut used.output, "output_tokens"),
    ] {
        *count = usage[name].as_u64().or(*count);
    }
    used.reasoning = usage["output_tokens_details"]["thinking_tokens"]
        .as_u64()
        .or(used.reasoning);
}
