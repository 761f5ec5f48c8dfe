//! Requests for missing parts of a reply, and merging of the answer.

use agentd::models::{Mode, Response};
use agentd::pack::Pack;
use agentd::parse::{self, Grammar, Repair, RepairKind, ReplyContext, find_repair, merge_answer};
use agentd::{ErrorKind, ReviewResult, SearchPath, UnifiedPrompt};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::support::TestProject;

const RUN: &str = "k3f9";

fn grammar(pack: &str, mode: &str) -> Grammar {
    Pack::load(pack, &SearchPath::default())
        .unwrap()
        .grammar(&Mode::new(mode).unwrap())
        .unwrap()
}

fn read(reply: &str, grammar: &Grammar) -> Response {
    parse::parse(
        reply,
        grammar,
        &ReplyContext {
            nonce: Some(RUN),
            ..ReplyContext::default()
        },
    )
}

fn repair(reply: &str, grammar: &Grammar) -> Option<Repair> {
    find_repair(&read(reply, grammar), grammar)
}

fn tag(verdict: &str) -> String {
    format!("<review run=\"{RUN}\">{verdict}</review>")
}

#[test]
fn complete_reply_needs_no_repair() {
    let review = grammar("sdd", "review");
    for reply in [
        tag("PASS"),
        format!("{} `{}`", tag("MAJOR_ISSUES"), tag("PASS")),
    ] {
        assert_eq!(repair(&reply, &review), None, "{reply}");
    }

    let architect = grammar("foreman", "architect");
    for reply in [
        "Hello.",
        "<message>a</message>",
        // Actions that the mode forbids, and copies of an example, are not requested again.
        "<message>a</message><action type=\"write_scene\"><title>x</title></action>",
        "<message>a</message><action type=\"fly\"></action>",
        "<action type=\"save_decision\"><category>world</category><key>...</key><value>...</value></action>",
    ] {
        assert_eq!(repair(reply, &architect), None, "{reply}");
    }
}

#[test]
fn repair_names_the_line_and_the_rule() {
    let review = grammar("sdd", "review");
    let plain = "<review>PASS</review>";

    for (reply, complaint) in [
        (
            format!("Fine.\n\n{}\n\nOne more thing.", tag("PASS")),
            "line 3: PASS is valid only as the last line",
        ),
        (
            format!("So {}", tag("PASS")),
            "line 1: the last line must contain only the verdict",
        ),
        (
            format!("Fine.\n{plain}"),
            "line 2: PASS lacks the `run` attribute of this turn",
        ),
        (
            format!("# NEEDS_CHANGES\n\n{}", tag("PASS")),
            "line 1: this line says NEEDS_CHANGES",
        ),
        (
            format!("Fine.\n{}", tag("PASS, mostly")),
            "line 2: the <review> tag does not contain one of PASS",
        ),
        (
            "Fine.\n<review>NEEDS_CHANGES</review>".to_owned(),
            "line 2: NEEDS_CHANGES lacks the `run` attribute of this turn",
        ),
    ] {
        let repair = repair(&reply, &review).unwrap();
        assert_eq!(repair.kind, RepairKind::Verdict, "{reply}");
        assert!(
            repair.complaints[0].starts_with(complaint),
            "{:?}",
            repair.complaints
        );
        assert_eq!(repair.forms, [tag("PASS|NEEDS_CHANGES|MAJOR_ISSUES")]);
    }
}

#[test]
fn verdict_repair_includes_the_reply_but_not_the_prompt() {
    let review = grammar("sdd", "review");
    let reply = "Line 12 leaks the key.\n\nI would not merge it.\n\n<review>NEEDS_CHANGES</review>"
        .to_owned();
    let original = UnifiedPrompt::new("Review it.")
        .unwrap()
        .with_system("Be strict.")
        .with_file("a.rs", "fn a() {}");

    let prompt = repair(&reply, &review)
        .unwrap()
        .prompt(
            "Words of the pack.\n",
            &original,
            std::slice::from_ref(&reply),
        )
        .unwrap();
    assert_eq!(prompt.system_prompt(), "Words of the pack.");
    assert_eq!(prompt.context().len(), 1);
    assert_eq!(
        (prompt.context()[0].name(), prompt.context()[0].content()),
        ("your reply", reply.as_str())
    );

    let form = tag("PASS|NEEDS_CHANGES|MAJOR_ISSUES");
    assert_eq!(
        prompt.instructions(),
        format!("line 5: NEEDS_CHANGES lacks the `run` attribute of this turn\n\n{form}")
    );

    // A repair prompt that comes back as its own answer is not a verdict.
    let answer = read(&prompt.to_xml(), &review);
    assert_eq!(
        parse::verdict(&answer, &review).unwrap_err().kind(),
        ErrorKind::MissingReviewMarker
    );
}

#[test]
fn parts_repair_includes_the_prompt_and_the_reply() {
    let broken = "<action type=\"save_decision\"><category>world</category><key>moons";
    let reply = format!("<message>Saved.</message>\n{broken}");

    let repair = repair(&reply, &grammar("foreman", "architect")).unwrap();
    assert_eq!(repair.kind, RepairKind::Parts);
    assert_eq!(
        repair.complaints,
        ["line 2: action save_decision: the closing tag is missing, so the text may be incomplete"]
    );

    let original = UnifiedPrompt::new("Save it.")
        .unwrap()
        .with_system("Role.")
        .with_file("a.md", "A");
    let replies = [reply.clone(), "Sorry.".to_owned()];

    let prompt = repair
        .prompt("Words of the pack.", &original, &replies)
        .unwrap();
    assert_eq!(prompt.system_prompt(), "Role.\n\n---\n\nWords of the pack.");

    let items: Vec<(&str, &str)> = prompt
        .context()
        .iter()
        .map(|item| (item.name(), item.content()))
        .collect();
    assert_eq!(
        items,
        [
            ("a.md", "A"),
            ("your reply", reply.as_str()),
            ("your reply 2", "Sorry.")
        ]
    );
    assert!(
        prompt
            .instructions()
            .starts_with("Save it.\n\nline 2: action save_decision: ")
    );
    assert!(prompt.instructions().ends_with(
        "<action type=\"save_decision\"><category>character|world|structure|constraint|preference|voice</category>\
         <key>string</key><value>string</value><source>string?</source></action>"
    ));
}

#[test]
fn reply_without_a_judgement_is_requested_again() {
    let review = grammar("sdd", "review");
    for reply in ["", "I will look at it now.", "<thinking>Hm.</thinking>"] {
        assert_eq!(
            repair(reply, &review).unwrap().kind,
            RepairKind::Whole,
            "{reply}"
        );
    }

    let answer = format!(
        "<content_update target=\"REVIEW.md\">\nFine.\n</content_update>\n{}",
        tag("PASS")
    );
    let response = merged("I will look at it now.", &answer, &review);
    assert_eq!(
        (response.updates.len(), verdict_of(&response, &review)),
        (1, Some(ReviewResult::Pass))
    );
}

fn merged(first: &str, answer: &str, grammar: &Grammar) -> Response {
    merge_answer(read(first, grammar), read(answer, grammar), grammar)
}

fn verdict_of(response: &Response, grammar: &Grammar) -> Option<ReviewResult> {
    parse::verdict(response, grammar).ok().flatten()
}

#[test]
fn answer_replaces_only_the_requested_parts() {
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
        "<message>Sorry!</message>{}{}{}<action type=\"query_notebook\"><notebook_id>n</notebook_id><query>q</query></action>",
        action("a", "1"),
        action("b", "2"),
        action("c", "3")
    );
    let response = merged(&first, &answer, &architect);

    let keys: Vec<_> = response
        .actions
        .iter()
        .map(|action| action.values["key"].clone())
        .collect();
    assert_eq!(
        keys,
        [json!("a"), json!("b")],
        "a repeated action does not replace another"
    );
    assert_eq!(
        (response.message.as_str(), response.thoughts.len()),
        ("m", 1)
    );
    assert!(response.proposals.is_empty() && response.complete);

    let unanswered = merged(&first, "I will not.", &architect);
    assert_eq!(
        (unanswered.actions.len(), unanswered.proposals.len()),
        (1, 1)
    );
    assert!(!unanswered.complete);
}

#[test]
fn repaired_verdict_never_hides_a_more_severe_one() {
    let review = grammar("sdd", "review");
    let verdict = |first: &str, answer: &str| verdict_of(&merged(first, answer, &review), &review);
    let doubted = "Fine, I think.\n<review>PASS</review>";
    assert_eq!(verdict(doubted, &tag("PASS")), Some(ReviewResult::Pass));
    assert_eq!(
        verdict(doubted, &tag("NEEDS_CHANGES")),
        Some(ReviewResult::NeedsChanges)
    );
    assert_eq!(verdict(doubted, "It may PASS."), None);

    // A more severe verdict without a nonce is confirmed or exceeded, or the turn stays unclear.
    let stated = "<review>NEEDS_CHANGES</review>";
    assert_eq!(verdict(stated, &tag("PASS")), None);
    assert_eq!(
        verdict(stated, &tag("NEEDS_CHANGES")),
        Some(ReviewResult::NeedsChanges)
    );
    assert_eq!(
        verdict(stated, &tag("MAJOR_ISSUES")),
        Some(ReviewResult::MajorIssues)
    );

    // The same for a verdict that the mode does not have: REJECTED stops, like MAJOR_ISSUES.
    let foreign = tag("REJECTED");
    assert_eq!(verdict(&foreign, &tag("PASS")), None);
    assert_eq!(verdict(&foreign, &tag("NEEDS_CHANGES")), None);
    assert_eq!(
        verdict(&foreign, &tag("MAJOR_ISSUES")),
        Some(ReviewResult::MajorIssues)
    );
    assert_eq!(
        verdict(&tag("NEEDS_REVISION"), &tag("NEEDS_CHANGES")),
        Some(ReviewResult::NeedsChanges)
    );

    // The same for a verdict in code, and for one stated by a heading or a label.
    assert_eq!(
        verdict("`<review>NEEDS_CHANGES</review>`", &tag("PASS")),
        None
    );
    assert_eq!(
        verdict(
            "**Verdict:** MAJOR_ISSUES\n\nThe key is logged.",
            &tag("PASS")
        ),
        None
    );
    assert_eq!(
        verdict(&format!("# NEEDS_CHANGES\n\n{}", tag("PASS")), &tag("PASS")),
        None
    );

    // A mode may have no verdict of that severity.
    let plan = grammar("sdd", "plan");
    let merged = merged(&tag("REJECTED"), &tag("NEEDS_REVISION"), &plan);
    assert_eq!(
        verdict_of(&merged, &plan),
        Some(ReviewResult::NeedsRevision)
    );

    // A verdict that counted stays or becomes more severe.
    assert_eq!(
        verdict(&tag("NEEDS_CHANGES"), &tag("PASS")),
        Some(ReviewResult::NeedsChanges)
    );
    assert_eq!(
        verdict(&tag("PASS"), &tag("MAJOR_ISSUES")),
        Some(ReviewResult::MajorIssues)
    );
    assert_eq!(verdict(&tag("PASS"), "<review>MAJOR_ISSUES</review>"), None);
}

#[test]
fn malformed_action_makes_pass_unclear() {
    let review = grammar("light", "review");
    let broken = format!(
        "<action type=\"finding\"><file>a.rs</file></action>\n\n{}",
        tag("PASS")
    );
    assert!(parse::verdict(&read(&broken, &review), &review).is_err());

    let quoted = format!(
        "`<action type=\"finding\"><file>a.rs</file></action>`\n\n{}",
        tag("PASS")
    );
    assert!(parse::verdict(&read(&quoted, &review), &review).is_err());

    // A verdict in code is requested in its form, and a bare PASS does not replace it.
    let repair = repair(&quoted, &review).unwrap();
    assert_eq!(repair.kind, RepairKind::Parts);
    assert!(
        repair.forms[0].starts_with("<action type=\"finding\">"),
        "{:?}",
        repair.forms
    );
    assert_eq!(
        verdict_of(&merged(&quoted, &tag("PASS"), &review), &review),
        None
    );

    // An unknown verdict is shown with the valid forms. The agent may repeat its verdict.
    let unknown = format!(
        "<action type=\"comment\"><text>Nice.</text></action>\n\n{}",
        tag("PASS")
    );
    assert!(parse::verdict(&read(&unknown, &review), &review).is_err());
    assert_eq!(
        verdict_of(&merged(&unknown, &tag("PASS"), &review), &review),
        Some(ReviewResult::Pass)
    );

    let severe = broken.replace("PASS", "NEEDS_CHANGES");
    assert_eq!(
        verdict_of(&read(&severe, &review), &review),
        Some(ReviewResult::NeedsChanges)
    );

    let whole = "<action type=\"finding\"><file>a.rs</file><severity>minor</severity><problem>p</problem></action>";
    let response = merged(&broken, whole, &review);
    assert_eq!(
        (response.actions.len(), verdict_of(&response, &review)),
        (1, Some(ReviewResult::Pass))
    );
    assert_eq!(
        verdict_of(&merged(&broken, &tag("PASS"), &review), &review),
        None,
        "the finding is still unread"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any two merged replies, no answer moves the result towards PASS.
    #[test]
    fn repair_never_moves_a_result_towards_pass(
        first in proptest::collection::vec(select(PIECES.to_vec()), 0..6),
        answer in proptest::collection::vec(select(PIECES.to_vec()), 0..6),
    ) {
        let review = grammar("light", "review");
        let (first, answer) = (read(&first.concat(), &review), read(&answer.concat(), &review));
        let merged = merge_answer(first.clone(), answer.clone(), &review);
        let before = parse::verdict(&first, &review);

        let after = verdict_of(&merged, &review);
        if let Ok(Some(before)) = before {
            prop_assert!(after.is_none_or(|after| after >= before), "{before} became {after:?}");
        }

        if after == Some(ReviewResult::Pass) {
            let stated = first.verdict_doubts.iter().chain(&answer.verdict_doubts).any(|doubt| doubt.stated.is_some());
            let passes = |response: &Response| {
                response.markers.iter().any(|marker| {
                    matches!(marker, agentd::models::Marker::Review { verdict } if *verdict == ReviewResult::Pass)
                })
            };
            prop_assert!(passes(&first) || passes(&answer));
            let was_whole = find_repair(&first, &review).is_some_and(|repair| repair.kind == RepairKind::Whole);
            prop_assert!(was_whole || !stated, "a more severe verdict was dropped");
        }
    }
}

/// Fragments of replies, with verdicts of this turn, of another turn and without a nonce.
const PIECES: [&str; 14] = [
    "<review run=\"k3f9\">PASS</review>\n",
    "<review run=\"k3f9\">NEEDS_CHANGES</review>\n",
    "<review run=\"k3f9\">MAJOR_ISSUES</review>\n",
    "<review run=\"other\">NEEDS_CHANGES</review>\n",
    "<review>PASS</review>\n",
    "<review>NEEDS_CHANGES</review>\n",
    "`<review run=\"k3f9\">NEEDS_CHANGES</review>`\n",
    "<review run=\"k3f9\">REJECTED</review>\n",
    "# NEEDS_CHANGES\n",
    "All good.\n",
    "```\n",
    "<thinking>",
    "</thinking>",
    "<action type=\"finding\"><file>a.rs</file><severity>minor</severity><problem>p</problem></action>\n",
];

fn turn(replies: &[&str], repairs: &str) -> (i32, serde_json::Value) {
    let turns: Vec<_> = replies
        .iter()
        .map(|reply| json!({"mode": "challenge", "reply": reply}))
        .collect();
    play(&json!(turns), repairs)
}

fn play(turns: &serde_json::Value, repairs: &str) -> (i32, serde_json::Value) {
    let project = TestProject::new();
    project
        .write("agentd/changes/a/proposal.md", "# A\n")
        .write("agentd/changes/a/tasks.md", "- [ ] 1.1 Do it\n");
    project.write(
        "script.yaml",
        json!({"format": 1, "turns": turns}).to_string(),
    );
    let args = [
        "turn",
        "challenge",
        "Look",
        "--change",
        "a",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
    ];
    let run = project.run(&[&args[..], &["--repairs", repairs, "--json"]].concat());
    (run.code, run.last_line())
}

#[test]
fn turn_repairs_up_to_the_limit_and_counts_the_calls() {
    let (code, report) = turn(&["Fine.", "<review run=\"{{NONCE}}\">PASS</review>"], "1");
    assert_eq!((code, &report["report"]["verdict"]), (0, &json!("PASS")));
    assert_eq!(report["report"]["repairs"], 1);
    assert_eq!(report["report"]["state"]["mode"], "implement");

    // No repair without the option.
    let (code, report) = turn(&["Fine.", "<review>PASS</review>"], "0");
    assert_eq!((code, &report["report"]["repairs"]), (6, &json!(0)));

    // Two failed attempts are enough: there is no third request.
    let (code, report) = turn(&["Fine.", "Well.", "Hm.", "<review>PASS</review>"], "2");
    assert_eq!((code, &report["report"]["repairs"]), (6, &json!(2)));
    assert_eq!(report["report"]["state"]["progress"]["repairs"], 2);

    // A repair call that fails does not discard the original reply.
    let (code, report) = play(
        &json!([{"reply": "Fine."}, {"end": "crashed", "code": 3}]),
        "2",
    );
    assert_eq!(
        (
            code,
            &report["report"]["repairs"],
            &report["report"]["response"]["message"]
        ),
        (6, &json!(1), &json!("Fine."))
    );
    TestProject::new()
        .run(&[
            "turn",
            "plan",
            "x",
            "--agent",
            "scripted",
            "--script",
            "s",
            "--repairs",
            "3",
        ])
        .fails(2, &["3"]);
}

#[test]
fn turn_checks_the_tasks_of_its_change() {
    let project = TestProject::new();
    project
        .write("agentd/changes/a/proposal.md", "# A\n")
        .write("agentd/changes/a/tasks.md", "- [ ] 1.1 Do\n- [x] 1.2 Did\n");
    let reply = "<task_status id=\"1.1\">COMPLETED</task_status><task_status id=\"1.2\">COMPLETED</task_status>\
                 <task_status id=\"9.9\">COMPLETED</task_status>";
    project.write(
        "script.yaml",
        json!({"format": 1, "turns": [{"reply": reply}]}).to_string(),
    );
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
    assert_eq!(
        report["report"]["response"]["markers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(report["report"]["proposals"][0]["what"], "task_status 9.9");
    assert_eq!(report["report"]["proposals"][0]["reason"], "unknown task");
}
