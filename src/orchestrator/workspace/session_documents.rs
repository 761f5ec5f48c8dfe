//! Documents that a session works on: the artifacts that its mode lists, and the file that its state refers to.

use std::path::{Path, PathBuf};

use super::Workspace;
use super::secret_files::refuse_secret_file;
use crate::compose::SourcedItem;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{ContextItem, ContextKind, Mode, StateDocument};
use crate::ops;
use crate::text::front_matter::split_front_matter;

/// Texts of a session, and warnings about those that cannot be shown.
#[derive(Debug, Default)]
pub(crate) struct SessionDocuments {
    pub(crate) items: Vec<SourcedItem>,
    pub(crate) warnings: Vec<String>,
}

/// Reads the documents that the layers of the pack show in a mode, except those in `given`, which the prompt already
/// shows.
///
/// A file that is missing, is not readable text, usually holds secrets or is outside of the project is skipped with a
/// warning. An artifact without text is skipped without one.
pub(crate) fn gather_session_documents(
    workspace: &Workspace,
    mode: &Mode,
    document: &StateDocument,
    given: &[SourcedItem],
) -> SessionDocuments {
    let mut documents = SessionDocuments::default();
    let mut files = Vec::new();
    for layer in &workspace.pack.layers {
        if layer.mode_artifacts {
            let artifacts = workspace.pack.artifacts.values();
            let listed = artifacts.filter(|artifact| artifact.is_listed_in(mode));
            let paths = listed.filter_map(|artifact| artifact.file.as_deref());
            files.extend(paths.map(|path| (ContextKind::Artifact, path.to_owned())));
        }

        let state_path = layer.state_file.as_deref();
        let named = state_path.and_then(|path| document.value_at(path)?.as_str());
        if let Some(path) = named.map(str::trim).filter(|path| !path.is_empty()) {
            files.push((ContextKind::File, path.to_owned()));
        }
    }

    let mut shown: Vec<PathBuf> = Vec::new();
    for (kind, file) in files {
        let name = shown_name(&workspace.root, &file);
        let target = resolve(&workspace.root, &file);
        let is_given = given.iter().any(|sourced| sourced.item.name() == name);
        if is_given || shown.contains(&target) {
            continue;
        }

        match read_document(workspace, kind, &file) {
            Ok(Some(text)) => {
                documents.items.push(SourcedItem {
                    item: ContextItem::new(kind, name, text),
                    source: "the session".to_owned(),
                    own: false,
                    named: false,
                });
                shown.push(target);
            }
            Ok(None) => {}
            Err(error) => {
                let warning = format!(
                    "the prompt does not show `{}`: {error}",
                    name.escape_debug()
                );
                log::warn!("{warning}");
                documents.warnings.push(warning);
            }
        }
    }
    documents
}

/// Reads the text of a file without its front matter, with secrets redacted; `None` for an artifact without text.
fn read_document(workspace: &Workspace, kind: ContextKind, file: &str) -> Result<Option<String>> {
    let root = &workspace.root;
    let path = root.join(file);
    refuse_secret_file(&path, &resolve(root, file))?;

    let text = ops::read_project_text(root, file)?;
    let is_artifact = kind == ContextKind::Artifact;
    let Some(text) = text else {
        return if is_artifact {
            Ok(None)
        } else {
            Err(Error::new(
                ErrorKind::FileUnusable,
                "it does not exist in the project",
            ))
        };
    };

    let body = if is_artifact {
        split_front_matter(&text).body
    } else {
        &text
    };
    if is_artifact && !has_text(body) {
        return Ok(None);
    }
    Ok(Some(workspace.secrets.redact(body.trim()).into_owned()))
}

/// Returns true if a Markdown text has more than headings.
fn has_text(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .any(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the path of a file without symlinks, or as it is if it does not exist.
fn resolve(root: &Path, file: &str) -> PathBuf {
    let path = root.join(file);
    path.canonicalize().unwrap_or(path)
}

/// Returns a path as the prompt shows it: relative to the project if the file is inside it.
fn shown_name(root: &Path, file: &str) -> String {
    let inside = root
        .canonicalize()
        .ok()
        .and_then(|root| Some(resolve(&root, file).strip_prefix(&root).ok()?.to_path_buf()));
    ops::visible_path(inside.as_deref().unwrap_or(Path::new(file)))
}
