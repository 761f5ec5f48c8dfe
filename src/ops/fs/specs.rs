//! The specs of a project, and those of its open changes.

use std::path::Path;

use super::change_folder::names;
use super::files::read_project_text;
use crate::error::Result;
use crate::file;
use crate::models::paths::{ARCHIVE_NAME, CHANGES_FOLDER, SPECS_FOLDER};

/// Returns paths and texts of the project's specs, sorted by bytes. Paths are relative to the root.
///
/// # Errors
///
/// `FileUnusable` if a spec cannot be read.
pub fn specs(root: &Path) -> Result<Vec<(String, String)>> {
    texts(root, SPECS_FOLDER)
}

/// Returns paths and texts of the specs of open changes, sorted by bytes. Paths are relative to the root.
///
/// # Errors
///
/// `FileUnusable` if a spec cannot be read.
pub fn wanted_specs(root: &Path) -> Result<Vec<(String, String)>> {
    let mut specs = Vec::new();
    for change in file::names_in(&root.join(CHANGES_FOLDER))? {
        if let Some(change) = change.to_str().filter(|change| *change != ARCHIVE_NAME) {
            specs.extend(texts(root, &format!("{CHANGES_FOLDER}/{change}/specs"))?);
        }
    }
    Ok(specs)
}

fn texts(root: &Path, folder: &str) -> Result<Vec<(String, String)>> {
    let mut specs = Vec::new();
    if !root.join(folder).is_dir() {
        return Ok(specs);
    }
    for name in names(&root.join(folder), "*.md")? {
        let path = format!("{folder}/{name}");
        if let Some(text) = read_project_text(root, &path)? {
            specs.push((path, text));
        }
    }
    Ok(specs)
}
