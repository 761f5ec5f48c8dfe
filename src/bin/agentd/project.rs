//! Where the command works: the project around the current folder, and the user's own folder.

use std::env;
use std::path::{Path, PathBuf};

use agentd::agent::{ChildWatcher, Drivers};
use agentd::config::Environment;
use agentd::models::{Catalogue, SessionId, State, paths};
use agentd::ops::Git;
use agentd::orchestrator::{self, ReviewBase, Workspace, WorkspaceOptions};
use agentd::store::{SqliteStore, Store, blob_id};
use agentd::{Error, ErrorKind, Places, Result, ops};
use etcetera::BaseStrategy;

use crate::args::Args;
use crate::{hidden, terminal};

/// Returns the folder that the command was told to work in, or the current one.
///
/// # Errors
///
/// `FileUnusable` if there is no such folder.
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
                Error::new(ErrorKind::FileUnusable, "the current folder cannot be used")
                    .with_source(error),
            );
        }
    };
    if folder.is_dir() {
        return Ok(folder);
    }
    Err(Error::new(
        ErrorKind::FileUnusable,
        format!(
            "`{}` is not a folder",
            folder.display().to_string().escape_debug()
        ),
    ))
}

/// Returns the project's root: the nearest folder upwards with `.git` or the project's own `agentd` files.
pub(crate) fn root(args: &Args) -> Result<PathBuf> {
    let folder = folder(args)?;
    let full = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    let is_root = |path: &&Path| {
        [".git", paths::PROJECT_FILE, paths::CONFIG_FILE]
            .iter()
            .any(|mark| path.join(mark).exists())
    };
    Ok(full
        .ancestors()
        .find(is_root)
        .map_or(folder, Path::to_path_buf))
}

/// Returns where prose is looked for.
pub(crate) fn places(args: &Args) -> Result<Places> {
    Ok(Places::new(Some(root(args)?), user_folder()?))
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

/// Returns the options of a project for this user and this environment.
pub(crate) fn options(root: &Path, pack: Option<&str>) -> Result<WorkspaceOptions> {
    Ok(WorkspaceOptions {
        user: user_folder()?,
        pack: pack.map(str::to_owned),
        environment: environment(),
        worktrees: worktrees(root),
    })
}

/// Keeps the secrets of a project out of everything that is printed.
pub(crate) fn with_redaction(workspace: Workspace) -> Result<Workspace> {
    terminal::keep_back(&workspace.secrets);
    Ok(workspace)
}

/// Returns the folder of all work trees that changes have of their own.
fn all_worktrees() -> Option<PathBuf> {
    let strategy = etcetera::choose_base_strategy().ok()?;
    let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Some(state.join("agentd/worktrees"))
}

/// Refuses a ledger in the work tree of a change: what is known of it is kept in the project that the change is of.
///
/// # Errors
///
/// `FileUnusable` naming the change.
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
    let message =
        format!("this is the work tree of the change `{change}`, not a project of its own");
    Err(
        Error::new(ErrorKind::FileUnusable, message).with_hint(format!(
            "go to the folder of `{project}`, or name it with -C"
        )),
    )
}

/// Returns the folder of the work trees that changes of a project have of their own.
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

/// Returns the pack that leads a change, if the ledger knows it.
pub(crate) fn pack_of(args: &Args, session: &SessionId) -> Result<Option<String>> {
    let Some(store) = SqliteStore::open_existing(&root(args)?)? else {
        return Ok(None);
    };
    let events = store.events(session)?;
    let state = State::fold(events.iter().map(|(_, event)| event));
    Ok(state.change.map(|opened| opened.pack).or(state.pack))
}

/// Returns the catalogue of models; no pack is needed for it.
pub(crate) fn catalogue(args: &Args) -> Result<Catalogue> {
    orchestrator::load_catalogue(&orchestrator::load_settings(&places(args)?)?)
}

/// Returns the user's configuration folder for this program; `None` without a home folder. What is in it needs no trust,
/// so it must be the user's own, and not depend on where the command is run.
///
/// # Errors
///
/// `FileUnusable` if it is relative, or if others own it or can write to it.
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
    workspace.drivers(own_file()?)
}

/// Returns how git is run. Its commands end if this program is killed.
pub(crate) fn git() -> Git {
    Git {
        watcher: own_file().ok().map(ChildWatcher::new),
        ..Git::default()
    }
}

/// Returns the program's own file, which guards agents.
pub(crate) fn own_file() -> Result<PathBuf> {
    env::current_exe().map_err(|error| {
        Error::new(
            ErrorKind::AgentUnusable,
            "the program cannot find its own file",
        )
        .with_source(error)
    })
}

/// Tells whether a variable is set and not empty.
pub(crate) fn has_variable(name: &str) -> bool {
    environment()
        .0
        .iter()
        .any(|(known, value)| known == name && !value.is_empty())
}

/// Returns the variables of the environment, with those that were taken out of it.
pub(crate) fn environment() -> Environment {
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary knows the environment"
    )]
    let seen = env::vars_os();
    Environment(seen.chain(hidden::variables().iter().cloned()).collect())
}
