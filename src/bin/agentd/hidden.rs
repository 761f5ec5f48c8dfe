//! Secret variables, kept out of the environment that other processes can read.
//!
//! The system shows the environment that a program was started with, in `/proc/PID/environ` or with `ps`, whatever the
//! program removes from it later. A check or an agent could read the keys of agentd there. So agentd starts itself again
//! in the same process (`exec`) without the secret variables, and hands them over in a file in memory that is read once.

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

/// First argument of a program that was started again; the number of a file descriptor follows.
const WORD: &str = "__secrets";

/// Folder in which the system lists the open files of a process.
const OPEN_FILES: &str = if cfg!(target_os = "linux") {
    "/proc/self/fd"
} else {
    "/dev/fd"
};

/// Variables that were handed over.
static HIDDEN: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();

/// Returns the variables that are not in the environment of this process any more.
pub(crate) fn variables() -> &'static [(OsString, OsString)] {
    HIDDEN.get().map_or(&[], Vec::as_slice)
}

/// Takes over what the program was started again with, and returns its arguments as the user gave them.
///
/// # Errors
///
/// `FileUnusable` if the variables cannot be read.
#[expect(
    clippy::disallowed_methods,
    reason = "the binary knows the environment"
)]
pub(crate) fn take() -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = env::args_os().collect();
    if words.get(1).is_none_or(|word| word != WORD) {
        return Ok(words);
    }

    let file = words
        .get(2)
        .and_then(|number| number.to_str()?.parse().ok());
    let variables = file
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
        .and_then(read)
        .map_err(|error| {
            Error::new(
                ErrorKind::FileUnusable,
                "the secret variables cannot be read",
            )
            .with_source(error)
        })?;
    words.drain(1..3);
    HIDDEN.get_or_init(|| variables);
    Ok(words)
}

/// Hides what this process knows from other processes of the user: its memory, and the secret variables of its
/// environment. Starts the program again if there are any.
///
/// # Errors
///
/// `AgentUnusable` if the variables cannot be hidden.
pub(crate) fn hide(args: &Args) -> Result<()> {
    let failed = |error: io::Error| {
        Error::new(
            ErrorKind::AgentUnusable,
            "the secret variables cannot be hidden from what agentd starts",
        )
        .with_source(error)
    };
    if HIDDEN.get().is_none() {
        let environment = project::environment();
        // Definitions that cannot be read are reported by the command itself.
        let places = project::places(args).unwrap_or_default();
        let names = orchestrator::secret_variable_names(&places, &environment);
        let is_secret = |name: &OsStr| names.iter().any(|known| name == known.as_str());
        let secret: Vec<_> = environment
            .0
            .into_iter()
            .filter(|(name, _)| is_secret(name))
            .collect();
        if !secret.is_empty() {
            return Err(failed(start_again(&Environment(secret))));
        }
    }
    agent::forbid_inspection().map_err(failed)
}

/// Starts the program again without some variables. Returns only if that fails.
#[expect(
    clippy::disallowed_methods,
    reason = "the binary knows the environment, and starts nothing but itself"
)]
fn start_again(secret: &Environment) -> io::Error {
    let file = match write(secret) {
        Ok(file) => file,
        Err(error) => return error,
    };
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };

    let mut words = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command
        .arg(WORD)
        .arg(file.as_raw_fd().to_string())
        .args(words);
    for (name, _) in &secret.0 {
        command.env_remove(name);
    }
    command.exec()
}

/// Writes variables as `NAME=VALUE` with a NUL byte after each, into a file that the next program inherits.
fn write(variables: &Environment) -> io::Result<OwnedFd> {
    let mut bytes = Vec::new();
    for (name, value) in &variables.0 {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    let file = file_with(&bytes)?;
    fcntl(file.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(file)
}

/// Returns a file in memory.
#[cfg(target_os = "linux")]
fn file_with(bytes: &[u8]) -> io::Result<OwnedFd> {
    use nix::sys::memfd::{MFdFlags, memfd_create};

    let mut file = File::from(memfd_create("secrets", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Returns the end of a pipe. Fails if the pipe cannot hold all bytes.
#[cfg(not(target_os = "linux"))]
fn file_with(bytes: &[u8]) -> io::Result<OwnedFd> {
    use nix::fcntl::OFlag;

    let (reader, mut writer) = io::pipe()?;
    fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    writer.write_all(bytes)?;
    Ok(reader.into())
}

/// Reads variables from an inherited file, and closes it.
#[expect(
    clippy::disallowed_methods,
    reason = "a file descriptor is opened by its name, which needs no unsafe code"
)]
fn read(number: i32) -> io::Result<Vec<(OsString, OsString)>> {
    let mut bytes = Vec::new();
    File::open(format!("{OPEN_FILES}/{number}"))?.read_to_end(&mut bytes)?;
    close(number)?;

    let entries = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((text(&entry[..at]), text(&entry[at + 1..])))
    });
    Ok(entries.collect())
}
