//! Containment support of this system, determined by trial runs.

use std::path::Path;
use std::time::Duration;

use super::Limits;
use super::contain::{Containment, ExitCause, GuardedCommand, launch, prepare};
use super::guard;
use crate::error::{Error, ErrorKind, Result};

const TRIAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Containment support of this system.
#[derive(Debug)]
pub struct ContainmentFacts {
    /// Result of a trial with a guard.
    pub guard: Result<()>,
    /// Result of a trial with a PID namespace.
    pub namespace: Result<()>,
    /// True if processes that left the agent's process group are found and killed as well.
    pub orphans: bool,
}

impl ContainmentFacts {
    /// Runs a program that does nothing under a guard, with and without a namespace.
    #[must_use]
    pub fn find(guard: &Path) -> Self {
        Self {
            guard: run_trial(guard, Containment::Guard),
            namespace: run_trial(guard, Containment::Namespace),
            orphans: cfg!(target_os = "linux"),
        }
    }

    /// Describes, for users, what happens to an agent if agentd is killed.
    #[must_use]
    pub fn when_killed(&self) -> &'static str {
        match (&self.guard, self.orphans) {
            (Err(_), _) => "agents cannot be started",
            (Ok(()), true) => "all processes of an agent are killed within a second",
            (Ok(()), false) => {
                "the agent's process group is killed; processes outside the group keep running"
            }
        }
    }

    /// Describes, for users, what happens to an agent if both agentd and the guard of the agent are killed.
    #[must_use]
    pub fn when_guard_killed(&self) -> &'static str {
        match (&self.namespace, self.orphans) {
            (Ok(()), _) => {
                "with containment = \"namespace\" the kernel kills all processes at once"
            }
            (Err(_), true) => "the next agentd run kills the processes that are left",
            (Err(_), false) => "the agent keeps running",
        }
    }
}

fn run_trial(program: &Path, containment: Containment) -> Result<()> {
    let failed = |message: String| Error::new(ErrorKind::AgentUnusable, message);
    let temporary = tempfile::tempdir().map_err(|cause| {
        failed("cannot create a temporary folder for the trial run".to_owned()).with_source(cause)
    })?;
    let folder = temporary.path();
    prepare(folder, b"")?;

    let argv = [
        program.to_string_lossy().into_owned(),
        guard::GUARD_ARGUMENT.to_owned(),
        guard::ROLE_NOTHING.to_owned(),
    ];
    let limits = Limits {
        wall: TRIAL_TIMEOUT,
        ..Limits::default()
    };
    let marker = format!("trial-{}", folder.display());
    let job = GuardedCommand {
        guard: program,
        argv: &argv,
        env: &[],
        cwd: folder,
        folder,
        marker: &marker,
        limits,
        containment,
    };

    let timeout = TRIAL_TIMEOUT + limits.grace;
    let Some(exit) = launch(&job)?.wait(timeout)? else {
        let seconds = timeout.as_secs();
        return Err(failed(format!(
            "the trial run did not end within {seconds} s"
        )));
    };
    match (&exit.cause, exit.code) {
        (ExitCause::Ended, Some(0)) => Ok(()),
        (ExitCause::Ended, Some(code)) => Err(failed(format!(
            "the trial run failed with exit code {code}"
        ))),
        (ExitCause::NotStarted(why), _) => {
            Err(failed(format!("the trial run did not start: {why}")))
        }
        _ => match exit.signal {
            Some(signal) => Err(failed(format!(
                "the trial run was killed by signal {signal}"
            ))),
            None => Err(failed(format!("the trial run failed: {:?}", exit.cause))),
        },
    }
}
