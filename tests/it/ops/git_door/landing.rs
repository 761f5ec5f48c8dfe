//! Merges into the user's branch and from it, each complete or not at all.

use std::fs;
use std::time::Duration;

use agentd::ErrorKind;
use agentd::ops::{Git, MergeOutcome, Repository, WorktreeMerge};

use super::World;
use crate::support::waiting::GROWING_LIMITS;
use crate::support::write;

/// Makes a change of some files and commits it.
fn commit_change(world: &World, files: &[(&str, &str)]) -> agentd::ops::Worktree {
    let worktree = world.change("x");
    for (path, text) in files {
        write(&worktree.path.join(path), text);
    }
    worktree.commit("Change").unwrap().unwrap();
    worktree
}

fn merged_commit(landed: MergeOutcome) -> String {
    match landed {
        MergeOutcome::Done(commit) => commit,
        MergeOutcome::Already => panic!("it was merged before"),
    }
}

#[test]
fn merge_updates_the_checked_out_branch_and_keeps_other_work() {
    for world in World::both() {
        world.write("b.txt", "b\n").write("c.txt", "c\n");
        world.commit("More");
        let worktree = commit_change(&world, &[("a.txt", "two\n"), ("new", "n\n")]);
        world
            .write("b.txt", "mine\n")
            .write("c.txt", "staged\n")
            .write("unknown", "u\n");
        world.run(&["add", "c.txt"]);
        let (main, tip) = (world.id("main"), worktree.head().unwrap());

        let commit = merged_commit(
            world
                .repository()
                .merge_branch("agentd/x", "main", "Merge x", false)
                .unwrap(),
        );
        assert_eq!(
            (world.id("main"), world.id("HEAD")),
            (commit.clone(), commit.clone())
        );

        let parents = world.run(&["show", "-s", "--format=%P%n%B", &commit]);
        assert_eq!(parents.trim(), format!("{main} {tip}\nMerge x"));
        assert_eq!(world.read("a.txt") + &world.read("new"), "two\nn\n");
        assert_eq!(
            world.run(&["status", "--porcelain"]),
            " M b.txt\nM  c.txt\n?? unknown\n"
        );
        assert_eq!(world.read("b.txt") + &world.read("c.txt"), "mine\nstaged\n");

        let again = world
            .repository()
            .merge_branch("agentd/x", "main", "Merge x", false)
            .unwrap();
        assert_eq!(again, MergeOutcome::Already);
        assert_eq!(world.id("main"), commit);
    }
}

#[test]
fn squash_merge_is_one_commit() {
    for world in World::both() {
        let worktree = commit_change(&world, &[("a.txt", "two\n")]);
        write(&worktree.path.join("b.txt"), "b\n");
        worktree.commit("Second").unwrap().unwrap();
        let main = world.id("main");

        let commit = merged_commit(
            world
                .repository()
                .merge_branch("agentd/x", "main", "Squashed", true)
                .unwrap(),
        );
        assert_eq!(
            world.run(&["show", "-s", "--format=%P %s", &commit]).trim(),
            format!("{main} Squashed")
        );
        assert_eq!(world.read("a.txt") + &world.read("b.txt"), "two\nb\n");
        assert_eq!(world.run(&["status", "--porcelain"]), "");
        assert_eq!(
            world
                .repository()
                .merge_branch("agentd/x", "main", "Squashed", true)
                .unwrap(),
            MergeOutcome::Already
        );
    }
}

#[test]
fn overlapping_local_changes_block_the_merge() {
    for world in World::both() {
        world.write(".gitignore", "*.log\n");
        world.commit("More");
        commit_change(
            &world,
            &[
                ("a.txt", "two\n"),
                ("new", "n\n"),
                ("folder/x", "x\n"),
                ("src/lib.rs", "fn a() {}\n"),
            ],
        );

        // The change tracks a file that the user's tree ignores.
        let worktree = world.change("x");
        write(&worktree.path.join(".gitignore"), "");
        write(&worktree.path.join("my.log"), "theirs\n");
        worktree.commit("Log").unwrap().unwrap();
        let undo: [&[&str]; 2] = [&["reset", "-q", "--hard"], &["clean", "-fdxq"]];
        let ways: [(&str, &str, bool); 6] = [
            ("a.txt", "mine\n", false),
            ("a.txt", "mine\n", true),
            ("new", "mine\n", false),
            ("folder", "a file, not a folder\n", false),
            ("my.log", "ignored, and mine\n", false),
            ("new/inside", "a folder, not a file\n", false),
        ];

        for (path, text, staged) in ways {
            world.write(path, text);
            if staged {
                world.run(&["add", path]);
            }
            let before = world.user_files();

            let error = world
                .repository()
                .merge_branch("agentd/x", "main", "Merge", false)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::GitFailed);

            let name = path.split('/').next().unwrap();
            assert!(
                error.message().contains("would be overwritten") && error.message().contains(name),
                "{error:#}"
            );
            assert!(error.hint().unwrap().contains("git stash"), "{error:#}");
            assert_eq!(world.user_files(), before, "{path}");

            undo.iter().for_each(|args| drop(world.run(args)));
        }

        merged_commit(
            world
                .repository()
                .merge_branch("agentd/x", "main", "Merge", false)
                .unwrap(),
        );
    }
}

#[test]
fn conflict_leaves_files_untouched() {
    for world in World::both() {
        let worktree = commit_change(
            &world,
            &[
                ("a.txt", "theirs\n"),
                ("both", "t\n"),
                ("src/lib.rs", "fn t() {}\n"),
            ],
        );
        world.write("a.txt", "ours\n").write("both", "o\n");
        fs::remove_file(world.root().join("src/lib.rs")).unwrap();
        world.commit("Ours");
        world.write("dirty", "d\n");
        let (before, main) = (world.user_files(), world.id("main"));

        let error = world
            .repository()
            .merge_branch("agentd/x", "main", "Merge", false)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MergeConflict);
        assert!(
            error.message().ends_with("in a.txt, both, src/lib.rs"),
            "{error:#}"
        );

        let names = ["a.txt", "both", "src/lib.rs"].map(str::to_owned).to_vec();
        assert_eq!(
            worktree.merge_from("main", "Merge main", &[]).unwrap(),
            WorktreeMerge::Conflict(names)
        );
        assert_eq!(world.run_in(&worktree.path, &["status", "--porcelain"]), "");
        assert_eq!((world.user_files(), world.id("main")), (before, main));
    }
}

#[test]
fn branch_without_worktree_is_moved_alone() {
    for world in World::both() {
        world.run(&["checkout", "-q", "-b", "topic"]);
        world.write("a.txt", "on topic\n");
        commit_change(&world, &[("a.txt", "two\n")]);
        let before = world.user_files();

        let commit = merged_commit(
            world
                .repository()
                .merge_branch("agentd/x", "main", "Merge", false)
                .unwrap(),
        );
        assert_eq!(world.id("main"), commit);
        assert_eq!(world.run(&["show", "main:a.txt"]), "two\n");
        assert_eq!(world.user_files(), before);

        world.run(&["stash", "-q"]);
        world.run(&["checkout", "-q", "--detach", "main~1"]);
        assert_eq!(
            world
                .repository()
                .merge_branch("agentd/x", "main", "Merge", false)
                .unwrap(),
            MergeOutcome::Already
        );
    }
}

#[test]
fn target_that_is_missing_or_checked_out_elsewhere_is_reported() {
    let world = World::new();
    commit_change(&world, &[("a.txt", "two\n")]);
    world.run(&["worktree", "add", "-q", "../other place", "-b", "release"]);

    let error = world
        .repository()
        .merge_branch("agentd/x", "release", "Merge", false)
        .unwrap_err();
    assert!(error.message().contains("other place"), "{error:#}");
    assert_eq!(world.id("release"), world.id("main"));

    for (branch, into) in [("agentd/none", "main"), ("agentd/x", "none")] {
        let error = world
            .repository()
            .merge_branch(branch, into, "Merge", false)
            .unwrap_err();
        assert!(error.message().contains("none"), "{error:#}");
    }
}

#[test]
fn merge_in_progress_of_the_user_is_left_alone() {
    let world = World::new();
    world.run(&["checkout", "-q", "-b", "topic"]);
    world.write("t", "t\n").commit("Topic");
    world.run(&["checkout", "-q", "main"]);
    commit_change(&world, &[("a.txt", "two\n")]);
    world.run(&["merge", "--no-ff", "--no-commit", "-q", "topic"]);
    let before = world.user_files();

    let error = world
        .repository()
        .merge_branch("agentd/x", "main", "Merge", false)
        .unwrap_err();
    assert!(
        format!("{error:#}").contains("MERGE_HEAD exists"),
        "{error:#}"
    );
    assert_eq!(world.user_files(), before);
}

/// The files are written before the branch is moved, so a failure must restore them.
#[test]
fn failed_branch_update_restores_the_files() {
    for world in World::both() {
        world.write("b.txt", "b\n").write("c.txt", "c\n");
        world.commit("More");
        commit_change(&world, &[("a.txt", "two\n"), ("new", "n\n")]);
        world
            .write("b.txt", "mine\n")
            .write("c.txt", "staged\n")
            .write("unknown", "u\n");
        world.run(&["add", "c.txt"]);
        let state = || {
            (
                world.run(&["status", "--porcelain"]),
                world.id("HEAD"),
                world.read("b.txt"),
            )
        };

        let (before, lock) = (state(), world.root().join(".git/refs/heads/main.lock"));
        write(&lock, "");

        let error = world
            .repository()
            .merge_branch("agentd/x", "main", "Merge", false)
            .unwrap_err();
        assert!(format!("{error:#}").contains("main.lock"), "{error:#}");
        assert_eq!(state(), before);
        assert_eq!(world.read("a.txt"), "one\n");
        assert!(!world.root().join("new").exists());

        fs::remove_file(lock).unwrap();
        merged_commit(
            world
                .repository()
                .merge_branch("agentd/x", "main", "Merge", false)
                .unwrap(),
        );
        assert_eq!(world.read("a.txt"), "two\n");
    }
}

#[test]
fn merge_timeout_is_rolled_back() {
    assert!(
        GROWING_LIMITS.into_iter().any(is_slow_merge_undone),
        "no merge took too long"
    );
}

/// Checks that a merge with a hanging filter is rolled back at a time limit. Returns false if
/// another command of the merge exceeded the limit, which can happen on a busy machine.
fn is_slow_merge_undone(seconds: u64) -> bool {
    let world = World::new();
    commit_change(
        &world,
        &[
            ("a.txt", "two\n"),
            ("b", "b\n"),
            ("src/lib.rs", "fn a() {}\n"),
            ("z", "z\n"),
        ],
    );
    let slow = world.path("slow");
    let once = world.path("once");
    write(
        &slow,
        format!(
            "[ -e '{0}' ] || {{ touch '{0}'; sleep 600; }}\ncat\n",
            once.display()
        ),
    );
    world.run(&[
        "config",
        "--global",
        "filter.slow.smudge",
        &format!("sh '{}'", slow.display()),
    ]);
    write(
        &world.path("home/.config/git/attributes"),
        "src/lib.rs filter=slow\n",
    );
    world.write("dirty", "d\n").write("staged", "s\n");
    world.run(&["add", "staged"]);
    let files = || -> Vec<_> {
        world
            .user_files()
            .into_iter()
            .filter(|(path, _)| !path.ends_with("index"))
            .collect()
    };

    let before = files();
    let git = Git {
        limit: Duration::from_secs(seconds),
        ..world.git.clone()
    };
    let merge = Repository::open(&world.root(), &git)
        .and_then(|repository| repository.merge_branch("agentd/x", "main", "Merge", false));
    let error = merge.unwrap_err();
    assert!(
        error
            .message()
            .contains(&format!("timed out after {seconds} s")),
        "{error:#}"
    );

    if !error.message().contains("git merge ") {
        return false;
    }
    assert!(once.exists());
    assert_eq!(files(), before);
    assert_eq!(
        world.run(&["status", "--porcelain"]),
        "A  staged\n?? dirty\n"
    );

    merged_commit(
        world
            .repository()
            .merge_branch("agentd/x", "main", "Merge", false)
            .unwrap(),
    );
    true
}

/// A filter may download large files, which is only useful where someone reads them.
#[test]
fn merge_without_worktree_runs_no_filter() {
    let world = World::new();
    world
        .write(".gitattributes", "*.txt filter=large\n")
        .commit("Attributes");
    commit_change(&world, &[("a.txt", "two\n")]);
    world.run(&["checkout", "-q", "-b", "topic"]);
    let log = world.path("log");
    world.run(&[
        "config",
        "--global",
        "filter.large.smudge",
        &format!("tee -a '{}'", log.display()),
    ]);

    merged_commit(
        world
            .repository()
            .merge_branch("agentd/x", "main", "Merge", false)
            .unwrap(),
    );
    assert!(!log.exists());

    world.run(&["checkout", "-q", "main"]);
    assert_eq!(fs::read_to_string(log).unwrap(), "two\n");
}

#[test]
fn renames_and_edits_of_both_sides_merge() {
    for world in World::both() {
        let text: String = (0..40).map(|n| format!("line {n}\n")).collect();
        world.write("old", &text).write("edited", &text);
        world.commit("More");
        let worktree = world.change("x");
        write(
            &worktree.path.join("old"),
            text.replace("line 7\n", "seven\n"),
        );
        write(
            &worktree.path.join("edited"),
            text.replace("line 3\n", "three\n"),
        );
        worktree.commit("Change").unwrap().unwrap();
        world.run(&["mv", "old", "new"]);
        world.write("edited", text.replace("line 30\n", "thirty\n"));
        world.commit("Ours");

        merged_commit(
            world
                .repository()
                .merge_branch("agentd/x", "main", "Merge", false)
                .unwrap(),
        );
        assert_eq!(world.read("new"), text.replace("line 7\n", "seven\n"));
        assert_eq!(
            world.read("edited"),
            text.replace("line 3\n", "three\n")
                .replace("line 30\n", "thirty\n")
        );
        assert!(!world.root().join("old").exists());
    }
}

#[test]
fn target_is_merged_into_the_change() {
    for world in World::both() {
        let worktree = commit_change(
            &world,
            &[("a.txt", "theirs\n"), ("spec.md", "theirs\n"), ("x", "x\n")],
        );
        assert_eq!(
            worktree.merge_from("main", "Merge main", &[]).unwrap(),
            WorktreeMerge::UpToDate
        );

        let head = worktree.head().unwrap();
        let main = world
            .write("spec.md", "ours\n")
            .write("b/c", "c\n")
            .commit("Ours");
        let before = world.user_files();
        let ours = [
            ("spec.md", "settled\n"),
            ("dir/new \"q\"", "given\n"),
            ("x", "other\n"),
        ];
        let ours = ours.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let merged = worktree.merge_from("main", "Merge main", &ours).unwrap();
        let WorktreeMerge::Done(commit) = merged else {
            panic!("{merged:?}")
        };
        assert_eq!(worktree.head().unwrap(), commit);
        assert_eq!(
            world.run(&["show", "-s", "--format=%P", &commit]).trim(),
            format!("{head} {main}")
        );

        let read = |path: &str| fs::read_to_string(worktree.path.join(path)).unwrap();
        assert_eq!(
            read("a.txt") + &read("spec.md") + &read("b/c"),
            "theirs\nsettled\nc\n"
        );
        assert_eq!(read("dir/new \"q\"") + &read("x"), "given\nother\n");
        assert_eq!(world.run_in(&worktree.path, &["status", "--porcelain"]), "");
        assert_eq!(
            worktree.merge_from("main", "Merge main", &[]).unwrap(),
            WorktreeMerge::UpToDate
        );
        assert_eq!(world.user_files(), before);

        merged_commit(
            world
                .repository()
                .merge_branch("agentd/x", "main", "Merge", false)
                .unwrap(),
        );
        assert_eq!(world.read("spec.md"), "settled\n");
    }
}

#[test]
fn merge_keeps_uncommitted_work_of_the_change() {
    let world = World::new();
    let worktree = commit_change(&world, &[("x", "x\n")]);
    world.write("a.txt", "ours\n").commit("Ours");
    write(&worktree.path.join("a.txt"), "begun\n");

    let head = worktree.head().unwrap();
    assert_eq!(
        worktree
            .merge_from("main", "Merge main", &[])
            .unwrap_err()
            .kind(),
        ErrorKind::GitFailed
    );
    assert_eq!(
        fs::read_to_string(worktree.path.join("a.txt")).unwrap(),
        "begun\n"
    );
    assert_eq!(worktree.head().unwrap(), head);
}

#[test]
fn two_changes_are_merged_in_sequence() {
    for world in World::both() {
        for id in ["x", "y"] {
            let worktree = world.change(id);
            write(&worktree.path.join(id), "own\n");
            worktree.commit("Own").unwrap().unwrap();
        }
        for id in ["x", "y"] {
            merged_commit(
                world
                    .repository()
                    .merge_branch(&format!("agentd/{id}"), "main", "Merge", false)
                    .unwrap(),
            );
        }
        assert_eq!(world.read("x") + &world.read("y"), "own\nown\n");
        assert_eq!(world.run(&["status", "--porcelain"]), "");
    }
}
