//! Merging: made apart from every work tree, and only then put where it belongs, or not at all.

use super::run::{Dir, failed, fields, path_of};
use super::scratch::Scratch;
use super::worktree::{Worktree, mark_of};
use super::{
    Repository, branch_of, branch_ref, commit_at, commit_tree, lossy, move_branch, not_understood,
    some_names, split_at_tab, tree_of,
};
use crate::error::{Error, ErrorKind, Result};

/// What came of merging a branch into another that is the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landed {
    /// It was merged before.
    Already,
    /// This commit holds it.
    Done(String),
}

/// What came of merging another branch into one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It was merged before.
    UpToDate,
    /// This commit holds both.
    Done(String),
    /// These files contradict each other; nothing was touched.
    Conflict(Vec<String>),
}

/// The tree that a merge makes, or the files that contradict each other.
enum Tree {
    Whole(String),
    Conflict(Vec<String>),
}

impl Repository {
    /// Merges a branch of ours into one of the user's. If that is checked out in the user's work tree, its files follow;
    /// work that is in no commit stays as it is, or the merge is refused.
    ///
    /// # Errors
    ///
    /// `MergeConflict` naming the files; `GitFailed` if work in no commit is in the way, or if the branch is checked
    /// out elsewhere. Then nothing was touched.
    pub fn land(&self, branch: &str, into: &str, message: &str, squash: bool) -> Result<Landed> {
        self.land_on(branch, into, message, squash, None)
    }

    /// The same; if a commit is given, only onto that.
    ///
    /// # Errors
    ///
    /// `VerdictStale` if the target is elsewhere by now; else those of [`Self::land`].
    pub fn land_on(
        &self,
        branch: &str,
        into: &str,
        message: &str,
        squash: bool,
        onto: Option<&str>,
    ) -> Result<Landed> {
        let tip = self.tip(branch)?;
        let reference = self.final_ref(into)?;
        let target = self.tip(into)?;
        if self.is_ancestor(&tip, &target)? {
            return Ok(Landed::Already);
        }
        let tree = match self.merge_trees(&target, &tip, &[])? {
            Tree::Whole(tree) => tree,
            Tree::Conflict(names) => return Err(conflict(branch, into, &names)),
        };
        if squash && tree == tree_of(&self.dir, &target)? {
            return Ok(Landed::Already);
        }
        if onto.is_some_and(|onto| onto != target) {
            let message = format!("`{into}` has moved since `{branch}` was made");
            return Err(Error::new(ErrorKind::VerdictStale, message)
                .with_hint("merge the branch by hand, or do it anew"));
        }
        let parents = if squash { vec![target.as_str()] } else { vec![target.as_str(), &tip] };
        let commit = commit_tree(&self.dir, &tree, &parents, message)?;
        if branch_of(&self.dir)?.is_some_and(|branch| reference == format!("refs/heads/{branch}")) {
            self.follow(&target, &commit)?;
        } else if let Some(place) = self.checked_out_in(&reference)? {
            let place = place.display().to_string();
            return Err(failed(format!("`{into}` is checked out in `{}`", place.escape_debug()))
                .with_hint("merge from there, or check out another branch there"));
        } else {
            move_branch(&self.dir, &reference, &commit, &target, &format!("agentd: merge {branch}"))?;
        }
        Ok(Landed::Done(commit))
    }

    /// Moves the branch that the user has checked out to a commit made upon it, and their files with it.
    fn follow(&self, target: &str, commit: &str) -> Result<()> {
        if commit_at(&self.dir, "HEAD")?.as_deref() != Some(target) {
            return Err(failed("what is checked out has changed meanwhile").with_hint("try again"));
        }
        let dir = self.dir.guarded()?;
        let steps = self.steps(target, commit)?;
        let names = self.in_the_way(&steps)?;
        // Git looks at every file before it writes the first, and spares even those that are ignored.
        let words = ["merge", "--ff-only", "--no-overwrite-ignore", "--quiet", "--no-stat", commit];
        let output = dir.call(&words).output();
        if commit_at(&dir, "HEAD")?.as_deref() == Some(commit) {
            return Ok(());
        }
        let refused = output.as_ref().is_ok_and(|output| output.code == Some(1));
        if refused && !names.is_empty() {
            return Err(failed(format!("work that is in no commit is in the way: {}", some_names(&names)))
                .with_hint("commit it, or put it aside with `git stash -u`; then try again"));
        }
        // Files may have been written before it came to an end, and none of them held anything else.
        if !refused && names.is_empty() && !self.in_the_way(&steps)?.is_empty() {
            put_back(&dir, &steps)?;
        }
        Err(output?.failure("merge"))
    }

    /// Returns the files that differ between two commits.
    fn steps(&self, from: &str, to: &str) -> Result<Vec<Step>> {
        let words = ["diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", from, to];
        let output = self.dir.call(&words).ok()?;
        let mut parts = fields(&output);
        let mut steps = Vec::new();
        while let (Some(meta), Some(path)) = (parts.next(), parts.next()) {
            let meta = lossy(meta);
            let words: Vec<&str> = meta.trim_start_matches(':').split(' ').collect();
            let [mode, _, id, _, status] = words[..] else { return Err(not_understood("diff-tree")) };
            let before = format!("{mode} {id}\t");
            steps.push(Step { path: path.to_vec(), before, new: status == "A" });
        }
        Ok(steps)
    }

    /// Returns the files that would be written, and that hold what is in no commit.
    fn in_the_way(&self, steps: &[Step]) -> Result<Vec<String>> {
        // Of a folder that git does not know only those files count that are there, and these are found below.
        let dirty = self.uncommitted()?.into_iter().filter(|name| !name.ends_with('/')).collect::<Vec<_>>();
        let inside = |a: &str, b: &str| a.strip_prefix(b.trim_end_matches('/')).is_some_and(is_below);
        let is_dirty = |name: &str| dirty.iter().any(|other| inside(name, other) || inside(other, name));
        // What is ignored is not told as uncommitted.
        let is_there = |step: &Step| self.root.join(path_of(&step.path)).symlink_metadata().is_ok();
        let in_the_way = |step: &&Step| is_dirty(&lossy(&step.path)) || (step.new && is_there(step));
        Ok(steps.iter().filter(in_the_way).map(|step| lossy(&step.path)).collect())
    }

    /// Deletes a branch of ours that is merged into another.
    ///
    /// # Errors
    ///
    /// `GitFailed` if it is not merged, or checked out somewhere.
    pub fn delete_branch(&self, branch: &str, merged_into: &str) -> Result<()> {
        let reference = branch_ref(branch)?;
        let Some(tip) = commit_at(&self.dir, &reference)? else { return Ok(()) };
        let target = self.known(merged_into)?;
        if !self.holds(&target, &tip)? {
            return Err(failed(format!("`{branch}` is not merged into `{merged_into}`"))
                .with_hint(format!("to lose its commits, say `git branch -D {branch}`")));
        }
        if let Some(place) = self.checked_out_in(&reference)? {
            let place = place.display().to_string();
            return Err(failed(format!("`{branch}` is checked out in `{}`", place.escape_debug())));
        }
        let mut input = format!("option no-deref\ndelete {reference} {tip}\n");
        let mark = mark_of(branch);
        if commit_at(&self.dir, &mark)?.is_some() {
            input.push_str(&format!("delete {mark}\n"));
        }
        self.dir.call(&["update-ref", "--stdin"]).input(input).ok().map(drop)
    }

    /// Tells whether merging a commit into another would change nothing.
    fn holds(&self, target: &str, tip: &str) -> Result<bool> {
        if self.is_ancestor(tip, target)? {
            return Ok(true);
        }
        match self.merge_trees(target, tip, &[])? {
            Tree::Whole(tree) => Ok(tree == tree_of(&self.dir, target)?),
            Tree::Conflict(_) => Ok(false),
        }
    }

    /// Merges two commits into a tree, apart from every work tree. The given files get the given text.
    fn merge_trees(&self, ours: &str, theirs: &str, given: &[(String, String)]) -> Result<Tree> {
        let bases = self.dir.call(&["merge-base", "--all", ours, theirs]).find()?.unwrap_or_default();
        if bases.is_empty() {
            return Err(failed(format!("{ours} and {theirs} have no history in common")));
        }
        let scratch = Scratch::new(&self.dir, ours)?;
        // What is made here must last, so it goes to the repository's own objects.
        let mut place = scratch.own_index();
        place.push(("GIT_OBJECT_DIRECTORY", self.common.join("objects")));
        let call = |words: &[&str]| scratch.dir.call(words).env(&place);
        call(&["read-tree", ours]).ok()?;
        let merge = call(&["merge-recursive"]).args(bases.lines()).args(["--", ours, theirs]).output()?;
        if !matches!(merge.code, Some(0 | 1)) {
            return Err(merge.failure("merge-recursive"));
        }
        let zero = "0".repeat(ours.len());
        let mut input = Vec::new();
        for (path, text) in given {
            let id = call(&["hash-object", "-w", "--stdin"]).input(text.as_bytes()).text()?;
            input.extend(format!("0 {zero}\t{path}\0100644 {id} 0\t{path}\0").into_bytes());
        }
        if !input.is_empty() {
            call(&["update-index", "--replace", "-z", "--index-info"]).input(input).ok()?;
        }
        let unmerged = call(&["ls-files", "-z", "-u"]).ok()?;
        let mut names: Vec<String> =
            fields(&unmerged).filter_map(split_at_tab).map(|(_, path)| lossy(path)).collect();
        names.dedup();
        match names.is_empty() {
            true if merge.code == Some(1) && given.is_empty() => Err(merge.failure("merge-recursive")),
            true => Ok(Tree::Whole(call(&["write-tree"]).text()?)),
            false => Ok(Tree::Conflict(names)),
        }
    }

    fn tip(&self, branch: &str) -> Result<String> {
        commit_at(&self.dir, &branch_ref(branch)?)?
            .ok_or_else(|| failed(format!("there is no branch `{}`", branch.escape_debug())))
    }

    /// Returns the whole name of a branch, and of the one it leads to if it is another name for that.
    fn final_ref(&self, branch: &str) -> Result<String> {
        let reference = branch_ref(branch)?;
        Ok(self.dir.call(&["symbolic-ref", "-q", &reference]).find()?.unwrap_or(reference))
    }
}

impl Worktree {
    /// Merges another branch into this one. The given files get the given text, whatever git makes of them.
    ///
    /// # Errors
    ///
    /// `GitFailed`; also if work that is in no commit is in the way.
    pub fn merge_from(&self, target: &str, message: &str, ours: &[(String, String)]) -> Result<Merged> {
        let (head, dir) = (self.head()?, self.checked()?);
        let theirs = self.repository.known(target)?;
        if self.repository.is_ancestor(&theirs, &head)? {
            return Ok(Merged::UpToDate);
        }
        let tree = match self.repository.merge_trees(&head, &theirs, ours)? {
            Tree::Whole(tree) => tree,
            Tree::Conflict(names) => return Ok(Merged::Conflict(names)),
        };
        let commit = commit_tree(&dir, &tree, &[&head, &theirs], message)?;
        // The files first: files without their branch are a change to commit, a branch without its files undoes it.
        dir.call(&["read-tree", "-m", "-u", &head, &commit]).ok()?;
        move_branch(&dir, &branch_ref(&self.branch)?, &commit, &head, "agentd: merge")?;
        Ok(Merged::Done(commit))
    }
}

/// A file that differs between two commits.
struct Step {
    path: Vec<u8>,
    /// What the index holds of it before, as git reads it.
    before: String,
    /// Whether it is not there before.
    new: bool,
}

/// Puts files and their entries in the index back as they were before.
#[expect(clippy::disallowed_methods, reason = "this is the door to git, and git has written them")]
fn put_back(dir: &Dir, steps: &[Step]) -> Result<()> {
    let (mut entries, mut paths) = (Vec::new(), Vec::new());
    for step in steps {
        let path = dir.work_tree.join(path_of(&step.path));
        entries.extend([step.before.as_bytes(), &step.path, b"\0"].concat());
        if !step.new {
            paths.extend([step.path.as_slice(), b"\0"].concat());
        } else if path.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            let removed = std::fs::remove_file(&path);
            removed.map_err(|error| failed("a file cannot be put back").with_source(error))?;
        }
    }
    dir.call(&["update-index", "--replace", "-z", "--index-info"]).input(entries).ok()?;
    if paths.is_empty() {
        return Ok(());
    }
    dir.call(&["checkout-index", "--force", "--index", "-z", "--stdin"]).input(paths).ok().map(drop)
}

fn is_below(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

fn conflict(branch: &str, into: &str, names: &[String]) -> Error {
    let names = some_names(names);
    Error::new(ErrorKind::MergeConflict, format!("`{branch}` and `{into}` contradict each other in {names}"))
        .with_hint(format!("merge `{into}` into `{branch}` and settle it there"))
}
