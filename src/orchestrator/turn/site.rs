//! Where a session works: the project's tree, or a branch and a work tree of its own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::TurnContext;
use super::call::CALLS;
use super::findings::{earlier, open_findings};
use super::progress::{ProgressEvent, ProgressSender};
use super::record::text;
use super::request::ReviewTree;
use crate::config::{CheckCommand, Environment, Finish};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Check, CheckEnd, Finding, Mode, OperationId, SessionId, State, StepOutcome};
use crate::ops::{ChangeSite, CheckJob, Repository, ReviewSite, Site, Worktree, check_commands};
use crate::orchestrator::workspace::Workspace;
use crate::orchestrator::workspace::check_checks;
use crate::orchestrator::workspace::names_secrets;

/// Where a session works.
pub(crate) struct TurnSite {
    /// The tree that agents work in.
    pub(crate) tree: PathBuf,
    own: Option<ChangeWorktree>,
    review: Option<TreeReview>,
}

/// A review of the user's working tree.
struct TreeReview {
    tree: ReviewTree,
    /// How the project's own checks are run; `None` in a review without them.
    checking: Option<Checking>,
}

/// A branch and a work tree of the session's own.
struct ChangeWorktree {
    repository: Repository,
    worktree: Worktree,
    checking: Checking,
    /// What failed when the checks were run last.
    failed: Option<String>,
    /// Open findings that concern the mode.
    findings: Vec<Finding>,
}

/// Who is told of a check, before and after it.
type Tell = dyn Fn(&CheckCommand, Option<&Check>);

/// How the project's own checks are run.
pub(crate) struct Checking {
    pub(crate) commands: Vec<CheckCommand>,
    folder: PathBuf,
    marker: String,
    environment: Environment,
    stop: Box<dyn Fn() -> u8>,
    tell: Box<Tell>,
}

impl TurnSite {
    /// Finds where a session works; one that was opened as a change has a tree of its own.
    pub(crate) fn of(
        context: &TurnContext<'_>,
        session: Option<&SessionId>,
        state: &State,
    ) -> Result<Self> {
        let tree = context.workspace.tree(session);
        let (Some(session), Some(opened)) = (session, &state.change) else {
            return Ok(Self {
                tree,
                own: None,
                review: None,
            });
        };
        let repository = context.workspace.repository(&context.run.git)?.clone();
        let path = context.workspace.own_tree(session)?;
        let Some(worktree) = repository.worktree(&opened.branch, &path)? else {
            let message = format!("the work tree of `{session}` is gone");
            return Err(
                Error::new(ErrorKind::ChangeNotFound, message).with_hint(format!(
                    "`agentd run {session}` makes it again from its branch"
                )),
            );
        };
        let failed = failed(context, state)?;
        let findings = findings(context, state)?;
        let checking = Checking::of(context, session.as_str())?;
        Ok(Self {
            tree: path,
            own: Some(ChangeWorktree {
                repository,
                worktree,
                checking,
                failed,
                findings,
            }),
            review: None,
        })
    }

    /// Returns the site of a review of the user's working tree.
    pub(crate) fn of_review(context: &TurnContext<'_>, tree: &ReviewTree) -> Result<Self> {
        let checking = match tree.runs_checks {
            true => Some(Checking::of(context, "review")?.collected_in(&tree.checks)),
            false => None,
        };
        Ok(Self {
            tree: context.workspace.root.clone(),
            own: None,
            review: Some(TreeReview {
                tree: tree.clone(),
                checking,
            }),
        })
    }

    /// Returns the commit of the session's own tree, if it has one.
    pub(crate) fn commit(&self) -> Result<Option<String>> {
        self.own.as_ref().map(|own| own.worktree.head()).transpose()
    }

    /// Refuses to run checks in a mode that nobody has accepted.
    pub(crate) fn check_trust(&self, context: &TurnContext<'_>, mode: &Mode) -> Result<()> {
        let of_change = self.own.as_ref().map(|own| &own.checking);
        let of_review = self.review.as_ref().and_then(|it| it.checking.as_ref());
        let Some(checking) = of_change.or(of_review) else {
            return Ok(());
        };
        let spec = context.workspace.pack.mode(mode)?;
        let runs =
            |name: &OperationId| matches!(name, OperationId::ChecksRun | OperationId::ChecksAgain);
        if !spec.before.iter().chain(&spec.after).any(runs) {
            return Ok(());
        }
        check_checks(
            context.workspace,
            &checking.commands,
            context.run.trust.covers_checks(),
        )
    }

    /// Returns where operations work, with what is true then.
    pub(crate) fn site<'a>(
        &'a self,
        context: &'a TurnContext<'_>,
        session: Option<&'a SessionId>,
        state: &'a State,
    ) -> Site<'a> {
        let mode = state
            .mode
            .as_ref()
            .and_then(|mode| context.workspace.pack.modes.get(mode));
        let change = self
            .own
            .as_ref()
            .zip(state.change.as_ref())
            .map(|(own, opened)| ChangeSite {
                repository: &own.repository,
                worktree: &own.worktree,
                opened,
                state,
                artifacts: mode.map_or(&[][..], |spec| &spec.artifacts),
                failed: own.failed.as_deref(),
                findings: &own.findings,
                checks: own.checking.job(context, &self.tree),
                holds_secrets: |path| names_secrets(path.as_ref()),
                accept_unshown: &context.workspace.settings.review.accept_unshown,
                merges: context.workspace.settings.change.finish == Finish::Merge,
            });
        let accept_unshown = &context.workspace.settings.review.accept_unshown;
        let review = self.review.as_ref().map(|review| ReviewSite {
            head: &review.tree.head,
            base: &review.tree.base,
            diff: &review.tree.diff,
            checks: review
                .checking
                .as_ref()
                .map(|checking| checking.job(context, &self.tree)),
            accept_unshown,
        });
        Site {
            root: &self.tree,
            session,
            change,
            review,
        }
    }
}

/// Returns what failed when the checks were run last in the current mode, or in the one before.
fn failed(context: &TurnContext<'_>, state: &State) -> Result<Option<String>> {
    let before = state
        .left
        .as_ref()
        .and_then(|left| left.results.get(&OperationId::ChecksRun));
    let last = state.results.get(&OperationId::ChecksRun).or(before);
    let failed = last.filter(|found| found.result == Some(StepOutcome::Failed));
    failed
        .and_then(|found| found.report.as_ref())
        .map(|report| text(context.store, report))
        .transpose()
}

/// Returns the open findings that concern a session's mode: its own if it notes some, and else those of all modes.
fn findings(context: &TurnContext<'_>, state: &State) -> Result<Vec<Finding>> {
    match &state.mode {
        Some(mode) if context.workspace.notes_findings(mode) => earlier(context.store, state, mode),
        _ => Ok(open_findings(context.store, state)?
            .into_iter()
            .map(|(_, finding)| finding)
            .collect()),
    }
}

impl Workspace {
    /// Returns the project's own checks: those of the settings, or those that its files speak of. They are found in the
    /// user's tree, never in one that an agent could have edited.
    ///
    /// In a review they are those of the base.
    #[must_use]
    pub fn checks(&self) -> Vec<CheckCommand> {
        match &self.base {
            Some(base) => base.checks.clone(),
            None => check_commands(&self.settings.review, &self.root),
        }
    }
}

impl Checking {
    pub(crate) fn of(context: &TurnContext<'_>, name: &str) -> Result<Self> {
        let (stop, signs) = (context.run.stop.clone(), context.run.signs.clone());
        let (environment, withheld) = context
            .workspace
            .check_environment(&context.drivers.environment)?;
        Ok(Self {
            commands: context.workspace.checks(),
            folder: context
                .workspace
                .root
                .join(format!("{CALLS}/{name}.checks")),
            marker: format!("{}.{name}.checks", context.run.id),
            environment,
            stop: Box::new(move || stop.asked()),
            tell: Box::new(move |command, check| tell(signs.as_ref(), command, check, &withheld)),
        })
    }

    /// Adds each check that has ended to a list.
    fn collected_in(self, list: &Arc<Mutex<Vec<Check>>>) -> Self {
        let list = Arc::clone(list);
        let tell = self.tell;
        Self {
            tell: Box::new(move |command, check| {
                tell(command, check);
                list.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend(check.cloned());
            }),
            ..self
        }
    }

    pub(crate) fn job<'a>(
        &'a self,
        context: &'a TurnContext<'_>,
        root: &'a std::path::Path,
    ) -> CheckJob<'a> {
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
            tell: &*self.tell,
        }
    }
}

fn tell(
    signs: Option<&ProgressSender>,
    command: &CheckCommand,
    check: Option<&Check>,
    withheld: &[String],
) {
    if let Some(signs) = signs {
        let end = check.map(|check| check.end);
        let has_failed = end.is_some_and(|end| !matches!(end, CheckEnd::Passed | CheckEnd::NotRun));
        signs.send(ProgressEvent::Check {
            name: command.name.clone(),
            end,
            milliseconds: check.map_or(0, |check| check.milliseconds),
            withheld: if has_failed {
                withheld.to_vec()
            } else {
                Vec::new()
            },
        });
    }
}
