//! Discovery of a repository, its checked-out branch, and its contents.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::process::Command;

use agentd::ErrorKind;
use agentd::ops::{Git, Head, Repository};

use super::World;
use crate::support::test_name;

#[test]
fn folder_without_repository_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_path_buf(), folder.path().join("missing")] {
        let error = Repository::open(&path, &Git::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotARepository);
        assert!(error.hint().unwrap().contains("git init"), "{error:#}");
    }
}

#[test]
fn bare_repository_and_git_folder_are_refused() {
    let world = World::new();
    world.run(&["clone", "-q", "--bare", ".", "../bare"]);
    for (path, word) in [
        ("bare", "bare"),
        ("my \"repo\"/.git", "inside a `.git` folder"),
    ] {
        let error = Repository::open(&world.path(path), &world.git).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotARepository);
        assert!(error.message().contains(word), "{error:#}");
    }
}

#[test]
fn repository_is_found_from_subfolder_and_linked_worktree() {
    for world in World::both() {
        let found = Repository::open(&world.root().join("src"), &world.git).unwrap();
        assert_eq!(
            (found.root, found.common),
            (world.root(), world.root().join(".git"))
        );
        world.run(&["worktree", "add", "-q", "../linked", "-b", "other"]);
        let found = Repository::open(&world.path("linked"), &world.git).unwrap();
        assert_eq!(found.head().unwrap().branch.as_deref(), Some("other"));
        assert_eq!(
            (found.root, found.common),
            (world.path("linked"), world.root().join(".git"))
        );
    }
}

#[test]
fn repository_without_commits_has_no_head() {
    let world = World::empty();
    let error = world.repository().head().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoCommits);
    assert!(error.hint().unwrap().contains("git commit"), "{error:#}");
    let error = world
        .repository()
        .add_worktree("agentd/x", &world.path("x"), "HEAD")
        .unwrap_err();
    assert!(
        error.message().contains("unknown commit `HEAD`"),
        "{error:#}"
    );
}

#[test]
fn head_is_a_branch_or_a_commit() {
    for world in World::both() {
        let commit = world.id("HEAD");
        let on_main = Head {
            commit: commit.clone(),
            branch: Some("main".to_owned()),
        };
        assert_eq!(world.repository().head().unwrap(), on_main);
        world.run(&["checkout", "-q", "--detach"]);
        assert_eq!(
            world.repository().head().unwrap(),
            Head {
                commit,
                branch: None
            }
        );
    }
}

#[test]
fn uncommitted_files_are_listed_with_odd_names() {
    for world in World::both() {
        world.write("b.txt", "b\n").write("gone", "g\n");
        world.commit("More");
        assert_eq!(world.repository().uncommitted().unwrap(), [""; 0]);

        world
            .write("a.txt", "two\n")
            .write("b.txt", "staged\n")
            .write("new/x", "x\n")
            .write("q\"\n \té", "q\n");
        fs::remove_file(world.root().join("gone")).unwrap();
        let raw = std::ffi::OsString::from_vec(b"raw\xff".to_vec());
        fs::write(world.root().join(raw), "r\n").unwrap();
        world.run(&["add", "b.txt"]);
        let before = world.user_files();
        let mut found = world.repository().uncommitted().unwrap();

        found.sort();
        assert_eq!(
            found,
            ["a.txt", "b.txt", "gone", "new/", "q\"\n \té", "raw\u{fffd}"]
        );
        assert_eq!(world.user_files(), before);
    }
}

#[test]
fn revision_resolves_to_a_commit() {
    for world in World::both() {
        let first = world.id("HEAD");
        world.run(&["tag", "old"]);
        let second = world.write("b", "b\n").commit("More");
        world.run(&["branch", "topic/x"]);
        world.run(&["tag", "-a", "-m", "t", "release"]);
        world.run(&["update-ref", "refs/remotes/origin/main", &first]);
        world.run(&[
            "symbolic-ref",
            "refs/remotes/origin/HEAD",
            "refs/remotes/origin/main",
        ]);
        world.run(&["config", "branch.main.remote", "origin"]);
        world.run(&["config", "branch.main.merge", "refs/heads/main"]);
        world.run(&[
            "config",
            "remote.origin.fetch",
            "+refs/heads/*:refs/remotes/origin/*",
        ]);
        let repository = world.repository();
        let commit = |name: &str| repository.commit_of(name).unwrap();

        for name in [
            "main",
            "heads/main",
            "topic/x",
            "refs/heads/topic/x",
            "HEAD",
            "@",
            "main^{commit}",
        ] {
            assert_eq!(commit(name), Some(second.clone()), "{name}");
        }

        for name in [
            "old",
            "refs/tags/old",
            "origin/main",
            "origin",
            "main~1",
            "main^",
            "main@{upstream}",
        ] {
            assert_eq!(commit(name), Some(first.clone()), "{name}");
        }

        assert_eq!(commit("release"), Some(second.clone()));
        assert_eq!(commit("HEAD~1"), Some(first.clone()));
        assert_eq!(commit(&first[..10]), Some(first));

        for name in [
            "",
            "-h",
            "--all",
            "nothing",
            "topic",
            "mai*",
            "main:a.txt",
            "no such\nname",
        ] {
            assert_eq!(commit(name), None, "{name:?}");
        }

        assert_eq!(repository.branch_commit("topic/x").unwrap(), Some(second));
        assert_eq!(repository.branch_commit("release").unwrap(), None);
        assert!(repository.branch_exists("topic/x").unwrap());
        assert!(!repository.branch_exists("release").unwrap());
        assert_eq!(
            repository.branch_exists("-d").unwrap_err().kind(),
            ErrorKind::NameInvalid
        );
    }
}

/// Permission to push a tag or a branch must not decide the meaning of a name that the user gives.
#[test]
fn ambiguous_ref_is_refused_with_its_full_names() {
    for world in World::both() {
        let first = world.id("HEAD");
        let abbreviated = &first[..7];
        let second = world.write("b", "b\n").commit("More");
        world.run(&["update-ref", "refs/remotes/origin/main", &first]);

        for other in [
            "refs/tags/origin/main",
            "refs/heads/origin/main",
            "refs/origin/main",
        ] {
            world.run(&["update-ref", other, &second]);
            let repository = world.repository();

            for name in ["origin/main", "origin/main~0", "origin/main^{commit}"] {
                let error = repository.commit_of(name).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NameInvalid);
                let words = error.to_string();
                assert!(words.contains("`origin/main` is ambiguous"), "{words}");
                assert!(
                    words.contains(other) && words.contains("refs/remotes/origin/main"),
                    "{words}"
                );
            }

            assert_eq!(
                repository.commit_of("refs/remotes/origin/main").unwrap(),
                Some(first.clone())
            );

            world.run(&["update-ref", "-d", other]);
        }

        for other in [
            format!("refs/tags/{abbreviated}"),
            format!("refs/heads/{abbreviated}"),
        ] {
            world.run(&["update-ref", &other, &second]);
            let error = world
                .repository()
                .commit_of(abbreviated)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&other) && error.contains(&first), "{error}");
            world.run(&["update-ref", "-d", &other]);
        }

        world.run(&["update-ref", "refs/tags/main", &first]);
        assert_eq!(
            world.repository().branch_commit("main").unwrap(),
            Some(second),
            "a branch is requested"
        );
    }
}

#[test]
fn files_are_read_at_a_commit() {
    for world in World::both() {
        world
            .write("new\nline *.md", "odd\n")
            .write("*.md", "star\n")
            .write("b.md", "b\n");
        world
            .write("latin", b"\xe9\n")
            .write("zero", b"a\0b")
            .write("large", vec![b'x'; 17 << 20]);
        symlink("/etc/passwd", world.root().join("link")).unwrap();
        let commit = world.commit("More");
        world.write("b.md", "later\n");
        let repository = world.repository();
        let text = |path: &str| repository.text_at(&commit, path);
        assert_eq!(text("b.md").unwrap().as_deref(), Some("b\n"));
        assert_eq!(text("*.md").unwrap().as_deref(), Some("star\n"));
        assert_eq!(text("new\nline *.md").unwrap().as_deref(), Some("odd\n"));
        assert_eq!(
            text("src/lib.rs").unwrap().as_deref(),
            Some("fn lib() {}\n")
        );

        for path in [
            "missing",
            "src/missing",
            "a.txt/b",
            "?.md",
            ":(glob)*",
            "b.md/",
        ] {
            assert_eq!(text(path).unwrap(), None, "{path:?}");
        }

        for (path, word) in [
            ("latin", "UTF-8"),
            ("zero", "UTF-8"),
            ("large", "larger than 16 MiB"),
            ("link", "regular"),
            ("src", "regular"),
        ] {
            let error = text(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileUnusable);
            assert!(error.message().contains(word), "{error:#}");
        }

        assert!(repository.text_at("nothing", "b.md").is_err());

        let names = |folder: &str| repository.names_at("HEAD", folder).unwrap();
        assert_eq!(names("src/"), ["lib.rs"]);
        assert_eq!(
            names(""),
            [
                "*.md",
                "a.txt",
                "b.md",
                "large",
                "latin",
                "link",
                "new\nline *.md",
                "src",
                "zero"
            ]
        );
        assert_eq!(names("missing"), [""; 0]);
        assert_eq!(names("a.txt"), [""; 0]);
    }
}

#[test]
fn base_is_the_upstream_then_the_default_branch() {
    for world in World::both() {
        let base = || world.repository().default_base().unwrap();
        assert_eq!(base(), None, "main itself");

        world.run(&["checkout", "-q", "-b", "topic"]);
        assert_eq!(base().as_deref(), Some("refs/heads/main"));

        world.run(&["update-ref", "refs/remotes/origin/trunk", "HEAD"]);
        world.run(&[
            "symbolic-ref",
            "refs/remotes/origin/HEAD",
            "refs/remotes/origin/trunk",
        ]);
        assert_eq!(base().as_deref(), Some("refs/remotes/origin/trunk"));

        world.run(&["branch", "upper"]);
        world.run(&["config", "branch.topic.remote", "."]);
        world.run(&["config", "branch.topic.merge", "refs/heads/upper"]);
        assert_eq!(base().as_deref(), Some("refs/heads/upper"));

        world.run(&["checkout", "-q", "--detach"]);
        assert_eq!(base().as_deref(), Some("refs/remotes/origin/trunk"));

        let repository = world.repository();
        assert_eq!(
            repository.merge_base("main", "origin/trunk").unwrap(),
            Some(world.id("main"))
        );

        let tree = world.id("HEAD^{tree}");
        let alone = world.run(&["commit-tree", &tree, "-m", "alone"]);
        assert_eq!(repository.merge_base("main", alone.trim()).unwrap(), None);
    }
}

#[test]
fn submodule_is_a_separate_repository() {
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
        let sub = world.root().join("sub");

        let repository = Repository::open(&sub, &world.git).unwrap();
        assert_eq!(
            (&repository.root, &repository.common),
            (&sub, &world.root().join(".git/modules/sub"))
        );

        let worktree = repository
            .add_worktree("agentd/x", &world.path("x"), "HEAD")
            .unwrap();
        fs::write(worktree.path.join("a.txt"), "in the worktree\n").unwrap();

        let commit = worktree.commit("Change").unwrap().unwrap();
        assert_eq!(
            repository.text_at(&commit, "a.txt").unwrap().as_deref(),
            Some("in the worktree\n")
        );
        assert_eq!(world.read("sub/a.txt"), "one\n");

        repository
            .merge_branch("agentd/x", "main", "Merge", false)
            .unwrap();
        assert_eq!(world.read("sub/a.txt"), "in the worktree\n");
    }
}

/// Environment variables of a hook, or of the user, would redirect git to another repository.
#[test]
fn git_environment_variables_are_ignored() {
    let (own, other) = (World::new(), World::new());
    if let Some(root) = std::env::var_os("AGENTD_TEST_ROOT") {
        let repository = Repository::open(root.as_ref(), &own.git).unwrap();
        assert_eq!(repository.root.as_os_str(), root);
        let worktree = repository
            .add_worktree("agentd/x", &own.path("x"), "main")
            .unwrap();
        fs::write(worktree.path.join("a.txt"), "two\n").unwrap();
        assert!(worktree.commit("Change").unwrap().is_some());
        assert!(
            worktree
                .diff("main", super::WIDE, &super::none_hidden)
                .unwrap()
                .text
                .contains("+two")
        );
        return;
    }

    let before = other.user_files();
    let git_dir = other.root().join(".git");
    let evil = other.path("evil");
    fs::write(
        &evil,
        format!("#!/bin/sh\ntouch '{}'\n", other.marker_file().display()),
    )
    .unwrap();
    let name = test_name(module_path!(), "git_environment_variables_are_ignored");
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name])
        .env("AGENTD_TEST_ROOT", own.root())
        .env("GIT_DIR", &git_dir)
        .env("GIT_WORK_TREE", other.root())
        .env("GIT_COMMON_DIR", &git_dir)
        .env("GIT_INDEX_FILE", git_dir.join("index"))
        .env("GIT_OBJECT_DIRECTORY", git_dir.join("objects"))
        .env("GIT_NAMESPACE", "elsewhere")
        .env("GIT_QUARANTINE_PATH", "/nowhere")
        .env("GIT_LITERAL_PATHSPECS", "1")
        .env(
            "GIT_CONFIG_PARAMETERS",
            format!("'core.worktree={}'", other.root().display()),
        )
        .env("GIT_EXTERNAL_DIFF", &evil)
        .env("GIT_PAGER", &evil)
        .output()
        .unwrap();

    // The variables would redirect the git of the test as well, so check that they did not.
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}");
    assert_eq!(other.user_files(), before);
    assert_eq!(own.run(&["show", "agentd/x:a.txt"]), "two\n");
}

/// An agent in a worktree can create branches. None of them may shadow a recorded commit id.
#[test]
fn commit_id_wins_over_a_branch_of_the_same_name() {
    for world in World::both() {
        let first = world.id("HEAD");
        let second = world.write("b", "b\n").commit("More");
        world.run(&["update-ref", &format!("refs/heads/{first}"), &second]);
        let repository = world.repository();
        assert_eq!(repository.commit_of(&first).unwrap(), Some(first.clone()));
        assert_eq!(repository.names_at(&first, "").unwrap(), ["a.txt", "src"]);
    }
}
