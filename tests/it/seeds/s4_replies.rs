//! S4, sections 7 and 8: replies in the form that the foreman pack describes, and in other forms.

use agentd::models::{CallOutcome, Mode, Response, StateDocument};
use agentd::parse::{self, Grammar, ReplyContext};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::s4_actions::{next_state, results, take_turn};
use crate::support::foreman_pack::{ACTIONS, MODES, pack, prompt};
use crate::support::{TestProject, read_data};

fn grammar(mode: &str) -> Grammar {
    pack().grammar(&Mode::new(mode).unwrap()).unwrap()
}

fn read(mode: &str, reply: &str) -> Response {
    parse::parse(reply, &grammar(mode), &ReplyContext::default())
}

/// The structure of 7.1, with values in place of its words in brackets.
#[test]
fn section_7_1_response_structure() {
    let reply = "<thinking>\nThe flaw is missing.\n</thinking>\n\n<message>\n**CHALLENGE**: what does she want?\n</message>\n\n\
                 <action type=\"query_notebook\">\n  <notebook_id>world</notebook_id>\n  <query>How old?</query>\n</action>\n\n\
                 <content_update target=\"chapter_1\">\nIt rained.\n</content_update>\n";
    let response = read("architect", reply);
    assert_eq!(response.thoughts, ["The flaw is missing."]);
    assert_eq!(response.message, "**CHALLENGE**: what does she want?");
    assert_eq!(response.actions[0].name, "query_notebook");
    assert_eq!(
        json!(response.actions[0].values),
        json!({"notebook_id": "world", "query": "How old?"})
    );
    assert_eq!(response.updates[0].target, "chapter_1");
    assert_eq!(response.updates[0].content, "It rained.\n");
    assert!(response.complete && response.problems.is_empty() && response.proposals.is_empty());
    assert_eq!(response.stray, "");
}

/// Returns the examples of a prompt in the form of a reply: fenced XML, and the examples in the list of actions.
fn examples_of(prompt: &str) -> Vec<String> {
    let between = |start: &str, end: &str| {
        prompt
            .split(start)
            .skip(1)
            .map(|part| part.split(end).next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    [
        between("```xml\n", "```"),
        between("<example>", "</example>"),
    ]
    .concat()
}

/// Checks that every action of an example names templates and fields of `artifacts.yaml`.
fn assert_fields_are_declared(response: &Response) {
    let artifacts = pack().artifacts;
    for action in &response.actions {
        let Some(template) = action.values.get("template") else {
            continue;
        };
        let artifact = &artifacts[template.as_str().unwrap()];

        let written = action.values.get("content").and_then(Value::as_object);
        let written = written.into_iter().flat_map(|fields| fields.keys());
        for field in written {
            assert!(artifact.fields.contains_key(field), "{field}");
        }
        let missing = action.values.get("missing").and_then(Value::as_array);
        for field in missing.into_iter().flatten() {
            assert!(artifact.fields.contains_key(field.as_str().unwrap()));
        }
    }
}

/// Every example of every prompt is parsed without a problem: protocols, list of actions, and example turn.
#[test]
fn every_example_in_a_prompt_is_a_valid_reply() {
    // The protocols are the same in every mode; their examples are turns in ARCHITECT.
    for (model, replies, actions) in [
        ("gpt-4o", 5, 4),
        ("deepseek-chat", 1, 2),
        ("llama3.2:3b", 0, 0),
    ] {
        let prompt = prompt(model, "architect", &StateDocument::default());
        let examples = examples_of(&prompt);
        assert_eq!(examples.len(), replies, "{model}");

        let mut found = 0;
        for example in examples {
            let response = read("architect", &example);
            assert!(response.complete && response.proposals.is_empty());
            assert!(response.problems.is_empty(), "{:?}", response.problems);
            assert_fields_are_declared(&response);
            found += response.actions.len();
        }
        assert_eq!(found, actions, "{model}");
    }

    // The examples in the list of actions belong to the mode.
    for mode in MODES {
        let prompt = prompt("gpt-4o", mode, &StateDocument::default());
        let lists = prompt.split("<available_actions>").nth(1).unwrap();
        let list = lists.split("</available_actions>").next().unwrap();
        for example in examples_of(list) {
            let response = read(mode, &example);
            assert_eq!(response.actions.len(), 1, "{mode}: {example}");
            assert!(response.proposals.is_empty(), "{mode}: {example}");
        }
    }
}

/// Every example of every prompt is carried out, once its texts are the writer's own: a copy is refused as an echo.
#[test]
fn every_example_in_a_prompt_is_carried_out() {
    let own_words = [
        ("Pim", "Mara"),
        ("pim", "mara"),
        ("Help is", "Mercy is"),
        ("Pride", "Guilt"),
        ("beat_14\"", "beat_15\""),
        ("By the window", "By the roof"),
        ("Refuses help", "Refuses advice"),
        ("Short sentences", "Long sentences"),
        ("Welcome, but", "Unwelcome, but"),
    ];
    for mode in MODES {
        let prompt = prompt("gpt-4o", mode, &StateDocument::default());
        let file = format!("packs/foreman/examples/{mode}.assistant.md");
        let example_turn = std::fs::read_to_string(crate::support::repository().join(file));
        let mut examples = examples_of(&prompt);
        examples.push(example_turn.unwrap());
        if mode != "architect" {
            // The examples of the protocols are turns in ARCHITECT.
            examples.retain(|example| !example.contains("write_template"));
        }

        let mut carried_out = 0;
        for mut example in examples {
            let expected = read(mode, &example).actions.len();
            if expected == 0 {
                continue;
            }
            for (text, own_text) in own_words {
                example = example.replace(text, own_text);
            }
            if !example.contains("<message>") {
                example = format!("<message>m</message>\n{example}");
            }

            let project = TestProject::new();
            take_turn(&project, mode, &example);
            let outcomes = results(&next_state(&project, mode));
            assert_eq!(outcomes.len(), expected, "{mode}: {outcomes:?}\n{example}");
            assert!(
                outcomes.iter().all(|(_, outcome, _)| outcome == "done"),
                "{mode}: {outcomes:?}\n{example}"
            );
            carried_out += expected;
        }
        let expected = if mode == "architect" { 5 } else { 2 };
        assert_eq!(carried_out, expected, "{mode}");
    }
}

/// The two complete replies in the shipped prose are parsed as intended.
#[test]
fn examples_in_the_foreman_prose_are_parsed() {
    let example = std::fs::read_to_string(
        crate::support::repository().join("packs/foreman/examples/architect.assistant.md"),
    )
    .unwrap();
    let response = read("architect", &example);
    assert_eq!(response.actions.len(), 1);
    assert_eq!(response.actions[0].values["key"], "pim_fatal_flaw");
    assert!(response.message.starts_with("The bolted door"));

    let protocols =
        std::fs::read_to_string(crate::support::repository().join("packs/foreman/protocols.md"))
            .unwrap();
    let fence = protocols
        .split("```xml\n")
        .find(|part| part.contains("update_status"))
        .unwrap();

    let response = read("architect", fence.split("```").next().unwrap());
    assert_eq!(response.actions.len(), 2);
    assert_eq!(
        json!(response.actions[0].values),
        json!({
            "template": "beat_sheet",
            "content": {"beat_9": "False victory: Pim wins the feast alone"},
        })
    );
    assert_eq!(
        response.actions[1].values["missing"],
        json!(["beat_10", "beat_14"])
    );
}

/// The example turn of each mode is a complete reply with actions that the mode offers, each with its own free text.
#[test]
fn every_mode_has_an_example_turn_without_a_refused_action() {
    let expected = [
        ("architect", vec!["save_decision"]),
        ("voice_calibration", vec!["save_decision"]),
        ("director", vec!["save_decision"]),
        ("editor", vec!["save_decision"]),
    ];
    assert_eq!(expected.each_ref().map(|(mode, _)| *mode), MODES);

    for (mode, actions) in expected {
        let folder = crate::support::repository().join("packs/foreman/examples");
        let user = std::fs::read_to_string(folder.join(format!("{mode}.user.md"))).unwrap();
        let reply = std::fs::read_to_string(folder.join(format!("{mode}.assistant.md"))).unwrap();
        let response = read(mode, &reply);

        let names: Vec<_> = response.actions.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, actions, "{mode}");
        assert!(response.complete && response.problems.is_empty(), "{mode}");
        assert!(response.proposals.is_empty() && response.updates.is_empty());
        assert_eq!(response.thoughts.len(), 1);
        assert!(response.message.contains("**Next**") && response.stray.is_empty());
        assert!(user.lines().count() == 1 && !user.contains('<'), "{mode}");

        let known = grammar(mode);
        assert!(names.iter().all(|name| known.actions.contains_key(*name)));
    }
}

/// The lists in brackets of 7.2, and the types of 8.2.
#[test]
fn section_7_2_values_have_schema_types() {
    let reply = "<message>Go.</message><action type=\"generate_scaffold\"><chapter>2</chapter><scene>11</scene>\
                 <title>The bell</title><enrichment>[\"world\", 'people']</enrichment></action>";
    let response = read("director", reply);
    let expected =
        json!({"chapter": 2, "scene": 11, "title": "The bell", "enrichment": ["world", "people"]});
    assert_eq!(json!(response.actions[0].values), expected);
    let reply = "<action type=\"write_template\"><template>theme</template><content><central>Trust</central>\
                 <arc><start>alone</start><end>held</end></arc></content></action>";
    let response = read("architect", reply);
    let expected = json!({"template": "theme", "content": {"central": "Trust", "arc": {"start": "alone", "end": "held"}}});
    assert_eq!(json!(response.actions[0].values), expected);
}

#[test]
fn section_7_3_no_message_tag_the_whole_reply_is_the_message() {
    let response = read("architect", "Tell me more about Elena.\n\nWhy now?");
    assert_eq!(response.message, "Tell me more about Elena.\n\nWhy now?");
    assert!(response.actions.is_empty() && response.problems.is_empty());
}

#[test]
fn section_7_3_malformed_action_is_skipped_and_shown() {
    let reply = "<message>Saved.</message>\n<action type=\"save_decision\"><key>a</key></action>";
    let response = read("architect", reply);
    assert!(response.actions.is_empty());
    assert_eq!(response.message, "Saved.");
    assert_eq!(
        response.proposals[0].what.to_string(),
        "action save_decision"
    );
    assert_eq!(response.proposals[0].reason, "`category` is missing");
    assert!(
        response.proposals[0].text.contains("<key>a</key>"),
        "{}",
        response.proposals[0].text
    );
    assert_eq!(
        &reply[response.proposals[0].span.clone()],
        response.proposals[0].text
    );
}

#[test]
fn section_7_3_nested_tag_errors_are_parsed_best_effort() {
    let response = read(
        "architect",
        "<message>Use <message>tags</message> like <b>this</message> one.</message>",
    );
    assert!(
        response.message.contains("like <b>this"),
        "{}",
        response.message
    );
    assert!(response.actions.is_empty());
}

/// Sections 8.1 and 8.3: each action is accepted in the modes that permit it and refused in the
/// others.
#[test]
fn section_8_1_actions_apply_only_in_their_modes() {
    let defined: Vec<String> = pack().actions.keys().cloned().collect();
    assert_eq!(
        ACTIONS.map(|(name, ..)| name.to_owned()).to_vec(),
        defined,
        "every action of the pack"
    );

    for (action, parameters, modes) in ACTIONS {
        let reply = format!("<message>m</message><action type=\"{action}\">{parameters}</action>");
        for (mode, permitted) in MODES.into_iter().zip(modes) {
            let response = read(mode, &reply);
            assert_eq!(
                response.actions.len(),
                usize::from(permitted),
                "{action} in {mode}"
            );
            assert_eq!(
                response.proposals.len(),
                usize::from(!permitted),
                "{action} in {mode}"
            );
            let name = response
                .actions
                .first()
                .map_or(action, |action| action.name.as_str());
            assert_eq!(name, action, "in {mode}");
        }
    }
}

/// A strict XML parser finds the same content in a well-formed reply.
fn read_strictly(reply: &str) -> Value {
    let root = format!("<reply>{reply}</reply>");
    let document = roxmltree::Document::parse(&root).unwrap();
    let children = || {
        document
            .root_element()
            .children()
            .filter(|node| node.is_element())
    };

    let text = |node: roxmltree::Node<'_, '_>| node.text().unwrap_or_default().trim().to_owned();
    let of = |name: &'static str| children().filter(move |node| node.has_tag_name(name));
    let actions = of("action").map(|node| {
        let fields = node.children().filter(|field| field.is_element());
        let fields =
            fields.map(|field| (field.tag_name().name().to_owned(), Value::from(text(field))));
        json!({node.attribute("type").unwrap(): fields.collect::<serde_json::Map<_, _>>()})
    });
    let updates = of("content_update").map(
        |node| json!({node.attribute("target").unwrap(): node.text().unwrap_or_default().trim()}),
    );
    json!({
        "thoughts": of("thinking").map(text).collect::<Vec<_>>(),
        "message": of("message").map(text).collect::<Vec<_>>().join("\n\n"),
        "actions": actions.collect::<Vec<_>>(),
        "updates": updates.collect::<Vec<_>>(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn well_formed_replies_match_a_strict_parser(
        thought in "[a-zäß,.!?\n ]{1,40}[a-z]",
        message in "[A-Za-z,.!?\n ]{0,60}[a-z]",
        fields in prop::collection::vec(("[a-z_]{2,8}[0-9]", "[A-Za-z0-9'.,? ]{0,30}[a-z]"), 0..5),
        content in "[A-Za-z.,\n ]{0,80}[a-z]",
    ) {
        let actions: String = fields.iter().map(|(key, value)| format!(
            "<action type=\"save_decision\">\n  <category>world</category>\n  <key>{key}</key>\n  <value>{value}</value>\n</action>\n"
        )).collect();
        let reply = format!(
            "<thinking>{thought}</thinking>\n<message>{message}</message>\n{actions}<content_update target=\"scene\">{content}</content_update>\n"
        );
        let response = read("architect", &reply);
        let mut seen = Vec::new();
        let mut strict = read_strictly(&reply);

        // The same action twice is one action.
        strict["actions"].as_array_mut().unwrap().retain(|action| {
            let new = !seen.contains(action);
            seen.push(action.clone());
            new
        });
        let found = json!({
            "thoughts": response.thoughts,
            "message": response.message,
            "actions": response.actions.iter().map(|a| json!({a.name.clone(): a.values})).collect::<Vec<_>>(),
            "updates": response.updates.iter().map(|u| json!({u.target.clone(): u.content.trim()})).collect::<Vec<_>>(),
        });
        prop_assert_eq!(found, strict);
        prop_assert!(response.complete && response.proposals.is_empty());
    }
}

/// 80 replies of a small model: none has an effect that it did not request. Copies of the prompt's
/// example, damaged requests and truncated ones are refused.
#[test]
fn small_model_replies_have_no_unrequested_effect() {
    let text = read_data("small_model/replies.json");
    let replies: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(replies.len(), 80);

    let prompt = "Every response MUST use these XML tags:\n<thinking>short internal reasoning</thinking>\n\
                  <message>what the writer sees</message>\n<action type=\"save_decision\"><category>character</category>\
                  <key>name</key><value>text</value></action>\n";
    let context = ReplyContext {
        ours: vec![prompt],
        sent: vec![prompt],
        ..ReplyContext::default()
    };
    let mut keys = Vec::new();

    for reply in &replies {
        let is_cut = reply["finish"] == "length";
        let context = ReplyContext {
            outcome: if is_cut {
                CallOutcome::Cut
            } else {
                CallOutcome::Ok
            },
            ..context.clone()
        };

        let response = parse::parse(
            reply["content"].as_str().unwrap(),
            &grammar("architect"),
            &context,
        );
        assert!(!is_cut || (response.actions.is_empty() && !response.complete));
        assert!(response.updates.is_empty() && response.markers.is_empty());

        keys.extend(
            response
                .actions
                .iter()
                .map(|action| action.values["key"].as_str().unwrap().to_owned()),
        );
    }

    // Selected by hand: these have their own values, are complete and are outside of code.
    let asked = [
        "love_theme_theme_name",
        "fTL_travel_type",
        "trying_out_the_issue",
        "magic_cost_per_spell",
        "story_level",
        "elena_flaw_solution",
        "x",
        "d_flaw_cost_amount",
        "elena_flaw_solution_type",
    ];
    assert_eq!(keys, asked);
}
