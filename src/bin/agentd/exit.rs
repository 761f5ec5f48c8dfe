//! Exit codes. docs/reference/exit-codes.md documents them for users.

use agentd::ErrorKind;

/// Success.
pub(crate) const OK: u8 = 0;

/// Findings: failing checks, `NEEDS_CHANGES`, problems in checked files.
pub(crate) const FINDINGS: u8 = 1;

/// Invalid command line.
pub(crate) const USAGE: u8 = 2;

/// Invalid input: a file, a name, a change, empty instructions.
pub(crate) const INPUT: u8 = 3;

/// A template, pack or settings file is missing, invalid or not trusted.
pub(crate) const DEFINITION: u8 = 4;

/// The agent failed.
pub(crate) const AGENT: u8 = 5;

/// The reply lacks the verdict that its mode requires.
pub(crate) const VERDICT: u8 = 6;

/// Environment failure: the ledger, git, or writing output.
pub(crate) const OUTSIDE: u8 = 7;

/// Not allowed now: a budget is exhausted, or the user has to decide first.
pub(crate) const FORBIDDEN: u8 = 8;

/// Abandoned by a verdict (`MAJOR_ISSUES`, `REJECTED`) or by the user.
pub(crate) const ABANDONED: u8 = 9;

/// Another process holds the session.
pub(crate) const BUSY: u8 = 75;

/// Stopped by the user.
pub(crate) const STOPPED: u8 = 130;

/// Returns the exit code for a kind of error.
pub(crate) fn code_for(kind: ErrorKind) -> u8 {
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
        | ErrorKind::GateClosed
        | ErrorKind::CommandRefused
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
