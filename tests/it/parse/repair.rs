//! Asking again for what a reply lacks, and putting the answer into its place.

use agentd::models::{Mode, Response};
use agentd::pack::Pack;
use agentd::parse::{self, Context, Grammar, merge, repair_request};
use agentd::{ErrorKind, Places, ReviewResult, UnifiedPrompt};
use serde_json::json;

use crate::support::TestProject;

fn grammar(pack: &str, mode: &str) -> Grammar {
    Pack::load(pack, &Places::default()).unwrap().grammar(&Mode::new(mode).unwrap()).unwrap()
}

fn read(reply: &str, grammar: &Grammar) -> Response {
    parse::parse(reply, grammar, &Context { nonce: Some("k3f9"), ..Context::default() })
}

fn request(reply: &str, grammar: &Grammar) -> Option<UnifiedPrompt> {
    repair_request(&read(reply, grammar), grammar, "Words of the pack.\n")
}

#[test]
fn nothing_is_asked_again_if_nothing_is_lacking() {
    let review = grammar("sdd", "review");
    for reply in ["<review>PASS</review>", "<review>MAJOR_ISSUES</review> `<review>PASS</review>`"] {
        assert!(request(reply, &review).is_none(), "{reply}");
    }
    let architect = grammar("foreman", "architect");
    for reply in [
        "Hello.",
        "<message>a</message>",
        // What the mode may not do, and what only copies an example, is not asked for again.
        "<message>a</message><action type=\"write_scene\"><title>x</title></action>",
        "<message>a</message><action type=\"fly\"></action>",
        "<action type=\"save_decision\"><category>world</category><key>...</key><value>...</value></action>",
    ] {
        assert!(request(reply, &architect).is_none(), "{reply}");
    }
}

#[test]
fn the_request_quotes_the_span_and_the_rule_and_asks_for_the_missing_part_only() {
    let broken = "<action type=\"save_decision\"><category>world</category><key>moons";
    let reply = format!("<message>Saved.</message>\n{broken}");
    let prompt = request(&reply, &grammar("foreman", "architect")).unwrap();
    assert_eq!(prompt.system_prompt(), "Words of the pack.");
    let item = &prompt.context()[0];
    assert_eq!(item.name(), "it is not closed, so it may be cut off");
    assert_eq!(item.content(), broken);
    assert_eq!(prompt.context().len(), 1);
    assert_eq!(
        prompt.instructions(),
        "<action type=\"save_decision\"><category>character|world|structure|constraint|preference|voice</category>\
         <key>string</key><value>string</value><source>string?</source></action>"
    );
    assert!(!prompt.to_xml().contains("Saved."), "what was understood is not sent again");
}

#[test]
fn a_missing_verdict_is_asked_for_with_its_values_and_its_run() {
    let review = grammar("sdd", "review");
    for reply in
        ["Fine.", "<review>REJECTED</review>", "<review>PASS</review> `<review>MAJOR_ISSUES</review>`"]
    {
        let prompt = request(reply, &review).unwrap();
        assert_eq!(
            prompt.instructions(),
            "<review run=\"k3f9\">PASS|NEEDS_CHANGES|MAJOR_ISSUES</review>",
            "{reply}"
        );
    }
    // A request that comes back as an answer is no verdict.
    let prompt = request("Fine.", &review).unwrap();
    let answer = read(&prompt.to_xml(), &review);
    assert_eq!(parse::verdict(&answer, &review).unwrap_err().kind(), ErrorKind::MissingReviewMarker);
}

fn merged(first: &str, answer: &str, grammar: &Grammar) -> Response {
    merge(read(first, grammar), read(answer, grammar), grammar)
}

#[test]
fn an_answer_takes_the_place_of_what_was_asked_for_and_of_nothing_else() {
    let architect = grammar("foreman", "architect");
    let action = |key: &str, value: &str| {
        format!(
            "<action type=\"save_decision\"><category>world</category><key>{key}</key><value>{value}</value></action>"
        )
    };
    let first = format!(
        "<thinking>t</thinking><message>m</message>{}<action type=\"save_decision\"><key>b",
        action("a", "1")
    );
    let answer = format!(
        "<message>Sorry!</message>{}{}<action type=\"query_notebook\"><notebook_id>n</notebook_id><query>q</query></action>",
        action("b", "2"),
        action("c", "3")
    );
    let response = merged(&first, &answer, &architect);
    let keys: Vec<_> = response.actions.iter().map(|action| action.values["key"].clone()).collect();
    assert_eq!(keys, [json!("a"), json!("b")]);
    assert_eq!((response.message.as_str(), response.thoughts.len()), ("m", 1));
    assert!(response.proposals.is_empty() && response.complete);
    let unanswered = merged(&first, "I will not.", &architect);
    assert_eq!((unanswered.actions.len(), unanswered.proposals.len()), (1, 1));
    assert!(!unanswered.complete);
}

#[test]
fn an_answered_verdict_counts_and_never_hides_a_worse_one() {
    let review = grammar("sdd", "review");
    let verdict =
        |first: &str, answer: &str| parse::verdict(&merged(first, answer, &review), &review).ok().flatten();
    assert_eq!(verdict("Fine.", "<review>PASS</review>"), Some(ReviewResult::Pass));
    let doubted = "<review>PASS</review> `<review>MAJOR_ISSUES</review>`";
    assert_eq!(verdict(doubted, "<review>NEEDS_CHANGES</review>"), Some(ReviewResult::NeedsChanges));
    assert_eq!(verdict(doubted, "<review>PASS</review>"), Some(ReviewResult::Pass));
    assert_eq!(verdict("Fine.", "It may PASS."), None);
    // A verdict that the mode does not know is not dropped in favour of a milder one.
    assert_eq!(verdict("<review>REJECTED</review>", "<review>PASS</review>"), None);
    assert_eq!(
        verdict("<review>REJECTED</review>", "<review>MAJOR_ISSUES</review>"),
        Some(ReviewResult::MajorIssues)
    );
    // One that counted stays, or gets worse.
    assert_eq!(
        verdict("<review>NEEDS_CHANGES</review>", "<review>PASS</review>"),
        Some(ReviewResult::NeedsChanges)
    );
    assert_eq!(
        verdict("<review>PASS</review>", "<review>MAJOR_ISSUES</review>"),
        Some(ReviewResult::MajorIssues)
    );
}

fn turn(replies: &[&str], repairs: &str) -> (i32, serde_json::Value) {
    let turns: Vec<_> = replies.iter().map(|reply| json!({"mode": "challenge", "reply": reply})).collect();
    play(&json!(turns), repairs)
}

fn play(turns: &serde_json::Value, repairs: &str) -> (i32, serde_json::Value) {
    let project = TestProject::new();
    project
        .write("agentd/changes/a/proposal.md", "# A\n")
        .write("agentd/changes/a/tasks.md", "- [ ] 1.1 Do it\n");
    project.write("script.yaml", json!({"format": 1, "turns": turns}).to_string());
    let args =
        ["turn", "challenge", "Look", "--change", "a", "--agent", "scripted", "--script", "script.yaml"];
    let run = project.run(&[&args[..], &["--repairs", repairs, "--json"]].concat());
    (run.code, run.last_line())
}

#[test]
fn a_turn_asks_again_as_often_as_it_may_and_counts() {
    let (code, report) = turn(&["Fine.", "<review run=\"{{NONCE}}\">PASS</review>"], "1");
    assert_eq!((code, &report["report"]["verdict"]), (0, &json!("PASS")));
    assert_eq!(report["report"]["repairs"], 1);
    assert_eq!(report["report"]["state"]["mode"], "implement");
    // Nobody is asked again unless it is wanted.
    let (code, report) = turn(&["Fine.", "<review>PASS</review>"], "0");
    assert_eq!((code, &report["report"]["repairs"]), (6, &json!(0)));
    // Two in vain are enough; a third answer is not asked for.
    let (code, report) = turn(&["Fine.", "Well.", "Hm.", "<review>PASS</review>"], "2");
    assert_eq!((code, &report["report"]["repairs"]), (6, &json!(2)));
    assert_eq!(report["report"]["state"]["progress"]["repairs"], 2);
    // An agent that fails when it is asked again does not take back what it said.
    let (code, report) = play(&json!([{"reply": "Fine."}, {"end": "crashed", "code": 3}]), "2");
    assert_eq!(
        (code, &report["report"]["repairs"], &report["report"]["response"]["message"]),
        (6, &json!(1), &json!("Fine."))
    );
    TestProject::new()
        .run(&["turn", "plan", "x", "--agent", "scripted", "--script", "s", "--repairs", "3"])
        .fails(2, &["3"]);
}

#[test]
fn a_turn_knows_the_tasks_of_its_change() {
    let project = TestProject::new();
    project
        .write("agentd/changes/a/proposal.md", "# A\n")
        .write("agentd/changes/a/tasks.md", "- [ ] 1.1 Do\n- [x] 1.2 Did\n");
    let reply = "<task_status id=\"1.1\">COMPLETED</task_status><task_status id=\"1.2\">COMPLETED</task_status>\
                 <task_status id=\"9.9\">COMPLETED</task_status>";
    project.write("script.yaml", json!({"format": 1, "turns": [{"reply": reply}]}).to_string());
    let args = [
        "turn",
        "implement",
        "Go",
        "--change",
        "a",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
        "--json",
    ];
    let report = project.run(&args).report();
    assert_eq!(report["report"]["response"]["markers"].as_array().unwrap().len(), 2);
    assert_eq!(report["report"]["proposals"][0]["what"], "task_status 9.9");
    assert_eq!(report["report"]["proposals"][0]["reason"], "there is no such task");
}
