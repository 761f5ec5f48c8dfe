//! Where a session works: the project's tree, or a branch and a work tree of its own.

use std::path::PathBuf;

use super::call::CALLS;
use super::checks::check_checks;
use super::findings::{earlier, open_findings};
use super::prompts::Workspace;
use super::recorded::text;
use super::run::{Sign, Signs};
use super::secret_files::names_secrets;
use super::turn::Desk;
use crate::config::{CheckCommand, Environment, Finish};
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Check, CheckEnd, Finding, Mode, SessionId, State};
use crate::ops::{ChangeSite, CheckJob, Repository, Site, Worktree, check_commands};
use crate::pack::OperationName;

/// The operation that runs the project's own checks.
const CHECKS: &str = "checks.run";

/// Where a session works.
pub(super) struct Grounds {
    /// The tree that agents work in.
    pub(super) tree: PathBuf,
    own: Option<Own>,
}

/// A branch and a work tree of the session's own.
struct Own {
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
pub(super) struct Checking {
    pub(super) commands: Vec<CheckCommand>,
    folder: PathBuf,
    marker: String,
    environment: Environment,
    stop: Box<dyn Fn() -> u8>,
    tell: Box<Tell>,
}

impl Grounds {
    /// Finds where a session works; one that was opened as a change has a tree of its own.
    pub(super) fn of(desk: &Desk<'_>, session: Option<&SessionId>, state: &State) -> Result<Self> {
        let tree = desk.workspace.tree(session);
        let (Some(session), Some(opened)) = (session, &state.change) else {
            return Ok(Self { tree, own: None });
        };
        let repository = desk.workspace.repository(&desk.run.git)?.clone();
        let path = desk.workspace.own_tree(session)?;
        let Some(worktree) = repository.worktree(&opened.branch, &path)? else {
            let message = format!("the work tree of `{session}` is gone");
            return Err(
                Error::new(ErrorKind::ChangeNotFound, message).with_hint(format!(
                    "`agentd run {session}` makes it again from its branch"
                )),
            );
        };
        let failed = failed(desk, state)?;
        let findings = findings(desk, state)?;
        let checking = Checking::of(desk, session.as_str())?;
        Ok(Self {
            tree: path,
            own: Some(Own {
                repository,
                worktree,
                checking,
                failed,
                findings,
            }),
        })
    }

    /// Returns the commit of the session's own tree, if it has one.
    pub(super) fn commit(&self) -> Result<Option<String>> {
        self.own.as_ref().map(|own| own.worktree.head()).transpose()
    }

    /// Refuses to run checks in a mode that nobody has accepted.
    pub(super) fn check_trust(&self, desk: &Desk<'_>, mode: &Mode) -> Result<()> {
        let Some(own) = &self.own else { return Ok(()) };
        let spec = desk.workspace.pack.mode(mode)?;
        let runs = |name: &OperationName| matches!(name.as_str(), CHECKS | "checks.again");
        if !spec.before.iter().chain(&spec.after).any(runs) {
            return Ok(());
        }
        check_checks(
            desk.workspace,
            &own.checking.commands,
            desk.run.trust.covers_checks(),
        )
    }

    /// Returns where operations work, with what is true then.
    pub(super) fn site<'a>(
        &'a self,
        desk: &'a Desk<'_>,
        session: Option<&'a SessionId>,
        state: &'a State,
    ) -> Site<'a> {
        let mode = state
            .mode
            .as_ref()
            .and_then(|mode| desk.workspace.pack.modes.get(mode));
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
                checks: own.checking.job(desk, &self.tree),
                holds_secrets: |path| names_secrets(path.as_ref()),
                accept_unshown: &desk.workspace.settings.review.accept_unshown,
                merges: desk.workspace.settings.change.finish == Finish::Merge,
            });
        Site {
            root: &self.tree,
            session,
            change,
        }
    }
}

/// Returns what failed when the checks were run last in the current mode, or in the one before.
fn failed(desk: &Desk<'_>, state: &State) -> Result<Option<String>> {
    let before = state
        .left
        .as_ref()
        .and_then(|left| left.results.get(CHECKS));
    let last = state.results.get(CHECKS).or(before);
    let failed = last.filter(|found| found.result.as_deref() == Some("FAILED"));
    failed
        .and_then(|found| found.report.as_ref())
        .map(|report| text(desk.store, report))
        .transpose()
}

/// Returns the open findings that concern a session's mode: its own if it notes some, and else those of all modes.
fn findings(desk: &Desk<'_>, state: &State) -> Result<Vec<Finding>> {
    match &state.mode {
        Some(mode) if desk.workspace.notes_findings(mode) => earlier(desk.store, state, mode),
        _ => Ok(open_findings(desk.store, state)?
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
    pub(super) fn of(desk: &Desk<'_>, name: &str) -> Result<Self> {
        let (stop, signs) = (desk.run.stop.clone(), desk.run.signs.clone());
        let (environment, withheld) = desk
            .workspace
            .check_environment(&desk.drivers.environment)?;
        Ok(Self {
            commands: desk.workspace.checks(),
            folder: desk.workspace.root.join(format!("{CALLS}/{name}.checks")),
            marker: format!("{}.{name}.checks", desk.run.id),
            environment,
            stop: Box::new(move || stop.asked()),
            tell: Box::new(move |command, check| tell(signs.as_ref(), command, check, &withheld)),
        })
    }

    pub(super) fn job<'a>(&'a self, desk: &'a Desk<'_>, root: &'a std::path::Path) -> CheckJob<'a> {
        CheckJob {
            root,
            folder: &self.folder,
            guard: &desk.drivers.guard,
            environment: &self.environment,
            secrets: &desk.drivers.secrets,
            containment: desk.drivers.containment,
            commands: &self.commands,
            timeout: desk.workspace.settings.review.timeout,
            grace: desk.run.limits.grace,
            marker: &self.marker,
            stop: &*self.stop,
            tell: &*self.tell,
        }
    }
}

fn tell(signs: Option<&Signs>, command: &CheckCommand, check: Option<&Check>, withheld: &[String]) {
    if let Some(signs) = signs {
        let end = check.map(|check| check.end);
        let has_failed = end.is_some_and(|end| !matches!(end, CheckEnd::Passed | CheckEnd::NotRun));
        signs.send(Sign::Check {
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
