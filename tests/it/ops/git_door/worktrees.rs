//! Worktrees: created once, found again, repaired, removed. The user's work tree is never touched.

use std::fs;
use std::thread;

use agentd::ErrorKind;
use agentd::ops::{Leftover, MergeOutcome};

use super::World;
use crate::support::write;

#[test]
fn worktree_is_created_outside_and_the_users_tree_is_untouched() {
    for world in World::both() {
        world
            .write("a.txt", "uncommitted\n")
            .write("new.txt", "unknown\n")
            .write("b.txt", "staged\n");
        world.run(&["add", "b.txt"]);
        let before = world.user_files();

        let worktree = world.change("x");
        assert_eq!(worktree.branch, "agentd/x");
        assert_eq!(worktree.head().unwrap(), world.id("main"));
        assert_eq!(
            fs::read_to_string(worktree.path.join("a.txt")).unwrap(),
            "one\n"
        );
        assert!(!worktree.path.join("new.txt").exists());

        write(&worktree.path.join("a.txt"), "two\n");
        let commit = worktree.commit("Change").unwrap().unwrap();
        assert_eq!(worktree.head().unwrap(), commit);
        assert_eq!(world.user_files(), before);
        assert_ne!(world.id("main"), commit);
    }
}

#[test]
fn creating_a_worktree_is_idempotent() {
    for world in World::both() {
        let worktree = world.change("x");
        write(&worktree.path.join("a.txt"), "begun\n");

        let again = world.change("x");
        assert_eq!(
            (&again.path, &again.branch),
            (&worktree.path, &worktree.branch)
        );
        assert_eq!(
            fs::read_to_string(again.path.join("a.txt")).unwrap(),
            "begun\n"
        );

        let found = world
            .repository()
            .worktree("agentd/x", &worktree.path)
            .unwrap()
            .unwrap();
        assert_eq!(found.path, worktree.path);
        assert!(
            world
                .repository()
                .worktree("agentd/y", &world.path("y"))
                .unwrap()
                .is_none()
        );
    }
}

#[test]
fn branch_of_the_user_is_not_taken_over() {
    for world in World::both() {
        world.run(&["branch", "agentd/x"]);
        let path = world.path("x");
        assert!(
            world
                .repository()
                .worktree("agentd/x", &path)
                .unwrap()
                .is_none()
        );
        let error = world
            .repository()
            .add_worktree("agentd/x", &path, "main")
            .unwrap_err();
        assert!(
            error.message().contains("was not created by agentd"),
            "{error:#}"
        );
        assert!(!path.exists());
    }
}

#[test]
fn folder_in_use_is_not_taken_over() {
    let world = World::new();
    let path = world.path("x");
    write(&path.join("mine"), "mine\n");
    let error = world
        .repository()
        .add_worktree("agentd/x", &path, "main")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::GitFailed);
    assert!(format!("{error:#}").contains("already exists"), "{error:#}");
    assert_eq!(fs::read_to_string(path.join("mine")).unwrap(), "mine\n");
}

#[test]
fn missing_or_partial_worktree_is_recreated() {
    for world in World::both() {
        let worktree = world.change("x");
        write(&worktree.path.join("a.txt"), "two\n");
        let commit = worktree.commit("Change").unwrap().unwrap();
        let check = || {
            let again = world
                .repository()
                .worktree("agentd/x", &worktree.path)
                .unwrap()
                .unwrap();
            assert_eq!(again.head().unwrap(), commit);
            assert_eq!(
                fs::read_to_string(again.path.join("a.txt")).unwrap(),
                "two\n"
            );
            assert!(again.changed(&commit).unwrap().is_empty());
        };

        fs::remove_dir_all(&worktree.path).unwrap();
        check();
        fs::remove_dir_all(&worktree.path).unwrap();
        world.run(&["worktree", "prune"]);
        check();

        // State after an interrupted checkout: some files, no index, and the lock.
        let git_dir = world.root().join(".git/worktrees/x");
        fs::remove_file(git_dir.join("index")).unwrap();
        fs::remove_file(worktree.path.join("a.txt")).unwrap();
        write(&git_dir.join("index.lock"), "");
        check();
    }
}

#[test]
fn mismatched_branch_or_folder_is_reported() {
    let world = World::new();
    let worktree = world.change("x");
    world.run_in(&worktree.path, &["checkout", "-q", "-b", "other"]);

    let error = world
        .repository()
        .worktree("agentd/x", &worktree.path)
        .unwrap_err();
    assert!(error.message().contains("`other`"), "{error:#}");

    for error in [
        worktree.head().unwrap_err(),
        worktree.commit("Change").unwrap_err(),
    ] {
        assert!(error.message().contains("`other`"), "{error:#}");
    }

    world.run(&["checkout", "-q", "agentd/x"]);
    let error = world
        .repository()
        .worktree("agentd/x", &world.path("second"))
        .unwrap_err();
    assert!(error.message().contains("is checked out in"), "{error:#}");
}

#[test]
fn eight_worktrees_are_created_concurrently() {
    for world in World::both() {
        for n in 0..200 {
            world.write(&format!("many/{n}"), format!("{n}\n"));
        }
        world.commit("Many");
        thread::scope(|scope| {
            for n in 0..8 {
                let world = &world;
                scope.spawn(move || {
                    let worktree = world.change(&format!("c{n}"));
                    write(&worktree.path.join("own"), format!("{n}\n"));
                    worktree.commit("Own").unwrap().unwrap();
                });
            }
        });

        for n in 0..8 {
            assert_eq!(
                world.run(&["show", &format!("agentd/c{n}:own")]),
                format!("{n}\n")
            );
            assert_eq!(
                world.run(&["diff", "--name-only", "main", &format!("agentd/c{n}")]),
                "own\n"
            );
        }
    }
}

#[test]
fn worktree_is_removed_only_if_nothing_is_lost() {
    for world in World::both() {
        let worktree = world.change("x");
        write(&worktree.path.join("new"), "new\n");
        let repository = world.repository();
        let error = repository
            .remove_worktree(&worktree, Leftover::Kept)
            .unwrap_err();
        assert!(
            error.message().contains("uncommitted changes: new"),
            "{error:#}"
        );
        worktree.commit("New").unwrap().unwrap();
        repository
            .remove_worktree(&worktree, Leftover::Kept)
            .unwrap();
        assert!(!worktree.path.exists());
        assert!(!world.run(&["worktree", "list"]).contains("work trees"));

        repository
            .remove_worktree(&worktree, Leftover::Kept)
            .unwrap();
        assert!(repository.branch_exists("agentd/x").unwrap());

        let worktree = world.change("y");
        write(&worktree.path.join("new"), "new\n");

        repository
            .remove_worktree(&worktree, Leftover::Lost)
            .unwrap();
        assert!(!worktree.path.exists());
    }
}

#[test]
fn branch_is_deleted_only_if_merged() {
    for world in World::both() {
        let repository = world.repository();
        for (id, squash) in [("x", false), ("y", true)] {
            let worktree = world.change(id);
            write(&worktree.path.join(id), "new\n");
            worktree.commit("New").unwrap().unwrap();

            let error = repository
                .delete_branch(&worktree.branch, "main")
                .unwrap_err();
            assert!(error.message().contains("not merged"), "{error:#}");

            world.run(&["checkout", "-q", "--detach"]);
            let landed = repository
                .merge_branch(&worktree.branch, "main", "Merge", squash)
                .unwrap();
            assert!(matches!(landed, MergeOutcome::Done(_)));

            world.run(&["checkout", "-q", "main"]);
            let error = repository
                .delete_branch(&worktree.branch, "main")
                .unwrap_err();
            assert!(error.message().contains("checked out"), "{error:#}");

            repository
                .remove_worktree(&worktree, Leftover::Kept)
                .unwrap();
            repository.delete_branch(&worktree.branch, "main").unwrap();
            assert!(!repository.branch_exists(&worktree.branch).unwrap());

            repository.delete_branch(&worktree.branch, "main").unwrap();
        }

        assert_eq!(
            world.run(&["for-each-ref", "--format=%(refname)"]),
            "refs/heads/main\n"
        );
    }
}
