//! Fail points: named places at which a test can make the program abort, fail or wait. Release builds ignore them.

use crate::error::Result;

/// Fail points of a turn, in the order in which it reaches them.
pub const POINTS: [&str; 15] = [
    "claimed",
    "prepared",
    "called",
    "launched",
    "recorded",
    "replied",
    "committing",
    "kept",
    "cleared",
    "committed",
    "writing",
    "written",
    "settling",
    "settled",
    "released",
];

/// Additional fail points of a change.
pub const CHANGE_POINTS: [&str; 8] = [
    "opened",
    "noted",
    "ticked",
    "git-committed",
    "following",
    "archiving",
    "archived",
    "landed",
];

/// Additional fail points of a conversation.
pub const CHAT_POINTS: [&str; 2] = ["changed", "undoing"];

/// Does nothing in a release build.
///
/// # Errors
///
/// Never fails.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn point(_name: &'static str) -> Result<()> {
    Ok(())
}

/// Number of times that the process has reached the point in `AGENTD_FAIL`.
#[cfg(debug_assertions)]
static PASSED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Aborts, fails or waits at a fail point, as set by a test.
///
/// `AGENTD_FAIL` holds `POINT=abort`, `POINT=error` or `POINT=until:PATH`, which waits until a file exists at `PATH`.
/// `POINT@3=…` applies only to the third time that the process reaches the point. `AGENTD_FAIL_TRACE` names a file; the
/// name of each point is appended to it when the point is reached, before anything else happens there.
///
/// # Errors
///
/// `LedgerUnusable` for `POINT=error`.
#[cfg(debug_assertions)]
#[expect(
    clippy::disallowed_methods,
    reason = "only tests set these variables, and release builds ignore them"
)]
pub(crate) fn point(name: &'static str) -> Result<()> {
    use std::io::Write as _;
    use std::{env, fs, process};

    use crate::error::{Error, ErrorKind};

    debug_assert!(
        [&POINTS[..], &CHANGE_POINTS, &CHAT_POINTS]
            .concat()
            .contains(&name),
        "{name} is not a fail point"
    );
    if let Some(path) = env::var_os("AGENTD_FAIL_TRACE")
        && let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _untraced = writeln!(file, "{name}");
    }

    let Ok(wanted) = env::var("AGENTD_FAIL") else {
        return Ok(());
    };
    let Some((target, action)) = wanted.split_once('=') else {
        return Ok(());
    };
    let (point, time) = target
        .split_once('@')
        .map_or((target, None), |(point, time)| (point, time.parse().ok()));
    let is_active = point == name
        && time.is_none_or(|time: usize| {
            PASSED.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == time
        });
    if !is_active {
        return Ok(());
    }

    match action {
        "abort" => process::abort(),
        "error" => Err(Error::new(
            ErrorKind::LedgerUnusable,
            format!("the fail point `{name}` is set to fail"),
        )),
        action => {
            if let Some(path) = action.strip_prefix("until:") {
                wait_for_file(path.as_ref());
            }
            Ok(())
        }
    }
}

/// Maximum time that a process waits at a fail point.
#[cfg(debug_assertions)]
const MAX_WAIT: std::time::Duration = std::time::Duration::from_secs(600);

/// Waits until a file exists. Aborts the process after [`MAX_WAIT`], so that a killed test leaves no process running.
#[cfg(debug_assertions)]
fn wait_for_file(path: &std::path::Path) {
    use std::time::{Duration, Instant};
    use std::{process, thread};

    let begun = Instant::now();
    while !path.exists() {
        if begun.elapsed() > MAX_WAIT {
            process::abort();
        }
        thread::sleep(Duration::from_millis(5));
    }
}
