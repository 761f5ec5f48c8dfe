//! The three orchestrators of S2 with the shipped definitions: argv, environment and stdin as
//! received by commands named `claude`, `codex` and `gemini`. The real commands are tested in
//! `real_agents`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use agentd::agent::Drivers;
use agentd::config::Environment;
use agentd::models::{Marker, Mode, UsageMetrics};
use agentd::ops::Operations;
use agentd::orchestrator::{
    ClaudeOrchestrator, CodexOrchestrator, GeminiOrchestrator, Run, TurnContext, Workspace,
    WorkspaceOptions, parse_review_marker,
};
use agentd::store::{MemoryStore, Store};
use agentd::{Error, ErrorKind, ReviewResult, UnifiedPrompt};

use crate::support::{TestProject, open_change, write, write_program};

type Phase = Result<(String, Vec<Marker>, UsageMetrics), Error>;

/// A project on a machine where the three commands are stand-ins that record their input and answer
/// with a text.
struct Stage(TestProject);

/// The input of a command.
struct CommandInput {
    argv: Vec<String>,
    environment: BTreeMap<String, String>,
    stdin: String,
}

fn stage(answer: &str) -> Stage {
    let project = TestProject::new();
    project
        .disable_nonce()
        .write("agentd/changes/feature-x/proposal.md", "# Feature X\n")
        .write("agentd/changes/feature-x/tasks.md", "- [ ] 1.1 Do it\n");
    let text = serde_json::Value::from(answer).to_string();
    let events = [
        (
            "claude",
            format!(
                "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}]}}}}\n{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":1,\"usage\":{{\"input_tokens\":3,\"cache_read_input_tokens\":4,\"output_tokens\":5}},\"total_cost_usd\":0.01}}\n"
            ),
        ),
        (
            "codex",
            format!(
                "{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":{text}}}}}\n{{\"type\":\"turn.completed\",\"usage\":{{\"input_tokens\":7,\"cached_input_tokens\":4,\"output_tokens\":5}}}}\n"
            ),
        ),
        (
            "gemini",
            format!(
                "{{\"type\":\"message\",\"role\":\"user\",\"content\":\"<review>PASS</review>\"}}\n{{\"type\":\"message\",\"role\":\"assistant\",\"content\":{text},\"delta\":true}}\n{{\"type\":\"result\",\"status\":\"success\",\"stats\":{{\"input\":3,\"cached\":4,\"output_tokens\":5}}}}\n"
            ),
        ),
    ];
    let home = project.home();
    for (name, output) in events {
        let seen = home.join("seen").join(name);
        write(&seen.join("output"), output);
        let seen = seen.display();
        let script = format!(
            "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\n' \"$a\" >> '{seen}/argv'; done\nenv -0 > '{seen}/environment'\ncat > '{seen}/stdin'\ncat '{seen}/output'\n"
        );
        write_program(&home.join("bin").join(name), script);
    }

    Stage(project)
}

impl Stage {
    /// Runs a phase with the orchestrator of an agent, like a service.
    fn run(&self, agent: &str, phase: &str, store: &dyn Store) -> Phase {
        self.with_context(store, |context| {
            let phase = Mode::new(phase).unwrap();
            let (change, words) = ("feature-x", "Do feature-x.");
            match agent {
                "claude" => ClaudeOrchestrator::new(context)?.run_phase(change, &phase, words),
                "codex" => CodexOrchestrator::new(context)?.run_phase(change, &phase, words),
                _ => GeminiOrchestrator::new(context)?.run_phase(change, &phase, words),
            }
        })
    }

    /// Opens the change and adds a file, as a review requires.
    fn build(&self, store: &dyn Store) {
        self.with_context(store, |context| {
            open_change(&context, "feature-x", "Do feature-x.", &[("x.txt", "X\n")])
        });
    }

    fn with_context<T>(&self, store: &dyn Store, work: impl FnOnce(TurnContext<'_>) -> T) -> T {
        let options = WorkspaceOptions::default()
            .with_user(self.0.user_folder())
            .with_worktrees(self.0.home().join("worktrees"));
        let workspace = Workspace::open(self.0.root(), options).unwrap();
        let path = format!("{}:/usr/bin:/bin", self.0.home().join("bin").display());
        let home = self.0.home();

        // Files that would give an agent a session or other instructions exist, and must not reach
        // it.
        let variables = [
            ("PATH", path.as_str()),
            ("HOME", home.to_str().unwrap()),
            ("ANTHROPIC_API_KEY", "a-key-of-anthropic"),
            ("OPENAI_API_KEY", "a-key-of-openai-0"),
            ("GEMINI_API_KEY", "a-key-of-google-0"),
            ("GEMINI_SYSTEM_MD", "/home/user/mine.md"),
            ("GEMINI_MODEL", "another"),
            ("CLAUDE_SESSION_ID", "1"),
            ("CODEX_RESUME", "1"),
            ("SECRET_OF_NOBODY", "x"),
        ];
        let variables =
            variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let drivers = Drivers {
            agents: workspace.agents().unwrap().clone(),
            environment: Environment(variables.into()),
            guard: Path::new(env!("CARGO_BIN_EXE_agentd")).to_path_buf(),
            ..Drivers::default()
        };
        let run = Run::new("test").unwrap();
        work(TurnContext {
            workspace: &workspace,
            store,
            drivers: &drivers,
            operations: &Operations::shipped(),
            run: &run,
        })
    }

    fn command_input(&self, agent: &str) -> CommandInput {
        let read = |name: &str| {
            fs::read_to_string(self.0.home().join("seen").join(agent).join(name)).unwrap()
        };
        let variables = read("environment");
        let variables = variables
            .split('\0')
            .filter_map(|line| line.split_once('='));
        CommandInput {
            argv: read("argv").lines().map(str::to_owned).collect(),
            environment: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            stdin: read("stdin"),
        }
    }
}

const ANSWER: &str = "<message>Fine.</message>\n<review>PASS</review>";

/// S2: Executing a proposal without session resume.
#[test]
fn scenario_executing_a_proposal_without_session_resume() {
    let stage = stage(ANSWER);
    let (reply, markers, usage) = stage
        .run("gemini", "plan", &MemoryStore::default())
        .unwrap();
    assert_eq!(
        (reply.as_str(), markers),
        (
            ANSWER,
            vec![Marker::Review {
                verdict: ReviewResult::Pass
            }]
        )
    );
    assert_eq!(
        (
            usage.input_tokens,
            usage.cache_read_tokens,
            usage.output_tokens
        ),
        (Some(3), Some(4), Some(5))
    );

    let got = stage.command_input("gemini");
    let argv = [
        "-m",
        "gemini-2.5-pro",
        "-o",
        "stream-json",
        "--skip-trust",
        "--approval-mode",
        "plan",
    ];
    assert_eq!(got.argv, argv);

    let prompt = UnifiedPrompt::from_xml(&got.stdin).unwrap();
    assert_eq!(
        prompt.to_xml(),
        got.stdin,
        "all of the document, and nothing else"
    );
    assert!(prompt.instructions().contains("Do feature-x.") && !prompt.system_prompt().is_empty());

    for (name, is_there) in [
        ("GEMINI_API_KEY", true),
        ("GEMINI_CLI_NO_RELAUNCH", true),
        ("GEMINI_SYSTEM_MD", false),
        ("GEMINI_MODEL", false),
        ("ANTHROPIC_API_KEY", false),
        ("SECRET_OF_NOBODY", false),
    ] {
        assert_eq!(got.environment.contains_key(name), is_there, "{name}");
    }
}

/// S2: Transitioning system prompts to XML.
#[test]
fn scenario_transitioning_system_prompts_to_xml() {
    let stage = stage("<message>Done.</message>\n<task_status id=\"1.1\">COMPLETED</task_status>");
    let (_, markers, usage) = stage
        .run("claude", "implement", &MemoryStore::default())
        .unwrap();
    assert_eq!(markers.len(), 1);
    assert_eq!(usage.micro_dollars, Some(10_000));

    let got = stage.command_input("claude");
    let argv = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--no-session-persistence",
        "--strict-mcp-config",
        "--setting-sources",
        "",
        "--disable-slash-commands",
        "--permission-mode",
        "acceptEdits",
        "--tools",
        "Read,Grep,Glob,Edit,Write,Bash",
    ];
    assert_eq!(got.argv, argv);

    let document = roxmltree::Document::parse(&got.stdin).unwrap();
    let system = document
        .descendants()
        .find(|node| node.has_tag_name("system_prompt"))
        .unwrap();
    let template = fs::read_to_string(
        crate::support::repository().join("templates/system/CLAUDE-implement.md"),
    )
    .unwrap();
    let heading = template
        .lines()
        .find(|line| line.starts_with("# "))
        .unwrap();
    assert!(
        system.text().unwrap().contains(heading),
        "the template of the phase is in it"
    );

    let printed = [
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_DISABLE_ATTACHMENTS",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
        "DISABLE_AUTOUPDATER",
    ];
    assert!(
        printed
            .iter()
            .all(|name| got.environment.contains_key(*name))
    );

    let foreign: Vec<&String> = got
        .environment
        .keys()
        .filter(|name| {
            name.contains("SYSTEM") || name.contains("SESSION_ID") || name.contains("RESUME")
        })
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

/// S2: Parsing markers from structured XML response.
#[test]
fn scenario_parsing_markers_from_structured_xml_response() {
    for (phase, written, verdict) in [
        ("challenge", "NEEDS_REVISION", ReviewResult::NeedsRevision),
        ("review", "NEEDS_CHANGES", ReviewResult::NeedsChanges),
    ] {
        let stage = stage(&format!(
            "<message>No.</message>\n<review>{written}</review>"
        ));
        let store = MemoryStore::default();
        stage.build(&store);

        let (reply, markers, usage) = stage.run("codex", phase, &store).unwrap();
        assert_eq!(parse_review_marker(&reply).unwrap(), verdict);
        assert_eq!(markers, [Marker::Review { verdict }]);
        assert_eq!(
            (usage.input_tokens, usage.cache_read_tokens),
            (Some(3), Some(4)),
            "cached tokens are counted separately"
        );

        let argv = [
            "exec",
            "--json",
            "--ephemeral",
            "--skip-git-repo-check",
            "--ignore-user-config",
            "--ignore-rules",
            "-c",
            "project_doc_max_bytes=0",
            "-s",
            "read-only",
            "--disable",
            "plugins",
            "--disable",
            "unbounded_connection_retries",
            "-c",
            "analytics.enabled=false",
            "-",
        ];
        assert_eq!(stage.command_input("codex").argv, argv);
    }
}

/// S2: Handling missing or conflicting review markers.
#[test]
fn scenario_handling_missing_or_conflicting_review_markers() {
    let missing = stage("<message>Looks good to me.</message>");
    let store = MemoryStore::default();
    missing.build(&store);
    let error = missing.run("codex", "review", &store).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingReviewMarker);
    let both = stage("<review>PASS</review>\n<review>NEEDS_REVISION</review>");
    let (reply, _, _) = both
        .run("codex", "challenge", &MemoryStore::default())
        .unwrap();
    assert_eq!(
        parse_review_marker(&reply).unwrap(),
        ReviewResult::NeedsRevision
    );
}

#[test]
fn switches_and_commands_of_the_settings_reach_the_command_line() {
    let stage = stage("<message>Done.</message>");
    stage.0.write(
        "agentd/config.toml",
        "format = 1\n[agents.claude]\nuser_config = true\ninstructions = true\n[agents.codex]\nuser_config = true\n\
         [modes.implement]\ncommands = [\"cargo test\", \"make\"]\n",
    );
    let trusted = |agent: &str| {
        stage.0.run(&["trust"]).ok();
        stage.run(agent, "implement", &MemoryStore::default())
    };
    trusted("claude").unwrap();

    let claude = stage.command_input("claude");
    assert!(
        !claude.argv.contains(&"--setting-sources".to_owned()),
        "{:?}",
        claude.argv
    );
    assert!(
        !claude
            .environment
            .contains_key("CLAUDE_CODE_DISABLE_CLAUDE_MDS")
    );
    assert_eq!(
        claude.argv[claude.argv.len() - 4..],
        [
            "--allowedTools",
            "Bash(cargo test *)",
            "--allowedTools",
            "Bash(make *)"
        ]
    );

    trusted("gemini").unwrap();
    let gemini = stage.command_input("gemini");
    assert_eq!(
        gemini.argv[gemini.argv.len() - 4..],
        [
            "--allowed-tools",
            "run_shell_command(cargo test)",
            "--allowed-tools",
            "run_shell_command(make)"
        ]
    );

    trusted("codex").unwrap();
    let codex = stage.command_input("codex");
    assert!(
        !codex.argv.contains(&"--ignore-user-config".to_owned())
            && codex.argv.contains(&"workspace-write".to_owned())
    );
}

#[test]
fn prompt_too_long_for_codex_is_refused_before_sending() {
    let stage = stage(ANSWER);
    stage.0.write("agentd/project.md", "ä".repeat(1_048_576));
    let error = stage
        .run("codex", "plan", &MemoryStore::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AgentTooLarge, "{error}");
    assert!(
        error.to_string().contains("but the limit is 1048576"),
        "{error}"
    );
    assert!(error.to_string().contains("nothing was sent"), "{error}");
    assert!(
        !stage.0.home().join("seen/codex/argv").exists(),
        "the command was not started"
    );
    // The limit counts characters, not bytes.
    stage.0.write("agentd/project.md", "ä".repeat(900_000));
    stage.run("codex", "plan", &MemoryStore::default()).unwrap();
}
