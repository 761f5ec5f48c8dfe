//! A git repository and its commits, seen from one of the user's working trees.

use std::path::{Path, PathBuf};

use super::command::{Git, GitCall, GitOutput, RepositoryFolders, failed, fields, path_of};
use super::output::{lossy, some_names};
use super::refs::{branch_of, branch_ref};
use crate::error::{Error, ErrorKind, Result};

/// Length of an abbreviated commit id.
const SHORT_COMMIT_LENGTH: usize = 10;

/// Minimum length of an abbreviated id that git accepts.
const MIN_ABBREVIATION_LENGTH: usize = 4;

/// Returns the first characters of a commit id, for messages.
#[must_use]
pub fn short_commit(commit: &str) -> &str {
    commit.get(..SHORT_COMMIT_LENGTH).unwrap_or(commit)
}

/// A repository, seen from one of the user's working trees.
#[derive(Clone, Debug)]
pub struct Repository {
    /// Top folder of the user's working tree.
    pub root: PathBuf,
    /// Common git folder, with the objects and branches.
    pub common: PathBuf,
    pub(super) dir: RepositoryFolders,
}

/// The checked-out commit and branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Id of the commit.
    pub commit: String,
    /// Name of the branch; `None` if HEAD is detached.
    pub branch: Option<String>,
}

impl Repository {
    /// Finds the repository of a folder.
    ///
    /// # Errors
    ///
    /// `NotARepository` if the folder is not in a working tree; `GitFailed` if git refuses to use the repository.
    pub fn open(root: &Path, git: &Git) -> Result<Self> {
        let args = ["rev-parse", "--is-bare-repository", "--is-inside-work-tree"];
        let places = ["--show-toplevel", "--absolute-git-dir", "--git-common-dir"];
        let all = GitCall::new(git, root, &args).args(places).output()?;
        let lines: Vec<&[u8]> = all.stdout.split(|&byte| byte == b'\n').collect();

        let [top, git_dir, common] = match lines[..] {
            [b"false", b"true", top, git_dir, common, b""] if all.code == Some(0) => {
                [top, git_dir, common].map(path_of)
            }
            // The repository has no working tree, or a path contains newlines.
            _ => {
                check_kind(root, &GitCall::new(git, root, &args).output()?)?;
                let place = |flag| {
                    GitCall::new(git, root, &["rev-parse", flag])
                        .line()
                        .map(|line| path_of(&line))
                };
                [place(places[0])?, place(places[1])?, place(places[2])?]
            }
        };

        let common = root.join(common).canonicalize().map_err(|error| {
            let shown = root.display().to_string();
            let message = format!("cannot find the git folder of `{}`", shown.escape_debug());
            failed(message).with_source(error)
        })?;
        let dir = RepositoryFolders::new(git, &common, &git_dir, &top);
        Ok(Self {
            root: top,
            common,
            dir,
        })
    }

    /// Returns the checked-out commit and branch.
    ///
    /// # Errors
    ///
    /// `NoCommits` if the repository has no commit.
    pub fn head(&self) -> Result<Head> {
        let both = self
            .dir
            .call(&["rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD"])
            .output()?;
        let lines = lossy(&both.stdout);
        if let (Some(0), [commit, name]) = (both.code, &*lines.lines().collect::<Vec<_>>())
            && is_id(commit)
        {
            let branch = name.strip_prefix("refs/heads/").map(str::to_owned);
            return Ok(Head {
                commit: (*commit).to_owned(),
                branch,
            });
        }

        // There is no commit, or a branch or tag is named `HEAD`.
        let commit = commit_at(&self.dir, "HEAD")?.ok_or_else(|| {
            Error::new(ErrorKind::NoCommits, "the repository has no commits")
                .with_hint("create the first one: `git add -A && git commit -m Start`")
        })?;
        Ok(Head {
            commit,
            branch: branch_of(&self.dir)?,
        })
    }

    /// Returns the paths that differ from the checked-out commit, or are untracked; a folder ends with `/`.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn uncommitted(&self) -> Result<Vec<String>> {
        let args = [
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--ignore-submodules=dirty",
        ];
        let output = self
            .dir
            .guarded()?
            .call(&args)
            .arg("--untracked-files=normal")
            .ok()?;
        Ok(fields(&output)
            .filter_map(|field| field.get(3..))
            .map(lossy)
            .collect())
    }

    /// Returns true if a branch exists.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn branch_exists(&self, branch: &str) -> Result<bool> {
        Ok(commit_at(&self.dir, &branch_ref(branch)?)?.is_some())
    }

    /// Returns the commit at the tip of a branch; `None` if there is no such branch.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails, `NameInvalid` if the name is not valid for a branch.
    pub fn branch_commit(&self, branch: &str) -> Result<Option<String>> {
        commit_at(&self.dir, &branch_ref(branch)?)
    }

    /// Returns the commit that a user means by a name: an id, a full ref name, or a short name such as `main`,
    /// `origin/main` or `v1.2~3`. `None` if there is no such commit.
    ///
    /// If several refs have the same short name, git picks one of them, tags first. Anyone who can push a tag could
    /// decide what `origin/main` means; here such a name is an error. Use [`Self::branch_commit`] for the names of
    /// branches that agentd has recorded.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails, `NameInvalid` if the name is ambiguous.
    pub fn commit_of(&self, reference: &str) -> Result<Option<String>> {
        if reference.is_empty() || reference.starts_with('-') {
            return Ok(None);
        }
        if is_id(reference) || reference.starts_with("refs/") {
            return commit_at(&self.dir, reference);
        }

        // Only the part before a suffix, as in `main~2`, `main^` or `main@{1}`, can be ambiguous.
        let name_end = [reference.find(['~', '^', ':']), reference.find("@{")]
            .into_iter()
            .flatten()
            .min();
        let (name, rest) = reference.split_at(name_end.unwrap_or(reference.len()));
        if name.is_empty() || name == "@" || is_pseudo_ref(name) {
            return commit_at(&self.dir, reference);
        }

        let refs = self.refs_named(name)?;
        let objects = if refs.is_empty() {
            Vec::new()
        } else {
            self.objects_named(name)?
        };
        match &*[refs, objects].concat() {
            [] => commit_at(&self.dir, reference),
            // `@{upstream}` is not allowed after a full name.
            [_] if rest.starts_with("@{") => commit_at(&self.dir, reference),
            [only] => commit_at(&self.dir, &format!("{only}{rest}")),
            several => Err(ambiguous(name, several)),
        }
    }

    /// Returns the full names of all refs that a short name can mean.
    fn refs_named(&self, name: &str) -> Result<Vec<String>> {
        if name.contains(['*', '?', '[', '\\']) {
            return Ok(Vec::new());
        }
        let full_names = [
            format!("refs/{name}"),
            format!("refs/tags/{name}"),
            format!("refs/heads/{name}"),
            format!("refs/remotes/{name}"),
            format!("refs/remotes/{name}/HEAD"),
        ];
        let list = self
            .dir
            .call(&["for-each-ref", "--format=%(refname)"])
            .args(&full_names)
            .text()?;
        // A pattern also matches all refs below it.
        Ok(list
            .lines()
            .filter(|line| full_names.iter().any(|name| name == line))
            .map(str::to_owned)
            .collect())
    }

    /// Returns the ids of all objects that a name can abbreviate.
    fn objects_named(&self, name: &str) -> Result<Vec<String>> {
        if name.len() < MIN_ABBREVIATION_LENGTH
            || !name.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Ok(Vec::new());
        }
        let list = self
            .dir
            .call(&["rev-parse", &format!("--disambiguate={name}")])
            .text()?;
        Ok(list.lines().map(str::to_owned).collect())
    }

    /// Returns the names in a folder at a commit, in git's order; empty if the folder does not exist.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails.
    pub fn names_at(&self, commit: &str, folder: &str) -> Result<Vec<String>> {
        let folder = folder.trim_matches('/');
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        let list = self
            .dir
            .call(&["ls-tree", "-z", "--name-only", "--full-tree"])
            .literal();
        let list = list
            .args([self.resolve(commit)?.as_str(), "--"])
            .args((!prefix.is_empty()).then_some(&prefix))
            .ok()?;
        Ok(fields(&list)
            .filter_map(|path| path.strip_prefix(prefix.as_bytes()))
            .map(lossy)
            .collect())
    }

    /// Returns the merge base of two commits; `None` if they have no common history.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails, or if a name is unknown.
    pub fn merge_base(&self, a: &str, b: &str) -> Result<Option<String>> {
        self.dir
            .call(&["merge-base", &self.resolve(a)?, &self.resolve(b)?])
            .find()
    }

    /// Returns the full name of the ref that the current branch is most likely to be merged into: its upstream, the
    /// default branch of `origin`, `main` or `master`; `None` if that is the current branch itself, or if none of them
    /// exists.
    ///
    /// # Errors
    ///
    /// `NoCommits` if the repository has no commit.
    pub fn default_base(&self) -> Result<Option<String>> {
        let current = self
            .head()?
            .branch
            .map(|branch| format!("refs/heads/{branch}"));

        let mut candidates = Vec::new();
        if let Some(current) = &current {
            candidates.push(
                self.dir
                    .call(&["for-each-ref", "--format=%(upstream)", current])
                    .text()?,
            );
        }
        candidates.extend(
            self.dir
                .call(&["symbolic-ref", "-q", "refs/remotes/origin/HEAD"])
                .find()?,
        );
        candidates.extend(
            ["heads/", "remotes/origin/"]
                .iter()
                .flat_map(|place| ["main", "master"].map(|name| format!("refs/{place}{name}"))),
        );

        for candidate in candidates {
            if current.as_ref() == Some(&candidate) {
                return Ok(None);
            }
            if !candidate.is_empty() && commit_at(&self.dir, &candidate)?.is_some() {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    /// Resolves a name to a commit; fails if there is no such commit.
    pub(super) fn resolve_existing(&self, reference: &str) -> Result<String> {
        self.commit_of(reference)?.ok_or_else(|| {
            failed(format!("unknown commit `{}`", reference.escape_debug()))
                .with_hint("use a branch, a tag or a commit; list branches with `git branch -a`")
        })
    }

    /// Resolves a name to a commit. An id is returned unchanged, for a command that fails if there is no such commit.
    pub(super) fn resolve(&self, reference: &str) -> Result<String> {
        if is_id(reference) {
            Ok(reference.to_owned())
        } else {
            self.resolve_existing(reference)
        }
    }

    /// Returns true if a commit is an ancestor of another. Both are ids.
    ///
    /// # Errors
    ///
    /// `GitFailed` if a git command fails, or if an id is unknown.
    pub fn is_ancestor(&self, commit: &str, of: &str) -> Result<bool> {
        Ok(self
            .dir
            .call(&["merge-base", "--is-ancestor", commit, of])
            .find()?
            .is_some())
    }
}

/// Checks the output of `rev-parse`; fails for a folder that is not in a working tree.
fn check_kind(root: &Path, kind: &GitOutput) -> Result<()> {
    let shown = root.display().to_string().escape_debug().to_string();
    if kind.code != Some(0) {
        if !kind.stderr.contains("not a git repository")
            && !kind.stderr.contains("cannot change to")
        {
            return Err(kind.failure("rev-parse"));
        }
        return Err(Error::new(
            ErrorKind::NotARepository,
            format!("`{shown}` is not in a git repository"),
        )
        .with_hint("create one: `git init && git add -A && git commit -m Start`"));
    }
    if !kind.stdout.ends_with(b"true\n") {
        let is_bare = kind.stdout.starts_with(b"true");
        let (problem, hint) = if is_bare {
            (
                "is a bare repository",
                "clone it, and run agentd in the clone",
            )
        } else {
            (
                "is inside a `.git` folder",
                "run agentd in the working tree of the repository",
            )
        };
        let message = format!("`{shown}` {problem}");
        return Err(Error::new(ErrorKind::NotARepository, message).with_hint(hint));
    }
    Ok(())
}

/// Resolves an unambiguous name to a commit; `None` if there is no such commit.
pub(super) fn commit_at(dir: &RepositoryFolders, reference: &str) -> Result<Option<String>> {
    let output = dir
        .call(&[
            "rev-parse",
            "--verify",
            "--quiet",
            &format!("{reference}^{{commit}}"),
        ])
        .output()?;
    // The exit code for an object that is not a commit differs from that for a missing one; both give `None`.
    Ok((output.code == Some(0))
        .then(|| lossy(&output.stdout).trim().to_owned())
        .filter(|id| is_id(id)))
}

/// Returns true for a ref outside of `refs/`, such as `HEAD` or `FETCH_HEAD`.
fn is_pseudo_ref(name: &str) -> bool {
    name.ends_with("HEAD")
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

fn ambiguous(name: &str, candidates: &[String]) -> Error {
    let name = name.escape_debug();
    Error::new(
        ErrorKind::NameInvalid,
        format!(
            "`{name}` is ambiguous: it can mean {}",
            some_names(candidates)
        ),
    )
    .with_hint("use one of these full names")
}

fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
