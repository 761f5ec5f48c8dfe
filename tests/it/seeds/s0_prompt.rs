//! Every requirement and scenario of the Unified Prompt System, under its original title.

use agentd::models::prompt::{ContextItem, ContextKind, UnifiedPrompt};
use agentd::{ErrorKind, SearchPath, Templates};
use roxmltree::Document;
use serde_json::{Value, json};

use crate::support::{TestProject, repository, write};

/// The data model of the specification.
fn specified_schema() -> Value {
    json!({
        "type": "object",
        "required": ["instructions"],
        "properties": {
            "system_prompt": {"type": "string"},
            "context": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string", "enum": ["file", "artifact", "thought"]},
                        "name": {"type": "string"},
                        "content": {"type": "string"}
                    }
                }
            },
            "instructions": {"type": "string"}
        }
    })
}

/// Removes keywords that do not affect the validity of documents.
fn without_annotations(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let is_property_list = |key: &str| key == "properties";
            let keep = |key: &str| !matches!(key, "$schema" | "title" | "description" | "default");
            let kept = map.iter().filter(|(key, _)| keep(key)).map(|(key, value)| {
                let value = match value {
                    Value::Object(properties) if is_property_list(key) => properties
                        .iter()
                        .map(|(name, value)| (name.clone(), without_annotations(value)))
                        .collect(),
                    _ => without_annotations(value),
                };
                (key.clone(), value)
            });
            Value::Object(kept.collect())
        }
        _ => schema.clone(),
    }
}

#[test]
fn r1_unified_prompt_data_model() {
    let built = UnifiedPrompt::new("Add login")
        .unwrap()
        .with_system("You plan.")
        .with_thought("first", "a")
        .with_file("src/main.rs", "b")
        .with_artifact("proposal.md", "c");
    let expected = [
        ContextItem::new(ContextKind::Thought, "first", "a"),
        ContextItem::new(ContextKind::File, "src/main.rs", "b"),
        ContextItem::new(ContextKind::Artifact, "proposal.md", "c"),
    ];
    assert_eq!(built.context(), expected);

    let json = json!({
        "system_prompt": "You plan.",
        "context": [
            {"type": "thought", "name": "first", "content": "a"},
            {"type": "file", "name": "src/main.rs", "content": "b"},
            {"type": "artifact", "name": "proposal.md", "content": "c"},
        ],
        "instructions": "Add login",
    });
    assert_eq!(serde_json::to_value(&built).unwrap(), json);
    assert_eq!(
        serde_json::from_value::<UnifiedPrompt>(json).unwrap(),
        built
    );
}

#[test]
fn r1_instructions_are_required() {
    for text in ["", " ", "\n\t"] {
        assert_eq!(
            UnifiedPrompt::new(text).unwrap_err().kind(),
            ErrorKind::PromptInvalid
        );
        assert!(serde_json::from_value::<UnifiedPrompt>(json!({"instructions": text})).is_err());
    }
    assert!(serde_json::from_value::<UnifiedPrompt>(json!({"system_prompt": "x"})).is_err());
}

/// The schema adds one rule to the specified one: blank instructions are invalid.
#[test]
fn r1_schema_matches_the_spec_and_refuses_blank_instructions() {
    let ours = serde_json::to_value(UnifiedPrompt::json_schema()).unwrap();
    let mut ours = without_annotations(&ours);

    let added = ours["properties"]["instructions"]
        .as_object_mut()
        .unwrap()
        .remove("pattern");
    assert_eq!(added, Some(json!("\\S")));
    assert_eq!(ours, specified_schema());
}

#[test]
fn r1_schema_spec_and_type_agree_on_documents() {
    let ours =
        jsonschema::validator_for(&serde_json::to_value(UnifiedPrompt::json_schema()).unwrap())
            .unwrap();
    let specified = jsonschema::validator_for(&specified_schema()).unwrap();
    let documents = [
        (json!({"instructions": "x"}), true),
        (
            json!({"instructions": "x", "system_prompt": "", "context": []}),
            true,
        ),
        (
            json!({"instructions": "x", "context": [{"type": "file", "name": "a", "content": "b"}]}),
            true,
        ),
        (json!({"instructions": "x", "context": [{}]}), true),
        (json!({"instructions": "x", "extra": 1}), true),
        (json!({}), false),
        (json!({"system_prompt": "x"}), false),
        (json!({"instructions": 1}), false),
        (json!({"instructions": null}), false),
        (json!({"instructions": "x", "context": {}}), false),
        (
            json!({"instructions": "x", "context": [{"type": "image"}]}),
            false,
        ),
        (
            json!({"instructions": "x", "context": [{"type": "File"}]}),
            false,
        ),
        (json!({"instructions": "x", "context": ["a"]}), false),
        (json!([]), false),
    ];

    for (document, valid) in documents {
        assert_eq!(ours.is_valid(&document), valid, "our schema: {document}");
        assert_eq!(
            specified.is_valid(&document),
            valid,
            "the specified schema: {document}"
        );
        assert_eq!(
            serde_json::from_value::<UnifiedPrompt>(document.clone()).is_ok(),
            valid,
            "the type: {document}"
        );
    }
}

#[test]
fn r1_committed_schema_matches_the_command() {
    let committed =
        std::fs::read_to_string(repository().join("schemas/prompt.schema.json")).unwrap();
    assert_eq!(
        TestProject::new().run(&["schema", "prompt"]).ok(),
        committed
    );
    let committed: Value = serde_json::from_str(&committed).unwrap();
    assert_eq!(
        committed,
        serde_json::to_value(UnifiedPrompt::json_schema()).unwrap()
    );
}

#[test]
fn r2_xml_rendering_to_xml() {
    let xml = UnifiedPrompt::new("Add login")
        .unwrap()
        .with_system("You plan.")
        .to_xml();
    let document = Document::parse(&xml).unwrap();
    let names: Vec<_> = document
        .root_element()
        .children()
        .filter(|node| node.is_element())
        .collect();
    let names: Vec<_> = names.iter().map(|node| node.tag_name().name()).collect();
    assert_eq!(names, ["system_prompt", "instructions"]);
    assert!(xml.contains("<instructions>Add login</instructions>"));
}

#[test]
fn r3_phase_specific_template_system() {
    let project = TestProject::without_nonce();
    project
        .write("templates/system/BASE-plan.md", "base")
        .write("templates/system/CODEX-plan.md", "codex");
    for (agent, text) in [("codex", "codex"), ("claude", "base")] {
        let xml = project.run(&["prompt", "plan", "x", "--agent", agent]).ok();
        assert!(
            xml.contains(&format!("<system_prompt>{text}</system_prompt>")),
            "{xml}"
        );
    }
}

/// A turn sends the document of one `UnifiedPrompt` and nothing else.
#[test]
fn r4_orchestrator_integration() {
    let project = TestProject::new();
    let shown = project
        .run(&["prompt", "plan", "Add login", "--agent", "scripted"])
        .ok();
    let prompt = UnifiedPrompt::from_xml(&shown).unwrap();
    assert_eq!(prompt.instructions(), "Add login");

    // The nonce differs per turn.
    let expected: Vec<&str> = shown.split("run=\"preview\"").collect();

    // Both verdicts of the mode contain it.
    assert_eq!(expected.len(), 3, "{shown}");

    let fresh = shown.len() + 2 * "k3f9x2ab".len() - 2 * "preview".len();
    let expected = serde_json::to_string(&expected).unwrap();

    // The script is outside the project, where it would be part of the tree in the prompt.
    let script = project.home().join("script.yaml");
    write(
        &script,
        format!("format: 1\nturns:\n  - expect: {expected}\n    reply: fine\n"),
    );
    let script = script.to_str().unwrap();

    let turn = project.run(&[
        "turn",
        "plan",
        "Add login",
        "--agent",
        "scripted",
        "--script",
        script,
        "--json",
    ]);
    assert_eq!(turn.report()["report"]["prompt_bytes"], fresh);
}

#[test]
fn r5_context_artifact_support() {
    let project = TestProject::new();
    project.write("notes/proposal.md", "# Login\n");
    let json = project
        .run(&[
            "prompt",
            "plan",
            "x",
            "--artifact",
            "notes/proposal.md",
            "--json",
        ])
        .json();
    let item = json!({"type": "artifact", "name": "notes/proposal.md", "content": "# Login\n"});
    assert_eq!(json["parts"]["context"], json!([item]));

    let xml = project
        .run(&["prompt", "plan", "x", "--artifact", "notes/proposal.md"])
        .ok();
    assert!(xml.contains("<artifact name=\"notes/proposal.md\"># Login\n</artifact>"));
}

#[test]
fn scenario_constructing_a_basic_plan_prompt() {
    let project = TestProject::new();
    let xml = project.run(&["prompt", "plan", "Add login"]).ok();
    assert!(xml.contains("<instructions>Add login</instructions>"));

    let document = Document::parse(&xml).unwrap();
    let system = document
        .descendants()
        .find(|node| node.has_tag_name("system_prompt"))
        .unwrap()
        .text()
        .unwrap();
    let template =
        std::fs::read_to_string(repository().join("templates/system/BASE-plan.md")).unwrap();

    let opening = template
        .split("\n---\n")
        .nth(1)
        .unwrap()
        .split("{{")
        .next()
        .unwrap();
    assert!(system.starts_with(opening), "{system}");
}

#[test]
fn scenario_rendering_context_files() {
    let project = TestProject::new();
    project.write("src/main.rs", "fn main() { assert!(1 < 2 && true); }\n");
    let xml = project
        .run(&["prompt", "plan", "x", "--file", "src/main.rs"])
        .ok();
    let document = Document::parse(&xml).unwrap();
    let file = document
        .descendants()
        .find(|node| node.has_tag_name("file"))
        .unwrap();
    assert_eq!(file.parent().unwrap().tag_name().name(), "context");
    assert_eq!(file.attribute("path"), Some("src/main.rs"));
    assert_eq!(file.text(), Some("fn main() { assert!(1 < 2 && true); }\n"));
    assert!(
        xml.contains("assert!(1 < 2 && true)"),
        "code stays readable"
    );
}

#[test]
fn scenario_error_handling_for_missing_templates() {
    let templates = Templates::new(SearchPath::default());
    let (agent, mode) = (
        agentd::models::AgentName::new("gemini"),
        agentd::models::Mode::new("invalid-phase"),
    );
    let error = templates
        .load_system_template(&agent.unwrap(), &mode.unwrap())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TemplateNotFound);
    TestProject::new()
        .run(&["prompt", "invalid-phase", "x"])
        .fails(4, &["TemplateNotFound", "BASE-invalid-phase.md", "hint: "]);
}
