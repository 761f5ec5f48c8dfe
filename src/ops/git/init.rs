//! Creates a repository for `agentd demo`.

use std::path::Path;

use super::command::{Git, GitCall};
use super::repository::Repository;
use crate::error::Result;

impl Repository {
    /// Creates a repository in a folder, with one commit of all files on the branch `main`.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn create(root: &Path, git: &Git, message: &str) -> Result<Self> {
        let commands: [&[&str]; 4] = [
            &["init", "-q"],
            &["symbolic-ref", "HEAD", "refs/heads/main"],
            &["add", "-A"],
            &["commit", "-q", "-m", message],
        ];
        for args in commands {
            GitCall::new(git, root, args).ok()?;
        }
        Self::open(root, git)
    }
}
