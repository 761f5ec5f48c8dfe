//! Turns that are killed, refused, disturbed or out of budget at every step, through the whole
//! program.

mod budget;
mod busy;
mod edits;
mod foreign;
mod kill_loop;
mod misbehaviour;
mod outside;
mod points;
mod removed;
mod signals;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use agentd::ReviewResult;
use agentd::models::{CallEnd, CallOutcome, Event, Mode, SessionId, State};
use agentd::store::{BudgetScope, SqliteStore, Store};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::waiting::{processes_of_calls, until, until_written};
use crate::support::{Run, TestProject, files_below, program, write};

/// Output of recovery when there is nothing to do.
const NOTHING: &str = "note: nothing to resume\n";

/// The agent's key, which must never be visible.
const CANARY: &str = "canary-kept-to-itself";

/// Maximum number of tokens of a session, far more than these turns need.
const CAP: u64 = 2_000_000;

/// The file that the agent's reply updates.
const TARGET: &str = "agentd/changes/s/proposal.md";

/// Content of that file after the update.
const WRITTEN: &str = "# Login\n";

/// Events of an undisturbed turn.
const UNDISTURBED: [&str; 9] = [
    "entered", "started", "called", "launched", "answered", "replied", "intended", "settled",
    "entered",
];

/// A project with an agent that logs each of its calls in a file, independently of the program.
struct Stage {
    project: TestProject,
}

impl Stage {
    /// Creates a project whose agent prints its key and answers with an update and a verdict.
    fn new() -> Self {
        Self::with(&["env", "reply"])
    }

    /// Creates a project whose agent takes these steps. `reply` is the one that answers.
    fn with(steps: &[&str]) -> Self {
        let stage = Self {
            project: TestProject::new(),
        };
        stage.reply(WRITTEN);
        stage.steps(steps);
        stage.define("");
        stage.settings("");
        stage
    }

    /// Sets the reply of the agent.
    fn reply(&self, content: &str) {
        let reply = format!(
            "Planned.\n<content_update target=\"proposal.md\">\n{content}</content_update>\n<review>PASS</review>\n"
        );
        write(&self.outside("reply"), reply);
    }

    /// Sets the steps that the agent takes after logging its call.
    fn steps(&self, steps: &[&str]) {
        let mut script = format!("call-log {}\n", self.outside("calls").display());
        for step in steps {
            match *step {
                "reply" => script.push_str(&format!("cat {}\n", self.outside("reply").display())),
                step => script.push_str(&format!("{step}\n")),
            }
        }
        write(&self.outside("script"), script);
    }

    /// Sets further keys of the agent's definition, besides its command and variables.
    fn define(&self, more: &str) {
        let (agent, script) = (program("fake_agent"), self.outside("script"));
        let definition = format!(
            "format: 1\nagents:\n  fake:\n    argv: [{}, {}]\n    environment: [FAKE_*]\n{more}",
            agent.display(),
            script.display()
        );
        write(&self.project.user_folder().join("agents.yaml"), definition);
    }

    /// Sets the user's settings, besides a budget that is never reached.
    fn settings(&self, more: &str) {
        // The fake agent does not read its prompt, so it cannot know the nonce.
        let settings = format!("format = 1\nverdict_nonce = \"off\"\n{more}\n");
        let cap = format!("[budget.session]\ntokens = {CAP}\n");
        let cap = if more.contains("[budget.session]") {
            ""
        } else {
            &cap
        };
        write(
            &self.project.user_folder().join("config.toml"),
            format!("{settings}{cap}"),
        );
    }

    /// Returns a path outside the project, so that it is not part of a prompt.
    fn outside(&self, name: &str) -> PathBuf {
        self.project.home().join(name)
    }

    fn trace_file(&self) -> PathBuf {
        self.outside("trace")
    }

    /// Returns the fail points passed since the last command was created.
    fn trace(&self) -> Vec<String> {
        let trace = fs::read_to_string(self.trace_file()).unwrap_or_default();
        trace.lines().map(str::to_owned).collect()
    }

    /// Returns the program, with a fault if one is given. It logs the fail points it passes.
    fn command(&self, args: &[&str], fault: &str) -> Command {
        let _none = fs::remove_file(self.trace_file());
        let mut command = self.project.command(args);
        command
            .env("FAKE_API_KEY", CANARY)
            .env("AGENTD_FAIL_TRACE", self.trace_file());
        if !fault.is_empty() {
            command.env("AGENTD_FAIL", fault);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, "")
    }

    fn run_with(&self, args: &[&str], fault: &str) -> Run {
        let run = Run::from(self.command(args, fault).output().unwrap());
        assert!(
            !run.stdout.contains(CANARY) && !run.stderr.contains(CANARY),
            "{run:?}"
        );
        run
    }

    /// Starts the program, to be watched and killed.
    fn start(&self, args: &[&str], fault: &str) -> Child {
        let mut command = self.command(args, fault);
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Starts a turn that waits at a fail point, and returns once it is there. `release` lets it
    /// continue.
    fn start_held(&self, point: &str) -> Child {
        let child = self.start(&TURN, &self.hold_at(point));
        until_written(&self.trace_file(), &format!("{point}\n"));
        child
    }

    /// Returns the fault that makes the program wait at a fail point for `release`.
    fn hold_at(&self, point: &str) -> String {
        let _none = fs::remove_file(self.release_file());
        format!("{point}=until:{}", self.release_file().display())
    }

    fn release_file(&self) -> PathBuf {
        self.outside("release")
    }

    /// Releases a program that waits at a fail point, or an agent in the step
    /// `self.await_release()`.
    fn release(&self) {
        write(&self.release_file(), "");
    }

    /// Returns the step of an agent that waits for `release`.
    fn await_release(&self) -> String {
        format!("await {}", self.release_file().display())
    }

    /// Takes a turn with its report in JSON.
    fn turn(&self) -> Run {
        self.run(&[&TURN[..], &["--json"]].concat())
    }

    /// Returns the number of calls of the agent.
    fn calls(&self) -> usize {
        fs::read_to_string(self.outside("calls"))
            .unwrap_or_default()
            .lines()
            .count()
    }

    fn store(&self) -> Option<SqliteStore> {
        SqliteStore::open_existing(&self.project.root()).unwrap()
    }

    fn events(&self) -> Vec<(SystemTime, Event)> {
        self.store()
            .map(|store| store.events(&session()).unwrap())
            .unwrap_or_default()
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

    /// Returns the living processes of calls.
    fn alive(&self) -> BTreeSet<u32> {
        processes_of_calls(&self.project.home())
    }

    /// Checks that all processes of an ended program exit by themselves.
    fn is_alone_soon(&self) {
        until("an agent outlives its program", || self.alive().is_empty());
    }

    /// Finishes a session like a user, whatever the state of its last turn. Recovery may run
    /// repeatedly: the second time it has nothing to do.
    fn finish(&self) {
        self.run(&["resume"]).ok();
        let once = self.events();

        let again = self.run(&["resume"]);
        assert_eq!(
            (again.code, again.stdout.as_str(), again.stderr.as_str()),
            (0, "", NOTHING)
        );
        assert_eq!(self.events(), once, "recovery did something twice");

        if once
            .iter()
            .any(|(_, event)| matches!(event, Event::Started(_)))
        {
            self.run(&["resume", "s"]).ok();
        } else {
            self.run(&TURN).ok();
        }
    }

    /// Checks the invariants after recovery. `before` was in the ledger, and the target held one of
    /// `images`.
    fn check(&self, before: &[(SystemTime, Event)], images: &[Option<&str>]) {
        let events = self.events();
        assert!(events.starts_with(before), "I1: a recorded event is lost");

        let mut replied = BTreeMap::<u64, u64>::new();
        let mut called = 0;
        for (_, event) in &events {
            match event {
                Event::Replied { turn, .. } => *replied.entry(*turn).or_default() += 1,
                Event::Called { .. } => called += 1,
                _ => {}
            }
        }

        assert!(
            replied.values().all(|times| *times == 1),
            "I2: a turn has several replies: {replied:?}"
        );
        assert!(
            self.calls() <= called,
            "I3: {} calls, and {called} are recorded",
            self.calls()
        );
        assert_eq!(
            self.alive(),
            BTreeSet::new(),
            "I4: a process is still running"
        );

        if let Some(store) = self.store() {
            assert_eq!(
                store.verify().unwrap(),
                Vec::<String>::new(),
                "I5: the ledger is damaged"
            );

            let spent = store
                .spent(&BudgetScope::Session(&session()))
                .unwrap()
                .amount
                .tokens;
            assert_eq!(
                spent,
                tokens_of(&events),
                "I6: the budget differs from the sum of the calls"
            );
            assert!(spent <= CAP, "I6: {spent}");
        }

        let image = fs::read_to_string(self.project.root().join(TARGET)).ok();
        assert!(images.contains(&image.as_deref()), "I7: {image:?}");

        self.check_secrets();
    }

    /// I8: the agent's key is stored nowhere, and no file remains that may hold it.
    fn check_secrets(&self) {
        for folder in [self.project.root(), self.project.home()] {
            for file in files_below(&folder) {
                let bytes = fs::read(folder.join(&file)).unwrap();
                let found = bytes
                    .windows(CANARY.len())
                    .any(|bytes| bytes == CANARY.as_bytes());
                assert!(!found, "I8: the key is in {}", file.display());
                let name = file.file_name().unwrap().to_str().unwrap();
                assert!(
                    !name.starts_with(".agentd-unfinished-"),
                    "{} remains",
                    file.display()
                );
            }
        }

        if let Some(store) = self.store() {
            for id in self.events().iter().flat_map(|(_, event)| event.blob_ids()) {
                let text = String::from_utf8(store.blob(id).unwrap().unwrap()).unwrap();
                assert!(!text.contains(CANARY), "I8: the key is in the ledger");
            }
        }

        let runs = self.project.root().join(".agentd/calls");
        let left: Vec<_> = fs::read_dir(runs)
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "files of a call remain");
    }

    /// Checks that the result equals that of this many undisturbed turns.
    fn check_end(&self, turns: u64, content: &str) {
        let events: Vec<Event> = self.events().into_iter().map(|(_, event)| event).collect();
        let state = State::fold(&events);
        assert_eq!(
            (state.turns, state.mode),
            (turns, Some(Mode::new("challenge").unwrap()))
        );

        let last = |event: &Event| match event {
            Event::Replied { turn, verdict, .. } if *turn == turns => Some(*verdict),
            _ => None,
        };
        assert_eq!(events.iter().find_map(last), Some(Some(ReviewResult::Pass)));
        assert_eq!(self.project.read(TARGET), content);
        assert_eq!(
            self.store().unwrap().held().unwrap(),
            [],
            "the session is free"
        );
    }
}

/// The turn used in most of these tests.
const TURN: [&str; 7] = [
    "turn",
    "plan",
    "Add login",
    "--agent",
    "fake",
    "--session",
    "s",
];

fn session() -> SessionId {
    SessionId::new("s").unwrap()
}

/// Returns the names of events.
fn names(events: &[(SystemTime, Event)]) -> Vec<String> {
    let name = |event: &Event| {
        serde_json::to_value(event).unwrap()["event"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    events.iter().map(|(_, event)| name(event)).collect()
}

/// Returns the outcomes of the calls.
fn answers(events: &[(SystemTime, Event)]) -> Vec<CallEnd> {
    let answered = |event: &Event| match event {
        Event::Answered(answered) => Some((**answered).clone()),
        _ => None,
    };
    events
        .iter()
        .filter_map(|(_, event)| answered(event))
        .collect()
}

/// Returns the outcomes of the calls as words.
fn call_outcomes(events: &[(SystemTime, Event)]) -> Vec<&'static str> {
    answers(events)
        .iter()
        .map(|answered: &CallEnd| CallOutcome::name(&answered.end))
        .collect()
}

/// Returns the usage of each call of a session: the actual one, or the reservation while the call
/// is open.
fn tokens_of(events: &[(SystemTime, Event)]) -> u64 {
    let mut calls = BTreeMap::new();
    for (_, event) in events {
        match event {
            Event::Called {
                turn,
                call,
                reserved,
                ..
            } => calls.insert((*turn, *call), reserved.tokens),
            Event::Answered(answered) => {
                calls.insert((answered.turn, answered.call), answered.spent.tokens)
            }
            _ => None,
        };
    }

    calls.into_values().sum()
}

/// Waits until a program exits, and returns its exit code.
fn code_of(mut child: Child) -> Option<i32> {
    until("the program hangs", || child.try_wait().unwrap().is_some());
    child.wait().unwrap().code()
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}
