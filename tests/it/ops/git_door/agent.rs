//! Attempts of an agent to get something run from its worktree, or to hide its changes.

use std::fs;
use std::os::unix::fs::symlink;

use agentd::ErrorKind;
use agentd::ops::{Leftover, Worktree};

use super::{WIDE, World, none_hidden};
use crate::support::{write, write_program};

/// Writes a program that leaves a marker file.
fn evil_program(world: &World) -> String {
    let path = world.path("agents-evil");
    write_program(
        &path,
        format!(
            "#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\n",
            world.marker_file().display()
        ),
    );
    path.to_str().unwrap().to_owned()
}

/// Runs every operation on a worktree.
fn use_worktree(world: &World, worktree: &Worktree) {
    worktree.diff("main", WIDE, &none_hidden).unwrap();
    worktree.changed("main").unwrap();
    let commit = worktree.commit("Change").unwrap().unwrap();
    assert_eq!(world.run(&["show", &format!("{commit}:a.txt")]), "agent\n");
    world.write("other", "o\n").commit("Ours");
    worktree.merge_from("main", "Merge", &[]).unwrap();
    worktree.reset_to(&commit).unwrap();
    assert_eq!(worktree.head().unwrap(), commit);
}

#[test]
fn replaced_git_file_is_ignored() {
    for (n, world) in World::both().into_iter().chain(World::both()).enumerate() {
        let evil = evil_program(&world);
        let worktree = world.change("x");
        write(&worktree.path.join("a.txt"), "agent\n");

        // A repository of the agent, in place of the git file or at the path it names.
        let link = worktree.path.join(".git");
        fs::remove_file(&link).unwrap();
        let own = if n < 2 {
            link.clone()
        } else {
            world.path("agents-own")
        };
        let init = ["init", "-q", "--separate-git-dir", own.to_str().unwrap()];
        if n < 2 {
            world.run_in(&worktree.path, &["init", "-q"]);
        } else {
            world.run_in(&worktree.path, &init);
        }

        for name in [
            "core.fsmonitor",
            "filter.own.clean",
            "filter.own.process",
            "filter.own.smudge",
            "core.sshCommand",
        ] {
            world.run_in(&worktree.path, &["config", name, &evil]);
        }

        for hook in [
            "post-index-change",
            "post-checkout",
            "reference-transaction",
        ] {
            fs::create_dir_all(own.join("hooks")).unwrap();
            fs::copy(&evil, own.join("hooks").join(hook)).unwrap();
        }

        write(&worktree.path.join(".gitattributes"), "* filter=own\n");
        use_worktree(&world, &worktree);

        // The git file is correct again.
        assert!(
            world
                .run_in(&worktree.path, &["rev-parse", "--git-dir"])
                .trim()
                .ends_with("worktrees/x")
        );
        assert!(
            world
                .repository()
                .worktree("agentd/x", &worktree.path)
                .unwrap()
                .is_some()
        );

        world
            .repository()
            .remove_worktree(&worktree, Leftover::Kept)
            .unwrap();
        assert!(!worktree.path.exists());
    }
}

/// Another text for `a.txt`, of the same size. Only then does git compare the contents and run the
/// filter. A file of another size counts as changed without being read.
const SAME_SIZE: &str = "two\n";

#[test]
fn submodule_settings_run_nothing() {
    for world in World::both() {
        world.run(&["clone", "-q", ".", "../library"]);
        world.run(&[
            "submodule",
            "--quiet",
            "add",
            world.path("library").to_str().unwrap(),
            "sub",
        ]);
        world.commit("Submodule");
        let evil = evil_program(&world);
        let worktree = world.change("x");
        let sub = worktree.path.join("sub");

        // At the same commit that the change records, because git only then reads the files.
        world.run_in(
            &worktree.path,
            &["submodule", "--quiet", "update", "--init"],
        );
        for name in ["core.fsmonitor", "filter.own.clean"] {
            world.run_in(&sub, &["config", name, &evil]);
        }
        write(&sub.join(".gitattributes"), "* filter=own\n");
        write(&sub.join("a.txt"), SAME_SIZE);
        write(&worktree.path.join("a.txt"), "agent\n");
        use_worktree(&world, &worktree);
    }
}

/// Proves that the trap in the test above works.
#[test]
fn plain_git_runs_the_trap() {
    let world = World::new();
    world.run(&["clone", "-q", ".", "../library"]);
    world.run(&[
        "submodule",
        "--quiet",
        "add",
        world.path("library").to_str().unwrap(),
        "sub",
    ]);
    world.commit("Submodule");
    let evil = evil_program(&world);
    let sub = world.root().join("sub");
    world.run_in(&sub, &["config", "filter.own.clean", &evil]);
    write(&sub.join(".gitattributes"), "* filter=own\n");
    write(&sub.join("a.txt"), SAME_SIZE);

    world.run(&["add", "-A"]);
    assert!(world.marker_file().exists());

    fs::remove_file(world.marker_file()).unwrap();
}

#[test]
fn hidden_index_flags_do_not_hide_changes() {
    for world in World::both() {
        let worktree = world.change("x");
        world.run_in(
            &worktree.path,
            &["update-index", "--assume-unchanged", "a.txt"],
        );
        world.run_in(
            &worktree.path,
            &["update-index", "--skip-worktree", "src/lib.rs"],
        );
        write(&worktree.path.join("a.txt"), "agent\n");
        write(&worktree.path.join("src/lib.rs"), "fn agent() {}\n");
        let names = |worktree: &Worktree| -> Vec<String> {
            worktree
                .changed("main")
                .unwrap()
                .into_iter()
                .map(|file| file.path)
                .collect()
        };

        assert_eq!(names(&worktree), ["a.txt", "src/lib.rs"]);

        let commit = worktree.commit("Change").unwrap().unwrap();
        assert_eq!(
            world.run(&["diff", "--name-only", "main", &commit]),
            "a.txt\nsrc/lib.rs\n"
        );
    }
}

#[test]
fn attributes_do_not_hide_files_from_a_diff() {
    for world in World::both() {
        let worktree = world.change("x");
        write(
            &worktree.path.join(".gitattributes"),
            "* -diff binary -text\n*.txt diff=evil\n",
        );
        write(&worktree.path.join("a.txt"), "agent\n");
        write(&worktree.path.join("src/lib.rs"), "fn agent() {}\n");

        for _ in 0..2 {
            let diff = worktree.diff("main", WIDE, &none_hidden).unwrap();
            assert!(
                diff.text.contains("-one\n+agent\n") && diff.text.contains("+fn agent() {}\n"),
                "{}",
                diff.text
            );
            assert!(diff.files.iter().all(|file| !file.binary));
            worktree.commit("Change").unwrap();
        }
    }
}

#[test]
fn replace_refs_are_ignored() {
    let world = World::new();
    let worktree = world.change("x");
    write(&worktree.path.join("a.txt"), "agent\n");
    let commit = worktree.commit("Change").unwrap().unwrap();

    world.run_in(&worktree.path, &["replace", &commit, "main"]);
    assert_eq!(
        world.run(&["show", &format!("{commit}:a.txt")]),
        "one\n",
        "plain git is fooled"
    );
    assert!(
        worktree
            .diff("main", WIDE, &none_hidden)
            .unwrap()
            .text
            .contains("+agent\n")
    );

    let text = world.repository().text_at(&commit, "a.txt").unwrap();
    assert_eq!(text.as_deref(), Some("agent\n"));
}

#[test]
fn symbolic_branch_to_the_users_branch_is_reported() {
    let world = World::new();
    let worktree = world.change("x");
    let start = world.id("main");
    write(&worktree.path.join("a.txt"), "agent\n");

    world.run_in(
        &worktree.path,
        &["symbolic-ref", "refs/heads/agentd/x", "refs/heads/main"],
    );
    assert!(
        worktree
            .commit("Change")
            .unwrap_err()
            .message()
            .contains("`main`")
    );

    worktree.reset_to(&start).unwrap();
    write(&worktree.path.join("a.txt"), "agent\n");

    worktree.commit("Change").unwrap().unwrap();
    assert_eq!(world.id("main"), start);
}

#[test]
fn folder_replaced_by_a_link_is_not_followed() {
    let world = World::new();
    let worktree = world.change("x");
    let elsewhere = world.path("elsewhere");
    write(&elsewhere.join("mine"), "mine\n");
    fs::remove_dir_all(&worktree.path).unwrap();
    symlink(&elsewhere, &worktree.path).unwrap();

    for error in [
        worktree.commit("Change").unwrap_err(),
        worktree.reset_to("main").unwrap_err(),
        worktree.changed("main").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::GitFailed);
        assert!(
            format!("{error:#}").contains("replaced with something that is not a folder"),
            "{error:#}"
        );
    }

    let again = world
        .repository()
        .worktree("agentd/x", &worktree.path)
        .unwrap()
        .unwrap();
    assert!(again.path.symlink_metadata().unwrap().is_dir());
    assert_eq!(
        fs::read_to_string(elsewhere.join("mine")).unwrap(),
        "mine\n"
    );
}

#[test]
fn repository_settings_written_by_an_agent_run_nothing() {
    let world = World::new();
    let evil = evil_program(&world);
    let worktree = world.change("x");
    write(
        &world.path("more.config"),
        format!("[filter \"more\"]\n\tclean = {evil}\n"),
    );
    for (name, value) in [
        ("core.fsmonitor", evil.as_str()),
        ("filter.own.clean", &evil),
        ("filter.own.smudge", &evil),
        ("filter.a.b.process", &evil),
        ("merge.own.driver", &evil),
        ("diff.own.command", &evil),
        ("diff.own.textconv", &evil),
        ("include.path", world.path("more.config").to_str().unwrap()),
    ] {
        world.run_in(&worktree.path, &["config", name, value]);
    }

    write(
        &worktree.path.join(".gitattributes"),
        "*.txt filter=own merge=own diff=own\n*.rs filter=a.b\nmore filter=more\n",
    );
    write(&worktree.path.join("a.txt"), "agent\n");
    write(&worktree.path.join("more"), "agent\n");
    write(&worktree.path.join("src/lib.rs"), "fn agent() {}\n");
    use_worktree(&world, &worktree);

    // A path that cannot be passed on the command line is refused.
    world.run_in(&worktree.path, &["config", "filter.a=b.clean", &evil]);
    write(&worktree.path.join("a.txt"), "again\n");

    let error = worktree.commit("Change").unwrap_err();
    assert!(error.message().contains("filter.a=b.clean"), "{error:#}");
}
