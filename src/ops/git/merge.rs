//! Merges branches in a temporary index, and moves the branch and the files only if the merge has succeeded.

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
    /// Merges as a single commit with one parent.
    pub squash: bool,
    /// Commit at which `into` must be; `None` for any.
    pub onto: Option<&'a str>,
    /// Returns an error for a commit of `branch` that must not be merged.
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
    /// Merges the branch of a change into a branch of the user. If that is checked out in the user's working tree, the
    /// files are updated. Uncommitted work is never overwritten: the merge is refused instead.
    ///
    /// # Errors
    ///
    /// `MergeConflict` with the files; `GitFailed` if uncommitted work is in the way, or if the branch is checked out
    /// in another worktree. In both cases nothing was changed.
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
            onto: None,
            check_tip: &|_| Ok(()),
        })
    }

    /// Merges like [`Self::merge_branch`], if the request accepts the commits of both branches. They are read once,
    /// so that the checked commits are the merged ones.
    ///
    /// # Errors
    ///
    /// `VerdictStale` if the target has moved; errors of `check_tip`; those of [`Self::merge_branch`].
    pub fn merge_checked(&self, request: &MergeRequest<'_>) -> Result<MergeOutcome> {
        let MergeRequest {
            branch,
            into,
            message,
            squash,
            onto,
            check_tip,
        } = *request;
        let (source, target) = (branch_ref(branch)?, branch_ref(into)?);
        let found = RefRecords::read(&self.dir, &[&source, &target])?;
        let no_branch =
            |name: &str| failed(format!("branch `{}` does not exist", name.escape_debug()));
        let tip = found.find(&source).ok_or_else(|| no_branch(branch))?;
        check_tip(&tip.commit)?;
        let target = found.find(&target).ok_or_else(|| no_branch(into))?;

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
        if onto.is_some_and(|onto| onto != target.commit) {
            let message = format!("`{into}` has new commits since `{branch}` was created");
            return Err(Error::new(ErrorKind::VerdictStale, message)
                .with_hint("merge the branch manually, or start again"));
        }

        let mut parents = vec![target.commit.as_str()];
        if !squash {
            parents.push(&tip.commit);
        }
        let commit = commit_tree(&self.dir, &tree, &parents, message)?;
        self.put_in_place(request, target, &commit)?;
        Ok(MergeOutcome::Done(commit))
    }

    /// Moves the target of a merge to the new commit, and updates the user's files if it is checked out.
    fn put_in_place(
        &self,
        request: &MergeRequest<'_>,
        target: &RefRecord,
        commit: &str,
    ) -> Result<()> {
        let MergeRequest { branch, into, .. } = *request;
        // A branch may be a symbolic ref to the one that is checked out.
        let reference = target.leads_to.as_ref().unwrap_or(&target.name);
        let now = RefRecords::read_with_places(&self.dir, &[reference])?;
        let now = now.find(reference);

        if let Some(now) = now.filter(|now| now.is_head) {
            if now.commit != target.commit {
                return Err(
                    failed("the checked-out branch changed in the meantime").with_hint("try again")
                );
            }
            return self.follow(&target.commit, commit);
        }
        if let Some(place) = now.and_then(|now| now.checked_out_in.as_ref()) {
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

    /// Moves the branch that the user has checked out to a commit on top of it, and updates the files.
    ///
    /// Git checks every file before it writes the first one, so a refusal leaves everything as it was. If git is
    /// interrupted while it writes, the files that it has written are restored.
    fn follow(&self, target: &str, commit: &str) -> Result<()> {
        let dir = self.dir.guarded()?;
        let steps = self.steps(target, commit)?;
        let names = self.in_the_way(&steps)?;
        let words = [
            "merge",
            "--ff-only",
            "--no-overwrite-ignore",
            "--quiet",
            "--no-stat",
            commit,
        ];
        let output = dir.call(&words).output();
        let went_well = output.as_ref().is_ok_and(|output| output.code == Some(0));
        if went_well || commit_at(&dir, "HEAD")?.as_deref() == Some(commit) {
            return Ok(());
        }
        let refused = output.as_ref().is_ok_and(|output| output.code == Some(1));
        if refused && !names.is_empty() {
            return Err(failed(format!(
                "uncommitted changes would be overwritten: {}",
                some_names(&names)
            ))
            .with_hint("commit them, or run `git stash -u`; then try again"));
        }
        // Interrupted: the files that git has written held no other work, so they can be restored.
        if !refused && names.is_empty() && !self.in_the_way(&steps)?.is_empty() {
            put_back(&dir, &steps)?;
        }
        Err(output?.failure("merge"))
    }

    /// Returns the files that differ between two commits.
    fn steps(&self, from: &str, to: &str) -> Result<Vec<PathChange>> {
        let words = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--raw",
            "--no-abbrev",
            from,
            to,
        ];
        let output = self.dir.call(&words).ok()?;
        let mut parts = fields(&output);
        let mut steps = Vec::new();
        while let (Some(meta), Some(path)) = (parts.next(), parts.next()) {
            let meta = lossy(meta);
            let words: Vec<&str> = meta.trim_start_matches(':').split(' ').collect();
            let [mode, _, id, _, status] = words[..] else {
                return Err(not_understood("diff-tree"));
            };
            let before = format!("{mode} {id}\t");
            steps.push(PathChange {
                path: path.to_vec(),
                before,
                new: status == "A",
            });
        }
        Ok(steps)
    }

    /// Returns the files with uncommitted work that a merge would write.
    fn in_the_way(&self, steps: &[PathChange]) -> Result<Vec<String>> {
        // Of an untracked folder only the files that exist count, and these are found below.
        let dirty = self
            .uncommitted()?
            .into_iter()
            .filter(|name| !name.ends_with('/'))
            .collect::<Vec<_>>();
        let inside = |a: &str, b: &str| {
            a.strip_prefix(b.trim_end_matches('/'))
                .is_some_and(is_below)
        };
        let is_dirty = |name: &str| {
            dirty
                .iter()
                .any(|other| inside(name, other) || inside(other, name))
        };
        // Ignored files are not listed as uncommitted.
        let is_there = |step: &PathChange| {
            self.root
                .join(path_of(&step.path))
                .symlink_metadata()
                .is_ok()
        };
        let in_the_way =
            |step: &&PathChange| is_dirty(&lossy(&step.path)) || (step.new && is_there(step));
        Ok(steps
            .iter()
            .filter(in_the_way)
            .map(|step| lossy(&step.path))
            .collect())
    }

    /// Deletes the branch of a change that is merged into another branch.
    ///
    /// # Errors
    ///
    /// `GitFailed` if it is not merged, or is checked out.
    pub fn delete_branch(&self, branch: &str, merged_into: &str) -> Result<()> {
        let (reference, mark) = (branch_ref(branch)?, mark_of(branch));
        let into = branch_ref(merged_into)?;
        let found = RefRecords::read_with_places(&self.dir, &[&reference, &mark, &into])?;
        let Some(tip) = found.find(&reference) else {
            return Ok(());
        };
        let Some(target) = found.find(&into) else {
            return Err(failed(format!(
                "branch `{}` does not exist",
                merged_into.escape_debug()
            )));
        };

        if !self.holds(target, tip)? {
            return Err(
                failed(format!("`{branch}` is not merged into `{merged_into}`")).with_hint(
                    format!("to delete it with its commits: `git branch -D {branch}`"),
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
        if found.find(&mark).is_some() {
            input.push_str(&format!("delete {mark}\n"));
        }
        self.dir
            .call(&["update-ref", "--stdin"])
            .input(input)
            .ok()
            .map(drop)
    }

    /// Returns true if merging a commit into another would change nothing.
    fn holds(&self, target: &RefRecord, tip: &RefRecord) -> Result<bool> {
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

    /// Merges two commits into a tree, in a temporary repository. The given files get the given texts.
    fn merge_trees(
        &self,
        bases: &[String],
        ours: &str,
        theirs: &str,
        given: &[(String, String)],
    ) -> Result<MergedTree> {
        if bases.is_empty() {
            return Err(failed(format!(
                "{ours} and {theirs} have unrelated histories"
            )));
        }
        let scratch = TempRepository::new(&self.dir, ours)?;
        // The new objects must outlive the temporary repository, so they go to the user's repository.
        let mut place = scratch.own_index();
        place.push(("GIT_OBJECT_DIRECTORY", self.common.join("objects")));
        let call = |words: &[&str]| scratch.dir.call(words).env(&place);
        call(&["read-tree", ours]).ok()?;
        let merge = call(&["merge-recursive"])
            .args(bases)
            .args(["--", ours, theirs])
            .output()?;
        if !matches!(merge.code, Some(0 | 1)) {
            return Err(merge.failure("merge-recursive"));
        }
        let zero = "0".repeat(ours.len());
        let mut input = Vec::new();
        for (path, text) in given {
            let id = call(&["hash-object", "-w", "--stdin"])
                .input(text.as_bytes())
                .text()?;
            input.extend(format!("0 {zero}\t{path}\0100644 {id} 0\t{path}\0").into_bytes());
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
            true if merge.code == Some(1) && given.is_empty() => {
                Err(merge.failure("merge-recursive"))
            }
            true => Ok(MergedTree::Whole(call(&["write-tree"]).text()?)),
            false => Ok(MergedTree::Conflict(names)),
        }
    }
}

impl Worktree {
    /// Merges another branch into this one. The given files get the given texts instead of a merge by git.
    ///
    /// # Errors
    ///
    /// `GitFailed`, also if uncommitted work is in the way.
    pub fn merge_from(
        &self,
        target: &str,
        message: &str,
        ours: &[(String, String)],
    ) -> Result<WorktreeMerge> {
        let dir = self.checked()?;
        let head = self.tip()?;
        let head = head.commit.as_str();
        let theirs = self.repository.known(target)?;

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
    /// Its index entry before, in the format of `update-index`.
    before: String,
    /// Set if it did not exist before.
    new: bool,
}

/// Restores files and their index entries.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to git, and git has written them"
)]
fn put_back(dir: &RepositoryFolders, steps: &[PathChange]) -> Result<()> {
    let (mut entries, mut paths) = (Vec::new(), Vec::new());
    for step in steps {
        let path = dir.work_tree.join(path_of(&step.path));
        entries.extend([step.before.as_bytes(), &step.path, b"\0"].concat());
        if !step.new {
            paths.extend([step.path.as_slice(), b"\0"].concat());
        } else if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            let removed = std::fs::remove_file(&path);
            removed.map_err(|error| failed("cannot restore a file").with_source(error))?;
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

fn is_below(rest: &str) -> bool {
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
