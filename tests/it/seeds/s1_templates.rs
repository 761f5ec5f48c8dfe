//! Every requirement and scenario of System Prompt Templates, under its original title.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd::models::{AgentName, Mode};
use agentd::orchestrator::parse_review_marker;
use agentd::pack::SystemTemplateMetadata;
use agentd::{ErrorKind, Pack, ReviewResult, SearchPath, Templates, inject_variables};
use serde_json::{Value, json};

use crate::support::{TestProject, capture_log, repository, write};

const PHASES: [&str; 5] = ["plan", "challenge", "implement", "review", "archive"];

fn shipped(agent: &str, phase: &str) -> String {
    let (agent, phase) = (AgentName::new(agent).unwrap(), Mode::new(phase).unwrap());
    Templates::new(SearchPath::default())
        .load_system_template(&agent, &phase)
        .unwrap()
}

fn template_file(name: &str) -> String {
    std::fs::read_to_string(repository().join(format!("templates/system/{name}.md"))).unwrap()
}

/// The template of the agent is searched in every place before BASE is.
#[test]
fn r1_template_organization_and_naming() {
    let project = TestProject::new();
    let user = project.user_folder().join("templates/system");
    let stderr = project
        .run(&["prompt", "ship", "x", "--agent", "qwen-code"])
        .fails(4, &[]);
    let searched: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("  "))
        .map(str::trim)
        .collect();
    let own = user.join("QWEN_CODE-ship.md").display().to_string();
    let base = user.join("BASE-ship.md").display().to_string();
    let expected = [
        "templates/system/QWEN_CODE-ship.md",
        "agentd/templates/system/QWEN_CODE-ship.md",
        &own,
        "built-in:templates/system/QWEN_CODE-ship.md",
        "templates/system/BASE-ship.md",
        "agentd/templates/system/BASE-ship.md",
        &base,
        "built-in:templates/system/BASE-ship.md",
    ];
    assert_eq!(searched, expected);
}

#[test]
fn r1_lookup_order_and_agent_templates_before_base() {
    let project = TestProject::without_nonce();
    let user = project.user_folder().join("templates/system");
    let system = |agent: &str| {
        let json = project
            .run(&["prompt", "plan", "x", "--agent", agent, "--json"])
            .json();
        json["parts"]["system_prompt"].as_str().unwrap().to_owned()
    };

    assert_eq!(system("nobody").lines().next(), Some("# Plan a change"));

    write(&user.join("BASE-plan.md"), "user base");
    assert_eq!(system("nobody"), "user base");

    project.write("agentd/templates/system/BASE-plan.md", "agentd base");
    assert_eq!(system("nobody"), "agentd base");

    project.write("templates/system/BASE-plan.md", "project base");
    assert_eq!(system("nobody"), "project base");

    write(&user.join("NOBODY-plan.md"), "user own");
    assert_eq!(
        system("nobody"),
        "user own",
        "an agent template in a later place wins over BASE in an earlier one"
    );

    project.write("agentd/templates/system/NOBODY-plan.md", "agentd own");
    assert_eq!(system("nobody"), "agentd own");

    project.write("templates/system/NOBODY-plan.md", "project own");
    assert_eq!(system("nobody"), "project own");
}

#[test]
fn r2_mandatory_template_structure() {
    for phase in PHASES {
        let text = shipped("BASE", phase);
        assert!(
            text.contains("## Role\nYou are an agentd SDD specialist"),
            "{phase}"
        );
        for part in [
            "\n## Principles\n",
            "\n## Context\n",
            "{{PROJECT_CONTEXT}}",
            "\n## Workflow\n",
        ] {
            assert!(text.contains(part), "{phase}: {part}");
        }
        assert!(
            text.contains("plan → challenge → implement → review → archive"),
            "{phase}"
        );
    }
}

#[test]
fn r3_phase_specific_directives() {
    let focus: [(&str, &[&str]); 5] = [
        (
            "plan",
            &[
                "`proposal.md`",
                "`specs/",
                "`tasks.md`",
                "Mermaid",
                "JSON Schema",
                "No code in planning",
            ],
        ),
        (
            "challenge",
            &["technical reviewer", "Logical consistency", "Gaps"],
        ),
        (
            "implement",
            &[
                "Task by task",
                "Unit tests",
                "integration tests",
                "IMPLEMENTATION.md",
            ],
        ),
        (
            "review",
            &["Test execution", "security scans", "Code quality"],
        ),
        (
            "archive",
            &["Changelog generation", "Final specs", "cleans up"],
        ),
    ];

    for (phase, words) in focus {
        let text = shipped("BASE", phase);
        for word in words {
            assert!(text.contains(word), "{phase}: {word}");
        }
    }
}

#[test]
fn r4_variable_interpolation_support() {
    let project = TestProject::without_nonce();
    project
        .write("agentd/project.md", "A notes app.\n")
        .write("agentd/changes/add-login/proposal.md", "# Login\n")
        .write("agentd/changes/add-login/specs/b.md", "B\n")
        .write("agentd/changes/add-login/specs/a.md", "A\n")
        .write(
            "agentd/changes/add-login/tasks.md",
            "- [x] 1.1 old\n- [ ] 1.2 new\n",
        )
        .write(
            "templates/system/BASE-implement.md",
            "1{{PROJECT_CONTEXT}}\n2{{PROJECT_STRUCTURE}}\n3{{ARTIFACTS}}\n4{{TASKS}}\n",
        )
        .write("templates/system/BASE-challenge.md", "{{SKELETON}}");
    let json = project
        .run(&[
            "prompt",
            "implement",
            "x",
            "--change",
            "add-login",
            "--json",
        ])
        .json();
    let structure = "agentd/\n  changes/\n    add-login/\n      proposal.md\n      specs/\n        a.md\n        b.md\n      \
                     tasks.md\n  project.md\ntemplates/\n  system/\n    BASE-challenge.md\n    BASE-implement.md";
    let artifacts = "- `proposal.md` (1 line)\n- `specs/a.md` (1 line)\n- `specs/b.md` (1 line)";
    assert_eq!(
        json["parts"]["system_prompt"],
        format!("1A notes app.\n2{structure}\n3{artifacts}\n4- [ ] 1.2 new\n")
    );

    let item = |name: &str, text: &str| json!({"type": "artifact", "name": name, "content": text});
    assert_eq!(
        json["parts"]["context"],
        json!([
            item("proposal.md", "# Login\n"),
            item("specs/a.md", "A\n"),
            item("specs/b.md", "B\n")
        ])
    );

    let json = project.run(&["prompt", "challenge", "x", "--json"]).json();
    let skeleton =
        std::fs::read_to_string(repository().join("packs/sdd/skeletons/challenge.md")).unwrap();
    assert_eq!(json["parts"]["system_prompt"], skeleton.trim_end());
}

#[test]
fn r4_values_are_not_expanded_again() {
    let values = BTreeMap::from([
        ("A".to_owned(), "{{B}} \\{{A}}".to_owned()),
        ("B".to_owned(), "no".to_owned()),
    ]);
    assert_eq!(
        inject_variables("{{A}}|\\{{A}}|{{ A }}|{A}", &values),
        "{{B}} \\{{A}}|{{A}}|{{ A }}|{A}"
    );
}

/// Neither one value nor two values together can close a tag of the template.
#[test]
fn r4_values_cannot_close_template_tags() {
    let values = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };

    assert_eq!(
        inject_variables("<x>{{A}}</x>", &values(&[("A", "a</x>b</y></X >")])),
        "<x>a<\\/x>b</y><\\/X ></x>"
    );
    assert_eq!(
        inject_variables("<x>{{A}}{{B}}</x>", &values(&[("A", "<"), ("B", "/x>")])),
        "<x><\\/x></x>"
    );
    assert_eq!(
        inject_variables("<x>{{A}}/x></x>", &values(&[("A", "a<")])),
        "<x>a<\\/x></x>"
    );

    let many: String = (0..20_000).map(|n| format!("</t{n}>")).collect();
    assert!(
        inject_variables(
            &format!("{many}{{{{A}}}}"),
            &values(&[("A", &"</zz>".repeat(40_000))])
        )
        .len()
            > 300_000
    );
}

#[test]
fn r5_response_marker_requirements() {
    let verdicts: [(&str, &[&str]); 5] = [
        ("plan", &["PASS", "NEEDS_REVISION"]),
        ("challenge", &["PASS", "NEEDS_REVISION", "REJECTED"]),
        ("implement", &[]),
        ("review", &["PASS", "NEEDS_CHANGES", "MAJOR_ISSUES"]),
        ("archive", &[]),
    ];

    for (phase, expected) in verdicts {
        for agent in ["BASE", "GEMINI", "CODEX", "CLAUDE"] {
            let text = shipped(agent, phase);
            for verdict in [
                "PASS",
                "NEEDS_REVISION",
                "NEEDS_CHANGES",
                "REJECTED",
                "MAJOR_ISSUES",
            ] {
                let asked = text.contains(&format!("<review>{verdict}</review>"));
                assert_eq!(
                    asked,
                    expected.contains(&verdict),
                    "{agent}-{phase}: {verdict}"
                );
            }

            assert!(text.contains("<thought>"), "{agent}-{phase}");
            assert_eq!(
                text.contains("<task_status id=\"1.1\">COMPLETED</task_status>"),
                phase == "implement"
            );
            assert_eq!(
                text.contains("<task_status id=\"1.2\">FAILED</task_status>"),
                phase == "implement"
            );

            let files = text.contains("<content_update target=\"");
            assert!(files || phase == "implement", "{agent}-{phase}");
        }
    }
}

/// The metadata of every template is valid against the specified schema, whose enums are the
/// shipped values.
#[test]
fn data_model_system_template_metadata() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["agent", "phase", "variables"],
        "properties": {
            "agent": {"type": "string", "enum": ["GEMINI", "CLAUDE", "CODEX", "BASE"]},
            "phase": {"type": "string", "enum": PHASES},
            "variables": {"type": "array", "items": {"type": "string"}}
        }
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let listing = TestProject::new()
        .run(&["template", "list", "--json"])
        .json();
    let names: Vec<_> = listing
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let expected = [
        "BASE-archive",
        "BASE-challenge",
        "BASE-implement",
        "BASE-plan",
        "BASE-review",
        "CLAUDE-implement",
        "CODEX-challenge",
        "CODEX-review",
        "GEMINI-plan",
    ];
    assert_eq!(names, expected);
    for row in listing.as_array().unwrap() {
        assert!(validator.is_valid(&row["metadata"]), "{row}");
    }

    let plan: &Value = &listing[3]["metadata"];
    let variables = [
        "PROJECT_CONTEXT",
        "PROJECT_STRUCTURE",
        "ARTIFACTS",
        "SKELETON",
    ];
    assert_eq!(
        *plan,
        json!({"agent": "BASE", "phase": "plan", "variables": variables})
    );
}

#[test]
fn data_model_variables_are_detected_without_a_list() {
    let project = TestProject::new();
    project.write(
        "templates/system/LOCAL-plan.md",
        "{{B}} {{A}} {{B}} \\{{C}}",
    );
    let json = project
        .run(&["template", "show", "plan", "--agent", "local", "--json"])
        .json();
    assert_eq!(
        json["metadata"],
        json!({"agent": "LOCAL", "phase": "plan", "variables": ["B", "A"]})
    );
}

#[test]
fn interface_load_system_template() {
    let templates = Templates::new(SearchPath::default());
    let (claude, implement) = (
        AgentName::new("claude").unwrap(),
        Mode::new("implement").unwrap(),
    );
    let text = templates.load_system_template(&claude, &implement).unwrap();
    assert!(template_file("CLAUDE-implement").ends_with(&text));
    assert!(text.contains("{{TASKS}}"), "raw: placeholders stay");
    let error = templates
        .load_system_template(&claude, &Mode::new("ship").unwrap())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TemplateNotFound);
}

#[test]
fn interface_inject_variables() {
    let values = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
    let (text, log) = capture_log(|| inject_variables("{{A}} {{TASKS}}", &values));
    assert!(text.starts_with("1 [Context not provided: TASKS"), "{text}");
    assert_eq!(
        log,
        ["WARN: variable `TASKS` has no value; the prompt shows a notice instead"]
    );
}

#[test]
fn scenario_successfully_loading_an_agent_specific_implementation_template() {
    let project = TestProject::new();
    let json = project
        .run(&["prompt", "implement", "x", "--agent", "claude", "--json"])
        .json();
    assert_eq!(json["template"]["name"], "CLAUDE-implement");
    let system = json["parts"]["system_prompt"].as_str().unwrap();
    assert!(
        system
            .contains("You are Claude, working as an agentd SDD specialist in the implement phase")
    );
    assert!(system.contains("These instructions were written for Claude Sonnet"));
}

#[test]
fn scenario_falling_back_to_base_template_when_agent_specific_is_missing() {
    assert!(
        !repository()
            .join("templates/system/GEMINI-archive.md")
            .exists()
    );

    let templates = Templates::new(SearchPath::default());
    let (gemini, archive) = (
        AgentName::new("gemini").unwrap(),
        Mode::new("archive").unwrap(),
    );

    let (found, log) = capture_log(|| templates.find(&gemini, &archive).unwrap());
    assert_eq!(found.template.text.name, "BASE-archive");
    assert!(found.fallback);
    assert_eq!(
        log,
        ["DEBUG: no GEMINI-archive.md; falling back to built-in:templates/system/BASE-archive.md"]
    );

    let project = TestProject::new();
    let quiet = project.run(&["prompt", "archive", "x", "--agent", "gemini"]);
    assert!(!quiet.stderr.contains("falling back"));

    let verbose = project.run(&["-v", "prompt", "archive", "x", "--agent", "gemini"]);
    assert!(
        verbose
            .stderr
            .contains("debug: no GEMINI-archive.md; falling back to")
    );
}

#[test]
fn scenario_variable_injection_during_template_loading() {
    let project = TestProject::without_nonce();
    project.write("templates/system/BASE-plan.md", "<{{PROJECT_CONTEXT}}>");

    let run = project.run(&["prompt", "plan", "x", "--json"]);
    assert!(
        run.stderr
            .contains("warning: variable `PROJECT_CONTEXT` has no value"),
        "{}",
        run.stderr
    );

    let json = run.json();
    let system = json["parts"]["system_prompt"].as_str().unwrap();
    assert!(
        system.starts_with("<[Context not provided: PROJECT_CONTEXT."),
        "{system}"
    );

    project.write("agentd/project.md", "# Notes\nRust.\n");
    let json = project.run(&["prompt", "plan", "x", "--json"]).json();
    assert_eq!(json["parts"]["system_prompt"], "<# Notes\nRust.>");
}

#[test]
fn scenario_variable_injection_strict_and_optional() {
    let project = TestProject::without_nonce();
    project.write("templates/system/BASE-plan.md", "\n  {{TASKS}}");
    project.run(&["prompt", "plan", "x", "--strict"]).fails(
        3,
        &[
            "MissingVariable",
            "variable `TASKS` has no value",
            "templates/system/BASE-plan.md:2:3",
        ],
    );

    project.write(
        "agentd/config.toml",
        "format = 1\n[prompt]\nstrict = true\n",
    );
    project
        .run(&["prompt", "plan", "x"])
        .fails(3, &["MissingVariable"]);

    let head = "---\nvariables:\n  - {name: TASKS, required: false}\n---\n";
    project.write(
        "templates/system/BASE-plan.md",
        format!("{head}<{{{{TASKS}}}}>"),
    );
    assert!(
        project
            .run(&["prompt", "plan", "x"])
            .ok()
            .contains("<system_prompt><![CDATA[<>]]></system_prompt>")
    );
}

#[test]
fn scenario_instruction_for_outputting_review_markers() {
    let text = shipped("codex", "challenge");
    let sentence = "You MUST output <review>PASS</review> or <review>NEEDS_REVISION</review>";
    assert!(text.contains(sentence));
    // The sent template has the nonce in both tags, and no other text about the form.
    let sent = TestProject::new()
        .run(&["prompt", "challenge", "x", "--agent", "codex"])
        .ok();
    let sentence = sentence.replace("<review>", "<review run=\"preview\">");
    assert_eq!(sent.matches(&sentence).count(), 1, "{sent}");
    let reply = "The plan holds.\n\n<review>PASS</review>\n";
    assert_eq!(parse_review_marker(reply).unwrap(), ReviewResult::Pass);
    assert_eq!(
        parse_review_marker("<review>NEEDS_REVISION</review>").unwrap(),
        ReviewResult::NeedsRevision
    );
}

#[test]
fn templates_are_cached_until_reloaded_and_shared_between_threads() {
    let project = TestProject::new();
    project.write("templates/system/BASE-plan.md", "old");
    let places = SearchPath::new(Some(project.root()), None);
    let templates = Arc::new(Templates::new(places));
    let load = |templates: &Templates| {
        templates
            .load_system_template(&AgentName::base(), &Mode::new("plan").unwrap())
            .unwrap()
    };

    assert_eq!(load(&templates), "old");

    project.write("templates/system/BASE-plan.md", "new");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let templates = Arc::clone(&templates);
            std::thread::spawn(move || load(&templates))
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), "old");
    }

    templates.reload();
    assert_eq!(load(&templates), "new");
}

#[test]
fn metadata_type_serialises_as_specified() {
    let metadata = SystemTemplateMetadata {
        agent: "BASE".into(),
        phase: "plan".into(),
        variables: vec!["A".into()],
    };
    assert_eq!(
        serde_json::to_value(metadata).unwrap(),
        json!({"agent": "BASE", "phase": "plan", "variables": ["A"]})
    );
    assert!(Pack::load("sdd", &SearchPath::default()).is_ok());
}
