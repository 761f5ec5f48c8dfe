//! The first files of a project, drafted from its contents.

use std::path::Path;

use serde::Serialize;

use crate::compose::{Variables, inject_variables};
use crate::error::Result;
use crate::models::paths;
use crate::ops::{self, ProjectSummary};
use crate::pack::{CONFIG_DRAFT, PROJECT_DRAFT};

/// Lines in the draft of the settings that are replaced with the detected checks.
const CHECKS_DRAFT: &str = "# [review]\n# commands = [\"make test\"]\n";

/// Text for a section of `project.md` for which nothing was detected.
const UNKNOWN: &str = "Not described yet.";

/// A file that `agentd init` writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreatedFile {
    /// Path relative to the project's root.
    pub path: &'static str,
    /// False if the file already existed; it is not changed.
    pub created: bool,
}

/// Writes `agentd/project.md` and `agentd/config.toml` unless they exist.
///
/// # Errors
///
/// `FileUnusable` if the project cannot be read or written.
pub fn init_project(root: &Path) -> Result<Vec<CreatedFile>> {
    let summary = ops::summarize_project(root)?;
    let project = inject_variables(PROJECT_DRAFT, &draft_variables(&summary));
    let [config, _] = config_drafts(root);

    let files = [
        (paths::PROJECT_FILE, project.as_str()),
        (paths::CONFIG_FILE, config.as_str()),
    ];
    files
        .into_iter()
        .map(|(path, text)| {
            let created = ops::create_new(root, path, text)?;
            Ok(CreatedFile { path, created })
        })
        .collect()
}

/// Returns two drafts of `agentd/config.toml`: one with the checks that are detected now, and one without checks.
pub(crate) fn config_drafts(root: &Path) -> [String; 2] {
    let without_checks = CONFIG_DRAFT.to_owned();
    // Detected commands are printable ASCII, so Rust's string escapes are also valid TOML.
    let commands: String = ops::detect_checks(root)
        .into_iter()
        .map(|check| format!("  {:?},\n", check.run))
        .collect();
    if commands.is_empty() {
        return [without_checks.clone(), without_checks];
    }

    let table = format!("[review]\ncommands = [\n{commands}]\n");
    let with_checks = CONFIG_DRAFT.replacen(CHECKS_DRAFT, &table, 1);
    [with_checks, without_checks]
}

/// Returns the values for the draft of `project.md`.
fn draft_variables(summary: &ProjectSummary) -> Variables {
    let description = summary.summary.as_deref().unwrap_or(UNKNOWN);
    let guides: Vec<String> = quote_all(&summary.guides)
        .iter()
        .map(|guide| format!("See {guide}."))
        .collect();

    let values = [
        ("TITLE", summary.title.clone()),
        ("SUMMARY", description.to_owned()),
        ("STACK", format_list(&summary.stack)),
        ("COMMANDS", format_list(&quote_all(&summary.commands))),
        ("LAYOUT", format_list(&quote_all(&summary.layout))),
        ("CONVENTIONS", format_list(&guides)),
    ];
    values
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn quote_all(items: &[String]) -> Vec<String> {
    items.iter().map(|item| format!("`{item}`")).collect()
}

fn format_list(items: &[String]) -> String {
    if items.is_empty() {
        return format!("- {UNKNOWN}");
    }
    let lines: Vec<String> = items.iter().map(|item| format!("- {item}")).collect();
    lines.join("\n")
}
