//! One whole turn from start to recorded result, with a scripted agent and a ledger in memory.

use agentd::agent::Scripted;
use agentd::models::{ConversationTurn, Event, Mode, SessionId, State, StateDocument};
use agentd::orchestrator::{TurnRequest, Workspace, WorkspaceOptions};
use agentd::store::{MemoryStore, Store};
use agentd::{ErrorKind, ReviewResult};

use crate::support::{Run, TestProject, events, sdd_without_branch, take};

fn workspace(project: &TestProject) -> Workspace {
    Workspace::open(project.root(), WorkspaceOptions::default()).unwrap()
}

fn ask(mode: &str, text: &str) -> TurnRequest {
    TurnRequest {
        session: Some(SessionId::new("add-login").unwrap()),
        ..TurnRequest::new(Mode::new(mode).unwrap(), text)
    }
}

/// Takes a turn with `script.yaml` through the command line, on the change `add-login`.
fn turn(project: &TestProject, mode: &str, text: &str, more: &[&str]) -> Run {
    let args = [
        "turn",
        mode,
        text,
        "--agent",
        "scripted",
        "--script",
        "script.yaml",
        "--change",
        "add-login",
    ];
    project.run(&[&args[..], more].concat())
}

/// A reply for each phase of a change.
const PLAN: &str = include_str!("../../data/script/change.yaml");

#[test]
fn turn_passes_through_all_rooms() {
    let project = TestProject::new();
    let (workspace, store) = (workspace(&project), MemoryStore::default());
    let driver = Scripted::read(PLAN, "plan.yaml").unwrap();
    let report = take(&workspace, &store, &driver, &ask("plan", "Add login")).unwrap();

    assert_eq!(report.response.message, "Planned.");
    assert_eq!(report.response.thoughts, ["Sessions or tokens?"]);
    assert_eq!(report.verdict, Some(ReviewResult::Pass));
    assert_eq!(
        project.read("agentd/changes/add-login/proposal.md"),
        "# Login\n"
    );
    assert_eq!(
        project.read("agentd/changes/add-login/tasks.md"),
        "- [ ] 1.1 Add the form\n"
    );

    let reasons: Vec<_> = report
        .proposals
        .iter()
        .map(|proposal| proposal.reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            "the target is not a plain relative path",
            "replies in this mode can update only proposal.md, specs/*.md, tasks.md"
        ]
    );
    assert!(!project.root().join("evil.md").exists() && !project.root().join("src").exists());

    let events = events(&store, "add-login");
    let names: Vec<_> = events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["event"].clone())
        .collect();
    assert_eq!(
        names,
        [
            "entered", "started", "called", "answered", "replied", "intended", "intended",
            "settled", "settled", "entered"
        ]
    );
    assert_eq!(State::fold(&events), report.state);
    assert_eq!(report.state.mode, Some(Mode::new("challenge").unwrap()));
}

#[test]
fn verdicts_faults_and_tasks_select_the_next_mode() {
    let project = TestProject::new();
    project.write("agentd/packs/sdd/pack.yaml", sdd_without_branch());
    let (workspace, store) = (workspace(&project), MemoryStore::default());
    let driver = Scripted::read(PLAN, "plan.yaml").unwrap();
    let steps = [
        ("plan", Some("challenge"), None, None),
        ("challenge", Some("plan"), None, None),
        ("implement", Some("implement"), None, None),
        ("implement", Some("review"), None, None),
        (
            "review",
            Some("review"),
            None,
            Some(ErrorKind::MissingReviewMarker),
        ),
        ("review", Some("review"), Some(false), None),
        ("archive", Some("archive"), Some(true), None),
    ];

    for (mode, next, ended, fault) in steps {
        let store = if ended == Some(true) {
            &MemoryStore::default()
        } else {
            &store
        };
        let report = take(&workspace, store, &driver, &ask(mode, "Add login")).unwrap();
        assert_eq!(
            report.state.mode.as_ref().map(Mode::as_str),
            next,
            "after {mode}"
        );
        assert_eq!(report.state.ended, ended, "after {mode}");
        assert_eq!(
            report.fault.map(|fault| fault.kind()),
            fault,
            "after {mode}"
        );
    }
}

#[test]
fn mismatched_script_fails_the_turn_and_is_recorded() {
    let project = TestProject::new();
    let (workspace, store) = (workspace(&project), MemoryStore::default());
    let driver = Scripted::read(PLAN, "plan.yaml").unwrap();

    let error = take(&workspace, &store, &driver, &ask("plan", "Add logout")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ScriptMismatch);
    assert!(
        error.message().contains("Add login</instructions>"),
        "{error:#}"
    );
    assert_eq!(error.place().map(|place| place.line), Some(3));

    let events = events(&store, "add-login");
    assert!(
        matches!(events.last(), Some(Event::Answered(answered)) if !answered.end.is_ok()),
        "{events:?}"
    );
    assert!(!project.root().join("agentd").exists());
    assert_eq!(store.held().unwrap(), [], "the session is free again");
}

#[test]
fn command_takes_a_turn() {
    let project = TestProject::new();
    project.write("script.yaml", PLAN);
    let run = turn(&project, "plan", "Add login", &[]);

    for words in [
        "verdict    PASS",
        "done       wrote agentd/changes/add-login/proposal.md",
        "next       challenge",
    ] {
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }

    assert_eq!(run.ok(), "Planned.\n");

    let again = turn(&project, "plan", "Add login", &["--json"]).report();
    assert_eq!(again["report"]["verdict"], "PASS");

    let detail = "left unchanged agentd/changes/add-login/proposal.md";
    assert_eq!(again["report"]["settlements"][0]["detail"], detail);
    assert_eq!(again["fault"], serde_json::Value::Null);
}

#[test]
fn missing_verdict_sets_the_exit_code() {
    let project = TestProject::new();
    project.write("agentd/changes/add-login/proposal.md", "# Login\n");
    let script = "format: 1\nturns:\n  - reply: |\n      Hm.\n      <content_update target=\"CHALLENGE.md\">\n      C\n      </content_update>\n";
    project.write("script.yaml", script);
    let run = turn(&project, "challenge", "x", &[]);
    assert_eq!((run.code, run.stdout.as_str()), (6, "Hm.\n"));
    assert!(
        run.stderr.contains("error[MissingReviewMarker]")
            && run.stderr.contains("next       challenge")
    );
    assert_eq!(project.read("agentd/changes/add-login/CHALLENGE.md"), "C\n");
}

#[test]
fn change_is_required_where_the_pack_requires_it() {
    let project = TestProject::new();
    project.write("script.yaml", "format: 1\nturns: [{reply: x}]\n");
    let turn = |args: &[&str]| {
        let base = [
            "turn",
            "challenge",
            "x",
            "--agent",
            "scripted",
            "--script",
            "script.yaml",
        ];
        project.run(&[&base, args].concat())
    };

    turn(&[]).fails(3, &["ChangeNotFound", "--change"]);

    project.write("agentd/changes/other/proposal.md", "x");
    turn(&["--change", "nope"]).fails(3, &["ChangeNotFound", "known changes: other"]);
    project.write("agentd/changes/nope/tasks.md", "x");
    turn(&["--change", "nope"]).fails(3, &["has no proposal.md", "plan it first"]);
    turn(&["--change", "../nope"]).fails(3, &["NameInvalid"]);
}

#[test]
fn link_out_of_the_project_is_not_written_through() {
    let project = TestProject::new();
    let outside = project.home().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    project
        .write("agentd/changes/.keep", "")
        .write("script.yaml", PLAN);
    std::os::unix::fs::symlink(&outside, project.root().join("agentd/changes/add-login")).unwrap();
    let run = turn(&project, "plan", "Add login", &[]);
    assert!(run.stderr.contains("not done"), "{}", run.stderr);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

/// Neither a folder nor a file is created at the target of a link inside the change.
#[test]
fn link_inside_a_change_is_not_written_through() {
    let project = TestProject::new();
    project.write("agentd/changes/add-login/proposal.md", "x");
    let specs = project.root().join("agentd/changes/add-login/specs");
    let script = "format: 1\nturns:\n  - reply: |\n      <content_update target=\"specs/login.md\">y</content_update>\n      \
                  <content_update target=\"tasks.md\">z</content_update>\n";
    project.write("script.yaml", script);

    for target in [
        "../../../.git/hooks".into(),
        project.home().join("nowhere/yet"),
        project.home(),
    ] {
        std::os::unix::fs::symlink(&target, &specs).unwrap();
        let run = turn(&project, "plan", "x", &[]);
        assert!(
            run.stderr.contains(
                "cannot write agentd/changes/add-login/specs/login.md: `specs` is a symlink"
            ),
            "{}",
            run.stderr
        );
        assert!(
            run.stderr.contains("next       plan"),
            "an unfinished step keeps the mode: {}",
            run.stderr
        );
        std::fs::remove_file(&specs).unwrap();
    }

    for path in [
        project.root().join(".git/hooks/login.md"),
        project.home().join("login.md"),
        project.home().join("nowhere"),
    ] {
        assert!(!path.exists(), "{}", path.display());
    }
}

#[test]
fn truncated_reply_keeps_the_mode() {
    let project = TestProject::new();
    let script = "format: 1\nturns:\n  - reply: |\n      <review>PASS</review>\n      <content_update target=\"proposal.md\">\n      # P\n";
    project.write("script.yaml", script);
    let run = turn(&project, "plan", "x", &[]);
    assert!(
        run.stderr
            .contains("refused    content_update proposal.md: the closing tag is missing"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("next       plan"), "{}", run.stderr);
    assert!(!project.root().join("agentd").exists());
}

#[test]
fn unknown_agents_and_missing_scripts_are_refused() {
    let project = TestProject::new();
    project
        .run(&["turn", "plan", "x", "--agent", "nobody"])
        .fails(3, &["UnknownAgent", "agents.yaml"]);
    project
        .run(&["turn", "plan", "x", "--agent", "scripted"])
        .fails(3, &["ScriptInvalid", "--script FILE"]);
    project.write("bad.yaml", "format: 1\nturns:\n  - repli: x\n");
    project
        .run(&[
            "turn", "plan", "x", "--agent", "scripted", "--script", "bad.yaml",
        ])
        .fails(3, &["bad.yaml:3:5", "unknown field"]);
}

#[test]
fn unfinished_action_keeps_the_mode() {
    let project = TestProject::new();
    let (workspace, store) = (workspace(&project), MemoryStore::default());
    let driver = Scripted::read(PLAN, "plan.yaml").unwrap();

    let report = take(
        &workspace,
        &store,
        &driver,
        &TurnRequest {
            session: None,
            ..ask("plan", "Add login")
        },
    )
    .unwrap();
    assert!(
        report
            .settlements
            .iter()
            .all(|settlement| !settlement.done && settlement.detail.contains("--change"))
    );
    assert_eq!(
        (report.verdict, report.state.mode),
        (Some(ReviewResult::Pass), Some(Mode::new("plan").unwrap()))
    );
    assert!(!project.root().join("agentd").exists());
}

/// A plan needs no verdict, but an unclear one that is worse than PASS counts.
#[test]
fn unclear_verdict_differs_from_none() {
    for reply in [
        "```xml\\n<review>NEEDS_REVISION</review>\\n```\\nSee above.",
        "Hm. <review>NEEDS_REVISION",
        "<review>perhaps</review>",
    ] {
        let project = TestProject::new();
        project.write(
            "script.yaml",
            format!("format: 1\nturns:\n  - reply: \"{reply}\"\n"),
        );
        let run = turn(&project, "plan", "x", &[]);
        assert_eq!(run.code, 6, "{reply}: {}", run.stderr);
        assert!(run.stderr.contains("next       plan"), "{}", run.stderr);
    }
}

/// A replaced file keeps its permissions, and a new file gets the default ones.
#[test]
fn written_files_have_ordinary_permissions() {
    use std::os::unix::fs::PermissionsExt;

    let project = TestProject::new();
    let proposal = "agentd/changes/add-login/proposal.md";
    project.write(proposal, "x").write("script.yaml", PLAN);
    std::fs::set_permissions(
        project.root().join(proposal),
        std::fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    let program = env!("CARGO_BIN_EXE_agentd");
    let turn = "turn plan 'Add login' --agent scripted --script script.yaml --change add-login";

    let status = std::process::Command::new("sh")
        .args(["-c", &format!("umask 027; {program} {turn}")])
        .current_dir(project.root())
        .output()
        .unwrap();
    assert!(status.status.success());

    let mode = |path: &str| {
        std::fs::metadata(project.root().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };

    assert_eq!(
        (mode(proposal), mode("agentd/changes/add-login/tasks.md")),
        (0o600, 0o640)
    );
}

/// The ledger records the start of the history, so that a pack with hysteresis keeps it from turn
/// to turn. The pack shows ten turns and cuts to 85 %: of 12 turns the last ten, of 13 (too many
/// from that start) the last eight, of 14 the same and one more.
#[test]
fn history_start_is_stable_between_turns() {
    let project = TestProject::new();
    let workspace = Workspace::open(
        project.root(),
        WorkspaceOptions::default().with_pack("foreman"),
    )
    .unwrap();
    let store = MemoryStore::default();
    let driver = Scripted::read(
        &format!("format: 1\nturns:\n{}", "  - {reply: Yes.}\n".repeat(3)),
        "script",
    )
    .unwrap();
    for turns in 12..15 {
        let history = (0..turns)
            .map(|turn| ConversationTurn {
                user: format!("q{turn}"),
                assistant: "a".to_owned(),
            })
            .collect();
        let work = Some(StateDocument {
            history,
            ..StateDocument::default()
        });
        take(
            &workspace,
            &store,
            &driver,
            &TurnRequest {
                work,
                ..ask("architect", "Go")
            },
        )
        .unwrap();
    }

    let events = events(&store, "add-login");
    let first = events.iter().filter_map(|event| match event {
        Event::Started(started) => started.first_turn,
        _ => None,
    });
    assert_eq!(first.collect::<Vec<_>>(), [2, 5, 5]);
}
