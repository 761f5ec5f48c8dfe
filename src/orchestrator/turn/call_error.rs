//! Errors for failed calls to agents, with hints.

use crate::error::Error;
use crate::models::CallOutcome;

/// Returns the error for the outcome of a call, with a hint; `None` if the call succeeded.
///
/// `turn` is the name of the turn, such as `add-login/3`. `detail` is the error message of the agent, or empty.
pub(crate) fn call_error(
    outcome: &CallOutcome,
    agent: &str,
    turn: &str,
    detail: &str,
) -> Option<Error> {
    let kind = outcome.error_kind()?;

    let what = describe(outcome);
    let detail = detail.trim();
    let message = if detail.is_empty() {
        format!("{agent} {what}")
    } else {
        format!("{agent} {what}: {detail}")
    };

    Some(Error::new(kind, message).with_hint(hint(outcome, turn)))
}

/// Describes an outcome as the predicate of a sentence about the agent, such as `is not logged in`.
fn describe(outcome: &CallOutcome) -> String {
    let text = match outcome {
        CallOutcome::Ok => "answered",
        CallOutcome::Auth => "is not logged in",
        CallOutcome::Quota { resets: Some(when) } => {
            return format!("has exhausted its quota, which resets {when}");
        }
        CallOutcome::Quota { resets: None } => "has exhausted its quota",
        CallOutcome::RateLimited {
            retry_after: Some(seconds),
        } => return format!("is rate limited for {seconds} s"),
        CallOutcome::RateLimited { retry_after: None } => "is rate limited",
        CallOutcome::TooLarge {
            tokens: Some(tokens),
            limit: Some(limit),
        } => {
            return format!("rejected the prompt as too large ({tokens} tokens, at most {limit})");
        }
        CallOutcome::TooLarge { .. } => "rejected the prompt as too large",
        CallOutcome::Cut => "was cut off before the end of its reply",
        CallOutcome::Refused => "refused to answer",
        CallOutcome::Empty => "sent an empty reply",
        CallOutcome::Crashed {
            signal: Some(signal),
            ..
        } => return format!("was killed by signal {signal}"),
        CallOutcome::Crashed {
            code: Some(code), ..
        } => return format!("failed with exit code {code}"),
        CallOutcome::Crashed { .. } => "failed",
        CallOutcome::TimedOut {
            idle: true,
            seconds,
        } => return format!("was stopped after {seconds} s without output"),
        CallOutcome::TimedOut { seconds, .. } => {
            return format!("was stopped at its time limit of {seconds} s");
        }
        CallOutcome::NotInstalled => "is not installed",
        CallOutcome::UnknownOutput => "wrote output that does not match its definition",
        CallOutcome::OutputTooLarge { limit } => {
            return format!("wrote more than {limit} bytes and was stopped");
        }
        CallOutcome::Stopped => "was stopped",
        CallOutcome::Lost => "had not finished when agentd exited",
        CallOutcome::Edited { files, first } => return describe_edits(*files, first),
    };
    text.to_owned()
}

fn describe_edits(files: u64, first: &[String]) -> String {
    let were = if files == 1 { "file was" } else { "files were" };
    let paths = first.join(", ");
    let more = if files > first.len() as u64 {
        ", …"
    } else {
        ""
    };
    format!("is read-only, but {files} {were} changed: {paths}{more}")
}

/// Returns the hint for an outcome: a command to run or a setting to change.
fn hint(outcome: &CallOutcome, turn: &str) -> String {
    let session = turn.split('/').next().unwrap_or_default();
    let text = match outcome {
        CallOutcome::Ok => "",
        CallOutcome::Auth => {
            "log in with the agent's command; for an HTTP API, set the variable named by `key`"
        }
        CallOutcome::Quota { .. } => "wait, or choose another agent with --agent",
        CallOutcome::RateLimited { .. } => {
            "repeat the turn later, or raise `max_wait_seconds` under [limits]"
        }
        CallOutcome::TooLarge { .. } => {
            "pass fewer files, or pass --model so that the prompt is fitted to it"
        }
        CallOutcome::Cut => "repeat the turn, or split the task",
        CallOutcome::Refused => {
            return format!(
                "see `agentd show {turn} --reply`; rephrase the request, or choose another agent"
            );
        }
        CallOutcome::Empty => "repeat the turn, or choose another agent with --agent",
        CallOutcome::Crashed {
            signal: Some(9), ..
        } => "signal 9 often means out of memory",
        CallOutcome::Crashed { .. } => {
            return format!("see its output with `agentd show {turn} --reply`");
        }
        CallOutcome::TimedOut { idle: true, .. } => {
            "raise `idle_seconds` under [limits] if the agent needs longer"
        }
        CallOutcome::TimedOut { .. } => {
            "raise `wall_seconds` under [limits] if the agent needs longer"
        }
        CallOutcome::NotInstalled => {
            "install the agent, add it to PATH, or choose another agent with --agent"
        }
        CallOutcome::UnknownOutput => {
            return format!(
                "see `agentd show {turn} --reply`; the agent may be newer than its definition"
            );
        }
        CallOutcome::OutputTooLarge { .. } => {
            "raise `output_bytes` under [limits] if the agent needs more"
        }
        CallOutcome::Stopped | CallOutcome::Lost => {
            return format!("call the agent again with `agentd resume {session}`");
        }
        CallOutcome::Edited { .. } => {
            "the reply was discarded; check `git status`; if you edited the files yourself, repeat the turn"
        }
    };
    text.to_owned()
}
