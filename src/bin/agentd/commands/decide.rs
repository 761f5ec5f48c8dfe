//! `agentd approve`, `revise`, `reject` and `cancel`: what a person decides about a change.

use agentd::models::{Decision, SessionId};
use agentd::orchestrator::PersonDecision;
use agentd::{Error, ErrorKind};

use super::run::ChangeRunner;
use crate::args::{Args, DecideArgs, EndArgs, RunOptions, SendArgs};
use crate::exit;
use crate::terminal::{self, Outcome};
use serde_json::json;

pub(super) fn approve(args: &Args, given: &DecideArgs) -> Outcome {
    decided(args, given, Decision::Approve)
}

pub(super) fn revise(args: &Args, given: &DecideArgs) -> Outcome {
    if given
        .note
        .as_deref()
        .is_none_or(|note| note.trim().is_empty())
    {
        return Err(
            Error::new(ErrorKind::NameInvalid, "nothing says what to revise")
                .with_hint("say it with --note \"…\"")
                .into(),
        );
    }
    decided(args, given, Decision::Revise)
}

fn decided(args: &Args, given: &DecideArgs, decision: Decision) -> Outcome {
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
        terminal::note(format_args!("recorded; `agentd run {session}` goes on"));
        return Ok(exit::OK);
    }
    runner.run_after(Some(&decision))
}

/// Gives a change up: one that waits, or any.
pub(super) fn end(args: &Args, given: &EndArgs, waiting: bool) -> Outcome {
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
    let (name, decision) = if waiting {
        ("agentd reject", Decision::Reject)
    } else {
        ("agentd cancel", Decision::Cancel)
    };
    let mut runner = ChangeRunner::open(args, name, &session, None, &options)?;
    runner.decide(&PersonDecision {
        decision,
        note: given.note.clone(),
    })?;
    if given.json {
        terminal::json(&json!({"change": session, "done": false}))?;
    } else {
        terminal::row(
            "given up",
            format_args!("{session}; its branch agentd/{session} stays"),
        );
    }
    Ok(exit::OK)
}
