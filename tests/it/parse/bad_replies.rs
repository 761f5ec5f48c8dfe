//! Bad replies: no hang, no data loss, and no unrequested effect.

use agentd::models::{ConversationTurn, Mode, Nonce, ProblemCode, Response, State};
use agentd::orchestrator::{TurnRequest, Workspace, WorkspaceOptions, assemble};
use agentd::parse::{self, Grammar, ReplyContext};
use agentd::{ErrorKind, Pack, SearchPath};

use crate::support::TestProject;
use crate::support::foreman_pack::{assembler, config, work};
use crate::support::reply_case::all_replies;

fn grammar(pack: &str, mode: &str) -> Grammar {
    Pack::load(pack, &SearchPath::default())
        .unwrap()
        .grammar(&Mode::new(mode).unwrap())
        .unwrap()
}

fn read(reply: impl AsRef<[u8]>) -> Response {
    parse::parse(
        reply,
        &grammar("foreman", "architect"),
        &ReplyContext::default(),
    )
}

fn has_no_effect(response: &Response) -> bool {
    response.actions.is_empty() && response.updates.is_empty() && response.markers.is_empty()
}

fn has_problem(response: &Response, code: ProblemCode) -> bool {
    response.problems.iter().any(|problem| problem.code == code)
}

/// The benches cover the same with 100 MB.
#[test]
fn large_nonsense_replies_are_parsed_completely() {
    let brackets = read("<".repeat(3_000_000));
    assert!(has_no_effect(&brackets) && !brackets.message.is_empty());
    let line = read("a".repeat(3_000_000));
    assert!(has_no_effect(&line) && line.message.len() == 3_000_000);
    let tags = read("<a>".repeat(300_000));
    assert!(has_no_effect(&tags) && tags.message.len() == 900_000);
    let actions = read("<action type=\"save_decision\">".repeat(100_000));
    assert!(has_no_effect(&actions) && actions.proposals.len() == 256);
}

/// Size limits that fall into the middle of characters.
#[test]
fn large_values_are_cut_at_character_boundaries() {
    let wide = "é".repeat(2_100_000);
    for start in ["{\"a\": \"", " {\"a\": \"", "{\"message\": \""] {
        let response = read(format!("See:\n{start}{wide}\"}}\nDone."));
        assert!(has_no_effect(&response) && !response.message.is_empty());
    }
}

#[test]
fn deep_nesting_is_parsed_completely() {
    const DEPTH: usize = 30_000;
    for (open, close) in [
        ("<message>", "</message>"),
        ("<think>", "</think>"),
        ("<action type=\"save_decision\">", "</action>"),
        ("<b>", "</b>"),
        ("[", "]"),
        ("{\"a\": ", "}"),
        ("> ", ""),
        ("- ", ""),
        ("<tool_call>{\"name\": [", "]}</tool_call>"),
    ] {
        let reply = open.repeat(DEPTH) + &close.repeat(DEPTH);
        assert!(has_no_effect(&read(&reply)), "{open}");
    }
}

#[test]
fn odd_bytes_are_kept_or_reported() {
    let nul = read("<message>a\0b</message>\0");
    assert_eq!((nul.message.as_str(), nul.stray.as_str()), ("a\0b", "\0"));

    let broken = read(b"<message>a\xFF\xC3b\xED\xA0\x80</message>".as_slice());
    assert!(
        broken.message.starts_with("a\u{FFFD}\u{FFFD}b\u{FFFD}")
            && has_problem(&broken, ProblemCode::InvalidUtf8)
    );

    let marked = read("\u{FEFF}<message>Fine.</message>");
    assert_eq!(
        (marked.message.as_str(), marked.stray.as_str()),
        ("Fine.", "")
    );

    let lines = read("<message>\r\na\r\n```\r\n<review>PASS</review>\r\n```\r\n</message>\r\n");
    assert!(has_no_effect(&lines) && lines.message.starts_with("a\r\n"));
}

/// A lone surrogate has no meaning: it becomes the replacement character.
#[test]
fn lone_surrogates_in_json_are_replaced() {
    let reply = r#"{"message": "a \ud800 b", "actions": [{"type": "save_decision", "category": "world", "key": "\udc00", "value": "\ud83d\ude00"}]}"#;
    let response = read(reply);
    assert_eq!(response.message, "a \u{FFFD} b");
    let values = &response.actions[0].values;
    assert_eq!(
        (values["key"].as_str(), values["value"].as_str()),
        (Some("\u{FFFD}"), Some("😀"))
    );
}

/// Actions at the same place are compared with the prompt once, not individually.
#[test]
fn large_json_reply_is_parsed_within_bounds() {
    let item = r#"{"type": "save_decision", "category": "world", "key": "k", "value": ""},"#;
    let reply = format!(
        r#"{{"message": "a", "actions": [{}]}}"#,
        item.repeat(20_000).trim_end_matches(',')
    );
    let prompt = "What the prompt says is long enough to be looked at.\n".repeat(1_000);
    let context = ReplyContext {
        sent: vec![&prompt],
        ..ReplyContext::default()
    };

    let response = parse::parse(&reply, &grammar("foreman", "architect"), &context);
    assert!(has_no_effect(&response) && response.proposals.len() == 100);
    assert!(
        response
            .proposals
            .iter()
            .map(|proposal| proposal.text.len())
            .sum::<usize>()
            <= reply.len()
    );
}

/// A file that repeats one field costs one pass, regardless of the number of requests in the reply.
#[test]
fn prompt_full_of_examples_is_scanned_once() {
    let prompt = format!("{}<key>k</key>", "<key>text</key>\n".repeat(60_000));
    let context = ReplyContext {
        sent: vec![&prompt],
        ..ReplyContext::default()
    };
    let reply = "<action type=\"save_decision\"><category>world</category><key>text</key><value>two</value></action>";
    let response = parse::parse(reply, &grammar("foreman", "architect"), &context);
    assert_eq!(response.actions.len(), 1);
}

/// A reply that only repeats its prompt has no content, in every mode of every pack.
#[test]
fn reply_that_repeats_the_prompt_has_no_effect() {
    let project = TestProject::new();
    let workspace = Workspace::open(project.root(), WorkspaceOptions::default()).unwrap();
    for mode in ["plan", "challenge", "implement", "review", "archive"] {
        let mode_of = || Mode::new(mode).unwrap();
        let ask = TurnRequest {
            nonce: Some(Nonce::preview()),
            ..TurnRequest::new(mode_of(), "Say <review>PASS</review>")
        };
        let state = State {
            mode: Some(mode_of()),
            ..State::default()
        };
        let assembly = assemble(&workspace, &state, &ask).unwrap();
        repeats_itself(&assembly.draft, &grammar("sdd", mode));
    }

    let work = work("section_6_1");
    let said = [ConversationTurn {
        user: "Go.".to_owned(),
        assistant: "<message>Gone.</message>".to_owned(),
    }];
    for mode in ["architect", "voice_calibration", "director", "editor"] {
        let draft = assembler(&work)
            .draft(&config("gpt-4o", mode), &work, &said, "Go on.", None)
            .unwrap();
        repeats_itself(&draft, &grammar("foreman", mode));
    }
}

fn repeats_itself(draft: &agentd::compose::Draft, grammar: &Grammar) {
    let prompt = draft.rendered();
    let sent: Vec<&str> = draft
        .segments
        .iter()
        .map(|segment| segment.text.as_str())
        .collect();

    for nonce in [None, Some("preview")] {
        let context = ReplyContext {
            sent: sent.clone(),
            nonce,
            ..ReplyContext::default()
        };
        let response = parse::parse(&prompt, grammar, &context);
        assert!(has_no_effect(&response), "{nonce:?}: {response:?}");
        match parse::verdict(&response, grammar) {
            Ok(verdict) => assert!(verdict.is_none() && !grammar.verdict_required),
            Err(error) => assert_eq!(error.kind(), ErrorKind::MissingReviewMarker),
        }
    }
}

/// The search for actions in other forms takes any reply, in linear time, and reports at most eight.
#[test]
fn unaccepted_actions_of_bad_replies_are_bounded() {
    let grammar = grammar("foreman", "architect");
    let find = |reply: &str| {
        let context = ReplyContext::default();
        let response = parse::parse(reply, &grammar, &context);
        parse::find_unaccepted_actions(reply, &response, &grammar, &context)
    };

    let action = "<action type=\"save_decision\"><category>world</category><key>k</key><value>v</value></action>";
    let fences = format!("```\n{action}\n```\n").repeat(5_000);
    assert_eq!(find(&fences).len(), 8);
    assert!(find(&"```\n{\"a\":\n".repeat(20_000)).is_empty());
    assert!(find(&"{\"action\": {\n".repeat(20_000)).is_empty());
    assert!(find(&format!("{{\"é\": \"{}", "é".repeat(100_000))).is_empty());

    for (reply, _) in all_replies() {
        let text = String::from_utf8_lossy(&reply).into_owned();
        let cuts = [text.len() / 3, text.len() / 2, text.len()];
        for cut in cuts.map(|cut| text.floor_char_boundary(cut)) {
            for found in find(&text[..cut]) {
                assert!(found.what.is_action() && !found.again, "{found:?}");
                assert_eq!(&text[found.span.clone()], found.text);
            }
        }
    }
}
