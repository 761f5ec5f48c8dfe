//! Secret variables, kept out of the environment that other processes can read.
//!
//! `/proc/PID/environ` and `ps` show the environment that a process was started with, even if the process removes
//! variables later. A check or an agent could read agentd's keys there. So agentd replaces itself (`exec`) with a process
//! without the secret variables, and passes them on in an in-memory file that is read once.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use agentd::config::Environment;
use agentd::{Error, ErrorKind, Result, agent, orchestrator};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::close;

use crate::args::Args;
use crate::project;

/// First argument after the `exec`. The second is the number of the file descriptor to read the variables from.
const SECRETS_ARGUMENT: &str = "__secrets";

/// Folder of the open file descriptors of this process.
const DESCRIPTORS_FOLDER: &str = if cfg!(target_os = "linux") {
    "/proc/self/fd"
} else {
    "/dev/fd"
};

/// Secret variables that this process received from the one before the `exec`; not set if there was no `exec`.
static HIDDEN: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();

/// Returns the variables that were removed from the environment of this process.
pub(crate) fn variables() -> &'static [(OsString, OsString)] {
    HIDDEN.get().map_or(&[], Vec::as_slice)
}

/// Reads the variables that were passed on, and returns the user's arguments.
///
/// # Errors
///
/// `FileUnusable` if the variables cannot be read.
#[expect(
    clippy::disallowed_methods,
    reason = "the binary knows the environment"
)]
pub(crate) fn receive_variables() -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = env::args_os().collect();
    if arguments
        .get(1)
        .is_none_or(|argument| argument != SECRETS_ARGUMENT)
    {
        return Ok(arguments);
    }

    let file = arguments
        .get(2)
        .and_then(|number| number.to_str()?.parse().ok());
    let variables = file
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
        .and_then(read_variables)
        .map_err(|error| {
            Error::new(
                ErrorKind::FileUnusable,
                "cannot read the secret variables that agentd passed to itself",
            )
            .with_source(error)
        })?;
    arguments.drain(1..3);
    HIDDEN.get_or_init(|| variables);
    Ok(arguments)
}

/// Hides the memory of this process and the secret variables of its environment from other processes of the user.
/// If there are secret variables, replaces the process by `exec`.
///
/// # Errors
///
/// `AgentUnusable` if the variables cannot be hidden.
pub(crate) fn hide_secrets(args: &Args) -> Result<()> {
    let failed = |error: io::Error| {
        Error::new(
            ErrorKind::AgentUnusable,
            "cannot hide the secret variables from agents and checks",
        )
        .with_source(error)
    };

    if HIDDEN.get().is_none() {
        let environment = project::environment();
        // Definitions that cannot be read are reported by the command itself.
        let places = project::places(args).unwrap_or_default();
        let names = orchestrator::secret_variable_names(&places, &environment);
        let is_secret = |name: &OsStr| names.iter().any(|secret| name == secret.as_str());
        let secret: Vec<_> = environment
            .0
            .into_iter()
            .filter(|(name, _)| is_secret(name))
            .collect();
        if !secret.is_empty() {
            return Err(failed(exec_without(&Environment(secret))));
        }
    }

    agent::forbid_inspection().map_err(failed)
}

/// Replaces this process with one without these variables in its environment. Returns only on failure.
#[expect(
    clippy::disallowed_methods,
    reason = "the binary knows the environment, and starts nothing but itself"
)]
fn exec_without(secret: &Environment) -> io::Error {
    let file = match write_variables(secret) {
        Ok(file) => file,
        Err(error) => return error,
    };
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };

    let mut arguments = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command
        .arg(SECRETS_ARGUMENT)
        .arg(file.as_raw_fd().to_string())
        .args(arguments);
    for (name, _) in &secret.0 {
        command.env_remove(name);
    }
    command.exec()
}

/// Writes variables as `NAME=VALUE`, each followed by a NUL byte, into a file that the next process inherits.
fn write_variables(variables: &Environment) -> io::Result<OwnedFd> {
    let mut bytes = Vec::new();
    for (name, value) in &variables.0 {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }

    let file = create_memory_file(&bytes)?;
    fcntl(file.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(file)
}

/// Creates an in-memory file with these bytes.
#[cfg(target_os = "linux")]
fn create_memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    use nix::sys::memfd::{MFdFlags, memfd_create};

    let mut file = File::from(memfd_create("secrets", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Returns the read end of a pipe with these bytes. Fails if they exceed the pipe's capacity.
#[cfg(not(target_os = "linux"))]
fn create_memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    use nix::fcntl::OFlag;

    let (reader, mut writer) = io::pipe()?;
    fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    writer.write_all(bytes)?;
    Ok(reader.into())
}

/// Reads variables from an inherited file descriptor, and closes it.
#[expect(
    clippy::disallowed_methods,
    reason = "a file descriptor is opened by its name, which needs no unsafe code"
)]
fn read_variables(number: i32) -> io::Result<Vec<(OsString, OsString)>> {
    let mut bytes = Vec::new();
    File::open(format!("{DESCRIPTORS_FOLDER}/{number}"))?.read_to_end(&mut bytes)?;
    close(number)?;

    let entries = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((text(&entry[..at]), text(&entry[at + 1..])))
    });
    Ok(entries.collect())
}
