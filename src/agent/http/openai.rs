//! OpenAI's chat completions, which many servers implement.

use serde_json::{Map, Value, json};

use super::ModelRequest;
use super::response::{EventStreamState, StopReason, TokenUsage};

/// Path of a request.
pub(super) const PATH: &str = "/chat/completions";

pub(super) fn build_body(request: &ModelRequest<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".to_owned(), request.model.into());
    body.insert("messages".to_owned(), json!(request.messages));
    body.insert("stream".to_owned(), true.into());
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    // Servers use different names for this field, so it is sent only if the definition sets a limit.
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

/// Reads an event of a stream, or a complete response.
pub(super) fn read_event(event: &Value, state: &mut EventStreamState) {
    // Some servers send the usage with the last chunk, others a running total with each chunk.
    if let Some(usage) = read_usage(&event["usage"]) {
        state.usage = usage;
    }
    let choice = &event["choices"][0];
    for message in [&choice["delta"], &choice["message"]] {
        read_content(&message["content"], state);
        state.push_text(&message["refusal"]);
        state.note_thought(&message["reasoning_content"]);
        state.note_thought(&message["reasoning"]);
        if message["refusal"]
            .as_str()
            .is_some_and(|refusal| !refusal.is_empty())
        {
            state.stop = Some(StopReason::Refusal("refusal".to_owned()));
        }
    }
    let is_refused = matches!(state.stop, Some(StopReason::Refusal(_)));
    if let Some(reason) = choice["finish_reason"].as_str().filter(|_| !is_refused) {
        state.stop = Some(match reason {
            "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" => StopReason::End,
            "length" | "max_tokens" | "model_length" => StopReason::Length,
            "content_filter" | "refusal" => StopReason::Refusal(reason.to_owned()),
            other => StopReason::Other(other.to_owned()),
        });
    }
}

/// Reads message content: a string, or a list of parts, some of which may be thoughts.
fn read_content(content: &Value, state: &mut EventStreamState) {
    state.push_text(content);
    for part in content.as_array().into_iter().flatten() {
        state.push_text(&part["text"]);
        state.has_thought |= part["type"] == "thinking";
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
        // Some servers do not include reasoning tokens in `completion_tokens`, but `total_tokens` includes them.
        let thoughts = reasoning.unwrap_or(0);
        let is_separate = usage["total_tokens"].as_u64()
            == Some(prompt.saturating_add(output).saturating_add(thoughts));
        if is_separate {
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
