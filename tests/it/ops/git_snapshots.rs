//! Snapshots of a worktree: changed files that look unchanged are detected, and filters are found
//! in any spelling.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use agentd::ops::{ChangedFile, FileStatus, Git, Repository, Worktree};
use tempfile::TempDir;

use crate::support::change_project::git_words;
use crate::support::{write, write_program};

/// A repository with a commit on `main`, and a worktree of a change.
struct Project {
    folder: TempDir,
    worktree: Worktree,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        write(&root.join("a.txt"), "one\n");
        write(&root.join("src/lib.rs"), "fn lib() {}\n");
        git_words(&root, &["init", "-q"]);
        git_words(&root, &["symbolic-ref", "HEAD", "refs/heads/main"]);
        git_words(&root, &["add", "-A"]);
        git_words(&root, &["commit", "-qm", "Start"]);
        let repository = Repository::open(&root, &Git::default()).unwrap();
        let worktree = repository
            .add_worktree("agentd/x", &folder.path().join("tree"), "main")
            .unwrap();
        Self { folder, worktree }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the configuration that all work trees of the repository share.
    fn config(&self) -> PathBuf {
        self.path("project/.git/config")
    }

    fn in_tree(&self, name: &str) -> PathBuf {
        self.worktree.path.join(name)
    }
}

fn names(changed: &[ChangedFile]) -> Vec<&str> {
    changed.iter().map(|file| file.path.as_str()).collect()
}

#[test]
fn tracked_folder_replaced_by_an_ignored_link_is_a_change() {
    let project = Project::new();
    // Through the link every file has the same content, and no new file is visible.
    write(&project.path("project/.git/info/exclude"), "/src\n/kept\n");
    fs::rename(project.in_tree("src"), project.in_tree("kept")).unwrap();
    symlink("kept", project.in_tree("src")).unwrap();

    let changed = project.worktree.changed("main").unwrap();
    assert_eq!(names(&changed), ["src/lib.rs"]);
    assert_eq!(changed[0].status, FileStatus::Removed);
    let commit = project.worktree.commit("Moved").unwrap().unwrap();
    let listed = git_words(
        &project.worktree.path,
        &["ls-tree", "-r", "--name-only", &commit],
    );
    assert_eq!(listed, "a.txt\n");
}

/// An edit of the same size within the same clock tick as the commit leaves the modification time
/// that git has recorded.
#[test]
fn edit_right_after_a_commit_is_detected() {
    let project = Project::new();
    let file = project.in_tree("a.txt");

    for round in 0..20 {
        write(&file, format!("{round:04} committed\n"));
        let commit = project.worktree.commit("Change").unwrap().unwrap();
        assert_eq!(project.worktree.changed(&commit).unwrap(), []);
        write(&file, format!("{round:04} is edited\n"));
        assert_eq!(
            names(&project.worktree.changed(&commit).unwrap()),
            ["a.txt"],
            "round {round}"
        );
        write(&file, format!("{round:04} committed\n"));
        assert_eq!(
            project.worktree.commit("Nothing").unwrap(),
            None,
            "round {round}"
        );
    }
}

#[test]
fn one_snapshot_is_compared_with_several_commits() {
    let project = Project::new();
    let main = project.worktree.head().unwrap();
    write(&project.in_tree("b.txt"), "b\n");
    let second = project.worktree.commit("Second").unwrap().unwrap();
    write(&project.in_tree("c.txt"), "c\n");

    let snapshot = project.worktree.snapshot(&main).unwrap();
    // A later edit is not part of the snapshot.
    write(&project.in_tree("d.txt"), "d\n");
    assert_eq!(names(&snapshot.changed(&main).unwrap()), ["b.txt", "c.txt"]);
    assert_eq!(names(&snapshot.changed(&second).unwrap()), ["c.txt"]);
}

/// Writes a program that leaves a marker file and copies its input to its output.
fn marking_program(project: &Project, mark: &Path) -> String {
    let program = project.path("evil");
    write_program(
        &program,
        format!("#!/bin/sh\necho ran >> '{}'\ncat\n", mark.display()),
    );
    program.to_str().unwrap().to_owned()
}

/// Makes the git folder of the worktree name a repository of the agent, from which plain git takes
/// its settings, branches and objects. Returns the marker file of that repository's filter.
fn redirect_commondir(project: &Project) -> PathBuf {
    let mark = project.path("mark");
    let evil = marking_program(project, &mark);
    let (root, fake) = (project.path("project"), project.path("fake"));
    git_words(
        project.folder.path(),
        &["clone", "-q", "--bare", root.to_str().unwrap(), "fake"],
    );
    git_words(&fake, &["config", "filter.own.clean", &evil]);
    git_words(&fake, &["config", "core.bare", "false"]);
    write(
        &root.join(".git/worktrees/tree/commondir"),
        fake.to_str().unwrap(),
    );
    write(&project.in_tree(".gitattributes"), "* filter=own\n");
    write(&project.in_tree("a.txt"), "two\n");
    mark
}

#[test]
fn replaced_commondir_is_ignored() {
    let project = Project::new();
    let mark = redirect_commondir(&project);
    assert_eq!(
        names(&project.worktree.changed("main").unwrap()),
        [".gitattributes", "a.txt"]
    );

    let commit = project.worktree.commit("Change").unwrap().unwrap();
    assert!(!mark.exists());
    assert_eq!(
        git_words(&project.path("project"), &["rev-parse", "agentd/x"]).trim(),
        commit
    );

    // Proves that the trap works.
    let other = Project::new();
    let mark = redirect_commondir(&other);

    git_words(&other.worktree.path, &["add", "-A"]);
    assert!(mark.exists());
}

#[test]
fn repository_filter_never_runs_in_any_spelling() {
    let spellings = [
        "[filter \"own\"]\n\tclean = EVIL\n",
        "[FILTER \"own\"]\n\tCLEAN = EVIL\n",
        "[Filter.own] clean = EVIL\n",
        "[include]\n\tpath = MORE\n",
        "[INCLUDE] path = MORE\n",
        "[includeIf \"gitdir:**\"]\n\tpath = MORE\n",
        "[IncludeIf \"onbranch:**\"] path = MORE\n",
    ];
    for spelling in spellings {
        let project = Project::new();
        let mark = project.path("mark");
        let evil = marking_program(&project, &mark);
        let more = project.path("more");
        write(&more, format!("[filter \"own\"]\n\tclean = {evil}\n"));
        let text = spelling
            .replace("EVIL", &evil)
            .replace("MORE", more.to_str().unwrap());
        let config = fs::read_to_string(project.config()).unwrap();
        write(&project.config(), format!("{config}{text}"));
        write(&project.in_tree(".gitattributes"), "* filter=own\n");
        write(&project.in_tree("a.txt"), "two\n");

        project.worktree.changed("main").unwrap();
        project.worktree.commit("Change").unwrap().unwrap();
        assert!(!mark.exists(), "{spelling:?}");

        // Proves that the trap works.
        write(&project.in_tree("a.txt"), "three\n");
        git_words(&project.worktree.path, &["add", "-A"]);
        assert!(mark.exists(), "plain git does not run {spelling:?}");
    }
}
