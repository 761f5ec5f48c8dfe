//! Messages of the OpenAI responses dialect, and failures of OpenAI.

use serde_json::{Map, Value, json};

use crate::dialect::{Answer, Event, RequestPosition};
use crate::script::{Reply, Stop, Tool};

pub(crate) fn answer(reply: &Reply, asked: RequestPosition<'_>) -> Answer {
    let used = reply.usage;
    let input = used.input + used.cache_read + used.cache_write;
    let usage = json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": used.cache_read, "cache_write_tokens": used.cache_write},
        "output_tokens": used.output, "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": input + used.output,
    });
    let head = json!({
        "id": format!("resp_{}", asked.number), "object": "response", "created_at": 1_700_000_000,
        "status": "in_progress", "model": asked.model, "output": [], "error": null, "incomplete_details": null,
    });
    let mut printed = OutputBuilder::default();
    printed.push_event("response.created", json!({"response": head}));
    printed.push_event("response.in_progress", json!({"response": head}));
    if !reply.thinking.is_empty() {
        printed.thought(&reply.thinking, asked.number);
    }
    if !reply.text.is_empty() {
        printed.message(reply, asked.number);
    }
    for (index, tool) in reply.tools.iter().enumerate() {
        printed.tool(tool, &format!("{}_{index}", asked.number));
    }

    let mut whole = head;
    whole["output"] = printed.output.clone().into();
    whole["usage"] = usage;
    let reason = match reply.stop {
        Stop::End => None,
        Stop::Length => Some("max_output_tokens"),
        Stop::Refusal => Some("content_filter"),
    };
    whole["status"] = if reason.is_some() {
        "incomplete"
    } else {
        "completed"
    }
    .into();
    if let Some(reason) = reason {
        whole["incomplete_details"] = json!({"reason": reason});
    }
    let name = if reason.is_some() {
        "response.incomplete"
    } else {
        "response.completed"
    };
    printed.push_event(name, json!({"response": whole}));
    Answer {
        whole,
        events: printed.events,
    }
}

/// The output so far.
#[derive(Default)]
struct OutputBuilder {
    events: Vec<Event>,
    output: Vec<Value>,
}

impl OutputBuilder {
    fn push_event(&mut self, name: &'static str, more: Value) {
        let mut data = Map::new();
        data.insert("type".to_owned(), name.into());
        data.insert("sequence_number".to_owned(), self.events.len().into());
        if let Value::Object(more) = more {
            data.extend(more);
        }
        self.events.push(Event::named(name, &data.into()));
    }

    /// Announces an item, without the parts that follow later.
    fn add(&mut self, item: &Value, not_yet: Value) {
        let mut started = item.clone();
        if let (Value::Object(started), Value::Object(not_yet)) = (&mut started, not_yet) {
            started.extend(not_yet);
        }
        let index = self.output.len();
        self.push_event(
            "response.output_item.added",
            json!({"output_index": index, "item": started}),
        );
    }

    fn done(&mut self, item: Value) {
        let index = self.output.len();
        self.push_event(
            "response.output_item.done",
            json!({"output_index": index, "item": item}),
        );
        self.output.push(item);
    }

    fn thought(&mut self, text: &str, number: usize) {
        let (id, index) = (format!("rs_{number}"), self.output.len());
        let part = |key: &str, value: Value| {
            let mut part = json!({"item_id": id, "output_index": index, "summary_index": 0});
            part[key] = value;
            part
        };

        let summary = json!({"type": "summary_text", "text": text});
        let item = json!({
            "type": "reasoning", "id": id, "summary": [summary], "content": [], "encrypted_content": null,
        });
        self.add(&item, json!({"summary": []}));
        let empty = json!({"type": "summary_text", "text": ""});
        self.push_event("response.reasoning_summary_part.added", part("part", empty));
        self.push_event(
            "response.reasoning_summary_text.delta",
            part("delta", text.into()),
        );
        self.push_event(
            "response.reasoning_summary_text.done",
            part("text", text.into()),
        );
        self.push_event(
            "response.reasoning_summary_part.done",
            part("part", summary),
        );
        self.done(item);
    }

    fn message(&mut self, reply: &Reply, number: usize) {
        let (id, index) = (format!("msg_{number}"), self.output.len());
        let part = |key: &str, value: Value| {
            let mut part = json!({"item_id": id, "output_index": index, "content_index": 0});
            part[key] = value;
            part
        };

        let content = json!({"type": "output_text", "text": reply.text, "annotations": []});
        let item = json!({
            "type": "message", "id": id, "role": "assistant", "status": "completed", "content": [content],
        });
        self.add(&item, json!({"status": "in_progress", "content": []}));
        let empty = json!({"type": "output_text", "text": "", "annotations": []});
        self.push_event("response.content_part.added", part("part", empty));
        for piece in reply.pieces() {
            self.push_event("response.output_text.delta", part("delta", piece.into()));
            if let Some(event) = self.events.last_mut() {
                event.is_piece = true;
            }
        }

        self.push_event(
            "response.output_text.done",
            part("text", reply.text.clone().into()),
        );
        self.push_event("response.content_part.done", part("part", content));
        self.done(item);
    }

    fn tool(&mut self, tool: &Tool, number: &str) {
        // A tool that takes a text has another type than one that takes named values.
        let (kind, key, input) = match &tool.input {
            Value::String(text) => ("custom_tool_call", "input", text.clone()),
            input => ("function_call", "arguments", input.to_string()),
        };
        let mut item = json!({
            "type": kind, "id": format!("fc_{number}"), "call_id": format!("call_{number}"), "name": tool.name,
            "status": "completed",
        });
        item[key] = input.into();
        self.add(&item, json!({"status": "in_progress"}));
        self.done(item);
    }
}

pub(crate) fn failure(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", "invalid_api_key"),
        400..=428 => ("invalid_request_error", "invalid_request_error"),
        429 => ("rate_limit_exceeded", "rate_limit_exceeded"),
        503 => ("server_error", "server_is_overloaded"),
        _ => ("server_error", "server_error"),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

pub(crate) fn failure_event(message: &str) -> Event {
    let response = json!({
        "id": "resp_failed", "object": "response", "status": "failed", "output": [],
        "error": {"code": "server_error", "message": message},
    });
    Event::named(
        "response.failed",
        &json!({"type": "response.failed", "response": response}),
    )
}
