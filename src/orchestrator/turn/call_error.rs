//! Errors for calls to agents that failed, with the command that helps.

use crate::error::Error;
use crate::models::CallOutcome;

/// Returns the outcome of a call as an error with a hint; `None` if the call went well. `detail` is the agent's own
/// explanation, or empty. `turn` is the turn as commands take it, such as `add-login/3`.
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

/// Returns what happened, as the predicate of a sentence about the agent.
fn describe(outcome: &CallOutcome) -> String {
    let text = match outcome {
        CallOutcome::Ok => "answered",
        CallOutcome::Auth => "is not logged in",
        CallOutcome::Quota { resets: Some(when) } => {
            return format!("has used up what its account allows, which resets {when}");
        }
        CallOutcome::Quota { resets: None } => "has used up what its account allows",
        CallOutcome::RateLimited {
            retry_after: Some(seconds),
        } => return format!("asks to wait {seconds} s"),
        CallOutcome::RateLimited { retry_after: None } => "asks to wait",
        CallOutcome::TooLarge {
            tokens: Some(tokens),
            limit: Some(limit),
        } => {
            return format!(
                "does not take a prompt of this size ({tokens} tokens, at most {limit})"
            );
        }
        CallOutcome::TooLarge { .. } => "does not take a prompt of this size",
        CallOutcome::Cut => "was cut off before the end of its reply",
        CallOutcome::Refused => "declines to answer",
        CallOutcome::Empty => "said nothing",
        CallOutcome::Crashed {
            signal: Some(signal),
            ..
        } => return format!("was ended by signal {signal}"),
        CallOutcome::Crashed {
            code: Some(code), ..
        } => return format!("failed with exit code {code}"),
        CallOutcome::Crashed { .. } => "failed",
        CallOutcome::TimedOut {
            idle: true,
            seconds,
        } => return format!("was silent for {seconds} s and was stopped"),
        CallOutcome::TimedOut { seconds, .. } => {
            return format!("took more than {seconds} s and was stopped");
        }
        CallOutcome::NotInstalled => "is not installed",
        CallOutcome::UnknownOutput => "wrote something that its definition does not describe",
        CallOutcome::OutputTooLarge { limit } => {
            return format!("wrote more than {limit} bytes and was stopped");
        }
        CallOutcome::Stopped => "was stopped",
        CallOutcome::Lost => "had not finished when the program ended",
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
    format!("may only read, and {files} {were} changed: {paths}{more}")
}

/// Returns the command or setting that helps.
fn hint(outcome: &CallOutcome, turn: &str) -> String {
    let session = turn.split('/').next().unwrap_or_default();
    let text = match outcome {
        CallOutcome::Ok => "",
        CallOutcome::Auth => {
            "log in with its own command; for a server, set the variable that its `key` names"
        }
        CallOutcome::Quota { .. } => "wait, or take another agent with --agent",
        CallOutcome::RateLimited { .. } => {
            "take the turn again later, or raise `max_wait_seconds` under [limits]"
        }
        CallOutcome::TooLarge { .. } => {
            "give it fewer files, or name its --model so that the prompt is fitted"
        }
        CallOutcome::Cut => "take the turn again, or ask for less at once",
        CallOutcome::Refused => {
            return format!(
                "`agentd show {turn} --reply` shows its words; say it differently, or take another agent"
            );
        }
        CallOutcome::Empty => "take the turn again; an exit code of 0 alone is no answer",
        CallOutcome::Crashed {
            signal: Some(9), ..
        } => "signal 9 often means that memory ran out",
        CallOutcome::Crashed { .. } => {
            return format!("`agentd show {turn} --reply` shows what it wrote");
        }
        CallOutcome::TimedOut { idle: true, .. } => {
            "raise `idle_seconds` under [limits] if it needs longer"
        }
        CallOutcome::TimedOut { .. } => "raise `wall_seconds` under [limits] if it needs longer",
        CallOutcome::NotInstalled => {
            "install it, put it on PATH, or take another agent with --agent"
        }
        CallOutcome::UnknownOutput => {
            return format!("`agentd show {turn} --reply` shows it; its version may be new");
        }
        CallOutcome::OutputTooLarge { .. } => {
            "raise `output_bytes` under [limits] if it needs more"
        }
        CallOutcome::Stopped | CallOutcome::Lost => {
            return format!("`agentd resume {session}` calls it again");
        }
        CallOutcome::Edited { .. } => {
            "see `git status`; the reply does not count; if you changed them, try again"
        }
    };
    text.to_owned()
}
