//! Containment of an agent that misbehaves in every known way, and cleanup of its processes.

mod ends;
mod killed;
mod left_behind;
mod limits;
mod start;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use agentd::Result;
use agentd::agent::{
    CommandExit, Containment, ContainmentFacts, GuardedCommand, GuardedProcess, Limits, launch,
    prepare,
};
use tempfile::TempDir;

use crate::support::waiting::{HANG, processes_by_environment, until_written};
use crate::support::{did_not_run, program};

/// A call to the misbehaving agent.
struct Call {
    parent: TempDir,
    prompt: Vec<u8>,
    env: Vec<(OsString, OsString)>,
    limits: Limits,
    containment: Containment,
}

impl Call {
    fn new() -> Self {
        let env = vec![(OsString::from("PATH"), std::env::var_os("PATH").unwrap())];
        // Long enough for an agent to exit on SIGTERM on any machine.
        let limits = Limits {
            grace: HANG,
            ..Limits::default()
        };
        let parent = tempfile::tempdir().unwrap();
        Self {
            parent,
            prompt: b"hello\n".to_vec(),
            env,
            limits,
            containment: Containment::Guard,
        }
    }

    fn within(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::new()
        }
    }

    fn folder(&self) -> PathBuf {
        self.parent.path().join("runs/1")
    }

    fn marker(&self) -> String {
        format!("test-{}", self.parent.path().display())
    }

    /// Starts a command.
    fn start(&self, argv: &[&str]) -> Result<GuardedProcess> {
        self.start_under(guard(), argv)
    }

    /// Starts a command under another guard.
    fn start_under(&self, guard: &Path, argv: &[&str]) -> Result<GuardedProcess> {
        prepare(&self.folder(), &self.prompt)?;
        let argv: Vec<String> = argv.iter().map(|&argument| argument.to_owned()).collect();
        launch(&GuardedCommand {
            guard,
            argv: &argv,
            env: &self.env,
            cwd: self.parent.path(),
            folder: &self.folder(),
            marker: &self.marker(),
            limits: self.limits,
            containment: self.containment,
        })
    }

    /// Starts the misbehaving agent.
    fn start_agent(&self, steps: &[&str]) -> GuardedProcess {
        let agent = program("fake_agent");
        let argv: Vec<&str> = [agent.to_str().unwrap()]
            .into_iter()
            .chain(steps.iter().copied())
            .collect();
        self.start(&argv).unwrap()
    }

    /// Runs a command until it exits. No process of it may be alive afterwards.
    fn run(&self, argv: &[&str]) -> CommandExit {
        self.end_of(self.start(argv).unwrap())
    }

    /// Runs the misbehaving agent until it exits. No process of it may be alive afterwards.
    fn run_agent(&self, steps: &[&str]) -> CommandExit {
        self.end_of(self.start_agent(steps))
    }

    fn end_of(&self, mut contained: GuardedProcess) -> CommandExit {
        let exit = contained.wait(HANG).unwrap().unwrap();
        assert_eq!(living_pids(&self.marker()), BTreeSet::new());
        exit
    }

    /// Waits until the agent has written something.
    fn wait_for(&self, words: &str) {
        until_written(&self.folder().join("stdout"), words);
    }

    fn stdout(&self) -> Vec<u8> {
        fs::read(self.folder().join("stdout")).unwrap_or_default()
    }

    fn stdout_text(&self) -> String {
        String::from_utf8(self.stdout()).unwrap()
    }
}

fn guard() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_agentd"))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Returns the kinds of containment that this machine supports, for a test to run with each.
fn supported_kinds(test: &str) -> Vec<Containment> {
    static FACTS: OnceLock<ContainmentFacts> = OnceLock::new();
    let facts = FACTS.get_or_init(|| ContainmentFacts::find(guard()));
    facts.guard.as_ref().unwrap();
    if facts.namespace.is_ok() {
        return vec![Containment::Guard, Containment::Namespace];
    }
    did_not_run(
        &format!("{test} (namespace)"),
        "namespaces are not available",
    );
    vec![Containment::Guard]
}

/// Returns the pids of living processes that carry a marker, without using the program under test.
fn living_pids(marker: &str) -> BTreeSet<u32> {
    let marker = format!("AGENTD_CALL={marker}");
    processes_by_environment(|entries| entries.contains(&marker.as_bytes()))
}
