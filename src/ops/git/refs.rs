//! Refs: reads several with one `for-each-ref`, creates commits and moves branches.

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
    /// True if the ref is checked out in the worktree of the command.
    pub(super) is_head: bool,
    /// Full name of the target, for a symbolic ref.
    pub(super) symref_target: Option<String>,
    /// Worktree in which the ref is checked out, if any; always `None` after [`RefRecords::read`].
    pub(super) checked_out_in: Option<PathBuf>,
}

/// The requested refs that exist and point to a commit.
pub(super) struct RefRecords(Vec<RefRecord>);

/// Fields of a record, each terminated by NUL, because a path may contain newlines.
const FORMAT: &str =
    "--format=%(refname)%00%(objecttype)%00%(objectname)%00%(tree)%00%(HEAD)%00%(symref)%00";

/// Number of fields in a record: those of [`FORMAT`], and the worktree path.
const FIELDS_PER_RECORD: usize = 7;

impl RefRecords {
    /// Reads refs by their full names.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub(super) fn read(dir: &RepositoryFolders, names: &[&str]) -> Result<Self> {
        Self::read_as(dir, &format!("{FORMAT}%00"), names)
    }

    /// Reads refs and the worktrees in which they are checked out. Slower than [`Self::read`], because git inspects
    /// every worktree of the repository.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub(super) fn read_with_places(dir: &RepositoryFolders, names: &[&str]) -> Result<Self> {
        Self::read_as(dir, &format!("{FORMAT}%(worktreepath)%00"), names)
    }

    fn read_as(dir: &RepositoryFolders, format: &str, names: &[&str]) -> Result<Self> {
        let output = dir.call(&["for-each-ref", format]).args(names).ok()?;
        let fields: Vec<&[u8]> = output.split(|&byte| byte == 0).collect();

        let mut records = Vec::new();
        for record in fields.chunks(FIELDS_PER_RECORD) {
            match *record {
                [name, b"commit", commit, tree, head, symref, place] => records.push(RefRecord {
                    // The newline terminates the previous record.
                    name: lossy(name.strip_prefix(b"\n").unwrap_or(name)),
                    commit: lossy(commit),
                    tree: lossy(tree),
                    is_head: head == b"*",
                    symref_target: (!symref.is_empty()).then(|| lossy(symref)),
                    checked_out_in: (!place.is_empty()).then(|| path_of(place)),
                }),
                // The ref does not point to a commit, or the output ends after the last record.
                [_, _, _, _, _, _, _] | [b"\n" | b""] => {}
                _ => return Err(not_understood("for-each-ref")),
            }
        }
        Ok(Self(records))
    }

    /// Returns the ref with a full name.
    pub(super) fn find(&self, name: &str) -> Option<&RefRecord> {
        // Git also lists the refs below a name, such as `main/x` for `main`.
        self.0.iter().find(|record| record.name == name)
    }
}

/// Returns the branch that is checked out; `None` if HEAD is detached.
pub(super) fn branch_of(dir: &RepositoryFolders) -> Result<Option<String>> {
    let name = dir.call(&["symbolic-ref", "-q", "HEAD"]);
    Ok(name
        .find()?
        .and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned)))
}

/// Returns the full ref name of a branch.
pub(super) fn branch_ref(branch: &str) -> Result<String> {
    if branch.is_empty() || branch.starts_with('-') || branch.contains("@{") {
        let message = format!("invalid branch name `{}`", branch.escape_debug());
        return Err(Error::new(ErrorKind::NameInvalid, message)
            .with_hint("a branch name is not empty, does not start with `-`, and has no `@{`"));
    }
    Ok(format!("refs/heads/{branch}"))
}

/// Creates a commit of a tree, with the user's identity if one is configured, or else as `agentd`.
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
    let no_identity = ["auto-detection is disabled", "empty ident name"];
    if output.code != Some(0)
        && no_identity
            .iter()
            .any(|message| output.stderr.contains(message))
    {
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
    // A symbolic ref is not followed: an agent could have redirected the branch to another one.
    dir.call(&["update-ref", "--no-deref", "-m", why, reference, new, old])
        .ok()
        .map(drop)
}
