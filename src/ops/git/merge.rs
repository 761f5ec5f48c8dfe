//! Merges branches in a temporary index, and updates the branch and the working tree only if the merge succeeds.

use super::command::{RepositoryFolders, failed, fields, path_of};
use super::output::{lossy, not_understood, some_names, split_at_tab};
use super::refs::{RefRecord, RefRecords};
use super::refs::{branch_ref, commit_tree, move_branch};
use super::repository::{Repository, commit_at};
use super::temp_repo::TempRepository;
use super::worktree::{Worktree, mark_of};
use crate::error::{Error, ErrorKind, Result};

/// Result of merging the branch of a change into a branch of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// There was nothing to merge.
    Already,
    /// Merged with this commit.
    Done(String),
}

/// Request to merge the branch of a change into a branch of the user.
#[derive(Clone, Copy)]
pub struct MergeRequest<'a> {
    /// Branch of the change.
    pub branch: &'a str,
    /// Branch of the user.
    pub into: &'a str,
    /// Message of the commit.
    pub message: &'a str,
    /// True to merge as a single commit with one parent.
    pub squash: bool,
    /// Commit that must be the tip of `into`; `None` to accept any.
    pub expected_tip: Option<&'a str>,
    /// Checks the tip of `branch`; an error refuses the merge.
    pub check_tip: &'a dyn Fn(&str) -> Result<()>,
}

impl std::fmt::Debug for MergeRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("MergeRequest");
        shown
            .field("branch", &self.branch)
            .field("into", &self.into)
            .finish_non_exhaustive()
    }
}

/// Result of merging another branch into the branch of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeMerge {
    /// There was nothing to merge.
    UpToDate,
    /// Merged with this commit.
    Done(String),
    /// Conflicts in these files; nothing was changed.
    Conflict(Vec<String>),
}

/// The merged tree, or the files with conflicts.
enum MergedTree {
    Whole(String),
    Conflict(Vec<String>),
}

impl Repository {
    /// Merges the branch of a change into a branch of the user. If the target is checked out in the user's working
    /// tree, its files are updated. Uncommitted work is never overwritten: the merge is refused instead.
    ///
    /// # Errors
    ///
    /// `MergeConflict` with the files; `GitFailed` if the merge would overwrite uncommitted work, or if the target is
    /// checked out in another worktree. In these cases nothing is changed.
    pub fn merge_branch(
        &self,
        branch: &str,
        into: &str,
        message: &str,
        squash: bool,
    ) -> Result<MergeOutcome> {
        self.merge_checked(&MergeRequest {
            branch,
            into,
            message,
            squash,
            expected_tip: None,
            check_tip: &|_| Ok(()),
        })
    }

    /// Merges like [`Self::merge_branch`], after checking the tips of both branches. The tips are read once, so the
    /// checked commits are the merged ones.
    ///
    /// # Errors
    ///
    /// `VerdictStale` if the tip of the target is not the expected one; errors of `check_tip`; those of
    /// [`Self::merge_branch`].
    pub fn merge_checked(&self, request: &MergeRequest<'_>) -> Result<MergeOutcome> {
        let MergeRequest {
            branch,
            into,
            message,
            squash,
            expected_tip,
            check_tip,
        } = *request;
        let source = branch_ref(branch)?;
        let target = branch_ref(into)?;
        let records = RefRecords::read(&self.dir, &[&source, &target])?;
        let no_branch =
            |name: &str| failed(format!("branch `{}` does not exist", name.escape_debug()));
        let tip = records.find(&source).ok_or_else(|| no_branch(branch))?;
        check_tip(&tip.commit)?;
        let target = records.find(&target).ok_or_else(|| no_branch(into))?;

        let bases = self.merge_bases(&target.commit, &tip.commit)?;
        if bases == [tip.commit.as_str()] {
            return Ok(MergeOutcome::Already);
        }
        let tree = match self.merge_branches(&bases, target, tip)? {
            MergedTree::Whole(tree) => tree,
            MergedTree::Conflict(names) => return Err(conflict(branch, into, &names)),
        };
        if squash && tree == target.tree {
            return Ok(MergeOutcome::Already);
        }
        if expected_tip.is_some_and(|expected| expected != target.commit) {
            let message = format!("`{into}` has new commits since `{branch}` was created");
            return Err(Error::new(ErrorKind::VerdictStale, message)
                .with_hint(format!("merge `{branch}` manually, or start a new change")));
        }

        let mut parents = vec![target.commit.as_str()];
        if !squash {
            parents.push(&tip.commit);
        }
        let commit = commit_tree(&self.dir, &tree, &parents, message)?;
        self.advance_target(request, target, &commit)?;
        Ok(MergeOutcome::Done(commit))
    }

    /// Moves the target of a merge to the new commit, and updates the user's files if the target is checked out.
    fn advance_target(
        &self,
        request: &MergeRequest<'_>,
        target: &RefRecord,
        commit: &str,
    ) -> Result<()> {
        let MergeRequest { branch, into, .. } = *request;
        // A branch may be a symbolic ref to the one that is checked out.
        let reference = target.symref_target.as_ref().unwrap_or(&target.name);
        let records = RefRecords::read_with_places(&self.dir, &[reference])?;
        let current = records.find(reference);

        if let Some(current) = current.filter(|current| current.is_head) {
            if current.commit != target.commit {
                let message = format!("`{into}` got new commits during the merge");
                return Err(failed(message).with_hint("run the same command again"));
            }
            return self.fast_forward(&target.commit, commit);
        }
        if let Some(place) = current.and_then(|current| current.checked_out_in.as_ref()) {
            let place = place.display().to_string();
            return Err(failed(format!(
                "`{into}` is checked out in `{}`",
                place.escape_debug()
            ))
            .with_hint("merge in that folder, or check out another branch there"));
        }
        move_branch(
            &self.dir,
            reference,
            commit,
            &target.commit,
            &format!("agentd: merge {branch}"),
        )
    }

    /// Fast-forwards the branch that the user has checked out to a commit, and updates the files.
    ///
    /// Git checks every file before it writes the first one, so a refusal leaves everything as it was. If git is
    /// interrupted while it writes, the files that it has written are restored.
    fn fast_forward(&self, target: &str, commit: &str) -> Result<()> {
        let dir = self.dir.guarded()?;
        let changes = self.path_changes(target, commit)?;
        let dirty_names = self.overwritten_names(&changes)?;

        let args = [
            "merge",
            "--ff-only",
            "--no-overwrite-ignore",
            "--quiet",
            "--no-stat",
            commit,
        ];
        let output = dir.call(&args).output();

        let has_succeeded = output.as_ref().is_ok_and(|output| output.code == Some(0));
        if has_succeeded || commit_at(&dir, "HEAD")?.as_deref() == Some(commit) {
            return Ok(());
        }

        let is_refused = output.as_ref().is_ok_and(|output| output.code == Some(1));
        if is_refused && !dirty_names.is_empty() {
            return Err(failed(format!(
                "uncommitted changes would be overwritten: {}",
                some_names(&dirty_names)
            ))
            .with_hint("commit them, or run `git stash -u`; then try again"));
        }

        // Git was interrupted while it wrote files. These had no uncommitted work before, so they can be restored.
        if !is_refused && dirty_names.is_empty() && !self.overwritten_names(&changes)?.is_empty() {
            restore_files(&dir, &changes)?;
        }
        Err(output?.failure("merge"))
    }

    /// Returns the files that differ between two commits.
    fn path_changes(&self, from: &str, to: &str) -> Result<Vec<PathChange>> {
        let args = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--raw",
            "--no-abbrev",
            from,
            to,
        ];
        let output = self.dir.call(&args).ok()?;
        let mut parts = fields(&output);
        let mut changes = Vec::new();
        while let (Some(meta), Some(path)) = (parts.next(), parts.next()) {
            let meta = lossy(meta);
            let fields: Vec<&str> = meta.trim_start_matches(':').split(' ').collect();
            let [mode, _, id, _, status] = fields[..] else {
                return Err(not_understood("diff-tree"));
            };
            let before = format!("{mode} {id}\t");
            changes.push(PathChange {
                path: path.to_vec(),
                before,
                is_new: status == "A",
            });
        }
        Ok(changes)
    }

    /// Returns the names of files with uncommitted work that a merge would overwrite.
    fn overwritten_names(&self, changes: &[PathChange]) -> Result<Vec<String>> {
        // An untracked folder is skipped: only the files in it that the merge writes matter, and `exists` finds them.
        let dirty = self
            .uncommitted()?
            .into_iter()
            .filter(|name| !name.ends_with('/'))
            .collect::<Vec<_>>();

        let is_at_or_below = |path: &str, folder: &str| {
            path.strip_prefix(folder.trim_end_matches('/'))
                .is_some_and(ends_at_boundary)
        };
        let is_dirty = |name: &str| {
            dirty
                .iter()
                .any(|other| is_at_or_below(name, other) || is_at_or_below(other, name))
        };

        // Git does not list ignored files as uncommitted.
        let exists = |change: &PathChange| {
            self.root
                .join(path_of(&change.path))
                .symlink_metadata()
                .is_ok()
        };

        let is_overwritten = |change: &&PathChange| {
            is_dirty(&lossy(&change.path)) || (change.is_new && exists(change))
        };
        Ok(changes
            .iter()
            .filter(is_overwritten)
            .map(|change| lossy(&change.path))
            .collect())
    }

    /// Deletes the branch of a change that is merged into another branch.
    ///
    /// # Errors
    ///
    /// `GitFailed` if the branch is not merged, or is checked out.
    pub fn delete_branch(&self, branch: &str, merged_into: &str) -> Result<()> {
        let reference = branch_ref(branch)?;
        let mark = mark_of(branch);
        let into = branch_ref(merged_into)?;
        let records = RefRecords::read_with_places(&self.dir, &[&reference, &mark, &into])?;
        let Some(tip) = records.find(&reference) else {
            return Ok(());
        };
        let Some(target) = records.find(&into) else {
            return Err(failed(format!(
                "branch `{}` does not exist",
                merged_into.escape_debug()
            )));
        };

        if !self.is_merged(target, tip)? {
            return Err(
                failed(format!("`{branch}` is not merged into `{merged_into}`")).with_hint(
                    format!("to delete the branch and its commits: `git branch -D {branch}`"),
                ),
            );
        }
        if let Some(place) = &tip.checked_out_in {
            let place = place.display().to_string();
            return Err(failed(format!(
                "`{branch}` is checked out in `{}`",
                place.escape_debug()
            )));
        }

        let mut input = format!("option no-deref\ndelete {reference} {}\n", tip.commit);
        if records.find(&mark).is_some() {
            input.push_str(&format!("delete {mark}\n"));
        }
        self.dir
            .call(&["update-ref", "--stdin"])
            .input(input)
            .ok()
            .map(drop)
    }

    /// Returns true if merging `tip` into `target` would change nothing.
    fn is_merged(&self, target: &RefRecord, tip: &RefRecord) -> Result<bool> {
        let bases = self.merge_bases(&target.commit, &tip.commit)?;
        if bases == [tip.commit.as_str()] {
            return Ok(true);
        }
        match self.merge_branches(&bases, target, tip)? {
            MergedTree::Whole(tree) => Ok(tree == target.tree),
            MergedTree::Conflict(_) => Ok(false),
        }
    }

    /// Returns the merge bases of two commits. If one of the two is returned, it is an ancestor of the other.
    fn merge_bases(&self, ours: &str, theirs: &str) -> Result<Vec<String>> {
        let bases = self
            .dir
            .call(&["merge-base", "--all", ours, theirs])
            .find()?
            .unwrap_or_default();
        Ok(bases.lines().map(str::to_owned).collect())
    }

    /// Merges the commits of two branches into a tree.
    fn merge_branches(
        &self,
        bases: &[String],
        ours: &RefRecord,
        theirs: &RefRecord,
    ) -> Result<MergedTree> {
        // Without commits on our side, their tree is the merged tree.
        if bases == [ours.commit.as_str()] {
            return Ok(MergedTree::Whole(theirs.tree.clone()));
        }
        self.merge_trees(bases, &ours.commit, &theirs.commit, &[])
    }

    /// Merges two commits into a tree, in a temporary repository. Files in `resolutions` get this content instead of
    /// git's merge result.
    fn merge_trees(
        &self,
        bases: &[String],
        ours: &str,
        theirs: &str,
        resolutions: &[(String, String)],
    ) -> Result<MergedTree> {
        if bases.is_empty() {
            return Err(failed(format!(
                "{ours} and {theirs} have unrelated histories"
            )));
        }

        let scratch = TempRepository::new(&self.dir, ours)?;
        // The new objects must outlive the temporary repository, so they go to the user's repository.
        let mut env = scratch.own_index();
        env.push(("GIT_OBJECT_DIRECTORY", self.common.join("objects")));
        let call = |args: &[&str]| scratch.dir.call(args).env(&env);

        call(&["read-tree", ours]).ok()?;
        let merge = call(&["merge-recursive"])
            .args(bases)
            .args(["--", ours, theirs])
            .output()?;
        if !matches!(merge.code, Some(0 | 1)) {
            return Err(merge.failure("merge-recursive"));
        }

        let null_id = "0".repeat(ours.len());
        let mut input = Vec::new();
        for (path, text) in resolutions {
            let id = call(&["hash-object", "-w", "--stdin"])
                .input(text.as_bytes())
                .text()?;
            // The first line removes the conflicting entries of the path, the second one adds the text.
            input.extend(format!("0 {null_id}\t{path}\0100644 {id} 0\t{path}\0").into_bytes());
        }
        if !input.is_empty() {
            call(&["update-index", "--replace", "-z", "--index-info"])
                .input(input)
                .ok()?;
        }

        let unmerged = call(&["ls-files", "-z", "-u"]).ok()?;
        let mut names: Vec<String> = fields(&unmerged)
            .filter_map(split_at_tab)
            .map(|(_, path)| lossy(path))
            .collect();
        names.dedup();

        match names.is_empty() {
            true if merge.code == Some(1) && resolutions.is_empty() => {
                Err(merge.failure("merge-recursive"))
            }
            true => Ok(MergedTree::Whole(call(&["write-tree"]).text()?)),
            false => Ok(MergedTree::Conflict(names)),
        }
    }
}

impl Worktree {
    /// Merges another branch into the branch of the worktree. Files in `ours` get this content instead of git's merge
    /// result.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails, or if the merge would overwrite uncommitted work.
    pub fn merge_from(
        &self,
        target: &str,
        message: &str,
        ours: &[(String, String)],
    ) -> Result<WorktreeMerge> {
        let dir = self.checked()?;
        let head = self.tip()?;
        let head = head.commit.as_str();
        let theirs = self.repository.resolve_existing(target)?;

        let bases = self.repository.merge_bases(head, &theirs)?;
        if bases == [theirs.as_str()] {
            return Ok(WorktreeMerge::UpToDate);
        }
        let tree = match self.repository.merge_trees(&bases, head, &theirs, ours)? {
            MergedTree::Whole(tree) => tree,
            MergedTree::Conflict(names) => return Ok(WorktreeMerge::Conflict(names)),
        };

        let commit = commit_tree(&dir, &tree, &[head, &theirs], message)?;
        // The files are written first. If this is interrupted, they are an uncommitted change; if the branch were
        // moved first, the files would undo the merge.
        dir.call(&["read-tree", "-m", "-u", head, &commit]).ok()?;
        move_branch(
            &dir,
            &branch_ref(&self.branch)?,
            &commit,
            head,
            "agentd: merge",
        )?;
        Ok(WorktreeMerge::Done(commit))
    }
}

/// A file that differs between two commits.
struct PathChange {
    path: Vec<u8>,
    /// Index entry before the merge, in the format of `update-index --index-info`.
    before: String,
    /// True if the file did not exist before.
    is_new: bool,
}

/// Restores files and their index entries after an interrupted merge.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to git, and git wrote these files"
)]
fn restore_files(dir: &RepositoryFolders, changes: &[PathChange]) -> Result<()> {
    let mut entries = Vec::new();
    let mut paths = Vec::new();
    for change in changes {
        let path = dir.work_tree.join(path_of(&change.path));
        entries.extend([change.before.as_bytes(), &change.path, b"\0"].concat());
        if !change.is_new {
            paths.extend([change.path.as_slice(), b"\0"].concat());
        } else if path
            .symlink_metadata()
            .is_ok_and(|metadata| !metadata.is_dir())
        {
            let removed = std::fs::remove_file(&path);
            removed.map_err(|error| {
                let name = lossy(&change.path);
                failed(format!("cannot remove `{}`", name.escape_debug())).with_source(error)
            })?;
        }
    }
    dir.call(&["update-index", "--replace", "-z", "--index-info"])
        .input(entries)
        .ok()?;
    if paths.is_empty() {
        return Ok(());
    }
    dir.call(&["checkout-index", "--force", "--index", "-z", "--stdin"])
        .input(paths)
        .ok()
        .map(drop)
}

/// Returns true if `rest`, the part of a path after a prefix, is empty or starts at a folder boundary: the prefix is then
/// the path itself or one of its parent folders.
fn ends_at_boundary(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

fn conflict(branch: &str, into: &str, names: &[String]) -> Error {
    let names = some_names(names);
    Error::new(
        ErrorKind::MergeConflict,
        format!("merge conflict between `{branch}` and `{into}` in {names}"),
    )
    .with_hint(format!(
        "merge `{into}` into `{branch}` and resolve the conflict there"
    ))
}
