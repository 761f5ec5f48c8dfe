//! Parses the output of an agent while it arrives. Memory use is bounded by the size of the reply's text.

use std::borrow::Cow;

use serde_json::Value;

use super::text::{ClippedText, Utf8Decoder, trim_to_end};
use crate::config::{OutputKind, OutputSpec, PathList, UsageSpec};
use crate::models::UsageMetrics;
use crate::secret::{Redactor, Secrets};

/// Maximum size of a line, or of a JSON document, that is parsed as an event.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of JSON values in an event.
const MAX_EVENT_VALUES: usize = 200_000;

/// Maximum size of the kept output that is not an event, and of the kept error messages.
const MAX_STRAY_BYTES: usize = 16 * 1024;

/// Incremental parser of an agent's stdout.
#[derive(Debug)]
pub(super) struct OutputParser<'a> {
    spec: &'a OutputSpec,
    utf8: Utf8Decoder,
    raw: ClippedText,
    redactor: Redactor,
    text: String,
    /// Length of the text that `take_new_text` has returned.
    reported_bytes: usize,
    /// An incomplete line, or the whole JSON document.
    pending: Vec<u8>,
    /// True if `pending` was discarded because it was too long.
    is_overlong: bool,
    has_text: bool,
    parsed: ParsedOutput,
}

/// Parsed stdout of an agent.
#[derive(Debug, Default)]
pub(super) struct ParsedOutput {
    /// Text of the reply, with secrets redacted.
    pub(super) text: String,
    /// True if any part of the output has the format of the agent's definition.
    pub(super) recognised: bool,
    /// True if the final event has arrived.
    pub(super) ended: bool,
    /// True if an event reports a failure.
    pub(super) failed: bool,
    /// Error messages of events, one per line.
    pub(super) error: String,
    /// End of the output that is not an event.
    pub(super) stray: String,
    /// Start and end of the whole output, with secrets redacted; empty for plain text.
    pub(super) raw: String,
    /// Token counts and cost that the agent reports.
    pub(super) usage: UsageMetrics,
    has_usage: bool,
    /// Number of events that show a tool call.
    pub(super) tool_calls: u64,
}

impl<'a> OutputParser<'a> {
    pub(super) fn new(spec: &'a OutputSpec, secrets: &Secrets) -> Self {
        Self {
            spec,
            utf8: Utf8Decoder::default(),
            raw: ClippedText::new(secrets),
            redactor: secrets.stream(),
            text: String::new(),
            reported_bytes: 0,
            pending: Vec::new(),
            is_overlong: false,
            has_text: false,
            parsed: ParsedOutput::default(),
        }
    }

    /// Adds a chunk of the output.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let text = self.utf8.push(bytes);
        match self.spec.kind {
            OutputKind::Text => {
                let shown = self.redactor.push(&text);
                self.text.push_str(&shown);
            }
            OutputKind::Json => {
                self.raw.push(&text);
                self.buffer(bytes);
            }
            OutputKind::Jsonl => {
                self.raw.push(&text);
                let mut lines = bytes.split(|&byte| byte == b'\n');
                // The first part continues the pending line; the last part is not terminated yet.
                self.buffer(lines.next().unwrap_or_default());
                for line in lines {
                    self.end_line();
                    self.buffer(line);
                }
            }
        }
    }

    /// Returns the text that has arrived since the last call of this function.
    pub(super) fn take_new_text(&mut self) -> String {
        let new_text = self
            .text
            .get(self.reported_bytes..)
            .unwrap_or_default()
            .to_owned();
        self.reported_bytes = self.text.len();
        new_text
    }

    /// Parses the rest at the end of the output.
    pub(super) fn finish(&mut self) {
        let rest = self.utf8.finish();
        match self.spec.kind {
            OutputKind::Text => {
                let shown = self.redactor.push(rest);
                self.text.push_str(&shown);
                self.parsed.recognised = true;
                self.parsed.ended = true;
            }
            OutputKind::Json => {
                self.raw.push(rest);
                let bytes = std::mem::take(&mut self.pending);
                let document = String::from_utf8_lossy(&bytes);
                match parse_last_value(&document) {
                    Some(Value::Array(events)) => {
                        events.iter().for_each(|event| self.read_event(event))
                    }
                    Some(event) => self.read_event(&event),
                    None => self.keep_stray(&document),
                }
            }
            OutputKind::Jsonl => {
                self.raw.push(rest);
                self.end_line();
            }
        }
        let shown = self.redactor.finish();
        self.text.push_str(&shown);
        self.parsed.raw = self.raw.finish();
    }

    /// Returns the result; the text is complete after `finish`.
    pub(super) fn into_parsed(self) -> ParsedOutput {
        ParsedOutput {
            text: self.text,
            ..self.parsed
        }
    }

    /// Appends to the pending line; discards it if it becomes too long.
    fn buffer(&mut self, bytes: &[u8]) {
        self.is_overlong |= self.pending.len() + bytes.len() > MAX_EVENT_BYTES;
        if self.is_overlong {
            self.pending = Vec::new();
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Parses the pending line, which is complete.
    fn end_line(&mut self) {
        self.is_overlong = false;
        let bytes = std::mem::take(&mut self.pending);
        let line = String::from_utf8_lossy(&bytes);
        match parse_value(&line) {
            Some(event) => self.read_event(&event),
            None => self.keep_stray(&line),
        }

        // The allocation is reused for the next line.
        self.pending = bytes;
        self.pending.clear();
    }

    fn keep_stray(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let from = text.ceil_char_boundary(text.len().saturating_sub(MAX_STRAY_BYTES));
        self.parsed.stray.push_str(&text[from..]);
        self.parsed.stray.push('\n');
        trim_to_end(&mut self.parsed.stray, MAX_STRAY_BYTES);
    }

    fn read_event(&mut self, event: &Value) {
        self.read_text(event);
        self.read_error(event);

        let is_tool_call = self
            .spec
            .tools
            .iter()
            .flatten()
            .any(|condition| condition.matches(event));
        if is_tool_call {
            self.parsed.tool_calls += 1;
        }

        let is_final = self.spec.last.matches(event);
        self.parsed.ended |= is_final;
        self.parsed.recognised |= is_final && !self.spec.last.is_empty();

        match &self.spec.usage.when {
            None if is_final => self.parsed.usage = read_usage(&self.spec.usage, event),
            Some(condition) if condition.matches(event) => {
                let usage = read_usage(&self.spec.usage, event);
                self.parsed.usage = if self.parsed.has_usage {
                    self.parsed.usage.plus(usage)
                } else {
                    usage
                };
                self.parsed.has_usage = true;
            }
            None | Some(_) => {}
        }
    }

    fn read_text(&mut self, event: &Value) {
        for rule in self
            .spec
            .text
            .iter()
            .filter(|rule| rule.when.matches(event))
        {
            for text in rule.path.find(event).into_iter().filter_map(Value::as_str) {
                if self.has_text {
                    self.text.push_str(&self.redactor.push(&self.spec.join));
                }
                self.text.push_str(&self.redactor.push(text));
                self.has_text = true;
                self.parsed.recognised = true;
            }
        }
    }

    fn read_error(&mut self, event: &Value) {
        for rule in self
            .spec
            .error
            .iter()
            .filter(|rule| rule.when.matches(event))
        {
            let messages: Vec<Cow<'_, str>> = rule
                .path
                .find(event)
                .into_iter()
                .filter(|value| !value.is_null())
                .map(value_text)
                .collect();
            // A rule without a condition applies only to events that have the path.
            if messages.is_empty() && rule.when.is_empty() {
                continue;
            }

            self.parsed.recognised = true;
            self.parsed.failed = true;
            for message in messages {
                // Agents often repeat a message, some without end.
                if self.parsed.error.len() < MAX_STRAY_BYTES
                    && !self.parsed.error.contains(message.as_ref())
                {
                    self.parsed.error.push_str(&message);
                    self.parsed.error.push('\n');
                }
            }
        }
    }
}

fn value_text(value: &Value) -> Cow<'_, str> {
    value
        .as_str()
        .map_or_else(|| Cow::Owned(value.to_string()), Cow::Borrowed)
}

/// Returns the token counts and the cost in an event.
fn read_usage(spec: &UsageSpec, event: &Value) -> UsageMetrics {
    let sum = |paths: &Option<PathList>| -> Option<f64> {
        let paths = &paths.as_ref()?.0;
        paths
            .iter()
            .flat_map(|path| path.find(event))
            .filter_map(Value::as_f64)
            .filter(|number| *number >= 0.0)
            .reduce(|a, b| a + b)
    };
    let tokens = |paths: &Option<PathList>| sum(paths).map(round_to_u64);

    let cache_read = tokens(&spec.cache_read);
    let cached = cache_read
        .filter(|_| spec.input_includes_cache)
        .unwrap_or(0);
    UsageMetrics {
        input_tokens: tokens(&spec.input).map(|input| input.saturating_sub(cached)),
        cache_read_tokens: cache_read,
        cache_write_tokens: tokens(&spec.cache_write),
        output_tokens: tokens(&spec.output),
        reasoning_tokens: tokens(&spec.reasoning),
        micro_dollars: sum(&spec.cost_dollars).map(|dollars| round_to_u64(dollars * 1e6)),
    }
}

/// Rounds a count to an integer; negative numbers become 0.
pub(super) fn round_to_u64(number: f64) -> u64 {
    number.round() as u64
}

/// Parses a JSON object or array; `None` if the text is neither, or has too many values.
pub(super) fn parse_value(written: &str) -> Option<Value> {
    let written = written.trim_start_matches('\u{FEFF}').trim();
    if !written.starts_with(['{', '[']) || !is_within_value_limit(written) {
        return None;
    }
    serde_json::from_str(written)
        .or_else(|_| serde_json::from_str(&replace_lone_surrogates(written)))
        .ok()
}

/// Parses the last JSON object or array in output that may have other lines before and after it.
fn parse_last_value(written: &str) -> Option<Value> {
    if let Some(whole) = parse_value(written) {
        return Some(whole);
    }
    if !is_within_value_limit(written) {
        return None;
    }
    let written = replace_lone_surrogates(written);

    let mut last = None;
    let mut at = 0;
    while at < written.len() {
        let rest = &written[at..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let found = if rest.starts_with(['{', '[']) {
            values.next()
        } else {
            None
        };
        at += match found {
            Some(Ok(value)) => {
                last = Some(value);
                values.byte_offset()
            }
            _ => rest.find('\n').map_or(rest.len(), |end| end + 1),
        };
        // Skips whitespace before the next value.
        at += written[at..].len() - written[at..].trim_start().len();
    }
    last
}

/// Returns true if a JSON document has at most [`MAX_EVENT_VALUES`] values. Counts commas and brackets outside of strings.
fn is_within_value_limit(written: &str) -> bool {
    let mut values = 0;
    let mut in_string = false;
    let mut is_escaped = false;
    for byte in written.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values <= MAX_EVENT_VALUES
}

/// Replaces escaped lone surrogates with U+FFFD. Agents that split a reply inside a character write such escapes, and JSON
/// parsers refuse them.
fn replace_lone_surrogates(written: &str) -> Cow<'_, str> {
    let parse_surrogate = |at: usize| -> Option<u16> {
        let digits = written.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16)
            .ok()
            .filter(|code| (0xD800..0xE000).contains(code))
    };
    let mut mended = String::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(escape) = written[at..].find('\\').map(|escape| at + escape) {
        at = match (parse_surrogate(escape), parse_surrogate(escape + 6)) {
            (Some(high), Some(low)) if high < 0xDC00 && low >= 0xDC00 => escape + 12,
            (Some(_), _) => {
                mended.push_str(&written[from..escape]);
                mended.push_str("\\ufffd");
                from = escape + 6;
                from
            }
            (None, _) => (written.len().min(escape + 2)..)
                .find(|&at| written.is_char_boundary(at))
                .unwrap_or(escape + 1),
        };
    }
    if from == 0 {
        return Cow::Borrowed(written);
    }
    mended.push_str(&written[from..]);
    Cow::Owned(mended)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_are_kept() {
        let cases = [
            (r#"{"a":"\ud83d\ude00"}"#, json!({"a": "😀"})),
            (r#"{"a":"x\ud83d"}"#, json!({"a": "x\u{FFFD}"})),
            (
                r#"{"a":"\ude00y\ud83dz"}"#,
                json!({"a": "\u{FFFD}y\u{FFFD}z"}),
            ),
            (r#"{"a":"\\ud83d"}"#, json!({"a": "\\ud83d"})),
            (r#"{"a":"\ud83dü"}"#, json!({"a": "\u{FFFD}ü"})),
        ];
        for (written, expected) in cases {
            assert_eq!(parse_value(written), Some(expected), "{written}");
        }
        assert_eq!(replace_lone_surrogates("\\"), "\\");
        assert_eq!(replace_lone_surrogates("\\ü\\ud83"), "\\ü\\ud83");
    }

    #[test]
    fn the_last_value_is_parsed_whatever_the_text_around_it() {
        let cases = [
            ("{\"a\":1}", Some(json!({"a": 1}))),
            (
                "log\n{\n  \"a\": [\n    1\n  ]\n}\n",
                Some(json!({"a": [1]})),
            ),
            (
                "[INFO] start\n{\"a\":1}\n{\"a\":2}\nbye",
                Some(json!({"a": 2})),
            ),
            ("{\"a\":1} {\"a\":3}", Some(json!({"a": 3}))),
            ("{\"a\":", None),
            ("nothing", None),
            ("", None),
        ];
        for (written, expected) in cases {
            assert_eq!(parse_last_value(written), expected, "{written}");
        }
    }

    #[test]
    fn an_event_with_too_many_values_is_not_parsed() {
        assert!(parse_value(&format!("[{}0]", "0,".repeat(MAX_EVENT_VALUES / 2))).is_some());
        assert!(parse_value(&format!("[{}0]", "0,".repeat(MAX_EVENT_VALUES + 1))).is_none());
        assert!(parse_value(&format!("[\"{}\"]", "0,".repeat(MAX_EVENT_VALUES + 1))).is_some());
    }

    const LINES: &str = concat!(
        "{\"type\":\"text\",\"text\":\"grüße 😀 \\ud83d\\ude00 sk-cana\"}\r\n",
        "noise\n\n",
        "{\"type\":\"text\",\"text\":\"ry-123 und sk-canary-12\"}\n",
        "{\"type\":\"end\",\"n\":3}",
    );

    fn parse_pieces(kind: OutputKind, pieces: &[&[u8]]) -> (String, ParsedOutput) {
        let spec: OutputSpec = serde_json::from_value(match kind {
            OutputKind::Text => json!({}),
            OutputKind::Json => json!({"kind": "json", "text": [{"path": "text"}]}),
            OutputKind::Jsonl => json!({
                "kind": "jsonl",
                "text": [{"path": "text"}],
                "final": {"type": "end"},
                "usage": {"input": "n"},
            }),
        })
        .unwrap();
        let secrets = Secrets::new([("KEY".to_owned(), b"sk-canary-123".to_vec())]);
        let mut parser = OutputParser::new(&spec, &secrets);
        let mut said = String::new();
        for piece in pieces {
            parser.push(piece);
            said.push_str(&parser.take_new_text());
        }
        parser.finish();
        said.push_str(&parser.take_new_text());
        (said, parser.into_parsed())
    }

    #[test]
    fn output_may_be_split_at_every_byte() {
        let bytes = LINES.as_bytes();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let splits = (0..=bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]);
        let shown = "grüße 😀 😀 [secret KEY] und [secret KEY]";
        for pieces in splits.chain([single]) {
            let (said, parsed) = parse_pieces(OutputKind::Jsonl, &pieces);
            assert_eq!((said.as_str(), parsed.text.as_str()), (shown, shown));
            assert_eq!(
                (parsed.ended, parsed.failed, parsed.stray.as_str()),
                (true, false, "noise\n")
            );
            assert_eq!(parsed.usage.input_tokens, Some(3));
            let (said, parsed) = parse_pieces(OutputKind::Text, &pieces);
            assert_eq!(said, parsed.text);
            assert_eq!(said, LINES, "nothing of it is a whole secret");
            let (_, parsed) = parse_pieces(OutputKind::Json, &pieces);
            assert_eq!(
                (parsed.text.as_str(), parsed.recognised),
                ("", false),
                "the last value has no text"
            );
        }
    }
}
