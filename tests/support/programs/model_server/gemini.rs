//! Messages of the Gemini dialect.

use serde_json::{Value, json};

use crate::dialect::{Answer, Event, RequestPosition};
use crate::script::{Reply, Stop};

pub(crate) fn answer(reply: &Reply, asked: RequestPosition<'_>) -> Answer {
    let stop = match reply.stop {
        Stop::End => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
    };
    let used = reply.usage;
    let usage = json!({
        "promptTokenCount": used.input + used.cache_read, "cachedContentTokenCount": used.cache_read,
        "candidatesTokenCount": used.output - used.reasoning, "thoughtsTokenCount": used.reasoning,
        "totalTokenCount": used.input + used.cache_read + used.output,
    });
    let said = |parts: &[Value], is_last: bool| {
        let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
        if is_last {
            candidate["finishReason"] = stop.into();
        }
        json!({
            "candidates": [candidate], "usageMetadata": usage, "modelVersion": asked.model,
            "responseId": format!("response_{}", asked.number),
        })
    };

    let thought =
        (!reply.thinking.is_empty()).then(|| json!({"text": reply.thinking, "thought": true}));
    let text = (!reply.text.is_empty()).then(|| json!({"text": reply.text}));
    let tools = reply
        .tools
        .iter()
        .map(|tool| json!({"functionCall": {"name": tool.name, "args": tool.input}}));
    let whole: Vec<Value> = thought
        .iter()
        .cloned()
        .chain(text)
        .chain(tools.clone())
        .collect();

    let mut events: Vec<Event> = thought
        .into_iter()
        .map(|part| Event::plain(&said(&[part], false)))
        .collect();
    let pieces = reply
        .pieces()
        .into_iter()
        .map(|piece| json!({"text": piece}));
    events.extend(pieces.map(|part| Event::plain(&said(&[part], false)).piece()));
    events.extend(tools.map(|part| Event::plain(&said(&[part], false))));
    events.push(Event::plain(&said(&[json!({"text": ""})], true)));
    Answer {
        whole: said(&whole, true),
        events,
    }
}

pub(crate) fn failure(status: u16, message: &str) -> Value {
    let name = match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 => "UNAVAILABLE",
        _ => "UNKNOWN",
    };
    json!({"error": {"code": status, "message": message, "status": name}})
}
