//! Specs, proposals and tasks: parsing, each kind of error with its line, and the commands.

mod commands;
mod merge;
mod merge_properties;
mod tasks;

use std::fs;

use agentd::spec::{
    Spec, check_file, check_plan, check_proposal, check_spec, check_tasks, open_questions,
};
use proptest::prelude::*;

use crate::support::repository;

/// The three seed documents that are specs, unmodified.
pub(super) const SEEDS: [&str; 3] = [
    "unified-prompt-system",
    "system-prompt-templates",
    "agent-orchestration-update",
];

/// Returns the text of a seed document.
pub(super) fn seed(id: &str) -> String {
    fs::read_to_string(repository().join(format!("tests/data/spec/{id}.md"))).unwrap()
}

#[test]
fn seed_files_are_valid_specs() {
    for (id, scenarios) in SEEDS.into_iter().zip([3, 4, 4]) {
        let text = seed(id);
        assert_eq!(check_spec(&text), [], "{id}");
        assert_eq!(
            check_spec(&text.replace('\n', "\r\n")),
            [],
            "{id} with CRLF"
        );

        let spec = Spec::read(&text).unwrap();
        let ids: Vec<&str> = spec
            .requirements
            .iter()
            .map(|found| found.id.as_str())
            .collect();
        assert_eq!((spec.id.as_str(), spec.version), (id, 1));
        assert_eq!(ids, ["R1", "R2", "R3", "R4", "R5"]);
        assert_eq!(spec.scenarios.len(), scenarios, "{id}");
        assert_eq!(
            (spec.created_at.as_str(), spec.updated_at.as_str()),
            ("2026-01-22T00:00:00Z", "2026-01-22T00:00:00Z")
        );
    }
}

#[test]
fn requirements_and_scenarios_have_locations() {
    let spec = Spec::read(&seed("unified-prompt-system")).unwrap();
    assert_eq!(spec.title, "Unified Prompt System");

    let second = &spec.requirements[1];
    assert_eq!(
        (second.title.as_str(), second.line),
        ("XML Rendering (to_xml)", 43)
    );
    assert_eq!(
        (second.priority.as_deref(), second.status.as_deref()),
        (Some("high"), Some("draft"))
    );
    assert!(
        second
            .text
            .starts_with("Implement a to_xml() method for UnifiedPrompt that"),
        "{}",
        second.text
    );
    assert!(
        second.text.ends_with("specific task instructions."),
        "{}",
        second.text
    );

    let last = &spec.scenarios[2];
    assert_eq!(
        (last.title.as_str(), last.line),
        ("Error handling for missing templates", 95)
    );
    assert_eq!(last.requirement, None);
    assert!(
        last.text
            .starts_with("- **WHEN** The orchestrator attempts"),
        "{}",
        last.text
    );

    let templates = Spec::read(&seed("system-prompt-templates")).unwrap();
    assert_eq!(
        templates.requirements[0].title,
        "Template Organization and Naming"
    );
    assert_eq!(templates.requirements[0].priority, None);
    assert!(templates.requirements[3].text.contains("| `{{TASKS}}` |"));
}

/// The shipped skeletons must have the form that is checked.
#[test]
fn skeletons_pass_the_form_check() {
    let skeleton = |name: &str| {
        let text = fs::read_to_string(repository().join(format!("packs/sdd/skeletons/{name}.md")))
            .unwrap();
        let (_, inner) = text.split_once("markdown\n").unwrap();
        inner
            .rsplit_once("\n```")
            .unwrap()
            .0
            .trim_end_matches('`')
            .to_owned()
            + "\n"
    };

    let spec = skeleton("spec")
        .replace("<spec-id>", "login")
        .replace("<Title>", "Login")
        .replace("<YYYY-MM-DDThh:mm:ssZ>", "2026-01-22T00:00:00Z")
        .replace("<what is shown>", "A right password");
    assert_eq!(check_spec(&spec), []);
    assert_eq!(
        check_tasks(&skeleton("tasks").replace("<spec-id>", "login")),
        []
    );

    let left = check_proposal(&skeleton("proposal"));
    assert!(
        left.iter()
            .filter(|fault| fault.message.contains("is still a placeholder"))
            .count()
            >= 8,
        "{left:#?}"
    );
    assert_eq!(
        left.iter()
            .filter(|fault| !fault.message.contains("is still a placeholder"))
            .count(),
        0,
        "{left:#?}"
    );
}

/// A complete validator with the meta-schema is the oracle.
#[test]
fn schema_check_agrees_with_the_meta_schema() {
    let values = [
        r#"{"type": "object", "properties": {"a": true, "b": {"type": ["string", "null"]}}}"#,
        r#"{"type": "objekt", "properties": {}}"#,
        r#"{"type": [], "properties": {}}"#,
        r#"{"type": 1, "properties": {}}"#,
        r#"{"properties": []}"#,
        r#"{"properties": {"a": "string"}}"#,
        r#"{"properties": {"a": {"properties": {"b": {"required": [1]}}}}}"#,
        r#"{"type": "object", "required": {"a": true}}"#,
        r#"{"type": "object", "required": ["a"], "additionalProperties": false}"#,
        r#"{"type": "object", "additionalProperties": "no"}"#,
        r#"{"type": "array", "items": {"type": "integer"}, "minItems": 1, "uniqueItems": true}"#,
        r#"{"type": "array", "items": [{"type": "integer"}, {"enum": [1, "a", null]}]}"#,
        r#"{"type": "array", "items": [{"type": "int"}]}"#,
        r#"{"type": "array", "items": 5}"#,
        r#"{"type": "array", "minItems": -1}"#,
        r#"{"type": "array", "uniqueItems": "yes"}"#,
        r#"{"type": "string", "enum": "a"}"#,
        r#"{"type": "string", "pattern": 5}"#,
        r#"{"type": "number", "minimum": "0"}"#,
        r#"{"type": "number", "minimum": 0.5, "multipleOf": 2}"#,
        r#"{"anyOf": [{"type": "string"}, {"$ref": "other.json"}], "definitions": {"a": {"not": {}}}}"#,
        r#"{"anyOf": []}"#,
        r#"{"oneOf": {"type": "string"}}"#,
        r#"{"allOf": [1]}"#,
        r#"{"definitions": {"a": []}}"#,
        r#"{"$ref": 5}"#,
        r#"{"type": "object", "title": "T", "description": 5}"#,
        r#"{"type": "object", "if": {"type": "x"}, "then": {}, "anything": [1]}"#,
    ];
    let mut valid = 0;

    for value in values {
        let spec = login()
            .replace("has_json_schema: false", "has_json_schema: true")
            .replace("\n</spec>", &format!("\n```json\n{value}\n```\n</spec>"));
        let mut schema: serde_json::Value = serde_json::from_str(value).unwrap();
        schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
        let found = check_spec(&spec);
        assert_eq!(
            found.is_empty(),
            jsonschema::meta::is_valid(&schema),
            "{value}: {found:?}"
        );
        valid += usize::from(found.is_empty());
    }

    assert_eq!(valid, 6);
}

const TASKS: &str = "# Tasks\n\n- [ ] 1.1 Ask for it\n  - file: src/login.rs\n  - spec: login#R1\n";
const PROPOSAL: &str = "# Add login\n\n## Why\nAnyone gets in.\n";

/// Returns a small spec.
pub(super) fn login() -> String {
    let case = fs::read_to_string(repository().join("tests/cases/spec/spec/other_order_of_ids.md"))
        .unwrap();
    case.split_once("=====\n").unwrap().1.to_owned()
}

#[test]
fn plan_is_checked_as_a_whole() {
    let login = login();
    let whole = [
        ("proposal.md", PROPOSAL),
        ("specs/login.md", &login),
        ("tasks.md", TASKS),
    ];
    assert_eq!(check_plan(&whole), []);

    let printed = |files: &[(&str, &str)]| -> Vec<String> {
        check_plan(files)
            .iter()
            .map(|(file, fault)| format!("{file}:{}: {}", fault.line, fault.message))
            .collect()
    };
    assert_eq!(
        printed(&whole[..1]),
        ["tasks.md:1: the plan has no `tasks.md`"]
    );
    assert_eq!(
        printed(&whole[1..]),
        ["proposal.md:1: the plan has no `proposal.md`"]
    );

    // The report of a later phase is not part of a plan.
    assert_eq!(
        printed(&[&whole[..], &[("CHALLENGE.md", "")]].concat()),
        [""; 0]
    );

    let other = TASKS.replace("login#R1", "login#R3, logout#R1");
    let expected = [
        "tasks.md:3: `1.1` names `login#R3`, but the spec has no such requirement",
        "tasks.md:3: `1.1` names spec `logout`, which is not in the plan",
    ];
    assert_eq!(
        printed(&[whole[0], whole[1], ("tasks.md", &other)]),
        expected
    );

    let renamed = [whole[0], ("specs/log-in.md", &login), ("tasks.md", TASKS)];
    let expected = [
        "specs/log-in.md:2: the id is `login`, but the file is named `log-in.md`",
        "tasks.md:3: `1.1` names spec `login`, which is not in the plan",
    ];
    assert_eq!(printed(&renamed), expected);

    let twice = [whole[0], whole[1], whole[1], whole[2]];
    assert_eq!(
        printed(&twice),
        ["specs/login.md:1: duplicate spec `login`"]
    );
}

#[test]
fn file_is_checked_by_its_kind() {
    assert_eq!(check_file("agentd/specs/login.md", &login()), []);
    assert_eq!(
        check_file("agentd/specs/tasks.md", &login())[0].message,
        "the id is `login`, but the file is named `tasks.md`"
    );
    assert_eq!(check_file("elsewhere/any.md", &login()), []);
    assert_eq!(check_file("agentd/changes/x/tasks.md", TASKS), []);
    assert_eq!(check_file("proposal.md", PROPOSAL), []);
}

#[test]
fn unanswered_questions_are_open() {
    let proposal = "# A\n\n## Open questions\n\n- Which database?\n- How many tries? Three, as elsewhere.\n* **Is it\n  \
                    urgent?**\n- Who may reset it?\n  - Support may.\n1. Where is it kept?\n\n   In the ledger.\n- No question.\n\
                    ```\n- Code?\n```\n### More\n- And this?\n\n## Later\n- Not this?\n";
    assert_eq!(
        open_questions(proposal),
        ["Which database?", "**Is it urgent?**", "And this?"]
    );
    assert_eq!(open_questions("# A\n- Why?\n"), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Any document is parsed without a panic, and each error has a line in it.
    #[test]
    fn any_text_can_be_checked(pieces in proptest::collection::vec(proptest::sample::select(vec![
        "---\n", "id: a\n", "<spec>\n", "</spec>\n", "# T\n", "## S\n", "### R1 - a\n", "### R1: \n", "### Scenario: b\n",
        "- **WHEN** x\n", "- **THEN**", "```yaml\n", "```\n", "~~~", "```json\n", "{", "\"type\": 1", "}\n", "- [ ] 1.1 a\n",
        "  - depends: 1.1\n", "  - [x] 1.2", "é", "\r\n", "\n", " ", "<a b>", "## Open questions\n", "- q?\n", "\u{feff}",
    ]), 0..40)) {
        let text = pieces.concat();
        let lines = text.lines().count().max(1) + 1;
        for fault in [check_spec(&text), check_tasks(&text), check_proposal(&text)].concat() {
            prop_assert!((1..=lines).contains(&fault.line), "{fault:?} of {lines}");
        }
        let _ = (open_questions(&text), check_plan(&[("tasks.md", &text), ("specs/a.md", &text)]));
        let _ = (agentd::spec::merge(Some(&text), Some(&text), &text, ""), agentd::spec::tick(&text, &["1.1"]));
    }
}
