//! Summary of a project from the files at its root, for the draft of `agentd/project.md`.

use std::path::Path;

use super::checks::{detect_checks, has_target};
use super::fs::{read_project_text, top_level};
use crate::error::Result;

/// Facts about a project that its files at the root reveal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectSummary {
    /// Name in the project's manifest, or else of its root folder.
    pub title: String,
    /// First paragraph of the README, or else the description in the manifest.
    pub summary: Option<String>,
    /// Languages and build tools.
    pub stack: Vec<String>,
    /// Commands that build and test the project.
    pub commands: Vec<String>,
    /// Names of the entries at the root; folders end with `/`.
    pub layout: Vec<String>,
    /// Files with guidelines for contributors and agents.
    pub guides: Vec<String>,
}

/// File at the root, the language or tool that it indicates, and the commands that build the project. Test commands
/// are detected by `checks/detect.rs`.
const STACK_FILES: [(&str, &str, &[&str]); 11] = [
    ("Cargo.toml", "Rust, built with Cargo", &["cargo build"]),
    ("package.json", "JavaScript or TypeScript, on Node.js", &[]),
    ("pyproject.toml", "Python", &[]),
    ("requirements.txt", "Python", &[]),
    ("go.mod", "Go", &["go build ./..."]),
    ("pom.xml", "Java, built with Maven", &[]),
    ("build.gradle", "Java or Kotlin, built with Gradle", &[]),
    ("build.gradle.kts", "Kotlin, built with Gradle", &[]),
    ("Gemfile", "Ruby", &[]),
    ("composer.json", "PHP", &[]),
    (
        "CMakeLists.txt",
        "C or C++, built with CMake",
        &["cmake -B build", "cmake --build build"],
    ),
];

/// Maximum number of entries in [`ProjectSummary::layout`].
const MAX_LISTED_ENTRIES: usize = 40;

/// Files with guidelines for contributors and agents.
const GUIDE_FILES: [&str; 7] = [
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".editorconfig",
    "rustfmt.toml",
];

/// Summarizes a project from the files at its root.
///
/// # Errors
///
/// `FileUnusable` if the root cannot be listed. Files that cannot be read are skipped.
pub fn summarize_project(root: &Path) -> Result<ProjectSummary> {
    let read_file = |name: &str| read_project_text(root, name).ok().flatten();
    let mut project = ProjectSummary::default();

    for (name, stack, commands) in STACK_FILES {
        if !root.join(name).is_file() || project.stack.iter().any(|listed| listed == stack) {
            continue;
        }
        project.stack.push(stack.to_owned());
        project
            .commands
            .extend(commands.iter().map(|&command| command.to_owned()));
    }
    project
        .commands
        .extend(detect_checks(root).into_iter().map(|check| check.run));

    let scripts = read_file("package.json")
        .map(|json| npm_scripts(&json))
        .unwrap_or_default();
    let targets = read_file("Makefile")
        .map(|makefile| make_targets(&makefile))
        .unwrap_or_default();
    for command in scripts.into_iter().chain(targets) {
        if !project.commands.contains(&command) {
            project.commands.push(command);
        }
    }

    let manifest = read_file("Cargo.toml")
        .or_else(|| read_file("pyproject.toml"))
        .unwrap_or_default();
    let value = |key| manifest_value(&manifest, key);
    project.title = value("name").unwrap_or_else(|| title(root));

    let readme = ["README.md", "README", "readme.md"]
        .into_iter()
        .find_map(read_file);
    project.summary = readme
        .and_then(|text| first_paragraph(&text))
        .or_else(|| value("description"));

    project.guides = GUIDE_FILES
        .iter()
        .filter(|name| root.join(name).is_file())
        .map(|&name| name.to_owned())
        .collect();
    project.layout = top_level(root, MAX_LISTED_ENTRIES)?;
    Ok(project)
}

fn title(root: &Path) -> String {
    let path = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    path.file_name()
        .map_or_else(|| "project".to_owned(), super::fs::visible_name)
}

/// Returns the value of a key in the package section of a Cargo or Python manifest.
fn manifest_value(manifest: &str, key: &str) -> Option<String> {
    let manifest: toml::Table = toml::from_str(manifest).ok()?;
    let package = manifest
        .get("package")
        .or_else(|| manifest.get("project"))?;
    package.get(key)?.as_str().map(str::to_owned)
}

/// Returns the first paragraph that is prose, and not a heading, badge, list, quote or markup.
fn first_paragraph(readme: &str) -> Option<String> {
    let is_prose = |text: &&str| {
        text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '`' | '*' | '"'))
    };

    let normal = readme.replace("\r\n", "\n");
    let without_heading = |text: &'_ str| {
        let lines = text
            .lines()
            .skip_while(|line| line.trim().is_empty() || line.starts_with('#'));
        lines.collect::<Vec<_>>().join("\n")
    };
    let mut paragraphs = normal.split("\n\n").map(without_heading);
    let paragraph = paragraphs.find(|text| is_prose(&text.as_str()) && text.len() < 2_000)?;
    Some(paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the commands for the build scripts of a package.
fn npm_scripts(package: &str) -> Vec<String> {
    let package: serde_json::Value = serde_json::from_str(package).unwrap_or_default();
    let usual = ["build", "lint", "typecheck"];
    usual
        .iter()
        .filter(|&&script| package["scripts"][script].is_string())
        .map(|script| format!("npm run {script}"))
        .collect()
}

fn make_targets(makefile: &str) -> Vec<String> {
    let usual = ["build", "lint", "check", "test"];
    usual
        .iter()
        .filter(|target| has_target(makefile, target))
        .map(|target| format!("make {target}"))
        .collect()
}
