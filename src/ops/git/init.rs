//! Creates a repository, for the demonstration.

use std::path::Path;

use super::command::{Git, GitCall};
use super::repository::Repository;
use crate::error::Result;

impl Repository {
    /// Creates a repository in a folder, with one commit of all files on the branch `main`.
    ///
    /// # Errors
    ///
    /// `GitFailed`.
    pub fn create(root: &Path, git: &Git, message: &str) -> Result<Self> {
        let steps: [&[&str]; 4] = [
            &["init", "-q"],
            &["symbolic-ref", "HEAD", "refs/heads/main"],
            &["add", "-A"],
            &["commit", "-q", "-m", message],
        ];
        for words in steps {
            GitCall::new(git, root, words).ok()?;
        }
        Self::open(root, git)
    }
}
