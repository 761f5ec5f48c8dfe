//! Checks of the project, such as its tests, and their results.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A check that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    #[expect(missing_docs, reason = "the name says it all")]
    pub name: String,
    /// Shell command that was run.
    pub command: String,
    #[expect(missing_docs, reason = "the type says it all")]
    #[serde(flatten)]
    pub end: CheckEnd,
    /// Duration in milliseconds.
    pub milliseconds: u64,
    /// End of the output, with secrets redacted. If the output was truncated, the first line says how many bytes are
    /// missing.
    pub output: String,
}

/// End of a check's command.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum CheckEnd {
    /// Exit code 0.
    Passed,
    /// Any other exit code, or killed by a signal.
    Failed {
        /// Exit code; `None` if the command was killed by a signal.
        code: Option<i32>,
    },
    /// Killed after the timeout.
    TimedOut {
        /// Timeout in seconds.
        seconds: u64,
    },
    /// The command was not found.
    NotInstalled,
    /// Skipped: an optional scan whose tool is not installed. Not a failure.
    NotRun,
    /// Stopped by the user, or not started because the user stopped an earlier check.
    Stopped,
}

impl Check {
    /// Returns true if the check was run and passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.end == CheckEnd::Passed
    }
}

impl fmt::Display for CheckEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed { code: Some(code) } => write!(f, "failed with exit code {code}"),
            Self::Failed { code: None } => f.write_str("failed without an exit code"),
            Self::TimedOut { seconds } => {
                write!(f, "timed out after {seconds} seconds")
            }
            Self::NotInstalled => f.write_str("failed: command not found"),
            Self::NotRun => f.write_str("not run: tool not installed"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

/// Returns true if every check passed or was an optional scan that was not run. True if there are no checks.
#[must_use]
pub fn all_passed(checks: &[Check]) -> bool {
    checks
        .iter()
        .all(|check| matches!(check.end, CheckEnd::Passed | CheckEnd::NotRun))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(end: CheckEnd) -> Check {
        let (name, command) = ("tests".to_owned(), "make test".to_owned());
        Check {
            name,
            command,
            end,
            milliseconds: 7,
            output: "ok\n".to_owned(),
        }
    }

    #[test]
    fn only_what_passed_passes_and_a_scan_that_was_not_run_does_not_count() {
        let cases = [
            (CheckEnd::Passed, true),
            (CheckEnd::Failed { code: Some(1) }, false),
            (CheckEnd::Failed { code: None }, false),
            (CheckEnd::TimedOut { seconds: 1 }, false),
            (CheckEnd::NotInstalled, false),
            (CheckEnd::NotRun, true),
            (CheckEnd::Stopped, false),
        ];
        for (end, passes) in cases {
            assert_eq!(
                all_passed(&[check(CheckEnd::Passed), check(end)]),
                passes,
                "{end}"
            );
            assert_eq!(check(end).passed(), end == CheckEnd::Passed);
        }
        assert!(all_passed(&[]));
    }

    #[test]
    fn it_is_written_on_one_level() {
        let written = serde_json::to_value(check(CheckEnd::Failed { code: Some(2) })).unwrap();
        let expected = serde_json::json!({
            "name": "tests", "command": "make test", "end": "failed", "code": 2, "milliseconds": 7, "output": "ok\n",
        });
        assert_eq!(written, expected);
        let read: Check = serde_json::from_value(written).unwrap();
        assert_eq!(read, check(CheckEnd::Failed { code: Some(2) }));
    }
}
