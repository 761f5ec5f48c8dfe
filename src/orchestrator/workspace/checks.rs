//! Whether the project's own checks may be run, and what they see: they run the project's code.

use std::collections::BTreeSet;

use super::Workspace;
use super::trust::{CHECKS, Trust, TrustStatus, checks_content};
use crate::config::{CheckCommand, Environment};
use crate::error::{Error, ErrorKind, Result};

/// Variables by which git tells its hooks of the repository it works in; the checks may run in another tree.
const OF_GIT: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
];

/// Refuses to run checks whose commands the user has not accepted for this project, unless they are accepted for this
/// run. That is asked for wherever the commands come from, as they run the project's code.
///
/// # Errors
///
/// `NotTrusted` naming the commands; `FileUnusable` if others could have written what the user has accepted.
pub fn check_checks(
    workspace: &Workspace,
    commands: &[CheckCommand],
    accept_now: bool,
) -> Result<()> {
    if accept_now || commands.is_empty() {
        return Ok(());
    }
    let trust = Trust::open(workspace.places.user.as_deref())?;
    let what = match trust.standing(&workspace.root, CHECKS, &checks_content(commands)) {
        TrustStatus::Accepted => return Ok(()),
        TrustStatus::New => "you have not accepted them",
        TrustStatus::Changed => "they are not the ones that you have accepted",
    };
    let lines: String = commands
        .iter()
        .map(|command| format!("\n  {}", command.run))
        .collect();
    let message = format!("checks of this project would be run, and {what}:{lines}");
    Err(Error::new(ErrorKind::NotTrusted, message)
        .with_hint("accept them with `agentd trust`, or for this run with --trust"))
}

/// Accepts checks of a project as they are.
///
/// # Errors
///
/// `FileUnusable` if it cannot be kept that they were accepted.
pub fn accept_checks(workspace: &Workspace, commands: &[CheckCommand]) -> Result<()> {
    let trust = Trust::open(workspace.places.user.as_deref())?;
    trust.accept(
        &workspace.root,
        &[(CHECKS.to_owned(), checks_content(commands))],
    )
}

impl Workspace {
    /// Returns what the project's own checks see of an environment, and the names that are withheld from them: those of
    /// secret variables that `env` under `[review]` does not name. Variables that git sets for hooks are removed, too.
    ///
    /// # Errors
    ///
    /// `ConfigInvalid` with the place.
    pub fn check_environment(
        &self,
        environment: &Environment,
    ) -> Result<(Environment, Vec<String>)> {
        let secret: BTreeSet<String> = self
            .secret_values(environment)?
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let is_withheld = |name: &str| {
            secret.contains(name) && !self.settings.review.env.iter().any(|added| added == name)
        };

        let mut seen = Vec::new();
        let mut withheld = Vec::new();
        for (name, value) in &environment.0 {
            match name.to_str() {
                Some(name) if OF_GIT.contains(&name) => {}
                Some(name) if is_withheld(name) => withheld.push(name.to_owned()),
                _ => seen.push((name.clone(), value.clone())),
            }
        }
        Ok((Environment(seen), withheld))
    }
}
