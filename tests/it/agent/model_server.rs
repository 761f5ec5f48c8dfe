//! The scripted model server sends the replies of its script in every dialect.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::model_server_process::ModelServer;
use crate::support::program;
use crate::support::waiting::{HANG, until};

/// The dialects with a path for each.
const DIALECTS: [(&str, &str); 4] = [
    ("anthropic", "/v1/messages?beta=true"),
    ("gemini", "/v1beta/models/some-model:generateContent"),
    ("responses", "/v1/responses"),
    ("chat", "/v1/chat/completions"),
];

/// An HTTP response as received.
#[derive(Debug)]
struct HttpResponse {
    status: u16,
    head: String,
    body: String,
    /// True if the body was received completely.
    whole: bool,
}

impl HttpResponse {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns the events of a stream, each with its name and data.
    fn events(&self) -> Vec<(Option<&str>, Value)> {
        assert!(
            self.head.contains("content-type: text/event-stream\r\n"),
            "{}",
            self.head
        );

        let events = self.body.split_terminator("\n\n").map(|event| {
            let (name, data) = match event.strip_prefix("event: ") {
                Some(rest) => rest
                    .split_once('\n')
                    .map(|(name, data)| (Some(name), data))
                    .unwrap(),
                None => (None, event),
            };
            let data = data.strip_prefix("data: ").unwrap();
            (
                name,
                serde_json::from_str(data).unwrap_or_else(|_| Value::from(data)),
            )
        });
        events.collect()
    }

    /// Returns the joined strings at a JSON pointer in all events of a stream.
    fn joined(&self, pointer: &str) -> String {
        let events = self.events();
        events
            .iter()
            .filter_map(|(_, data)| data.pointer(pointer)?.as_str())
            .collect()
    }
}

fn connect(server: &ModelServer) -> TcpStream {
    let stream = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

fn send(stream: &mut TcpStream, path: &str, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nX-Api-Key: sk-12345678\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
}

fn read_line(stream: &mut TcpStream) -> Option<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        line.push(byte[0]);
    }
    Some(String::from_utf8(line).unwrap().trim_end().to_owned())
}

/// Reads one response, like a client that reuses its connection.
fn receive(stream: &mut TcpStream) -> HttpResponse {
    let mut head = String::new();
    while let Some(line) = read_line(stream).filter(|line| !line.is_empty()) {
        head += &format!("{line}\r\n");
    }
    let status = head
        .split(' ')
        .nth(1)
        .unwrap_or_else(|| panic!("{head:?}"))
        .parse()
        .unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let (mut body, mut whole) = (Vec::new(), true);

    if let Some(length) = length {
        stream.take(length as u64).read_to_end(&mut body).unwrap();
        whole = body.len() == length;
    } else {
        assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
        loop {
            let Some(size) = read_line(stream) else {
                whole = false;
                break;
            };
            let size = usize::from_str_radix(&size, 16).unwrap();
            let mut piece = vec![0; size + 2];
            stream.read_exact(&mut piece).unwrap();
            body.extend(&piece[..size]);
            if size == 0 {
                break;
            }
        }
    }

    HttpResponse {
        status,
        head,
        body: String::from_utf8(body).unwrap(),
        whole,
    }
}

/// Sends one request in a dialect, streamed or not.
fn ask(server: &ModelServer, dialect: &str, stream: bool) -> HttpResponse {
    let (_, path) = DIALECTS
        .into_iter()
        .find(|(name, _)| *name == dialect)
        .unwrap();
    let path = if stream {
        path.replace(":generate", ":streamGenerate")
    } else {
        path.to_owned()
    };
    let mut connection = connect(server);
    send(
        &mut connection,
        &path,
        &json!({"model": "some-model", "stream": stream}),
    );
    receive(&mut connection)
}

/// A reply with every field that a response can have.
fn full_reply() -> Value {
    json!([{
        "text": "Grüße, <review>PASS</review>", "thinking": "Hm.", "chunk": 5,
        "tools": [{"name": "Read", "input": {"path": "a b"}}],
        "usage": {"input": 1000, "cache_read": 200, "cache_write": 30, "output": 50, "reasoning": 7},
    }])
}

const TEXT: &str = "Grüße, <review>PASS</review>";

#[test]
fn anthropic_streams_and_plain() {
    let server = ModelServer::start(&full_reply());
    let usage = json!({
        "input_tokens": 1000, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 200,
        "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 7},
    });

    let whole = ask(&server, "anthropic", false).json();
    assert_eq!(
        whole["content"][0],
        json!({"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"})
    );
    assert_eq!(whole["content"][1], json!({"type": "text", "text": TEXT}));
    assert_eq!(whole["content"][2]["input"], json!({"path": "a b"}));
    assert_eq!(
        (&whole["stop_reason"], &whole["usage"]),
        (&json!("tool_use"), &usage)
    );
    assert_eq!(whole["model"], "some-model");

    let stream = ask(&server, "anthropic", true);
    assert!(stream.whole);
    assert_eq!(stream.joined("/delta/text"), TEXT);
    assert_eq!(stream.joined("/delta/thinking"), "Hm.");
    assert_eq!(stream.joined("/delta/partial_json"), r#"{"path":"a b"}"#);

    let events = stream.events();
    assert!(
        events
            .iter()
            .all(|(name, data)| data["type"] == name.unwrap())
    );
    assert_eq!(events[0].0, Some("message_start"));

    let (_, delta) = &events[events.len() - 2];
    assert_eq!(
        (&delta["delta"]["stop_reason"], &delta["usage"]),
        (&json!("tool_use"), &usage)
    );
    assert_eq!(events[events.len() - 1].0, Some("message_stop"));
}

#[test]
fn gemini_streams_and_plain() {
    let server = ModelServer::start(&full_reply());
    let usage = json!({
        "promptTokenCount": 1200, "cachedContentTokenCount": 200, "candidatesTokenCount": 43,
        "thoughtsTokenCount": 7, "totalTokenCount": 1250,
    });
    let whole = ask(&server, "gemini", false).json();
    let call = json!({"functionCall": {"name": "Read", "args": {"path": "a b"}}});
    let parts = json!([{"text": "Hm.", "thought": true}, {"text": TEXT}, call]);
    assert_eq!(whole["candidates"][0]["content"]["parts"], parts);
    assert_eq!(whole["candidates"][0]["finishReason"], "STOP");
    assert_eq!(
        (&whole["usageMetadata"], &whole["modelVersion"]),
        (&usage, &json!("some-model"))
    );

    let stream = ask(&server, "gemini", true);
    assert_eq!(
        stream.joined("/candidates/0/content/parts/0/text"),
        format!("Hm.{TEXT}")
    );

    let events = stream.events();
    let finish = |event: &(Option<&str>, Value)| event.1["candidates"][0]["finishReason"].clone();
    assert!(
        events
            .iter()
            .rev()
            .skip(1)
            .all(|event| finish(event).is_null())
    );
    assert_eq!(finish(events.last().unwrap()), "STOP");
    assert_eq!(events.last().unwrap().1["usageMetadata"], usage);
}

#[test]
fn responses_streams_and_plain() {
    let mut replies = full_reply();
    let patch = json!({"name": "apply_patch", "input": "*** Begin Patch\n"});
    replies[0]["tools"].as_array_mut().unwrap().push(patch);
    let server = ModelServer::start(&replies);
    let whole = ask(&server, "responses", false).json();

    let kinds: Vec<_> = whole["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["reasoning", "message", "function_call", "custom_tool_call"]
    );
    assert_eq!(whole["output"][1]["content"][0]["text"], TEXT);
    assert_eq!(whole["output"][2]["arguments"], r#"{"path":"a b"}"#);
    assert_eq!(whole["output"][3]["input"], "*** Begin Patch\n");
    assert_eq!(whole["status"], "completed");

    let usage = &whole["usage"];
    assert_eq!(
        (&usage["input_tokens"], &usage["output_tokens"]),
        (&json!(1230), &json!(50))
    );
    assert_eq!(usage["input_tokens_details"]["cached_tokens"], 200);
    assert_eq!(usage["output_tokens_details"]["reasoning_tokens"], 7);

    let stream = ask(&server, "responses", true);
    let events = stream.events();
    assert!(
        events
            .iter()
            .all(|(name, data)| data["type"] == name.unwrap())
    );

    let numbers = events
        .iter()
        .map(|(_, data)| usize::try_from(data["sequence_number"].as_u64().unwrap()));
    assert!(
        numbers
            .enumerate()
            .all(|(at, number)| number.unwrap() == at)
    );

    let deltas = events
        .iter()
        .filter(|(name, _)| *name == Some("response.output_text.delta"));
    assert_eq!(
        deltas
            .map(|(_, data)| data["delta"].as_str().unwrap())
            .collect::<String>(),
        TEXT
    );

    let mut last = events.last().unwrap().1["response"].clone();
    last["id"] = whole["id"].clone();
    assert_eq!(last["output"].as_array().unwrap().len(), 4);
    assert_eq!(
        (&last["usage"], &last["status"]),
        (&whole["usage"], &whole["status"])
    );
}

#[test]
fn chat_streams_and_plain() {
    let server = ModelServer::start(&full_reply());
    let whole = ask(&server, "chat", false).json();
    let message = &whole["choices"][0]["message"];
    assert_eq!(
        (&message["content"], &message["reasoning_content"]),
        (&json!(TEXT), &json!("Hm."))
    );
    assert_eq!(
        message["tool_calls"][0]["function"]["arguments"],
        r#"{"path":"a b"}"#
    );
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");

    let usage = json!({
        "prompt_tokens": 1200, "completion_tokens": 50, "total_tokens": 1250,
        "prompt_tokens_details": {"cached_tokens": 200}, "completion_tokens_details": {"reasoning_tokens": 7},
    });
    assert_eq!(whole["usage"], usage);

    let stream = ask(&server, "chat", true);
    assert_eq!(stream.joined("/choices/0/delta/content"), TEXT);
    assert_eq!(stream.joined("/choices/0/delta/reasoning_content"), "Hm.");
    assert_eq!(stream.joined("/choices/0/finish_reason"), "tool_calls");

    let events = stream.events();
    assert_eq!(events[events.len() - 2].1["usage"], usage);
    assert_eq!(events[events.len() - 1].1, "[DONE]");
}

#[test]
fn stops_and_failures_use_the_form_of_the_dialect() {
    let stops = [
        (
            "anthropic",
            "/stop_reason",
            "end_turn",
            "max_tokens",
            "refusal",
        ),
        (
            "gemini",
            "/candidates/0/finishReason",
            "STOP",
            "MAX_TOKENS",
            "SAFETY",
        ),
        (
            "responses",
            "/status",
            "completed",
            "incomplete",
            "incomplete",
        ),
        (
            "chat",
            "/choices/0/finish_reason",
            "stop",
            "length",
            "content_filter",
        ),
    ];
    let failures = [
        ("anthropic", "/error/type", "rate_limit_error"),
        ("gemini", "/error/status", "RESOURCE_EXHAUSTED"),
        ("responses", "/error/code", "rate_limit_exceeded"),
        ("chat", "/error/code", "rate_limit_exceeded"),
    ];

    for ((dialect, pointer, end, length, refusal), (_, failure_pointer, failure)) in
        stops.into_iter().zip(failures)
    {
        let server = ModelServer::start(&json!([
            {"text": "a"}, {"text": "a", "stop": "length"}, {"text": "a", "stop": "refusal"},
            {"status": 429, "message": "slow down", "headers": {"retry-after": "7"}},
            {"text": "ab", "chunk": 1, "error_event": true, "message": "broken inside"},
        ]));

        for expected in [end, length, refusal] {
            assert_eq!(
                ask(&server, dialect, false)
                    .json()
                    .pointer(pointer)
                    .unwrap(),
                expected,
                "{dialect}"
            );
        }

        let failed = ask(&server, dialect, true);
        assert_eq!(failed.status, 429);
        assert!(
            failed.head.contains("retry-after: 7\r\n"),
            "{}",
            failed.head
        );
        assert_eq!(failed.json().pointer(failure_pointer).unwrap(), failure);
        assert_eq!(failed.json()["error"]["message"], "slow down");

        let inside = ask(&server, dialect, true);
        let events = inside.events();
        assert!(inside.whole && inside.status == 200);
        assert!(
            events
                .last()
                .unwrap()
                .1
                .to_string()
                .contains("broken inside"),
            "{dialect}"
        );
        assert!(
            events[events.len() - 2].1.to_string().contains("\"b\""),
            "{dialect}: after the text"
        );
    }
}

/// Returns the bytes received until the connection is silent for a while, and checks that it is
/// still open.
fn rest_before_silence(connection: &mut TcpStream) -> String {
    connection
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let mut rest = Vec::new();
    let error = connection.read_to_end(&mut rest).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    String::from_utf8(rest).unwrap()
}

#[test]
fn stream_breaks_stalls_and_hangs_at_the_scripted_point() {
    for (dialect, _) in DIALECTS {
        let server = ModelServer::start(&json!([
            {"text": "abcdef", "chunk": 2, "cut_after": 2},
            {"text": "abcdef", "chunk": 2, "stall_after": 1},
            {"hang": true},
            {"text": "late", "delay": 0.05},
        ]));
        let cut = ask(&server, dialect, true);
        assert!(!cut.whole, "{dialect}");
        assert!(
            cut.body.contains("\"cd\"") && !cut.body.contains("\"ef\""),
            "{dialect}: {}",
            cut.body
        );

        let path = DIALECTS
            .into_iter()
            .find(|(name, _)| *name == dialect)
            .unwrap()
            .1;
        let path = path.replace(":generate", ":streamGenerate");
        let mut stalled = connect(&server);
        send(&mut stalled, &path, &json!({"stream": true}));
        let mut got = String::new();
        while !got.contains("\"ab\"") {
            got += &read_line(&mut stalled).unwrap();
        }
        let rest = rest_before_silence(&mut stalled);
        assert!(
            !got.contains("\"cd\"") && !rest.contains("\"cd\""),
            "{dialect}: {got}{rest}"
        );

        let mut hanging = connect(&server);
        send(&mut hanging, &path, &json!({"stream": true}));
        // Otherwise the next request could be the one without a response.
        until("the request is not logged", || server.requests().len() == 3);
        assert_eq!(rest_before_silence(&mut hanging), "", "{dialect}");

        let before = std::time::Instant::now();
        assert!(ask(&server, dialect, true).whole);
        assert!(before.elapsed() >= Duration::from_millis(50), "{dialect}");
        let statuses: Vec<_> = server
            .requests()
            .iter()
            .map(|request| request["status"].clone())
            .collect();
        assert_eq!(
            statuses,
            [json!(200), json!(200), Value::Null, json!(200)],
            "{dialect}"
        );
    }
}

#[test]
fn replies_are_used_in_order_and_the_last_repeats() {
    let server = ModelServer::start(&json!([
        {"text": "one", "repeat": 2}, {"raw": {"status": 502, "content_type": "text/html", "body": "<p>"}},
        {"text": "last"},
    ]));
    let mut connection = connect(&server);
    let mut said = Vec::new();
    for _ in 0..5 {
        send(&mut connection, "/v1/messages", &json!({"model": "m"}));
        let got = receive(&mut connection);
        said.push(if got.status == 200 {
            got.json()["content"][0]["text"].clone()
        } else {
            got.body.into()
        });
    }

    assert_eq!(said, ["one", "one", "<p>", "last", "last"]);

    // Requests that count tokens or list models use up no reply.
    send(
        &mut connection,
        "/v1/messages/count_tokens",
        &json!({"a": "1234567890"}),
    );
    assert_eq!(receive(&mut connection).json(), json!({"input_tokens": 4}));

    connection
        .write_all(b"GET /v1/models?limit=9 HTTP/1.1\r\n\r\n")
        .unwrap();
    assert_eq!(receive(&mut connection).json()["data"], json!([]));

    send(&mut connection, "/v1/elsewhere", &json!({}));
    assert_eq!(receive(&mut connection).status, 404);

    // A chunked body is read like one with a length.
    let head =
        "POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\nexpect: 100-continue\r\n\r\n";
    connection.write_all(head.as_bytes()).unwrap();
    assert_eq!(receive_head(&mut connection), "HTTP/1.1 100 Continue");

    connection
        .write_all(b"4\r\n{\"mo\r\n9;x=y\r\ndel\":\"z\"}\r\n0\r\n\r\n")
        .unwrap();
    assert_eq!(receive(&mut connection).json()["model"], "z");
}

fn receive_head(stream: &mut TcpStream) -> String {
    let line = read_line(stream).unwrap();
    assert_eq!(read_line(stream).unwrap(), "");
    line
}

#[test]
fn log_records_the_prompt_and_the_request() {
    let server = ModelServer::start(&json!([{"text": "run {{NONCE}}"}]));
    fs::write(server.prompt(), "<prompt>\n<review run=\"k3f9x2ab\">é").unwrap();
    let prompt = fs::read_to_string(server.prompt()).unwrap();
    let said = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let attached = json!({"role": "user", "content": [
        {"type": "text", "text": prompt}, {"type": "text", "text": format!("file\n{}", "x".repeat(3000))},
    ]});
    let mut connection = connect(&server);

    for body in [
        json!({"messages": [attached], "stream": false}),
        json!({"messages": [said(&format!("{prompt} ")), {"role": "assistant", "content": "Y"}]}),
        json!({"input": [said(&prompt), {"type": "function_call_output", "output": "ran"}]}),
        json!({"contents": [{"role": "user", "parts": [{"text": "run=\"k3f9x2ab\""}]}], "x": "<review run=\"k3f9x2ab\">"}),
    ] {
        send(&mut connection, "/v1/messages?key=AIza1234&beta=1", &body);
        assert_eq!(
            receive(&mut connection).json()["content"][0]["text"],
            "run k3f9x2ab"
        );
    }

    let requests = server.requests();
    let found: Vec<_> = requests
        .iter()
        .map(|request| request["prompt"].as_str().unwrap())
        .collect();
    assert_eq!(found, ["whole", "within", "whole", "missing"]);

    let extra = requests[0]["extra"].as_array().unwrap();
    assert_eq!((extra.len(), extra[0].as_str().unwrap().len()), (1, 2000));
    assert!(extra[0].as_str().unwrap().starts_with("file\n"));
    assert_eq!(requests[1]["extra"][0], format!("{prompt} "));
    assert_eq!(requests[2]["extra"], json!(["ran"]));
    assert_eq!(requests[3]["extra"], json!(["run=\"k3f9x2ab\""]));
    assert_eq!(requests[0]["headers"]["x-api-key"], "*** (11 bytes)");
    assert_eq!(requests[0]["path"], "/v1/messages?key=*** (8 bytes)&beta=1");
    assert_eq!(requests[0]["bytes"], server.body(1).len());
    assert_eq!(
        serde_json::from_str::<Value>(&server.body(1)).unwrap()["stream"],
        false
    );
}

#[test]
fn invalid_script_is_refused_with_its_location() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.yaml");

    for (text, words) in [
        (
            "format: 1\nreplies:\n  - text: a\n    colour: red\n",
            "script.yaml:4",
        ),
        (
            "format: 2\nreplies: [{text: a}]\n",
            "only scripts of format 1",
        ),
        ("format: 1\nreplies: []\n", "there is no reply"),
        (
            "format: 1\nreplies:\n  - {text: a}\n  - {status: 200}\n",
            "script.yaml:4",
        ),
        ("format: 1\nreplies: [{chunk: 0}]\n", "1 at least"),
        (
            "format: 1\nreplies: [{tools: [{name: a, input: 3}]}]\n",
            "named values or a text",
        ),
    ] {
        fs::write(&script, text).unwrap();
        let output = Command::new(program("model_server"))
            .arg("--script")
            .arg(&script)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && stderr.contains(words),
            "{text}\n{stderr}"
        );
        assert_eq!(output.stdout, b"", "{text}");
    }
}

#[test]
fn server_exits_when_stdin_closes() {
    let server = ModelServer::start(&json!([{"hang": true}]));
    let mut connection = connect(&server);
    send(&mut connection, "/v1/messages", &json!({}));
    until("the request is not logged", || server.requests().len() == 1);
    drop(server);
    assert_eq!(
        connection.read(&mut [0; 16]).unwrap_or(0),
        0,
        "no output, and no process"
    );
}
