//! Detects the commands that check a project, from its files.

use std::path::Path;

use super::listing::{FolderListing, ProjectListing};
use crate::config::{CheckCommand, ReviewSettings};

/// File at the root, and the commands that check a project with that file.
const CHECK_COMMANDS: [(&str, &[&str]); 9] = [
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

/// File at the root, and the command that runs the script `test` of `package.json`. The command of the first file that
/// exists is used.
const SCRIPT_RUNNERS: [(&str, &str); 5] = [
    ("pnpm-lock.yaml", "pnpm test"),
    ("yarn.lock", "yarn test"),
    ("bun.lock", "bun run test"),
    ("bun.lockb", "bun run test"),
    ("package.json", "npm test"),
];

/// Build file, wrapper script that a project may contain, command without it, and the arguments of both.
const BUILD_TOOLS: [(&str, &str, &str, &str); 3] = [
    ("pom.xml", "./mvnw", "mvn", "--batch-mode verify"),
    ("build.gradle", "./gradlew", "gradle", "--no-daemon check"),
    (
        "build.gradle.kts",
        "./gradlew",
        "gradle",
        "--no-daemon check",
    ),
];

/// File at the root, and text in it that configures pytest; empty if the file's existence is enough.
const PYTEST_CONFIGURATION: [(&str, &str); 5] = [
    ("pytest.ini", ""),
    ("conftest.py", ""),
    ("pyproject.toml", "[tool.pytest"),
    ("setup.cfg", "[tool:pytest]"),
    ("tox.ini", "[pytest]"),
];

/// Folders in which pytest finds tests by file name.
pub(in crate::ops) const TEST_FOLDERS: [&str; 2] = ["tests", "test"];

/// Part of the placeholder script `test` that `npm init` writes.
const NPM_PLACEHOLDER: &str = "no test specified";

/// File at the root, security scan, and the tool that it needs. A scan is run only if its tool is installed.
/// `npm audit` is omitted: every machine with npm has it, and it fails without a network.
const SECURITY_SCANS: [(&str, &str, &str); 9] = [
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

/// Returns the commands that check a project, detected from its files. Files that cannot be read are skipped.
#[must_use]
pub fn detect_checks(root: &Path) -> Vec<CheckCommand> {
    detect_checks_in(&FolderListing(root))
}

fn detect_checks_in(project: &dyn ProjectListing) -> Vec<CheckCommand> {
    let mut detected: Vec<String> = Vec::new();
    for (name, commands) in CHECK_COMMANDS {
        if project.has_file(name) {
            detected.extend(commands.iter().map(|&command| command.to_owned()));
        }
    }

    if has_script(project, "package.json") {
        let command = SCRIPT_RUNNERS
            .iter()
            .find(|(name, _)| project.has_file(name))
            .map(|(_, command)| *command);
        detected.extend(command.map(str::to_owned));
    }
    if has_pytest(project) {
        detected.push("python3 -m pytest".to_owned());
    }

    for (name, wrapper, tool, arguments) in BUILD_TOOLS {
        let has_wrapper = project.has_program(wrapper.trim_start_matches("./"));
        let program = if has_wrapper { wrapper } else { tool };
        let command = format!("{program} {arguments}");
        if project.has_file(name) && !detected.contains(&command) {
            detected.push(command);
        }
    }

    if project.has_file("Gemfile") {
        detected.extend(ruby_command(project).map(str::to_owned));
    }
    if has_script(project, "composer.json") {
        detected.push("composer test".to_owned());
    }

    // A makefile usually runs the commands that are already detected.
    if detected.is_empty() {
        detected.extend(make_command(project));
    }
    if detected.is_empty() && project.has_program("test.sh") {
        detected.push("./test.sh".to_owned());
    }
    detected
        .iter()
        .map(|command| CheckCommand::new(command))
        .collect()
}

/// Returns the check commands of a project: those of the settings or else the detected ones, and the security scans
/// for its files. `root` must not be a tree that an agent could have edited, because the commands are run.
#[must_use]
pub fn check_commands(review: &ReviewSettings, root: &Path) -> Vec<CheckCommand> {
    check_commands_in(review, &FolderListing(root))
}

/// Returns the check commands for a listing of a project, such as that of a commit.
#[must_use]
pub fn check_commands_in(
    review: &ReviewSettings,
    project: &dyn ProjectListing,
) -> Vec<CheckCommand> {
    let mut commands = review
        .commands
        .clone()
        .unwrap_or_else(|| detect_checks_in(project));
    for (name, run, tool) in SECURITY_SCANS {
        let is_known = commands.iter().any(|command| command.run.starts_with(run));
        if review.scans && project.has(name) && !is_known {
            commands.push(CheckCommand::scan(run, tool));
        }
    }
    commands
}

/// Returns true if a package manifest has a script `test` other than npm's placeholder.
fn has_script(project: &dyn ProjectListing, manifest: &str) -> bool {
    let text = project.text(manifest).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let script = &package["scripts"]["test"];
    script.as_array().is_some_and(|lines| !lines.is_empty())
        || script
            .as_str()
            .is_some_and(|script| !script.trim().is_empty() && !script.contains(NPM_PLACEHOLDER))
}

/// Returns true if pytest is configured or would find tests.
fn has_pytest(project: &dyn ProjectListing) -> bool {
    let is_configured = PYTEST_CONFIGURATION.iter().any(|(name, setting)| {
        project
            .text(name)
            .is_some_and(|text| text.contains(setting))
    });
    let is_test = |name: &String| name.starts_with("test_") && name.ends_with(".py");
    is_configured
        || TEST_FOLDERS
            .iter()
            .any(|folder| project.names_in(folder).iter().any(is_test))
}

fn ruby_command(project: &dyn ProjectListing) -> Option<&'static str> {
    if project.has_folder("spec") {
        return Some("bundle exec rspec");
    }
    project
        .has_file("Rakefile")
        .then_some("bundle exec rake test")
}

/// Returns the command for the test target of a makefile.
fn make_command(project: &dyn ProjectListing) -> Option<String> {
    let names = ["GNUmakefile", "makefile", "Makefile"];
    let text = names.iter().find_map(|name| project.text(name))?;
    ["test", "check"]
        .iter()
        .find(|target| has_target(&text, target))
        .map(|target| format!("make {target}"))
}

/// Returns true if a makefile has a rule for a target.
pub(in crate::ops) fn has_target(makefile: &str, target: &str) -> bool {
    let is_rule = |line: &str| {
        let Some((targets, rest)) = line.split_once(':') else {
            return false;
        };
        // Recipes, comments and variables may also contain a colon.
        let is_other =
            line.starts_with(['\t', '#']) || targets.contains('=') || rest.starts_with('=');
        !is_other && targets.split_whitespace().any(|word| word == target)
    };
    makefile.lines().any(is_rule)
}
