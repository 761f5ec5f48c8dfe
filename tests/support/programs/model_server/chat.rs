//! Messages of the chat completions dialect.

use serde_json::{Value, json};

use crate::dialect::{Answer, Event, RequestPosition};
use crate::script::{Reply, Stop};

pub(crate) fn answer(reply: &Reply, asked: RequestPosition<'_>) -> Answer {
    let stop = match reply.stop {
        Stop::Length => "length",
        Stop::Refusal => "content_filter",
        Stop::End if reply.tools.is_empty() => "stop",
        Stop::End => "tool_calls",
    };
    let used = reply.usage;
    let usage = json!({
        "prompt_tokens": used.input + used.cache_read, "completion_tokens": used.output,
        "total_tokens": used.input + used.cache_read + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cache_read},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
    });
    let said = |kind: &str, choices: Value| {
        json!({
            "id": format!("chatcmpl-{}", asked.number), "object": kind, "created": 1_700_000_000,
            "model": asked.model, "choices": choices,
        })
    };

    let calls: Vec<Value> = reply.tools.iter().enumerate().map(|(index, tool)| {
        let function = json!({"name": tool.name, "arguments": tool.input.to_string()});
        json!({"index": index, "id": format!("call_{}_{index}", asked.number), "type": "function", "function": function})
    }).collect();

    let mut message = json!({"role": "assistant", "content": reply.text});
    if !reply.thinking.is_empty() {
        message["reasoning_content"] = reply.thinking.clone().into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.clone().into();
    }
    let mut whole = said(
        "chat.completion",
        json!([{"index": 0, "message": message, "finish_reason": stop}]),
    );
    whole["usage"] = usage.clone();

    let chunk = |delta: Value, stop: Option<&str>| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": stop}]);
        Event::plain(&said("chat.completion.chunk", choices))
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    if !reply.thinking.is_empty() {
        events.push(chunk(json!({"reasoning_content": reply.thinking}), None));
    }
    events.extend(
        reply
            .pieces()
            .into_iter()
            .map(|piece| chunk(json!({"content": piece}), None).piece()),
    );
    if !calls.is_empty() {
        events.push(chunk(json!({"tool_calls": calls}), None));
    }
    events.push(chunk(json!({}), Some(stop)));
    let mut last = said("chat.completion.chunk", json!([]));
    last["usage"] = usage;
    events.push(Event::plain(&last));
    events.push(Event {
        name: None,
        data: "[DONE]".to_owned(),
        is_piece: false,
    });
    Answer { whole, events }
}
