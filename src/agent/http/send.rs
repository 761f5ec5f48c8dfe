//! The sender: a process that sends one request to a model server, and writes the response as JSON lines.
//!
//! Types of lines: `text` is a chunk of the reply, `alive` shows that the model is working, `usage` has token counts,
//! `end` completes the reply, and `error` is a failure. A reply without `end` is truncated; stderr then has the reason.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::config::Config;
use ureq::http::{HeaderValue, Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::response::{EventStreamState, StopReason, TokenUsage};
use super::sse::{self, EventStream};
use super::{anthropic, error_body, gemini, openai};
use crate::agent::{contain, output_parser};
use crate::config::Dialect;

/// Size of the read buffer.
const CHUNK_BYTES: usize = 16 * 1024;

/// Maximum size of a response that is not streamed, and of a certificate file.
const MAX_BODY_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum size of the text in a line, so that every line is short enough to be parsed.
const MAX_LINE_TEXT_BYTES: usize = 256 * 1024;

/// Minimum time since the previous line before an `alive` line is written.
const ALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Options of a request from the command line and the environment.
struct SendOptions {
    dialect: Dialect,
    url: String,
    key: Option<String>,
}

/// Sends the request body on stdin. The arguments are a dialect, a base URL, the name of the variable that holds the key,
/// and the model.
pub(in crate::agent) fn send(arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut body = Vec::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "the stdin of a sender is its request"
    )]
    io::stdin().read_to_end(&mut body)?;
    let mut lines = JsonLines::new();
    let result = parse_arguments(arguments)
        .and_then(|options| Ok((options.dialect, send_request(&options, &body)?)));
    match result {
        Ok((dialect, response)) => read_response(dialect, response.into_body(), &mut lines),
        Err(message) => {
            // A request that gets no reply costs nothing.
            lines.write(&json!({"type": "usage", "usage": {"input": 0, "output": 0}}))?;
            lines.error(&message)
        }
    }
}

fn parse_arguments(arguments: impl Iterator<Item = OsString>) -> Result<SendOptions, String> {
    let arguments: Vec<String> = arguments
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    let [dialect, base_url, key, model] = &arguments[..] else {
        return Err("invalid arguments for the HTTP sender".to_owned());
    };

    let dialect =
        Dialect::from_name(dialect).ok_or_else(|| format!("unknown dialect `{dialect}`"))?;
    let path = match dialect {
        Dialect::Openai => openai::PATH.to_owned(),
        Dialect::Anthropic => anthropic::PATH.to_owned(),
        Dialect::Gemini => gemini::path(model),
    };

    #[expect(
        clippy::disallowed_methods,
        reason = "the key is passed only in the environment"
    )]
    let value = env::var(key).ok().map(|value| value.trim().to_owned());
    match value.filter(|value| !value.is_empty()) {
        None if !key.is_empty() => Err(format!(
            "missing environment variable {key} with the API key"
        )),
        key => Ok(SendOptions {
            dialect,
            url: format!("{base_url}{path}"),
            key,
        }),
    }
}

/// Sends a request. Returns the response if its status is success, otherwise an error message.
fn send_request(options: &SendOptions, body: &[u8]) -> Result<Response<Body>, String> {
    let uri: Uri = options
        .url
        .parse()
        .map_err(|_| format!("invalid URL `{}`", options.url))?;

    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("agentd/", env!("CARGO_PKG_VERSION")));
    if is_loopback(&uri) {
        config = config.proxy(None);
    }
    if let Some(roots) = load_custom_roots()? {
        config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
    }
    let config: Config = config.build();

    let mut request = config
        .new_agent()
        .post(&uri)
        .header("content-type", "application/json")
        .header("accept", "text/event-stream, application/json");
    if options.dialect == Dialect::Anthropic {
        request = request.header("anthropic-version", anthropic::API_VERSION);
    }
    if let Some(key) = &options.key {
        let (name, value) = match options.dialect {
            Dialect::Openai => ("authorization", format!("Bearer {key}")),
            Dialect::Anthropic => ("x-api-key", key.clone()),
            Dialect::Gemini => ("x-goog-api-key", key.clone()),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            "invalid api key: the key has characters that are not allowed in a header".to_owned()
        })?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }

    let response = request
        .send(body)
        .map_err(|error| connection_error(&uri, &error))?;
    if response.status().is_success() {
        return Ok(response);
    }

    let (parts, body) = response.into_parts();
    let mut error_body = Vec::new();
    // An incomplete body is still useful for the message.
    let _incomplete = body
        .into_reader()
        .take(sse::MAX_EVENT_BYTES as u64)
        .read_to_end(&mut error_body);
    Err(error_body::response_error(
        parts.status,
        &parts.headers,
        &String::from_utf8_lossy(&error_body),
    ))
}

/// Returns true if an address is `localhost` or a loopback IP address; no proxy is used for it.
fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Loads the root certificates from the file in `SSL_CERT_FILE`; `None` if the variable is not set.
fn load_custom_roots() -> Result<Option<RootCerts>, String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the sender reads its own environment"
    )]
    let Some(path) = env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let shown = path.display();
    let mut pem = Vec::new();
    contain::open(path.as_ref())
        .and_then(|file| file.take(MAX_BODY_BYTES).read_to_end(&mut pem))
        .map_err(|error| format!("cannot read SSL_CERT_FILE {shown}: {error}"))?;
    let items = parse_pem(&pem).filter_map(Result::ok);
    let roots: Vec<_> = items
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if roots.is_empty() {
        return Err(format!("no certificate in SSL_CERT_FILE {shown}"));
    }
    Ok(Some(RootCerts::new_with_certs(&roots)))
}

/// Returns the message for a server that cannot be reached.
fn connection_error(uri: &Uri, error: &ureq::Error) -> String {
    let host = uri.host().unwrap_or_default();
    let port = uri
        .port_u16()
        .unwrap_or(if uri.scheme_str() == Some("http") {
            80
        } else {
            443
        });
    match error {
        ureq::Error::Io(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            let running = if is_loopback(uri) {
                ": is the server running?"
            } else {
                ""
            };
            format!("connection to {host}:{port} refused{running}")
        }
        ureq::Error::HostNotFound => format!("unknown host {host}"),
        error => format!("cannot connect to {host}:{port}: {error}"),
    }
}

/// Reads a response and writes it as JSON lines.
fn read_response(dialect: Dialect, body: Body, lines: &mut JsonLines) -> io::Result<()> {
    let mut reader = ResponseReader {
        dialect,
        state: EventStreamState::default(),
        lines,
    };
    // The empty text shows that a reply has begun, so that a reply without an `end` line counts as truncated.
    reader.lines.text("")?;
    let failure = reader.read_body(body.into_reader())?;
    let ResponseReader { state, lines, .. } = reader;
    if state.usage != TokenUsage::default() {
        lines.write(&json!({"type": "usage", "usage": state.usage}))?;
    }
    match (failure, state.stop) {
        (Some(ResponseError::Failed(message)), _) => lines.error(&message),
        (Some(ResponseError::Lost(cause)), _) => {
            write_stderr(&format!("connection lost during the reply: {cause}"))
        }
        (None, None) => write_stderr("the response ended without a stop reason"),
        (None, Some(StopReason::Length)) => {
            write_stderr("the reply reached the output token limit")
        }
        (None, Some(StopReason::End)) => lines.write(&json!({"type": "end"})),
        (None, Some(StopReason::Refusal(reason))) => lines.error(&format!("refusal: {reason}")),
        (None, Some(StopReason::Other(reason))) => {
            lines.error(&format!("the model stopped: {reason}"))
        }
    }
}

/// Error that ends the reading of a response.
enum ResponseError {
    /// The server reports a failure, or sends something unexpected.
    Failed(String),
    /// The connection was lost.
    Lost(io::Error),
}

/// Reader that converts a response to JSON lines.
struct ResponseReader<'a> {
    dialect: Dialect,
    state: EventStreamState,
    lines: &'a mut JsonLines,
}

impl ResponseReader<'_> {
    /// Reads a response: a stream of events, or one JSON document from a server that does not stream.
    fn read_body(&mut self, mut reader: impl Read) -> io::Result<Option<ResponseError>> {
        let mut events = EventStream::default();
        let mut bytes = vec![0; CHUNK_BYTES];
        let mut has_begun = false;
        while !self.state.is_done {
            let count = match reader.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => return Ok(Some(ResponseError::Lost(cause))),
            };
            let chunk = &bytes[..count];

            if !has_begun && let Some(first) = chunk.iter().find(|byte| !byte.is_ascii_whitespace())
            {
                has_begun = true;
                if matches!(first, b'{' | b'[' | b'<') {
                    return self.read_whole(chunk.chain(reader));
                }
            }

            let Ok(complete) = events.push(chunk) else {
                return Ok(Some(ResponseError::Failed(format!(
                    "an event of the response is larger than {} bytes",
                    sse::MAX_EVENT_BYTES
                ))));
            };
            for data in complete {
                if let Some(failure) = self.read_event(&data)? {
                    return Ok(Some(failure));
                }
            }
        }

        match events.finish() {
            Some(data) if !self.state.is_done => self.read_event(&data),
            _ => Ok(None),
        }
    }

    /// Reads a response that is one JSON document.
    fn read_whole(&mut self, reader: impl Read) -> io::Result<Option<ResponseError>> {
        let mut bytes = Vec::new();
        if let Err(cause) = reader.take(MAX_BODY_BYTES).read_to_end(&mut bytes) {
            return Ok(Some(ResponseError::Lost(cause)));
        }
        let written = String::from_utf8_lossy(&bytes);
        match output_parser::parse_value(&written) {
            Some(Value::Array(values)) => {
                for value in values {
                    if let Some(failure) = self.read_value(&value)? {
                        return Ok(Some(failure));
                    }
                }
                Ok(None)
            }
            Some(value) => self.read_value(&value),
            None => Ok(Some(unexpected_response(&written))),
        }
    }

    fn read_event(&mut self, data: &str) -> io::Result<Option<ResponseError>> {
        if data.trim() == "[DONE]" {
            // This ends the stream, but does not prove that the reply is complete: a proxy that loses the model's last
            // event still sends `[DONE]`.
            self.state.is_done = true;
            return Ok(None);
        }
        match output_parser::parse_value(data) {
            Some(value) => self.read_value(&value),
            None if data.trim().is_empty() => Ok(None),
            None => Ok(Some(unexpected_response(data))),
        }
    }

    fn read_value(&mut self, value: &Value) -> io::Result<Option<ResponseError>> {
        if let Some(message) = error_body::event_error(value) {
            return Ok(Some(ResponseError::Failed(message)));
        }
        match self.dialect {
            Dialect::Openai => openai::read_event(value, &mut self.state),
            Dialect::Anthropic => anthropic::read_event(value, &mut self.state),
            Dialect::Gemini => gemini::read_event(value, &mut self.state),
        }
        let text = std::mem::take(&mut self.state.text);
        if !text.is_empty() {
            self.lines.text(&text)?;
        } else if std::mem::take(&mut self.state.has_thought) {
            self.lines.alive()?;
        }
        Ok(None)
    }
}

fn unexpected_response(written: &str) -> ResponseError {
    let start = error_body::first_line(written).unwrap_or_default();
    ResponseError::Failed(format!("unexpected response from the server: {start}"))
}

/// Writes a line to stderr.
#[expect(
    clippy::disallowed_methods,
    reason = "the stderr of a sender is a file of its call"
)]
fn write_stderr(line: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{line}")
}

/// Writer of JSON lines to stdout.
struct JsonLines {
    out: io::Stdout,
    /// Time at which the last line was written.
    last: Instant,
}

impl JsonLines {
    #[expect(
        clippy::disallowed_methods,
        reason = "the stdout of a sender is a file of its call"
    )]
    fn new() -> Self {
        Self {
            out: io::stdout(),
            last: Instant::now(),
        }
    }

    fn write(&mut self, line: &Value) -> io::Result<()> {
        self.last = Instant::now();
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    /// Writes text, split into several lines if it is long.
    fn text(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text;
        loop {
            let (chunk, later) = rest.split_at(rest.floor_char_boundary(MAX_LINE_TEXT_BYTES));
            self.write(&json!({"type": "text", "text": chunk}))?;
            if later.is_empty() {
                return Ok(());
            }
            rest = later;
        }
    }

    /// Writes an `alive` line, unless another line was written within [`ALIVE_INTERVAL`].
    fn alive(&mut self) -> io::Result<()> {
        if self.last.elapsed() < ALIVE_INTERVAL {
            Ok(())
        } else {
            self.write(&json!({"type": "alive"}))
        }
    }

    fn error(&mut self, message: &str) -> io::Result<()> {
        self.write(&json!({"type": "error", "message": message}))
    }
}
