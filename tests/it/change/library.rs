//! A change run through the library: decisions, reports and continuation.

use agentd::agent::{Drivers, SCRIPTED, Scripted};
use agentd::apply::NextStep;
use agentd::config::CheckCommand;
use agentd::models::{AgentName, Decision, Mode, SessionId};
use agentd::ops::{Git, Operations, Repository};
use agentd::orchestrator::{
    AcceptNow, ApproveAll, ChangeEvent, ChangeOutcome, ChangeRequest, ChangeStatus, Decider,
    LeaveWaiting, PersonDecision, Run, TurnContext, Workspace, WorkspaceOptions,
    check_change_start, decide, run_change,
};
use agentd::pack::{DEMO, DEMO_SCRIPT};
use agentd::store::{MemoryStore, Store};
use agentd::{Error, ErrorKind, Result};

use crate::support::TestProject;

/// The demo project with its scripted agent, opened by a program.
struct Program {
    project: TestProject,
    workspace: Workspace,
    store: MemoryStore,
    drivers: Drivers,
    operations: Operations,
    run: Run,
}

impl Program {
    fn new(trust: AcceptNow) -> Self {
        let project = TestProject::new();
        for (path, text) in DEMO {
            project.write(path, text);
        }
        let git = git(&project);
        Repository::create(&project.root(), &git, "A program that greets").unwrap();

        let options = WorkspaceOptions::default()
            .with_user(project.user_folder())
            .with_worktrees(project.home().join("worktrees"));
        let workspace = Workspace::open(project.root(), options).unwrap();
        let guard = std::path::PathBuf::from(env!("CARGO_BIN_EXE_agentd"));
        let mut drivers = workspace.drivers(guard).unwrap();
        let script = Scripted::read(DEMO_SCRIPT, "demo script").unwrap();
        drivers.registered.register(SCRIPTED, script);
        Self {
            project,
            workspace,
            store: MemoryStore::default(),
            drivers,
            operations: Operations::shipped(),
            run: Run {
                trust,
                git,
                ..Run::new("test").unwrap()
            },
        }
    }

    fn context(&self) -> TurnContext<'_> {
        TurnContext {
            workspace: &self.workspace,
            store: &self.store,
            drivers: &self.drivers,
            operations: &self.operations,
            run: &self.run,
        }
    }

    /// Runs the change, and returns the modes of its turns.
    fn run(&self, decider: &mut dyn Decider) -> (Vec<String>, Result<ChangeOutcome>) {
        let mut modes = Vec::new();
        let outcome = run_change(&self.context(), &request(), decider, &mut |event| {
            if let ChangeEvent::TurnTaken(report) = event {
                modes.push(report.mode.to_string());
            }
            Ok(())
        });
        (modes, outcome)
    }
}

fn git(project: &TestProject) -> Git {
    let home = project.home().display().to_string();
    let variables = [
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("HOME", home.as_str()),
    ];
    let env = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Git {
        env: env.to_vec(),
        ..Git::default()
    }
}

fn change() -> SessionId {
    SessionId::new("greet-anyone").unwrap()
}

fn request() -> ChangeRequest {
    ChangeRequest::new(change()).with_request("Greet people without a name, too")
}

#[test]
fn change_waits_for_approval_and_continues_after_a_decision() {
    let program = Program::new(AcceptNow::Everything);
    let (modes, outcome) = program.run(&mut LeaveWaiting);
    assert_eq!(modes, ["plan", "challenge", "plan", "challenge"]);
    let implement = Mode::new("implement").unwrap();
    let next = NextStep::Approval { mode: implement };
    assert_eq!(outcome.unwrap().status.next, next);

    decide(&program.context(), &change(), Decision::Approve, None).unwrap();
    let (modes, outcome) = program.run(&mut LeaveWaiting);
    assert_eq!(modes, ["implement", "review", "implement", "review"]);
    let archive = Mode::new("archive").unwrap();
    let next = NextStep::Approval { mode: archive };
    assert_eq!(outcome.unwrap().status.next, next);

    let (modes, outcome) = program.run(&mut ApproveAll);
    assert_eq!(modes, ["archive"]);
    assert_eq!(outcome.unwrap().status.next, NextStep::Over { done: true });
    assert!(program.project.read("greet.sh").contains("${1:-world}"));
    assert!(
        !program
            .project
            .home()
            .join("worktrees/greet-anyone")
            .exists()
    );
}

#[test]
fn progress_callback_error_ends_the_run_and_repeats_nothing() {
    let program = Program::new(AcceptNow::Everything);
    let mut taken = 0;
    let error = run_change(&program.context(), &request(), &mut ApproveAll, &mut |_| {
        taken += 1;
        Err(Error::new(ErrorKind::FileUnusable, "stdout is closed"))
    })
    .unwrap_err();
    assert_eq!((taken, error.message()), (1, "stdout is closed"));
    assert_eq!(program.store.state(&change()).unwrap().turns, 1);

    let (modes, outcome) = program.run(&mut ApproveAll);
    assert_eq!(
        modes[0], "challenge",
        "the plan was recorded and is not repeated"
    );
    assert_eq!(outcome.unwrap().status.next, NextStep::Over { done: true });
}

#[test]
fn one_phase_is_run_and_reports_that_it_sent_the_work_back() {
    let program = Program::new(AcceptNow::Everything);
    let phase = |mode: &str| ChangeRequest {
        only: Some(Mode::new(mode).unwrap()),
        ..request()
    };
    let run = |mode| {
        let context = program.context();
        run_change(&context, &phase(mode), &mut LeaveWaiting, &mut |_| Ok(()))
    };
    assert!(!run("plan").unwrap().sent_back);
    assert!(run("challenge").unwrap().sent_back);
}

/// Accepts the checks of the project, and records the questions.
#[derive(Default)]
struct Accepting {
    asked: Vec<String>,
    answer: bool,
}

impl Decider for Accepting {
    fn decide(&mut self, _status: &ChangeStatus) -> Result<Option<PersonDecision>> {
        Ok(None)
    }

    fn accept_checks(&mut self, commands: &[CheckCommand]) -> Result<bool> {
        self.asked
            .extend(commands.iter().map(|command| command.run.clone()));
        Ok(self.answer)
    }
}

#[test]
fn checks_are_accepted_once_before_anything_is_spent() {
    let program = Program::new(AcceptNow::Nothing);
    let mut refusing = Accepting::default();

    let (modes, outcome) = program.run(&mut refusing);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotTrusted);
    assert_eq!((modes.len(), refusing.asked.len()), (0, 1));
    assert!(program.store.events(&change()).unwrap().is_empty());

    let mut accepting = Accepting {
        answer: true,
        ..Accepting::default()
    };
    let context = program.context();

    let trust = AcceptNow::Nothing;
    check_change_start(
        context.workspace,
        context.drivers,
        trust,
        &request(),
        &mut accepting,
    )
    .unwrap();
    assert_eq!(accepting.asked, refusing.asked);

    // Accepted checks stay accepted, so there is no second question.
    let mut silent = Accepting::default();
    let request = ChangeRequest {
        only: Some(Mode::new("plan").unwrap()),
        ..request()
    };

    run_change(&context, &request, &mut silent, &mut |_| Ok(())).unwrap();
    assert_eq!(silent.asked, Vec::<String>::new());
}

#[test]
fn change_without_an_agent_creates_nothing() {
    let cases = [
        ("nobody", ErrorKind::UnknownAgent),
        ("replay:other/1", ErrorKind::TurnNotFound),
    ];

    for (agent, kind) in cases {
        let program = Program::new(AcceptNow::Everything);
        let request = ChangeRequest {
            agent: Some(AgentName::new(agent).unwrap()),
            ..request()
        };
        let context = program.context();
        let outcome = run_change(&context, &request, &mut LeaveWaiting, &mut |_| Ok(()));
        assert_eq!(outcome.unwrap_err().kind(), kind);
        assert!(program.store.events(&change()).unwrap().is_empty());
        assert!(!program.project.home().join("worktrees").exists());
    }
}
