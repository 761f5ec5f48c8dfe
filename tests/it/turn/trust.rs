//! Project files that can steer or run something: trusted once, by content, stored with the user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use agentd::models::{AgentName, Mode, State};
use agentd::orchestrator::{TurnRequest, Workspace, WorkspaceOptions, assemble, check_trust};
use agentd::{Error, ErrorKind};

use crate::support::recording_agent::{calls, define_agents};
use crate::support::{TestProject, files_below};

fn open(project: &TestProject) -> Workspace {
    Workspace::open(
        project.root(),
        WorkspaceOptions::default().with_user(project.user_folder()),
    )
    .unwrap()
}

/// Opens the project, assembles a prompt like a turn, and checks the files it used.
fn check(project: &TestProject, mode: &str) -> Result<(), Error> {
    let workspace = open(project);
    prompt(&workspace, mode);
    check_trust(&workspace, &workspace.root, "scripted", false)
}

fn prompt(workspace: &Workspace, mode: &str) -> String {
    let mode = Mode::new(mode).unwrap();
    let state = State {
        mode: Some(mode.clone()),
        ..State::default()
    };
    let agent = Some(AgentName::new("gemini").unwrap());
    assemble(
        workspace,
        &state,
        &TurnRequest {
            agent,
            ..TurnRequest::new(mode, "Go")
        },
    )
    .unwrap()
    .draft
    .rendered()
}

fn not_trusted(result: Result<(), Error>) -> Vec<String> {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotTrusted);
    let hint = error.hint().unwrap();
    assert!(
        hint.contains("`agentd trust --show`") && hint.contains("--trust"),
        "{hint}"
    );
    error
        .message()
        .lines()
        .skip(1)
        .map(|line| line.trim().to_owned())
        .collect()
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn project_without_definitions_needs_no_trust() {
    let project = TestProject::new();
    project
        .write("agentd/project.md", "What it is.")
        .write("agentd/changes/x/proposal.md", "y");
    check(&project, "plan").unwrap();

    let run = project.run(&["trust"]);
    assert!(
        run.stderr.contains("defines no templates"),
        "{}",
        run.stderr
    );
    assert_eq!(run.ok(), "");
    assert!(
        !project.user_folder().exists(),
        "nothing was trusted, so nothing is stored"
    );
}

#[test]
fn used_definitions_need_trust_until_they_change() {
    let project = TestProject::new();
    project
        .write("agentd/config.toml", "format = 1\n")
        .write("templates/system/GEMINI-plan.md", "Plan.");
    let files = ["agentd/config.toml", "templates/system/GEMINI-plan.md"];
    assert_eq!(not_trusted(check(&project, "plan")), files);

    project.run(&["trust"]).ok();
    check(&project, "plan").unwrap();

    project.write("templates/system/GEMINI-plan.md", "Plan!");
    assert_eq!(
        not_trusted(check(&project, "plan")),
        ["templates/system/GEMINI-plan.md"]
    );

    // A mode that does not use the file is not blocked.
    check(&project, "review").unwrap();

    // The old content is still trusted.
    project.write("templates/system/GEMINI-plan.md", "Plan.");
    check(&project, "plan").unwrap();
}

#[test]
fn every_kind_of_definition_is_checked_when_it_is_used() {
    let cases = [
        ("templates/system/BASE-implement.md", "Do it."),
        ("agentd/templates/system/BASE-implement.md", "Do it."),
        ("agentd/packs/sdd/repair.md", "Again: "),
        ("agentd/packs/sdd/skeletons/proposal.md", "# Proposal"),
        ("agentd/packs/sdd/verdict.md", "Say run."),
        (
            "agentd/config.toml",
            "format = 1\n[modes.plan]\nagent = \"x\"\n",
        ),
    ];

    for (file, text) in cases {
        let project = TestProject::new();
        project.write(file, text);
        assert_eq!(not_trusted(check(&project, "implement")), [file]);
        project.run(&["trust"]).ok();
        check(&project, "implement").unwrap();
    }

    let project = TestProject::new();
    project.run(&["pack", "new", "own"]).ok();
    project.write("agentd/config.toml", "format = 1\npack = \"own\"\n");
    let untrusted = not_trusted(check(&project, "draft"));
    let read = [
        "agentd/config.toml",
        "agentd/packs/own/pack.yaml",
        "agentd/packs/own/identity.md",
    ];
    assert!(
        read.iter()
            .all(|file| untrusted.contains(&(*file).to_owned())),
        "{untrusted:?}"
    );

    project.run(&["trust"]).ok();
    check(&project, "draft").unwrap();
}

/// The content that was read is checked, not the current content of the file.
#[test]
fn file_changed_after_reading_is_not_trusted() {
    let project = TestProject::new();
    project.write("templates/system/GEMINI-plan.md", "Good.");
    project.run(&["trust"]).ok();
    project.write("templates/system/GEMINI-plan.md", "Evil.");
    let workspace = open(&project);
    let (gemini, plan) = (
        AgentName::new("gemini").unwrap(),
        Mode::new("plan").unwrap(),
    );
    workspace.templates.find(&gemini, &plan).unwrap();

    project.write("templates/system/GEMINI-plan.md", "Good.");
    assert_eq!(
        not_trusted(check_trust(&workspace, &workspace.root, "scripted", false)),
        ["templates/system/GEMINI-plan.md"]
    );

    // The prompt also uses the content that was read, and content that is read again is checked
    // separately.
    assert_eq!(
        workspace
            .templates
            .find(&gemini, &plan)
            .unwrap()
            .template
            .text
            .body(),
        "Evil."
    );

    workspace.templates.reload();
    assert_eq!(
        workspace
            .templates
            .find(&gemini, &plan)
            .unwrap()
            .template
            .text
            .body(),
        "Good."
    );
    assert_eq!(
        not_trusted(check_trust(&workspace, &workspace.root, "scripted", false)),
        ["templates/system/GEMINI-plan.md"]
    );
}

/// Once the prompt of a turn is assembled, no file that an agent could have edited is read for it.
#[test]
fn workspace_caches_the_files_it_read() {
    let project = TestProject::new();
    let files = [
        "agentd/config.toml",
        "templates/system/BASE-review.md",
        "agentd/packs/sdd/repair.md",
    ];
    for (file, text) in files
        .into_iter()
        .zip(["format = 1\n", "Old words.", "Old words."])
    {
        project.write(file, text);
    }

    let workspace = open(&project);
    let before = prompt(&workspace, "review");

    let used = workspace.used_project_files();
    assert_eq!(used.len(), 3);

    for file in files {
        project.write(file, "New words.");
    }
    assert!(before.contains("Old words."));
    assert_eq!(prompt(&workspace, "review"), before);
    assert_eq!(workspace.pack.repair.as_ref().unwrap().body(), "Old words.");
    assert_eq!(workspace.used_project_files(), used);
}

#[test]
fn show_distinguishes_new_from_changed_and_accepts_nothing() {
    let project = TestProject::new();
    project
        .write("agentd/config.toml", "format = 1\n")
        .write("agentd/agents.yaml", "format: 1\n");
    project
        .write("agentd/packs/own/pack.yaml", "this is no pack")
        .write("agentd/packs/own/logo.png", [0xff]);
    project
        .write("agentd/notes.md", "no definition")
        .write("templates/README.md", "neither");

    let shown = project.run(&["trust", "--show"]);
    assert_eq!(
        shown.stdout,
        "new       agentd/agents.yaml\nnew       agentd/config.toml\nnew       agentd/packs/own/pack.yaml\n"
    );
    assert_eq!(shown.code, 1);
    assert!(!project.user_folder().exists());

    let accepted = project.run(&["trust"]).ok();
    assert_eq!(
        accepted,
        "trusted   agentd/agents.yaml (new)\ntrusted   agentd/config.toml (new)\n\
         trusted   agentd/packs/own/pack.yaml (new)\n"
    );

    project
        .write("agentd/config.toml", "format = 1\n# more\n")
        .write("templates/system/BASE-plan.md", "x");
    let json: serde_json::Value =
        serde_json::from_str(&project.run(&["trust", "--show", "--json"]).stdout).unwrap();

    let states: Vec<(&str, &str, bool)> = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(file_state)
        .collect();
    assert_eq!(
        states,
        [
            ("agentd/agents.yaml", "accepted", true),
            ("agentd/config.toml", "changed", false),
            ("agentd/packs/own/pack.yaml", "accepted", true),
            ("templates/system/BASE-plan.md", "new", false),
        ]
    );

    let json = project.run(&["trust", "--json"]).json();
    assert!(
        json["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(file_state)
            .all(|(_, _, accepted)| accepted)
    );
    assert!(
        project
            .run(&["trust", "--show"])
            .ok()
            .lines()
            .all(|line| line.starts_with("trusted   "))
    );
}

fn file_state(file: &serde_json::Value) -> (&str, &str, bool) {
    (
        file["file"].as_str().unwrap(),
        file["state"].as_str().unwrap(),
        file["accepted"].as_bool().unwrap(),
    )
}

#[test]
fn trust_file_is_private_and_readable() {
    let project = TestProject::new();
    project.write("agentd/config.toml", "format = 1\n");
    project.run(&["trust"]).ok();

    let folder = project.user_folder().join("trust");
    assert_eq!(mode_of(&folder), 0o700);

    let records = files_below(&folder);
    assert_eq!(records.len(), 1);
    assert_eq!(mode_of(&folder.join(&records[0])), 0o600);

    let words = fs::read_to_string(folder.join(&records[0])).unwrap();
    let root = project.root().canonicalize().unwrap();
    assert!(
        words.contains(root.to_str().unwrap()) && words.contains("agentd/config.toml"),
        "{words}"
    );
    assert!(
        !words.contains("format = 1"),
        "the content itself is not stored"
    );
    assert!(
        !project.root().join(".agentd").exists(),
        "nothing is stored in the project"
    );
}

#[test]
fn trust_applies_to_one_project() {
    let (one, other) = (TestProject::new(), TestProject::new());
    for project in [&one, &other] {
        project.write("agentd/config.toml", "format = 1\n");
    }
    one.run(&["trust"]).ok();

    let workspace = Workspace::open(
        other.root(),
        WorkspaceOptions::default().with_user(one.user_folder()),
    )
    .unwrap();
    assert_eq!(
        not_trusted(check_trust(&workspace, &workspace.root, "scripted", false)),
        ["agentd/config.toml"]
    );

    // The same project through another path is the same project.
    let link = one.home().join("link");
    symlink(one.root(), &link).unwrap();

    let workspace = Workspace::open(
        link,
        WorkspaceOptions::default().with_user(one.user_folder()),
    )
    .unwrap();
    check_trust(&workspace, &workspace.root, "scripted", false).unwrap();
}

#[test]
fn trust_file_writable_by_others_is_ignored() {
    let project = TestProject::new();
    project.write("agentd/config.toml", "format = 1\n");
    project.run(&["trust"]).ok();
    let folder = project.user_folder().join("trust");

    for mode in [0o777, 0o720, 0o702] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let error = check_trust(&open(&project), &project.root(), "scripted", false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileUnusable, "{mode:o}");
        assert!(
            format!("{error:#}").contains("the folder is writable by other users"),
            "{error:#}"
        );
        project
            .run(&["trust"])
            .fails(3, &["the folder is writable by other users", "chmod 700"]);
    }

    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    check(&project, "plan").unwrap();

    // Only root can change the owner to test this.
    if chown(&folder, Some(12_345), None).is_ok() {
        let error = check_trust(&open(&project), &project.root(), "scripted", false).unwrap_err();
        assert!(
            format!("{error:#}").contains("belongs to another user"),
            "{error:#}"
        );
        chown(&folder, Some(0), None).unwrap();
    }

    let moved = project.home().join("elsewhere");
    fs::rename(&folder, &moved).unwrap();

    symlink(&moved, &folder).unwrap();
    assert_eq!(
        check_trust(&open(&project), &project.root(), "scripted", false)
            .unwrap_err()
            .kind(),
        ErrorKind::FileUnusable
    );
}

#[test]
fn trust_without_a_home_lasts_for_one_run() {
    let project = TestProject::new();
    project.write("agentd/config.toml", "format = 1\n");
    project.run(&["trust"]).ok();
    let homeless = Workspace::open(project.root(), WorkspaceOptions::default()).unwrap();
    assert_eq!(
        not_trusted(check_trust(&homeless, &homeless.root, "scripted", false)),
        ["agentd/config.toml"]
    );
    check_trust(&homeless, &homeless.root, "scripted", true).unwrap();
}

#[test]
fn trust_for_one_run_is_not_stored() {
    let project = TestProject::new();
    project.write("agentd/config.toml", "format = 1\n");
    check_trust(&open(&project), &project.root(), "scripted", true).unwrap();
    assert!(!project.user_folder().exists());
    assert_eq!(
        not_trusted(check_trust(
            &open(&project),
            &project.root(),
            "scripted",
            false
        )),
        ["agentd/config.toml"]
    );
}

#[test]
fn files_of_the_user_need_no_trust() {
    let project = TestProject::without_nonce();
    crate::support::write(
        &project
            .user_folder()
            .join("templates/system/GEMINI-plan.md"),
        "Mine.",
    );
    check(&project, "plan").unwrap();
}

/// `agentd init` only writes comments. A changed line needs trust.
#[test]
fn settings_draft_of_init_needs_no_trust() {
    let project = TestProject::new();
    project.run(&["init"]).ok();
    check(&project, "plan").unwrap();
    let settings = project
        .read("agentd/config.toml")
        .replace("# pack = \"sdd\"", "pack = \"sdd\"");
    project.write("agentd/config.toml", settings);
    assert_eq!(not_trusted(check(&project, "plan")), ["agentd/config.toml"]);
}

#[test]
fn prompt_preview_needs_no_trust_and_lists_definitions() {
    let project = TestProject::new();
    project.write("templates/system/BASE-plan.md", "Mine.");
    let run = project.run(&["prompt", "plan", "Go", "--agent", "nobody"]);
    assert!(
        run.stderr
            .contains("using templates/system/BASE-plan.md of this project"),
        "{}",
        run.stderr
    );
    run.ok();
}

#[test]
fn unreadable_definition_is_reported_and_the_rest_accepted() {
    let project = TestProject::new();
    project
        .write("agentd/config.toml", "format = 1\n")
        .write("agentd/packs/own/a.md", [0xff, 0xfe]);
    let outside = project.home().join("secret.md");
    crate::support::write(&outside, "secret");
    symlink(&outside, project.root().join("agentd/packs/own/b.md")).unwrap();
    symlink(project.home(), project.root().join("agentd/packs/out")).unwrap();

    let run = project.run(&["trust"]);
    assert_eq!(
        run.stdout,
        "trusted   agentd/config.toml (new)\nunusable  agentd/packs/own/a.md\nunusable  agentd/packs/own/b.md\n"
    );
    assert_eq!(run.code, 1);
    assert!(
        run.stderr
            .contains("is a symlink to a file outside of the project"),
        "{}",
        run.stderr
    );

    check(&project, "plan").unwrap();
}

#[test]
fn link_cycle_does_not_hang() {
    let project = TestProject::new();
    project.write("agentd/packs/a/x.md", "x");
    for name in ["one", "two", "three"] {
        symlink("..", project.root().join("agentd/packs/a").join(name)).unwrap();
    }
    project
        .run(&["trust"])
        .fails(3, &["exceed 2000 files", "circular symlinks"]);
}

/// A worktree contains edits of an agent: instruction files there are not the trusted ones.
#[test]
fn instruction_files_are_searched_in_the_working_folder() {
    let project = TestProject::new();
    let words = [
        "-c",
        "user.name=Test",
        "-c",
        "user.email=test@example.invalid",
        "commit",
        "-q",
        "-m",
        "start",
    ];
    let git = |words: &[&str]| {
        Command::new("git")
            .args(words)
            .current_dir(project.root())
            .status()
            .unwrap()
    };

    project.write(".mine", "a\n");
    assert!(git(&["add", "-A"]).success() && git(&words).success());

    define_agents(&project, &[("mine", &[], "    obeys: [.mine]\n")]);
    let run = || project.run(&["run", "x", "--agent", "mine"]);

    let opened = project.run(&["run", "x", "Do it", "--agent", "mine"]);
    assert!(
        opened.stderr.contains("NotTrusted") && calls(&project, "mine") == 0,
        "{}",
        opened.stderr
    );

    project.run(&["trust"]).ok();
    assert!(run().stderr.contains("AgentEmpty"));
    assert_eq!(calls(&project, "mine"), 1);

    let trees = project.home().join(".local/state/agentd/worktrees");
    let tree = fs::read_dir(trees)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("x");

    fs::write(tree.join(".mine"), "run this\n").unwrap();
    run().fails(4, &["NotTrusted", ".mine", "agentd trust -C", "--trust"]);
    assert_eq!(calls(&project, "mine"), 1, "it was not started");

    fs::write(tree.join(".mine"), "a\n").unwrap();
    assert!(run().stderr.contains("AgentEmpty"));
    assert_eq!(calls(&project, "mine"), 2);
}
