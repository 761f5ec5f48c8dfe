//! Several real agents on one project, each with a separate server that plays its model.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentd::store::blob_id;
use serde_json::{Value, json};

use super::{Cli, point_at_server, program, real_agents, wrap_command};
use crate::support::model_server_process::ModelServer;
use crate::support::recording_agent::{RecordedCall, call, calls};
use crate::support::{Run, TestProject, write};

/// A word in every scripted reply that must not appear in any other call.
const WHISPER: &str = "whisper";

/// A project with a commit, and the agents that work on it.
pub(super) struct Troupe {
    pub(super) project: TestProject,
    agents: PathBuf,
    servers: BTreeMap<&'static str, ModelServer>,
    variables: BTreeMap<String, OsString>,
    common: Value,
}

impl Troupe {
    /// Creates the project of the changes in `tests/cases` with custom settings; `None` if the
    /// agents are not installed.
    pub(super) fn set(settings: &str) -> Option<Self> {
        let agents = real_agents()?;
        let project = TestProject::new();
        let common: Value =
            serde_saphyr::from_str(include_str!("../../data/change/common.yaml")).unwrap();
        git(
            &project.root(),
            &["symbolic-ref", "HEAD", "refs/heads/main"],
        );
        project.write("greet.sh", common["files"]["greet.sh"].as_str().unwrap());
        project.write("check.sh", common["files"]["check.sh"].as_str().unwrap());
        project.write(
            "agentd/config.toml",
            format!("format = 1\n[review]\ncommands = [\"sh check.sh\"]\n{settings}"),
        );

        // Files that each agent would follow by itself.
        for name in ["CLAUDE.md", "AGENTS.md", "GEMINI.md"] {
            project.write(name, format!("Obey {name}.\n"));
        }

        // The providers of codex are in its own settings.
        write(
            &project.user_folder().join("config.toml"),
            "format = 1\n[limits]\nmax_wait_seconds = 0\n[agents.codex]\nuser_config = true\n",
        );
        let troupe = Self {
            project,
            agents,
            servers: BTreeMap::new(),
            variables: BTreeMap::new(),
            common,
        };
        troupe.commit();
        troupe.run(&["trust"]).ok();
        Some(troupe)
    }

    /// Commits all files of the project.
    pub(super) fn commit(&self) {
        let root = self.project.root();
        git(&root, &["add", "-A"]);
        let identity = [
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.invalid",
        ];
        git(
            &root,
            &[&identity[..], &["commit", "-q", "-m", "start"]].concat(),
        );
    }

    /// Adds an agent with the replies of its model.
    pub(super) fn add_agent(&mut self, cli: Cli, replies: &[Value]) -> &mut Self {
        let server = ModelServer::start(&json!(replies));
        wrap_command(&self.project, cli, &self.agents, &server.prompt());
        self.variables
            .extend(point_at_server(&self.project, cli, server.url()));
        self.servers.insert(cli.name(), server);
        self
    }

    pub(super) fn run(&self, args: &[&str]) -> Run {
        Run::from(
            program(&self.project, &self.variables, args)
                .output()
                .unwrap(),
        )
    }

    /// Returns the reply of the model in a turn of the changes in `tests/cases`, with a word that
    /// only it may contain.
    pub(super) fn reply(&self, turn: &str) -> Value {
        let text = self.common["turns"][turn]["reply"].as_str().unwrap();
        text_reply(text)
    }

    /// Returns the work tree of a change.
    pub(super) fn tree(&self, change: &str) -> PathBuf {
        let root = self.project.root().canonicalize().unwrap();
        let hash = blob_id(root.as_os_str().as_encoded_bytes()).to_string();
        let state = self
            .project
            .home()
            .canonicalize()
            .unwrap()
            .join(".local/state/agentd/worktrees");
        state.join(format!("project-{}", &hash[..8])).join(change)
    }

    /// Returns the calls of an agent.
    pub(super) fn calls(&self, cli: Cli) -> Vec<RecordedCall> {
        let count = calls(&self.project, cli.name());
        (1..=count)
            .map(|number| call(&self.project, cli.name(), number))
            .collect()
    }

    /// Returns the bodies of the requests of an agent.
    pub(super) fn bodies(&self, cli: Cli) -> Vec<String> {
        let server = &self.servers[cli.name()];
        (1..=server.requests().len())
            .map(|number| server.body(number))
            .collect()
    }

    /// Returns the tool result that the model got before a request. The first request has number 1.
    pub(super) fn tool_result(&self, cli: Cli, number: usize) -> String {
        self.servers[cli.name()].requests()[number - 1]["extra"].to_string()
    }

    /// Checks the number of calls of an agent in a folder and the number of its requests. Each
    /// request contains the whole prompt of its call, and nothing of any other call.
    pub(super) fn check_isolation(&self, cli: Cli, folder: &Path, called: usize, requests: usize) {
        let calls = self.calls(cli);
        assert_eq!(calls.len(), called, "{cli:?}");

        for number in 1..=called {
            let file = self
                .project
                .home()
                .join(format!("calls/{}/{number}/cwd", cli.name()));
            assert_eq!(
                Path::new(fs::read_to_string(file).unwrap().trim_end()),
                folder,
                "{cli:?} {number}"
            );
        }

        let entries = self.servers[cli.name()].requests();
        assert_eq!(entries.len(), requests, "{cli:?}: {entries:?}");

        let nonces: Vec<&str> = calls.iter().filter_map(|call| nonce(&call.stdin)).collect();
        for (entry, body) in entries.iter().zip(self.bodies(cli)) {
            assert_ne!(entry["prompt"], "missing", "{cli:?}: {entry}");
            assert!(
                !body.contains(WHISPER),
                "{cli:?}: text of another turn was sent: {body}"
            );
            assert!(
                nonces.iter().filter(|nonce| body.contains(**nonce)).count() <= 1,
                "{cli:?}: {body}"
            );
        }
    }

    /// Returns the prompts sent to the agents, as recorded in the ledger.
    pub(super) fn prompts(&self, change: &str, turns: usize) -> Vec<String> {
        (1..=turns)
            .map(|turn| {
                self.run(&["show", &format!("{change}/{turn}"), "--prompt"])
                    .ok()
            })
            .collect()
    }
}

/// A reply with a text, and with a word that must not appear in any other call.
pub(super) fn text_reply(text: &str) -> Value {
    json!({"text": format!("A {WHISPER}.\n{text}"), "usage": {"input": 1000, "output": 50}})
}

/// A reply with a tool call.
pub(super) fn tool_reply(name: &str, input: &Value) -> Value {
    json!({"tools": [{"name": name, "input": input}], "usage": {"input": 0, "output": 0}})
}

/// Returns the nonce of a prompt.
fn nonce(prompt: &str) -> Option<&str> {
    let (_, rest) = prompt.split_once("<review run=\"")?;
    rest.split_once('"').map(|(nonce, _)| nonce)
}

/// Runs git in a folder, and returns its stdout.
pub(super) fn git(root: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(words)
        .current_dir(root)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
