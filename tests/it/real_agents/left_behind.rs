//! Processes started by the tools of an agent do not outlive the turn.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Cli, Stage, for_each_agent};

/// Appends the time to a file of the project in a loop.
const BEAT: &str = "while :; do date +%s%N >>beat; sleep 0.1; done";

/// A call of the agent's shell tool.
fn shell(cli: Cli, command: &str) -> Value {
    match cli {
        Cli::Claude => {
            json!({"name": "Bash", "input": {"command": command, "description": "Starts it."}})
        }
        Cli::Gemini => {
            json!({"name": "run_shell_command", "input": {"command": command, "description": "Starts it."}})
        }
        Cli::Codex => json!({"name": "exec_command", "input": {"cmd": command}}),
    }
}

/// Creates the stage with a script that the agent may run.
fn stage(cli: Cli, script: &str, replies: &Value, limits: &str) -> Option<Stage> {
    let stage = Stage::set(cli, |_| replies.clone())?;
    stage
        .project
        .write("start.sh", format!("#!/bin/sh\n{script}\n"));
    let mode = "[modes.implement]\ncommands = [\"sh start.sh\"]";
    stage.settings(&format!("{mode}\n[limits]\n{limits}\ngrace_seconds = 2"));
    Some(stage)
}

/// Checks that the script ran, and that nothing appends the time any more.
fn is_gone(stage: &Stage) {
    let beat = || fs::read_to_string(stage.project.root().join("beat")).unwrap_or_default();
    let last = beat();
    assert!(!last.is_empty(), "{:?}: it was never started", stage.cli);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(beat(), last, "{:?}: it is still running", stage.cli);
}

#[test]
fn process_in_another_session_is_killed_with_the_turn() {
    for_each_agent(|cli| {
        let script =
            format!("setsid sh -c '{BEAT}' >/dev/null 2>&1 </dev/null &\nsleep 1\necho started");
        let replies = json!([{"tools": [shell(cli, "sh start.sh now")]}, {"text": "Started.\n"}]);
        let Some(stage) = stage(cli, &script, &replies, "") else {
            return;
        };
        let turn = stage.turn(
            "implement",
            &["--change", "add-login", "--model", cli.model()],
        );
        let left = turn.ok()["left_behind"].as_u64().unwrap();
        // The sandbox of codex kills the processes in it.
        assert_eq!(left > 0, cli != Cli::Codex, "{cli:?}: {left}");
        is_gone(&stage);
    });
}

#[test]
fn trap_8_tool_processes_are_killed_with_their_agent() {
    for_each_agent(|cli| {
        let replies = json!([{"tools": [shell(cli, "sh start.sh now")]}, {"hang": true}]);
        let Some(stage) = stage(cli, BEAT, &replies, "wall_seconds = 12") else {
            return;
        };
        stage
            .turn(
                "implement",
                &["--change", "add-login", "--model", cli.model()],
            )
            .fails("AgentTimedOut");
        is_gone(&stage);
    });
}
