//! `agentd approve`, `revise`, `reject` and `cancel`: decisions of the user about a change.

use agentd::models::{Decision, SessionId};
use agentd::orchestrator::PersonDecision;
use agentd::{Error, ErrorKind};

use super::run::{ChangeRunner, print_abandoned};
use crate::args::{Args, DecideArgs, EndArgs, RunOptions, SendArgs};
use crate::exit;
use crate::terminal::{self, CommandResult};
use serde_json::json;

pub(super) fn approve(args: &Args, given: &DecideArgs) -> CommandResult {
    record_decision(args, given, Decision::Approve)
}

pub(super) fn revise(args: &Args, given: &DecideArgs) -> CommandResult {
    if given
        .note
        .as_deref()
        .is_none_or(|note| note.trim().is_empty())
    {
        return Err(Error::new(
            ErrorKind::NameInvalid,
            format!("cannot revise `{}` without a note", given.change),
        )
        .with_hint(format!(
            "add a note: `agentd revise {} --note \"…\"`",
            given.change
        ))
        .into());
    }
    record_decision(args, given, Decision::Revise)
}

/// Records a decision, and runs the change unless `--later` is set.
fn record_decision(args: &Args, given: &DecideArgs, decision: Decision) -> CommandResult {
    let session = SessionId::new(given.change.as_str())?;
    let name = if decision == Decision::Approve {
        "agentd approve"
    } else {
        "agentd revise"
    };
    let mut runner = ChangeRunner::open(args, name, &session, None, &given.options)?;

    let decision = PersonDecision {
        decision,
        note: given.note.clone(),
    };

    if given.later {
        runner.decide(&decision)?;
        terminal::note(format_args!(
            "decision recorded; continue with `agentd run {session}`"
        ));
        return Ok(exit::OK);
    }
    runner.run_after(Some(&decision))
}

/// Abandons a change. With `must_wait`, fails unless the change is waiting for a decision.
pub(super) fn abandon(args: &Args, given: &EndArgs, must_wait: bool) -> CommandResult {
    let session = SessionId::new(given.change.as_str())?;
    let send = SendArgs {
        script: None,
        trust: false,
    };
    let options = RunOptions {
        agent: None,
        model: None,
        auto: false,
        yes: false,
        send,
        json: given.json,
    };
    let (name, decision) = if must_wait {
        ("agentd reject", Decision::Reject)
    } else {
        ("agentd cancel", Decision::Cancel)
    };

    let mut runner = ChangeRunner::open(args, name, &session, None, &options)?;
    let status = runner.decide(&PersonDecision {
        decision,
        note: given.note.clone(),
    })?;

    if given.json {
        terminal::print_json(&json!({"change": session, "done": false}))?;
    } else {
        print_abandoned(&status);
    }
    Ok(exit::OK)
}
