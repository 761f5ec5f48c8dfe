//! Trust in the project's checks, and their environment. Checks run the project's code.

use std::collections::BTreeSet;

use super::Workspace;
use super::trust::{CHECKS, Trust, TrustStatus, checks_content};
use crate::config::{CheckCommand, Environment};
use crate::error::{Error, ErrorKind, Result};

/// Variables that git sets for its hooks. They point to a repository, but a check may run in another working tree.
const GIT_HOOK_VARIABLES: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
];

/// Fails if the user does not trust the check commands of this project. With `accept_now` they are trusted for this run.
/// Commands that agentd detected also need trust, because they run the project's code.
///
/// # Errors
///
/// `NotTrusted`, with the list of commands, if they are not trusted; `FileUnusable` if others can write to the user's trust records.
pub fn check_checks(
    workspace: &Workspace,
    commands: &[CheckCommand],
    accept_now: bool,
) -> Result<()> {
    if accept_now || commands.is_empty() {
        return Ok(());
    }

    let trust = Trust::open(workspace.places.user.as_deref())?;
    let reason = match trust.status(&workspace.root, CHECKS, &checks_content(commands)) {
        TrustStatus::Accepted => return Ok(()),
        TrustStatus::New => "you have not trusted them",
        TrustStatus::Changed => "they differ from the ones that you trusted",
    };

    let lines: String = commands
        .iter()
        .map(|command| format!("\n  {}", command.run))
        .collect();
    let message = format!("cannot run the checks of this project, because {reason}:{lines}");
    Err(Error::new(ErrorKind::NotTrusted, message)
        .with_hint("trust them with `agentd trust`, or for this run with --trust"))
}

/// Records that the user trusts the checks of a project as they are.
///
/// # Errors
///
/// `FileUnusable` if the record cannot be written.
pub fn accept_checks(workspace: &Workspace, commands: &[CheckCommand]) -> Result<()> {
    let trust = Trust::open(workspace.places.user.as_deref())?;
    trust.accept(
        &workspace.root,
        &[(CHECKS.to_owned(), checks_content(commands))],
    )
}

impl Workspace {
    /// Returns the part of an environment that the project's checks get, and the names of the variables withheld from
    /// them: secret ones that `env` under `[review]` does not list. Variables that git sets for hooks are also removed.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` if an agent definition is invalid; the error has its location.
    pub fn check_environment(
        &self,
        environment: &Environment,
    ) -> Result<(Environment, Vec<String>)> {
        let secret_names: BTreeSet<String> = self
            .secret_values(environment)?
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let listed = &self.settings.review.env;
        let is_withheld = |name: &str| {
            secret_names.contains(name) && !listed.iter().any(|variable| variable == name)
        };

        let mut visible = Vec::new();
        let mut withheld = Vec::new();
        for (name, value) in &environment.0 {
            match name.to_str() {
                Some(name) if GIT_HOOK_VARIABLES.contains(&name) => {}
                Some(name) if is_withheld(name) => withheld.push(name.to_owned()),
                _ => visible.push((name.clone(), value.clone())),
            }
        }
        Ok((Environment(visible), withheld))
    }
}
