//! Gemini's generateContent.

use serde_json::{Map, Value, json};

use super::Request;
use super::messages::{Role, apart};
use super::told::{StopReason, Told, Usage};

/// Returns the path of a request, which names the model.
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

pub(super) fn body(request: &Request<'_>) -> Map<String, Value> {
    let (system, messages) = apart(&request.messages);
    let contents: Vec<Value> = messages
        .into_iter()
        .map(|message| {
            let role = if message.role == Role::Assistant {
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

/// Reads an event, or a whole answer.
pub(super) fn read(event: &Value, told: &mut Told) {
    let candidate = &event["candidates"][0];
    for part in candidate["content"]["parts"]
        .as_array()
        .into_iter()
        .flatten()
    {
        if part["thought"] == true {
            told.think(&part["text"])
        } else {
            told.say(&part["text"])
        }
    }
    if let Some(usage) = usage(&event["usageMetadata"]) {
        told.usage = usage;
    }
    let blocked = event["promptFeedback"]["blockReason"].as_str();
    if let Some(reason) = blocked.or(candidate["finishReason"].as_str()) {
        told.stop = Some(match reason {
            "STOP" => StopReason::End,
            "MAX_TOKENS" => StopReason::Length,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
            | "IMAGE_SAFETY" => StopReason::Refusal(reason.to_owned()),
            other if blocked.is_some() => StopReason::Refusal(other.to_owned()),
            other => StopReason::Other(other.to_owned()),
        });
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let prompt = usage["promptTokenCount"].as_u64()?;
    let cache_read = usage["cachedContentTokenCount"].as_u64();
    let reasoning = usage["thoughtsTokenCount"].as_u64();
    // Thoughts are counted apart there, and are part of the reply here.
    let output = [usage["candidatesTokenCount"].as_u64(), reasoning]
        .into_iter()
        .flatten()
        .reduce(u64::saturating_add);
    let input = Some(prompt.saturating_sub(cache_read.unwrap_or(0)));
    Some(Usage {
        input,
        cache_read,
        cache_write: None,
        output,
        reasoning,
    })
}
