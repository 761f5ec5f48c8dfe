//! Gemini's generateContent.

use serde_json::{Map, Value, json};

use super::ModelRequest;
use super::messages::{ChatRole, split_system};
use super::response::{EventStreamState, StopReason, TokenUsage};

/// Returns the path of a request, with the model percent-encoded.
pub(super) fn path(model: &str) -> String {
    let mut path = "/models/".to_owned();
    for byte in model.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                path.push(char::from(byte))
            }
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path + ":streamGenerateContent?alt=sse"
}

pub(super) fn build_body(request: &ModelRequest<'_>) -> Map<String, Value> {
    let (system, messages) = split_system(&request.messages);
    let contents: Vec<Value> = messages
        .into_iter()
        .map(|message| {
            let role = if message.role == ChatRole::Assistant {
                "model"
            } else {
                "user"
            };
            json!({"role": role, "parts": [{"text": message.content}]})
        })
        .collect();
    let mut body = Map::new();
    if !system.is_empty() {
        body.insert(
            "systemInstruction".to_owned(),
            json!({"parts": [{"text": system}]}),
        );
    }
    body.insert("contents".to_owned(), contents.into());
    if let Some(limit) = request.max_output {
        let limit = request.model_output.map_or(limit, |most| most.min(limit));
        body.insert(
            "generationConfig".to_owned(),
            json!({"maxOutputTokens": limit}),
        );
    }
    body
}

/// Reads an event of a stream, or a complete response.
pub(super) fn read_event(event: &Value, state: &mut EventStreamState) {
    let candidate = &event["candidates"][0];
    for part in candidate["content"]["parts"]
        .as_array()
        .into_iter()
        .flatten()
    {
        if part["thought"] == true {
            state.note_thought(&part["text"])
        } else {
            state.push_text(&part["text"])
        }
    }
    if let Some(usage) = read_usage(&event["usageMetadata"]) {
        state.usage = usage;
    }
    let blocked = event["promptFeedback"]["blockReason"].as_str();
    if let Some(reason) = blocked.or(candidate["finishReason"].as_str()) {
        state.stop = Some(match reason {
            "STOP" => StopReason::End,
            "MAX_TOKENS" => StopReason::Length,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
            | "IMAGE_SAFETY" => StopReason::Refusal(reason.to_owned()),
            other if blocked.is_some() => StopReason::Refusal(other.to_owned()),
            other => StopReason::Other(other.to_owned()),
        });
    }
}

fn read_usage(usage: &Value) -> Option<TokenUsage> {
    let prompt = usage["promptTokenCount"].as_u64()?;
    let cache_read = usage["cachedContentTokenCount"].as_u64();
    let reasoning = usage["thoughtsTokenCount"].as_u64();
    // Gemini counts thoughts separately; in `TokenUsage` they are part of the output.
    let output = [usage["candidatesTokenCount"].as_u64(), reasoning]
        .into_iter()
        .flatten()
        .reduce(u64::saturating_add);
    let input = Some(prompt.saturating_sub(cache_read.unwrap_or(0)));
    Some(TokenUsage {
        input,
        cache_read,
        cache_write: None,
        output,
        reasoning,
    })
}
