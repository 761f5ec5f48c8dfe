//! The real claude, gemini and codex, run against the scripted model server.
//!
//! These tests run where `AGENTD_REAL_AGENTS` names the folder of the commands. `./test.sh
//! --real-agents` installs them and sets it.

mod change;
mod chat;
mod failures;
mod left_behind;
mod light;
mod seed_002;
mod traps;
mod troupe;
mod turns;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use serde_json::{Value, json};

use crate::support::model_server_process::ModelServer;
use crate::support::recording_agent::{RecordedCall, call};
use crate::support::{Run, TestProject, did_not_run, files_below, write, write_program};

/// The request of every turn.
const REQUEST: &str = "Add login, <now> & well.";

/// One of the three real agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cli {
    Claude,
    Gemini,
    Codex,
}

impl Cli {
    fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Gemini => "gemini",
            Self::Codex => "codex",
        }
    }

    /// A call of the agent's edit tool that replaces beta with GAMMA in hello.txt.
    fn edit_call(self, root: &Path) -> Value {
        let path = root.join("hello.txt");
        match self {
            Self::Claude => json!({"name": "Edit", "input": {
                "file_path": path, "old_string": "beta", "new_string": "GAMMA",
            }}),
            Self::Gemini => json!({"name": "replace", "input": {
                "file_path": path, "old_string": "beta", "new_string": "GAMMA", "instruction": "Put GAMMA there.",
            }}),
            Self::Codex => json!({"name": "apply_patch", "input":
                "*** Begin Patch\n*** Update File: hello.txt\n@@\n alpha\n-beta\n+GAMMA\n*** End Patch\n"
            }),
        }
    }

    /// A call of the agent's tool that reads hello.txt. Some agents refuse to edit a file they have
    /// not read.
    fn read_call(self, root: &Path) -> Value {
        let path = root.join("hello.txt");
        match self {
            Self::Claude => json!({"name": "Read", "input": {"file_path": path}}),
            Self::Gemini => json!({"name": "read_file", "input": {"file_path": path}}),
            Self::Codex => json!({"name": "exec_command", "input": {"cmd": "cat hello.txt"}}),
        }
    }

    /// A model for which the agent offers all its tools.
    fn model(self) -> &'static str {
        match self {
            Self::Claude => "claude-sonnet-4-5",
            Self::Gemini => "gemini-2.5-pro",
            Self::Codex => "gpt-5.5",
        }
    }
}

/// Runs a function with each agent concurrently.
fn for_each_agent(test: impl Fn(Cli) + Sync) {
    thread::scope(|scope| {
        for cli in [Cli::Claude, Cli::Gemini, Cli::Codex] {
            let test = &test;
            scope.spawn(move || test(cli));
        }
    });
}

/// Returns a text of this many characters that does not repeat itself.
fn long_text(length: usize) -> String {
    let lines = (1..).flat_map(|number: u32| {
        format!("Line {number} — é of a long text.\n")
            .chars()
            .collect::<Vec<_>>()
    });
    lines.take(length).collect()
}

/// Returns the folder of the real agents; `None`, with a note, if they are not installed.
fn real_agents() -> Option<PathBuf> {
    let agents = env::var_os("AGENTD_REAL_AGENTS");
    if agents.is_none() {
        let why = "./test.sh --real-agents installs claude, gemini and codex and runs them";
        did_not_run("real_agents", why);
    }
    agents.map(PathBuf::from)
}

/// Puts a wrapper in front of a real command that records its arguments and working folder.
fn wrap_command(project: &TestProject, cli: Cli, agents: &Path, prompt: &Path) {
    let (name, home) = (cli.name(), project.home());
    let calls = home.join("calls").join(name);
    let script = format!(
        "#!/bin/sh\nset -eu\nn=1\nwhile ! mkdir '{calls}'/$n 2>/dev/null; do n=$((n + 1)); done\n\
         printf '%s\\n' \"$@\" >'{calls}'/$n/argv\nenv >'{calls}'/$n/env\npwd -P >'{calls}'/$n/cwd\n\
         readlink /proc/$$/fd/1 >'{calls}'/$n/stdout\ncat >'{calls}'/$n/stdin\n\
         cp '{calls}'/$n/stdin '{prompt}'\nexec '{real}' \"$@\" <'{calls}'/$n/stdin\n",
        calls = calls.display(),
        prompt = prompt.display(),
        real = agents.join(name).display(),
    );
    let wrapper = home.join("bin").join(name);
    write_program(&wrapper, script);
    fs::create_dir_all(calls).unwrap();
}

/// Points an agent at a server, with as few retries as its settings allow. Returns its variables.
fn point_at_server(project: &TestProject, cli: Cli, url: &str) -> Vec<(String, OsString)> {
    let home = project.home();
    let own = |name: &str, value: &str| (name.to_owned(), OsString::from(value));
    match cli {
        Cli::Claude => vec![
            own("ANTHROPIC_BASE_URL", url),
            own("ANTHROPIC_API_KEY", "sk-ant-of-no-use"),
            own("CLAUDE_CODE_MAX_RETRIES", "0"),
        ],
        Cli::Gemini => {
            let settings = json!({
                "security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 1},
            });
            write(&home.join(".gemini/settings.json"), settings.to_string());
            vec![
                own("GOOGLE_GEMINI_BASE_URL", url),
                own("GEMINI_API_KEY", "gemini-of-no-use"),
            ]
        }
        Cli::Codex => {
            let settings = format!(
                "model_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\n\
                 base_url = \"{url}/v1\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n\
                 request_max_retries = 0\nstream_max_retries = 0\n"
            );
            write(&home.join("codex/config.toml"), settings);
            let folder = home.join("codex").display().to_string();
            vec![
                own("OPENAI_API_KEY", "sk-openai-of-no-use"),
                own("CODEX_HOME", &folder),
            ]
        }
    }
}

/// Returns the program, with the agents on its PATH and nothing else of this environment.
fn program(
    project: &TestProject,
    variables: &BTreeMap<String, OsString>,
    args: &[&str],
) -> Command {
    let mut folders = vec![project.home().join("bin")];
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap()));
    let mut command = project.command(args);
    command
        .env_clear()
        .env("HOME", project.home())
        .env("PATH", env::join_paths(folders).unwrap());
    command.env("LANG", "C.UTF-8").envs(variables);
    command
}

/// A project and a home folder, one of the real agents, and a server that plays its model.
struct Stage {
    cli: Cli,
    agents: PathBuf,
    project: TestProject,
    server: ModelServer,
    variables: BTreeMap<String, OsString>,
}

impl Stage {
    /// Creates the stage; `None`, with a note, if the real agents are not installed.
    fn set(cli: Cli, replies: impl FnOnce(&Path) -> Value) -> Option<Self> {
        let agents = real_agents()?;
        let project = TestProject::new();
        project
            .write("hello.txt", "alpha\nbeta\n")
            .write("agentd/project.md", "A small <shop> & more.\n");
        project.write("agentd/changes/add-login/proposal.md", "# Add login\n");
        let server = ModelServer::start(&replies(&project.root()));
        let mut stage = Self {
            cli,
            agents,
            project,
            server,
            variables: BTreeMap::new(),
        };
        wrap_command(&stage.project, cli, &stage.agents, &stage.server.prompt());
        let url = stage.server.url().to_owned();
        stage.point_at_server(&url);
        stage.settings("[limits]\nmax_wait_seconds = 0");
        Some(stage)
    }

    fn point_at_server(&mut self, url: &str) {
        self.variables
            .extend(point_at_server(&self.project, self.cli, url));
    }

    /// Writes the user's settings of agentd.
    fn settings(&self, lines: &str) {
        // The providers of codex are in its own settings.
        let own = self.cli == Cli::Codex && !lines.contains("user_config");
        let switches = if own {
            "[agents.codex]\nuser_config = true\n"
        } else {
            ""
        };
        write(
            &self.project.user_folder().join("config.toml"),
            format!("format = 1\n{lines}\n{switches}"),
        );
    }

    fn bin(&self) -> PathBuf {
        self.project.home().join("bin")
    }

    fn run(&self, args: &[&str]) -> Run {
        Run::from(
            program(&self.project, &self.variables, args)
                .output()
                .unwrap(),
        )
    }

    /// Takes a turn and returns its result.
    fn turn(&self, mode: &str, more: &[&str]) -> Turn {
        let mut args = vec!["turn", mode, REQUEST, "--agent", self.cli.name(), "--json"];
        args.extend(more);
        let run = self.run(&args);
        let report = run.last_line();
        Turn {
            code: run.code,
            end: report["report"]["end"].clone(),
            report,
            stderr: run.stderr,
        }
    }

    /// Repeats the first call without agentd, and returns its output.
    fn call_again(&self) -> Output {
        let stdin = fs::File::open(
            self.project
                .home()
                .join("calls")
                .join(self.cli.name())
                .join("1/stdin"),
        );
        let mut command = Command::new(self.bin().join(self.cli.name()));
        command
            .args(self.recorded_call(1).argv)
            .current_dir(self.project.root())
            .stdin(stdin.unwrap())
            .env_clear();
        let variables = self.recorded_call(1).environment;
        command.envs(variables.iter().filter_map(|line| line.split_once('=')));
        command.output().unwrap()
    }

    /// Returns a call, the first by number 1.
    fn recorded_call(&self, number: usize) -> RecordedCall {
        call(&self.project, self.cli.name(), number)
    }

    /// Returns the prompt of the last turn from the ledger.
    fn sent_prompt(&self) -> String {
        self.run(&["show", "last", "--prompt"]).ok()
    }

    /// Checks that the prompt arrived byte for byte as a separate text, and is part of all later
    /// requests.
    fn prompt_arrived_whole(&self) {
        let requests = self.server.requests();
        assert_eq!(requests[0]["prompt"], "whole", "{}", requests[0]);
        for request in requests {
            // The agent may merge consecutive messages.
            assert_ne!(request["prompt"], "missing", "{request}");
        }
        assert_eq!(self.recorded_call(1).stdin, self.sent_prompt());
    }

    /// Returns all files of the project except those of git and of the ledger.
    fn tree(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let root = self.project.root();
        let own = |path: &PathBuf| !path.starts_with(".git") && !path.starts_with(".agentd");
        let files = files_below(&root).into_iter().filter(own);
        files
            .map(|path| (path.clone(), fs::read(root.join(path)).unwrap()))
            .collect()
    }
}

/// The result of a turn.
#[derive(Debug)]
struct Turn {
    code: i32,
    end: Value,
    report: Value,
    stderr: String,
}

impl Turn {
    /// Checks that the turn succeeded, and returns its report.
    fn ok(&self) -> &Value {
        assert_eq!(
            (self.code, &self.end),
            (0, &json!({"end": "ok"})),
            "{}\n{}",
            self.report,
            self.stderr
        );
        &self.report["report"]
    }

    /// Checks that the turn failed with a kind of error.
    fn fails(&self, kind: &str) -> &Self {
        assert_eq!(
            self.report["fault"]["kind"], kind,
            "{}\n{}",
            self.report, self.stderr
        );
        assert_eq!(self.code, 5);
        self
    }
}
