//! HTTP models as agents: requests and replies of the built-in client.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;

use agentd::ErrorKind;
use agentd::config::{Agents, Environment};
use agentd::models::{CallOutcome, UsageMetrics};
use serde_json::{Value, json};

use crate::support::agent_output::shipped;
use crate::support::http_agent::{Ask, DIALECTS, KEY, ask, drivers, forget_lines, providers};
use crate::support::model_server_process::ModelServer;

#[test]
fn dialects_return_text_and_usage_and_send_the_key_as_header() {
    let text = "<message>grüße 😀</message>\n".repeat(20);
    let usage =
        json!({"input": 1200, "cache_read": 1000, "cache_write": 0, "output": 46, "reasoning": 12});
    let server =
        ModelServer::start(&json!([{"text": text, "thinking": "hm", "usage": usage, "chunk": 7}]));
    let drivers = drivers(providers(server.url(), &json!({})), &[("UNLOCKER", KEY)]);
    let headers = [
        ("openai", "authorization"),
        ("anthropic", "x-api-key"),
        ("gemini", "x-goog-api-key"),
    ];

    for (at, (dialect, header)) in headers.into_iter().enumerate() {
        let reply = ask(&drivers, &Ask::of(&format!("my-{dialect}:m"))).unwrap();
        assert_eq!(
            (reply.end, reply.text.as_str()),
            (CallOutcome::Ok, text.as_str()),
            "{dialect}"
        );

        let UsageMetrics {
            input_tokens,
            cache_read_tokens,
            output_tokens,
            reasoning_tokens,
            ..
        } = reply.usage;
        let counts = [
            input_tokens,
            cache_read_tokens,
            output_tokens,
            reasoning_tokens,
        ];
        assert_eq!(
            counts,
            [Some(1200), Some(1000), Some(46), Some(12)],
            "{dialect}"
        );

        let request = &server.requests()[at];
        let sent = request["headers"].as_object().unwrap();

        let keys: Vec<&str> = headers
            .iter()
            .map(|(_, name)| *name)
            .filter(|name| sent.contains_key(*name))
            .collect();
        assert_eq!(keys, [header]);
        assert!(sent["user-agent"].as_str().unwrap().starts_with("agentd/"));
        assert!(!request["path"].as_str().unwrap().contains("key"));
        assert_eq!(
            sent.contains_key("anthropic-version"),
            dialect == "anthropic"
        );
        assert!(!server.body(at + 1).contains(KEY));
    }
}

/// The expected outcome of each failure, in the form of each dialect.
#[test]
fn failures_are_classified_in_each_dialect() {
    let crashed = CallOutcome::Crashed {
        code: None,
        signal: None,
    };
    let wait = |retry_after| CallOutcome::RateLimited { retry_after };
    let large = CallOutcome::TooLarge {
        tokens: Some(14_031),
        limit: Some(8_192),
    };
    let too_long = "prompt is too long: 14031 tokens > 8192 maximum";
    let table: Vec<(Value, CallOutcome, &str, &str)> = vec![
        (
            json!({"status": 400, "message": "no such field"}),
            crashed.clone(),
            "status 400 Bad Request",
            "",
        ),
        (
            json!({"status": 400, "message": too_long}),
            large,
            too_long,
            "",
        ),
        (
            json!({"status": 401, "message": "who?"}),
            CallOutcome::Auth,
            "status 401 Unauthorized",
            "",
        ),
        (
            json!({"status": 403, "message": "not you"}),
            CallOutcome::Auth,
            "status 403 Forbidden",
            "",
        ),
        (
            json!({"status": 402, "message": "pay"}),
            CallOutcome::Quota { resets: None },
            "402 Payment Required",
            "",
        ),
        (
            json!({"status": 404, "message": "no model m"}),
            crashed.clone(),
            "no model m",
            "",
        ),
        (
            json!({"status": 413, "message": "too big"}),
            CallOutcome::TooLarge {
                tokens: None,
                limit: None,
            },
            "too big",
            "",
        ),
        (
            json!({"status": 429, "message": "slow down"}),
            wait(None),
            "slow down",
            "",
        ),
        (
            json!({"status": 429, "message": "slow down", "headers": {"retry-after": "7"}}),
            wait(Some(7)),
            "(retry-after: 7)",
            "",
        ),
        (
            json!({"status": 429, "message": "insufficient_quota"}),
            CallOutcome::Quota { resets: None },
            "insufficient_quota",
            "",
        ),
        (
            json!({"status": 500, "message": "oops"}),
            crashed.clone(),
            "oops",
            "",
        ),
        (
            json!({"status": 503, "message": "busy"}),
            wait(None),
            "busy",
            "",
        ),
        (
            json!({"status": 529, "message": "overloaded"}),
            wait(None),
            "overloaded",
            "",
        ),
        (json!({"text": ""}), CallOutcome::Empty, "", ""),
        (
            json!({"text": "a refusal", "stop": "refusal"}),
            CallOutcome::Refused,
            "refusal",
            "a refusal",
        ),
        (
            json!({"text": "cut off here", "stop": "length"}),
            CallOutcome::Cut,
            "output token limit",
            "cut off here",
        ),
        (
            json!({"text": "abcdef", "chunk": 2, "cut_after": 2}),
            CallOutcome::Cut,
            "connection lost",
            "abcd",
        ),
        (
            json!({"text": "half", "error_event": true, "message": "Overloaded in mid-reply"}),
            wait(None),
            "Overloaded in mid-reply",
            "half",
        ),
        (
            json!({"raw": {"content_type": "text/html", "body": "<html>Log in</html>"}}),
            crashed.clone(),
            "unexpected response from the server: <html>Log in</html>",
            "",
        ),
        (
            json!({"raw": {"status": 301, "body": ""}, "headers": {"location": "https://elsewhere.test/"}}),
            crashed,
            "redirects to https://elsewhere.test/ are not followed",
            "",
        ),
    ];

    for (dialect, _) in DIALECTS {
        let server = ModelServer::start(&table.iter().map(|(reply, ..)| reply.clone()).collect());
        let drivers = drivers(providers(server.url(), &json!({})), &[("UNLOCKER", KEY)]);
        for (at, (scripted, end, detail, text)) in table.iter().enumerate() {
            let mut reply = ask(&drivers, &Ask::of(&format!("my-{dialect}:m"))).unwrap();
            forget_lines(&mut reply);
            assert_eq!(
                (&reply.end, reply.text.as_str()),
                (end, *text),
                "{dialect} {scripted}: {}",
                reply.detail
            );
            assert!(
                reply.detail.contains(detail),
                "{dialect} {scripted}: {}",
                reply.detail
            );
            assert_eq!(
                server.requests().len(),
                at + 1,
                "{dialect} {scripted}: one request"
            );
        }
    }
}

#[test]
fn nothing_is_sent_without_a_key() {
    let server = ModelServer::start(&json!([{"text": "Done."}]));
    for variables in [
        &[][..],
        &[("UNLOCKER", "")],
        &[("UNLOCKER", " \n")],
        &[("unlocker", KEY)],
    ] {
        let drivers = drivers(providers(server.url(), &json!({})), variables);
        let reply = ask(&drivers, &Ask::of("my-openai:m")).unwrap();
        assert_eq!(reply.end, CallOutcome::Auth);
        assert_eq!(
            reply.detail,
            "environment variable UNLOCKER with the API key is not set"
        );
    }

    let drivers = drivers(
        providers(server.url(), &json!({})),
        &[("UNLOCKER", "two\nlines")],
    );
    let reply = ask(&drivers, &Ask::of("my-openai:m")).unwrap();
    assert_eq!(
        (
            reply.end,
            reply
                .detail
                .contains("characters that are not allowed in a header")
        ),
        (CallOutcome::Auth, true)
    );
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn key_echoed_by_the_server_is_redacted() {
    let server = ModelServer::start(&json!([
        {"status": 401, "message": format!("incorrect api key provided: {KEY}")},
        {"text": format!("Your key is {KEY}."), "chunk": 9},
    ]));
    let drivers = drivers(providers(server.url(), &json!({})), &[("UNLOCKER", KEY)]);

    let refused = ask(&drivers, &Ask::of("my-anthropic:m")).unwrap();
    assert_eq!(refused.end, CallOutcome::Auth);
    assert!(
        refused
            .detail
            .ends_with("incorrect api key provided: [secret UNLOCKER]"),
        "{}",
        refused.detail
    );
    assert_eq!(
        ask(&drivers, &Ask::of("my-anthropic:m")).unwrap().text,
        "Your key is [secret UNLOCKER]."
    );
}

#[test]
fn unreachable_server_is_named() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let drivers = drivers(
        providers(&format!("http://127.0.0.1:{port}"), &json!({"key": null})),
        &[],
    );

    let reply = ask(&drivers, &Ask::of("my-openai:m")).unwrap();
    assert_eq!(
        reply.end,
        CallOutcome::Crashed {
            code: None,
            signal: None
        }
    );
    assert_eq!(
        reply.detail,
        format!("connection to 127.0.0.1:{port} refused: is the server running?")
    );
}

#[test]
fn local_server_bypasses_the_proxy() {
    let server = ModelServer::start(&json!([{"text": "Done."}]));
    let nowhere = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let proxy = format!("http://{nowhere}");
    let variables = [
        ("UNLOCKER", KEY),
        ("HTTP_PROXY", &proxy),
        ("all_proxy", &proxy),
    ];

    let local = drivers(providers(server.url(), &json!({})), &variables);
    assert_eq!(ask(&local, &Ask::of("my-openai:m")).unwrap().text, "Done.");

    let far = drivers(
        providers("http://models.test", &json!({"key": null})),
        &variables,
    );
    let reply = ask(&far, &Ask::of("my-openai:m")).unwrap();
    assert_eq!(
        reply.end,
        CallOutcome::Crashed {
            code: None,
            signal: None
        },
        "the proxy is used, and is unreachable"
    );
    assert!(reply.detail.contains("refused"), "{}", reply.detail);
}

#[test]
fn custom_certificates_replace_the_default_roots() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("roots.pem");
    let named = file.to_str().unwrap().to_owned();
    let agents = providers("https://127.0.0.1:9", &json!({"key": null}));
    for (content, words) in [
        (None, "cannot read"),
        (Some("none here"), "no certificate in"),
    ] {
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        let drivers = drivers(agents.clone(), &[("SSL_CERT_FILE", &named)]);
        let reply = ask(&drivers, &Ask::of("my-openai:m")).unwrap();
        assert!(reply.detail.contains(words), "{}", reply.detail);
    }
}

#[test]
fn long_prompt_and_reply_arrive_whole() {
    let text = "0123456789 grüße 😀 \"\\\n".repeat(60_000);
    let prompt = format!("<prompt>{text}</prompt>\r\n");
    let plain =
        json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).to_string();
    let server =
        ModelServer::start(&json!([{"text": text, "chunk": 100_000}, {"raw": {"body": plain}}]));
    fs::write(server.prompt(), &prompt).unwrap();
    let drivers = drivers(providers(server.url(), &json!({})), &[("UNLOCKER", KEY)]);

    for at in 0..2 {
        let reply = ask(
            &drivers,
            &Ask {
                prompt: &prompt,
                ..Ask::of("my-openai:m")
            },
        )
        .unwrap();
        assert_eq!((reply.end, reply.text == text), (CallOutcome::Ok, true));
        assert_eq!(server.requests()[at]["prompt"], "whole");
    }
}

#[test]
fn shipped_providers_use_https_and_secret_keys() {
    let agents = shipped();
    let names: Vec<&str> = agents
        .providers()
        .map(|provider| provider.name.as_str())
        .collect();
    let expected = [
        "alibaba",
        "anthropic",
        "deepseek",
        "google",
        "llamacpp",
        "mistral",
        "ollama",
        "openai",
    ];
    assert_eq!(names[..8], expected);
    assert_eq!(names[8..], ["openrouter", "vllm", "xai"]);

    for provider in agents.providers() {
        assert!(
            agents.find(&provider.name).is_none(),
            "the command `{}` takes precedence",
            provider.name
        );

        let is_local = provider.base_url.starts_with("http://127.0.0.1:");
        assert_eq!(provider.key.is_none(), is_local, "{}", provider.name);
        assert!(
            is_local || provider.base_url.starts_with("https://"),
            "{}",
            provider.name
        );
        if let Some(key) = &provider.key {
            let given = Environment(vec![(OsString::from(key), OsString::from("12345678"))]);
            let known = Agents::default().with_secrets(agentd::pack::SECRET_NAMES);
            assert_eq!(known.secrets(&given).len(), 1, "{key} matches a pattern");
        }
    }
}

#[test]
fn provider_errors_have_a_location_and_a_message() {
    let table = [
        ("dialect: openai", "base_url"),
        ("dialect: klingon, base_url: https://x.test", "klingon"),
        (
            "dialect: openai, base_url: x.test/v1",
            "must be an http or https URL",
        ),
        (
            "dialect: openai, base_url: 'https://x.test/{model}'",
            "must not contain `?`, `#`, spaces or braces",
        ),
        (
            "dialect: openai, base_url: 'https://me:secret@x.test'",
            "contains a user name or password",
        ),
        (
            "dialect: openai, base_url: https://x.test, key: sk-123",
            "not the key itself",
        ),
        (
            "dialect: openai, base_url: https://x.test, key: 'A*'",
            "not the key itself",
        ),
        (
            "dialect: openai, base_url: https://x.test, colour: red",
            "colour",
        ),
    ];

    for (written, words) in table {
        let text = format!("format: 1\nproviders:\n  p: {{{written}}}\n");
        let error = Agents::read(&text, "agents.yaml").expect_err(written);
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{written}");
        assert_eq!(error.place().unwrap().line, 3, "{written}: {error}");
        assert!(error.message().contains(words), "{written}: {error}");
    }

    let own = "format: 1\nhttp: {output: {}, ends: []}\n";
    let error = shipped().overlaid(own, "agents.yaml").unwrap_err();
    assert!(
        error.message().contains("is built in and cannot be set"),
        "{error}"
    );
}
