//! `git.diff`: shows the difference between a change and its base, and records the reviewed commit.

use crate::error::{Error, ErrorKind, Result};
use crate::models::paths::{NOTES_FILE, change_file, change_folder};
use crate::models::{ContextItem, ContextKind, OperationId, StepOutcome, StepResult};
use crate::ops::fs::{notes_text, read_project_text};
use crate::ops::git::{Diff, DiffLimits, LeftOut, LeftOutKind, short_commit};
use crate::ops::{Inspect, Inspection, Operation, ReviewSite, Site, Step};
use crate::text::glob::matches_path;
use crate::text::terminal::escape_file_name;

/// Maximum size of the diff of one file and of the whole diff in a prompt, in bytes.
pub const DIFF_LIMITS: DiffLimits = DiffLimits {
    file: 200_000,
    total: 1_000_000,
};

/// Maximum number of hidden files that a message lists.
const MAX_LISTED_FILES: usize = 20;

/// Image files, which a reviewer need not see. Applies only to binary files that are not executable.
const IMAGES: [&str; 8] = [
    "*.png", "*.jpg", "*.jpeg", "*.gif", "*.webp", "*.avif", "*.bmp", "*.ico",
];

/// Lockfiles of package managers, which are often too long to be shown.
const LOCKFILES: [&str; 18] = [
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "Podfile.lock",
    "bun.lock",
    "bun.lockb",
    "composer.lock",
    "flake.lock",
    "go.sum",
    "gradle.lockfile",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
];

/// Refuses a turn if nothing has changed, or if none of the changed files can be shown: there is nothing to review.
pub(crate) struct GitDiff;

impl Operation for GitDiff {
    fn id(&self) -> OperationId {
        OperationId::GitDiff
    }

    fn needs_change(&self) -> bool {
        true
    }
}

impl Inspect for GitDiff {
    fn inspect(&self, site: &Site<'_>) -> Result<Inspection> {
        if let Some(review) = &site.review {
            return inspect_working_tree(review);
        }

        let (change, session) = site.require_change(&self.id())?;
        // Manual edits in the worktree are reviewed with the rest.
        let message = format!("agentd({session}): manual edits");
        let commit = change.worktree.commit_all(&message)?.commit;
        let comparison = self.compare(site, Some(commit))?;
        let base = short_commit(&change.opened.base);

        if comparison.is_empty {
            let message = format!("nothing to review: `{session}` has no changes since {base}");
            let hint = format!("describe the missing work: `agentd revise {session} --note \"…\"`");
            return Err(Error::new(ErrorKind::NothingToReview, message).with_hint(hint));
        }
        if comparison.shows_nothing {
            let hint = format!(
                "review it yourself: `git diff {base} {}`",
                change.opened.branch
            );
            return Err(nothing_shown(&comparison.hidden).with_hint(hint));
        }
        if !comparison.hidden.is_empty() {
            let files: Vec<&LeftOut> = comparison.hidden.iter().collect();
            log::warn!(
                "not shown to the reviewer: {}",
                some_left_out(&files).join(", ")
            );
        }
        Ok(comparison.inspection)
    }

    fn preview(&self, site: &Site<'_>) -> Result<Inspection> {
        if site.change.is_none() {
            return Ok(Inspection::default());
        }
        Ok(self.compare(site, None)?.inspection)
    }
}

/// A change compared with its base.
struct ChangeComparison {
    inspection: Inspection,
    /// True if no file outside the change's own folder has changed.
    is_empty: bool,
    /// True if no changed file outside the change's own folder is shown.
    shows_nothing: bool,
    /// Files outside the change's own folder that are not shown.
    hidden: Vec<LeftOut>,
}

impl GitDiff {
    /// Compares a change with its base. `committed` is a commit with all files of the worktree; without one, the
    /// current files of the worktree are compared.
    fn compare(&self, site: &Site<'_>, committed: Option<String>) -> Result<ChangeComparison> {
        let (change, session) = site.require_change(&self.id())?;
        let folder = format!("{}/", change_folder(session));

        // The prompt shows the notes as instructions, so their file is omitted, unless it has other content.
        let notes = notes_text(&change.state.notes);
        let has_notes_file = notes.is_some()
            && read_project_text(site.root, &change_file(session, NOTES_FILE))? == notes;

        // The prompt already shows the artifacts of the change. The diff must show the other files in its folder.
        let is_shown_elsewhere = |path: &str| {
            let Some(name) = path.strip_prefix(&folder) else {
                return false;
            };
            let is_artifact = change
                .artifacts
                .iter()
                .any(|pattern| matches_path(pattern, name));
            is_artifact || (has_notes_file && name == NOTES_FILE)
        };
        let is_omitted = |path: &str| is_shown_elsewhere(path) || (change.holds_secrets)(path);

        let base = &change.opened.base;
        let (commit, diff) = match committed {
            Some(commit) => {
                let worktree = change.worktree;
                let diff = worktree.diff_of_commit(&commit, base, DIFF_LIMITS, &is_omitted)?;
                (commit, diff)
            }
            None => {
                let diff = change.worktree.diff(base, DIFF_LIMITS, &is_omitted)?;
                (change.worktree.head()?, diff)
            }
        };

        let text = diff_text(&diff, is_shown_elsewhere);
        let reviewed = Diff {
            text: String::new(),
            files: diff
                .files
                .iter()
                .filter(|changed| !is_shown_elsewhere(&changed.path))
                .cloned()
                .collect(),
            left_out: diff
                .left_out
                .iter()
                .filter(|file| !is_shown_elsewhere(&file.path))
                .cloned()
                .collect(),
        };
        let result = diff_result(&commit, base, &reviewed, change.accept_unshown);

        // Reports of earlier phases, in the change's own folder, are not work to review.
        let is_work = |path: &str| !path.starts_with(&folder);
        let hidden: Vec<LeftOut> = diff
            .left_out
            .into_iter()
            .filter(|file| is_work(&file.path))
            .collect();
        let is_hidden = |path: &str| hidden.iter().any(|hidden| hidden.path == path);

        let work: Vec<&str> = diff
            .files
            .iter()
            .map(|changed| changed.path.as_str())
            .filter(|path| is_work(path))
            .collect();
        Ok(ChangeComparison {
            inspection: diff_inspection(text, result),
            is_empty: work.is_empty(),
            shows_nothing: work.iter().all(|path| is_hidden(path)),
            hidden,
        })
    }
}

/// Inspects the user's working tree, for a review without a change.
///
/// # Errors
///
/// `NothingToReview` if none of its changed files can be shown.
fn inspect_working_tree(review: &ReviewSite<'_>) -> Result<Inspection> {
    let diff = review.diff;
    if diff.text.trim().is_empty() {
        return Err(nothing_shown(&diff.left_out).with_hint("review these files yourself"));
    }

    let text = diff_text(diff, |_| false);
    let result = diff_result(review.head, review.base, diff, review.accept_unshown);
    Ok(diff_inspection(text, result))
}

fn diff_inspection(text: String, result: StepResult) -> Inspection {
    let item = ContextItem::new(ContextKind::Artifact, "changes.diff", text);
    Inspection {
        items: vec![(item, "the changes".to_owned())],
        result: Some(result),
    }
}

/// Returns the result for a diff of `commit`: `PARTLY_SHOWN` with the files that the user must review, or `SEEN`.
fn diff_result(commit: &str, base: &str, diff: &Diff, accepted: &[String]) -> StepResult {
    let step = Step::always(GitDiff.id(), commit, "");
    let unseen: Vec<&LeftOut> = diff
        .left_out
        .iter()
        .filter(|file| needs_user_review(file, accepted))
        .collect();

    if unseen.is_empty() {
        let base = short_commit(base);
        let detail = match diff.files.len() {
            1 => format!("1 file differs from {base}"),
            count => format!("{count} files differ from {base}"),
        };
        return step.done(detail).with_outcome(StepOutcome::Seen, None);
    }

    let subject = if unseen.len() == 1 {
        "file was"
    } else {
        "files were"
    };
    let detail = format!(
        "{} {subject} not shown to the reviewer: {}",
        unseen.len(),
        some_left_out(&unseen).join(", ")
    );
    step.done(detail)
        .with_outcome(StepOutcome::PartlyShown, None)
}

/// Returns true if the user must review a file that was not shown: all files except nested
/// repositories, images, lockfiles, and files that the settings accept. Only the settings can accept an executable file or a file that was too large to be read.
fn needs_user_review(file: &LeftOut, accepted: &[String]) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let is_lockfile = LOCKFILES.contains(&name);
    let is_image = IMAGES
        .iter()
        .any(|pattern| matches_path(pattern, &name.to_ascii_lowercase()));
    let is_harmless = match file.kind {
        LeftOutKind::NestedRepository => true,
        LeftOutKind::Executable | LeftOutKind::Size => false,
        LeftOutKind::Binary => is_lockfile || is_image,
        LeftOutKind::Text => is_lockfile,
    };

    // A pattern without a folder matches names in all folders.
    let is_accepted = accepted.iter().any(|pattern| {
        let path = if pattern.contains('/') {
            file.path.as_str()
        } else {
            name
        };
        matches_path(pattern, path)
    });
    !is_harmless && !is_accepted
}

/// Returns a line with path and reason for each file that is not shown. If there are too many, the last line is the
/// number of the others.
#[must_use]
pub fn some_left_out(files: &[&LeftOut]) -> Vec<String> {
    let mut texts: Vec<String> = files
        .iter()
        .take(MAX_LISTED_FILES)
        .map(|file| format!("{} ({})", escape_file_name(&file.path), file.why))
        .collect();
    if files.len() > MAX_LISTED_FILES {
        texts.push(format!("and {} more", files.len() - MAX_LISTED_FILES));
    }
    texts
}

/// Returns the error for a diff that shows nothing to a reviewer.
fn nothing_shown(hidden: &[LeftOut]) -> Error {
    let files: Vec<&LeftOut> = hidden.iter().collect();
    let list: String = some_left_out(&files)
        .iter()
        .map(|file| format!("\n  {file}"))
        .collect();
    let message = format!("none of the changed files can be shown to a reviewer:{list}");
    Error::new(ErrorKind::NothingToReview, message)
}

/// Returns a diff in the form for a prompt, with a comment for each file that is not shown.
fn diff_text(diff: &Diff, is_shown_elsewhere: impl Fn(&str) -> bool) -> String {
    let comments: String = diff
        .left_out
        .iter()
        .filter(|file| !is_shown_elsewhere(&file.path))
        .map(|file| {
            format!(
                "# not shown: {} ({})\n",
                escape_file_name(&file.path),
                file.why
            )
        })
        .collect();
    let text = format!("{comments}{}", diff.text);
    if text.trim().is_empty() {
        "# nothing has changed\n".to_owned()
    } else {
        text
    }
}
