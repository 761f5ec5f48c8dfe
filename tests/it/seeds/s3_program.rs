//! The layers of Prompt Builder in `agentd prompt` and `agentd turn`.

use serde_json::json;

use super::s3_builder::{SEPARATOR, block, body, builder};
use crate::support::TestProject;

fn prompt_at(depth: &str, more: &[&str]) -> crate::support::Run {
    let depth = format!("depth={depth}");
    let mut args = vec![
        "prompt",
        "task-agent",
        "Fix it",
        "--pack",
        "taskqueue",
        "--set",
        &depth,
    ];
    args.extend(["--set", "max_depth=3", "--set", "max_steps=5"]);
    args.extend(more);
    TestProject::new().run(&args)
}

#[test]
fn program_chooses_the_rules_by_depth() {
    let splitting = body("controlled-splitting")
        .replace("{{current_depth}}", "1")
        .replace("{{max_depth}}", "3");
    let cases = [
        (
            "0",
            body("plan-structure-guide").replace("{{max_steps}}", "5"),
        ),
        ("1", splitting),
        ("3", body("execution-focus")),
    ];
    for (depth, rules) in cases {
        let expected = [body("task-agent"), rules, "## Task\n\nFix it".to_owned()].join(SEPARATOR);
        assert_eq!(prompt_at(depth, &[]).ok().trim_end(), expected, "{depth}");
    }
}

#[test]
fn program_prints_chat_messages_as_json() {
    let system = [body("task-agent"), body("execution-focus")].join(SEPARATOR);
    let expected =
        json!([{"role": "system", "content": system}, {"role": "user", "content": "Fix it"}]);
    assert_eq!(prompt_at("3", &["--format", "chat"]).json(), expected);
}

#[test]
fn program_prints_system_prompt_tools_and_messages_as_json() {
    let system = [body("task-agent"), body("execution-focus")].join(SEPARATOR);
    let messages = json!([{"role": "user", "content": "Fix it"}]);
    let expected = json!({"system_prompt": system, "tools": [], "messages": messages});
    assert_eq!(prompt_at("3", &["--format", "tools"]).json(), expected);
}

#[test]
fn program_prints_tools_as_json_schema() {
    let args = [
        "prompt",
        "architect",
        "Go on",
        "--pack",
        "foreman",
        "--format",
        "tools",
    ];
    let json = TestProject::new().run(&args).json();
    let tools = json["tools"].as_array().unwrap();
    assert!(!tools.is_empty());
    for tool in tools {
        assert!(tool["name"].is_string(), "{tool}");
        assert_eq!(tool["input_schema"]["type"], "object", "{tool}");
        assert!(jsonschema::meta::is_valid(&tool["input_schema"]), "{tool}");
    }

    builder().set_core_tools(tools.clone()).unwrap();
}

/// Each named block of layer 4 can be given on the command line.
#[test]
fn layer_4_program_accepts_each_named_block() {
    let names = [
        "task",
        "upstream",
        "hook",
        "system_metadata",
        "role_instructions",
    ];

    for name in names {
        let given = format!("{name}=Text of {name}.");
        let expected = [
            body("task-agent"),
            block(name, &format!("Text of {name}.")),
            body("execution-focus"),
            "## Task\n\nFix it".to_owned(),
        ];
        let prompt = prompt_at("3", &["--context", &given]).ok();
        assert_eq!(prompt.trim_end(), expected.join(SEPARATOR), "{name}");
    }
}

/// Blocks keep the order of the flags, and a name can be repeated.
#[test]
fn invariant_program_appends_blocks_in_flag_order() {
    let args = [
        "--context",
        "upstream=First.",
        "--context",
        "task=Second.",
        "--context",
        "upstream=Third.",
        "--context",
        "hook= \n",
        "--json",
    ];
    let json = prompt_at("3", &args).json();
    let expected = json!([
        {"type": "artifact", "name": "upstream", "content": "First."},
        {"type": "artifact", "name": "task", "content": "Second."},
        {"type": "artifact", "name": "upstream", "content": "Third."},
    ]);
    assert_eq!(json["parts"]["context"], expected);
}

/// The value of a secret variable does not reach a prompt through a block.
#[test]
fn layer_4_secrets_are_redacted_in_named_blocks() {
    let project = TestProject::new();
    project.write("hook.md", "From a file: sk-block-1234567890\n");
    let args = [
        "prompt",
        "task-agent",
        "Fix it",
        "--pack",
        "taskqueue",
        "--context",
        "task=As text: sk-block-1234567890",
        "--context",
        "hook=@hook.md",
    ];
    let output = project
        .command(&args)
        .env("OPENAI_API_KEY", "sk-block-1234567890")
        .output()
        .unwrap();

    let prompt = String::from_utf8(output.stdout).unwrap();
    assert!(
        prompt.contains("As text: [secret OPENAI_API_KEY]"),
        "{prompt}"
    );
    assert!(
        prompt.contains("From a file: [secret OPENAI_API_KEY]"),
        "{prompt}"
    );
    assert!(!prompt.contains("sk-block"), "{prompt}");
}

/// A turn sends the blocks that a preview shows, with any pack.
#[test]
fn layer_4_turn_of_any_pack_accepts_blocks_of_its_layers() {
    let project = TestProject::new();
    project
        .write(
            "agentd/packs/letters/pack.yaml",
            "format: 1\nname: letters\ndescription: Letters.\nstart: draft\nlayers:\n\
             - {id: rules, holds: text, text: rules.md, class: pinned, zone: stable}\n\
             - {id: given, holds: artifacts, blocks: [recipient], class: required, zone: turn}\n\
             - {id: request, holds: instructions, class: pinned, zone: turn}\n\
             modes: {draft: {permission: read-only, next: {otherwise: done}}}\n",
        )
        .write("agentd/packs/letters/rules.md", "Write letters.\n")
        .write(
            "script.yaml",
            "format: 1\nturns:\n- expect: ['<artifact name=\"recipient\">Ada</artifact>']\n  reply: Dear Ada\n",
        );
    let args = [
        "turn",
        "draft",
        "Thank her",
        "--pack",
        "letters",
        "--context",
        "recipient=Ada",
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
        "--trust",
    ];
    assert_eq!(project.run(&args).ok().trim_end(), "Dear Ada");

    let unknown = ["prompt", "draft", "Thank her", "--pack", "letters"];
    let unknown = [&unknown[..], &["--context", "task=Write"]].concat();
    project
        .run(&unknown)
        .fails(3, &["NameInvalid", "`task`", "known blocks: recipient"]);
}

#[test]
fn program_shows_the_project_between_identity_and_rules() {
    let project = TestProject::new();
    project
        .write("CLAUDE.md", "For Claude.\n")
        .write("profile.md", "A notes app.\n");
    let args = [
        "prompt",
        "task-agent",
        "Fix it",
        "--pack",
        "taskqueue",
        "--set",
        "depth=3",
        "--set",
        "max_depth=3",
    ];
    let files = "### profile.md\n\nA notes app.\n\n### CLAUDE.md\n\nFor Claude.";
    let expected = [
        &body("task-agent"),
        files,
        &body("execution-focus"),
        "## Task\n\nFix it",
    ];
    assert_eq!(project.run(&args).ok().trim_end(), expected.join(SEPARATOR));
}
