//! Worktrees of changes: creates them on their own branches outside the user's folder, commits to them, resets and
//! removes them.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::command::{RepositoryFolders, failed};
use super::output::{lossy, some_names};
use super::refs::{RefRecord, RefRecords};
use super::refs::{branch_of, branch_ref, commit_tree, move_branch};
use super::repository::Repository;
use super::stage::{IndexListing, MAX_COMMIT_FILE_BYTES};
use crate::error::{Error, Result};
use crate::file;

/// A worktree that agentd has created.
#[derive(Clone, Debug)]
pub struct Worktree {
    /// Folder of the worktree.
    pub path: PathBuf,
    /// Branch that is checked out in the worktree.
    pub branch: String,
    pub(super) repository: Repository,
    dir: RepositoryFolders,
}

/// A commit that contains all files of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeCommit {
    /// Id of the commit.
    pub commit: String,
    /// False if nothing had changed, so that `commit` is an earlier commit.
    pub is_new: bool,
}

/// Handling of uncommitted work in a worktree that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// It is kept: the worktree is not removed.
    Kept,
    /// It is removed with the worktree.
    Lost,
}

/// Returns the ref that marks a branch as created by agentd. It points to the commit at which the branch was created.
pub(super) fn mark_of(branch: &str) -> String {
    format!("refs/agentd/base/{branch}")
}

/// Maximum size of a file in which git stores a path, in bytes.
const MAX_PATH_FILE_BYTES: u64 = 64 * 1024;

impl Repository {
    /// Returns the worktree of a branch that agentd has created; `None` if there is no such branch. A missing folder
    /// is created again.
    ///
    /// # Errors
    ///
    /// `GitFailed` if another branch is checked out in the worktree, or this branch elsewhere.
    pub fn worktree(&self, branch: &str, path: &Path) -> Result<Option<Worktree>> {
        if let Some(worktree) = self.intact_worktree(branch, path)? {
            return Ok(Some(worktree));
        }
        let reference = branch_ref(branch)?;
        let mark = mark_of(branch);
        let records = RefRecords::read_with_places(&self.dir, &[&reference, &mark])?;
        match (records.find(&reference), records.find(&mark)) {
            (Some(tip), Some(_)) => self
                .worktree_of(branch, path, tip.checked_out_in.as_deref())
                .map(Some),
            _ => Ok(None),
        }
    }

    /// Creates a branch that starts at a commit, and its worktree. An existing branch or worktree is kept.
    ///
    /// # Errors
    ///
    /// `GitFailed` if agentd has not created the branch, or if the folder is in use.
    pub fn add_worktree(&self, branch: &str, path: &Path, from: &str) -> Result<Worktree> {
        if let Some(worktree) = self.intact_worktree(branch, path)? {
            return Ok(worktree);
        }
        let reference = branch_ref(branch)?;
        let mark = mark_of(branch);
        let records = RefRecords::read_with_places(&self.dir, &[&reference, &mark])?;
        let Some(tip) = records.find(&reference) else {
            let commit = self.resolve(from)?;
            // Both refs are created in one transaction, so a branch with the mark was certainly created by agentd.
            let input = format!("create {reference} {commit}\nupdate {mark} {commit}\n");
            self.dir
                .call(&["update-ref", "-m", "agentd: start", "--stdin"])
                .input(input)
                .ok()?;
            return self.worktree_of(branch, path, None);
        };
        if records.find(&mark).is_none() {
            return Err(failed(format!(
                "branch `{branch}` exists, but was not created by agentd"
            ))
            .with_hint("choose another name, or rename that branch with `git branch -m`"));
        }
        self.worktree_of(branch, path, tip.checked_out_in.as_deref())
    }

    /// Returns the worktree of a branch if it exists and has that branch checked out; `None` if it must be created or
    /// repaired.
    fn intact_worktree(&self, branch: &str, path: &Path) -> Result<Option<Worktree>> {
        let Ok(path) = without_symlinks(path) else {
            return Ok(None);
        };
        let Some(git_dir) = self.registered(&path)? else {
            return Ok(None);
        };
        let worktree = self.worktree_at(branch, &path, &git_dir);
        if !worktree.is_whole() {
            return Ok(None);
        }

        worktree.repair_commondir()?;
        let reference = branch_ref(branch)?;
        let mark = mark_of(branch);
        let records = RefRecords::read(&worktree.dir, &[&reference, &mark])?;
        let is_checked_out = records.find(&reference).is_some_and(|tip| tip.is_head);
        if !is_checked_out || records.find(&mark).is_none() {
            return Ok(None);
        }

        worktree.repair_git_file()?;
        Ok(Some(worktree))
    }

    /// Returns the worktree of an existing branch, and repairs it. `place` is the folder in which the branch is
    /// checked out.
    fn worktree_of(&self, branch: &str, path: &Path, place: Option<&Path>) -> Result<Worktree> {
        let path = absolute(path).map_err(|error| unusable(path, "cannot be used", error))?;
        let mut place = place;
        if let Some(git_dir) = self.registered(&path)? {
            let worktree = self.worktree_at(branch, &path, &git_dir);
            if worktree.is_whole() {
                worktree.check_branch()?;
                worktree.repair_git_file()?;
                return Ok(worktree);
            }
            self.forget(&worktree)?;
            place = place.filter(|place| *place != path);
        }
        if let Some(place) = place {
            let place = place.display().to_string();
            return Err(failed(format!(
                "`{branch}` is checked out in `{}`",
                place.escape_debug()
            ))
            .with_hint("check out another branch there, or remove it with `git worktree remove`"));
        }

        let add = self
            .dir
            .call(&["worktree", "add", "--quiet", "--no-checkout", "--"]);
        add.arg(&path).arg(branch).ok()?;
        let git_dir = self
            .registered(&path)?
            .ok_or_else(|| failed("git worktree add did not register the worktree"))?;
        let worktree = self.worktree_at(branch, &path, &git_dir);
        // Git writes the index last: without one, creating the worktree was interrupted.
        worktree
            .dir
            .guarded()?
            .call(&["read-tree", "-m", "-u", "HEAD"])
            .ok()?;
        Ok(worktree)
    }

    fn worktree_at(&self, branch: &str, path: &Path, git_dir: &Path) -> Worktree {
        let dir = RepositoryFolders::new(&self.dir.git, &self.common, git_dir, path);
        Worktree {
            path: path.to_path_buf(),
            branch: branch.to_owned(),
            repository: self.clone(),
            dir,
        }
    }

    /// Returns the git folder of the worktree at a path; `None` if no worktree is registered there. It is looked up in
    /// the repository, because an agent can write to the worktree.
    fn registered(&self, path: &Path) -> Result<Option<PathBuf>> {
        let all = self.common.join("worktrees");
        for name in file::names_in(&all)? {
            let git_dir = all.join(name);
            let Some(recorded) = file::read_bytes(&git_dir.join("gitdir"), MAX_PATH_FILE_BYTES)?
            else {
                continue;
            };
            let recorded = recorded.strip_suffix(b"\n").unwrap_or(&recorded);
            if git_dir.join(OsStr::from_bytes(recorded)) == path.join(".git") {
                return Ok(Some(git_dir));
            }
        }
        Ok(None)
    }

    /// Removes a worktree, if it exists.
    ///
    /// # Errors
    ///
    /// `GitFailed` if the worktree has uncommitted work that must be kept, or if it cannot be removed.
    pub fn remove_worktree(&self, worktree: &Worktree, leftover: Leftover) -> Result<()> {
        if worktree.is_whole() && leftover == Leftover::Kept {
            let head = worktree.head()?;
            let snapshot = worktree.snapshot(&head)?;
            let mut names: Vec<String> = snapshot
                .changed(&head)?
                .into_iter()
                .map(|file| file.path)
                .collect();
            names.extend(snapshot.nested);
            if !names.is_empty() {
                let shown = some_names(&names);
                let path = worktree.path.display().to_string();
                return Err(failed(format!(
                    "worktree `{}` has uncommitted changes: {shown}",
                    path.escape_debug()
                )));
            }
        }
        match self.registered(&worktree.path)? {
            Some(_) => self.forget(worktree),
            None => Ok(()),
        }
    }

    /// Removes the folder of a worktree, and its git folder in the repository.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to git, and the folder is our own"
    )]
    fn forget(&self, worktree: &Worktree) -> Result<()> {
        let path = &worktree.path;
        // Git is not used to remove the folder: it would use the repository that the folder's `.git` file names.
        let removed = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(error) if file::is_missing(&error) => Ok(()),
            Err(error) => Err(error),
        };
        removed.map_err(|error| unusable(path, "cannot be removed", error))?;
        self.dir
            .call(&["worktree", "remove", "--force", "--force", "--"])
            .arg(path)
            .ok()
            .map(drop)
    }
}

impl Worktree {
    /// Returns the checked-out commit.
    ///
    /// # Errors
    ///
    /// `GitFailed` if another branch is checked out.
    pub fn head(&self) -> Result<String> {
        Ok(self.tip()?.commit)
    }

    /// Returns the current record of the branch, which must be checked out.
    pub(super) fn tip(&self) -> Result<RefRecord> {
        self.repair_commondir()?;
        let reference = branch_ref(&self.branch)?;
        let records = RefRecords::read(&self.dir, &[&reference])?;
        let tip = records.find(&reference);
        if tip.is_none_or(|tip| !tip.is_head) {
            self.check_branch()?;
        }
        tip.cloned()
            .ok_or_else(|| failed(format!("branch `{}` no longer exists", self.branch)))
    }

    /// Commits all changed files that are not ignored; `None` if nothing has changed.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails, or if the worktree contains repositories that are not submodules, or files
    /// over 1 GiB.
    pub fn commit(&self, message: &str) -> Result<Option<String>> {
        let WorktreeCommit { commit, is_new } = self.commit_all(message)?;
        Ok(is_new.then_some(commit))
    }

    /// Commits all changed files that are not ignored. If nothing has changed, returns the current commit.
    ///
    /// # Errors
    ///
    /// Those of [`Self::commit`].
    pub fn commit_all(&self, message: &str) -> Result<WorktreeCommit> {
        let tip = self.tip()?;
        let dir = self.checked()?;
        let listing = IndexListing::read(&dir, &[], MAX_COMMIT_FILE_BYTES)?;
        let nested = listing.nested();
        if !nested.is_empty() {
            return Err(failed(format!(
                "the worktree contains other repositories: {}",
                some_names(&nested)
            ))
            .with_hint("remove them or their `.git` folders; their files would not be committed"));
        }
        if !listing.oversized().is_empty() {
            let names: Vec<String> = listing
                .oversized()
                .iter()
                .map(|file| format!("{} ({})", lossy(&file.path), file::in_units(file.size)))
                .collect();
            return Err(
                failed(format!("files too large to commit: {}", some_names(&names)))
                    .with_hint("remove the files, or list them in .gitignore"),
            );
        }

        listing.show_hidden(&dir, &[])?;
        listing.add_all(&dir, &[])?;
        let tree = dir.call(&["write-tree"]).text()?;
        if tree == tip.tree {
            return Ok(WorktreeCommit {
                commit: tip.commit,
                is_new: false,
            });
        }

        let commit = commit_tree(&dir, &tree, &[&tip.commit], message)?;
        move_branch(
            &dir,
            &branch_ref(&self.branch)?,
            &commit,
            &tip.commit,
            "agentd: commit",
        )?;
        Ok(WorktreeCommit {
            commit,
            is_new: true,
        })
    }

    /// Resets the worktree to a commit; ignored files are kept.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn reset_to(&self, commit: &str) -> Result<()> {
        let commit = self.repository.resolve_existing(commit)?;
        let reference = branch_ref(&self.branch)?;
        let dir = self.checked()?;
        self.unlock()?;

        dir.call(&["symbolic-ref", "-m", "agentd: reset", "HEAD", &reference])
            .ok()?;
        let update = [
            "update-ref",
            "--no-deref",
            "-m",
            "agentd: reset",
            &reference,
            &commit,
        ];
        dir.call(&update).ok()?;

        IndexListing::read(&dir, &[], MAX_COMMIT_FILE_BYTES)?.show_hidden(&dir, &[])?;
        dir.call(&["reset", "--hard", "--quiet", "--no-recurse-submodules"])
            .ok()?;

        // Removing a `.gitignore` reveals the files that it has ignored, so this is repeated.
        for _ in 0..MAX_CLEAN_PASSES {
            let others = dir.call(&[
                "ls-files",
                "-z",
                "--others",
                "--exclude-standard",
                "--directory",
            ]);
            if others.ok()?.is_empty() {
                break;
            }
            dir.call(&["clean", "-ffdq"]).ok()?;
        }
        self.repair_git_file()
    }

    /// Returns the folders for commands that read or write files, after checking that the worktree was not redirected.
    pub(super) fn checked(&self) -> Result<RepositoryFolders> {
        match self.path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {
                self.repair_commondir()?;
                self.dir.guarded()
            }
            Ok(_) => Err(unusable(
                &self.path,
                "cannot be used",
                "it was replaced with something that is not a folder",
            )),
            Err(error) => Err(unusable(&self.path, "cannot be used", error)),
        }
    }

    fn is_whole(&self) -> bool {
        self.path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_dir())
            && self.dir.git_dir.join("index").is_file()
    }

    fn check_branch(&self) -> Result<()> {
        let current = branch_of(&self.dir)?;
        if current.as_deref() == Some(self.branch.as_str()) {
            return Ok(());
        }

        let state = current.map_or_else(
            || "HEAD is detached".to_owned(),
            |name| format!("`{}` is checked out", name.escape_debug()),
        );
        let path = self.path.display().to_string();
        Err(failed(format!(
            "expected branch `{}` in `{}`, but {state}",
            self.branch,
            path.escape_debug()
        ))
        .with_hint(format!("check out `{}` there", self.branch)))
    }

    /// Restores the `.git` file of the worktree, for users and agents who run git there.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to git, and the folder is our own"
    )]
    fn repair_git_file(&self) -> Result<()> {
        let link = self.path.join(".git");
        let expected = [b"gitdir: ", self.dir.git_dir.as_os_str().as_bytes(), b"\n"].concat();
        let link_metadata = link.symlink_metadata();
        let is_intact = link_metadata
            .as_ref()
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() == expected.len() as u64)
            && file::read_bytes(&link, MAX_PATH_FILE_BYTES)?.as_ref() == Some(&expected);
        if is_intact {
            return Ok(());
        }
        let repair = || {
            match link_metadata {
                Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&link)?,
                Ok(_) => fs::remove_file(&link)?,
                Err(_) => {}
            }
            fs::write(&link, &expected)
        };
        repair().map_err(|error| unusable(&link, "cannot be repaired", error))
    }

    /// Restores the file `commondir` in the worktree's git folder.
    ///
    /// Git reads branches and objects from the folder that this file points to, and an agent could have changed it to a
    /// repository under its control.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to git, and the folder is our own"
    )]
    fn repair_commondir(&self) -> Result<()> {
        let RepositoryFolders {
            git_dir, common, ..
        } = &self.dir;
        let link = git_dir.join("commondir");
        let is_file = link
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_file());
        if is_file && let Some(bytes) = file::read_bytes(&link, MAX_PATH_FILE_BYTES)? {
            let place = git_dir.join(OsStr::from_bytes(
                bytes.strip_suffix(b"\n").unwrap_or(&bytes),
            ));
            if place.canonicalize().is_ok_and(|place| place == *common) {
                return Ok(());
            }
        }

        let expected = [common.as_os_str().as_bytes(), b"\n"].concat();
        // A symlink is removed, not followed.
        let removed = match link.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&link),
            Ok(_) => fs::remove_file(&link),
            Err(_) => Ok(()),
        };
        let written = removed.and_then(|()| fs::write(&link, &expected));
        written.map_err(|error| unusable(&link, "cannot be repaired", error))
    }

    /// Removes the lock files of a git process that was killed with its turn.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to git, and the folder is our own"
    )]
    fn unlock(&self) -> Result<()> {
        for name in ["index.lock", "HEAD.lock"] {
            let lock = self.dir.git_dir.join(name);
            if lock.exists() {
                sleep(LOCK_WAIT);
            }
            match fs::remove_file(&lock) {
                Err(error) if !file::is_missing(&error) => {
                    return Err(unusable(&lock, "cannot be removed", error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Time to wait before a lock file is removed, because a running git process may hold it.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of `git clean` passes of a reset.
const MAX_CLEAN_PASSES: usize = 8;

/// Creates the missing parent folders of a path, and returns the path with all symlinks in them resolved, as git stores
/// it.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to git, and the folder is our own"
)]
fn absolute(path: &Path) -> io::Result<PathBuf> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    without_symlinks(path)
}

/// Returns a path with all symlinks in its parent folders resolved. The folders must exist.
fn without_symlinks(path: &Path) -> io::Result<PathBuf> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("it has no file name"));
    };
    Ok(above.canonicalize()?.join(name))
}

fn unusable(
    path: &Path,
    what: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    failed(format!(
        "`{}` {what}",
        path.display().to_string().escape_debug()
    ))
    .with_source(error)
}
