//! Anthropic's Messages.

use serde_json::{Map, Value, json};

use super::Request;
use super::messages::apart;
use super::told::{StopReason, Told};

/// The path of a request.
pub(super) const PATH: &str = "/messages";

/// The version of the API that is spoken here.
pub(super) const VERSION: &str = "2023-06-01";

/// The most tokens of a reply if nobody knows how many the model can give; a request must name some.
const MAX_TOKENS: u64 = 8_192;

pub(super) fn body(request: &Request<'_>) -> Map<String, Value> {
    let (system, messages) = apart(&request.messages);
    let mut body = Map::new();
    body.insert("model".to_owned(), request.model.into());
    let limit = request
        .model_output
        .or(request.max_output)
        .unwrap_or(MAX_TOKENS);
    body.insert("max_tokens".to_owned(), limit.into());
    if !system.is_empty() {
        body.insert("system".to_owned(), system.into());
    }
    body.insert("messages".to_owned(), json!(messages));
    body.insert("stream".to_owned(), true.into());
    body
}

/// Reads an event, or a whole answer.
pub(super) fn read(event: &Value, told: &mut Told) {
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => usage(&event["message"]["usage"], told),
        "content_block_start" => block(&event["content_block"], told),
        "content_block_delta" => block(&event["delta"], told),
        "message_delta" => {
            usage(&event["usage"], told);
            stop(&event["delta"]["stop_reason"], told);
        }
        "message_stop" => told.done = true,
        "message" => {
            event["content"]
                .as_array()
                .into_iter()
                .flatten()
                .for_each(|part| block(part, told));
            usage(&event["usage"], told);
            stop(&event["stop_reason"], told);
        }
        _ => {}
    }
}

fn block(block: &Value, told: &mut Told) {
    told.say(&block["text"]);
    told.think(&block["thinking"]);
}

fn stop(reason: &Value, told: &mut Told) {
    if let Some(reason) = reason.as_str() {
        told.stop = Some(match reason {
            "end_turn" | "stop_sequence" => StopReason::End,
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "refusal" => StopReason::Refusal(reason.to_owned()),
            other => StopReason::Other(other.to_owned()),
        });
    }
}

/// Takes over what an event tells of usage; the last word counts for each number.
fn usage(usage: &Value, told: &mut Told) {
    let used = &mut told.usage;
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
