//! Commits in a worktree: all changes and nothing else, with the user as the author.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use agentd::ErrorKind;
use agentd::ops::{Git, Repository};

use super::World;
use crate::support::waiting::GROWING_LIMITS;
use crate::support::{write, write_program};

#[test]
fn all_changes_except_ignored_files_are_committed() {
    for world in World::both() {
        world
            .write(".gitignore", "*.log\n")
            .write("gone", "g\n")
            .write("file", "f\n")
            .write("folder/x", "x\n");
        world.commit("More");

        let worktree = world.change("x");
        assert_eq!(worktree.commit("Nothing").unwrap(), None);

        let at = |name: &str| worktree.path.join(name);
        write(&at("a.txt"), "two\n");
        write(&at("new \"q\"\n\té"), "odd\n");
        write(&at("x.log"), "ignored\n");
        fs::remove_file(at("gone")).unwrap();

        // A file becomes a folder, and a folder becomes a link.
        fs::remove_file(at("file")).unwrap();
        write(&at("file/inside"), "i\n");
        fs::rename(at("folder"), at("moved")).unwrap();
        symlink("moved", at("folder")).unwrap();
        fs::write(
            at("").join(std::ffi::OsString::from_vec(b"raw\xff".to_vec())),
            "r\n",
        )
        .unwrap();
        let commit = worktree
            .commit("All of it\n\nWith a reason.")
            .unwrap()
            .unwrap();
        let names = world.run(&["ls-tree", "-r", "-z", "--name-only", &commit]);
        let names: Vec<&str> = names.split_terminator('\0').collect();
        let expected = [
            ".gitignore",
            "a.txt",
            "file/inside",
            "folder",
            "moved/x",
            "new \"q\"\n\té",
            "raw\u{fffd}",
            "src/lib.rs",
        ];
        assert_eq!(names, expected);
        assert_eq!(
            world.run(&["show", "-s", "--format=%B", &commit]).trim(),
            "All of it\n\nWith a reason."
        );
        assert_eq!(world.run(&["show", &format!("{commit}:folder")]), "moved");
        assert_eq!(worktree.commit("Nothing").unwrap(), None);
        assert_eq!(world.run_in(&worktree.path, &["status", "--porcelain"]), "");
    }
}

#[test]
fn commit_author_is_the_user_or_agentd() {
    let world = World::new();
    let worktree = world.change("x");
    write(&worktree.path.join("a.txt"), "two\n");
    let commit = worktree.commit("Change").unwrap().unwrap();
    let who = |commit: &str| world.run(&["show", "-s", "--format=%an <%ae>, %cn <%ce>", commit]);
    assert_eq!(
        who(&commit),
        "Ada <ada@example.org>, Ada <ada@example.org>\n"
    );

    write(&world.path("home/.gitconfig"), "");
    write(&worktree.path.join("a.txt"), "three\n");

    let commit = worktree.commit("Change").unwrap().unwrap();
    assert_eq!(
        who(&commit),
        "agentd <agentd@localhost>, agentd <agentd@localhost>\n"
    );
}

#[test]
fn demo_commits_have_a_fixed_author_and_date() {
    let world = World::new();
    let mut git = world.git.clone();
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_NAME", "Demo"),
        ("GIT_AUTHOR_EMAIL", "demo@example.org"),
        ("GIT_COMMITTER_NAME", "Demo"),
        ("GIT_COMMITTER_EMAIL", "demo@example.org"),
        ("GIT_AUTHOR_DATE", "2001-02-03T04:05:06Z"),
        ("GIT_COMMITTER_DATE", "2001-02-03T04:05:06Z"),
    ] {
        git.env.push((name.to_owned(), value.to_owned()));
    }

    let repository = agentd::ops::Repository::open(&world.root(), &git).unwrap();
    let worktree = repository
        .add_worktree("agentd/x", &world.path("x"), "main")
        .unwrap();
    write(&worktree.path.join("a.txt"), "two\n");
    let commit = worktree.commit("Change").unwrap().unwrap();

    let shown = world.run(&["show", "-s", "--format=%an %cn %aI %cI", &commit]);
    assert_eq!(
        shown.replace("+00:00", "Z"),
        "Demo Demo 2001-02-03T04:05:06Z 2001-02-03T04:05:06Z\n"
    );
}

#[test]
fn nested_repository_is_reported_and_not_committed() {
    for world in World::both() {
        let worktree = world.change("x");
        let nested = worktree.path.join("vendor/nested");
        write(&nested.join("a"), "a\n");
        world.run_in(&nested, &["init", "-q"]);

        let error = worktree.commit("Change").unwrap_err();
        assert!(error.message().contains("vendor/nested"), "{error:#}");

        world.run_in(&nested, &["add", "a"]);
        world.run_in(&nested, &["commit", "-qm", "nested"]);

        let error = worktree.commit("Change").unwrap_err();
        assert!(error.message().contains("vendor/nested"), "{error:#}");
        assert_eq!(worktree.head().unwrap(), world.id("main"));

        fs::remove_dir_all(nested.join(".git")).unwrap();
        let commit = worktree.commit("Change").unwrap().unwrap();
        assert_eq!(
            world.run(&["show", &format!("{commit}:vendor/nested/a")]),
            "a\n"
        );
    }
}

#[test]
fn submodule_pointer_follows_its_checked_out_commit() {
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

        let worktree = world.change("x");
        assert_eq!(
            worktree.commit("Nothing").unwrap(),
            None,
            "a missing submodule is not a change"
        );

        world.run_in(
            &worktree.path,
            &["submodule", "--quiet", "update", "--init"],
        );
        let sub = worktree.path.join("sub");

        write(&sub.join("a.txt"), "not committed\n");
        assert_eq!(worktree.commit("Nothing").unwrap(), None);

        world.run_in(&sub, &["commit", "-qam", "Newer"]);
        let newer = world.run_in(&sub, &["rev-parse", "HEAD"]);

        let commit = worktree.commit("Bump").unwrap().unwrap();
        assert_eq!(world.run(&["rev-parse", &format!("{commit}:sub")]), newer);

        let changed = worktree
            .diff("main", super::WIDE, &super::none_hidden)
            .unwrap();
        assert!(
            changed
                .text
                .contains(&format!("+Subproject commit {newer}")),
            "{}",
            changed.text
        );
    }
}

/// Returns a git that removes a lock once one of its commands has failed because of it.
fn git_that_removes(world: &World, lock: &Path) -> Git {
    let (bin, stderr) = (world.path("bin"), world.path("stderr"));
    let path = std::env::var("PATH").unwrap();
    let script = format!(
        "#!/bin/sh\nPATH='{path}'\ngit \"$@\" 2> '{stderr}'\ncode=$?\ncat '{stderr}' >&2\n\
         if grep -q index.lock '{stderr}'; then rm '{lock}'; fi\nexit $code\n",
        stderr = stderr.display(),
        lock = lock.display()
    );
    write_program(&bin.join("git"), script);

    let mut git = world.git.clone();
    git.env
        .push(("PATH".to_owned(), format!("{}:{path}", bin.display())));
    git
}

#[test]
fn index_lock_is_waited_for_and_reported_if_it_stays() {
    let world = World::new();
    let worktree = world.change("x");
    write(&worktree.path.join("a.txt"), "two\n");
    let lock = world.root().join(".git/worktrees/x/index.lock");
    write(&lock, "");
    let git = git_that_removes(&world, &lock);
    let repository = Repository::open(&world.root(), &git).unwrap();
    let same = repository
        .worktree("agentd/x", &worktree.path)
        .unwrap()
        .unwrap();
    assert!(same.commit("Change").unwrap().is_some());
    assert!(!lock.exists(), "no command met the lock");

    write(&worktree.path.join("a.txt"), "three\n");
    write(&lock, "");

    let error = worktree.commit("Change").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::GitFailed);
    assert!(format!("{error:#}").contains("index.lock"), "{error:#}");
    assert!(
        error.hint().unwrap().contains("remove the lock"),
        "{error:#}"
    );

    // The leftovers of an interrupted turn are discarded together with its lock.
    worktree.reset_to("agentd/x").unwrap();
    assert_eq!(
        fs::read_to_string(worktree.path.join("a.txt")).unwrap(),
        "two\n"
    );
}

#[test]
fn leftovers_of_an_interrupted_turn_are_discarded() {
    for world in World::both() {
        world.write(".gitignore", "build/\n");
        world.commit("More");
        let before = world.user_files();
        let worktree = world.change("x");
        let at = |name: &str| worktree.path.join(name);
        write(&at("a.txt"), "two\n");
        let commit = worktree.commit("Change").unwrap().unwrap();
        write(&at("b.txt"), "later\n");
        worktree.commit("Later").unwrap().unwrap();
        write(&at("a.txt"), "begun\n");
        fs::remove_file(at("src/lib.rs")).unwrap();
        write(&at("sub/.gitignore"), "hidden\n");
        write(&at("sub/hidden"), "h\n");
        write(&at("build/cache"), "kept\n");
        write(&at("nested/a"), "a\n");
        world.run_in(&at("nested"), &["init", "-q"]);
        world.run_in(&worktree.path, &["checkout", "-q", "-b", "astray"]);
        world.run_in(
            &worktree.path,
            &["update-index", "--assume-unchanged", "a.txt"],
        );

        worktree.reset_to(&commit).unwrap();
        assert_eq!(worktree.head().unwrap(), commit);
        assert_eq!(fs::read_to_string(at("a.txt")).unwrap(), "two\n");
        assert_eq!(fs::read_to_string(at("build/cache")).unwrap(), "kept\n");
        for name in ["b.txt", "sub", "nested"] {
            assert!(!at(name).exists(), "{name} is still there");
        }
        assert!(worktree.changed(&commit).unwrap().is_empty());
        assert_eq!(world.user_files(), before);
    }
}

#[test]
fn slow_git_command_is_killed() {
    let world = World::new();
    world.run(&["config", "--global", "filter.slow.clean", "sleep 600"]);
    let worktree = world.change("x");
    write(&worktree.path.join(".gitattributes"), "*.txt filter=slow\n");
    write(&worktree.path.join("a.txt"), "two\n");

    // On a busy machine another command may exceed the limit.
    let has_waited_for_the_filter = |seconds: u64| {
        let git = Git {
            limit: Duration::from_secs(seconds),
            ..world.git.clone()
        };
        let commit = Repository::open(&world.root(), &git)
            .and_then(|repository| repository.worktree("agentd/x", &worktree.path))
            .and_then(|worktree| worktree.unwrap().commit("Change"));
        let error = commit.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::GitFailed);
        assert!(
            error
                .message()
                .contains(&format!("timed out after {seconds} s")),
            "{error:#}"
        );

        // Any command that has to read the file runs its filter.
        ["git add", "git ls-files"]
            .iter()
            .any(|command| error.message().contains(command))
    };

    assert!(
        GROWING_LIMITS.into_iter().any(has_waited_for_the_filter),
        "the filter runs into the time limit"
    );
}

/// The user intends their own filter. Without it, git would commit content that must not be
/// published.
#[test]
fn user_filters_run_and_repository_filters_do_not() {
    let world = World::new();
    world.run(&["config", "--global", "filter.upper.clean", "tr a-z A-Z"]);
    world.run(&["config", "filter.lower.clean", "tr A-Z a-z"]);
    world.run(&["config", "filter.needed.clean", "cat"]);
    world.run(&["config", "filter.needed.required", "true"]);
    let worktree = world.change("x");
    write(
        &worktree.path.join(".gitattributes"),
        "u filter=upper\nl filter=lower\n",
    );
    write(&worktree.path.join("u"), "Text\n");
    write(&worktree.path.join("l"), "Text\n");

    let commit = worktree.commit("Change").unwrap().unwrap();
    assert_eq!(world.run(&["show", &format!("{commit}:u")]), "TEXT\n");
    assert_eq!(world.run(&["show", &format!("{commit}:l")]), "Text\n");

    write(&worktree.path.join(".gitattributes"), "l filter=needed\n");
    write(&worktree.path.join("l"), "Secret\n");

    let error = worktree.commit("Change").unwrap_err();
    assert!(
        format!("{error:#}").contains("filter 'needed' failed"),
        "{error:#}"
    );
    assert_eq!(worktree.head().unwrap(), commit);
}
