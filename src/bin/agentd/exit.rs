//! Exit codes, each with its meaning. docs/reference/exit-codes.md lists them for people.

use agentd::ErrorKind;

/// All went well.
pub(crate) const OK: u8 = 0;

/// A check found something to complain about.
pub(crate) const FINDINGS: u8 = 1;

/// The command line itself cannot be understood.
pub(crate) const USAGE: u8 = 2;

/// Something that was given cannot be used: a file, a name, a change, an empty text.
pub(crate) const INPUT: u8 = 3;

/// A template, a pack or a settings file is missing, broken or not accepted.
pub(crate) const DEFINITION: u8 = 4;

/// The agent did not do its part.
pub(crate) const AGENT: u8 = 5;

/// The reply does not hold the verdict that its mode requires.
pub(crate) const VERDICT: u8 = 6;

/// The outside world failed: output or a ledger that cannot be written, git.
pub(crate) const OUTSIDE: u8 = 7;

/// Something forbids it: a budget, or work that may be half done.
pub(crate) const FORBIDDEN: u8 = 8;

/// A verdict has given it up: MAJOR_ISSUES or REJECTED.
pub(crate) const GIVEN_UP: u8 = 9;

/// Someone else holds the session.
pub(crate) const BUSY: u8 = 75;

/// The user has stopped it.
pub(crate) const STOPPED: u8 = 130;

/// Returns the code of a kind of failure.
pub(crate) fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::TemplateNotFound
        | ErrorKind::TemplateInvalid
        | ErrorKind::PackNotFound
        | ErrorKind::PackInvalid
        | ErrorKind::UnknownOperation
        | ErrorKind::ConfigInvalid
        | ErrorKind::NotTrusted => DEFINITION,
        ErrorKind::ScriptMismatch => AGENT,
        ErrorKind::MissingReviewMarker
        | ErrorKind::MissingMarker
        | ErrorKind::VerdictNotAllowed => VERDICT,
        ErrorKind::AgentAuth
        | ErrorKind::AgentQuota
        | ErrorKind::AgentRateLimited
        | ErrorKind::AgentTooLarge
        | ErrorKind::AgentCutOff
        | ErrorKind::AgentRefused
        | ErrorKind::AgentEmpty
        | ErrorKind::AgentCrashed
        | ErrorKind::AgentTimedOut
        | ErrorKind::AgentNotInstalled
        | ErrorKind::AgentOutputUnknown
        | ErrorKind::AgentOutputTooLarge
        | ErrorKind::AgentLost
        | ErrorKind::AgentEdited
        | ErrorKind::AgentUnusable => AGENT,
        ErrorKind::AgentStopped => STOPPED,
        ErrorKind::BudgetExhausted
        | ErrorKind::PriceUnknown
        | ErrorKind::NotResumable
        | ErrorKind::NotWaiting
        | ErrorKind::VerdictStale => FORBIDDEN,
        ErrorKind::ReplyUnusable => AGENT,
        ErrorKind::LedgerUnusable
        | ErrorKind::LedgerChanged
        | ErrorKind::NoRandomness
        | ErrorKind::StorageFull
        | ErrorKind::GitFailed => OUTSIDE,
        ErrorKind::MergeConflict => FINDINGS,
        ErrorKind::SessionBusy => BUSY,
        _ => INPUT,
    }
}
