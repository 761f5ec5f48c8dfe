//! Review of the user's working tree without a change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use serde::Serialize;

use crate::agent::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Check, Finding, ReviewResult};
use crate::ops::{
    ChangedFile, DIFF_LIMITS, FileStatus, Git, LeftOut, Repository, check_commands_in,
};
use crate::orchestrator::turn::{
    ReviewTree, TurnContext, TurnReport, TurnRequest, VerdictOverride, take_turn,
};
use crate::orchestrator::workspace::{
    BaseDefinitions, PROJECT_FILE, Workspace, WorkspaceOptions, is_secret_file,
};
use crate::pack::{DEFINITIONS, SearchPath, is_definition, is_read_definition};

/// Base of a review: the commit to compare with, and the commit whose definitions are used.
///
/// Definitions (settings, agents, packs, templates, check commands, `agentd/project.md`) never come from the reviewed
/// code, whose author could otherwise decide where prompts and keys are sent and what the reviewer reads. They come
/// from the tip of the base and not from the merge base, which the author of the branch chooses. If only uncommitted
/// changes are reviewed, the definitions come from `HEAD`.
#[derive(Debug)]
pub struct ReviewBase {
    root: PathBuf,
    repository: Repository,
    /// Commit that is checked out.
    head: String,
    /// Commit to compare with.
    compared: String,
    /// Commit with the definitions.
    definitions: String,
}

impl ReviewBase {
    /// Finds the base of a review in the repository of a project.
    ///
    /// # Errors
    ///
    /// `NotARepository` or `NoCommits` if there is nothing to compare with; `NameInvalid` if `base` is not a known
    /// commit.
    pub fn find(root: &Path, git: &Git, base: Option<&str>) -> Result<Self> {
        let repository = Repository::open(root, git)?;
        let head = repository.head()?.commit;
        let definitions = find_tip(&repository, base)?.unwrap_or_else(|| head.clone());
        let compared = if definitions == head {
            head.clone()
        } else {
            let merge_base = repository.merge_base(&head, &definitions)?;
            merge_base.unwrap_or_else(|| definitions.clone())
        };
        Ok(Self {
            root: root.to_path_buf(),
            repository,
            head,
            compared,
            definitions,
        })
    }

    /// Opens the project with the definitions of the base. Definitions that are missing in the base come from the
    /// user's configuration or are built in.
    ///
    /// # Errors
    ///
    /// `FileUnusable` for a definition that cannot be read, and those of [`Workspace::open`].
    pub fn workspace(&self, options: WorkspaceOptions) -> Result<Workspace> {
        let folder = self.folder()?;
        let commit = &self.definitions;

        let paths = [&DEFINITIONS[..], &[PROJECT_FILE]].concat();
        let mut files =
            self.repository
                .definitions_at(commit, &folder, &paths, is_read_definition)?;
        let project_text = files.remove(PROJECT_FILE);
        let places = SearchPath::at_commit(self.root.clone(), options.user.clone(), files);
        let mut workspace = Workspace::open_at(self.root.clone(), places, options)?;

        let listing = self.repository.listing_at(commit, &folder)?;
        let checks = check_commands_in(&workspace.settings.review, &listing);
        workspace.base = Some(BaseDefinitions {
            commit: commit.clone(),
            checks,
            project_text,
        });
        Ok(workspace)
    }

    /// Returns the path of the project relative to the root of its repository; empty if they are the same.
    fn folder(&self) -> Result<String> {
        let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let root = canonical(&self.root);
        let top = canonical(&self.repository.root);

        let shown = self.root.display().to_string();
        let unusable = |problem: &str| {
            let message = format!("project folder `{}` {problem}", shown.escape_debug());
            Error::new(ErrorKind::NotARepository, message)
        };
        let relative = root
            .strip_prefix(&top)
            .map_err(|_| unusable("is outside of its git repository"))?;
        match relative.to_str() {
            Some(relative) => Ok(relative.to_owned()),
            None => Err(unusable("has a path that is not UTF-8")),
        }
    }
}

/// Report of a review.
#[derive(Debug, Serialize)]
pub struct ReviewReport {
    /// Commit that the working tree was compared with.
    pub base: String,
    /// Commit that is checked out.
    pub commit: String,
    /// Commit that the definitions were read from.
    pub definitions_from: String,
    /// Files that differ.
    pub files: Vec<ChangedFile>,
    /// Paths of changed definitions (settings, agents, packs, templates). They were not used.
    pub definitions_changed: Vec<String>,
    /// Changed files that were not shown to the agent.
    pub left_out: Vec<LeftOut>,
    /// Results of the project's checks that were run.
    pub checks: Vec<Check>,
    /// Findings of the agent, the most severe first.
    pub findings: Vec<Finding>,
    /// Effective verdict: the agent's verdict, or a more severe one if checks failed or findings are open. `None` if
    /// the agent gave no verdict.
    pub verdict: Option<ReviewResult>,
    /// Reason why the effective verdict is more severe than the agent's; `None` if it is not.
    pub overruled: Option<VerdictOverride>,
    /// Report of the agent's turn.
    #[serde(skip)]
    pub report: TurnReport,
}

/// Reviews the differences between the working tree and a base, both committed and uncommitted. Returns `None` if there
/// are no differences.
///
/// # Errors
///
/// `NothingToReview` if none of the changed files can be shown; `NotTrusted` for checks or definitions that the user
/// does not trust, or if the workspace was not opened with [`ReviewBase::workspace`]; and the errors of
/// [`take_turn`].
pub fn review_tree(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    request: &TurnRequest,
    base: &ReviewBase,
    with_checks: bool,
) -> Result<Option<ReviewReport>> {
    let definitions = context.workspace.base.as_ref().map(|base| &base.commit);
    if definitions != Some(&base.definitions) {
        let message = "the workspace does not use the definitions of the review's base";
        return Err(Error::new(ErrorKind::NotTrusted, message)
            .with_hint("open the workspace with `ReviewBase::workspace`"));
    }

    let holds_secrets = |path: &str| is_secret_file(path.as_ref());
    let diff = base
        .repository
        .diff_of_tree(&base.compared, DIFF_LIMITS, &holds_secrets)?;
    if diff.files.is_empty() {
        return Ok(None);
    }

    let tree = ReviewTree {
        head: base.head.clone(),
        base: base.compared.clone(),
        diff: Arc::new(diff),
        runs_checks: with_checks,
        checks: Arc::default(),
    };
    let request = TurnRequest {
        review: Some(tree.clone()),
        ..request.clone()
    };
    let mut report = take_turn(context, driver, &request)?;

    let agent_verdict = report.verdict.filter(|_| report.fault.is_none());
    // `overruled` and `findings` are moved from the report of the turn to the report of the review.
    let overruled = report.overruled.take().filter(|_| agent_verdict.is_some());
    let findings = std::mem::take(&mut report.findings);
    let overruling_verdict = overruled
        .as_ref()
        .and_then(|overruled| overruled.result.verdict());
    let checks = tree
        .checks
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();

    Ok(Some(ReviewReport {
        base: base.compared.clone(),
        commit: base.head.clone(),
        definitions_from: base.definitions.clone(),
        definitions_changed: changed_definitions(&tree.diff.files, &base.folder()?),
        files: tree.diff.files.clone(),
        left_out: tree.diff.left_out.clone(),
        checks,
        findings,
        verdict: overruling_verdict.or(agent_verdict),
        overruled,
        report,
    }))
}

/// Returns the paths of changed definitions. For a renamed file, both the old and the new path are checked.
fn changed_definitions(files: &[ChangedFile], folder: &str) -> Vec<String> {
    let is_project_definition = |path: &str| match folder {
        "" => is_definition(path),
        _ => path
            .strip_prefix(folder)
            .and_then(|path| path.strip_prefix('/'))
            .is_some_and(is_definition),
    };

    let mut changed = Vec::new();
    for file in files {
        if let FileStatus::Renamed { from } = &file.status {
            changed.push(from);
        }
        changed.push(&file.path);
    }
    changed.retain(|path| is_project_definition(path));
    changed.into_iter().cloned().collect()
}

/// Returns the commit of the requested base. Without one, returns the tip of the branch that the current branch is most
/// likely to be merged into; `None` if there is no such branch.
fn find_tip(repository: &Repository, requested: Option<&str>) -> Result<Option<String>> {
    let base = match requested {
        Some(base) => base.to_owned(),
        None => match repository.default_base()? {
            Some(base) => base,
            None => return Ok(None),
        },
    };

    let commit = repository.commit_of(&base)?.ok_or_else(|| {
        let base = base.escape_debug();
        Error::new(ErrorKind::NameInvalid, format!("unknown commit `{base}`"))
            .with_hint("pass a branch, a tag or a commit with --base")
    })?;
    Ok(Some(commit))
}
