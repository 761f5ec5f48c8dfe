//! The flows drawn in S0, S1 and S2, and S1 R3, tested with a whole change from request to archive.

use std::fs;

use agentd::UnifiedPrompt;
use agentd::models::ContextKind;
use serde_json::json;

use crate::support::change_script::{CommonScript, git};
use crate::support::{Run, TestProject, files_below};

/// Creates the small project of the change cases, with additional files.
fn project(files: &[(&str, &str)]) -> TestProject {
    let project = TestProject::new();
    git(&project.root(), "symbolic-ref HEAD refs/heads/main");
    for (path, content) in &CommonScript::read().files {
        project.write(path, content);
    }
    for (path, content) in files {
        project.write(path, content);
    }
    git(&project.root(), "add -A");
    git(
        &project.root(),
        "-c user.name=Test -c user.email=test@example.invalid commit -q -m start",
    );
    project
}

/// Runs the program with the scripted agent.
fn run_scripted(project: &TestProject, args: &[&str], turns: &[serde_json::Value]) -> Run {
    let common = CommonScript::read();
    let turns: Vec<_> = turns.iter().map(|turn| common.turn(turn)).collect();
    let script = project.home().join("script.yaml");
    fs::write(&script, json!({"format": 1, "turns": turns}).to_string()).unwrap();
    let script = script.display().to_string();
    project.run(
        &[
            args,
            &["--trust", "--agent", "scripted", "--script", &script],
        ]
        .concat(),
    )
}

/// Returns the prompt of a turn.
fn prompt(project: &TestProject, turn: &str) -> UnifiedPrompt {
    UnifiedPrompt::from_xml(&project.run(&["show", turn, "--prompt"]).ok()).unwrap()
}

/// Returns the names of the artifacts of one kind in a prompt.
fn artifact_names(prompt: &UnifiedPrompt, kind: ContextKind) -> Vec<String> {
    let items = prompt.context().iter().filter(|item| item.kind() == kind);
    items.map(|item| item.name().to_owned()).collect()
}

/// Returns the content of an artifact in a prompt.
fn artifact_content(prompt: &UnifiedPrompt, name: &str) -> String {
    let item = prompt.context().iter().find(|item| item.name() == name);
    item.unwrap_or_else(|| panic!("there is no artifact {name}"))
        .content()
        .to_owned()
}

fn whole_change(project: &TestProject) -> Run {
    let names = [
        "plan",
        "challenge_pass",
        "implement",
        "review_pass",
        "archive",
    ];
    run_scripted(
        project,
        &["run", "greet", "Greet the world", "--auto"],
        &names.map(|name| json!(name)),
    )
}

/// S0: template loaded by phase and agent, prompt built, rendered and sent, and a structured
/// response parsed.
#[test]
fn s0_flow_template_prompt_xml_agent_response() {
    let template = "# Mine\n{{PROJECT_CONTEXT}}\n<review>PASS</review>";
    let project = project(&[
        ("templates/system/SCRIPTED-plan.md", template),
        ("agentd/project.md", "A program that greets."),
    ]);

    let run = run_scripted(
        &project,
        &["plan", "greet", "Greet the world"],
        &[json!("plan")],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);

    let sent = prompt(&project, "greet/1");
    assert!(
        sent.system_prompt()
            .starts_with("# Mine\nA program that greets.\n")
    );
    assert_eq!(sent.instructions(), "Greet the world");

    // The sent bytes are the rendered prompt.
    assert_eq!(
        project.run(&["show", "greet/1", "--prompt"]).ok(),
        sent.to_xml()
    );

    let response = project.run(&["show", "greet/1", "--response"]).ok();
    assert!(
        response.contains("proposal.md") && response.contains("PASS"),
        "{response}"
    );

    // The other branch of the diagram: the template is missing, and nothing is sent.
    let missing = project.run(&["turn", "nothing", "x", "--agent", "echo", "--trust"]);
    missing.fails(4, &["TemplateNotFound", "BASE-nothing.md"]);
    assert!(!project.run(&["log"]).ok().contains("nothing"));
}

/// S1: the template of agent and phase or of BASE, with its variables, becomes part of the prompt.
#[test]
fn s1_flow_agent_template_or_base_variables_prompt() {
    let project = project(&[
        (
            "templates/system/SCRIPTED-challenge.md",
            "Scripted\n{{PROJECT_CONTEXT}}\n{{ARTIFACTS}}",
        ),
        (
            "templates/system/BASE-implement.md",
            "Base\n{{TASKS}}\n{{PROJECT_STRUCTURE}}",
        ),
        ("agentd/project.md", "POSIX sh only."),
    ]);
    let run = whole_change(&project);
    assert_eq!(run.code, 0, "{}", run.stderr);

    let challenge = prompt(&project, "greet/2");
    let system = challenge.system_prompt();
    assert!(system.starts_with("Scripted\nPOSIX sh only.\n"), "{system}");

    let implement = prompt(&project, "greet/3");
    let system = implement.system_prompt();
    assert!(
        system.starts_with("Base\n- [ ] 1.1 Greet the world\n"),
        "{system}"
    );
    assert!(system.contains("greet.sh"), "the tree of files");
    assert!(!system.contains("{{"), "{system}");
}

/// S2: context assembled, prompt built and rendered, agent executed, markers parsed; output,
/// markers and usage returned.
#[test]
fn s2_flow_run_phase_assembles_renders_executes_parses() {
    let project = project(&[]);
    let used = json!({"like": "challenge_revision", "usage": {"input": 900, "output": 30}});

    let run = run_scripted(
        &project,
        &["plan", "greet", "Greet the world"],
        &[json!("plan")],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);

    let run = run_scripted(&project, &["challenge", "greet", "--json"], &[used]);
    assert_eq!(run.code, 1, "{}", run.stderr);

    let lines = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let reports: Vec<serde_json::Value> = lines
        .filter(|line: &serde_json::Value| line["event"] == "report")
        .collect();
    let [report] = &reports[..] else {
        panic!("{}", run.stdout)
    };

    let report = &report["report"];
    assert_eq!(report["response"]["message"], "A gap.");
    assert_eq!(report["verdict"], "NEEDS_REVISION");
    assert_eq!(
        (
            &report["usage"]["input_tokens"],
            &report["usage"]["output_tokens"]
        ),
        (&json!(900), &json!(30))
    );

    let sent = prompt(&project, "greet/2");
    let artifacts = artifact_names(&sent, ContextKind::Artifact);
    assert_eq!(artifacts, ["proposal.md", "specs/greeting.md", "tasks.md"]);
    assert!(artifact_content(&sent, "specs/greeting.md").contains("### R1 - Without a name"));

    // The next phase knows about it only from its prompt.
    let again = run_scripted(
        &project,
        &["run", "greet"],
        &[json!("plan"), json!("challenge_settled")],
    );
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(
        artifact_content(&prompt(&project, "greet/3"), "CHALLENGE.md")
            .contains("### C1 - What of an empty name?")
    );
}

/// S1 R3: the focus of each phase, in its instructions, its input and its results.
#[test]
fn s1_r3_each_phase_follows_its_focus() {
    let project = project(&[("CHANGELOG.md", "# Changelog\n")]);
    let run = whole_change(&project);
    assert_eq!(run.code, 0, "{}", run.stderr);

    let printed = |turn: u64, words: &[&str]| {
        let prompt = prompt(&project, &format!("greet/{turn}"));
        let system = prompt.system_prompt().to_lowercase();
        for word in words {
            assert!(system.contains(word), "turn {turn} does not mention {word}");
        }
        prompt
    };

    let archived = files_below(&project.root().join("agentd/changes/archive"));
    let is_archived = |name: &str| archived.iter().any(|path| path.ends_with(name));

    // plan: proposal, specs and tasks, with Mermaid and JSON Schema.
    printed(
        1,
        &[
            "proposal.md",
            "specs/",
            "tasks.md",
            "mermaid",
            "json schema",
        ],
    );
    assert!(
        ["proposal.md", "specs/greeting.md", "tasks.md"]
            .into_iter()
            .all(is_archived),
        "{archived:?}"
    );

    // challenge: a technical review of the plan for consistency and gaps.
    let challenge = printed(2, &["technical", "consisten", "gap"]);
    assert!(artifact_content(&challenge, "proposal.md").contains("Greet the world"));
    assert!(is_archived("CHALLENGE.md"));

    // implement: by tasks, with tests, and progress in IMPLEMENTATION.md.
    printed(
        3,
        &[
            "- [ ] 1.1 greet the world",
            "unit",
            "integration",
            "implementation.md",
        ],
    );
    let path = archived
        .iter()
        .find(|path| path.ends_with("IMPLEMENTATION.md"))
        .unwrap();
    let record =
        fs::read_to_string(project.root().join("agentd/changes/archive").join(path)).unwrap();
    assert!(record.contains("| 1.1 | COMPLETED | yes |"), "{record}");

    // review: verified by checks, with the diff; security and quality.
    let review = printed(4, &["test", "security", "quality"]);
    assert!(artifact_content(&review, "checks.md").contains("Hello, Ada!"));
    assert!(artifact_content(&review, "changes.diff").contains("+echo \"Hello, ${1:-world}!\""));

    // archive: changelog, final specs, cleanup.
    let archive = printed(5, &["changelog", "spec", "clean"]);
    assert!(artifact_content(&archive, "REVIEW.md").contains("Met."));
    assert!(
        project
            .read("CHANGELOG.md")
            .contains("- It greets the world if there is no name.")
    );
    assert!(
        project
            .read("agentd/specs/greeting.md")
            .contains("### R1 - Without a name")
    );
    assert!(!project.root().join("agentd/changes/greet").exists());
    assert_eq!(
        run.stderr.matches("merged agentd/greet into main").count(),
        1
    );
}
