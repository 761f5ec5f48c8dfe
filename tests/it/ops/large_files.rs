//! Sparse files of 20 GB in a work tree: no command reads them, and a review lists them as not
//! shown.

use std::fs::File;

use agentd::ops::{DiffLimits, FileStatus, Git, LeftOut, LeftOutKind, Repository};

use super::canary::{commit, git, run};
use crate::support::TestProject;

/// Size of a file that would take minutes to read or copy.
const HUGE: u64 = 20 * 1024 * 1024 * 1024;

const LIMITS: DiffLimits = DiffLimits {
    file: 10_000,
    total: 10_000,
};

fn project() -> TestProject {
    let project = TestProject::new();
    project
        .write("a.txt", "one\n")
        .write("tracked.bin", "small\n");
    git(&project, &["add", "-A"]);
    commit(&project, "start");
    project.write("a.txt", "two\n");
    project
}

fn make_huge(project: &TestProject, name: &str) {
    let path = project.root().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::create(path).unwrap().set_len(HUGE).unwrap();
}

fn left_out_by_size(path: &str) -> LeftOut {
    LeftOut {
        path: path.to_owned(),
        why: "it is too large: 20480 MiB".to_owned(),
        kind: LeftOutKind::Size,
    }
}

#[test]
fn diff_lists_huge_files_without_reading_them() {
    let project = project();
    make_huge(&project, "sub/untracked.bin");
    make_huge(&project, "tracked.bin");
    make_huge(&project, ":(glob)*");

    let repository = Repository::open(&project.root(), &Git::default()).unwrap();
    let diff = repository.diff_of_tree("HEAD", LIMITS, &|_| false).unwrap();
    assert!(diff.text.contains("+two"), "{}", diff.text);
    assert_eq!(
        diff.left_out,
        [":(glob)*", "sub/untracked.bin", "tracked.bin"].map(left_out_by_size)
    );

    let files: Vec<(&str, &FileStatus)> = diff
        .files
        .iter()
        .map(|file| (file.path.as_str(), &file.status))
        .collect();
    assert_eq!(
        files,
        [
            ("a.txt", &FileStatus::Modified),
            (":(glob)*", &FileStatus::Added),
            ("sub/untracked.bin", &FileStatus::Added),
            ("tracked.bin", &FileStatus::Modified),
        ]
    );
}

/// A file that is staged and then grows: the staged text is not shown in place of the current
/// content.
#[test]
fn staged_text_does_not_hide_a_huge_file() {
    let project = project();
    project.write("new.txt", "harmless\n");
    git(&project, &["add", "new.txt"]);
    make_huge(&project, "new.txt");

    let repository = Repository::open(&project.root(), &Git::default()).unwrap();
    let diff = repository.diff_of_tree("HEAD", LIMITS, &|_| false).unwrap();
    assert!(!diff.text.contains("harmless"), "{}", diff.text);
    assert_eq!(diff.left_out, [left_out_by_size("new.txt")]);
    assert_eq!(diff.files.len(), 2, "{:?}", diff.files);
}

#[test]
fn commit_refuses_huge_files_by_name() {
    let project = project();
    let repository = Repository::open(&project.root(), &Git::default()).unwrap();
    let tree = project.home().join("tree");
    let worktree = repository.add_worktree("agentd/x", &tree, "HEAD").unwrap();
    File::create(tree.join("huge.bin"))
        .unwrap()
        .set_len(HUGE)
        .unwrap();

    let refused = worktree.commit("Work").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "files too large to commit: huge.bin (20480 MiB)"
    );

    let changed = worktree.changed("HEAD").unwrap();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].path, "huge.bin");
}

/// Many files below the size limit take as long to read as one large file.
#[test]
fn files_over_the_total_size_are_refused() {
    let project = project();
    for number in 0..100 {
        File::create(project.root().join(format!("{number}.bin")))
            .unwrap()
            .set_len(60 * 1024 * 1024)
            .unwrap();
    }

    let repository = Repository::open(&project.root(), &Git::default()).unwrap();
    let refused = repository
        .diff_of_tree("HEAD", LIMITS, &|_| false)
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "new and changed files are too large: 6000 MiB in total, the limit is 4096 MiB"
    );
}

/// Every command in a project with huge files where agentd, git or an agent would read small ones.
#[test]
fn commands_do_not_read_huge_files() {
    let project = project();
    let names = [
        "core.dump",
        "package.json",
        "Makefile",
        "README.md",
        ".env",
        "agentd/changes/x/proposal.md",
        "templates/system/OTHER-plan.md",
    ];
    for name in names {
        make_huge(&project, name);
    }

    let reviewed = run(&project, &["review", "--trust", "--no-checks"], true);
    assert_eq!(reviewed.code, 1, "{reviewed:?}");
    assert!(
        reviewed
            .stderr
            .contains("not shown  core.dump (it is too large: 20480 MiB)"),
        "{reviewed:?}"
    );

    let commands: [(&[&str], bool, i32); 5] = [
        (&["status"], false, 0),
        (&["doctor"], false, 0),
        (&["prompt", "plan", "Go"], false, 0),
        (&["turn", "plan", "Go"], true, 0),
        (&["run", "c", "Go", "--auto", "--trust"], true, 5),
    ];
    for (args, answers, code) in commands {
        let run = run(&project, args, answers);
        assert_eq!(run.code, code, "{args:?}: {run:?}");
    }
}

/// Git reads these files into memory as a whole. agentd kills it after a second.
#[test]
fn huge_file_that_git_reads_is_named() {
    for name in ["sub/.gitignore", ".git/info/exclude"] {
        let project = project();
        project.write("sub/b.txt", "two\n");
        make_huge(&project, name);
        let run = run(&project, &["review", "--trust", "--no-checks"], true);
        assert_eq!(run.code, 3, "{run:?}");
        assert!(
            run.stderr.contains(name) && run.stderr.contains("is larger than 64 MiB"),
            "{run:?}"
        );
    }
}
