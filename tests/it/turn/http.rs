//! Whole turns with model servers, through the program: shown, recorded, stopped, killed and
//! retried.

use std::fs;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::model_server_process::ModelServer;
use crate::support::waiting::{GROWING_LIMITS, until, until_written};
use crate::support::{Run, TestProject, files_below, write};

/// The key, which must never be visible. No pattern of secret names matches its variable.
const KEY: &str = "canary-5f3b9a1c7d";

/// A reply that plans and passes.
const REPLY: &str = "<message>Planned.</message>\n<content_update target=\"proposal.md\">\n# Login\n</content_update>\n<review run=\"{{NONCE}}\">PASS</review>\n";

const TURN: [&str; 7] = [
    "turn",
    "plan",
    "Add login",
    "--session",
    "s",
    "--agent",
    "mine:small",
];

/// A project whose user has a model server.
struct Stage {
    project: TestProject,
    server: ModelServer,
}

impl Stage {
    fn new(replies: &Value) -> Self {
        let stage = Self {
            project: TestProject::new(),
            server: ModelServer::start(replies),
        };
        write(
            &stage.project.user_folder().join("agents.yaml"),
            stage.definition(),
        );
        stage
    }

    /// Returns the definition of the server, as `mine`.
    fn definition(&self) -> String {
        let url = self.server.url();
        format!(
            "format: 1\nproviders:\n  mine: {{dialect: openai, base_url: '{url}/v1', key: UNLOCKER}}\n"
        )
    }

    fn settings(&self, settings: &str) {
        write(
            &self.project.user_folder().join("config.toml"),
            format!("format = 1\n{settings}"),
        );
    }

    fn run(&self, args: &[&str]) -> Run {
        let run = Run::from(
            self.project
                .command(args)
                .env("UNLOCKER", KEY)
                .output()
                .unwrap(),
        );
        assert!(
            !run.stdout.contains(KEY) && !run.stderr.contains(KEY),
            "{run:?}"
        );
        run
    }

    /// Starts a turn, and returns it once the model has sent something.
    fn start_turn(&self, said: &str) -> Child {
        let mut command = self.project.command(&TURN);
        command
            .env("UNLOCKER", KEY)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let stdout = self.project.root().join(".agentd/calls/s.1.1/stdout");
        until_written(&stdout, said);
        child
    }

    /// Returns the entry of the last turn in the log.
    fn last_row(&self) -> Value {
        self.run(&["log", "s", "--json"])
            .json()
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone()
    }

    /// Returns the command lines of the living processes of calls.
    fn alive(&self) -> Vec<String> {
        let home = format!("HOME={}", self.project.home().display());
        let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let folder = entry.ok()?.path();
            let environment =
                String::from_utf8_lossy(&fs::read(folder.join("environ")).ok()?).into_owned();
            let is_ours = environment.contains(&home) && environment.contains("AGENTD_CALL=");
            let line =
                String::from_utf8_lossy(&fs::read(folder.join("cmdline")).ok()?).into_owned();
            is_ours.then_some(line)
        });
        lines.collect()
    }
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

#[test]
fn turn_runs_with_a_model_server() {
    let usage = json!({"input": 900, "cache_read": 100, "output": 40, "reasoning": 5});
    let stage = Stage::new(&json!([{"text": REPLY, "usage": usage, "chunk": 11}]));
    let shown = stage.run(&[&["prompt"], &TURN[1..]].concat()).ok();
    assert!(
        shown.starts_with("<prompt>"),
        "the pack writes XML, for models without tools too"
    );

    let run = stage.run(&[&TURN[..], &["--json"]].concat());
    let report = run.report();
    assert_eq!(report["report"]["response"]["message"], "Planned.");
    assert_eq!(report["report"]["verdict"], "PASS");
    assert_eq!(report["report"]["usage"]["input_tokens"], 900);
    assert_eq!(report["report"]["usage"]["reasoning_tokens"], 5);
    assert_eq!(
        stage.project.read("agentd/changes/s/proposal.md"),
        "# Login\n"
    );

    // The sent prompt is the shown one, as one message of the user.
    let sent: Value = serde_json::from_str(&stage.server.body(1)).unwrap();
    let prompt = stage.run(&["show", "s/1", "--prompt"]).ok();
    assert_eq!(
        sent["messages"],
        json!([{"role": "user", "content": prompt}])
    );
    assert_eq!(sent["model"], "small");

    let row = stage.last_row();
    assert_eq!(
        (&row["agent"], &row["model"]),
        (&json!("mine:small"), &json!("small"))
    );

    let used = stage.run(&["usage", "--json"]).ok();
    assert!(
        used.contains("\"agent\": \"mine:small\"") && used.contains("\"tokens\": 1040"),
        "{used}"
    );
    assert!(
        stage
            .run(&["show", "s/1", "--reply"])
            .ok()
            .contains("<message>Planned.</message>")
    );

    for path in files_below(&stage.project.root().join(".agentd")) {
        let kept = fs::read(stage.project.root().join(".agentd").join(&path)).unwrap();
        assert!(
            !kept.windows(KEY.len()).any(|bytes| bytes == KEY.as_bytes()),
            "{}",
            path.display()
        );
    }
}

#[test]
fn model_servers_get_messages_instead_of_flat_text() {
    let stage = Stage::new(&json!([{"text": "<message>Welcome.</message>"}]));
    let ask = ["architect", "Begin", "--pack", "foreman", "--agent"];
    let prompt = |more: &[&str]| stage.run(&[&["prompt"], &ask[..], more].concat()).ok();
    let shown: Value = serde_json::from_str(&prompt(&["mine:small"])).unwrap();

    let roles: Vec<&str> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!((roles[0], roles[roles.len() - 1]), ("system", "user"));

    let flat = prompt(&["mine:small", "--format", "flat"]);
    assert!(
        flat.starts_with("# THE FOREMAN\n"),
        "the given format is used"
    );
    assert_eq!(
        flat,
        prompt(&["base", "--model", "small"]),
        "others get flat text"
    );

    stage
        .run(&[&["turn"], &ask[..], &["mine:small", "--session", "novel"]].concat())
        .ok();
    let sent: Value = serde_json::from_str(&stage.server.body(1)).unwrap();
    assert_eq!(sent["messages"][0]["role"], "system");
    assert_eq!(
        sent["messages"].as_array().unwrap().last().unwrap()["content"],
        shown[roles.len() - 1]["content"]
    );
}

#[test]
fn rate_limited_request_is_retried() {
    let stage = Stage::new(&json!([
        {"status": 429, "message": "slow down", "headers": {"retry-after": "1"}},
        {"text": REPLY},
    ]));
    let report = stage.run(&[&TURN[..], &["--json"]].concat()).report();
    assert_eq!(
        (&report["report"]["calls"], &report["report"]["verdict"]),
        (&json!(2), &json!("PASS"))
    );
    assert_eq!(stage.server.requests().len(), 2);
}

#[test]
fn failures_are_reported_with_a_hint() {
    let context = "prompt is too long: 14031 tokens > 8192 maximum";
    let stage = Stage::new(&json!([
        {"status": 401, "message": format!("bad key {KEY}")},
        {"status": 400, "message": context},
        {"status": 404, "message": "model small is not there"},
    ]));
    stage.run(&TURN).fails(
        5,
        &[
            "mine:small is not logged in",
            "bad key [secret UNLOCKER]",
            "set the variable named by `key`",
        ],
    );
    stage
        .run(&TURN)
        .fails(5, &["(14031 tokens, at most 8192)", context, "hint: "]);
    stage.run(&TURN).fails(
        5,
        &[
            "mine:small failed: status 404 Not Found",
            "model small is not there",
        ],
    );

    let unset = stage.project.run(&TURN);
    unset.fails(
        5,
        &["environment variable UNLOCKER with the API key is not set"],
    );
    assert_eq!(stage.server.requests().len(), 3);
}

#[test]
fn unknown_agent_error_lists_known_agents() {
    let stage = Stage::new(&json!([{"text": "no"}]));
    let with = |agent: &str| stage.run(&["turn", "plan", "x", "--agent", agent]);
    with("mine").fails(
        3,
        &[
            "`mine` is a provider; the model is missing",
            "write `mine:MODEL`",
        ],
    );
    with("ollama:").fails(3, &["`ollama:` is a provider"]);
    with("nobody:x").fails(
        3,
        &["unknown agent `nobody:x`", "`mine:MODEL`", "`ollama:MODEL`"],
    );
    assert_eq!(stage.server.requests().len(), 0);
}

#[test]
fn budget_applies_to_model_servers() {
    let stage = Stage::new(&json!([{"text": REPLY, "usage": {"input": 90_000, "output": 10_000}}]));
    stage.settings("[budget.session]\ntokens = 100000\n");
    stage.run(&TURN).ok();
    let refused = stage.run(&TURN);
    assert!(
        refused.stderr.contains("100000 were used"),
        "{}",
        refused.stderr
    );
    assert_eq!(stage.server.requests().len(), 1);
}

#[test]
fn silent_model_is_stopped() {
    let stall = json!({"text": "abcdef", "chunk": 2, "stall_after": 2});
    let stage = Stage::new(&json!([{"hang": true}, stall]));

    stage.settings("[limits]\nidle_seconds = 1\ngrace_seconds = 1\n");
    stage
        .run(&TURN)
        .fails(5, &["was stopped after 1 s without output", "idle_seconds"]);

    let mut said = String::new();

    for seconds in GROWING_LIMITS {
        stage.settings(&format!(
            "[limits]\nidle_seconds = {seconds}\ngrace_seconds = 1\n"
        ));
        let stalled = stage.run(&TURN);
        assert_eq!(stalled.code, 5, "{}", stalled.stderr);
        assert!(
            stalled
                .stderr
                .contains(&format!("was stopped after {seconds} s without output")),
            "{}",
            stalled.stderr
        );
        let kept = stage.run(&["show", "s", "--reply"]).ok();
        assert_eq!(
            kept.trim_end(),
            stalled.stdout.trim_end(),
            "the partial reply is shown and kept"
        );
        said = stalled.stdout;
        if said == "abcd\n" {
            break;
        }
    }

    assert_eq!(said, "abcd\n", "the model had no time to report usage");

    stage.settings("[limits]\nwall_seconds = 1\ngrace_seconds = 1\n");
    let late = stage.run(&TURN);
    assert!(
        late.code == 5 && late.stderr.contains("was stopped at its time limit of 1 s"),
        "{}",
        late.stderr
    );
    assert!(stage.alive().is_empty());
}

#[test]
fn signal_stops_a_model_mid_reply() {
    let stage =
        Stage::new(&json!([{"text": REPLY, "chunk": 20, "stall_after": 1}, {"text": REPLY}]));
    let mut child = stage.start_turn("<message>Planned.");

    let lines = stage.alive();
    assert!(
        lines.iter().any(|line| line.contains("UNLOCKER")),
        "the variable is named: {lines:?}"
    );
    assert!(
        !lines.iter().any(|line| line.contains(KEY)),
        "no command line contains the key"
    );

    send(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(stage.alive().is_empty());
    assert_eq!(stage.last_row()["result"], "stopped");

    stage.run(&["resume", "s"]).ok();
    assert_eq!(stage.last_row()["verdict"], "PASS");
}

#[test]
fn partial_reply_before_a_kill_is_kept() {
    let stage =
        Stage::new(&json!([{"text": REPLY, "chunk": 20, "stall_after": 1}, {"text": REPLY}]));
    let mut child = stage.start_turn("<message>Planned.");
    send(&child, Signal::SIGKILL);

    child.wait().unwrap();
    until("the HTTP client outlives its program", || {
        stage.alive().is_empty()
    });

    stage.run(&["resume"]).ok();
    assert_eq!(stage.last_row()["result"], "lost");
    assert!(
        stage
            .run(&["show", "s/1", "--reply"])
            .ok()
            .starts_with("<message>Planned.")
    );

    stage.run(&["resume", "s"]).ok();
    assert_eq!(stage.last_row()["verdict"], "PASS");
    assert_eq!(stage.server.requests().len(), 2);

    let [first, second] = [1, 2].map(|number| stage.server.body(number));
    assert_eq!(first, second, "the same is sent again");
}

#[test]
fn server_of_a_project_requires_trust() {
    let stage = Stage::new(&json!([{"text": REPLY}]));
    let user = stage.project.user_folder().join("agents.yaml");
    fs::rename(user, stage.project.root().join("agents.yaml")).unwrap();
    stage
        .project
        .write("agentd/agents.yaml", stage.definition());

    let refused = stage.run(&TURN);
    assert!(
        refused.code != 0 && refused.stderr.contains("agentd/agents.yaml"),
        "{}",
        refused.stderr
    );
    assert_eq!(stage.server.requests().len(), 0);

    stage.run(&["trust"]).ok();
    stage.run(&TURN).ok();
    assert_eq!(stage.server.requests().len(), 1);
}
