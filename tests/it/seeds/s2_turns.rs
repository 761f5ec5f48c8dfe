//! S2, R1, R2, R5 and its flow: phases with command agents, each call complete in itself.

use std::ffi::OsString;
use std::path::Path;

use agentd::agent::{Drivers, Limits};
use agentd::config::Environment;
use agentd::models::{AgentName, Marker, Mode, SessionId, UsageMetrics};
use agentd::ops::Operations;
use agentd::orchestrator::{
    Orchestrator, Run, TurnContext, TurnRequest, Workspace, WorkspaceOptions, assemble,
    assemble_context, next_state, parse_review_marker,
};
use agentd::store::{MemoryStore, Store, TurnQuery};
use agentd::{ContextKind, Error, ErrorKind, ReviewResult, UnifiedPrompt};

use crate::support::recording_agent::{
    RecordedCall, answer, call, calls, define_agents, with_preview_nonce,
};
use crate::support::{TestProject, open_change};

/// A project with content for the prompts.
fn project() -> TestProject {
    let project = TestProject::new();
    project.disable_nonce();
    project
        .write("agentd/project.md", "A shop & more.")
        .write("src/main.rs", "fn main() {}\n");
    project
}

fn workspace(project: &TestProject) -> Workspace {
    let options = WorkspaceOptions::default()
        .with_user(project.user_folder())
        .with_worktrees(project.home().join("worktrees"));
    Workspace::open(project.root(), options).unwrap()
}

fn mode(name: &str) -> Mode {
    Mode::new(name).unwrap()
}

type Phase = Result<(String, Vec<Marker>, UsageMetrics), Error>;

/// Runs a phase through the library, like a service.
fn run_phase(
    project: &TestProject,
    store: &dyn Store,
    (agent, change_id): (&str, &str),
    phase: &str,
    instructions: &str,
) -> Phase {
    with_context(project, store, |context| {
        let agent = AgentName::new(agent).unwrap();
        let driver = context.drivers.find(agent.as_str())?;
        let orchestrator = Orchestrator {
            context: *context,
            agent: &agent,
            driver: driver.as_ref(),
        };
        orchestrator.run_phase(change_id, &mode(phase), instructions)
    })
}

/// Opens the change `feature-x`, with a plan and a changed file.
fn open_feature(project: &TestProject, store: &dyn Store) {
    let plan = ("agentd/changes/feature-x/proposal.md", "# X\n");
    let built = ("src/main.rs", "fn main() { sell() }\n");
    with_context(project, store, |context| {
        open_change(context, "feature-x", "Sell things", &[plan, built])
    });
}

fn with_context<T>(
    project: &TestProject,
    store: &dyn Store,
    work: impl FnOnce(&TurnContext<'_>) -> T,
) -> T {
    let workspace = workspace(project);
    let given = [
        ("HOME", project.home().into_os_string()),
        ("PATH", std::env::var_os("PATH").unwrap()),
    ];

    // Files that would give an agent a session or other instructions exist, and must not reach it.
    let foreign =
        ["GEMINI_SYSTEM_MD", "CLAUDE_SESSION_ID", "CODEX_RESUME"].map(|name| (name, "x".into()));
    let variables = given
        .into_iter()
        .chain(foreign)
        .map(|(name, value)| (OsString::from(name), value));
    let drivers = Drivers {
        agents: workspace.agents().unwrap().clone(),
        environment: Environment(variables.collect()),
        guard: Path::new(env!("CARGO_BIN_EXE_agentd")).to_path_buf(),
        ..Drivers::default()
    };
    let run = Run {
        limits: Limits::default(),
        ..Run::new("test").unwrap()
    };
    work(&TurnContext {
        workspace: &workspace,
        store,
        drivers: &drivers,
        operations: &Operations::shipped(),
        run: &run,
    })
}

/// Returns the output of `agentd prompt`.
fn previewed_prompt(project: &TestProject, agent: &str, phase: &str, text: &str) -> String {
    project
        .run(&[
            "prompt",
            phase,
            text,
            "--change",
            "feature-x",
            "--agent",
            agent,
        ])
        .ok()
}

/// No argument makes the agent resume a session, or gives it instructions besides the prompt.
fn is_complete_in_itself(called: &RecordedCall) {
    for argument in &called.argv {
        for flag in ["resume", "session", "continue", "system"] {
            assert!(!argument.contains(flag), "{argument}");
        }
    }

    for name in called.variables() {
        for part in ["SYSTEM", "SESSION_ID", "RESUME", "PROMPT"] {
            assert!(!name.contains(part), "{name}");
        }
    }

    let xml = roxmltree::Document::parse(&called.stdin).unwrap();
    let parts: Vec<_> = xml
        .root_element()
        .children()
        .filter(roxmltree::Node::is_element)
        .map(|part| part.tag_name().name())
        .collect();
    assert_eq!(parts.first(), Some(&"system_prompt"));
    assert_eq!(parts.last(), Some(&"instructions"));
}

#[test]
fn r1_removal_of_orchestrator_side_session_persistence() {
    let project = project();
    let reply = answer(
        &project,
        "plan",
        "<content_update target=\"proposal.md\">\n# X\n</content_update>\nPlanned.\n",
    );
    define_agents(&project, &[("gemini", &[&reply], "")]);
    let store = MemoryStore::default();
    for text in ["Add login", "Add logout"] {
        run_phase(&project, &store, ("gemini", "feature-x"), "plan", text).unwrap();
    }
    let (first, second) = (call(&project, "gemini", 1), call(&project, "gemini", 2));
    is_complete_in_itself(&first);
    is_complete_in_itself(&second);
    assert_eq!(calls(&project, "gemini"), 2);
    assert_eq!(
        first.argv, second.argv,
        "the second call is equal to the first"
    );

    // The second prompt contains all of the first except its instructions, plus the results of the
    // first turn.
    assert_eq!(
        with_preview_nonce(&second.stdin),
        previewed_prompt(&project, "gemini", "plan", "Add logout")
    );

    let parts = |called: &RecordedCall| {
        UnifiedPrompt::from_xml(&with_preview_nonce(&called.stdin)).unwrap()
    };
    let (first, second) = (parts(&first), parts(&second));
    assert!(
        second.system_prompt().contains("A shop & more."),
        "{second:?}"
    );
    assert!(first.context().is_empty());
    assert_eq!(
        second.context()[0].name(),
        "proposal.md",
        "the files of the first turn are in the project now"
    );
    assert_eq!(
        (first.instructions(), second.instructions()),
        ("Add login", "Add logout")
    );

    // The mode belongs to our session. Nothing is stored that an agent would call a session.
    let kept = store.events(&SessionId::new("feature-x").unwrap()).unwrap();
    let kept =
        serde_json::to_string(&kept.iter().map(|(_, event)| event).collect::<Vec<_>>()).unwrap();
    assert!(!kept.contains("session"), "{kept}");
}

#[test]
fn r2_adoption_of_unified_prompt_model() {
    let project = project();
    project.write("agentd/changes/feature-x/proposal.md", "# X ]]> & <y>\n");
    project.write("agentd/changes/feature-x/tasks.md", "- [ ] 1.1 Do it\n");
    let reply = answer(
        &project,
        "reply",
        "<task_status id=\"1.1\">DONE</task_status>\n<review>PASS</review>\n",
    );

    for agent in ["gemini", "claude", "codex", "any-other"] {
        define_agents(&project, &[(agent, &[&reply], "")]);

        // A review needs the branch of an opened change, and has a separate test below.
        for (number, phase) in ["plan", "implement", "challenge"].into_iter().enumerate() {
            let text = format!("Do {phase} <now> & \"well\"");
            let before = previewed_prompt(&project, agent, phase, &text);

            // Replies that do not suit the phase are fine here.
            let _any = run_phase(
                &project,
                &MemoryStore::default(),
                (agent, "feature-x"),
                phase,
                &text,
            );
            let called = call(&project, agent, number + 1);
            is_complete_in_itself(&called);

            // Byte for byte the `to_xml` output of the previewed prompt.
            assert_eq!(with_preview_nonce(&called.stdin), before, "{agent} {phase}");

            let prompt = UnifiedPrompt::from_xml(&called.stdin).unwrap();
            assert_eq!(prompt.to_xml(), called.stdin, "{agent} {phase}");

            // Where a verdict is required, the instructions end with its form.
            let form = "<review>PASS|NEEDS_REVISION|REJECTED</review>";
            let instructions = UnifiedPrompt::from_xml(&before)
                .unwrap()
                .instructions()
                .to_owned();

            match phase {
                "challenge" => {
                    assert!(instructions.starts_with(&text) && instructions.ends_with(form))
                }
                _ => assert_eq!(instructions, text),
            }
        }
    }
}

/// A review without a diff would be a blind verdict: it is refused before anything is spent.
#[test]
fn run_phase_reviews_only_an_opened_change() {
    let project = project();
    project.write("agentd/changes/feature-x/proposal.md", "# X\n");
    define_agents(
        &project,
        &[("codex", &["out <review>NEEDS_CHANGES</review>"], "")],
    );
    let store = MemoryStore::default();

    for phase in ["review", "archive"] {
        let error = run_phase(&project, &store, ("codex", "feature-x"), phase, "Go").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ChangeNotFound, "{error:#}");
        assert!(
            error.message().contains("`feature-x` is not a change"),
            "{error:#}"
        );
        assert!(
            error.hint().unwrap().contains("`agentd review`"),
            "{error:#}"
        );
    }

    assert_eq!(calls(&project, "codex"), 0);

    let project = self::project();
    define_agents(
        &project,
        &[("codex", &["out <review>NEEDS_CHANGES</review>"], "")],
    );
    open_feature(&project, &store);
    run_phase(
        &project,
        &store,
        ("codex", "feature-x"),
        "review",
        "Look at main.",
    )
    .unwrap();
    let prompt = UnifiedPrompt::from_xml(&call(&project, "codex", 1).stdin).unwrap();
    let shown = |name: &str| {
        prompt
            .context()
            .iter()
            .find(|item| item.name() == name)
            .unwrap()
            .content()
    };

    assert!(shown("changes.diff").contains("+fn main() { sell() }"));
    assert!(
        prompt
            .instructions()
            .starts_with("Look at main.\n\nThe request:\n\nSell things\n\n")
    );
}

#[test]
fn r5_centralized_prompt_assembly_logic() {
    let project = project();
    project.write("agentd/changes/feature-x/proposal.md", "# X\n");
    project.write(
        "agentd/changes/feature-x/tasks.md",
        "- [x] 1.1 Done\n- [ ] 1.2 Open\n",
    );
    project.write("notes.md", "Note.\n");
    let workspace = workspace(&project);
    let ask = TurnRequest {
        session: Some(SessionId::new("feature-x").unwrap()),
        files: vec![project.root().join("notes.md")],
        ..TurnRequest::new(mode("implement"), "Do it")
    };

    let context = assemble_context(&workspace, &ask).unwrap();
    assert_eq!(context.variables["PROJECT_CONTEXT"], "A shop & more.");
    assert!(
        context.variables["PROJECT_STRUCTURE"].contains("src/\n  main.rs"),
        "{context:?}"
    );
    assert_eq!(context.variables["TASKS"], "- [ ] 1.2 Open");
    assert_eq!(
        context.tasks,
        Some(vec!["1.1".to_owned(), "1.2".to_owned()])
    );

    let items: Vec<_> = context
        .items
        .iter()
        .map(|given| (given.item.kind(), given.item.name()))
        .collect();
    assert_eq!(
        items,
        [
            (ContextKind::Artifact, "proposal.md"),
            (ContextKind::File, "notes.md")
        ]
    );

    // The prompt has the same input through every interface.
    let state = next_state(&workspace, None, &ask).unwrap();
    let prompt = assemble(&workspace, &state, &ask).unwrap().draft.prompt;
    let system = prompt.system_prompt();
    for name in ["PROJECT_CONTEXT", "PROJECT_STRUCTURE", "TASKS"] {
        assert!(system.contains(context.variables[name].trim()), "{name}");
    }

    let given: Vec<_> = context.items.into_iter().map(|given| given.item).collect();
    assert_eq!(prompt.context(), given);

    let args = [
        "prompt",
        "implement",
        "Do it",
        "--change",
        "feature-x",
        "--file",
        "notes.md",
    ];
    let shown = UnifiedPrompt::from_xml(&project.run(&args).ok()).unwrap();
    assert_eq!(shown.context(), prompt.context());

    // A missing change is an error here, before anything else happens.
    let ask = TurnRequest {
        session: Some(SessionId::new("nope").unwrap()),
        ..TurnRequest::new(mode("implement"), "Do it")
    };
    assert_eq!(
        assemble_context(&workspace, &ask).unwrap_err().kind(),
        ErrorKind::ChangeNotFound
    );

    let ask = TurnRequest::new(mode("no-such-mode"), "Do it");
    assert_eq!(
        assemble_context(&workspace, &ask).unwrap_err().kind(),
        ErrorKind::TemplateNotFound
    );
}

/// An agent that prints its reply and its usage as one JSON value.
const JSON: &str = "    output:
      kind: json
      text: [{path: text}]
      usage: {input: usage/in, cache_read: usage/cached, output: usage/out, cost_dollars: usage/dollars}
";

#[test]
fn flow_run_phase_returns_reply_markers_and_usage() {
    let project = project();
    let text = "Two gaps.\n<review>NEEDS_CHANGES</review>\n";
    let json = serde_json::json!({
        "text": text, "usage": {"in": 1200, "cached": 300, "out": 45, "dollars": 0.0125},
    });
    let reply = answer(&project, "review.json", &json.to_string());
    define_agents(&project, &[("codex", &[&reply], JSON)]);
    let store = MemoryStore::default();
    open_feature(&project, &store);

    let (output, markers, usage) = run_phase(
        &project,
        &store,
        ("codex", "feature-x"),
        "review",
        "Review it",
    )
    .unwrap();
    assert_eq!(output, text, "the reply is raw");
    assert_eq!(
        parse_review_marker(&output).unwrap(),
        ReviewResult::NeedsChanges
    );
    assert!(
        matches!(
            &markers[..],
            [Marker::Review {
                verdict: ReviewResult::NeedsChanges,
                ..
            }]
        ),
        "{markers:?}"
    );

    let expected = UsageMetrics {
        input_tokens: Some(1200),
        cache_read_tokens: Some(300),
        output_tokens: Some(45),
        micro_dollars: Some(12_500),
        ..UsageMetrics::default()
    };
    assert_eq!(usage, expected);

    let rows = store
        .turns(&TurnQuery {
            session: None,
            newest: 9,
        })
        .unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].agent.as_str(), rows[0].verdict),
        ("codex", Some(ReviewResult::NeedsChanges))
    );
    assert_eq!(
        (rows[0].spent.tokens, rows[0].spent.micro_dollars),
        (1545, 12_500)
    );
}

#[test]
fn flow_run_phase_returns_typed_errors() {
    let project = project();
    project.write("agentd/changes/feature-x/proposal.md", "# X\n");
    let cases: [(&str, &[&str], ErrorKind); 8] = [
        ("silent", &["exit 0"], ErrorKind::AgentEmpty),
        (
            "crashes",
            &["out <review>PASS</review>", "exit 3"],
            ErrorKind::AgentCrashed,
        ),
        ("killed", &["raise 9"], ErrorKind::AgentCrashed),
        (
            "logged-out",
            &["err Error: not logged in", "exit 1"],
            ErrorKind::AgentAuth,
        ),
        (
            "used-up",
            &["err usage limit reached, resets at 3pm", "exit 1"],
            ErrorKind::AgentQuota,
        ),
        (
            "small",
            &["err prompt is too long", "exit 1"],
            ErrorKind::AgentTooLarge,
        ),
        (
            "unsure",
            &["out I cannot tell."],
            ErrorKind::MissingReviewMarker,
        ),
        (
            "strays",
            &["out <review>MAJOR_ISSUES</review>"],
            ErrorKind::VerdictNotAllowed,
        ),
    ];
    let agents: Vec<_> = cases
        .iter()
        .map(|(name, steps, _)| (*name, *steps, ""))
        .collect();
    define_agents(&project, &agents);

    for (agent, _, kind) in cases {
        let store = MemoryStore::default();
        let error =
            run_phase(&project, &store, (agent, "feature-x"), "challenge", "Go").unwrap_err();
        assert_eq!(error.kind(), kind, "{agent}: {error:#}");
        assert_eq!(calls(&project, agent), 1, "{agent}");
        let events = store.events(&SessionId::new("feature-x").unwrap()).unwrap();
        assert!(events.len() >= 4, "{agent}: the call is recorded");
    }

    // Errors before the call cost no call.
    let before = [
        ("silent", "../x", "review", ErrorKind::NameInvalid),
        ("silent", "nope", "review", ErrorKind::ChangeNotFound),
        ("silent", "feature-x", "sing", ErrorKind::TemplateNotFound),
        ("nobody", "feature-x", "review", ErrorKind::UnknownAgent),
    ];

    for (agent, change, phase, kind) in before {
        let store = MemoryStore::default();
        let error = run_phase(&project, &store, (agent, change), phase, "Go").unwrap_err();
        assert_eq!(error.kind(), kind, "{agent} {change} {phase}: {error:#}");
        assert!(
            store
                .turns(&TurnQuery {
                    session: None,
                    newest: 9
                })
                .unwrap()
                .is_empty()
        );
    }

    assert_eq!(calls(&project, "silent"), 1);
}

#[test]
fn scenario_executing_a_proposal_without_session_resume() {
    let project = project();
    let reply = answer(&project, "plan", "Planned.\n<review>PASS</review>\n");
    define_agents(&project, &[("gemini", &[&reply], "")]);
    let before = previewed_prompt(&project, "gemini", "plan", "Propose feature-x");
    run_phase(
        &project,
        &MemoryStore::default(),
        ("gemini", "feature-x"),
        "plan",
        "Propose feature-x",
    )
    .unwrap();
    let called = call(&project, "gemini", 1);

    // Only the command of the definition is run.
    assert_eq!(called.argv.len(), 2);
    assert!(
        called.argv[0].starts_with("record ") && called.argv[1] == reply,
        "{:?}",
        called.argv
    );

    is_complete_in_itself(&called);
    assert_eq!(with_preview_nonce(&called.stdin), before);
}

#[test]
fn scenario_transitioning_system_prompts_to_xml() {
    let project = project();
    project.write("agentd/changes/feature-x/proposal.md", "# X\n");
    define_agents(&project, &[("claude", &["out Done."], "")]);
    run_phase(
        &project,
        &MemoryStore::default(),
        ("claude", "feature-x"),
        "implement",
        "Build it",
    )
    .unwrap();
    let called = call(&project, "claude", 1);
    is_complete_in_itself(&called);
    let mut variables = called.variables();

    variables.retain(|name| *name != "AGENTD_CALL");
    assert_eq!(variables, ["HOME", "PATH"], "only the reply is returned");

    let xml = roxmltree::Document::parse(&called.stdin).unwrap();
    let system = xml
        .descendants()
        .find(|node| node.has_tag_name("system_prompt"))
        .unwrap()
        .text()
        .unwrap();
    let template = workspace(&project).templates;
    let template = template
        .load_system_template(&AgentName::new("claude").unwrap(), &mode("implement"))
        .unwrap();

    let (start, _) = template.split_once("{{").unwrap();
    assert!(start.len() > 500 && system.starts_with(start), "{system}");
}
