//! The log of requests.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::Outcome;
use crate::http::Request;

/// Maximum number of characters of a logged text.
const MAX_LOGGED_CHARACTERS: usize = 2_000;

/// Headers of which only the length is logged.
const SECRET: [&str; 6] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "cookie",
];

/// Destination of the log.
#[derive(Debug)]
pub(crate) struct Log {
    file: Option<Mutex<File>>,
    bodies: Option<PathBuf>,
    prompt: Option<PathBuf>,
    count: AtomicUsize,
}

/// A request, as a line of the log.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    /// From 1.
    pub(crate) number: usize,
    /// `anthropic`, `gemini`, `responses` or `chat`; `null` for an unknown path.
    pub(crate) dialect: Option<&'static str>,
    method: String,
    /// Without the value of a key.
    path: String,
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    /// Number of bytes of the body.
    bytes: usize,
    headers: BTreeMap<String, String>,
    /// `null` if the request is never answered.
    pub(crate) status: Option<u16>,
    prompt: PromptMatch,
    /// The texts of the last user message without the prompt.
    extra: Vec<String>,
}

/// Position of the prompt in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum PromptMatch {
    /// No string contains the prompt.
    Missing,
    /// A string contains the prompt and more.
    Within,
    /// A string equals the prompt.
    Whole,
}

impl Log {
    pub(crate) fn new(
        file: Option<PathBuf>,
        bodies: Option<PathBuf>,
        prompt: Option<PathBuf>,
    ) -> Outcome<Self> {
        if let Some(bodies) = &bodies {
            fs::create_dir_all(bodies)?;
        }
        let file = file.map(File::create).transpose()?.map(Mutex::new);
        Ok(Self {
            file,
            bodies,
            prompt,
            count: AtomicUsize::new(0),
        })
    }

    /// Creates the entry of a request whose status is not known yet.
    pub(crate) fn open(&self, request: &Request, body: &Value) -> Entry {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(bodies) = &self.bodies {
            // A missing log entry fails the test that expects it.
            let _failed = fs::write(bodies.join(number.to_string()), &request.body);
        }

        let prompt = self
            .prompt
            .as_ref()
            .and_then(|path| fs::read_to_string(path).ok());
        let mask = |(name, value): (&String, &String)| {
            let value = if SECRET.contains(&name.as_str()) {
                masked(value)
            } else {
                value.clone()
            };
            (name.clone(), value)
        };

        Entry {
            number,
            dialect: None,
            method: request.method.clone(),
            path: without_key(&request.path),
            model: model(&request.path, body),
            stream: body["stream"] == true || request.path.contains(":streamGenerateContent"),
            bytes: request.body.len(),
            headers: request.headers.iter().map(mask).collect(),
            status: None,
            prompt: prompt
                .as_ref()
                .map_or(PromptMatch::Missing, |prompt| find(body, prompt)),
            extra: extra(body, prompt.as_deref()),
        }
    }

    /// Writes an entry to the log.
    pub(crate) fn close(&self, entry: &Entry) -> Outcome<()> {
        if let Some(file) = &self.file {
            let line = format!("{}\n", serde_json::to_string(entry)?);
            file.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

fn masked(value: &str) -> String {
    format!("*** ({} bytes)", value.len())
}

/// Masks the key that a Gemini client may put into the query.
fn without_key(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<String> = query
        .split('&')
        .map(|part| {
            part.strip_prefix("key=")
                .map_or(part.to_owned(), |key| format!("key={}", masked(key)))
        })
        .collect();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", parts.join("&"))
    }
}

/// Returns the requested model. Gemini has it in the path.
fn model(path: &str, body: &Value) -> Option<String> {
    let in_path = path
        .split_once("/models/")
        .and_then(|(_, rest)| rest.split([':', '?', '/']).next());
    body["model"].as_str().or(in_path).map(str::to_owned)
}

fn find(value: &Value, prompt: &str) -> PromptMatch {
    match value {
        Value::String(text) if text == prompt => PromptMatch::Whole,
        Value::String(text) if text.contains(prompt) => PromptMatch::Within,
        Value::Array(values) => values
            .iter()
            .map(|value| find(value, prompt))
            .max()
            .unwrap_or(PromptMatch::Missing),
        Value::Object(values) => values
            .values()
            .map(|value| find(value, prompt))
            .max()
            .unwrap_or(PromptMatch::Missing),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => PromptMatch::Missing,
    }
}

/// Returns the texts of the last user message, including tool results.
fn extra(body: &Value, prompt: Option<&str>) -> Vec<String> {
    let lists = ["messages", "contents", "input"]
        .into_iter()
        .filter_map(|key| body[key].as_array());
    let is_users = |item: &&Value| {
        let kind = item["type"].as_str().unwrap_or_default();
        item["role"] == "user" || item["role"] == "tool" || kind.ends_with("_output")
    };
    let mut found = Vec::new();
    if let Some(item) = lists.flatten().rfind(is_users) {
        texts(item, "", &mut found);
    }
    found.retain(|text| Some(*text) != prompt);
    found
        .into_iter()
        .map(|text| text.chars().take(MAX_LOGGED_CHARACTERS).collect())
        .collect()
}

fn texts<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if ["text", "content", "output", "error"].contains(&key) => {
            found.push(text)
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, key, found)),
        Value::Object(values) => values
            .iter()
            .for_each(|(key, value)| texts(value, key, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
