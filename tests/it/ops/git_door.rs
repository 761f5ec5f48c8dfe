//! The git module on real repositories: plain ones, and ones whose configuration runs commands.

mod agent;
mod commits;
mod diffs;
mod landing;
mod opening;
mod worktrees;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentd::ops::{DiffLimits, Git, Repository, Worktree};
use tempfile::TempDir;

use crate::support::{write, write_program};

const WIDE: DiffLimits = DiffLimits {
    file: 100_000,
    total: 1_000_000,
};

/// Variables that redirect git. One test sets them for itself, and the git of the user must not see
/// them.
const REDIRECTS: [&str; 9] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_NAMESPACE",
    "GIT_QUARANTINE_PATH",
    "GIT_LITERAL_PATHSPECS",
    "GIT_CONFIG_PARAMETERS",
];

fn none_hidden(_: &str) -> bool {
    false
}

/// A user with a home folder and a repository, in folders with odd names.
struct World {
    folder: TempDir,
    git: Git,
}

impl World {
    /// Creates a user with a name, and a repository with one commit on `main`.
    fn new() -> Self {
        let world = Self::empty();
        world
            .write("a.txt", "one\n")
            .write("src/lib.rs", "fn lib() {}\n");
        world.commit("Start");
        world
    }

    /// Creates a user with a name, and a repository without a commit.
    fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let git = Git {
            env: vec![
                ("HOME".to_owned(), home.to_str().unwrap().to_owned()),
                (
                    "XDG_CONFIG_HOME".to_owned(),
                    home.join(".config").to_str().unwrap().to_owned(),
                ),
                ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
            ],
            ..Git::default()
        };
        let world = Self { folder, git };
        write(
            &home.join(".gitconfig"),
            "[user]\n\tname = Ada\n\temail = ada@example.org\n",
        );
        fs::create_dir_all(world.root()).unwrap();
        world.run(&["init", "-q"]);
        world.run(&["symbolic-ref", "HEAD", "refs/heads/main"]);
        world
    }

    /// Creates a plain world, and one in which every command that a configuration can name leaves a
    /// marker file.
    fn both() -> [Self; 2] {
        [Self::new(), Self::new().make_hostile()]
    }

    fn make_hostile(self) -> Self {
        let evil = self.path("evil");
        let mark = self.marker_file();
        write_program(
            &evil,
            format!(
                "#!/bin/sh\necho \"$0 $*\" >> '{}'\nexit 1\n",
                mark.display()
            ),
        );
        let hooks = self.path("hooks");
        fs::create_dir_all(&hooks).unwrap();
        for hook in [
            "post-checkout",
            "post-index-change",
            "pre-commit",
            "commit-msg",
            "prepare-commit-msg",
            "post-commit",
            "post-merge",
            "reference-transaction",
            "pre-merge-commit",
            "pre-auto-gc",
        ] {
            fs::copy(&evil, hooks.join(hook)).unwrap();
        }

        let (evil, hooks) = (evil.to_str().unwrap(), hooks.to_str().unwrap());
        let user = [
            ("commit.gpgSign", "true"),
            ("gpg.program", evil),
            ("core.hooksPath", hooks),
            ("core.fsmonitor", evil),
            ("core.pager", evil),
            ("core.editor", evil),
            ("diff.external", evil),
            ("diff.evil.command", evil),
            ("diff.evil.textconv", evil),
            ("diff.noprefix", "true"),
            ("diff.ignoreSubmodules", "none"),
            ("color.ui", "always"),
            ("merge.ff", "only"),
            ("merge.autoStash", "true"),
            ("merge.verifySignatures", "true"),
            ("core.quotePath", "true"),
            ("gc.auto", "1"),
        ];

        // Settings of the repository. A filter in the user's own settings would be intended.
        let own = [
            "filter.evil.clean",
            "filter.evil.smudge",
            "filter.evil.process",
            "merge.evil.driver",
        ];
        append_settings(&self.path("home/.gitconfig"), &user);
        append_settings(
            &self.root().join(".git/config"),
            &own.map(|name| (name, evil)),
        );
        write(
            &self.root().join(".git/info/attributes"),
            "* filter=evil diff=evil merge=evil\n",
        );
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn root(&self) -> PathBuf {
        self.path("my \"repo\"")
    }

    fn marker_file(&self) -> PathBuf {
        self.path("mark")
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        write(&self.root().join(path), content);
        self
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    /// Runs git in a folder as the user, with options that prevent it from running anything.
    fn run_in(&self, folder: &Path, args: &[impl AsRef<OsStr>]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(folder).envs(self.git.env.clone());
        for name in REDIRECTS {
            git.env_remove(name);
        }
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.quotePath=false",
            "commit.gpgSign=false",
            "gc.auto=0",
            "color.ui=false",
            "merge.ff=true",
            "merge.verifySignatures=false",
            "protocol.file.allow=always",
            "filter.evil.clean=",
            "filter.evil.smudge=",
            "filter.evil.process=",
        ] {
            git.args(["-c", setting]);
        }

        let output = git.args(args).output().unwrap();
        let shown: Vec<_> = args.iter().map(AsRef::as_ref).collect();
        assert!(
            output.status.success(),
            "{shown:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );

        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn run(&self, args: &[&str]) -> String {
        self.run_in(&self.root(), args)
    }

    /// Commits all files as the user.
    fn commit(&self, message: &str) -> String {
        self.run(&["add", "-A"]);
        self.run(&["commit", "-qm", message]);
        self.id("HEAD")
    }

    fn id(&self, name: &str) -> String {
        self.run(&["rev-parse", name]).trim().to_owned()
    }

    fn repository(&self) -> Repository {
        Repository::open(&self.root(), &self.git).unwrap()
    }

    /// Creates a worktree of a change, outside the repository.
    fn change(&self, id: &str) -> Worktree {
        let path = self.path(&format!("work trees/{id}"));
        self.repository()
            .add_worktree(&format!("agentd/{id}"), &path, "main")
            .unwrap()
    }

    /// Returns everything in the user's work tree that must not change: its files, index and state.
    fn user_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut waiting = vec![self.root()];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path == self.root().join(".git") {
                    for name in ["HEAD", "index", "config", "MERGE_HEAD", "logs/HEAD"] {
                        found.push((
                            path.join(name),
                            fs::read(path.join(name)).unwrap_or_default(),
                        ));
                    }
                } else if path.symlink_metadata().unwrap().is_dir() {
                    waiting.push(path);
                } else {
                    let content =
                        fs::read_link(&path).map(|to| to.into_os_string().into_encoded_bytes());
                    found.push((
                        path.clone(),
                        content.unwrap_or_else(|_| fs::read(&path).unwrap()),
                    ));
                }
            }
        }

        found.sort();
        found
    }
}

/// Adds settings to a configuration.
fn append_settings(config: &Path, settings: &[(&str, &str)]) {
    let mut text = fs::read_to_string(config).unwrap();
    for (name, value) in settings {
        let (section, key) = name.rsplit_once('.').unwrap();
        let section = section
            .split_once('.')
            .map_or(section.to_owned(), |(a, b)| format!("{a} \"{b}\""));
        text.push_str(&format!("[{section}]\n\t{key} = {value}\n"));
    }
    write(config, text);
}

/// No test may run a command that a configuration names.
impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let ran = fs::read_to_string(self.marker_file()).unwrap_or_default();
            assert_eq!(ran, "", "a command was run");
        }
    }
}
