//! Messages of the Anthropic dialect.

use serde_json::{Value, json};

use crate::dialect::{Answer, Event, RequestPosition};
use crate::script::{Reply, Stop, Usage, pieces};

pub(crate) fn answer(reply: &Reply, asked: RequestPosition<'_>) -> Answer {
    let stop = match reply.stop {
        Stop::Length => "max_tokens",
        Stop::Refusal => "refusal",
        Stop::End if reply.tools.is_empty() => "end_turn",
        Stop::End => "tool_use",
    };
    let usage = usage(reply.usage);
    let head = json!({
        "id": format!("msg_{}", asked.number), "type": "message", "role": "assistant", "model": asked.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let mut whole = head.clone();
    let mut events = vec![Event::named(
        "message_start",
        &json!({"type": "message_start", "message": head}),
    )];
    let mut content = Vec::new();
    for block in blocks(reply, asked.number) {
        block.push_event(content.len(), &mut events);
        content.push(block.whole);
    }

    events.push(Event::named(
        "message_delta",
        &json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": usage}),
    ));
    events.push(Event::named(
        "message_stop",
        &json!({"type": "message_stop"}),
    ));
    whole["content"] = content.into();
    whole["stop_reason"] = stop.into();
    Answer { whole, events }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read, "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    })
}

/// A block of the content, whole and as stream events.
struct Block {
    whole: Value,
    start: Value,
    deltas: Vec<Value>,
    is_text: bool,
}

fn blocks(reply: &Reply, number: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !reply.thinking.is_empty() {
        let delta = |piece: String| json!({"type": "thinking_delta", "thinking": piece});
        let mut deltas: Vec<_> = pieces(&reply.thinking, reply.chunk)
            .into_iter()
            .map(delta)
            .collect();
        deltas.push(json!({"type": "signature_delta", "signature": "c2lnbmVk"}));
        blocks.push(Block {
            whole: json!({"type": "thinking", "thinking": reply.thinking, "signature": "c2lnbmVk"}),
            start: json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas,
            is_text: false,
        });
    }

    if !reply.text.is_empty() {
        let delta = |piece: String| json!({"type": "text_delta", "text": piece});
        blocks.push(Block {
            whole: json!({"type": "text", "text": reply.text}),
            start: json!({"type": "text", "text": ""}),
            deltas: reply.pieces().into_iter().map(delta).collect(),
            is_text: true,
        });
    }

    for (index, tool) in reply.tools.iter().enumerate() {
        let id = format!("toolu_{number}_{index}");
        let delta = |piece: String| json!({"type": "input_json_delta", "partial_json": piece});
        blocks.push(Block {
            whole: json!({"type": "tool_use", "id": id, "name": tool.name, "input": tool.input}),
            start: json!({"type": "tool_use", "id": id, "name": tool.name, "input": {}}),
            deltas: pieces(&tool.input.to_string(), reply.chunk)
                .into_iter()
                .map(delta)
                .collect(),
            is_text: false,
        });
    }

    blocks
}

impl Block {
    fn push_event(&self, index: usize, events: &mut Vec<Event>) {
        let start =
            json!({"type": "content_block_start", "index": index, "content_block": self.start});
        events.push(Event::named("content_block_start", &start));
        for delta in &self.deltas {
            let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
            let event = Event::named("content_block_delta", &delta);
            events.push(if self.is_text { event.piece() } else { event });
        }
        let stop = json!({"type": "content_block_stop", "index": index});
        events.push(Event::named("content_block_stop", &stop));
    }
}

pub(crate) fn failure(status: u16, message: &str) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}
