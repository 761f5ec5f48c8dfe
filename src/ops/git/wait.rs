//! Waits for a command to exit. On Linux, a thread in `waitid` reports the exit at once; elsewhere the process is polled.

use std::io;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Reason for giving up on a command, which may still be running.
#[derive(Debug)]
pub(super) enum WaitEnd {
    /// The timeout has expired.
    TimedOut,
    /// The output exceeds the limit.
    TooMuchOutput,
    /// The command would block on this named pipe.
    Pipe(PathBuf),
    /// The command would read this file into memory, but it is too large.
    LargeFile(PathBuf),
    /// The command could not be started or waited for, or its input or output failed.
    Failed(io::Error),
}

impl From<io::Error> for WaitEnd {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Waits for a command to exit, and reaps it. Meanwhile `check` is called every few milliseconds.
///
/// # Errors
///
/// `TimedOut` after `limit`; errors of `check`. The caller must then kill the command.
pub(super) fn wait_for_exit(
    child: &mut Child,
    limit: Duration,
    mut check: impl FnMut() -> Result<(), WaitEnd>,
) -> Result<ExitStatus, WaitEnd> {
    let begun = Instant::now();
    let mut notice = ExitNotice::for_child(child);

    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let Some(left) = limit.checked_sub(begun.elapsed()) else {
            return Err(WaitEnd::TimedOut);
        };
        check()?;
        notice.wait(left);
    }
}

/// Wakes the caller as soon as a child process exits.
///
/// A thread blocks in `waitid` and reports the exit through a channel, so that polling is not needed. `WNOWAIT` leaves
/// the child for `try_wait` to reap: its pid stays valid, and a signal sent to it cannot hit another process. Without
/// such a thread (on other systems than Linux, or if it cannot be started) the child is polled.
struct ExitNotice {
    exited: Option<Receiver<()>>,
    pause: Duration,
}

impl ExitNotice {
    /// Maximum time between two checks.
    const CHECK_INTERVAL: Duration = Duration::from_millis(10);
    /// First pause between two polls of a child; it doubles up to `CHECK_INTERVAL`.
    const FIRST_PAUSE: Duration = Duration::from_micros(500);

    #[cfg(target_os = "linux")]
    fn for_child(child: &Child) -> Self {
        use std::sync::mpsc;
        use std::thread;

        use nix::errno::Errno;
        use nix::sys::wait::{Id, WaitPidFlag, waitid};
        use nix::unistd::Pid;

        let (sender, receiver) = mpsc::channel();
        let pid = Pid::from_raw(child.id().cast_signed());
        let watch = move || {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            while waitid(Id::Pid(pid), flags) == Err(Errno::EINTR) {}
            let _receiver_is_gone = sender.send(());
        };
        let thread = thread::Builder::new()
            .name("git-exit".to_owned())
            .spawn(watch);

        Self {
            exited: thread.is_ok().then_some(receiver),
            pause: Self::FIRST_PAUSE,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn for_child(_child: &Child) -> Self {
        Self {
            exited: None,
            pause: Self::FIRST_PAUSE,
        }
    }

    /// Waits until the child exits, but no longer than `CHECK_INTERVAL` and `left`.
    fn wait(&mut self, left: Duration) {
        let Some(exited) = &self.exited else {
            sleep(self.pause.min(left));
            self.pause = (self.pause * 2).min(Self::CHECK_INTERVAL);
            return;
        };

        if exited.recv_timeout(Self::CHECK_INTERVAL.min(left))
            == Err(RecvTimeoutError::Disconnected)
        {
            self.exited = None;
        }
    }
}
