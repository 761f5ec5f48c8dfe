//! Templates of Prompt Builder: loaded, rendered, cached and reloaded.

use agentd::compose::Variables;
use agentd::{ErrorKind, Pack, SearchPath};
use serde_json::json;

use crate::seeds::s3_builder::{
    OWN_AGENT, body, builder, builder_in, depth, object, system, tool, variables,
};
use crate::support::TestProject;

#[test]
fn template_loading_parses_the_front_matter() {
    let pack = Pack::load("taskqueue", &SearchPath::default()).unwrap();
    let expected: [(&str, &str, &[&str]); 6] = [
        ("supervisor", "identity", &[]),
        ("task-agent", "identity", &[]),
        ("hook-executor", "identity", &[]),
        ("plan-structure-guide", "execution_rules", &["max_steps"]),
        (
            "controlled-splitting",
            "execution_rules",
            &["current_depth", "max_depth"],
        ),
        ("execution-focus", "execution_rules", &[]),
    ];

    for (name, category, variables) in expected {
        let text = &pack.texts[&format!("{name}.md")];
        assert_eq!(text.front_matter.name.as_deref(), Some(name));
        assert_eq!(
            text.front_matter.category.as_deref(),
            Some(category),
            "{name}"
        );
        let names: Vec<&str> = text
            .variables
            .iter()
            .map(|variable| variable.name.as_str())
            .collect();
        assert_eq!(names, variables, "{name}");
    }
}

#[test]
fn get_template_is_the_raw_body_without_the_front_matter() {
    let builder = builder();
    let text = builder.get_template("plan-structure-guide").unwrap();
    assert!(text.contains("a plan of at most {{max_steps}} steps"));
    assert_eq!(text.trim(), body("plan-structure-guide"));
}

#[test]
fn get_template_of_a_missing_name_is_none() {
    for name in [
        "nobody",
        "",
        "pack",
        "pack.yaml",
        "../sdd/pack",
        "/etc/passwd",
        "task agent",
    ] {
        assert_eq!(builder().get_template(name), None, "{name}");
    }
}

/// Templates are the files of a folder, without an index.
#[test]
fn get_template_finds_every_file_of_the_folder() {
    let project = TestProject::new();
    project.write(
        "agentd/packs/taskqueue/notes.md",
        "Notes for {{max_steps}} steps.\n",
    );
    let builder = builder_in(&project);
    assert_eq!(
        builder.get_template("notes").map(str::trim),
        Some("Notes for {{max_steps}} steps.")
    );
}

#[test]
fn render_template_fills_the_variables() {
    let values = variables(&[("current_depth", "1"), ("max_depth", "4"), ("unused", "x")]);
    let text = builder()
        .render_template("controlled-splitting", &values)
        .unwrap();
    let expected = body("controlled-splitting")
        .replace("{{current_depth}}", "1")
        .replace("{{max_depth}}", "4");
    assert_eq!(text.trim(), expected);
}

#[test]
fn render_template_with_a_missing_name_lists_templates() {
    let error = builder()
        .render_template("nobody", &Variables::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TemplateNotFound);
    assert!(error.hint().unwrap().contains("task-agent"), "{error}");
}

#[test]
fn strict_missing_variable_is_an_error() {
    let builder = builder().strict(true);
    let error = builder
        .render_template("controlled-splitting", &variables(&[("max_depth", "3")]))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingVariable);
    assert!(error.to_string().contains("current_depth"), "{error}");
    assert!(
        builder
            .render_template("execution-focus", &Variables::new())
            .is_ok()
    );
}

#[test]
fn strict_applies_to_identity_and_task_depth() {
    let project = TestProject::new();
    project.write(OWN_AGENT, "At most {{max_steps}} steps.\n");
    let mut builder = builder_in(&project).strict(true);
    let error = builder
        .set_identity("task-agent", Variables::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingVariable);
    let data = object(json!({"depth": 0, "max_depth": 3}));
    let error = builder
        .add_context_section("task_depth", &data)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingVariable);
    assert_eq!(system(&builder), "");
}

#[test]
fn missing_variable_is_empty_if_not_strict() {
    let text = builder()
        .render_template("plan-structure-guide", &Variables::new())
        .unwrap();
    assert_eq!(
        text.trim(),
        body("plan-structure-guide").replace("{{max_steps}}", "")
    );
}

/// The rules for a root task use a text in place of a missing number.
#[test]
fn task_depth_without_max_steps_leaves_no_gap() {
    let text = depth(json!({"depth": 0})).unwrap();
    assert!(text.contains("a plan of at most a few steps."), "{text}");
    let text = depth(json!({"depth": 0, "max_steps": 7})).unwrap();
    assert!(text.contains("a plan of at most 7 steps."), "{text}");
}

#[test]
fn templates_are_cached_until_reload() {
    let project = TestProject::new();
    project.write(OWN_AGENT, "One.\n");
    let mut builder = builder_in(&project);

    project.write(OWN_AGENT, "Two.\n");
    assert_eq!(
        builder.get_template("task-agent").map(str::trim),
        Some("One.")
    );

    builder
        .set_identity("task-agent", Variables::new())
        .unwrap();
    assert_eq!(system(&builder), "One.");

    builder.reload().unwrap();
    assert_eq!(
        builder.get_template("task-agent").map(str::trim),
        Some("Two.")
    );

    builder
        .set_identity("task-agent", Variables::new())
        .unwrap();
    assert_eq!(system(&builder), "Two.");
}

#[test]
fn templates_are_cached_per_builder() {
    let project = TestProject::new();
    project.write(OWN_AGENT, "One.\n");
    let first = builder_in(&project);
    project.write(OWN_AGENT, "Two.\n");
    let second = builder_in(&project);
    let texts = [&first, &second].map(|builder| builder.get_template("task-agent").map(str::trim));
    assert_eq!(texts, [Some("One."), Some("Two.")]);
}

#[test]
fn reload_keeps_what_was_added() {
    let mut builder = builder();
    builder
        .set_identity("supervisor", Variables::new())
        .unwrap()
        .add_context("task", "Fix it");
    builder
        .set_tools(vec![tool("t", json!({"type": "object"}))])
        .unwrap();
    let before = builder.build().unwrap();
    assert_eq!(builder.reload().unwrap().build().unwrap(), before);
}

#[test]
fn reload_without_the_file_restores_the_shipped_template() {
    let project = TestProject::new();
    project.write(OWN_AGENT, "One.\n");
    let mut builder = builder_in(&project);
    std::fs::remove_file(project.root().join(OWN_AGENT)).unwrap();
    builder.reload().unwrap();
    assert_eq!(
        builder.get_template("task-agent").map(str::trim),
        Some(body("task-agent").as_str())
    );
}

/// `src/prompts/*.md`: no `pack.yaml`, no folders.
#[test]
fn plain_folder_of_prompts_is_enough() {
    let project = TestProject::new();
    project
        .write(
            "prompts/chat_agent_system.md",
            "---\nname: chat_agent_system\ncategory: identity\nvariables: [tone]\n---\nYou chat in a {{tone}} tone.\n",
        )
        .write("prompts/task-agent.md", "You bake {{bread}}.\n")
        .write("prompts/execution-focus.md", "Bake it now.\n")
        .write("prompts/Notes.md", "Notes for bakers.\n")
        .write("prompts/.hidden.md", "Nothing.\n")
        .write("prompts/data.json", "{}\n");
    let pack = Pack::from_prompts(project.root().join("prompts")).unwrap();
    let mut builder = builder().with_pack(pack);

    builder
        .set_identity("task-agent", variables(&[("bread", "rye")]))
        .unwrap();
    assert_eq!(system(&builder), "You bake rye.");

    for name in ["supervisor", "chat_agent_system"] {
        builder
            .set_identity(name, variables(&[("tone", "dry")]))
            .unwrap();
        assert_eq!(system(&builder), "You chat in a dry tone.");
    }

    let data = object(json!({"depth": 2, "max_depth": 2}));
    builder.add_context_section("task_depth", &data).unwrap();
    assert_eq!(
        system(&builder),
        "You chat in a dry tone.\n\n---\n\n## Context: execution_rules\n\nBake it now."
    );

    assert_eq!(
        builder.get_template("Notes").map(str::trim),
        Some("Notes for bakers.")
    );
    for name in [".hidden", "hook-executor", "plan-structure-guide", "data"] {
        assert_eq!(builder.get_template(name), None, "{name}");
    }

    let error = builder
        .set_identity("hook-executor", Variables::new())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TemplateNotFound);
}

#[test]
fn reload_reads_a_folder_of_prompts_again() {
    let project = TestProject::new();
    project.write("prompts/cook.md", "You cook.\n");
    let pack = Pack::from_prompts(project.root().join("prompts")).unwrap();
    let mut builder = builder().with_pack(pack);
    project
        .write("prompts/cook.md", "You cook well.\n")
        .write("prompts/baker.md", "You bake.\n");
    assert!(builder.set_identity("baker", Variables::new()).is_err());

    builder.reload().unwrap();
    builder.set_identity("baker", Variables::new()).unwrap();
    assert_eq!(system(&builder), "You bake.");
    assert_eq!(
        builder.get_template("cook").map(str::trim),
        Some("You cook well.")
    );
}

#[test]
fn folder_without_prompts_is_an_error() {
    let project = TestProject::new();
    project.write("prompts/README.txt", "Nothing here.\n");
    for folder in ["prompts", "nowhere"] {
        let error = Pack::from_prompts(project.root().join(folder)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TemplateNotFound, "{folder}");
        assert!(error.message().contains(folder), "{error}");
    }
    project.write("prompts/cook.md", "---\nname: [\n---\nYou cook.\n");
    let error = Pack::from_prompts(project.root().join("prompts")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TemplateInvalid);
    assert!(error.place().is_some());
}
