//! The script: answers in order.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use agentd::models::Nonce;
use agentd::text::yaml::{self, WithPlace};
use agentd::{Error, ErrorKind};
use serde::Deserialize;
use serde_json::Value;

use crate::Outcome;

/// A script and its current position.
#[derive(Debug)]
pub(crate) struct Script {
    replies: Vec<Reply>,
    played: Mutex<usize>,
}

/// The script file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: WithPlace<u64>,
    /// Used in order. The last one repeats.
    replies: Vec<WithPlace<Reply>>,
}

/// The answer to one request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reply {
    /// Text of the model. `{{NONCE}}` is replaced by the nonce in the request.
    #[serde(default)]
    pub(crate) text: String,
    /// Thoughts before the text.
    #[serde(default)]
    pub(crate) thinking: String,
    /// Tool calls after the text.
    #[serde(default)]
    pub(crate) tools: Vec<Tool>,
    /// Reported token usage.
    #[serde(default)]
    pub(crate) usage: Usage,
    /// Stop reason.
    #[serde(default)]
    pub(crate) stop: Stop,
    /// A failure with this status instead, in the form of the dialect.
    pub(crate) status: Option<u16>,
    /// Message of a failure or of an error event.
    #[serde(default = "default_message")]
    pub(crate) message: String,
    /// Additional headers of the response.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Seconds before the answer starts.
    #[serde(default)]
    pub(crate) delay: f64,
    /// Never answers.
    #[serde(default)]
    pub(crate) hang: bool,
    /// Stalls after this many pieces of the text.
    pub(crate) stall_after: Option<usize>,
    /// Breaks the connection after this many pieces of the text.
    pub(crate) cut_after: Option<usize>,
    /// Sends an error event in the stream, after the text and instead of its end.
    #[serde(default)]
    pub(crate) error_event: bool,
    /// Number of characters of a piece.
    #[serde(default = "default_piece_size")]
    pub(crate) chunk: usize,
    /// Number of times this reply is used.
    #[serde(default = "use_once")]
    repeat: usize,
    /// Exactly this body instead.
    pub(crate) raw: Option<Raw>,
}

/// A tool call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// Named values; or a text, for the tools of OpenAI that take one.
    pub(crate) input: Value,
}

/// Tokens, each counted once: cached ones are not part of `input`, and thoughts are part of
/// `output`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input: 100,
            cache_read: 0,
            cache_write: 0,
            output: 10,
            reasoning: 0,
        }
    }
}

/// Why a model stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stop {
    /// The reply is complete, or waits for tool results.
    #[default]
    End,
    /// The length limit was reached.
    Length,
    /// The model refuses.
    Refusal,
}

/// A literal answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    #[serde(default = "status_ok")]
    pub(crate) status: u16,
    #[serde(default = "json_content_type")]
    pub(crate) content_type: String,
    #[serde(default)]
    pub(crate) body: String,
}

fn default_message() -> String {
    "a scripted failure".to_owned()
}

fn default_piece_size() -> usize {
    40
}

fn use_once() -> usize {
    1
}

fn status_ok() -> u16 {
    200
}

fn json_content_type() -> String {
    "application/json".to_owned()
}

/// Placeholder for the nonce in a text.
const NONCE: &str = "{{NONCE}}";

impl Script {
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let (text, origin) = (fs::read_to_string(path)?, path.display().to_string());
        let file: File = yaml::read(&text, &origin, 1, ErrorKind::ScriptInvalid)?;
        let fault = |message: &str, location| {
            let place = yaml::place(&text, &origin, 1, location);
            Err(Error::new(ErrorKind::ScriptInvalid, message)
                .with_place(place)
                .into())
        };

        if file.format.value != 1 {
            return fault(
                "only scripts of format 1 are understood",
                file.format.referenced,
            );
        }

        if file.replies.is_empty() {
            return fault("there is no reply", file.format.referenced);
        }
        if let Some((reply, message)) = file
            .replies
            .iter()
            .find_map(|reply| Some((reply, reply.value.fault()?)))
        {
            return fault(message, reply.referenced);
        }

        let replies = file.replies.into_iter().map(|reply| reply.value).collect();
        Ok(Self {
            replies,
            played: Mutex::default(),
        })
    }

    /// Returns the next reply, adapted to the request.
    pub(crate) fn next(&self, body: &str) -> Outcome<Reply> {
        let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        let mut uses = self
            .replies
            .iter()
            .flat_map(|reply| std::iter::repeat_n(reply, reply.repeat));
        let reply = uses
            .nth(*played)
            .or(self.replies.last())
            .ok_or("there is no reply")?;
        *played += 1;
        let mut reply = reply.clone();
        if reply.text.contains(NONCE) {
            let nonce = find_nonce(body).ok_or(format!("{NONCE}, but the request has none"))?;
            reply.text = reply.text.replace(NONCE, nonce.as_str());
        }

        Ok(reply)
    }
}

impl Reply {
    /// Returns the error in a reply, if any.
    fn fault(&self) -> Option<&'static str> {
        let odd = [
            (
                self.status
                    .is_some_and(|status| !(400..600).contains(&status)),
                "`status` is that of a failure",
            ),
            (
                self.chunk == 0 || self.repeat == 0,
                "`chunk` and `repeat` are 1 at least",
            ),
            (
                !(0.0..=3600.0).contains(&self.delay),
                "`delay` is 0 to 3600 seconds",
            ),
            (
                self.usage.reasoning > self.usage.output,
                "`reasoning` is part of `output`",
            ),
            (
                self.tools
                    .iter()
                    .any(|tool| !tool.input.is_object() && !tool.input.is_string()),
                "`input` is named values or a text",
            ),
        ];
        odd.into_iter()
            .find_map(|(is_odd, message)| is_odd.then_some(message))
    }

    /// Returns the text in pieces.
    pub(crate) fn pieces(&self) -> Vec<String> {
        pieces(&self.text, self.chunk)
    }
}

/// Splits a text into pieces of this many characters.
pub(crate) fn pieces(text: &str, size: usize) -> Vec<String> {
    let mut starts: Vec<usize> = text
        .char_indices()
        .map(|(at, _)| at)
        .step_by(size)
        .collect();
    starts.push(text.len());
    starts
        .windows(2)
        .map(|ends| text[ends[0]..ends[1]].to_owned())
        .collect()
}

/// Returns the nonce of the first `<review run="…"` of a body, in which quotes are escaped.
fn find_nonce(body: &str) -> Option<Nonce> {
    let values = body.split("<review run=").skip(1);
    let mut nonces = values.filter_map(|rest| {
        let value = rest.trim_start_matches('\\').strip_prefix('"')?;
        Nonce::new(&value[..value.find(['"', '\\'])?]).ok()
    });
    nonces.next()
}
