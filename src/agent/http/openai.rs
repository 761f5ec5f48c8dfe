//! Chat completions, as OpenAI has defined them and many servers speak them.

use serde_json::{Map, Value, json};

use super::ModelRequest;
use super::response::{StopReason, StreamState, TokenUsage};

/// The path of a request.
pub(super) const PATH: &str = "/chat/completions";

pub(super) fn build_body(request: &ModelRequest<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".to_owned(), request.model.into());
    body.insert("messages".to_owned(), json!(request.messages));
    body.insert("stream".to_owned(), true.into());
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    // Not every server knows one name for it, so it is left to the server unless someone asks.
    if let Some(limit) = request.max_output {
        body.insert(
            "max_tokens".to_owned(),
            request
                .model_output
                .map_or(limit, |most| most.min(limit))
                .into(),
        );
    }
    body
}

/// Reads an event, or a whole answer.
pub(super) fn read_event(event: &Value, state: &mut StreamState) {
    // TokenUsage comes with the last chunk or grows with each.
    if let Some(usage) = read_usage(&event["usage"]) {
        state.usage = usage;
    }
    let choice = &event["choices"][0];
    for said in [&choice["delta"], &choice["message"]] {
        read_content(&said["content"], state);
        state.say(&said["refusal"]);
        state.think(&said["reasoning_content"]);
        state.think(&said["reasoning"]);
        if said["refusal"]
            .as_str()
            .is_some_and(|words| !words.is_empty())
        {
            state.stop = Some(StopReason::Refusal("refusal".to_owned()));
        }
    }
    let declined = matches!(state.stop, Some(StopReason::Refusal(_)));
    if let Some(reason) = choice["finish_reason"].as_str().filter(|_| !declined) {
        state.stop = Some(match reason {
            "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" => StopReason::End,
            "length" | "max_tokens" | "model_length" => StopReason::Length,
            "content_filter" | "refusal" => StopReason::Refusal(reason.to_owned()),
            other => StopReason::Other(other.to_owned()),
        });
    }
}

/// Reads a content: a text, or a list of parts of which some are thoughts.
fn read_content(content: &Value, state: &mut StreamState) {
    state.say(content);
    for part in content.as_array().into_iter().flatten() {
        state.say(&part["text"]);
        state.thought |= part["type"] == "thinking";
    }
}

fn read_usage(usage: &Value) -> Option<TokenUsage> {
    let prompt = usage["prompt_tokens"].as_u64()?;
    let cached = [
        &usage["prompt_tokens_details"]["cached_tokens"],
        &usage["prompt_cache_hit_tokens"],
    ];
    let cache_read = cached.into_iter().find_map(Value::as_u64);
    let reasoning = usage["completion_tokens_details"]["reasoning_tokens"].as_u64();
    let output = usage["completion_tokens"].as_u64().map(|output| {
        // Some count thoughts apart, which the total tells.
        let thoughts = reasoning.unwrap_or(0);
        let apart = usage["total_tokens"].as_u64()
            == Some(prompt.saturating_add(output).saturating_add(thoughts));
        if apart {
            output.saturating_add(thoughts)
        } else {
            output
        }
    });
    let input = Some(prompt.saturating_sub(cache_read.unwrap_or(0)));
    Some(TokenUsage {
        input,
        cache_read,
        cache_write: None,
        output,
        reasoning,
    })
}
