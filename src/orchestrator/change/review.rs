//! A review without a change: what has changed in the user's own tree, its checks, one agent, one verdict.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use serde::Serialize;

use crate::agent::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::models::{Check, Finding, ReviewResult};
use crate::ops::{Changed, DIFF_LIMITS, Git, LeftOut, Repository, Status, check_commands_in};
use crate::orchestrator::turn::{
    Overruled, ReviewTree, TurnContext, TurnReport, TurnRequest, take_turn,
};
use crate::orchestrator::workspace::{
    BaseDefinitions, PROJECT_FILE, Workspace, WorkspaceOptions, names_secrets,
};
use crate::pack::{DEFINITIONS, Places, is_definition, is_read_definition};

/// Base of a review, and the commit that its definitions come from.
///
/// Definitions (settings, agents, packs, templates, the commands of checks, `agentd/project.md`) never come from what is
/// reviewed: its author would decide where prompts and keys go, and what the reviewer reads. They are those of the tip
/// of the base, not of the commit where the branch left it, as the author chooses that commit. If only uncommitted
/// changes are reviewed, they are those of `HEAD`.
#[derive(Debug)]
pub struct ReviewBase {
    root: PathBuf,
    repository: Repository,
    /// The commit that is checked out.
    head: String,
    /// The commit to compare with.
    compared: String,
    /// The commit with the definitions.
    definitions: String,
}

impl ReviewBase {
    /// Finds the base of a review in the repository of a project.
    ///
    /// # Errors
    ///
    /// `NotARepository`, `NoCommits`, `NameInvalid` if there is no such base.
    pub fn find(root: &Path, git: &Git, base: Option<&str>) -> Result<Self> {
        let repository = Repository::open(root, git)?;
        let head = repository.head()?.commit;
        let definitions = tip_of(&repository, base)?.unwrap_or_else(|| head.clone());
        let compared = match definitions == head {
            true => head.clone(),
            false => repository
                .merge_base(&head, &definitions)?
                .unwrap_or_else(|| definitions.clone()),
        };
        Ok(Self {
            root: root.to_path_buf(),
            repository,
            head,
            compared,
            definitions,
        })
    }

    /// Opens the project of the review with the definitions of its base. What the base does not define is the user's
    /// own, or built in.
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
        let places = Places::at_commit(self.root.clone(), options.user.clone(), files);
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

    /// Returns the path of the project in its repository, empty if it is the top.
    fn folder(&self) -> Result<String> {
        let full = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let folder = full(&self.root);
        let below = folder
            .strip_prefix(full(&self.repository.root))
            .ok()
            .and_then(Path::to_str);
        below.map(str::to_owned).ok_or_else(|| {
            let shown = self.root.display().to_string();
            let message = format!(
                "`{}` cannot be found in its repository",
                shown.escape_debug()
            );
            Error::new(ErrorKind::NotARepository, message)
        })
    }
}

/// What a review came to.
#[derive(Debug, Serialize)]
pub struct Reviewed {
    /// The commit that was compared with.
    pub base: String,
    /// The commit that is checked out.
    pub commit: String,
    /// The commit whose definitions were used.
    pub definitions_from: String,
    /// The files that differ.
    pub files: Vec<Changed>,
    /// Those of them that define something (settings, agents, packs, templates): they were not used.
    pub definitions_changed: Vec<String>,
    /// Files that were not shown to the agent.
    pub left_out: Vec<LeftOut>,
    /// The project's own checks, as far as they were run.
    pub checks: Vec<Check>,
    /// Findings of the agent, the most severe first.
    pub findings: Vec<Finding>,
    /// The verdict as it counts: no milder than the checks and the findings allow. `None` if the agent gave none.
    pub verdict: Option<ReviewResult>,
    /// Reason why it is worse than the agent's own.
    pub overruled: Option<Overruled>,
    /// The agent's turn.
    #[serde(skip)]
    pub report: TurnReport,
}

/// Reviews what differs from a base: the current branch, and what is not committed. `None` if nothing differs.
///
/// # Errors
///
/// `NothingToReview` if nothing of it can be shown; `NotTrusted` for checks and definitions that nobody has accepted, or
/// if the context's workspace is not that of the base; and whatever keeps a turn from being taken.
pub fn review_tree(
    context: &TurnContext<'_>,
    driver: &dyn Driver,
    request: &TurnRequest,
    base: &ReviewBase,
    with_checks: bool,
) -> Result<Option<Reviewed>> {
    let definitions = context.workspace.base.as_ref().map(|base| &base.commit);
    if definitions != Some(&base.definitions) {
        let message = "a review may not use the definitions of what it reviews";
        return Err(Error::new(ErrorKind::NotTrusted, message)
            .with_hint("open the workspace with `ReviewBase::workspace`"));
    }
    let holds_secrets = |path: &str| names_secrets(path.as_ref());
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

    let said = report.verdict.filter(|_| report.fault.is_none());
    // The review as a whole reports these, not the turn alone.
    let overruled = report.overruled.take().filter(|_| said.is_some());
    let findings = std::mem::take(&mut report.findings);
    let counted = overruled
        .as_ref()
        .and_then(|overruled| overruled.result.verdict());
    let checks = tree
        .checks
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    Ok(Some(Reviewed {
        base: base.compared.clone(),
        commit: base.head.clone(),
        definitions_from: base.definitions.clone(),
        definitions_changed: changed_definitions(&tree.diff.files, &base.folder()?),
        files: tree.diff.files.clone(),
        left_out: tree.diff.left_out.clone(),
        checks,
        findings,
        verdict: counted.or(said),
        overruled,
        report,
    }))
}

/// Returns the paths of definitions among files that changed. A file that was moved counts by both of its paths.
fn changed_definitions(files: &[Changed], folder: &str) -> Vec<String> {
    let in_project = |path: &str| match folder {
        "" => is_definition(path),
        _ => path
            .strip_prefix(folder)
            .and_then(|path| path.strip_prefix('/'))
            .is_some_and(is_definition),
    };
    let mut changed = Vec::new();
    for file in files {
        let from = match &file.status {
            Status::Renamed { from } => Some(from),
            _ => None,
        };
        changed.extend(
            from.into_iter()
                .chain([&file.path])
                .filter(|path| in_project(path))
                .cloned(),
        );
    }
    changed
}

/// Returns the commit at the tip of the base: of the one that is given, or of the branch that the current one is most
/// likely to be merged into. `None` if there is none.
fn tip_of(repository: &Repository, given: Option<&str>) -> Result<Option<String>> {
    let base = match given {
        Some(base) => base.to_owned(),
        None => match repository.default_base()? {
            Some(base) => base,
            None => return Ok(None),
        },
    };
    let commit = repository.commit_of(&base)?.ok_or_else(|| {
        let base = base.escape_debug();
        Error::new(
            ErrorKind::NameInvalid,
            format!("there is no commit `{base}`"),
        )
        .with_hint("name a branch, a tag or a commit with --base")
    })?;
    Ok(Some(commit))
}
