//! `agentd review`: the review phase of a change, or a review of the current branch.

use agentd::models::{AgentName, Mode, SessionId};
use agentd::ops::{LeftOut, short_commit, some_left_out};
use agentd::orchestrator::{
    AcceptNow, MAX_REPAIRS, ReviewBase, ReviewReport, TurnRequest, no_agent, review_tree,
};
use agentd::text::terminal::escape_file_name;
use agentd::{Error, ErrorKind, ReviewResult};
use serde_json::json;

use super::report;
use super::run::ChangeRunner;
use super::session::CliSession;
use crate::args::{Args, ReviewArgs};
use crate::terminal::{self, CommandResult, Failure};
use crate::{exit, humanize, project};

/// Pack of reviews and fixes without a plan.
pub(super) const LIGHT: &str = "light";

pub(super) fn run(args: &Args, given: &ReviewArgs) -> CommandResult {
    let mode = Mode::new("review")?;
    if let Some(change) = &given.change {
        let session = SessionId::new(change.as_str())?;
        let mut runner = ChangeRunner::open(args, "agentd review", &session, None, &given.options)?;
        runner.request.only = Some(mode);
        return runner.run();
    }

    let options = &given.options;
    let root = project::root(args)?;
    let base = ReviewBase::find(&root, &project::git(), given.base.as_deref())?;
    let workspace = project::review_workspace(&base, &root, LIGHT)?;

    let instructions = match (&given.mind, &workspace.pack.mode(&mode)?.request) {
        (Some(mind), _) => mind.clone(),
        (None, Some(request)) => request.clone(),
        (None, None) => String::new(),
    };
    let agent = options.agent.as_deref().map(AgentName::new).transpose()?;
    let mut request = TurnRequest {
        agent,
        model: options.model.clone(),
        repairs: MAX_REPAIRS,
        ..TurnRequest::new(mode.clone(), instructions)
    };
    let agent = workspace.agent(&request)?.ok_or_else(|| no_agent(&mode))?;
    request.agent = Some(agent.clone());

    let mut cli = CliSession::open(
        args,
        "agentd review",
        workspace,
        &options.send,
        options.json,
    )?;
    if options.send.trust {
        cli.run.trust = AcceptNow::Checks;
    }

    let driver = cli.driver(args, &agent)?;
    let (result, shown) = cli.with_context(false, |context, _| {
        review_tree(context, driver.as_ref(), &request, &base, !given.no_checks)
    })?;
    let reviewed = result?;
    shown.map_err(Failure::Output)?;

    let Some(reviewed) = reviewed else {
        if !given.allow_empty {
            return Err(nothing_to_review().into());
        }
        if options.json {
            terminal::print_json(&json!({"files": [], "findings": [], "verdict": null}))?;
        } else {
            terminal::note("nothing to review: the working tree does not differ from the base");
        }
        return Ok(exit::OK);
    };

    print_review(reviewed, options.json)
}

/// Returns the error for a working tree that equals its base. In CI the cause is more often a wrong base than an empty
/// change, so the review must not look like a PASS.
fn nothing_to_review() -> Error {
    Error::new(
        ErrorKind::NothingToReview,
        "nothing to review: the working tree does not differ from the base",
    )
    .with_hint("pass another base with --base, or allow an empty review with --allow-empty")
}

/// Prints the result of a review, and returns the exit code of its verdict.
fn print_review(reviewed: ReviewReport, as_json: bool) -> CommandResult {
    if !reviewed.definitions_changed.is_empty() {
        let files: Vec<String> = reviewed
            .definitions_changed
            .iter()
            .map(|path| escape_file_name(path).into_owned())
            .collect();
        terminal::warning(format_args!(
            "this branch edits agentd's definitions: {}; the review used the definitions of commit {}",
            files.join(", "),
            short_commit(&reviewed.definitions_from)
        ));
    }

    if as_json {
        let turn = format!("{}/{}", reviewed.report.session, reviewed.report.turn);
        let mut value = serde_json::to_value(&reviewed).unwrap_or_default();
        value["turn"] = json!(turn);
        value["message"] = json!(reviewed.report.response.message);
        terminal::print_json(&value)?;
    } else {
        terminal::write_data(|out| {
            for finding in &reviewed.findings {
                writeln!(out, "{finding}")?;
                finding
                    .remedy
                    .iter()
                    .try_for_each(|remedy| writeln!(out, "    {remedy}"))?;
            }
            match reviewed.report.response.message.trim() {
                "" => Ok(()),
                message => writeln!(out, "{message}"),
            }
        })?;
        report::print_turn(&reviewed.report);

        let left_out: Vec<&LeftOut> = reviewed.left_out.iter().collect();
        for file in some_left_out(&left_out) {
            terminal::eprint_row("not shown", file);
        }
        terminal::eprint_row(
            "reviewed",
            format_args!(
                "{} against {}",
                humanize::count(reviewed.files.len() as u64, "file"),
                short_commit(&reviewed.base)
            ),
        );
        match (&reviewed.overruled, reviewed.verdict) {
            (Some(overruled), _) => {
                terminal::eprint_row("effective verdict", report::describe_effective(overruled));
            }
            (None, Some(verdict)) => terminal::eprint_row("effective verdict", verdict.name()),
            (None, None) => {}
        }
    }

    match (reviewed.report.fault, reviewed.verdict) {
        (Some(fault), _) => Err(fault.into()),
        (None, Some(ReviewResult::Pass)) => Ok(exit::OK),
        (None, Some(ReviewResult::MajorIssues | ReviewResult::Rejected)) => Ok(exit::ABANDONED),
        (None, Some(_)) => Ok(exit::FINDINGS),
        (None, None) => Ok(exit::VERDICT),
    }
}
