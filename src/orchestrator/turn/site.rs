//! Site of a turn: the user's working tree, or the branch and worktree of a change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::context::TurnContext;
use super::findings::{notes_findings, open_findings, open_findings_in_mode};
use super::ledger_text::ledger_text;
use super::progress::{ProgressEvent, ProgressSender};
use super::request::{ReviewTree, TurnRequest};
use crate::config::{BranchFinish, CheckCommand, Environment};
use crate::error::{Error, ErrorKind, Result};
use crate::models::paths::CALLS_FOLDER;
use crate::models::{Check, CheckEnd, Finding, Mode, OperationId, SessionId, State, StepOutcome};
use crate::ops::{ChangeSite, ChatSite, CheckJob, Repository, ReviewSite, Site, Worktree};
use crate::orchestrator::workspace::{check_checks, is_secret_file};

/// Site of a turn: the tree that its agent and its operations work in.
pub(crate) struct TurnSite {
    /// Root of the tree.
    pub(crate) tree: PathBuf,
    change: Option<ChangeWorktree>,
    review: Option<TreeReview>,
}

/// A review of the user's working tree.
struct TreeReview {
    tree: ReviewTree,
    /// Runner of the checks; `None` in a review without checks.
    checks: Option<CheckRunner>,
}

/// The branch and worktree of a change.
struct ChangeWorktree {
    repository: Repository,
    worktree: Worktree,
    checks: CheckRunner,
    /// Report of the last run of the checks, if a check failed.
    failed: Option<String>,
    /// Open findings that are relevant in the mode.
    findings: Vec<Finding>,
}

/// Callback that is called before each check (without a result) and after it.
type ReportCheck = dyn Fn(&CheckCommand, Option<&Check>);

/// Commands and settings to run the project's checks.
struct CheckRunner {
    commands: Vec<CheckCommand>,
    folder: PathBuf,
    marker: String,
    environment: Environment,
    stop: Box<dyn Fn() -> u8>,
    report: Box<ReportCheck>,
}

impl TurnSite {
    /// Opens the site of a request: the working tree under review, or the site of its session.
    pub(crate) fn open(
        context: &TurnContext<'_>,
        request: &TurnRequest,
        state: &State,
    ) -> Result<Self> {
        match &request.review {
            Some(tree) => Self::for_review(context, tree),
            None => Self::for_session(context, request.works_on(), state),
        }
    }

    /// Opens the site of a session: the worktree of a change, or else the user's working tree.
    pub(crate) fn for_session(
        context: &TurnContext<'_>,
        session: Option<&SessionId>,
        state: &State,
    ) -> Result<Self> {
        let workspace = context.workspace;
        let (Some(session), Some(opened)) = (session, &state.change) else {
            return Ok(Self {
                tree: workspace.tree(session),
                change: None,
                review: None,
            });
        };

        let repository = workspace.repository(&context.run.git)?.clone();
        let path = workspace.worktree_path(session)?;
        let Some(worktree) = repository.worktree(&opened.branch, &path)? else {
            let message = format!("the worktree of change `{session}` is missing");
            return Err(
                Error::new(ErrorKind::ChangeNotFound, message).with_hint(format!(
                    "restore it from its branch with `agentd run {session}`"
                )),
            );
        };

        let change = ChangeWorktree {
            repository,
            worktree,
            checks: CheckRunner::new(context, session.as_str())?,
            failed: failed_checks(context, state)?,
            findings: relevant_findings(context, state)?,
        };
        Ok(Self {
            tree: path,
            change: Some(change),
            review: None,
        })
    }

    fn for_review(context: &TurnContext<'_>, tree: &ReviewTree) -> Result<Self> {
        let checks = match tree.runs_checks {
            true => Some(CheckRunner::new(context, "review")?.collecting_in(&tree.checks)),
            false => None,
        };
        Ok(Self {
            tree: context.workspace.root.clone(),
            change: None,
            review: Some(TreeReview {
                tree: tree.clone(),
                checks,
            }),
        })
    }

    /// Returns the current commit of the change's worktree; `None` without a change.
    pub(crate) fn commit(&self) -> Result<Option<String>> {
        let change = self.change.as_ref();
        change.map(|change| change.worktree.head()).transpose()
    }

    /// Returns an error if a mode runs checks that the user does not trust.
    pub(crate) fn check_trust(&self, context: &TurnContext<'_>, mode: &Mode) -> Result<()> {
        let change_checks = self.change.as_ref().map(|change| &change.checks);
        let review = self.review.as_ref();
        let review_checks = review.and_then(|review| review.checks.as_ref());
        let Some(checks) = change_checks.or(review_checks) else {
            return Ok(());
        };

        let spec = context.workspace.pack.mode(mode)?;
        let runs_checks =
            |name: &OperationId| matches!(name, OperationId::ChecksRun | OperationId::ChecksAgain);
        if !spec.before.iter().chain(&spec.after).any(runs_checks) {
            return Ok(());
        }
        let accept_now = context.run.trust.covers_checks();
        check_checks(context.workspace, &checks.commands, accept_now)
    }

    /// Returns the site for operations, with `state` as the state of the session.
    pub(crate) fn operation_site<'a>(
        &'a self,
        context: &'a TurnContext<'_>,
        session: Option<&'a SessionId>,
        state: &'a State,
    ) -> Site<'a> {
        let settings = &context.workspace.settings;
        let accept_unshown = &settings.review.accept_unshown;
        let mode = state.mode.as_ref();
        let spec = mode.and_then(|mode| context.workspace.pack.modes.get(mode));

        let change = self.change.as_ref().zip(state.change.as_ref());
        let change = change.map(|(change, opened)| ChangeSite {
            repository: &change.repository,
            worktree: &change.worktree,
            opened,
            state,
            artifacts: spec.map_or(&[][..], |spec| &spec.artifacts),
            failed: change.failed.as_deref(),
            findings: &change.findings,
            checks: change.checks.job(context, &self.tree),
            holds_secrets: |path| is_secret_file(path.as_ref()),
            accept_unshown,
            merges: settings.change.finish == BranchFinish::Merge,
        });

        let review = self.review.as_ref().map(|review| ReviewSite {
            head: &review.tree.head,
            base: &review.tree.base,
            diff: &review.tree.diff,
            checks: review
                .checks
                .as_ref()
                .map(|checks| checks.job(context, &self.tree)),
            accept_unshown,
        });

        let pack = &context.workspace.pack;
        let chat = ChatSite {
            document: &state.document,
            spec: &pack.state,
            artifacts: &pack.artifacts,
        };
        Site {
            root: &self.tree,
            session,
            change,
            chat: Some(chat),
            review,
        }
    }
}

/// Returns the report of the last run of the checks, in the current or the previous mode, if a check failed.
fn failed_checks(context: &TurnContext<'_>, state: &State) -> Result<Option<String>> {
    let before = state
        .previous
        .as_ref()
        .and_then(|previous| previous.results.get(&OperationId::ChecksRun));
    let last = state.results.get(&OperationId::ChecksRun).or(before);
    let failed = last.filter(|step| step.result == Some(StepOutcome::Failed));
    failed
        .and_then(|step| step.report.as_ref())
        .map(|report| ledger_text(context.store, report))
        .transpose()
}

/// Returns the open findings that are relevant in the session's mode: those of the mode itself if it records findings,
/// otherwise those of all modes.
fn relevant_findings(context: &TurnContext<'_>, state: &State) -> Result<Vec<Finding>> {
    let recording_mode = state
        .mode
        .as_ref()
        .filter(|mode| notes_findings(&context.workspace.pack, mode));
    match recording_mode {
        Some(mode) => open_findings_in_mode(context.store, state, mode),
        None => {
            let open = open_findings(context.store, state)?;
            Ok(open.into_iter().map(|(_, finding)| finding).collect())
        }
    }
}

impl CheckRunner {
    fn new(context: &TurnContext<'_>, name: &str) -> Result<Self> {
        let workspace = context.workspace;
        let (environment, withheld) = workspace.check_environment(&context.drivers.environment)?;
        let stop = context.run.stop.clone();
        let progress = context.run.progress.clone();

        Ok(Self {
            commands: workspace.checks(),
            folder: workspace.root.join(format!("{CALLS_FOLDER}/{name}.checks")),
            marker: format!("{}.{name}.checks", context.run.id),
            environment,
            stop: Box::new(move || stop.asked()),
            report: Box::new(move |command, check| {
                report_check(progress.as_ref(), command, check, &withheld);
            }),
        })
    }

    /// Returns the runner with a callback that also adds each ended check to a list.
    fn collecting_in(self, list: &Arc<Mutex<Vec<Check>>>) -> Self {
        let list = Arc::clone(list);
        let report = self.report;
        Self {
            report: Box::new(move |command, check| {
                report(command, check);
                list.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend(check.cloned());
            }),
            ..self
        }
    }

    fn job<'a>(&'a self, context: &'a TurnContext<'_>, root: &'a Path) -> CheckJob<'a> {
        CheckJob {
            root,
            folder: &self.folder,
            guard: &context.drivers.guard,
            environment: &self.environment,
            secrets: &context.drivers.secrets,
            containment: context.drivers.containment,
            commands: &self.commands,
            timeout: context.workspace.settings.review.timeout,
            grace: context.run.limits.grace,
            marker: &self.marker,
            stop: &*self.stop,
            report: &*self.report,
        }
    }
}

fn report_check(
    progress: Option<&ProgressSender>,
    command: &CheckCommand,
    check: Option<&Check>,
    withheld: &[String],
) {
    let Some(progress) = progress else {
        return;
    };
    let end = check.map(|check| check.end);
    let has_failed = end.is_some_and(|end| !matches!(end, CheckEnd::Passed | CheckEnd::NotRun));
    let withheld = if has_failed {
        withheld.to_vec()
    } else {
        Vec::new()
    };
    progress.send(ProgressEvent::Check {
        name: command.name.clone(),
        end,
        milliseconds: check.map_or(0, |check| check.milliseconds),
        withheld,
    });
}
