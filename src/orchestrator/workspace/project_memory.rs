//! What a project says of itself, read from its files.

use std::path::PathBuf;

use crate::compose::ProjectMemory;
use crate::error::Result;
use crate::ops;

/// The files in which a project describes itself, in the order in which they are shown.
const FILES: [&str; 4] = ["profile.md", "CLAUDE.md", "AGENTS.md", "README.md"];

/// A project's own description: `profile.md`, `CLAUDE.md`, `AGENTS.md` and `README.md` at its root.
#[derive(Clone, Debug)]
pub struct ProjectFiles {
    /// The project's root.
    pub root: PathBuf,
}

impl ProjectFiles {
    /// Returns the files that are there, each under its name, and their names.
    ///
    /// # Errors
    ///
    /// `FileUnusable` if one is there and cannot be read.
    pub fn read(&self) -> Result<Option<(String, String)>> {
        let mut texts = Vec::new();
        let mut names = Vec::new();
        for name in FILES {
            let text = ops::read_project_text(&self.root, name)?;
            if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
                texts.push(format!("### {name}\n\n{}", text.trim()));
                names.push(name);
            }
        }
        Ok((!texts.is_empty()).then(|| (texts.join("\n\n"), names.join(", "))))
    }
}

impl ProjectMemory for ProjectFiles {
    fn project_context(&self, _project_id: Option<&str>) -> Result<Option<String>> {
        Ok(self.read()?.map(|(text, _)| text))
    }
}
