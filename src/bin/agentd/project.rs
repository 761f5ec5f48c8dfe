//! The project, user and state folders of a command, and the environment.

use std::env;
use std::path::{Path, PathBuf};

use agentd::agent::{ChildWatcher, Drivers};
use agentd::config::Environment;
use agentd::models::{Catalogue, SessionId, State, paths};
use agentd::ops::Git;
use agentd::orchestrator::{self, ReviewBase, Workspace, WorkspaceOptions};
use agentd::store::{SqliteStore, Store, blob_id};
use agentd::{Error, ErrorKind, Result, SearchPath, ops};
use etcetera::BaseStrategy;

use crate::args::Args;
use crate::{hidden, terminal};

/// Returns the folder of `--directory`, or the current one.
///
/// # Errors
///
/// `FileUnusable` if the folder does not exist.
pub(crate) fn folder(args: &Args) -> Result<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary knows the environment"
    )]
    let current = env::current_dir();

    let folder = match (&args.directory, current) {
        (Some(folder), _) => folder.clone(),
        (None, Ok(current)) => current,
        (None, Err(error)) => {
            return Err(
                Error::new(ErrorKind::FileUnusable, "cannot find the current folder")
                    .with_source(error),
            );
        }
    };
    if folder.is_dir() {
        return Ok(folder);
    }

    let shown = folder.display().to_string();
    let message = if folder.exists() {
        format!("`{}` is not a folder", shown.escape_debug())
    } else {
        format!("folder `{}` does not exist", shown.escape_debug())
    };
    Err(Error::new(ErrorKind::FileUnusable, message))
}

/// Returns the project's root: the nearest of the folder and its parents with `.git`, `agentd/project.md` or
/// `agentd/config.toml`; the folder itself if none has one.
pub(crate) fn root(args: &Args) -> Result<PathBuf> {
    let folder = folder(args)?;
    let full = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let is_root = |path: &&Path| {
        [".git", paths::PROJECT_FILE, paths::CONFIG_FILE]
            .iter()
            .any(|marker| path.join(marker).exists())
    };
    Ok(full
        .ancestors()
        .find(is_root)
        .map_or(folder, Path::to_path_buf))
}

/// Returns the search path of packs, templates and settings.
pub(crate) fn places(args: &Args) -> Result<SearchPath> {
    Ok(SearchPath::new(Some(root(args)?), user_folder()?))
}

/// Opens the project with its settings, pack and templates.
pub(crate) fn workspace(args: &Args, pack: Option<&str>) -> Result<Workspace> {
    let root = root(args)?;
    let options = options(&root, pack)?;
    with_redaction(Workspace::open(root, options)?)
}

/// Opens the project for a review, with the definitions of the review's base.
pub(crate) fn review_workspace(base: &ReviewBase, root: &Path, pack: &str) -> Result<Workspace> {
    with_redaction(base.workspace(options(root, Some(pack))?)?)
}

/// Returns the options for opening a project as the current user, with the current environment.
pub(crate) fn options(root: &Path, pack: Option<&str>) -> Result<WorkspaceOptions> {
    Ok(WorkspaceOptions {
        user: user_folder()?,
        pack: pack.map(str::to_owned),
        environment: environment(),
        worktrees: worktrees(root),
    })
}

/// Redacts the project's secrets in everything that is printed from now on.
pub(crate) fn with_redaction(workspace: Workspace) -> Result<Workspace> {
    terminal::set_redactions(&workspace.secrets);
    Ok(workspace)
}

/// Returns the folder of the change worktrees of all projects.
fn all_worktrees() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Some(state.join("agentd/worktrees"))
}

/// Refuses to use the worktree of a change as a project: the ledger is in the project that the change belongs to.
///
/// # Errors
///
/// `FileUnusable` if `root` is the worktree of a change.
pub(crate) fn check_ledger_place(root: &Path) -> Result<()> {
    let all = all_worktrees().and_then(|all| all.canonicalize().ok());
    let full = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let Some(below) = all.and_then(|all| full.strip_prefix(all).ok().map(Path::to_path_buf)) else {
        return Ok(());
    };

    let names: Vec<_> = below.iter().map(|name| name.to_string_lossy()).collect();
    let [project, change, ..] = names.as_slice() else {
        return Ok(());
    };
    let project = project
        .rsplit_once('-')
        .map_or(project.as_ref(), |(name, _)| name);

    let message = format!("this folder is the worktree of change `{change}`, not a project");
    Err(
        Error::new(ErrorKind::FileUnusable, message).with_hint(format!(
            "run the command in the folder of `{project}`, or pass that folder with -C"
        )),
    )
}

/// Returns the folder of the change worktrees of one project.
fn worktrees(root: &Path) -> Option<PathBuf> {
    let all = all_worktrees()?;
    let full = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let name = full
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let hash = blob_id(full.as_os_str().as_encoded_bytes()).to_string();
    Some(all.join(format!("{name}-{}", hash.get(..8).unwrap_or_default())))
}

/// Returns the pack that the ledger records for a session; `None` if there is no such session.
pub(crate) fn find_pack(args: &Args, session: &SessionId) -> Result<Option<String>> {
    let Some(store) = SqliteStore::open_existing(&root(args)?)? else {
        return Ok(None);
    };
    let events = store.events(session)?;
    let state = State::fold(events.iter().map(|(_, event)| event));
    Ok(state.change.map(|opened| opened.pack).or(state.pack))
}

/// Returns the catalogue of models. Does not load a pack.
pub(crate) fn catalogue(args: &Args) -> Result<Catalogue> {
    orchestrator::load_catalogue(&orchestrator::load_settings(&places(args)?)?)
}

/// Returns the user's configuration folder for agentd, or `None` without a home folder. Its files need no trust, so the
/// folder must belong to the user and must not depend on the current folder.
///
/// # Errors
///
/// `FileUnusable` if its path is relative, or if another user owns it or can write to it.
pub(crate) fn user_folder() -> Result<Option<PathBuf>> {
    let Ok(strategy) = etcetera::choose_base_strategy() else {
        return Ok(None);
    };
    let folder = strategy.config_dir().join("agentd");

    if !folder.is_absolute() {
        let shown = folder.display().to_string();
        let message = format!(
            "the configuration folder `{}` is not an absolute path",
            shown.escape_debug()
        );
        return Err(
            Error::new(ErrorKind::FileUnusable, message).with_hint("set HOME to an absolute path")
        );
    }

    ops::check_own(
        &folder,
        &["config.toml", "agents.yaml", "packs", "templates"],
    )?;
    Ok(Some(folder))
}

/// Returns drivers for the agents of a project.
pub(crate) fn drivers(workspace: &Workspace) -> Result<Drivers> {
    workspace.drivers(executable()?)
}

/// Returns a git runner whose commands end if this process is killed.
pub(crate) fn git() -> Git {
    Git {
        watcher: executable().ok().map(ChildWatcher::new),
        ..Git::default()
    }
}

/// Returns the path of this executable, which also runs as the guard of agents.
pub(crate) fn executable() -> Result<PathBuf> {
    env::current_exe().map_err(|error| {
        Error::new(
            ErrorKind::AgentUnusable,
            "cannot find the agentd executable",
        )
        .with_source(error)
    })
}

/// Returns true if an environment variable is set and not empty.
pub(crate) fn has_variable(name: &str) -> bool {
    environment()
        .0
        .iter()
        .any(|(variable, value)| variable == name && !value.is_empty())
}

/// Returns the environment variables, including the secret ones that were removed from the process environment.
pub(crate) fn environment() -> Environment {
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary knows the environment"
    )]
    let visible = env::vars_os();
    Environment(visible.chain(hidden::variables().iter().cloned()).collect())
}
