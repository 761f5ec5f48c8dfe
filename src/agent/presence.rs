//! Which agents there are on this machine: their commands, and the versions that these tell.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CommandAgent, Limits, contain};
use crate::config::{AgentSpec, Environment};
use crate::error::{Error, ErrorKind, Result};

/// How long a command may take to tell its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// The most that it may say.
const OUTPUT: u64 = 64 * 1024;

/// Returns the file of a command: the path itself, or the first in a folder of `PATH`.
#[must_use]
pub fn find_command(path: &OsStr, command: &str) -> Option<PathBuf> {
    if command.contains(std::path::is_separator) {
        return is_program(Path::new(command)).then(|| PathBuf::from(command));
    }
    // An empty folder of PATH is the current one, which may be anyone's.
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders
        .map(|folder| folder.join(command))
        .find(|file| is_program(file))
}

/// Tells whether a file can be run.
#[must_use]
pub fn is_program(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    {
        ["", "exe", "cmd", "bat"]
            .iter()
            .any(|end| file.with_extension(end).is_file())
    }
}

impl CommandAgent {
    /// Asks the command for its version, as it says it. `folder` is one of the caller's own, where nothing else is.
    ///
    /// # Errors
    ///
    /// `AgentUnusable` if it does not tell one.
    pub fn version(&self, folder: &Path) -> Result<String> {
        let spec: &AgentSpec = self.spec();
        let silent = |why: &str| {
            Error::new(
                ErrorKind::AgentUnusable,
                format!("`{}` does not tell its version: {why}", spec.name),
            )
        };
        if spec.version.is_empty() {
            return Err(silent("its definition does not say how to ask"));
        }
        let argv: Vec<String> = std::iter::once(spec.command().to_owned())
            .chain(spec.version.iter().cloned())
            .collect();
        let limits = Limits {
            wall: PATIENCE,
            idle: PATIENCE,
            output: OUTPUT,
            ..Limits::default()
        };
        let call = folder.join("version");
        contain::prepare(&call, b"")?;
        let mut running = contain::launch(&self.job(&argv, folder, &call, "version", limits))?;
        let exit = running
            .wait(PATIENCE * 2)?
            .ok_or_else(|| silent("it takes too long"))?;
        let said = contain::read_stdout(&call);
        match version_in(&said).filter(|_| exit.code == Some(0)) {
            Some(version) => Ok(version.to_owned()),
            None => Err(silent(&match exit.code {
                Some(code) => format!("it ends with exit code {code}"),
                None => "it did not come to its end".to_owned(),
            })),
        }
    }
}

/// Returns the first word of a text that is a version: numbers with dots between them.
fn version_in(text: &str) -> Option<&str> {
    let words = text.split(|c: char| c.is_whitespace() || "(),".contains(c));
    words.map(|word| word.trim_start_matches('v')).find(|word| {
        let numbers = word
            .split(['.', '-', '+'])
            .next()
            .is_some_and(|first| !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit()));
        numbers && word.contains('.')
    })
}

/// Returns the variables that are needed to look for commands.
#[must_use]
pub fn path_of(environment: &Environment) -> Option<&OsStr> {
    environment
        .0
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_found_in_what_commands_say() {
        for (said, version) in [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("v1.18.33", Some("1.18.33")),
            ("aider 0.86.2.dev1", Some("0.86.2.dev1")),
            ("no version here", None),
            ("", None),
        ] {
            assert_eq!(version_in(said), version, "{said}");
        }
    }
}
