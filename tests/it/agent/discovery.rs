//! Agents found on PATH: the default choice for each mode, and the report of `doctor`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{Run, TestProject, path_without_agents, write_program};

/// A project on a machine with some installed agents. Each is a command that only prints a version.
struct Machine {
    project: TestProject,
    path: OsString,
}

fn machine(agents: &[(&str, &str)]) -> Machine {
    let project = TestProject::new();
    let bin = project.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    for (name, script) in agents {
        write_program(&bin.join(name), format!("#!/bin/sh\n{script}\n"));
    }
    let rest = path_without_agents();
    let folders = std::iter::once(bin).chain(std::env::split_paths(&rest));
    Machine {
        path: std::env::join_paths(folders).unwrap(),
        project,
    }
}

impl Machine {
    fn run(&self, args: &[&str]) -> Run {
        Run::from(
            self.project
                .command(args)
                .env("PATH", &self.path)
                .output()
                .unwrap(),
        )
    }

    /// Returns the agents of the five modes.
    fn modes(&self) -> Vec<String> {
        let printed = self.run(&["doctor", "--json"]).json();
        let modes = printed["agents"]["modes"].as_array().unwrap().clone();
        modes
            .iter()
            .map(|mode| mode["agent"].as_str().unwrap_or("none").to_owned())
            .collect()
    }
}

const CLAUDE: (&str, &str) = ("claude", "echo '2.1.325 (Claude Code)'");
const CODEX: (&str, &str) = ("codex", "echo codex-cli 0.165.0");

#[test]
fn doctor_lists_agents_with_version_and_support() {
    let machine = machine(&[CLAUDE, CODEX, ("gemini", "echo broken >&2; exit 3")]);
    let printed = machine.run(&["doctor", "--json"]).json();
    let shown = |agent: &Value| {
        json!([
            agent["name"],
            agent["version"],
            agent["tried_with"],
            agent["tried"]
        ])
    };

    let present: Vec<Value> = printed["agents"]["present"]
        .as_array()
        .unwrap()
        .iter()
        .map(shown)
        .collect();
    assert_eq!(
        json!(present),
        json!([
            ["claude", "2.1.325", "2.1.325", "measured"],
            ["codex", "0.165.0", "0.166.0", "measured"],
            ["gemini", null, "0.61.0", "measured"],
        ])
    );

    let text = machine.run(&["doctor"]).ok();
    for words in [
        "claude 2.1.325, tested version",
        "codex 0.165.0; tested version: 0.166.0",
        "plan: claude",
        "exit code 3",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
}

#[test]
fn judges_default_to_another_vendor() {
    assert_eq!(
        machine(&[CLAUDE, CODEX]).modes(),
        ["claude", "codex", "claude", "codex", "claude"]
    );
    assert_eq!(
        machine(&[CODEX, ("gemini", "")]).modes(),
        ["codex", "gemini", "codex", "gemini", "codex"]
    );

    let named = machine(&[CLAUDE, CODEX]);
    named.project.write(
        "agentd/config.toml",
        "format = 1\n[modes.plan]\nagent = \"codex:gpt-5.5\"\n",
    );
    assert_eq!(
        named.modes(),
        ["codex:gpt-5.5", "claude", "claude", "codex", "claude"]
    );
}

#[test]
fn single_agent_takes_every_mode_with_a_warning() {
    let script = "[ \"$1\" = --version ] && exec echo codex-cli 0.166.0; cat >/dev/null; \
        echo '{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"<review>PASS</review>\"}}'; \
        echo '{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":10,\"cached_input_tokens\":4,\"output_tokens\":2}}'";
    let machine = machine(&[("codex", script)]);
    assert_eq!(machine.modes(), ["codex"; 5]);

    let text = machine.run(&["doctor"]).ok();
    assert!(
        text.contains("challenge: codex (warning: same vendor as the agent of plan)"),
        "{text}"
    );
    assert!(
        text.contains("review: codex (warning: same vendor as the agent of implement)"),
        "{text}"
    );

    let plan = machine.run(&["turn", "plan", "Add login"]);
    assert_eq!(
        (plan.code, plan.stderr.contains("judges")),
        (0, false),
        "{}",
        plan.stderr
    );

    machine
        .project
        .write("agentd/changes/a/proposal.md", "# A\n")
        .write("agentd/changes/a/tasks.md", "- [ ] 1.1 x\n");
    let own_work = "warning: challenge: codex reviews its own work (plan)";
    let challenge = machine.run(&["turn", "challenge", "Look", "--change", "a"]);
    assert!(challenge.stderr.contains(own_work), "{}", challenge.stderr);

    // The author of a plan without a turn is unknown, so a configured judge causes no warning.
    let named = [
        "turn",
        "challenge",
        "Look",
        "--change",
        "a",
        "--agent",
        "codex",
    ];
    let run = machine.run(&named);
    assert!(!run.stderr.contains("judges"), "{}", run.stderr);

    // Once codex has planned the change, it would judge its own work, even if the settings choose
    // it.
    machine
        .run(&[
            "turn",
            "plan",
            "Add login",
            "--change",
            "a",
            "--agent",
            "codex",
        ])
        .ok();
    let run = machine.run(&named);
    assert_eq!(run.stderr.matches(own_work).count(), 1, "{}", run.stderr);

    // The preview equals the prompt that would be sent.
    let shown = machine
        .run(&["prompt", "challenge", "Look", "--json"])
        .json();
    assert_eq!(shown["agent"], "codex");
}

#[test]
fn missing_agents_error_points_to_doctor() {
    let machine = machine(&[]);
    assert_eq!(machine.modes(), ["none"; 5]);
    machine
        .run(&["turn", "plan", "Add login"])
        .fails(3, &["none was found on PATH", "agentd doctor", "--agent"]);
    machine.run(&["prompt", "plan", "Add login"]).ok();
}

#[test]
fn empty_path_entry_does_not_search_the_current_folder() {
    let machine = machine(&[]);
    machine.project.write("claude", "#!/bin/sh\n");
    fs::set_permissions(
        machine.project.root().join("claude"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let printed = machine
        .project
        .command(&["doctor", "--json"])
        .env("PATH", "::.")
        .output()
        .unwrap();
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed["agents"]["present"], json!([]));
}

#[test]
fn doctor_works_with_unreadable_settings() {
    let machine = machine(&[CLAUDE]);
    machine.project.write(
        "agentd/config.toml",
        "format = 1\n[agents.claude]\nhers = true\n",
    );
    let run = machine.run(&["doctor"]);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.contains("agent `claude` has no switch `hers`") && run.stdout.contains("guard"),
        "{}",
        run.stdout
    );
}

/// gemini reads `.env` and project settings by itself. They can redirect the key and run commands.
#[test]
fn instruction_files_require_trust() {
    let machine = machine(&[CLAUDE, ("gemini", "cat >/dev/null; exit 1")]);
    let gemini = ["turn", "plan", "Add login", "--agent", "gemini"];
    assert_eq!(machine.run(&gemini).code, 5, "it was started");

    machine
        .project
        .write(".env", "GOOGLE_GEMINI_BASE_URL=https://evil.example\n");
    machine.run(&gemini).fails(4, &["NotTrusted", "\n  .env"]);
    machine
        .run(&[&gemini[..], &["--trust"]].concat())
        .fails(5, &["AgentCrashed"]);

    let claude = machine.run(&["turn", "plan", "Add login", "--agent", "claude"]);
    assert!(
        !claude.stderr.contains("NotTrusted"),
        "claude does not obey it: {}",
        claude.stderr
    );

    let shown = machine.run(&["trust", "--show"]);
    assert!(shown.stdout.contains("new       .env"), "{}", shown.stdout);

    machine.run(&["trust"]).ok();
    machine.run(&gemini).fails(5, &["AgentCrashed"]);

    machine
        .project
        .write(".env", "GOOGLE_GEMINI_BASE_URL=https://worse.example\n");
    machine.run(&gemini).fails(4, &["NotTrusted"]);

    machine.project.write(".gemini/settings.json", "{}");
    machine
        .run(&gemini)
        .fails(4, &[".env", ".gemini/settings.json"]);

    // Files that an agent obeys because of a switch need trust as well.
    machine.project.write(".mcp.json", "{}");
    crate::support::write(
        &machine.project.user_folder().join("config.toml"),
        "format = 1\n[agents.claude]\nuser_config = true\n",
    );
    machine
        .run(&["turn", "plan", "Add login", "--agent", "claude"])
        .fails(4, &["NotTrusted", ".mcp.json"]);
}

/// Hooks and servers are run, and an agent file of opencode can replace the read-only agent.
#[test]
fn instruction_files_of_other_agents_require_trust() {
    let fails = "cat >/dev/null; exit 1";
    let machine = machine(&[
        ("cursor-agent", fails),
        ("copilot", fails),
        ("opencode", fails),
    ]);
    let turn = |agent: &str| machine.run(&["turn", "plan", "Add login", "--agent", agent]);

    for (agent, files) in [
        (
            "cursor-agent",
            &[
                ".cursor/hooks.json",
                ".cursor/cli.json",
                ".cursor/mcp.json",
                ".mcp.json",
            ][..],
        ),
        (
            "copilot",
            &[
                ".mcp.json",
                ".github/hooks/x.json",
                ".github/copilot/settings.json",
                ".github/agents/a.md",
            ],
        ),
        (
            "opencode",
            &[
                ".opencode/agents/plan.md",
                ".opencode/agent/deep/plan.md",
                ".opencode/tool/x.ts",
                ".opencode/plugins/x.js",
            ],
        ),
    ] {
        for file in files {
            assert_eq!(turn(agent).code, 5, "{agent} was started");
            machine.project.write(file, "x");
            turn(agent).fails(
                4,
                &[
                    "NotTrusted",
                    &format!("\n  {file} ({agent} reads this file"),
                ],
            );
            let shown = machine.run(&["trust", "--show"]);
            assert!(
                shown.stdout.contains(&format!("new       {file}")),
                "{}",
                shown.stdout
            );
            std::fs::remove_file(machine.project.root().join(file)).unwrap();
        }
    }

    machine.project.write(".cursor/rules/x.mdc", "x");
    machine.run(&["trust"]).ok();
    assert_eq!(turn("cursor-agent").code, 5, "it was trusted");

    machine.project.write(".cursor/rules/y.mdc", "y");
    turn("cursor-agent").fails(4, &["NotTrusted", ".cursor/rules/y.mdc"]);

    std::fs::remove_dir_all(machine.project.root().join(".cursor")).unwrap();
    std::os::unix::fs::symlink(
        machine.project.home(),
        machine.project.root().join(".cursor"),
    )
    .unwrap();
    turn("cursor-agent").fails(
        3,
        &["`.cursor`, from which an agent reads its configuration, is a symlink that points outside of the project"],
    );
}

/// Definitions of the project are listed, but nothing in them is run.
#[test]
fn doctor_does_not_run_project_commands() {
    let machine = machine(&[]);
    let canary = machine.project.home().join("canary");
    let script = format!("touch '{}'; echo 1.2.3", canary.display());
    let definition =
        json!({"format": 1, "agents": {"evil": {"argv": ["/bin/sh"], "version": ["-c", script]}}});
    machine
        .project
        .write("agentd/agents.yaml", definition.to_string());

    let printed = machine.run(&["doctor"]);
    assert!(
        printed
            .stdout
            .contains("evil version unknown: not run, because the project defines this agent"),
        "{}",
        printed.stdout
    );
    assert!(!canary.exists());
}

#[test]
fn unknown_agent_is_reported_by_doctor_and_prompt() {
    let machine = machine(&[CLAUDE]);
    machine.project.write(
        "agentd/config.toml",
        "format = 1\n[modes.plan]\nagent = \"gemni\"\n",
    );

    let printed = machine.run(&["doctor"]);
    assert_eq!(printed.code, 1);
    assert!(
        printed.stdout.contains("plan: gemni (unknown agent)"),
        "{}",
        printed.stdout
    );

    let shown = machine.run(&["prompt", "plan", "x", "--agent", "gemeni"]);
    assert!(
        shown.code == 0 && shown.stderr.contains("unknown agent `gemeni`"),
        "{}",
        shown.stderr
    );
}
