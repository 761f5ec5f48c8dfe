//! What checks a repository, as far as its own files tell.

use std::path::Path;

use super::listing::{FolderListing, ProjectListing};
use crate::config::{CheckCommand, ReviewSettings};

/// A file at the root, and the commands that then check the project.
const CHECKS: [(&str, &[&str]); 9] = [
    ("Cargo.toml", &["cargo test"]),
    ("go.mod", &["go vet ./...", "go test ./..."]),
    ("mix.exs", &["mix test"]),
    ("Package.swift", &["swift test"]),
    ("build.zig", &["zig build test"]),
    ("dune-project", &["dune test"]),
    ("cabal.project", &["cabal test"]),
    ("stack.yaml", &["stack test"]),
    ("deno.json", &["deno test"]),
];

/// A file at the root, and the program with which its scripts are run; the first that is there counts.
const SCRIPTS: [(&str, &str); 5] = [
    ("pnpm-lock.yaml", "pnpm test"),
    ("yarn.lock", "yarn test"),
    ("bun.lock", "bun run test"),
    ("bun.lockb", "bun run test"),
    ("package.json", "npm test"),
];

/// A build file, the wrapper that a project may bring along, the command without it, and what both are told.
const BUILDS: [(&str, &str, &str, &str); 3] = [
    ("pom.xml", "./mvnw", "mvn", "--batch-mode verify"),
    ("build.gradle", "./gradlew", "gradle", "--no-daemon check"),
    (
        "build.gradle.kts",
        "./gradlew",
        "gradle",
        "--no-daemon check",
    ),
];

/// A file at the root, a word in it, and that pytest is configured then.
const PYTEST: [(&str, &str); 5] = [
    ("pytest.ini", ""),
    ("conftest.py", ""),
    ("pyproject.toml", "[tool.pytest"),
    ("setup.cfg", "[tool:pytest]"),
    ("tox.ini", "[pytest]"),
];

/// Folders in which pytest finds tests by the names of their files.
pub(in crate::ops) const TEST_FOLDERS: [&str; 2] = ["tests", "test"];

/// The script that npm writes until someone writes another one.
const NO_SCRIPT: &str = "no test specified";

/// A file at the root, a security scan, and the tool it needs. These are tools that somebody has installed to scan;
/// `npm audit` is not among them, as everyone has npm, and without a net it fails.
const SCANS: [(&str, &str, &str); 9] = [
    ("Cargo.lock", "cargo audit", "cargo-audit"),
    ("deny.toml", "cargo deny check advisories", "cargo-deny"),
    (
        "requirements.txt",
        "pip-audit --requirement requirements.txt",
        "pip-audit",
    ),
    ("go.mod", "govulncheck ./...", "govulncheck"),
    (
        ".gitleaks.toml",
        "gitleaks detect --no-git --no-banner --redact",
        "gitleaks",
    ),
    (
        ".gitleaksignore",
        "gitleaks detect --no-git --no-banner --redact",
        "gitleaks",
    ),
    (
        ".semgrep.yml",
        "semgrep scan --error --metrics=off --config .semgrep.yml",
        "semgrep",
    ),
    (
        ".semgrep.yaml",
        "semgrep scan --error --metrics=off --config .semgrep.yaml",
        "semgrep",
    ),
    (
        ".semgrep",
        "semgrep scan --error --metrics=off --config .semgrep",
        "semgrep",
    ),
];

/// Returns the commands that check a repository, as its files tell. Those that cannot be read tell nothing.
#[must_use]
pub fn detected(root: &Path) -> Vec<CheckCommand> {
    detected_in(&FolderListing(root))
}

fn detected_in(project: &dyn ProjectListing) -> Vec<CheckCommand> {
    let mut found: Vec<String> = Vec::new();
    for (name, commands) in CHECKS {
        if project.has_file(name) {
            found.extend(commands.iter().map(|&command| command.to_owned()));
        }
    }
    if has_script(project, "package.json") {
        let command = SCRIPTS
            .iter()
            .find(|(name, _)| project.has_file(name))
            .map(|(_, command)| *command);
        found.extend(command.map(str::to_owned));
    }
    if has_pytest(project) {
        found.push("python3 -m pytest".to_owned());
    }
    for (name, wrapper, command, arguments) in BUILDS {
        let command = if project.has_program(wrapper.trim_start_matches("./")) {
            wrapper
        } else {
            command
        };
        let command = format!("{command} {arguments}");
        if project.has_file(name) && !found.contains(&command) {
            found.push(command);
        }
    }
    if project.has_file("Gemfile") {
        found.extend(ruby(project).map(str::to_owned));
    }
    if has_script(project, "composer.json") {
        found.push("composer test".to_owned());
    }
    // Most often these run what was found already.
    if found.is_empty() {
        found.extend(make(project));
    }
    if found.is_empty() && project.has_program("test.sh") {
        found.push("./test.sh".to_owned());
    }
    found
        .iter()
        .map(|command| CheckCommand::new(command))
        .collect()
}

/// Returns the commands that are run for a repository: those of the settings, or those that are found, and the security
/// scans that go with its files. They are of the tree at `root`, so it must not be one that an agent could have edited.
#[must_use]
pub fn check_commands(review: &ReviewSettings, root: &Path) -> Vec<CheckCommand> {
    check_commands_in(review, &FolderListing(root))
}

/// Returns the same as [`check_commands`] for a listing of a project, such as that of a commit.
#[must_use]
pub fn check_commands_in(
    review: &ReviewSettings,
    project: &dyn ProjectListing,
) -> Vec<CheckCommand> {
    let mut commands = review
        .commands
        .clone()
        .unwrap_or_else(|| detected_in(project));
    for (name, run, tool) in SCANS {
        let known = commands.iter().any(|command| command.run.starts_with(run));
        if review.scans && project.has(name) && !known {
            commands.push(CheckCommand::scan(run, tool));
        }
    }
    commands
}

/// Tells whether a package has a script that tests it.
fn has_script(project: &dyn ProjectListing, manifest: &str) -> bool {
    let text = project.text(manifest).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let script = &package["scripts"]["test"];
    script.as_array().is_some_and(|lines| !lines.is_empty())
        || script
            .as_str()
            .is_some_and(|script| !script.trim().is_empty() && !script.contains(NO_SCRIPT))
}

/// Tells whether pytest is configured, or whether there are tests that it finds.
fn has_pytest(project: &dyn ProjectListing) -> bool {
    let configured = PYTEST
        .iter()
        .any(|(name, word)| project.text(name).is_some_and(|text| text.contains(word)));
    let is_test = |name: &String| name.starts_with("test_") && name.ends_with(".py");
    configured
        || TEST_FOLDERS
            .iter()
            .any(|folder| project.names_in(folder).iter().any(is_test))
}

fn ruby(project: &dyn ProjectListing) -> Option<&'static str> {
    if project.has_folder("spec") {
        return Some("bundle exec rspec");
    }
    project
        .has_file("Rakefile")
        .then_some("bundle exec rake test")
}

/// Returns the target of a makefile that tests.
fn make(project: &dyn ProjectListing) -> Option<String> {
    let names = ["GNUmakefile", "makefile", "Makefile"];
    let text = names.iter().find_map(|name| project.text(name))?;
    ["test", "check"]
        .iter()
        .find(|target| has_target(&text, target))
        .map(|target| format!("make {target}"))
}

/// Tells whether a makefile has a target.
pub(in crate::ops) fn has_target(makefile: &str, target: &str) -> bool {
    let is_rule = |line: &str| {
        let Some((targets, rest)) = line.split_once(':') else {
            return false;
        };
        // A recipe, a comment or a variable may hold a colon, too.
        let is_other =
            line.starts_with(['\t', '#']) || targets.contains('=') || rest.starts_with('=');
        !is_other && targets.split_whitespace().any(|word| word == target)
    };
    makefile.lines().any(is_rule)
}
