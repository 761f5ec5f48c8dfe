//! Where the command works: the project around the current folder, and the user's own folder.

use std::env;
use std::path::{Path, PathBuf};

use agentd::models::Catalogue;
use agentd::orchestrator::{self, Workspace};
use agentd::{Error, ErrorKind, Places, Result};
use etcetera::BaseStrategy;

use crate::args::Args;

/// Returns the folder that the command was told to work in, or the current one.
///
/// # Errors
///
/// `FileUnusable` if there is no such folder.
pub(crate) fn folder(args: &Args) -> Result<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the binary knows the environment")]
    let current = env::current_dir();
    let folder = match (&args.directory, current) {
        (Some(folder), _) => folder.clone(),
        (None, Ok(current)) => current,
        (None, Err(error)) => {
            return Err(
                Error::new(ErrorKind::FileUnusable, "the current folder cannot be used").with_source(error)
            );
        }
    };
    if folder.is_dir() {
        return Ok(folder);
    }
    Err(Error::new(
        ErrorKind::FileUnusable,
        format!("`{}` is not a folder", folder.display().to_string().escape_debug()),
    ))
}

/// Returns the project's root: the nearest folder upwards with `.git` or the project's own `agentd` files.
pub(crate) fn root(args: &Args) -> Result<PathBuf> {
    let folder = folder(args)?;
    let full = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let is_root = |path: &&Path| {
        [".git", "agentd/project.md", "agentd/config.toml"].iter().any(|mark| path.join(mark).exists())
    };
    Ok(full.ancestors().find(is_root).map_or(folder, Path::to_path_buf))
}

/// Returns where prose is looked for.
pub(crate) fn places(args: &Args) -> Result<Places> {
    Ok(Places { project: Some(root(args)?), user: user_folder() })
}

/// Opens the project with its settings, pack and templates.
pub(crate) fn workspace(args: &Args, pack: Option<&str>) -> Result<Workspace> {
    Workspace::open(root(args)?, user_folder(), pack)
}

/// Returns the catalogue of models; no pack is needed for it.
pub(crate) fn catalogue(args: &Args) -> Result<Catalogue> {
    orchestrator::catalogue(&orchestrator::settings(&root(args)?, user_folder().as_deref())?)
}

/// Returns the user's configuration folder for this program.
fn user_folder() -> Option<PathBuf> {
    etcetera::choose_base_strategy().ok().map(|strategy| strategy.config_dir().join("agentd"))
}
