//! Named places at which a test can make the program end, fail or dawdle. A release build has none.

use crate::error::Result;

/// The places, in the order in which a turn comes to them.
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

/// The places beside these that a change comes to.
pub const CHANGE_POINTS: [&str; 8] =
    ["opened", "noted", "ticked", "git-committed", "following", "archiving", "archived", "landed"];

/// Passes a place; there a test may have asked for an end, a failure or a delay.
///
/// # Errors
///
/// The failure that a test has asked for.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn point(_name: &'static str) -> Result<()> {
    Ok(())
}

/// How often the process came to the place that `AGENTD_FAIL` names.
#[cfg(debug_assertions)]
static PASSED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Passes a place; there a test may have asked for an end, a failure or a delay.
///
/// `AGENTD_FAIL` holds `POINT=abort`, `POINT=error` or `POINT=MILLISECONDS`, or `POINT@3=…` for the third time alone
/// that the process comes there; `AGENTD_FAIL_TRACE` names a file to which each place that is passed is appended.
///
/// # Errors
///
/// The failure that a test has asked for.
#[cfg(debug_assertions)]
#[expect(clippy::disallowed_methods, reason = "only tests set these, and a release build does not look")]
pub(crate) fn point(name: &'static str) -> Result<()> {
    use std::io::Write as _;
    use std::{env, fs, process, thread, time};

    use crate::error::{Error, ErrorKind};

    debug_assert!(POINTS.contains(&name) || CHANGE_POINTS.contains(&name), "{name} is not a fail point");
    if let Some(path) = env::var_os("AGENTD_FAIL_TRACE")
        && let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _untraced = writeln!(file, "{name}");
    }
    let Ok(wanted) = env::var("AGENTD_FAIL") else { return Ok(()) };
    let Some((point, what)) = wanted.split_once('=') else { return Ok(()) };
    let (point, time) =
        point.split_once('@').map_or((point, None), |(point, time)| (point, time.parse().ok()));
    let is_meant = point == name
        && time
            .is_none_or(|time: usize| PASSED.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == time);
    match Some(what).filter(|_| is_meant) {
        None => Ok(()),
        Some("abort") => process::abort(),
        Some("error") => {
            Err(Error::new(ErrorKind::LedgerUnusable, format!("the fail point `{name}` was asked to fail")))
        }
        Some(delay) => {
            thread::sleep(time::Duration::from_millis(delay.parse().unwrap_or_default()));
            Ok(())
        }
    }
}
