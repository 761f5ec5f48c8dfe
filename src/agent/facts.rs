//! What containment can promise on this system, found out by trying.

use std::path::Path;
use std::time::Duration;

use super::Limits;
use super::contain::{Containment, ExitCause, Job, launch, prepare};
use super::guard;
use super::system;
use crate::error::{Error, ErrorKind, Result};

/// How long a trial may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What containment can promise on this system.
#[derive(Debug)]
pub struct ContainmentFacts {
    /// Why no guard can contain an agent, if none can.
    pub guard: Result<()>,
    /// Why no PID namespace is granted, if none is.
    pub namespace: Result<()>,
    /// Whether what an agent's processes leave behind is found and ended too.
    pub orphans: bool,
}

impl ContainmentFacts {
    /// Finds them out by running nothing under a guard, with and without a namespace.
    #[must_use]
    pub fn find(guard: &Path) -> Self {
        Self {
            guard: attempt(guard, Containment::Guard),
            namespace: attempt(guard, Containment::Namespace),
            orphans: cfg!(target_os = "linux"),
        }
    }

    /// Returns what is promised when agentd is killed.
    #[must_use]
    pub fn when_killed(&self) -> &'static str {
        match (&self.guard, self.orphans) {
            (Err(_), _) => "no agent is started",
            (Ok(()), true) => "everything an agent has started ends within a second",
            (Ok(()), false) => "the agent's process group ends; what has left the group stays",
        }
    }

    /// Returns what is promised when agentd and the guard are killed.
    #[must_use]
    pub fn when_guard_killed(&self) -> &'static str {
        match (&self.namespace, self.orphans) {
            (Ok(()), _) => "with containment = \"namespace\" the kernel ends everything at once",
            (Err(_), true) => "the next agentd ends what is left, by its marker",
            (Err(_), false) => "the agent stays",
        }
    }
}

fn attempt(program: &Path, containment: Containment) -> Result<()> {
    let failed = |words: String| Error::new(ErrorKind::AgentUnusable, words);
    let folder = tempfile::tempdir()
        .map_err(|cause| failed("no folder for a trial".to_owned()).with_source(cause))?;
    let folder = folder.path();
    prepare(folder, b"")?;
    let argv = [
        program.to_string_lossy().into_owned(),
        guard::WORD.to_owned(),
        guard::NOTHING.to_owned(),
    ];
    let limits = Limits {
        wall: PATIENCE,
        ..Limits::default()
    };
    let marker = format!("trial-{}", folder.display());
    let job = Job {
        guard: program,
        argv: &argv,
        env: &[],
        cwd: folder,
        folder,
        marker: &marker,
        limits,
        containment,
    };
    match launch(&job)?.wait(PATIENCE + limits.grace)? {
        Some(exit) if exit.cause == ExitCause::Ended && exit.code == Some(0) => Ok(()),
        exit => Err(failed(format!(
            "a trial did not end as it should: {exit:?}"
        ))),
    }
}

/// Returns the name of the network file system that holds a path, or would hold it; `None` if it is on a local one.
#[must_use]
pub fn network_filesystem(path: &Path) -> Option<String> {
    let there = path
        .ancestors()
        .find(|folder| folder.exists())
        .unwrap_or(Path::new("."));
    system::network_filesystem(there).map(str::to_owned)
}
