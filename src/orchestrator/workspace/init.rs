//! A project's first files, made from what is found in it.

use std::path::Path;

use serde::Serialize;

use crate::compose::{Variables, inject_variables};
use crate::config::CheckCommand;
use crate::error::Result;
use crate::models::paths;
use crate::ops::{self, ProjectSummary};
use crate::pack::{CONFIG_DRAFT, PROJECT_DRAFT};

/// Where the checks stand in the draft of the settings.
const CHECKS_DRAFT: &str = "# [review]\n# commands = [\"make test\"]\n";

/// A file that is there now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Created {
    /// The file, relative to the project's root.
    pub path: &'static str,
    /// Whether it is new; an existing file is left alone.
    pub created: bool,
}

/// Writes `agentd/project.md` and `agentd/config.toml` unless they are there.
///
/// # Errors
///
/// `FileUnusable` if the project cannot be read or written.
pub fn init(root: &Path) -> Result<Vec<Created>> {
    let draft = inject_variables(PROJECT_DRAFT, &values(&ops::summarize_project(root)?));
    let [config, _] = config_drafts(root);
    let files = [
        (paths::PROJECT_FILE, draft.as_str()),
        (paths::CONFIG_FILE, config.as_str()),
    ];
    files
        .into_iter()
        .map(|(path, text)| {
            ops::create_new(root, path, text).map(|created| Created { path, created })
        })
        .collect()
}

/// Returns what `init` writes into `agentd/config.toml`: with the checks that are found now, and with none.
pub(crate) fn config_drafts(root: &Path) -> [String; 2] {
    // What is found is of plain words, which are quoted alike everywhere.
    let line = |check: CheckCommand| format!("  {:?},\n", check.run);
    let commands: Vec<String> = ops::detect_checks(root).into_iter().map(line).collect();
    let found = match commands.is_empty() {
        true => CONFIG_DRAFT.to_owned(),
        false => {
            let table = format!("[review]\ncommands = [\n{}]\n", commands.concat());
            CONFIG_DRAFT.replacen(CHECKS_DRAFT, &table, 1)
        }
    };
    [found, CONFIG_DRAFT.to_owned()]
}

fn values(summary: &ProjectSummary) -> Variables {
    let list = |items: &[String], empty: &str| match items {
        [] => format!("- {empty}"),
        items => items
            .iter()
            .map(|item| format!("- {item}"))
            .collect::<Vec<_>>()
            .join("\n"),
    };
    let code = |items: &[String]| {
        items
            .iter()
            .map(|item| format!("`{item}`"))
            .collect::<Vec<_>>()
    };
    let guides: Vec<String> = code(&summary.guides)
        .iter()
        .map(|guide| format!("See {guide}."))
        .collect();
    let unknown = "<!-- nothing was found: say it here -->";
    [
        ("TITLE", summary.title.clone()),
        (
            "SUMMARY",
            summary
                .summary
                .clone()
                .unwrap_or_else(|| unknown.to_owned()),
        ),
        ("STACK", list(&summary.stack, unknown)),
        ("COMMANDS", list(&code(&summary.commands), unknown)),
        ("LAYOUT", list(&code(&summary.layout), unknown)),
        ("CONVENTIONS", list(&guides, unknown)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
