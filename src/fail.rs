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

/// Passes a place; there a test may have asked for an end, a failure or a delay.
///
/// `AGENTD_FAIL` holds `POINT=abort`, `POINT=error` or `POINT=MILLISECONDS`; `AGENTD_FAIL_TRACE` names a file to which
/// each place that is passed is appended.
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

    debug_assert!(POINTS.contains(&name), "{name} is not a fail point");
    if let Some(path) = env::var_os("AGENTD_FAIL_TRACE")
        && let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(path)
    {
        let _untraced = writeln!(file, "{name}");
    }
    let Ok(wanted) = env::var("AGENTD_FAIL") else { return Ok(()) };
    match wanted.split_once('=').filter(|(point, _)| *point == name).map(|(_, what)| what) {
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
