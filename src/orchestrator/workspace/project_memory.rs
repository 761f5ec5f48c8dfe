//! The project's description of itself, read from its files.

use std::path::PathBuf;

use crate::compose::ProjectMemory;
use crate::error::Result;
use crate::ops;

/// Files in which a project describes itself, in the order in which prompts show them.
const DESCRIPTION_FILES: [&str; 4] = ["profile.md", "CLAUDE.md", "AGENTS.md", "README.md"];

/// A project's own description: `profile.md`, `CLAUDE.md`, `AGENTS.md` and `README.md` at its root.
#[derive(Clone, Debug)]
pub struct ProjectFiles {
    /// Root folder of the project.
    pub root: PathBuf,
}

impl ProjectFiles {
    /// Returns the texts of the files, each below its name as heading, and the list of their names; `None` if all are
    /// missing or blank.
    ///
    /// A file that cannot be read is skipped with a warning: a prompt without it is better than no prompt.
    #[must_use]
    pub fn read(&self) -> Option<(String, String)> {
        let mut texts = Vec::new();
        let mut names = Vec::new();
        for name in DESCRIPTION_FILES {
            let text = match ops::read_project_text(&self.root, name) {
                Ok(Some(text)) => text,
                Ok(None) => continue,
                Err(error) => {
                    log::warn!("cannot use {name}, continuing without it: {error}");
                    continue;
                }
            };
            if !text.trim().is_empty() {
                texts.push(format!("### {name}\n\n{}", text.trim()));
                names.push(name);
            }
        }

        if names.is_empty() {
            return None;
        }
        Some((texts.join("\n\n"), names.join(", ")))
    }
}

impl ProjectMemory for ProjectFiles {
    fn project_context(&self, _project_id: Option<&str>) -> Result<Option<String>> {
        Ok(self.read().map(|(text, _)| text))
    }
}
