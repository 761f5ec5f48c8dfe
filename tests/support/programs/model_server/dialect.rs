//! The dialects of the server, and their common parts.

use serde_json::{Value, json};

use crate::script::Reply;
use crate::{anthropic, chat, gemini, responses};

/// API dialect of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Anthropic,
    Gemini,
    Responses,
    Chat,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A scripted answer.
    Answer,
    /// The number of tokens of a request.
    Count,
}

/// An answer in both forms.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) whole: Value,
    pub(crate) events: Vec<Event>,
}

/// An event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
    /// True for a piece of the text.
    pub(crate) is_piece: bool,
}

/// Position of a request in the script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestPosition<'a> {
    pub(crate) number: usize,
    pub(crate) model: &'a str,
}

impl Dialect {
    /// Returns the dialect of a path, and the kind of the request.
    pub(crate) fn of(path: &str) -> Option<(Self, RequestKind)> {
        let path = path.split('?').next().unwrap_or(path);
        let ends = [
            ("/messages", Self::Anthropic, RequestKind::Answer),
            (
                "/messages/count_tokens",
                Self::Anthropic,
                RequestKind::Count,
            ),
            (":generateContent", Self::Gemini, RequestKind::Answer),
            (":streamGenerateContent", Self::Gemini, RequestKind::Answer),
            (":countTokens", Self::Gemini, RequestKind::Count),
            ("/responses", Self::Responses, RequestKind::Answer),
            ("/chat/completions", Self::Chat, RequestKind::Answer),
        ];
        let found = ends.into_iter().find(|(end, ..)| path.ends_with(end));
        found.map(|(_, dialect, wish)| (dialect, wish))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Responses => "responses",
            Self::Chat => "chat",
        }
    }

    /// Renders a reply in the dialect.
    pub(crate) fn answer(self, reply: &Reply, asked: RequestPosition<'_>) -> Answer {
        match self {
            Self::Anthropic => anthropic::answer(reply, asked),
            Self::Gemini => gemini::answer(reply, asked),
            Self::Responses => responses::answer(reply, asked),
            Self::Chat => chat::answer(reply, asked),
        }
    }

    /// Renders the number of tokens of a request.
    pub(crate) fn count(self, bytes: usize) -> Value {
        let name = if self == Self::Anthropic {
            "input_tokens"
        } else {
            "totalTokens"
        };
        json!({name: bytes / 4})
    }

    /// Renders a failure.
    pub(crate) fn failure(self, status: u16, message: &str) -> Value {
        match self {
            Self::Anthropic => anthropic::failure(status, message),
            Self::Gemini => gemini::failure(status, message),
            Self::Responses | Self::Chat => responses::failure(status, message),
        }
    }

    /// Renders a failure within a stream.
    pub(crate) fn failure_event(self, message: &str) -> Event {
        match self {
            Self::Anthropic => Event::named("error", &anthropic::failure(529, message)),
            Self::Gemini => Event::plain(&gemini::failure(503, message)),
            Self::Responses => responses::failure_event(message),
            Self::Chat => Event::plain(&responses::failure(500, message)),
        }
    }
}

impl Event {
    pub(crate) fn plain(data: &Value) -> Self {
        Self {
            name: None,
            data: data.to_string(),
            is_piece: false,
        }
    }

    pub(crate) fn named(name: &'static str, data: &Value) -> Self {
        Self {
            name: Some(name),
            ..Self::plain(data)
        }
    }

    /// Marks a piece of the text.
    pub(crate) fn piece(self) -> Self {
        Self {
            is_piece: true,
            ..self
        }
    }

    /// Returns the event as it is sent.
    pub(crate) fn text(&self) -> String {
        let name = self
            .name
            .map_or(String::new(), |name| format!("event: {name}\n"));
        format!("{name}data: {}\n\n", self.data)
    }
}
