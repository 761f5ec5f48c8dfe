//! Commit, tree and checkout of several branches, read with one `for-each-ref`.

use std::path::PathBuf;

use super::command::{RepositoryFolders, path_of};
use super::output::{lossy, not_understood};
use crate::error::{Error, ErrorKind, Result};

/// A ref that points to a commit.
#[derive(Clone, Debug)]
pub(super) struct RefRecord {
    /// Full name, such as `refs/heads/main`.
    pub(super) name: String,
    pub(super) commit: String,
    /// Tree of the commit.
    pub(super) tree: String,
    /// Checked out in the worktree that git was started for.
    pub(super) is_head: bool,
    /// Full name of the ref that it is another name for.
    pub(super) leads_to: Option<String>,
    /// Work tree in which it is checked out; always `None` after [`RefRecords::read`].
    pub(super) checked_out_in: Option<PathBuf>,
}

/// Refs that were asked for, without those that do not exist or do not point to a commit.
pub(super) struct RefRecords(Vec<RefRecord>);

/// Fields of a record, each with a zero byte after it: there may be line ends in a path.
const FORMAT: &str =
    "--format=%(refname)%00%(objecttype)%00%(objectname)%00%(tree)%00%(HEAD)%00%(symref)%00";

impl RefRecords {
    /// Reads refs by their full names.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub(super) fn read(dir: &RepositoryFolders, names: &[&str]) -> Result<Self> {
        Self::read_as(dir, &format!("{FORMAT}%00"), names)
    }

    /// Reads refs and where they are checked out, for which git looks at every work tree of the repository.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub(super) fn read_with_places(dir: &RepositoryFolders, names: &[&str]) -> Result<Self> {
        Self::read_as(dir, &format!("{FORMAT}%(worktreepath)%00"), names)
    }

    fn read_as(dir: &RepositoryFolders, format: &str, names: &[&str]) -> Result<Self> {
        let output = dir.call(&["for-each-ref", format]).args(names).ok()?;
        let fields: Vec<&[u8]> = output.split(|&byte| byte == 0).collect();

        let mut records = Vec::new();
        for record in fields.chunks(7) {
            match *record {
                [name, b"commit", commit, tree, head, symref, place] => records.push(RefRecord {
                    // A line end belongs to the record before.
                    name: lossy(name.strip_prefix(b"\n").unwrap_or(name)),
                    commit: lossy(commit),
                    tree: lossy(tree),
                    is_head: head == b"*",
                    leads_to: (!symref.is_empty()).then(|| lossy(symref)),
                    checked_out_in: (!place.is_empty()).then(|| path_of(place)),
                }),
                // Not a commit, or the rest after the last record.
                [_, _, _, _, _, _, _] | [b"\n" | b""] => {}
                _ => return Err(not_understood("for-each-ref")),
            }
        }
        Ok(Self(records))
    }

    /// Returns the ref of a full name.
    pub(super) fn find(&self, name: &str) -> Option<&RefRecord> {
        // Git also lists refs that are below a name.
        self.0.iter().find(|record| record.name == name)
    }
}

/// Returns the branch that is checked out.
pub(super) fn branch_of(dir: &RepositoryFolders) -> Result<Option<String>> {
    let name = dir.call(&["symbolic-ref", "-q", "HEAD"]);
    Ok(name
        .find()?
        .and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned)))
}

/// Returns the full ref name of a branch.
pub(super) fn branch_ref(branch: &str) -> Result<String> {
    if branch.is_empty() || branch.starts_with('-') || branch.contains("@{") {
        return Err(Error::new(
            ErrorKind::NameInvalid,
            format!("invalid branch name `{}`", branch.escape_debug()),
        ));
    }
    Ok(format!("refs/heads/{branch}"))
}

/// Creates a commit of a tree, with the user's identity if one is configured.
pub(super) fn commit_tree(
    dir: &RepositoryFolders,
    tree: &str,
    parents: &[&str],
    message: &str,
) -> Result<String> {
    let call = || {
        let call = dir
            .call(&["commit-tree", tree])
            .args(parents.iter().flat_map(|parent| ["-p", parent]));
        call.args(["-F", "-"])
            .input(format!("{}\n", message.trim_end()))
    };
    let output = call().setting("user.useConfigOnly=true").output()?;
    let unknown = ["auto-detection is disabled", "empty ident name"];
    if output.code != Some(0) && unknown.iter().any(|words| output.stderr.contains(words)) {
        return call()
            .setting("user.name=agentd")
            .setting("user.email=agentd@localhost")
            .text();
    }
    match output.code {
        Some(0) => Ok(lossy(&output.stdout).trim().to_owned()),
        _ => Err(output.failure("commit-tree")),
    }
}

/// Moves a branch from one commit to another; fails if another process has moved it.
pub(super) fn move_branch(
    dir: &RepositoryFolders,
    reference: &str,
    new: &str,
    old: &str,
    why: &str,
) -> Result<()> {
    // Without following a symbolic ref: an agent could have redirected the branch to another one.
    dir.call(&["update-ref", "--no-deref", "-m", why, reference, new, old])
        .ok()
        .map(drop)
}
