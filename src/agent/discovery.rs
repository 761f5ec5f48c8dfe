//! Discovery of installed agents: commands on `PATH`, and the versions that they print.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CommandAgent, CommandExit, ExitCause, Limits, contain};
use crate::config::{AgentSpec, Environment};
use crate::error::{Error, ErrorKind, Result};

const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum output of a command that prints its version.
const MAX_VERSION_BYTES: u64 = 64 * 1024;

/// Returns the executable file of a command: the command itself if it is a path, otherwise the first one in the folders
/// of `path`, the value of `PATH`.
#[must_use]
pub fn find_command(path: &OsStr, command: &str) -> Option<PathBuf> {
    if command.contains(std::path::is_separator) {
        return is_program(Path::new(command)).then(|| PathBuf::from(command));
    }
    // A relative folder in PATH depends on the current folder, whose files may not be trusted.
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(command))
        .find(|file| is_program(file))
}

/// Returns true if a path is an executable file.
#[must_use]
pub fn is_program(file: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    {
        ["", "exe", "cmd", "bat"]
            .iter()
            .any(|end| file.with_extension(end).is_file())
    }
}

impl CommandAgent {
    /// Runs the command to get its version. `folder` is an empty folder for the files of this call.
    ///
    /// # Errors
    ///
    /// `AgentUnusable` if the command cannot be run or prints no version.
    pub fn version(&self, folder: &Path) -> Result<String> {
        let spec: &AgentSpec = self.spec();
        let no_version = |why: &str| {
            Error::new(
                ErrorKind::AgentUnusable,
                format!("cannot get the version of `{}`: {why}", spec.name),
            )
        };
        if spec.version.is_empty() {
            return Err(no_version("the definition has no `version` arguments"));
        }

        let argv: Vec<String> = std::iter::once(spec.command().to_owned())
            .chain(spec.version.iter().cloned())
            .collect();
        let limits = Limits {
            wall: VERSION_TIMEOUT,
            idle: VERSION_TIMEOUT,
            output: MAX_VERSION_BYTES,
            ..Limits::default()
        };
        let call_folder = folder.join("version");
        contain::prepare(&call_folder, b"")?;
        let job = self.build_job(&argv, folder, &call_folder, "version", limits);
        let exit = contain::launch(&job)?
            .wait(VERSION_TIMEOUT * 2)?
            .ok_or_else(|| no_version("timed out"))?;

        let stdout = contain::read_stdout(&call_folder);
        match find_version(&stdout).filter(|_| exit.code == Some(0)) {
            Some(version) => Ok(version.to_owned()),
            None => Err(no_version(&match exit.code {
                Some(0) => "the output contains no version".to_owned(),
                Some(code) => format!("the command failed with exit code {code}"),
                None => describe_failure(&exit),
            })),
        }
    }
}

/// Returns the reason why a version command has no exit code.
fn describe_failure(exit: &CommandExit) -> String {
    match (&exit.cause, exit.signal) {
        (ExitCause::NotInstalled, _) => "the command does not exist".to_owned(),
        (ExitCause::NotStarted(why), _) => format!("the command did not start: {why}"),
        (ExitCause::Wall | ExitCause::Idle, _) => "timed out".to_owned(),
        (_, Some(signal)) => format!("the command was killed by signal {signal}"),
        _ => "the command was stopped".to_owned(),
    }
}

/// Returns the first word that looks like a version: it starts with a number and contains a dot.
fn find_version(text: &str) -> Option<&str> {
    let words = text.split(|c: char| c.is_whitespace() || "(),".contains(c));
    words.map(|word| word.trim_start_matches('v')).find(|word| {
        let starts_with_number = word
            .split(['.', '-', '+'])
            .next()
            .is_some_and(|first| !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit()));
        starts_with_number && word.contains('.')
    })
}

/// Returns the value of `PATH` in an environment; `None` if it is not set.
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
    use super::find_version;

    #[test]
    fn versions_are_found_in_the_output_of_commands() {
        for (output, version) in [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("v1.18.33", Some("1.18.33")),
            ("aider 0.86.2.dev1", Some("0.86.2.dev1")),
            ("no version here", None),
            ("", None),
        ] {
            assert_eq!(find_version(output), version, "{output}");
        }
    }
}
